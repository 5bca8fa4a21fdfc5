"""The rows give the same answer through the C library and through Python: status, rule and words."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from convgrad.core.products import KEYS
from convgrad.core.request import Operator, Request
from convgrad.rules.check import check
from phase_one import answers, can_be_said_in_c
from random_requests import beyond_the_stride, random_request

OPERATOR_NAMES = {Operator.CONV: "aclnnConvolutionBackward", Operator.TBC: "aclnnConvTbcBackward"}
RANDOM_REQUESTS = int(os.environ.get("CONVGRAD_REQUESTS", "20000"))
"""A campaign asks for more: CONVGRAD_REQUESTS=50000."""
ANSWER = re.compile(
    r"\[PID:\d+\] [\d:.-]+ \w+\((?P<code>\w+)\): (?P<text>.*) \[rule (?P<rule>[^;]+); reproduce: (?P<line>.*)\]"
)


def assert_same(request: Request, status: int, text: str, *, replay: bool) -> str:
    """The rule both sides name."""
    verdict = check(request)
    assert status == verdict.status, f"C {status} {text}\nPython {verdict.message}\n{request}"
    if verdict.ok:
        assert text == ""
        return ""
    answer = ANSWER.fullmatch(text)
    assert answer is not None, text
    assert answer["rule"] == verdict.rule_id, f"{text}\n{request}"
    assert answer["text"] == f"{OPERATOR_NAMES[request.operator]}: {verdict.vendor_message}"
    assert answer["code"] == {1: "EZ1001", 5: "EZ9999"}[status // 100000]
    if replay:
        again = check(Request.parse(answer["line"]))
        assert (again.rule_id, again.message) == (verdict.rule_id, verdict.message), answer["line"]
    return verdict.rule_id


def test_every_breaking_line_breaks_the_same_row_in_c() -> None:
    """Each row's breaking problem gives its status, its id and its words in C, and a line that reproduces it."""
    lines = (Path(__file__).parents[1] / "rules" / "breaking_lines.txt").read_text("utf-8").splitlines()
    rows = [
        line.split(" | ") for line in lines
        if line and not line.startswith("#")
    ]  # fmt: skip
    requests = {Request.parse(line): rule.strip() for rule, line in rows}
    sayable = [request for request in requests if can_be_said_in_c(request)]
    unsayable = {requests[request] for request in requests if not can_be_said_in_c(request)}
    assert all(check(r).status != 0 for r in sayable) and len(sayable) > 200
    assert len(unsayable) <= 5, unsayable
    for request, status, text in answers(sayable):
        assert assert_same(request, status, text, replay=True) == requests[request]


@pytest.mark.parametrize("operator", Operator, ids=lambda o: o.value)
def test_random_requests_get_the_same_answer_in_c(operator: Operator) -> None:
    """10,000 random requests per operator: same status, same rule, same words, nothing written on a refusal."""
    rng = random.Random(f"parity {operator.value}")
    requests: list[Request] = []
    while len(requests) < RANDOM_REQUESTS // 2:
        request = random_request(rng, operator, large=rng.random() < 0.5)
        if can_be_said_in_c(request):
            requests.append(request)
    rules = {
        assert_same(request, status, text, replay=i % 10 == 0)
        for i, (request, status, text) in enumerate(answers(requests))
    }
    assert "" in rules and len(rules) > 40
    assert {request.product for request in requests} == set(KEYS)


def test_output_padding_beyond_the_stride_in_c() -> None:
    """1,000 transposed requests for cpu around that limit: same status, same rule, same words."""
    rng = random.Random("beyond the stride in C")
    requests = [r for r in (beyond_the_stride(rng) for _ in range(1_000)) if can_be_said_in_c(r)]
    rules = {assert_same(request, status, text, replay=False) for request, status, text in answers(requests)}
    assert {"", "output_padding.below_larger", "spatial.transposed.beyond_stride"} <= rules
