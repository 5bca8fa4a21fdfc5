"""Expected gradients of a kit's call: float64 sums of operands rounded as the product's plan says.

    float64 operands, all exact in float32     a widened float32 call: planned as float32, sums given back unrounded
    float32 operands, all exact in 16 bits     perhaps a widened 16-bit call: planned as float32; where the product has
                                               no such call, as the 16-bit one, sums unrounded
    anything else                              as it is, with the planned result casts
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convgrad.calls.decide import Decision, decide
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan, Result
from convgrad.core.request import Request, TensorSpec
from convgrad.core.tensor import Tensor
from convgrad.lab.golden.writing import expected
from convgrad.lab.judging import runs
from convgrad.lab.kits.tensors import HALF_PRECISIONS, exact_in, given_back, narrowed

_RESULTS = (Result.GRAD_INPUT, Result.GRAD_WEIGHT, Result.GRAD_BIAS)
Triple = tuple[Tensor, Tensor, Tensor]
"""grad_output, input, weight."""


@dataclass(frozen=True, slots=True)
class Widened:
    """Operands as they are computed with, and whether a kit widened them before the call."""

    operands: Triple
    promoted: bool


def recognise(received: Triple) -> Widened:
    """Float64 operands that are all exact in float32 become the float32 ones they were."""
    wide = [t for t in received if t.dtype.name == "float64"]
    if not wide or not all(exact_in(t, "float32") for t in wide):
        return Widened(received, False)
    g, x, w = (narrowed(t, "float32") if t.dtype.name == "float64" else t for t in received)
    return Widened((g, x, w), True)


def gradients(
    received: Triple, request_of: Callable[[Triple], Request], wanted_as: Sequence[str], like: object, wide: bool
) -> list[Any]:
    """The expected results in order, `None` where the mask says no.

    `request_of` makes the request of operands; `wanted_as` are the dtypes results come back in if they were widened.
    """
    found = recognise(received)
    decision = decide(request_of(found.operands))
    if decision.plan is None:
        decision, found = _as_half_precision(decision, found, request_of)
    plan = decision.accepted()
    tensors = Operands(*(t.data for t in found.operands))
    if wide or found.promoted:
        sums = runs.golden(plan, tensors)
        names = ("float64",) * 3 if wide else wanted_as
        return [
            None if r not in sums else given_back(rounding.store(name, sums[r]), name, like)
            for r, name in zip(_RESULTS, names, strict=True)
        ]
    stored = {step.result: step.stored_as for step in plan.steps}
    out = _kept_in_range(plan, found.operands) or expected(plan, tensors)
    return [given_back(out[r.value], stored[r], like) if r in stored else None for r in _RESULTS]


def _as_half_precision(
    refused: Decision, found: Widened, request_of: Callable[[Triple], Request]
) -> tuple[Decision, Widened]:
    """A float32 call the product has no plan for, tried as the 16-bit call it may have been."""
    if all(t.dtype.name == "float32" for t in found.operands):
        for dtype in HALF_PRECISIONS:
            if not all(exact_in(t, dtype) for t in found.operands):
                continue
            g, x, w = (narrowed(t, dtype) for t in found.operands)
            request = request_of((g, x, w))
            outputs = (request.grad_input, request.grad_weight, request.grad_bias)
            dx, dw, db = (_respecified(o, dtype) for o in outputs)
            decision = decide(replace(request, grad_input=dx, grad_weight=dw, grad_bias=db))
            if decision.plan is not None:
                return decision, Widened((g, x, w), True)
    return refused, found


def _respecified(spec: TensorSpec | None, dtype: str) -> TensorSpec | None:
    return spec if spec is None or spec.dtype != "float32" else TensorSpec(spec.shape, dtype, spec.format)


def _kept_in_range(plan: Plan, operands: Triple) -> dict[str, AnyArray] | None:
    """float16 math on float32 operands that are exact in bfloat16: values beyond float16's range are kept.

    A 16-bit tensor that was widened must not become infinite. `None` where this makes no difference.
    """
    if plan.operand != "float16" or any(t.dtype.name != "float32" for t in operands):
        return None
    top = dtypes.find("float16").max_finite
    beyond = any(bool((np.abs(t.data[np.isfinite(t.data)]) > top).any()) for t in operands)
    if not beyond or not all(exact_in(t, "bfloat16") for t in operands):
        return None
    g, x, w = operands
    kept = Operands(*(_rounded("float16", t.data).astype(np.float32) for t in operands))
    sums = runs.golden(replace(plan, operand="float32"), kept)
    if Result.GRAD_BIAS in sums:  # a bias sums the original grad_output
        bias = replace(plan, steps=tuple(s for s in plan.steps if s.result is Result.GRAD_BIAS))
        sums |= runs.golden(bias, Operands(g.data, x.data, w.data))
    return {
        s.result.value: rounding.store(s.stored_as, _rounded(s.rounded_to, sums[s.result])) for s in plan.steps
    }


def _rounded(dtype: str, values: AnyArray) -> AnyArray:
    """Rounded to a dtype, but for finite values beyond its range."""
    rounded = rounding.round_to(dtype, values)
    return np.where(np.isfinite(values) & (np.abs(values) > dtypes.find(dtype).max_finite), values, rounded)
