"""Leaves of the tree over samples: the gradients of weight and bias of one sample, unrounded.

The native engine computes the tree by itself (native/engine/sample_tree.h). What other sums do, the reference's and the
950's Winograd, is put together here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.determinism import TREE, sum_by_tree
from convgrad.core.partition import unrounded
from convgrad.core.plan import Plan, Result, Step, bias_is_zero
from convgrad.core.request import TensorSpec

Run = Callable[[Plan, AnyArray | None, AnyArray | None, AnyArray | None, Mapping[Result, AnyArray]], None]
SUMMED = (Result.GRAD_WEIGHT, Result.GRAD_BIAS)


def run_by_samples(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray], run: Run,
) -> None:
    """A plan whose gradients of weight and bias are trees, by a `run` that computes one sample."""
    summed = [step for step in plan.steps if step.result in SUMMED and not _is_nothing(plan, step)]
    others = tuple(step for step in plan.steps if step not in summed)
    if others:
        run(replace(plan, steps=others, paths=()), fine, coarse, weight, results)
    for step in summed:
        def leaf(sample: int, step: Step = step) -> AnyArray:
            return leaf_of(plan, step, sample, fine, coarse, weight, run)

        total = rounding.round_to(dtypes.find(step.rounded_to), sum_by_tree(leaf, 0, plan.problem.geometry.batch))
        results[step.result][...] = rounding.store(dtypes.find(step.stored_as), total)


def _is_nothing(plan: Plan, step: Step) -> bool:
    problem = plan.problem
    if problem.geometry.batch == 0 or (step.result is Result.GRAD_WEIGHT and problem.empty):
        return True
    return step.result is Result.GRAD_BIAS and bias_is_zero(problem)


def leaf_of(
    plan: Plan, step: Step, sample: int, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    run: Run,
) -> AnyArray:
    """The gradient of one sample in the accumulator's dtype."""
    problem = plan.problem
    axis = problem.data_order[0]
    assert axis is not None
    index = (slice(None),) * axis + (slice(sample, sample + 1),)

    def of_one(spec: TensorSpec | None) -> TensorSpec | None:
        return None if spec is None else replace(spec, shape=(*spec.shape[:axis], 1, *spec.shape[axis + 1 :]))

    r = problem.request
    one = replace(
        problem, geometry=replace(problem.geometry, batch=1),
        request=replace(r, grad_output=of_one(r.grad_output), input=of_one(r.input), deterministic=TREE),
    )  # fmt: skip
    spec = r.grad_weight if step.result is Result.GRAD_WEIGHT else r.grad_bias
    assert spec is not None
    out = np.empty(spec.shape, plan.accumulate.value)
    alone = replace(plan, problem=one, steps=(unrounded(plan, step),), paths=())
    run(alone, None if fine is None else fine[index], None if coarse is None else coarse[index], weight,
        {step.result: out})  # fmt: skip
    return out


def leaves_of(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None, run: Run
) -> dict[Result, AnyArray]:
    """The leaves of every sample, the sample first among the axes."""
    found: dict[Result, AnyArray] = {}
    for step in plan.steps:
        if step.result in SUMMED:
            r = plan.problem.request
            spec = r.grad_weight if step.result is Result.GRAD_WEIGHT else r.grad_bias
            assert spec is not None
            of_step = np.empty((plan.problem.geometry.batch, *spec.shape), plan.accumulate.value)
            for sample in range(len(of_step)):
                of_step[sample] = leaf_of(plan, step, sample, fine, coarse, weight, run)
            found[step.result] = of_step
    return found
