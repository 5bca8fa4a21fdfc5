"""Random requests as real two-phase calls: accepted ones match the reference, refused ones touch nothing."""

import random
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from convgrad import Tensor, aclnn
from convgrad.core import dtypes, rounding
from convgrad.core.plan import Result, make_plan
from convgrad.core.problem import prove
from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, TensorSpec
from convgrad.engines import run as run_engine
from convgrad.rules.check import check
from random_requests import random_request

PER_SEED = 1_000
SMALL = 4_000  # elements; larger requests are checked by the rules' own tests
KNOWN = {row.name for row in dtypes.ALL}
NUMPY_DTYPES = ("int32", "int8", "int64", "uint16", "bool", "complex64", "complex128")  # that no Tensor has
OUTPUTS = {Result.GRAD_INPUT: "grad_input", Result.GRAD_WEIGHT: "grad_weight", Result.GRAD_BIAS: "grad_bias"}


def tensor(rng: np.random.Generator, spec: TensorSpec | None, data: bool) -> Tensor | np.ndarray | None:
    """A tensor of the spec: small integers as data, or a pattern of bits no result would leave by chance."""
    if spec is None:
        return None
    if spec.dtype in NUMPY_DTYPES:
        return np.full(spec.shape, 7, spec.dtype)
    storage = rounding.storage(dtypes.find(spec.dtype))
    if not data:
        marked = np.full(prod(spec.shape) * storage.itemsize, 0x5A, np.uint8).view(storage).reshape(spec.shape)
        return Tensor(marked, spec.dtype, spec.format)
    return Tensor(rng.integers(-2, 3, spec.shape).astype(np.float32), spec.dtype, spec.format)


def bits(value: Tensor | np.ndarray) -> bytes:
    array = value.data if isinstance(value, Tensor) else value
    return np.ascontiguousarray(array).tobytes()


def is_small(r: Request) -> bool:
    specs = [t for t in (r.grad_output, r.input, r.weight, r.bias, r.grad_input, r.grad_weight, r.grad_bias) if t]
    pairs = any(isinstance(p, tuple) for p in r.padding or ())
    sizes_fit = all(all(n >= 0 for n in t.shape) and prod(max(n, 1) for n in t.shape) <= SMALL for t in specs)
    has_arrays = all(t.dtype in NUMPY_DTYPES or t.dtype in KNOWN for t in specs)
    return sizes_fit and has_arrays and not pairs and not r.forward


def call(r: Request, t: dict) -> tuple:
    if r.operator is Operator.TBC:
        return aclnn.aclnnConvTbcBackwardGetWorkspaceSize(
            t["grad_output"], t["input"], t["weight"], t["bias"], r.pad, r.math, t["grad_input"], t["grad_weight"],
            t["grad_bias"],
        )  # fmt: skip
    return aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        t["grad_output"], t["input"], t["weight"], r.bias_sizes, r.stride, r.padding, r.dilation, r.transposed,
        r.output_padding, r.groups, r.output_mask, r.math, t["grad_input"], t["grad_weight"], t["grad_bias"],
    )  # fmt: skip


def reference(r: Request, t: dict) -> dict[str, np.ndarray]:
    """What the reference engine computes for an accepted request."""
    plan = make_plan(prove(r))
    results = {s.result: np.empty_like(t[OUTPUTS[s.result]].data) for s in plan.steps}
    fine, coarse = (t["grad_output"], t["input"]) if plan.problem.transposed else (t["input"], t["grad_output"])
    run_engine(plan, fine.data, coarse.data, t["weight"].data, results, engine="reference")
    return {OUTPUTS[result]: array for result, array in results.items()}


@pytest.fixture(autouse=True)
def _back_to_defaults():
    yield
    aclnn.set_product(None)
    aclnn.set_conformance(None)
    aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("operator", Operator, ids=lambda o: o.value)
def test_calls_answer_and_compute_as_the_contract_says(operator: Operator, seed: int) -> None:
    """Status as `check` says; wanted outputs equal the reference bit for bit; nothing else is written."""
    rng, numbers = random.Random(f"call{operator.value}{seed}"), np.random.default_rng(seed)
    accepted = 0
    for _ in range(PER_SEED):
        r = random_request(rng, operator)
        if not is_small(r):
            continue
        names = ("grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias")
        t = {n: tensor(numbers, getattr(r, n), data=not n.startswith("grad_") or n == "grad_output") for n in names}
        r = with_array_formats(r, t)
        aclnn.set_product(r.product)
        aclnn.set_conformance(r.conformance)
        before = {n: bits(t[n]) for n in names if t[n] is not None}
        size, executor, status = call(r, t)
        assert status == check(r).status, str(r)
        written: dict[str, np.ndarray] = {}
        if status == 0:
            accepted += 1
            written = reference(r, t)
            run = aclnn.aclnnConvTbcBackward if operator is Operator.TBC else aclnn.aclnnConvolutionBackward
            assert run(np.empty(size, np.uint8), size, executor, None) == 0, aclnn.aclGetRecentErrMsg()
        for name, old in before.items():
            assert bits(t[name]) == (bits(written[name]) if name in written else old), f"{name}: {r}"
    assert accepted > 50


def with_array_formats(r: Request, t: dict) -> Request:
    """Arrays (dtypes no Tensor has) are labelled by the door, not by the request."""
    changes = {}
    for name, value in t.items():
        if isinstance(value, np.ndarray):
            nd = r.operator is Operator.TBC or name == "grad_bias"
            changes[name] = replace(getattr(r, name), format="ND" if nd else FORMAT_BY_RANK.get(value.ndim, "ND"))
    if r.operator is Operator.CONV:
        changes["bias"] = None
    else:
        kept = ("grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias", "pad", "math")
        plain = Request(r.operator, None, None, None, product=r.product, conformance=r.conformance)
        r = replace(plain, **{n: getattr(r, n) for n in kept})
    return replace(r, **changes)
