"""The native engine: fills the engine's struct from a plan and calls the library. The only file that loads it.

What depends on the plan and on the strides is packed once and kept; a call then copies those bytes and writes the
addresses.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import convgrad
from convgrad.core import dtypes
from convgrad.core.arrays import AnyArray
from convgrad.core.geometry import Contraction
from convgrad.core.plan import Plan, Result
from convgrad.core.problem import AxisOrder

ABI_VERSION = 2

# struct cg_problem of native/include/convgrad.h: sizes, then seven tensors (the address first), then four numbers.
_SIZES = struct.Struct("=22q")
_TENSOR = struct.Struct("=Qii5q")
_TAIL = struct.Struct("=4i")
_ADDRESS = struct.Struct("=Q")
_OPERANDS = 3
_TENSORS = ("fine", "coarse", "weight", Contraction.TO_FINE, Contraction.TO_COARSE, Contraction.TO_WEIGHT, None)
_OFFSETS = tuple(_SIZES.size + i * _TENSOR.size for i in range(len(_TENSORS)))
_THREADS_OFFSET = _OFFSETS[-1] + _TENSOR.size + 4
_BYTES = _OFFSETS[-1] + _TENSOR.size + _TAIL.size
_OUT_OF_MEMORY = 2
_CONTRACTIONS = {Contraction.TO_FINE: 0, Contraction.TO_COARSE: 1, Contraction.TO_WEIGHT: 2, None: 3}
_THREAD_NUMBER = struct.Struct("=i")

SomePlan = TypeVar("SomePlan", bound=Plan)


class LibraryError(OSError):
    """The engine's library is missing or of another version."""


# ---- the library -------------------------------------------------------------------------------------------


@cache
def library_path() -> Path | None:
    """Where the library lies: an editable install spreads the package over two directories."""
    for directory in convgrad.__path__:
        candidate = Path(directory) / "_lib" / "libconvgrad.so"
        if candidate.is_file():
            return candidate
    return None


@cache
def library() -> ctypes.CDLL:
    """The loaded library with its functions declared."""
    path = library_path()
    if path is None:
        raise LibraryError("libconvgrad.so is not beside the package; build it with `pip install .`")
    lib = ctypes.CDLL(str(path))
    if lib.cg_abi_version() != ABI_VERSION:
        raise LibraryError(f"{path} has ABI version {lib.cg_abi_version()}, this package needs {ABI_VERSION}")
    address, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("cg_run", number, (address,)),
        ("cg_workspace_bytes", ctypes.c_int64, (address,)),
        ("cg_last_error", ctypes.c_char_p, ()),
        ("cg_may_overlap_itself", number, (number, address, address, ctypes.c_int64)),
        ("cg_default_threads", number, ()),
        ("cg_borrow_threads", None, (address,)),
        ("cg_isa_name", ctypes.c_char_p, ()),
        ("cg_path_name", ctypes.c_char_p, (number,)),
        ("cg_path_condition", ctypes.c_char_p, (number,)),
        ("cg_path_accepts", number, (address, number, number)),
        ("cg_choose_path", number, (address, number)),
        ("cg_load", number, (address, ctypes.c_int64, address)),
        ("cg_store", number, (address, ctypes.c_int64, address)),
        ("cg_round", number, (number, address, address, ctypes.c_int64)),
    ):
        function = getattr(lib, name, None)
        if function is None:
            raise LibraryError(f"{path} has no {name}: it was built from other sources, build it again")
        function.restype, function.argtypes = result, arguments
    return lib


@cache
def available() -> bool:
    """Whether the library can be loaded here."""
    try:
        library()
    except OSError:
        return False
    return True


def isa() -> str:
    """The instruction set in use."""
    return str(library().cg_isa_name().decode())


def default_threads() -> int:
    """CONVGRAD_NUM_THREADS, else OMP_NUM_THREADS, else the cores this process may use."""
    return int(library().cg_default_threads())


def borrow_threads(team: int | None) -> None:
    """The engine computes on the threads of another runtime: `team` is the address of its GOMP_parallel."""
    library().cg_borrow_threads(team)


