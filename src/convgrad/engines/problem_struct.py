"""A plan as the engine's struct, cg_problem of native/include/convgrad.h: the only place where its bytes are packed.

What depends on the plan and on the strides is packed once; a call then writes the addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convgrad.core import dtypes
from convgrad.core.arrays import AnyArray
from convgrad.core.geometry import Contraction
from convgrad.core.plan import Plan, Result
from convgrad.core.problem import AxisOrder
from convgrad.core.request import ALGORITHMS

# struct cg_problem of native/include/convgrad.h: sizes, then seven tensors (the address first), then six numbers.
_SIZES = struct.Struct("=22q")
_TENSOR = struct.Struct("=Qii5q")
_TAIL = struct.Struct("=6i")
_ADDRESS = struct.Struct("=Q")
OPERANDS = 3
_TENSORS = ("fine", "coarse", "weight", Contraction.TO_FINE, Contraction.TO_COARSE, Contraction.TO_WEIGHT, None)
_OFFSETS = tuple(_SIZES.size + i * _TENSOR.size for i in range(len(_TENSORS)))
_THREADS_OFFSET = _OFFSETS[-1] + _TENSOR.size + 4
_BYTES = _OFFSETS[-1] + _TENSOR.size + _TAIL.size
_THREAD_NUMBER = struct.Struct("=i")


def _element_strides(array: AnyArray, order: AxisOrder) -> tuple[int, ...]:
    size = array.itemsize
    return tuple(0 if axis is None else array.strides[axis] // size for axis in order)


def _sizes(plan: Plan) -> bytes:
    g = plan.problem.geometry
    columns = ("fine", "coarse", "window", "stride", "dilation", "pad_low")
    per_axis = (getattr(axis, name) for name in columns for axis in g.axes)
    return _SIZES.pack(g.batch, g.groups, g.fine_channels // g.groups, g.coarse_channels // g.groups, *per_axis)


@dataclass(frozen=True, slots=True)
class Packed:
    """The struct of one plan for tensors of certain strides; only addresses and threads are missing."""

    image: bytes
    places: tuple[int, ...]
    """Where the address of each array goes, in the order of `tensors_of`."""


def tensors_of(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray],
) -> list[AnyArray | None]:
    """The arrays of a call in the order in which they are packed: operands, then the results of the steps."""
    return [fine, coarse, weight, *(results[step.result] for step in plan.steps)]


def pack(plan: Plan, arrays: Sequence[AnyArray | None], path: int = 0) -> Packed:
    """The struct of a plan for arrays of these strides; `path` forces one of the engine's paths."""
    problem = plan.problem
    r = problem.request
    fine_spec, coarse_spec = (r.grad_output, r.input) if problem.transposed else (r.input, r.grad_output)
    specs = (fine_spec, coarse_spec, r.weight)
    image = bytearray(_BYTES)
    image[: _SIZES.size] = _sizes(plan)
    code = {row.name: row.engine_code for row in dtypes.ALL}
    places: list[int] = []
    for slot, (array, spec) in enumerate(zip(arrays[:OPERANDS], specs, strict=True)):
        places.append(_OFFSETS[slot])
        if array is not None and spec is not None:
            order = problem.weight_order if slot == 2 else problem.data_order
            strides = _element_strides(array, order)
            _TENSOR.pack_into(image, _OFFSETS[slot], 0, code[spec.dtype], code[plan.operand], *strides)
    for step, array in zip(plan.steps, arrays[OPERANDS:], strict=True):
        place = _OFFSETS[_TENSORS.index(step.contraction)]
        places.append(place)
        assert array is not None
        if step.result is Result.GRAD_BIAS:
            strides = (0, array.strides[0] // array.itemsize, 0, 0, 0)
        else:
            weighty = step.result is Result.GRAD_WEIGHT
            strides = _element_strides(array, problem.weight_order if weighty else problem.data_order)
        _TENSOR.pack_into(image, place, 0, code[step.stored_as], code[step.rounded_to], *strides)
    algorithm = ALGORITHMS.index(r.algorithm)
    tail = (int(problem.transposed), 0, path, algorithm, r.deterministic, 0)
    _TAIL.pack_into(image, _OFFSETS[-1] + _TENSOR.size, *tail)
    return Packed(bytes(image), tuple(places))


def pack_shapes(plan: Plan) -> bytearray:
    """The struct for contiguous tensors at addresses that are never read."""
    problem = plan.problem
    r = problem.request
    fine, coarse = (r.grad_output, r.input) if problem.transposed else (r.input, r.grad_output)
    by_result = {
        Result.GRAD_INPUT: r.grad_input, Result.GRAD_WEIGHT: r.grad_weight, Result.GRAD_BIAS: r.grad_bias,
        Result.OUTPUT: r.grad_output,
    }
    specs = [fine, coarse, r.weight, *(by_result[step.result] for step in plan.steps)]
    shapes = [() if spec is None else spec.shape for spec in specs]
    packed = pack(plan, [Shaped(shape) for shape in shapes])  # type: ignore[misc]
    return fill(packed, [64 if shape else 0 for shape in shapes])


def fill(packed: Packed, addresses: Sequence[int], threads: int | None = None) -> bytearray:
    """The struct with the addresses of its arrays, and a number of threads."""
    image = bytearray(packed.image)
    for place, address in zip(packed.places, addresses, strict=True):
        _ADDRESS.pack_into(image, place, address)
    if threads is not None:
        _THREAD_NUMBER.pack_into(image, _THREADS_OFFSET, threads)
    return image


def cut_at_addresses(image: bytes | bytearray) -> tuple[struct.Struct, tuple[bytes, ...]]:
    """The struct's bytes between its seven addresses, and what packs them together again."""
    edges = [0, *(place + edge for place in _OFFSETS for edge in (0, _ADDRESS.size)), _BYTES]
    between = tuple(bytes(image[begin:end]) for begin, end in zip(edges[::2], edges[1::2], strict=True))
    return struct.Struct("=" + "Q".join(f"{len(part)}s" for part in between)), between


class Shaped:
    """Stands for a contiguous array of a shape: what `pack` asks of one."""

    itemsize = 1

    def __init__(self, shape: tuple[int, ...]) -> None:
        strides = []
        step = 1
        for extent in reversed(shape):
            strides.append(step)
            step *= max(extent, 1)
        self.strides = tuple(reversed(strides))
