"""One result of a call, planned from shapes alone and computed inside a compiled program.

On the CPU the program calls the engine itself through XLA's typed foreign function interface: the buffers are XLA's
own, nothing is copied and Python is not asked. A host callback computes the rest: other platforms, the reference
engine, results without elements, the 950's Winograd sums, a bias whose sum is rounded to fewer bits than it is added
in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import jax
import numpy as np

from convgrad import engines
from convgrad.calls import requests
from convgrad.calls.decide import remembered
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.plan import Plan, Result
from convgrad.core.request import Operator, Request, TensorSpec
from convgrad.engines import library
from convgrad.engines.problem_struct import Shaped, fill, pack
from convgrad.functional import bias_values

TARGET = "convgrad_call"
_FFI_MAJOR = 0
_READS = {
    Result.OUTPUT: ("input", "weight"), Result.GRAD_INPUT: ("grad_output", "weight"),
    Result.GRAD_WEIGHT: ("grad_output", "input"), Result.GRAD_BIAS: ("grad_output",),
}
"""The operands of each result, in the order in which they are given."""
_MASKS = {Result.GRAD_INPUT: 0, Result.GRAD_WEIGHT: 1, Result.GRAD_BIAS: 2}


@dataclass(frozen=True, slots=True)
class Call:
    """A convolution as it was asked for: parameters of the operations made of it, so it can be a key."""

    operator: Operator
    input: TensorSpec
    weight: TensorSpec
    output: TensorSpec
    attributes: requests.Attributes
    pad: int
    rules: requests.Rules
    threads: int | None

    @property
    def channel(self) -> int:
        """The output's axis of channels."""
        return 2 if self.operator is Operator.TBC else 1

    @property
    def batch(self) -> int:
        """The axis of samples of input and output."""
        return 1 if self.operator is Operator.TBC else 0

    def of_samples(self, times: int) -> Call:
        """The call on so many times the samples."""
        def more(spec: TensorSpec) -> TensorSpec:
            shape = tuple(n * times if i == self.batch else n for i, n in enumerate(spec.shape))
            return replace(spec, shape=shape)

        return replace(self, input=more(self.input), output=more(self.output))

    def spec(self, result: Result) -> TensorSpec:
        """Shape and dtype of a result."""
        if result is Result.GRAD_BIAS:
            return TensorSpec((self.output.shape[self.channel],), self.output.dtype, "ND")
        return {Result.OUTPUT: self.output, Result.GRAD_INPUT: self.input, Result.GRAD_WEIGHT: self.weight}[result]

    def shaped(self, result: Result) -> Any:
        """The same for JAX."""
        spec = self.spec(result)
        return jax.ShapeDtypeStruct(spec.shape, rounding.storage(dtypes.find(spec.dtype)))


def request_of(call: Call, mask: tuple[bool, bool, bool]) -> Request:
    """The request behind some gradients; behind the forward pass where none is wanted."""
    if not any(mask):
        attributes = None if call.operator is Operator.TBC else call.attributes
        return requests.forward_request(call.input, call.weight, attributes, call.rules, call.pad)
    if call.operator is Operator.TBC:
        return requests.tbc_backward_request(call.output, call.input, call.weight, None, call.pad, call.rules)
    wanted = call.attributes._replace(output_mask=mask)
    return requests.conv_backward_request(call.output, call.input, call.weight, wanted, call.rules)


def plan_of(call: Call, result: Result) -> Plan:
    """The plan of one result; a refusal raises."""
    mask = tuple(_MASKS.get(result) == i for i in range(3))
    plan = remembered(("jax", call, mask), lambda: request_of(call, mask)).accepted()  # type: ignore[arg-type]
    (step,) = (s for s in plan.steps if s.result is result)
    return plan if len(plan.steps) == 1 else replace(plan, steps=(step,), paths=())


# ---- inside a compiled program -----------------------------------------------------------------------------------


def compute(call: Call, result: Result, operands: tuple[Any, ...], bias: Any = None, *, inside: bool = True) -> Any:
    """The result as an operation of the program being traced; `inside`: by the engine, where it fits."""
    plan = plan_of(call, result)
    shaped = call.shaped(result)
    if inside and _fits(plan, bias):
        found = _by_engine(plan, shaped, operands, call.threads)
        return found if bias is None else found + bias.astype(found.dtype).reshape(
            [-1 if axis == call.channel else 1 for axis in range(found.ndim)])  # fmt: skip
    given = operands if bias is None else (*operands, bias)
    return jax.pure_callback(_on_host(plan, shaped, call.threads, bias is not None), shaped, *given,
                             vmap_method="sequential")  # fmt: skip


def _fits(plan: Plan, bias: Any) -> bool:
    """Whether XLA can call the engine: a sum with a bias is rounded once, so only where the output is as wide as it."""
    (step,) = plan.steps
    exact = bias is None or (
        step.rounded_to == step.stored_as == plan.accumulate.value and bias.dtype.itemsize <= _bytes(step.stored_as)
    )
    return exact and not plan.winograd and not plan.problem.empty and engines.chosen() == "native" and registered()


def _bytes(dtype: str) -> int:
    return dtypes.find(dtype).bytes


@cache
def registered() -> bool:
    """Whether the engine is known to XLA; no where JAX brings another major version of the interface, or none."""
    if not hasattr(jax, "ffi"):
        return False
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    try:
        found = re.search(r"define XLA_FFI_API_MAJOR (\d+)", header.read_text("utf-8"))
    except OSError:
        return False
    if found is None or int(found[1]) != _FFI_MAJOR or not library.available():
        return False
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(library.library().cg_xla_call), platform="cpu")
    return True


def _by_engine(plan: Plan, shaped: Any, operands: tuple[Any, ...], threads: int | None) -> Any:
    (step,) = plan.steps
    given = dict(zip(_READS[step.result], operands, strict=True))
    fine, coarse = ("grad_output", "input") if plan.problem.transposed else ("input", "grad_output")
    slots = [given.get(name) for name in (fine, coarse, "weight")]
    arrays = [None if a is None else Shaped(a.shape) for a in slots]
    packed = pack(plan, [*arrays, Shaped(shaped.shape)])  # type: ignore[list-item]
    image = fill(packed, [0] * len(packed.places), threads)
    present = [i for i, a in enumerate(slots) if a is not None]
    places = [packed.places[i] for i in (*present, len(slots))]
    called = jax.ffi.ffi_call(TARGET, shaped)
    return called(*(slots[i] for i in present), problem=np.frombuffer(bytes(image), np.int64),
                  places=np.array(places, np.int64))  # fmt: skip


def _on_host(plan: Plan, shaped: Any, threads: int | None, biased: bool) -> Any:
    (step,) = plan.steps

    def computed(*arrays: Any) -> AnyArray:
        given = [np.asarray(a) for a in arrays]
        named = dict(zip(_READS[step.result], given, strict=False))
        fine, coarse = ("grad_output", "input") if plan.problem.transposed else ("input", "grad_output")
        out = np.empty(shaped.shape, shaped.dtype)
        three = (named.get(fine), named.get(coarse), named.get("weight"))
        if biased:
            bias = bias_values(given[-1], given[-1].dtype.name, plan.problem.line)
            engines.run_forward(plan, three[0], three[1], named["weight"], bias, out, threads=threads)
        elif prod(out.shape):
            engines.run(plan, *three, {step.result: out}, threads=threads)
        return out

    return computed
