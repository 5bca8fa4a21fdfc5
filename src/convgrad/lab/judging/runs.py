"""The runs a judgement needs, all of one plan on the same tensors.

    subject       the engine in use, into buffers filled with NaN: what is judged
    reference     operands rounded as planned, float64 sums, no result rounding: g of every standard
    unrounded     as the reference, with the operands as they were given
    accumulated   as the subject, without its result rounding
    partner       as the subject, one product added at a time in float32: the honest run of a double benchmark

    operand rounding = reference - unrounded;  accumulation = accumulated - reference;  result = subject - accumulated
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from convgrad import engines
from convgrad.core import dtypes, rounding, standards
from convgrad.core.arrays import AnyArray
from convgrad.core.dtypes import Dtype
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan, Result, Step
from convgrad.core.request import Operator, TensorSpec
from convgrad.engines import reference

Results = dict[Result, AnyArray]


def spec_of(plan: Plan, result: Result) -> TensorSpec:
    """What a plan writes for a result."""
    r = plan.problem.request
    spec = {
        Result.GRAD_INPUT: r.grad_input, Result.GRAD_WEIGHT: r.grad_weight, Result.GRAD_BIAS: r.grad_bias,
        Result.OUTPUT: r.grad_output,
    }[result]
    assert spec is not None
    return spec


@cache
def _nan(row: Dtype) -> Any:
    """The stored NaN of a dtype."""
    return rounding.store(row, np.array([np.nan]))[0]


def poisoned(plan: Plan) -> Results:
    """Buffers for every result, filled with NaN so that an element left unwritten shows."""
    buffers: Results = {}
    for step in plan.steps:
        row = dtypes.find(step.stored_as)
        buffers[step.result] = np.full(spec_of(plan, step.result).shape, _nan(row), rounding.storage(row))
    return buffers


def subject(plan: Plan, tensors: Operands, threads: int | None = None) -> tuple[Results, float]:
    """The results of the engine in use, and the seconds it took."""
    buffers = poisoned(plan)
    fine, coarse = tensors.fine_and_coarse(plan.problem.transposed)
    start = time.perf_counter()
    engines.run(plan, fine, coarse, tensors.weight, buffers, threads=threads)
    return buffers, time.perf_counter() - start


def _recast(step: Step, dtype: str) -> Step:
    return replace(step, rounded_to=dtype, stored_as=dtype)


def golden(plan: Plan, tensors: Operands) -> Results:
    """The float64 reference: operands rounded as planned, nothing rounded after that."""
    return _reference(replace(plan, steps=tuple(_recast(s, "float64") for s in plan.steps)), tensors)


def unrounded(plan: Plan, tensors: Operands) -> Results:
    """Float64 throughout, on the operands as given."""
    steps = tuple(_recast(s, "float64") for s in plan.steps)
    return _reference(replace(plan, operand="float64", steps=steps), tensors)


def rounds_operands(plan: Plan) -> bool:
    """Whether the operand cast changes anything: some operand holds more than the compute dtype."""
    r = plan.problem.request
    given = [spec.dtype for spec in (r.grad_output, r.input, r.weight) if spec is not None]
    return any(_holds_more(dtype, plan.operand) for dtype in given)


def _holds_more(dtype: str, than: str) -> bool:
    if dtype == than:
        return False
    wide, narrow = dtypes.find(dtype), dtypes.find(than)
    return (
        wide.significant_bits > narrow.significant_bits or wide.max_finite > narrow.max_finite
        or wide.smallest < narrow.smallest
    )


def accumulated(plan: Plan, tensors: Operands, threads: int | None = None) -> Results:
    """The engine's sums before any result rounding."""
    accumulator = plan.accumulate.value
    return subject(replace(plan, steps=tuple(_recast(s, accumulator) for s in plan.steps)), tensors, threads)[0]


def partner(plan: Plan, tensors: Operands) -> Results:
    """An honest run in the same precision: sums rounded to float32 after every product."""
    return _reference(plan, tensors, chained=plan.accumulate.value == "float32")


def _reference(plan: Plan, tensors: Operands, **options: Any) -> Results:
    buffers = poisoned(plan)
    fine, coarse = tensors.fine_and_coarse(plan.problem.transposed)
    with np.errstate(all="ignore"):  # infinities and NaNs are data here
        reference.run(plan, fine, coarse, tensors.weight, buffers, **options)
    return buffers


def as_planned(step: Step, values: AnyArray) -> AnyArray:
    """Float64 sums with the result casts of a step, as values."""
    return rounding.round_to(step.stored_as, rounding.round_to(step.rounded_to, values))


def values_of(step: Step, results: Results) -> Any:
    """The values of a stored result."""
    return rounding.load(step.stored_as, results[step.result])


def resolution_of(step: Step) -> str:
    """The dtype whose ULP counts: the narrower of the two a result is rounded to."""
    return standards.precision_of(step.rounded_to, step.stored_as)


def precision_of(plan: Plan, step: Step) -> str:
    """The column of the standards that counts for a result; a bias sums the original grad_output."""
    go = plan.problem.request.grad_output
    assert go is not None
    operand = go.dtype if step.result is Result.GRAD_BIAS else plan.operand
    return standards.precision_of(operand, step.stored_as)


def channel_first(plan: Plan, result: Result) -> tuple[int, ...]:
    """The axes of a result: channels, the other one, then space."""
    if result is Result.GRAD_BIAS:
        return (0,)
    tbc = plan.problem.request.operator is Operator.TBC
    rank = len(spec_of(plan, result).shape)
    if tbc:
        return (2, 1, 0)
    return (0, 1, *range(2, rank)) if result is Result.GRAD_WEIGHT else (1, 0, *range(2, rank))
