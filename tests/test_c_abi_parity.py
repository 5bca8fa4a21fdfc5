"""The rows give the same answer through the C library and through Python: status, rule and words."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from c_programs import SOURCES, build, run
from convgrad.products import KEYS
from convgrad.request import Operator, Request, TensorSpec
from convgrad.rules.c_tables import DTYPE_NAMES, FORMAT_NAMES
from convgrad.rules.check import check
from random_requests import random_request

DTYPE_CODES = {name: code for code, name in DTYPE_NAMES.items()}
FORMAT_CODES = {name: code for code, name in FORMAT_NAMES.items()}
OPERATOR_NAMES = {Operator.CONV: "aclnnConvolutionBackward", Operator.TBC: "aclnnConvTbcBackward"}
RANDOM_REQUESTS = 20_000
ANSWER = re.compile(
    r"\[PID:\d+\] [\d:.-]+ \w+\((?P<code>\w+)\): (?P<text>.*) \[rule (?P<rule>[^;]+); reproduce: (?P<line>.*)\]"
)


def numbers(values: Sequence[int] | None) -> str:
    return "-" if values is None else " ".join(map(str, (len(values), *map(int, values))))


def tensor(spec: TensorSpec | None) -> str:
    return "-" if spec is None else f"{numbers(spec.shape)} {DTYPE_CODES[spec.dtype]} {FORMAT_CODES[spec.format]}"


def words(r: Request) -> str:
    """The request as tests/c/phase_one.cpp reads it."""
    outputs = [tensor(t) for t in (r.grad_input, r.grad_weight, r.grad_bias)]
    inputs = [tensor(t) for t in (r.grad_output, r.input, r.weight)]
    if r.operator is Operator.TBC:
        return " ".join(["tbc", *inputs, tensor(r.bias), str(r.pad), str(r.math), *outputs])
    arrays = [numbers(v) for v in (r.bias_sizes, r.stride, r.padding, r.dilation)]  # type: ignore[arg-type]
    rest = [str(int(r.transposed)), numbers(r.output_padding), str(r.groups), numbers(r.output_mask), str(r.math)]
    return " ".join(["conv", *inputs, *arrays, *rest, *outputs])


def can_be_said_in_c(r: Request) -> bool:
    """The C signature has no forward pass, no padding pairs, and narrower integers."""
    pairs = any(isinstance(p, tuple) for p in r.padding or ())
    known = all(t is None or (t.dtype in DTYPE_CODES and t.format in FORMAT_CODES) for t in tensors(r))
    lists = [r.bias_sizes, r.stride, r.dilation, r.output_padding, (r.pad,), *(t.shape for t in tensors(r) if t)]
    fits = not pairs and all(-(2**63) <= n < 2**63 for values in (*lists, r.padding) for n in values or ())  # type: ignore[operator]
    return not r.forward and known and fits and abs(r.groups) < 2**31 and abs(r.math) < 2**7


def tensors(r: Request) -> tuple[TensorSpec | None, ...]:
    return r.grad_output, r.input, r.weight, r.bias, r.grad_input, r.grad_weight, r.grad_bias


def answers(requests: list[Request]) -> Iterator[tuple[Request, int, str]]:
    """Each request with the status and the text of the C library; one process per product and conformance."""
    program = build(SOURCES / "phase_one.cpp")
    batches: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for request in requests:
        batches[request.product, request.conformance].append(request)
    for (product, conformance), batch in batches.items():
        environment = {"CONVGRAD_PRODUCT": product, "CONVGRAD_CONFORMANCE": conformance}
        done = run(program, environment=environment, text="\n".join(map(words, batch)) + "\n")
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and len(lines) == len(batch), done.stderr
        for request, line in zip(batch, lines, strict=True):
            status, _, text = line.partition("\t")
            yield request, int(status), text


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
    assert answer["text"] == f"{OPERATOR_NAMES[request.operator]}: {verdict.message}"
    assert answer["code"] == {1: "EZ1001", 5: "EZ9999"}[status // 100000]
    if replay:
        again = check(Request.parse(answer["line"]))
        assert (again.rule_id, again.message) == (verdict.rule_id, verdict.message), answer["line"]
    return verdict.rule_id


def test_every_breaking_line_breaks_the_same_row_in_c() -> None:
    """Each row's breaking problem gives its status, its id and its words in C, and a line that reproduces it."""
    rows = [
        line.split(" | ") for line in (Path(__file__).parent / "breaking_lines.txt").read_text("utf-8").splitlines()
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
        request = random_request(rng, operator)
        if can_be_said_in_c(request):
            requests.append(request)
    rules = {
        assert_same(request, status, text, replay=i % 10 == 0)
        for i, (request, status, text) in enumerate(answers(requests))
    }
    assert "" in rules and len(rules) > 40
    assert {request.product for request in requests} == set(KEYS)
