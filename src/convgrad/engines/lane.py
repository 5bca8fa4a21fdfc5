"""The short way through the native engine: contiguous operands of the planned shapes in, fresh results out.

A small problem is computed in a microsecond; what Python does around it must not cost ten. A lane holds all that a
plan knows in advance, and a call does no more than prove the operands, make the results and pack the engine's struct.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import numpy as np

from convgrad import rounding
from convgrad.arrays import AnyArray
from convgrad.engines import native
from convgrad.planning import Plan, Result
from convgrad.request import TensorSpec

# An array object begins with what every object has, then the address of its data: PyArray_DATA, compiled into every
# extension module, reads it there. `__array_interface__` says the same in ten times the time.
_HEADER = object.__basicsize__
_number_at = ctypes.c_size_t.from_address
_Array, _empty = np.ndarray, np.empty


@cache
def _data_follows_header() -> bool:
    """Whether arrays of this interpreter are laid out so: seen on a few before it is relied on."""
    if sys.implementation.name != "cpython":
        return False
    arrays = [np.empty(size, np.uint8) for size in (1, 100, 10_000)]
    return all(_number_at(id(a) + _HEADER).value == a.__array_interface__["data"][0] for a in arrays)


class Lane:
    """Everything a call needs that the plan already knows."""

    __slots__ = ("_alignment", "_between", "_cg_run", "_dtypes", "_pack", "_results", "_shapes", "_transposed", "plan")

    def __init__(self, plan: Plan, operands: tuple[TensorSpec, TensorSpec, TensorSpec]) -> None:
        self.plan = plan
        self._cg_run = native.library().cg_run
        self._transposed = plan.problem.transposed
        g, x, w = operands
        storage = [rounding.storage(spec.dtype) for spec in operands]
        self._shapes = (g.shape, x.shape, w.shape)
        self._dtypes = (storage[0], storage[1], storage[2])
        self._alignment = max(dtype.itemsize for dtype in storage)
        r = plan.problem.request
        results = {Result.GRAD_INPUT: r.grad_input, Result.GRAD_WEIGHT: r.grad_weight, Result.GRAD_BIAS: r.grad_bias}
        places = list(results)
        # (place in the answer, shape, dtype) of each result that is wanted
        self._results = tuple(
            (places.index(step.result), spec.shape, rounding.storage(step.stored_as))
            for step in plan.steps if (spec := results[step.result]) is not None
        )
        form, self._between = native.cut_at_addresses(native.image_of_shapes(plan))
        self._pack = form.pack

    def run(self, grad_output: object, input: object, weight: object) -> list[AnyArray | None] | None:
        """grad_input, grad_weight, grad_bias; None when these tensors need the long way."""
        if type(grad_output) is not _Array or type(input) is not _Array or type(weight) is not _Array:
            return None
        if (
            (grad_output.shape, input.shape, weight.shape) != self._shapes
            or (grad_output.dtype, input.dtype, weight.dtype) != self._dtypes
            or not (grad_output.flags.c_contiguous and input.flags.c_contiguous and weight.flags.c_contiguous)
        ):
            return None
        g = _number_at(id(grad_output) + _HEADER).value
        x = _number_at(id(input) + _HEADER).value
        w = _number_at(id(weight) + _HEADER).value
        if (g | x | w) % self._alignment:
            return None
        out: list[AnyArray | None] = [None, None, None]
        at = [0, 0, 0]
        for place, shape, dtype in self._results:
            fresh = out[place] = _empty(shape, dtype)
            at[place] = _number_at(id(fresh) + _HEADER).value
        dx, dw, db = at
        fine, coarse, to_fine, to_coarse = (g, x, 0, dx) if self._transposed else (x, g, dx, 0)
        a, b, c, d, e, f, h, tail = self._between
        status = self._cg_run(self._pack(a, fine, b, coarse, c, w, d, to_fine, e, to_coarse, f, dw, h, db, tail))
        if status != 0:
            native.fail(status, self.plan)
        return out


# Lanes by the identity of their plan, which a lane keeps alive: its number cannot be given to another one.
_lanes: dict[int, Lane] = {}
_MOST_LANES = 4096


def lane(plan: Plan) -> Lane | None:
    """The short way of a plan, kept; None where a plan has none (nothing to compute, or tensors NumPy cannot name)."""
    known = _lanes.get(id(plan))
    return known if known is not None else _made(plan)


def _made(plan: Plan) -> Lane | None:
    r = plan.problem.request
    if plan.problem.empty or r.forward or not native.available() or not _data_follows_header():
        return None
    if r.grad_output is None or r.input is None or r.weight is None:
        return None
    operands = (r.grad_output, r.input, r.weight)
    if "hifloat8" in {*(spec.dtype for spec in operands), *(step.stored_as for step in plan.steps)}:
        return None
    if len(_lanes) >= _MOST_LANES:
        _lanes.clear()
    made = _lanes[id(plan)] = Lane(plan, operands)
    return made
