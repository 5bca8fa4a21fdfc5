"""The native engine: runs plans through the library, and tells which of its paths they take."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from convgrad.core.arrays import AnyArray
from convgrad.core.bounded import Bounded
from convgrad.core.geometry import Contraction
from convgrad.core.plan import Plan, Result
from convgrad.engines.library import fail, library, path_names
from convgrad.engines.problem_struct import OPERANDS, Packed, fill, pack, pack_shapes, tensors_of

_CONTRACTIONS = {Contraction.TO_FINE: 0, Contraction.TO_COARSE: 1, Contraction.TO_WEIGHT: 2, None: 3}

SomePlan = TypeVar("SomePlan", bound=Plan)

# By plan (its identity: a plan is immutable and kept alive here) and strides.
_packed: Bounded[tuple[Any, ...], tuple[Plan, Packed]] = Bounded(4096)


def run(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray], *, threads: int | None = None, path: int = 0,
) -> None:
    """Computes every step of `plan` into `results`; `path` forces one of the engine's paths."""
    arrays = tensors_of(plan, fine, coarse, weight, results)
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
    found = _packed.get(tuple(key))
    if found is None:
        if any(s % a.itemsize for a in arrays if a is not None for s in a.strides):
            return _run_on_copies(plan, arrays, threads, path)
        found = _packed.keep(tuple(key), (plan, pack(plan, arrays, path)))
    run_packed(plan, found[1], addresses, threads)


def run_packed(plan: Plan, packed: Packed, addresses: Sequence[int], threads: int | None) -> None:
    """Computes every step of `plan` for tensors at these addresses, in the order of `tensors_of`."""
    status = library().cg_run(bytes(fill(packed, addresses, threads)))
    if status != 0:
        fail(status, plan)


def packed_for(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray],
) -> Packed | None:
    """The struct of a plan for arrays of these strides; None where elements lie a fraction of an element apart."""
    arrays = tensors_of(plan, fine, coarse, weight, results)
    if any(s % a.itemsize for a in arrays if a is not None for s in a.strides):
        return None
    return pack(plan, arrays)


def _run_on_copies(plan: Plan, arrays: Sequence[AnyArray | None], threads: int | None, path: int) -> None:
    """Elements off their alignment, of the other byte order, or a fraction of an element apart: copied first."""
    copies = [None if a is None else np.array(a, dtype=a.dtype.newbyteorder("="), order="C") for a in arrays]
    given = {step.result: copy for step, copy in zip(plan.steps, copies[OPERANDS:], strict=True) if copy is not None}
    run(plan, copies[0], copies[1], copies[2], given, threads=threads, path=path)
    for original, copy in zip(arrays[OPERANDS:], copies[OPERANDS:], strict=True):
        if original is not None:
            original[...] = copy


# ---- which paths a plan takes ------------------------------------------------------------------------------


def prepared(plan: SomePlan) -> SomePlan:
    """The plan with the path of each step and the workspace the engine will hold, for contiguous tensors."""
    if plan.problem.empty:
        return plan
    image = pack_shapes(plan)
    memory = (ctypes.c_char * len(image)).from_buffer(image)
    workspace = max(0, int(library().cg_workspace_bytes(ctypes.addressof(memory))))
    return replace(plan, paths=_paths(plan, image), workspace_bytes=workspace)


def paths_of(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray],
) -> tuple[str, ...]:
    """The path each step takes for these very tensors: their strides count, see `cg_path_condition`."""
    arrays = tensors_of(plan, fine, coarse, weight, results)
    return _paths(plan, fill(pack(plan, arrays), [0 if a is None else 64 for a in arrays]))


def _paths(plan: Plan, image: bytearray) -> tuple[str, ...]:
    memory = (ctypes.c_char * len(image)).from_buffer(image)
    names = path_names()
    chosen = [library().cg_choose_path(ctypes.addressof(memory), _CONTRACTIONS[s.contraction]) for s in plan.steps]
    return tuple(
        "line sums" if step.contraction is None else names[number]
        for step, number in zip(plan.steps, chosen, strict=True)
    )
