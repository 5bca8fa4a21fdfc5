"""The rows against a second evaluator, on requests by the thousand."""

import os
import random

import pytest
from hypothesis import given, settings

from convgrad.core.request import Operator, Request
from convgrad.rules.check import check
from convgrad.rules.explain import explain
from random_requests import beyond_the_stride, random_request
from straight_line import status
from strategies import any_request

SEEDS = range(4)
PER_SEED = int(os.environ.get("CONVGRAD_REQUESTS", "40000")) // 2 // len(SEEDS)
"""Of each operator; a campaign asks for more: CONVGRAD_REQUESTS=200000."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("operator", Operator, ids=lambda o: o.value)
def test_rows_answer_as_the_straight_line_code(operator: Operator, seed: int) -> None:
    """20,000 requests per operator, numbers at every bound and beside it: always the second evaluator's status."""
    rng = random.Random(f"{operator.value}{seed}")
    answers = set()
    for _ in range(PER_SEED):
        request = random_request(rng, operator, large=rng.random() < 0.5)
        verdict = check(request)
        assert verdict.status == status(request), f"{verdict.rule_id}: {verdict.message}\n{request}"
        answers.add(int(verdict.status))
    assert answers == {0, 161001, 161002, 561103}


def test_output_padding_beyond_the_stride() -> None:
    """2,000 transposed requests for cpu around that limit: the second evaluator's status, each rule met."""
    rng = random.Random("beyond the stride")
    verdicts = []
    for _ in range(2_000):
        request = beyond_the_stride(rng)
        verdicts.append(check(request))
        assert verdicts[-1].status == status(request), f"{verdicts[-1].message}\n{request}"
    wanted = {"", "output_padding.below_larger", "spatial.transposed", "spatial.transposed.beyond_stride"}
    assert wanted <= {verdict.rule_id for verdict in verdicts}


def test_every_verdict_can_be_replayed_from_its_line() -> None:
    """The line of a verdict gives the same verdict again."""
    rng = random.Random("lines")
    for _ in range(1_500):
        verdict = check(random_request(rng, rng.choice(list(Operator))))
        again = check(Request.parse(verdict.line))
        assert (again.status, again.rule_id, again.message) == (verdict.status, verdict.rule_id, verdict.message)


@given(any_request)
@settings(max_examples=300, deadline=None)
def test_nonsense_is_answered_and_explained(request: Request) -> None:
    """Whatever is asked gets the status of the second evaluator, an explanation, and no exception."""
    explanation = explain(request)
    assert explanation.verdict.status == status(request)
    assert str(int(explanation.verdict.status)) in str(explanation)
