"""The short way through the native engine: plain arrays of the planned shapes in, results out, fresh or given.

A small problem is computed in a microsecond; what Python does around it must not cost ten. A QuickCall holds all that
a plan knows in advance, and a call does no more than prove the arrays, make the results and pack the engine's struct.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from convgrad.core import rounding
from convgrad.core.arrays import AnyArray, is_channels_last, may_overlap_itself
from convgrad.core.bounded import Bounded
from convgrad.core.plan import Plan, Result
from convgrad.core.request import TensorSpec
from convgrad.engines import result_memory
from convgrad.engines.library import available, fail, library
from convgrad.engines.problem_struct import cut_at_addresses, pack, pack_shapes, tensors_of

# An array object begins with what every object has, then the address of its data: PyArray_DATA, compiled into every
# extension module, reads it there. `__array_interface__` says the same in ten times the time.
_HEADER = object.__basicsize__
_number_at = ctypes.c_size_t.from_address
_Array = np.ndarray
_SEQUENCES = (list, tuple)
_MOST_FORMS = 64
_UNKNOWN: Any = object()


@cache
def _data_follows_header() -> bool:
    """Whether arrays of this interpreter are laid out so: seen on a few before it is relied on."""
    if sys.implementation.name != "cpython":
        return False
    arrays = [np.empty(size, np.uint8) for size in (1, 100, 10_000)]
    return all(_number_at(id(a) + _HEADER).value == a.__array_interface__["data"][0] for a in arrays)


Maker = tuple[int, tuple[int, ...], Any, Callable[[], AnyArray]]
"""A wanted result's place in the answer, its shape and dtype, and what makes a fresh array for it."""
Form = tuple[Callable[..., bytes], tuple[bytes, ...], tuple[tuple[int, int], ...], tuple[Maker, ...]]
"""What packs the engine's struct, its bytes between the addresses, from where to where each array reaches, results."""


