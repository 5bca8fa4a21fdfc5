"""Custom operators: `convgrad::convolution`, `convgrad::conv_backward` and their time-batch-channel pair.

They have shape-only implementations and derivatives of any order, so that autograd, fake tensors and torch.compile
know them. With cotangents (X, W, b) of (grad_input, grad_weight, grad_bias), and every result linear in each operand:

    d grad_output = conv(X, weight) + conv(input, W) + b on every position
    d input       = grad_input  of (grad_output, W)
    d weight      = grad_weight of (grad_output, X)

A third one, `convgrad::pytorch_conv_tbc_backward`, is PyTorch's own formula as an operator of its own: PyTorch
dispatches none, so nothing else could see the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from convgrad.core.geometry import coarse_size, fine_size
from convgrad.torch import calls
from convgrad.torch.memory import Order, gradient_like, orders_of_results

_NUMBERS = (
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups"
)
_HOW = "str math, str product, str conformance, str? algorithm, int? threads, int deterministic=0"

Pair = tuple[int, int]


def per_axis(numbers: Sequence[int], rank: int) -> Sequence[int]:
    """A list of one stands for every axis."""
    return list(numbers) * rank if len(numbers) == 1 else numbers


def pairs_of(padding: Sequence[int], rank: int) -> list[Pair]:
    """(low, high) per axis from one or two numbers per axis."""
    if len(padding) == 2 * rank:
        return list(zip(padding[::2], padding[1::2], strict=True))
    return [(p, p) for p in padding]


# ---- convolution -------------------------------------------------------------------------------------------


@torch.library.custom_op(
    "convgrad::convolution", mutates_args=(), device_types="cpu",
    schema=f"(Tensor input, Tensor weight, Tensor? bias, {_NUMBERS}, {_HOW}) -> Tensor",
)
def convolution_op(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int, math: str, product: str,
    conformance: str, algorithm: str | None, threads: int | None, deterministic: int = 0,
) -> Tensor:
    """The forward pass."""
    numbers = calls.Attributes.of((None, stride, padding, dilation, transposed, output_padding, groups, ()))
    settings = calls.Settings.of(product, math, conformance, algorithm, deterministic)
    return _computed(calls.decide_forward(settings, input, weight, numbers), input, weight, bias, threads)


def _computed(
    decision: calls.Decision, input: Tensor, weight: Tensor, bias: Tensor | None, threads: int | None
) -> Tensor:
    if decision.plan is None:
        raise calls.refusal(decision.verdict)
    return calls.output(decision.plan, input, weight, bias, threads)


@convolution_op.register_fake
def _(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int, *how: object,
) -> Tensor:
    rank = input.dim() - 2
    stride, padding, dilation, output_padding = (
        per_axis(numbers, rank) for numbers in (stride, padding, dilation, output_padding)
    )
    low, high = zip(*pairs_of(padding, rank), strict=True)
    spatial = (input.shape[2:], weight.shape[2:], stride, dilation, low, high)
    size = map(fine_size, *spatial, output_padding) if transposed else map(coarse_size, *spatial)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    order, _ = orders_of_results(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    return calls.output_like(input, (input.shape[0], channels, *size), order)


@torch.library.custom_op(
    "convgrad::conv_backward", mutates_args=(), device_types="cpu",
    schema=f"(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, {_NUMBERS}, bool[] output_mask, "
    f"{_HOW}) -> (Tensor, Tensor, Tensor)",
)
def conv_backward_op(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    output_mask: Sequence[bool], math: str, product: str, conformance: str, algorithm: str | None, threads: int | None,
    deterministic: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients; an empty tensor where the mask says no."""
    attributes = calls.Attributes.of(
        (bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)
    )
    settings = calls.Settings.of(product, math, conformance, algorithm, deterministic)
    decision = calls.decide_conv(settings, grad_output, input, weight, attributes)
    if decision.plan is None:
        raise calls.refusal(decision.verdict)
    found = calls.gradients(decision.plan, grad_output, input, weight, threads)
    x, w, b = (grad_output.new_empty(0) if t is None else t for t in found)
    return x, w, b


