"""Requests through phase 1 of the C library: said in the words of tests/c/phase_one.cpp, answered by its process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from c_programs import SOURCES, build, run
from convgrad.core.request import Operator, Request, TensorSpec
from convgrad.generate.c_tables import DTYPE_NAMES, FORMAT_NAMES

DTYPE_CODES = {name: code for code, name in DTYPE_NAMES.items()}
FORMAT_CODES = {name: code for code, name in FORMAT_NAMES.items()}


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
