"""What one task does: put a block's operands together, run the engine on them, hand on the result.

Tasks are pure functions of their arguments, so a retry gives the same bits.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from dataclasses import dataclass

import numpy as np

from convgrad import engines
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray, as_array
from convgrad.core.partition import Range
from convgrad.core.plan import Plan, Step
from convgrad.core.status import ConvGradError

Place = tuple[Range, ...]
"""A box: one range per axis."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """How an operand is put together from pieces of neighbouring chunks."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One engine call: its own small plan (one step), its operands, and where in the result its part lies."""

    plan: Plan
    fine: Assembly | None
    coarse: Assembly | None
    weight: Assembly | None
    shape: tuple[int, ...]
    written: Place
    """The rest of the result is tied to nothing: zero."""


def piece(chunk: object, name: str, place: Place) -> AnyArray:
    """A part of a chunk, copied so that the chunk itself can be let go."""
    return np.ascontiguousarray(as_array(chunk, name)[_index(place)])


def run_block(
    block: Block, threads: int | None, fine: list[object], coarse: list[object], weight: list[object]
) -> AnyArray:
    """The result of one block."""
    (step,) = block.plan.steps
    x, y, w = (
        None if made is None else _assembled(made, pieces, block.plan)
        for made, pieces in ((block.fine, fine), (block.coarse, coarse), (block.weight, weight))
    )
    whole = all(r == (0, size) for r, size in zip(block.written, block.shape, strict=True))
    out = (np.empty if whole else np.zeros)(block.shape, rounding.storage(step.stored_as))
    engines.run(block.plan, x, y, w, {step.result: out[_index(block.written)]}, threads=threads or cores())
    return out


def add(one: AnyArray, other: AnyArray) -> AnyArray:
    """A node of the summation tree."""
    with np.errstate(all="ignore"):
        return np.asarray(one + other)


def finish(step: Step, total: AnyArray) -> AnyArray:
    """The sum, rounded as the plan says."""
    rounded = rounding.round_to(dtypes.find(step.rounded_to), total)
    return rounding.store(dtypes.find(step.stored_as), rounded)


def cores() -> int:
    """Engine threads of the task that asks: one when it is one of many, all cores when it runs alone.

    Schedulers run tasks side by side in pool threads or in child processes, one per core; only the synchronous
    scheduler runs them in the main thread of the main process.
    """
    alone = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
    return available_cores() if alone else 1


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _assembled(made: Assembly, chunks: list[object], plan: Plan) -> AnyArray:
    dtype = rounding.storage(made.dtype)
    pieces = [np.asarray(as_array(chunk, made.name)) for chunk in chunks]  # chunks may be masked, or not NumPy's at all
    for got, place in zip(pieces, made.places, strict=True):
        shape = tuple(stop - start for start, stop in place)
        if got.shape != shape or got.dtype != dtype:
            raise ConvGradError(
                f"{made.name}: a chunk of {got.shape} {got.dtype} came where its dask array promised {shape} {dtype}",
                rule=f"{made.name}.chunks", value=got.shape, line=plan.problem.line,
            )
    if len(pieces) == 1:
        return pieces[0]
    out = np.empty(made.shape, dtype)
    for got, place in zip(pieces, made.places, strict=True):
        out[_index(place)] = got
    return out


def _index(place: Place) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in place)