@conv_backward_op.register_fake
def _(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: object, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    output_mask: Sequence[bool], *how: object,
) -> tuple[Tensor, Tensor, Tensor]:
    stride, padding, dilation, output_padding = (
        per_axis(numbers, input.dim() - 2) for numbers in (stride, padding, dilation, output_padding)
    )
    orders = orders_of_results(input, weight, stride, padding, dilation, transposed, output_padding, groups)
    like = (
        gradient_like(input, orders[0]), gradient_like(weight, orders[1]),
        grad_output.new_empty(grad_output.shape[1]),
    )
    x, w, b = (t if wanted else grad_output.new_empty(0) for t, wanted in zip(like, output_mask, strict=True))
    return x, w, b


def keep_convolution(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """What the derivative reads."""
    input, weight, _, *numbers = inputs
    ctx.save_for_backward(input, weight)
    ctx.numbers = numbers


def convolution_derivative(ctx: Any, grad_output: Tensor, op: Callable[..., Any] = conv_backward_op) -> tuple[Any, ...]:
    """The gradients; `op` computes them."""
    input, weight = ctx.saved_tensors
    mask = list(ctx.needs_input_grad[:3])
    sums = op(grad_output, input, weight, None, *ctx.numbers[:6], mask, *ctx.numbers[6:])
    return (*(t if wanted else None for t, wanted in zip(sums, mask, strict=True)), *(None,) * len(ctx.numbers))


convolution_op.register_autograd(convolution_derivative, setup_context=keep_convolution)


def keep_conv_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What the second derivative reads."""
    ctx.save_for_backward(*inputs[:3])
    ctx.numbers, ctx.mask, ctx.how = inputs[4:10], inputs[10], inputs[11:]
    ctx.set_materialize_grads(False)


def conv_backward_derivative(
    ctx: Any, cotangents: Sequence[Tensor | None], forward_op: Callable[..., Any] = convolution_op,
    backward_op: Callable[..., Any] = conv_backward_op,
) -> tuple[Any, ...]:
    """The derivatives of the gradients, computed by these two."""
    def forward(x: Tensor, w: Tensor) -> Tensor:
        found: Tensor = forward_op(x, w, None, *ctx.numbers, *ctx.how)
        return found

    def backward(g: Tensor, x: Tensor, w: Tensor, which: int) -> Tensor:
        mask = [i == which for i in range(3)]
        found: Tensor = backward_op(g, x, w, None, *ctx.numbers, mask, *ctx.how)[which]
        return found

    wanted = [c if m else None for c, m in zip(cotangents, ctx.mask, strict=True)]
    rest = 2 + len(ctx.numbers) + len(ctx.how)  # bias_sizes and the mask
    return (*second_derivative(ctx, wanted, forward, backward, channel=1), *(None,) * rest)


def second_derivative(
    ctx: Any, cotangents: Sequence[Tensor | None], forward: Callable[[Tensor, Tensor], Tensor],
    backward: Callable[[Tensor, Tensor, Tensor, int], Tensor], channel: int,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The three lines of algebra above; every missing cotangent is zero."""
    g, x, w = ctx.saved_tensors
    for_x, for_w, for_b = cotangents
    need_g, need_x, need_w = ctx.needs_input_grad[:3]
    grad_g = grad_x = grad_w = None
    if need_g:
        terms = [forward(for_x, w)] if for_x is not None else []
        terms += [forward(x, for_w)] if for_w is not None else []
        if for_b is not None:
            terms.append(for_b.reshape([-1 if i == channel else 1 for i in range(g.dim())]).expand_as(g))
        grad_g = sum(terms[1:], terms[0]) if terms else None
    if need_x and for_w is not None:
        grad_x = backward(g, x, for_w, 0)
    if need_w and for_x is not None:
        grad_w = backward(g, for_x, w, 1)
    return grad_g, grad_x, grad_w


conv_backward_op.register_autograd(
    lambda ctx, *cotangents: conv_backward_derivative(ctx, cotangents), setup_context=keep_conv_backward
)


# ---- time-batch-channel ------------------------------------------------------------------------------------


@torch.library.custom_op(
    "convgrad::conv_tbc", mutates_args=(), device_types="cpu",
    schema=f"(Tensor input, Tensor weight, Tensor? bias, SymInt pad, {_HOW}) -> Tensor",
)
def conv_tbc_op(
    input: Tensor, weight: Tensor, bias: Tensor | None, pad: int, math: str, product: str, conformance: str,
    algorithm: str | None, threads: int | None, deterministic: int = 0,
) -> Tensor:
    """The forward pass of the time-batch-channel convolution."""
    settings = calls.Settings.of(product, math, conformance, algorithm, deterministic)
    return _computed(calls.decide_forward(settings, input, weight, pad), input, weight, bias, threads)


@conv_tbc_op.register_fake
def _(input: Tensor, weight: Tensor, bias: Tensor | None, pad: int, *how: object) -> Tensor:
    length = coarse_size(input.shape[0], weight.shape[0], pad_low=pad, pad_high=pad)
    return input.new_empty((length, input.shape[1], weight.shape[2]))


@torch.library.custom_op(
    "convgrad::conv_tbc_backward", mutates_args=(), device_types="cpu",
    schema=f"(Tensor grad_output, Tensor input, Tensor weight, Tensor bias, SymInt pad, {_HOW}) "
    "-> (Tensor, Tensor, Tensor)",
)
def conv_tbc_backward_op(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int, math: str, product: str,
    conformance: str, algorithm: str | None, threads: int | None, deterministic: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the time-batch-channel convolution."""
    settings = calls.Settings.of(product, math, conformance, algorithm, deterministic)
    decision = calls.decide_tbc(settings, grad_output, input, weight, bias, pad)
    if decision.plan is None:
        raise calls.refusal(decision.verdict)
    x, w, b = calls.gradients(decision.plan, grad_output, input, weight, threads)
    assert x is not None and w is not None and b is not None
    return x, w, b


@torch.library.custom_op(
    "convgrad::pytorch_conv_tbc_backward", mutates_args=(),
    schema="(Tensor grad_output, Tensor input, Tensor weight, Tensor bias, SymInt pad) -> (Tensor, Tensor, Tensor)",
)
def pytorch_conv_tbc_backward_op(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own gradients of torch.conv_tbc."""
    x, w, b = torch.ops.aten.conv_tbc_backward(grad_output, input, weight, bias, pad)
    return x, w, b


def _tbc_shapes(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor, *rest: object
) -> tuple[Tensor, Tensor, Tensor]:
    return gradient_like(input, Order.PLAIN), gradient_like(weight, Order.PLAIN), gradient_like(bias, Order.PLAIN)


def keep_tbc(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """What the derivative reads."""
    input, weight, bias, *rest = inputs
    ctx.save_for_backward(input, weight)
    ctx.has_bias, ctx.rest = bias is not None, rest


def tbc_derivative(ctx: Any, grad_output: Tensor, op: Callable[..., Any] = conv_tbc_backward_op) -> tuple[Any, ...]:
    """The gradients; `op` computes them."""
    input, weight = ctx.saved_tensors
    x, w, b = op(grad_output, input, weight, grad_output.new_empty(weight.shape[2]), *ctx.rest)
    return x, w, b if ctx.has_bias else None, *(None,) * len(ctx.rest)


def keep_tbc_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """What the second derivative reads."""
    ctx.save_for_backward(*inputs[:3])
    ctx.rest = inputs[4:]
    ctx.set_materialize_grads(False)


def tbc_backward_derivative(op: Any, forward: Callable[..., Tensor]) -> Callable[..., tuple[Any, ...]]:
    """The derivatives of the gradients that `op` computes."""
    def derivative(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
        def backward(g: Tensor, x: Tensor, w: Tensor, which: int) -> Tensor:
            found: Tensor = op(g, x, w, g.new_empty(w.shape[2]), *ctx.rest)[which]
            return found

        found = second_derivative(ctx, cotangents, lambda x, w: forward(x, w, *ctx.rest), backward, channel=2)
        return (*found, *(None,) * (1 + len(ctx.rest)))

    return derivative


def _pytorch_conv_tbc(input: Tensor, weight: Tensor, pad: int) -> Tensor:
    return torch.conv_tbc(input, weight, input.new_zeros(weight.shape[2]), pad)


def _our_conv_tbc(input: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    found: Tensor = conv_tbc_op(input, weight, None, *rest)
    return found


conv_tbc_op.register_autograd(tbc_derivative, setup_context=keep_tbc)
for _op, _forward in ((conv_tbc_backward_op, _our_conv_tbc), (pytorch_conv_tbc_backward_op, _pytorch_conv_tbc)):
    _op.register_fake(_tbc_shapes)
    _op.register_autograd(tbc_backward_derivative(_op, _forward), setup_context=keep_tbc_backward)
