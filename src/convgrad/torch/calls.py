"""From the arguments of a torch operator to a decided call, and from a decided call to gradients.

Decisions (request, verdict, plan) are kept: a training loop asks for the same few again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from convgrad import engines, functional
from convgrad.core.plan import Plan, Result, make_plan
from convgrad.core.problem import prove
from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, TensorSpec, with_output
from convgrad.core.status import ConvGradError
from convgrad.rules.check import Verdict, check
from convgrad.torch.memory import allocated, array_of, dtype_name, gradient_like, is_channels_last

TensorOrNone = torch.Tensor | None
Three = tuple[TensorOrNone, TensorOrNone, TensorOrNone]


@dataclass(frozen=True, slots=True)
class Settings:
    """Under which rules and numerics a call is computed."""

    product: str = "cpu"
    math: int = 0
    conformance: str = "document"
    compute: str | None = None
    """Operands are rounded to this dtype, whatever the product would do."""

    @staticmethod
    def of(product: str, math: str | int, conformance: str) -> Settings:
        """From the names users write; a wrong one raises."""
        return Settings(
            functional.read_product(product), functional.read_math(math), functional.read_conformance(conformance)
        )


class Attributes(NamedTuple):
    """The numbers of aten.convolution_backward, in its order."""

    bias_sizes: tuple[int, ...] | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    output_mask: tuple[bool, ...]

    @staticmethod
    def of(values: Sequence[Any]) -> Attributes:
        """Lists, as the dispatcher passes them, as tuples."""
        as_tuples: list[Any] = [tuple(v) if isinstance(v, (list, tuple)) else v for v in values]
        return Attributes(*as_tuples)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say to a call, and how it is computed if they accept it."""

    request: Request
    verdict: Verdict
    plan: Plan | None

    @property
    def computed_in(self) -> str:
        """The dtype operands are rounded to; empty when refused."""
        return self.plan.operand if self.plan else ""


_decisions: dict[Any, Decision] = {}
_MOST_DECISIONS = 4096


def decide_conv(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, attributes: Attributes
) -> Decision:
    """The decision on one aten.convolution_backward."""
    key = (
        settings, attributes, grad_output.shape, grad_output.dtype, input.shape, input.dtype, weight.shape, weight.dtype
    )
    known = _decisions.get(key)
    return known or _keep(key, _decide(conv_request(settings, grad_output, input, weight, attributes), settings))


def decide_tbc(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
    pad: int,
) -> Decision:
    """The decision on one backward call of torch.conv_tbc."""
    key = (
        settings, pad, grad_output.shape, grad_output.dtype, input.shape, input.dtype, weight.shape, weight.dtype,
        bias.shape, bias.dtype,
    )
    known = _decisions.get(key)
    return known or _keep(key, _decide(tbc_request(settings, grad_output, input, weight, bias, pad), settings))


def decide_forward(
    settings: Settings, input: torch.Tensor, weight: torch.Tensor, numbers: Attributes | int
) -> Decision:
    """The decision on one forward pass; `numbers` is the padding alone for the time-batch-channel operator."""
    key = (settings, numbers, input.shape, input.dtype, weight.shape, weight.dtype)
    known = _decisions.get(key)
    if known:
        return known
    none_wanted = {"output_mask": (False, False, False), "math": settings.math, "forward": True}
    rules = {"product": settings.product, "conformance": settings.conformance}
    if isinstance(numbers, int):
        x, w = (replace(spec_of(t), format="ND") for t in (input, weight))
        request = Request(Operator.TBC, None, x, w, pad=numbers, **none_wanted, **rules)  # type: ignore[arg-type]
    else:
        a = numbers
        request = Request(
            Operator.CONV, None, spec_of(input), spec_of(weight), stride=a.stride,
            padding=_pads(a.padding, input.dim() - 2), dilation=a.dilation, transposed=a.transposed,
            output_padding=a.output_padding, groups=a.groups, **none_wanted, **rules,  # type: ignore[arg-type]
        )
    return _keep(key, _decide(with_output(request), settings))


def _keep(key: Any, decision: Decision) -> Decision:
    if len(_decisions) >= _MOST_DECISIONS:
        _decisions.clear()
    _decisions[key] = decision
    return decision


def _decide(request: Request, settings: Settings) -> Decision:
    verdict = check(request)
    if not verdict.ok:
        return Decision(request, verdict, None)
    if settings.compute is None:
        return Decision(request, verdict, functional.plan(request))
    return Decision(request, verdict, engines.prepared(make_plan(prove(request), compute=settings.compute)))