class QuickCall:
    """Everything a call needs that the plan already knows."""

    __slots__ = (
        "_alignment", "_apart", "_cg_run", "_contiguous", "_dtypes", "_forms", "_last", "_results", "_shapes",
        "_transposed", "plan",
    )  # fmt: skip

    def __init__(self, plan: Plan, operands: tuple[TensorSpec, TensorSpec, TensorSpec]) -> None:
        self.plan = plan
        self._cg_run = library().cg_run
        self._transposed = plan.problem.transposed
        g, x, w = operands
        storage = [rounding.storage(spec.dtype) for spec in operands]
        self._shapes = (g.shape, x.shape, w.shape)
        self._dtypes = (storage[0], storage[1], storage[2])
        r = plan.problem.request
        results = {Result.GRAD_INPUT: r.grad_input, Result.GRAD_WEIGHT: r.grad_weight, Result.GRAD_BIAS: r.grad_bias}
        places = list(results)
        # (place in the answer, which result, shape, dtype) of each result that is wanted
        self._results = tuple(
            (places.index(step.result), step.result, spec.shape, rounding.storage(step.stored_as))
            for step in plan.steps if (spec := results[step.result]) is not None
        )
        self._alignment = max(dtype.itemsize for dtype in (*storage, *(row[3] for row in self._results)))
        packer, between = cut_at_addresses(pack_shapes(plan))
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in zip(self._shapes, storage, strict=True)]
        ends = [0, 0, 0]
        for place, _, shape, dtype in self._results:
            ends[place] = prod(shape) * dtype.itemsize
        spans = tuple((0, end) for end in (*sizes, *ends))
        self._contiguous: Form = (packer.pack, between, spans, self._makers((False, False, False)))
        self._forms: Bounded[tuple[Any, ...], Form | None] = Bounded(_MOST_FORMS)
        self._last: tuple[tuple[Any, ...], Form | None] = ((), None)  # of operands, and results made for them
        self._apart: tuple[Any, ...] = ()  # addresses and reach of the last arrays that were seen to share no byte

    def _makers(self, channels_last: tuple[bool, bool, bool]) -> tuple[Maker, ...]:
        makers: list[Maker] = []
        for place, _, shape, dtype in self._results:
            last = channels_last[place]
            make: Callable[[], AnyArray] = partial(result_memory.empty, shape, dtype, last)
            if prod(shape) * dtype.itemsize <= result_memory.RECYCLED_ANYWAY:  # the same, sooner
                in_order = partial(np.empty, shape, dtype)
                make = partial(_Array, shape, dtype, None, 0, make().strides) if last else in_order
            makers.append((place, shape, dtype, make))
        return tuple(makers)

    def run(self, grad_output: object, input: object, weight: object, out: object) -> list[AnyArray | None] | None:
        """grad_input, grad_weight, grad_bias; None when these tensors need the long way."""
        if type(grad_output) is not _Array or type(input) is not _Array or type(weight) is not _Array:
            return None
        if (grad_output.shape, input.shape, weight.shape) != self._shapes or (
            grad_output.dtype, input.dtype, weight.dtype,
        ) != self._dtypes:
            return None
        plain = grad_output.flags.c_contiguous and input.flags.c_contiguous and weight.flags.c_contiguous
        if plain:
            form: Form | None = self._contiguous
        else:
            key = (grad_output.strides, input.strides, weight.strides)
            last_key, form = self._last  # strides are compared sooner than looked up
            if key != last_key:
                form = self._forms.get(key, _UNKNOWN)
                if form is _UNKNOWN:
                    form = self._with_fresh_results(key, grad_output, input, weight)
                self._last = key, form
        if form is None:
            return None
        pack, between, spans, makers = form
        g = _number_at(id(grad_output) + _HEADER).value
        x = _number_at(id(input) + _HEADER).value
        w = _number_at(id(weight) + _HEADER).value
        results: list[AnyArray | None] = [None, None, None]
        at = [0, 0, 0]
        if out is None:
            for place, _, _, make in makers:
                fresh = results[place] = make()
                at[place] = _number_at(id(fresh) + _HEADER).value
        else:
            if type(out) not in _SEQUENCES or len(out) != 3:  # type: ignore[arg-type]
                return None
            given = list(out)  # type: ignore[call-overload]
            for place, shape, dtype, make in makers:
                buffer, given[place] = given[place], None
                if buffer is None:
                    buffer = make()
                elif type(buffer) is not _Array or (buffer.shape, buffer.dtype) != (shape, dtype):
                    return None
                flags = buffer.flags
                if not flags.writeable:
                    return None
                plain = plain and flags.c_contiguous
                results[place] = buffer
                at[place] = _number_at(id(buffer) + _HEADER).value
            first, second, third = given
            if first is not None or second is not None or third is not None:  # a buffer for what is not wanted
                return None
            if not plain:
                form = self._with_given_results(grad_output, input, weight, results)
                if form is None:
                    return None
                pack, between, spans, _ = form
        dx, dw, db = at
        if (g | x | w | dx | dw | db) % self._alignment:
            return None
        if out is not None:
            places = g, x, w, dx, dw, db, spans
            if places != self._apart:
                if _touch((g, x, w), at, spans):
                    return None
                self._apart = places
        fine, coarse, to_fine, to_coarse = (g, x, 0, dx) if self._transposed else (x, g, dx, 0)
        a, b, c, d, e, f, h, tail = between
        status = self._cg_run(pack(a, fine, b, coarse, c, w, d, to_fine, e, to_coarse, f, dw, h, db, tail))
        if status != 0:
            fail(status, self.plan)
        return results

    def _with_fresh_results(self, key: tuple[Any, ...], g: AnyArray, x: AnyArray, w: AnyArray) -> Form | None:
        """The form of operands with these strides, kept; their gradients are made as they lie."""
        makers = self._makers((is_channels_last(x), is_channels_last(w), False))
        results: list[AnyArray | None] = [None, None, None]
        for place, _, _, make in makers:
            results[place] = make()
        return self._forms.keep(key, self._form(g, x, w, results, makers))

    def _with_given_results(self, g: AnyArray, x: AnyArray, w: AnyArray, results: list[AnyArray | None]) -> Form | None:
        """The form of operands and results with these strides, kept."""
        key = (g.strides, x.strides, w.strides, *(None if r is None else r.strides for r in results))
        known: Form | None = self._forms.get(key, _UNKNOWN)
        return known if known is not _UNKNOWN else self._forms.keep(key, self._form(g, x, w, results, ()))

    def _form(
        self, g: AnyArray, x: AnyArray, w: AnyArray, results: list[AnyArray | None], makers: tuple[Maker, ...]
    ) -> Form | None:
        """None for arrays that the engine does not take as they are."""
        made = [r for r in results if r is not None]
        if any(s % a.itemsize for a in (g, x, w, *made) for s in a.strides) or any(
            may_overlap_itself(a.shape, a.strides, a.itemsize) for a in made  # written over and over
        ):
            return None
        fine, coarse = (g, x) if self._transposed else (x, g)
        by_result = {result: a for place, result, _, _ in self._results if (a := results[place]) is not None}
        packed = pack(self.plan, tensors_of(self.plan, fine, coarse, w, by_result))
        packer, between = cut_at_addresses(packed.image)
        spans = tuple((0, 0) if a is None else _span(a) for a in (g, x, w, *results))
        return packer.pack, between, spans, makers


def _span(array: AnyArray) -> tuple[int, int]:
    """The first byte of an array and the one after its last, counted from its address."""
    reaches = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + array.itemsize


def _touch(operands: tuple[int, int, int], results: list[int], spans: tuple[tuple[int, int], ...]) -> bool:
    """Whether a result lies among the bytes of an operand or of another result: the long way knows if that matters."""
    taken = [(address + low, address + high) for address, (low, high) in zip(operands, spans, strict=False)]
    for address, (low, high) in zip(results, spans[3:], strict=True):
        if address == 0:
            continue
        begin, end = address + low, address + high
        for other_begin, other_end in taken:
            if begin < other_end and other_begin < end:
                return True
        taken.append((begin, end))
    return False


# By the identity of their plan, which a quick call keeps alive: its number cannot be given to another one.
_calls: Bounded[int, QuickCall] = Bounded(4096)


def quick_call(plan: Plan) -> QuickCall | None:
    """The quick call of a plan, kept; None for plans of nothing, of other sums, of tensors NumPy cannot name."""
    known = _calls.get(id(plan))
    return known if known is not None else _first(plan)


def _first(plan: Plan) -> QuickCall | None:
    r = plan.problem.request
    if plan.problem.empty or r.forward or plan.winograd or not available() or not _data_follows_header():
        return None
    if r.grad_output is None or r.input is None or r.weight is None:
        return None
    operands = (r.grad_output, r.input, r.weight)
    if "hifloat8" in {*(spec.dtype for spec in operands), *(step.stored_as for step in plan.steps)}:
        return None
    return _calls.keep(id(plan), QuickCall(plan, operands))
