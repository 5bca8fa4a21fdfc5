"""The functional API on torch tensors: the same calls as `convgrad`'s own, differentiable, with torch results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from convgrad import functional
from convgrad.calls import requests
from convgrad.calls.requests import Numbers, Padding
from convgrad.core import arguments
from convgrad.core.determinism import read_level
from convgrad.core.request import DEFAULT_CONFORMANCE, MATH_NAMES, read_algorithm
from convgrad.core.status import ConvGradError
from convgrad.functional import Gradients
from convgrad.torch import operators, transforms
from convgrad.torch.memory import array_of, refuse_unreadable, refuse_unwritable


def conv_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: Sequence[bool] = (True, True, True),
    math: str = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[Tensor | None] | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[Tensor | Any, Tensor | Any, Tensor | Any]:
    """`convgrad.conv_backward` on torch tensors; differentiable unless `out` is given."""
    _refuse(grad_output=grad_output, input=input, weight=weight)
    mask = arguments.flags("output_mask", output_mask)
    if out is not None:
        given = arguments.listed("out", out)
        functional.conv_backward(
            array_of(grad_output), array_of(input), array_of(weight), bias_sizes, stride=stride, padding=padding,
            dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups,
            output_mask=mask, math=math, product=product, conformance=conformance, algorithm=algorithm,
            out=_arrays(given), threads=_threads(threads), deterministic=deterministic,
        )
        return Gradients(*(t if wanted else None for t, wanted in zip(given, mask, strict=True)))
    rank = _rank(input)
    found = transforms.call(
        operators.conv_backward_op,
        grad_output, input, weight, None if bias_sizes is None else _each("bias_sizes", bias_sizes, 1),
        _each("stride", stride, rank), _flat("padding", padding, rank), _each("dilation", dilation, rank),
        arguments.flag("transposed", transposed), _each("output_padding", output_padding, rank),
        _one("groups", groups), list(mask), *_how(math, product, conformance, algorithm, threads, deterministic),
    )
    return Gradients(*(t if wanted else None for t, wanted in zip(found, mask, strict=True)))


def conv_tbc_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None = None, *, pad: int = 0,
    math: str = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[Tensor | None] | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[Tensor | Any, Tensor | Any, Tensor | Any]:
    """`convgrad.conv_tbc_backward` on torch tensors; differentiable unless `out` is given."""
    _refuse(grad_output=grad_output, input=input, weight=weight)
    if bias is None:
        bias = grad_output.new_empty(grad_output.shape[-1:])
    _refuse(bias=bias)
    if out is not None:
        given = arguments.listed("out", out)
        functional.conv_tbc_backward(
            array_of(grad_output), array_of(input), array_of(weight), array_of(bias), pad=pad, math=math,
            product=product, conformance=conformance, algorithm=algorithm, out=_arrays(given),
            threads=_threads(threads), deterministic=deterministic,
        )
        return Gradients(*given)
    how = _how(math, product, conformance, algorithm, threads, deterministic)
    return Gradients(*transforms.call(
        operators.conv_tbc_backward_op, grad_output, input, weight, bias, _one("pad", pad), *how))


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Numbers = 1, padding: Padding = 0,
    dilation: Numbers = 1, transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    math: str = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None,
    threads: int | None = None, deterministic: int = 0,
) -> Tensor:
    """The forward pass on torch tensors; its gradients are `conv_backward`'s, with the same math, product and level."""
    _refuse(input=input, weight=weight, **({} if bias is None else {"bias": bias}))
    rank = _rank(input)
    output: Tensor = transforms.call(
        operators.convolution_op, input, weight, bias, _each("stride", stride, rank), _flat("padding", padding, rank),
        _each("dilation", dilation, rank), arguments.flag("transposed", transposed),
        _each("output_padding", output_padding, rank), _one("groups", groups),
        *_how(math, product, conformance, algorithm, threads, deterministic),
    )
    return output


def conv_tbc(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, pad: int = 0, math: str = "keep",
    product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None,
    threads: int | None = None, deterministic: int = 0,
) -> Tensor:
    """The forward pass of the time-batch-channel convolution on torch tensors; its gradients are convgrad's."""
    _refuse(input=input, weight=weight, **({} if bias is None else {"bias": bias}))
    how = _how(math, product, conformance, algorithm, threads, deterministic)
    output: Tensor = transforms.call(operators.conv_tbc_op, input, weight, bias, _one("pad", pad), *how)
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


def _one(name: str, value: Any) -> int:
    """A whole number; one that torch.compile knows only by name stays as it is."""
    return cast(int, value) if isinstance(value, torch.SymInt) else arguments.number(name, value)


def _each(name: str, value: Any, rank: int) -> list[int]:
    """One number per axis."""
    found = arguments.entries(name, value)
    return [_one(name, value)] * rank if found is None else [_one(name, v) for v in found]


def _flat(name: str, padding: Any, rank: int) -> list[int]:
    """One number per axis, or (low, high) of every axis in a row."""
    found = arguments.entries(name, padding)
    if found is None:
        return [_one(name, padding)] * rank
    pairs = [arguments.entries(name, p) for p in found]
    if all(pair is None for pair in pairs):
        return [_one(name, p) for p in found]
    for p, pair in zip(found, pairs, strict=True):
        if pair is not None and len(pair) != 2:
            raise ConvGradError(f"{name}: a pair is (low, high), got {arguments.told(p)}", rule=f"{name}.type", value=p)
    both = [[p, p] if pair is None else pair for p, pair in zip(found, pairs, strict=True)]
    return [_one(name, n) for pair in both for n in pair]


def _how(
    math: Any, product: Any, conformance: Any, algorithm: Any, threads: Any, deterministic: Any
) -> tuple[str, str, str, str | None, int | None, int]:
    """Names that exist, a number of threads, a level. Without an algorithm the operator asks the environment."""
    return (
        MATH_NAMES[requests.read_math(math)] if isinstance(math, str) else _no_name("math", math),
        requests.read_product(product), requests.read_conformance(conformance),
        None if algorithm is None else read_algorithm("algorithm", algorithm), arguments.threads(threads),
        read_level("deterministic", deterministic),
    )


def _no_name(name: str, value: object) -> str:
    raise arguments.wrong_type(name, "a name", value)


def _threads(threads: int | None) -> int:
    return arguments.threads(threads) or torch.get_num_threads()


def _arrays(out: Sequence[Tensor | None]) -> list[Any]:
    for i, tensor in enumerate(out):
        if tensor is not None:
            refuse_unwritable(tensor, f"out[{i}]")
    return [None if tensor is None else array_of(tensor) for tensor in out]
