"""Error anatomy: how much of a result's error each stage of its numerics adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convgrad.core import rounding
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan, Result
from convgrad.lab.judging import runs


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Root mean square of the error each stage adds, and of the whole; `unexplained` is foreign results' own."""

    operand_rounding: float
    accumulation: float
    result_rounding: float
    unexplained: float = 0.0

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        named = (
            ("operand rounding", self.operand_rounding), ("accumulation", self.accumulation),
            ("result rounding", self.result_rounding), ("unexplained", self.unexplained),
        )
        return named if self.unexplained else named[:3]

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Each part's share of the error energy (squares add up; the parts are independent)."""
        total = sum(value**2 for _, value in self.parts)
        return tuple((name, value**2 / total if total else 0.0) for name, value in self.parts)


def rms(difference: Any) -> float:
    """Root mean square of the finite differences."""
    with np.errstate(all="ignore"):
        finite = difference[np.isfinite(difference)]
        return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0


def anatomy(
    plan: Plan, tensors: Operands, golden: runs.Results, subject: runs.Results, *,
    foreign: runs.Results | None = None, threads: int | None = None,
) -> dict[Result, Anatomy]:
    """The anatomy of every result; runs the engine once more per stage that rounds at all."""
    exact = runs.unrounded(plan, tensors) if runs.rounds_operands(plan) else golden
    accumulator = plan.accumulate.value
    rounded_after = any((s.rounded_to, s.stored_as) != (accumulator,) * 2 for s in plan.steps)
    sums = runs.accumulated(plan, tensors, threads) if rounded_after else subject
    found = {}
    for step in plan.steps:
        key = step.result
        with np.errstate(all="ignore"):
            ours = np.asarray(rounding.load(step.stored_as, subject[key]), np.float64)
            before = np.asarray(sums[key], np.float64)
            theirs = None if foreign is None or key not in foreign else np.asarray(foreign[key], np.float64)
            found[key] = Anatomy(
                rms(golden[key] - exact[key]) if exact is not golden else 0.0,
                rms(before - golden[key]),
                rms(ours - before) if rounded_after else 0.0,
                0.0 if theirs is None else rms(theirs.reshape(ours.shape) - ours),
            )
    return found