@cache
def path_names() -> tuple[str, ...]:
    """The engine's paths; number 0 lets it choose."""
    names: list[str] = []
    while (name := library().cg_path_name(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


# ---- a plan as the engine's struct -------------------------------------------------------------------------


def _element_strides(array: AnyArray, order: AxisOrder) -> tuple[int, ...]:
    size = array.itemsize
    return tuple(0 if axis is None else array.strides[axis] // size for axis in order)


def _sizes(plan: Plan) -> bytes:
    g = plan.problem.geometry
    columns = ("fine", "coarse", "window", "stride", "dilation", "pad_low")
    per_axis = (getattr(axis, name) for name in columns for axis in g.axes)
    return _SIZES.pack(g.batch, g.groups, g.fine_channels // g.groups, g.coarse_channels // g.groups, *per_axis)


@dataclass(frozen=True, slots=True)
class _Template:
    """The struct of one plan for tensors of certain strides; only addresses and threads are missing."""

    image: bytes
    places: tuple[int, ...]
    """Where the address of each array goes, in the order of `_arrays`."""


def _arrays(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray],
) -> list[AnyArray | None]:
    return [fine, coarse, weight, *(results[step.result] for step in plan.steps)]


def _template(plan: Plan, arrays: Sequence[AnyArray | None], path: int) -> _Template:
    problem = plan.problem
    r = problem.request
    fine_spec, coarse_spec = (r.grad_output, r.input) if problem.transposed else (r.input, r.grad_output)
    specs = (fine_spec, coarse_spec, r.weight)
    image = bytearray(_BYTES)
    image[: _SIZES.size] = _sizes(plan)
    code = {row.name: row.engine_code for row in dtypes.ALL}
    places: list[int] = []
    for slot, (array, spec) in enumerate(zip(arrays[:_OPERANDS], specs, strict=True)):
        places.append(_OFFSETS[slot])
        if array is not None and spec is not None:
            order = problem.weight_order if slot == 2 else problem.data_order
            strides = _element_strides(array, order)
            _TENSOR.pack_into(image, _OFFSETS[slot], 0, code[spec.dtype], code[plan.operand], *strides)
    for step, array in zip(plan.steps, arrays[_OPERANDS:], strict=True):
        place = _OFFSETS[_TENSORS.index(step.contraction)]
        places.append(place)
        assert array is not None
        if step.result is Result.GRAD_BIAS:
            strides = (0, array.strides[0] // array.itemsize, 0, 0, 0)
        else:
            weighty = step.result is Result.GRAD_WEIGHT
            strides = _element_strides(array, problem.weight_order if weighty else problem.data_order)
        _TENSOR.pack_into(image, place, 0, code[step.stored_as], code[step.rounded_to], *strides)
    _TAIL.pack_into(image, _OFFSETS[-1] + _TENSOR.size, int(problem.transposed), 0, path, 0)
    return _Template(bytes(image), tuple(places))


# Templates by plan (its identity: a plan is immutable and kept alive here) and strides.
_templates: dict[tuple[Any, ...], tuple[Plan, _Template]] = {}
_MOST_TEMPLATES = 4096


def run(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray], *, threads: int | None = None, path: int = 0,
) -> None:
    """Computes every step of `plan` into `results`; `path` forces one of the engine's paths."""
    arrays = _arrays(plan, fine, coarse, weight, results)
    addresses = []
    key: list[Any] = [id(plan), path]
    for array in arrays:
        if array is None:
            addresses.append(0)
            continue
        interface = array.__array_interface__
        address = interface["data"][0]
        addresses.append(address)
        key.append(interface["strides"])
        if address % array.itemsize or not array.dtype.isnative:
            return _run_on_copies(plan, arrays, threads, path)
    found = _templates.get(tuple(key))
    if found is None:
        if any(s % a.itemsize for a in arrays if a is not None for s in a.strides):
            return _run_on_copies(plan, arrays, threads, path)
        if len(_templates) >= _MOST_TEMPLATES:
            _templates.clear()
        found = _templates[tuple(key)] = (plan, _template(plan, arrays, path))
    template = found[1]
    image = bytearray(template.image)
    for place, address in zip(template.places, addresses, strict=True):
        _ADDRESS.pack_into(image, place, address)
    if threads is not None:
        _THREAD_NUMBER.pack_into(image, _THREADS_OFFSET, threads)
    status = library().cg_run(bytes(image))
    if status != 0:
        fail(status, plan)


def fail(status: int, plan: Plan) -> None:
    """Raises what a failed call of the library means."""
    message = f"{library().cg_last_error().decode()} [{plan.problem.line}]"
    raise MemoryError(message) if status == _OUT_OF_MEMORY else AssertionError(message)


def _run_on_copies(plan: Plan, arrays: Sequence[AnyArray | None], threads: int | None, path: int) -> None:
    """Elements off their alignment, of the other byte order, or a fraction of an element apart: copied first."""
    copies = [None if a is None else np.array(a, dtype=a.dtype.newbyteorder("="), order="C") for a in arrays]
    given = {step.result: copy for step, copy in zip(plan.steps, copies[_OPERANDS:], strict=True) if copy is not None}
    run(plan, copies[0], copies[1], copies[2], given, threads=threads, path=path)
    for original, copy in zip(arrays[_OPERANDS:], copies[_OPERANDS:], strict=True):
        if original is not None:
            original[...] = copy


# ---- what a plan prints ------------------------------------------------------------------------------------


def image_of_arrays(
    plan: Plan, fine: AnyArray, coarse: AnyArray, weight: AnyArray, results: Mapping[Result, AnyArray]
) -> bytes:
    """The struct for tensors of these strides, without their addresses."""
    return _template(plan, _arrays(plan, fine, coarse, weight, results), 0).image


def image_of_shapes(plan: Plan) -> bytearray:
    """The struct for contiguous tensors at addresses that are never read."""
    problem = plan.problem
    r = problem.request
    fine, coarse = (r.grad_output, r.input) if problem.transposed else (r.input, r.grad_output)
    specs = [fine, coarse, r.weight]
    by_result = {
        Result.GRAD_INPUT: r.grad_input, Result.GRAD_WEIGHT: r.grad_weight, Result.GRAD_BIAS: r.grad_bias,
        Result.OUTPUT: r.grad_output,
    }
    specs += [by_result[step.result] for step in plan.steps]
    shapes = [() if spec is None else spec.shape for spec in specs]
    arrays = [_Shaped(shape) for shape in shapes]
    template = _template(plan, arrays, 0)  # type: ignore[arg-type]
    image = bytearray(template.image)
    for place, shape in zip(template.places, shapes, strict=True):
        _ADDRESS.pack_into(image, place, 64 if shape else 0)
    return image


def cut_at_addresses(image: bytes | bytearray) -> tuple[struct.Struct, tuple[bytes, ...]]:
    """The struct's bytes between its seven addresses, and what packs them together again."""
    edges = [0, *(place + edge for place in _OFFSETS for edge in (0, _ADDRESS.size)), _BYTES]
    between = tuple(bytes(image[begin:end]) for begin, end in zip(edges[::2], edges[1::2], strict=True))
    return struct.Struct("=" + "Q".join(f"{len(part)}s" for part in between)), between


class _Shaped:
    """Stands for a contiguous array of a shape: what `_template` asks of one."""

    itemsize = 1

    def __init__(self, shape: tuple[int, ...]) -> None:
        strides = []
        step = 1
        for extent in reversed(shape):
            strides.append(step)
            step *= max(extent, 1)
        self.strides = tuple(reversed(strides))


def prepared(plan: SomePlan) -> SomePlan:
    """The plan with the path of each step and the workspace the engine will hold."""
    if plan.problem.empty:
        return plan
    image = (ctypes.c_char * _BYTES).from_buffer(image_of_shapes(plan))
    address = ctypes.addressof(image)
    lib = library()
    names = path_names()
    chosen = [lib.cg_choose_path(address, _CONTRACTIONS[step.contraction]) for step in plan.steps]
    paths = tuple(
        "line sums" if step.contraction is None else names[number]
        for step, number in zip(plan.steps, chosen, strict=True)
    )
    return replace(plan, paths=paths, workspace_bytes=max(0, int(lib.cg_workspace_bytes(address))))
