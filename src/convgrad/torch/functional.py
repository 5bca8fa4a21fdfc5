"""The functional API on torch tensors: the same calls as `convgrad`'s own, differentiable, with torch results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from convgrad import functional
from convgrad.functional import Gradients, Numbers, Padding
from convgrad.status import ConvGradError
from convgrad.torch import operators
from convgrad.torch.memory import array_of, refuse_unreadable, refuse_unwritable


def conv_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: Sequence[bool] = (True, True, True),
    math: str = "keep", product: str = "cpu", conformance: str = "document",
    out: Sequence[Tensor | None] | None = None, threads: int | None = None,
) -> Gradients:
    """`convgrad.conv_backward` on torch tensors; differentiable unless `out` is given."""
    _refuse(grad_output=grad_output, input=input, weight=weight)
    if out is not None:
        functional.conv_backward(
            array_of(grad_output), array_of(input), array_of(weight), bias_sizes, stride=stride, padding=padding,
            dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups,
            output_mask=output_mask, math=math, product=product, conformance=conformance,
            out=_arrays(out), threads=threads or torch.get_num_threads(),
        )
        return Gradients(*(t if wanted else None for t, wanted in zip(out, output_mask, strict=True)))
    rank = _rank(input)
    found = operators.conv_backward_op(
        grad_output, input, weight, None if bias_sizes is None else list(bias_sizes), _each(stride, rank),
        _flat(padding, rank), _each(dilation, rank), transposed, _each(output_padding, rank), groups,
        [bool(m) for m in output_mask], math, product, conformance, threads,
    )
    return Gradients(*(t if wanted else None for t, wanted in zip(found, output_mask, strict=True)))


def conv_tbc_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None = None, *, pad: int = 0,
    math: str = "keep", product: str = "cpu", conformance: str = "document",
    out: Sequence[Tensor | None] | None = None, threads: int | None = None,
) -> Gradients:
    """`convgrad.conv_tbc_backward` on torch tensors; differentiable unless `out` is given."""
    _refuse(grad_output=grad_output, input=input, weight=weight)
    if bias is None:
        bias = grad_output.new_empty(grad_output.shape[-1:])
    _refuse(bias=bias)
    if out is not None:
        functional.conv_tbc_backward(
            array_of(grad_output), array_of(input), array_of(weight), array_of(bias), pad=pad, math=math,
            product=product, conformance=conformance, out=_arrays(out), threads=threads or torch.get_num_threads(),
        )
        return Gradients(*out)
    how = (math, product, conformance, threads)
    return Gradients(*operators.conv_tbc_backward_op(grad_output, input, weight, bias, pad, *how))


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Numbers = 1, padding: Padding = 0,
    dilation: Numbers = 1, transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    math: str = "keep", product: str = "cpu", conformance: str = "document", threads: int | None = None,
) -> Tensor:
    """The forward pass on torch tensors; its gradients are `conv_backward`'s, with the same math and product."""
    _refuse(input=input, weight=weight, **({} if bias is None else {"bias": bias}))
    rank = _rank(input)
    output: Tensor = operators.convolution_op(
        input, weight, bias, _each(stride, rank), _flat(padding, rank), _each(dilation, rank), transposed,
        _each(output_padding, rank), groups, math, product, conformance, threads,
    )
    return output


def conv_tbc(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, pad: int = 0, math: str = "keep",
    product: str = "cpu", conformance: str = "document", threads: int | None = None,
) -> Tensor:
    """The forward pass of the time-batch-channel convolution on torch tensors; its gradients are convgrad's."""
    _refuse(input=input, weight=weight, **({} if bias is None else {"bias": bias}))
    output: Tensor = operators.conv_tbc_op(input, weight, bias, pad, math, product, conformance, threads)
    return output


def _refuse(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        refuse_unreadable(tensor, name)


def _rank(input: Tensor) -> int:
    if not 3 <= input.dim() <= 5:
        shape = tuple(input.shape)
        message = f"input must have 3 to 5 axes (batch, channels, 1 to 3 spatial), got shape {shape}"
        raise ConvGradError(message, rule="input.rank", value=shape)
    return input.dim() - 2


def _each(value: Any, rank: int) -> list[int]:
    """One number per axis."""
    return [value] * rank if isinstance(value, int) else list(value)


def _flat(padding: Any, rank: int) -> list[int]:
    """One number per axis, or (low, high) of every axis in a row."""
    if isinstance(padding, int):
        return [padding] * rank
    if all(isinstance(p, int) for p in padding):
        return list(padding)
    return [n for p in padding for n in ((p, p) if isinstance(p, int) else p)]


def _arrays(out: Sequence[Tensor | None]) -> list[Any]:
    for i, tensor in enumerate(out):
        if tensor is not None:
            refuse_unwritable(tensor, f"out[{i}]")
    return [None if tensor is None else array_of(tensor) for tensor in out]