def conv_request(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, attributes: Attributes
) -> Request:
    """The request behind one aten.convolution_backward."""
    a = attributes
    channels = grad_output.shape[1] if grad_output.dim() > 1 else 0
    # Autograd passes [0] for a layer without bias; the device is then told the number of channels.
    sizes = a.bias_sizes if a.bias_sizes and any(a.bias_sizes) else (channels,)
    x, w = spec_of(input), spec_of(weight)
    b = TensorSpec((channels,), dtype_name(grad_output), "ND")
    want_x, want_w, want_b = (*a.output_mask, False, False, False)[:3]
    return Request(
        Operator.CONV, spec_of(grad_output), x, w, None, sizes, a.stride, _pads(a.padding, input.dim() - 2), a.dilation,
        a.transposed, a.output_padding, a.groups, a.output_mask, settings.math,
        x if want_x else None, w if want_w else None, b if want_b else None,
        product=settings.product, conformance=settings.conformance,
    )


def _pads(padding: tuple[int, ...], rank: int) -> tuple[Any, ...]:
    """One number per axis as they are; two per axis as (low, high) pairs, in 2-D as the vendor's four numbers."""
    if rank != 2 and len(padding) == 2 * rank:
        return tuple(zip(padding[::2], padding[1::2], strict=True))
    return padding


def tbc_request(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
    pad: int,
) -> Request:
    """The request behind one backward call of torch.conv_tbc."""
    x, w, b = (replace(spec_of(t), format="ND") for t in (input, weight, bias))
    return Request(
        Operator.TBC, replace(spec_of(grad_output), format="ND"), x, w, b, math=settings.math, grad_input=x,
        grad_weight=w, grad_bias=b, pad=pad, product=settings.product, conformance=settings.conformance,
    )


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Shape, dtype and layout of a tensor; channels_last is a memory order, not another layout."""
    return TensorSpec(tuple(tensor.shape), dtype_name(tensor), FORMAT_BY_RANK.get(tensor.dim(), "ND"))


def refusal(verdict: Verdict, layer: str = "") -> ConvGradError:
    """The error of a refused call."""
    message = f"{layer}: {verdict.message}" if layer else verdict.message
    return ConvGradError(
        message, status=verdict.status, rule=verdict.rule_id, value=verdict.value, line=verdict.line
    )


def gradients(
    plan: Plan, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, threads: int | None = None
) -> Three:
    """grad_input, grad_weight and grad_bias of an accepted call, in the memory order PyTorch would give them."""
    channels_last = is_channels_last(input) or is_channels_last(weight)
    made: dict[Result, torch.Tensor] = {}
    for step in plan.steps:
        if step.result is Result.GRAD_BIAS:
            spec = plan.problem.request.grad_bias
            assert spec is not None
            made[step.result] = torch.empty(spec.shape, dtype=getattr(torch, step.stored_as))
        else:
            like = input if step.result is Result.GRAD_INPUT else weight
            made[step.result] = gradient_like(like, channels_last)
    g, x, w = array_of(grad_output), array_of(input), array_of(weight)
    fine, coarse = (g, x) if plan.problem.transposed else (x, g)
    engines.run(
        plan, fine, coarse, w, {result: array_of(t) for result, t in made.items()},
        threads=threads or torch.get_num_threads(),
    )
    return made.get(Result.GRAD_INPUT), made.get(Result.GRAD_WEIGHT), made.get(Result.GRAD_BIAS)


def output(
    plan: Plan, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, threads: int | None = None
) -> torch.Tensor:
    """The forward pass of an accepted call, in the memory order PyTorch would give it."""
    problem = plan.problem
    spec = problem.request.grad_output
    assert spec is not None
    values = None
    if bias is not None:
        channels = spec.shape[problem.data_order[1] or 0]
        if tuple(bias.shape) != (channels,):
            message = f"bias must have shape ({channels},), got {tuple(bias.shape)}"
            raise ConvGradError(message, rule="bias.shape", value=tuple(bias.shape), line=problem.line)
        values = functional.bias_values(array_of(bias), dtype_name(bias), problem.line)
    made = output_like(input, weight, spec.shape)
    x = array_of(input)
    fine, coarse = (None, x) if problem.transposed else (x, None)
    engines.run_forward(
        plan, fine, coarse, array_of(weight), values, array_of(made), threads=threads or torch.get_num_threads()
    )
    return made


def output_like(input: torch.Tensor, weight: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """An unwritten output, channels_last when an operand is."""
    plain = allocated(lambda: input.new_empty(shape))
    last = is_channels_last(input) or is_channels_last(weight)
    return gradient_like(plain, True) if last else plain
