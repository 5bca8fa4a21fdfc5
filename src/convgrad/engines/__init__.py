"""The one way to execute a plan: `run`. Which engine does it is decided here and nowhere else.

`CONVGRAD_ENGINE` forces one: `native` (the default where its library loads) or `reference`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.plan import Plan, Result
from convgrad.engines import library, native, reference, samples, winograd_950
from convgrad.engines.problem_struct import Packed
from convgrad.engines.quick_call import quick_call
from convgrad.text.terminal import UsageError

NAMES = ("native", "reference")

# What os.environ holds, from the process itself: looking there takes as long as a small problem. The interpreter's lock
# is kept meanwhile, so that no other Python thread changes it.
if sys.platform == "win32":  # no handle of the whole process there, and no native engine to be quick with

    def getenv(name: bytes) -> bytes | None:
        value = os.environ.get(name.decode())
        return None if value is None else value.encode()
else:
    getenv = ctypes.PyDLL(None).getenv
    getenv.restype, getenv.argtypes = ctypes.c_char_p, (ctypes.c_char_p,)


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Which engine computes, with which instructions, on how many threads."""

    engine: str
    isa: str
    threads: int
    library: str
    threadpool: str = ""
    """Whose threads: "own", or the path of the OpenMP runtime that PyTorch or another package brought along."""


def chosen() -> str:
    """Name of the engine in use."""
    asked = os.environ.get("CONVGRAD_ENGINE", "")
    if asked and asked not in NAMES:
        raise UsageError(f"CONVGRAD_ENGINE={asked!r}: use one of {', '.join(NAMES)}")
    return asked or ("native" if library.available() else "reference")


def info() -> EngineInfo:
    """What `convgrad.engine_info()` tells."""
    if chosen() == "reference":
        return EngineInfo("reference", "numpy", 1, "")
    threads, where = library.default_threads(), str(library.library_path())
    return EngineInfo("native", library.isa(), threads, where, library.threadpool())


def prepared(plan: Plan) -> Plan:
    """The plan with the engine's paths and workspace filled in."""
    return native.prepared(plan) if chosen() == "native" else plan


def paths_of(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray],
) -> tuple[str, ...]:
    """The path each step really takes for these tensors; `Plan.paths` tells that of contiguous ones."""
    if chosen() == "reference" or plan.problem.empty:
        return plan.paths
    return native.paths_of(plan, fine, coarse, weight, results)


def run(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray], *, threads: int | None = None, engine: str | None = None,
) -> None:
    """Writes every step of `plan` into `results`. Arrays have the plan's shapes and storage dtypes, any strides."""
    engine = engine or chosen()

    def directly(
        plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
        results: Mapping[Result, AnyArray],
    ) -> None:
        if plan.winograd and engine == "native":
            _run_winograd(plan, fine, coarse, weight, results, threads)
        # Plans without elements are zeros and the vendor's own exceptions: nothing to be fast at.
        elif plan.problem.empty or engine == "reference":
            reference.run(plan, fine, coarse, weight, results)
        else:
            native.run(plan, fine, coarse, weight, results, threads=threads)

    if plan.by_samples and (plan.winograd or plan.problem.empty or engine == "reference"):
        samples.run_by_samples(plan, fine, coarse, weight, results, directly)
    else:
        directly(plan, fine, coarse, weight, results)


def sample_gradients(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None, *, threads: int | None = None
) -> dict[Result, AnyArray]:
    """The leaves of level 3: the gradients of weight and bias of every sample, in the accumulator's dtype."""

    def alone(
        plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
        results: Mapping[Result, AnyArray],
    ) -> None:
        run(plan, fine, coarse, weight, results, threads=threads)

    return samples.leaves_of(plan, fine, coarse, weight, alone)


def packed_for(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray],
) -> Packed | None:
    """What `run_packed` runs again for other tensors of these strides; None for calls that only `run` knows."""
    if plan.winograd or plan.problem.empty or chosen() == "reference":
        return None
    return native.packed_for(plan, fine, coarse, weight, results)


def run_packed(plan: Plan, packed: Packed, addresses: Sequence[int], threads: int | None) -> bool:
    """As `run`, for whole elements at these addresses: operands (fine, coarse, weight), results by step."""
    if getenv(b"CONVGRAD_ENGINE") == b"reference":
        return False
    native.run_packed(plan, packed, addresses, threads)
    return True


def _run_winograd(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray], threads: int | None,
) -> None:
    """The weight gradient by the 950's own sums, the others as ever."""
    others = tuple(s for s in plan.steps if s.result is not Result.GRAD_WEIGHT)
    if others:
        native.run(replace(plan, steps=others, paths=()), fine, coarse, weight, results, threads=threads)
    assert fine is not None and coarse is not None
    flat = [np.asarray(reference.canonical(a, plan.problem.data_order)[:, :, 0], np.float32) for a in (fine, coarse)]
    _, h, w = plan.problem.geometry.axes
    sums = winograd_950.grad_weight(flat[0], flat[1], (h.pad_low, w.pad_low), winograd_950.by_engine(threads))
    results[Result.GRAD_WEIGHT][...] = reference.natural(sums[:, :, None], plan.problem.weight_order)


def run_quickly(
    plan: Plan, grad_output: object, input: object, weight: object, out: object = None
) -> list[AnyArray | None] | None:
    """The gradients of plain arrays as planned, in fresh arrays or in those of `out`; None: take the long way."""
    if getenv(b"CONVGRAD_ENGINE") == b"reference":
        return None
    quick = quick_call(plan)
    return None if quick is None else quick.run(grad_output, input, weight, out)


def run_forward(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray, bias: AnyArray | None,
    out: AnyArray, *, threads: int | None = None, engine: str | None = None,
) -> None:
    """Writes the forward pass; a bias joins the sum in the accumulator, before its one rounding."""
    if bias is None:
        run(plan, fine, coarse, weight, {Result.OUTPUT: out}, threads=threads, engine=engine)
        return
    (step,) = plan.steps
    accumulator = plan.accumulate.value
    unrounded = replace(plan, steps=(replace(step, rounded_to=accumulator, stored_as=accumulator),))
    total = np.empty(out.shape, accumulator)
    run(unrounded, fine, coarse, weight, {Result.OUTPUT: total}, threads=threads, engine=engine)
    channel = plan.problem.data_order[1]
    total += bias.reshape([-1 if axis == channel else 1 for axis in range(out.ndim)])
    out[...] = rounding.store(
        dtypes.find(step.stored_as), rounding.round_to(dtypes.find(step.rounded_to), total)
    )
