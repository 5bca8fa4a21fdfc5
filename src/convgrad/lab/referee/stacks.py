"""Stacks under test: convgrad, PyTorch, or a function of one's own, asked for the gradients of one problem."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convgrad import functional
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.request import Operator, Request, pad_pairs
from convgrad.core.tensor import Tensor
from convgrad.text.terminal import UsageError

LAYOUTS = ("contiguous", "channels_last")
NAMES = ("convgrad", "torch")


class NotRunError(Exception):
    """The stack cannot be asked this: a dtype, a layout or a padding it has no words for; or it answers in none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which results of a call."""

    output: bool = False
    input: bool = False
    weight: bool = False
    bias: bool = False


RESULTS = ("output", "grad_input", "grad_weight", "grad_bias")
"""Names of results, in the order of `Wanted`."""
Found = dict[str, AnyArray]
"""By name; numbers as the stack stored them."""
Stack = Callable[[Request, AnyArray, AnyArray, AnyArray, Wanted, int | None], Found]
"""(request, grad_output, input, weight, wanted, threads) -> results."""


def find(name: str) -> Stack:
    """`convgrad`, `torch`, or `path/to/file.py:name`: a function of the arguments of `Stack`."""
    if name == "convgrad":
        return ask_convgrad
    if name == "torch":
        return ask_torch
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py") or not Path(file).is_file():
        raise UsageError(f"a stack is convgrad, torch or path/to/file.py:name, got {name!r}")
    spec = importlib.util.spec_from_file_location("convgrad_stack_under_test", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"cannot import {file}: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, attribute, None)):
        raise UsageError(f"{file} has no function {attribute}")
    return _looked_at(getattr(module, attribute))


def _looked_at(function: Callable[..., Any]) -> Stack:
    """A function of one's own; of its answer what was asked for, as arrays."""

    def ask(r: Request, g: AnyArray, x: AnyArray, w: AnyArray, wanted: Wanted, threads: int | None) -> Found:
        answer = function(r, g, x, w, wanted, threads)
        if not isinstance(answer, Mapping):
            raise NotRunError(f"a stack returns a dict of results by name, not {type(answer).__name__}")
        unknown = next((name for name in answer if name not in RESULTS), None)
        if unknown is not None:
            raise NotRunError(f"a stack has no result {unknown!r}: names are {', '.join(RESULTS)}")
        asked = [name for name, on in zip(RESULTS, astuple(wanted), strict=True) if on]
        return {name: np.asarray(answer[name]) for name in asked if answer.get(name) is not None}

    return ask


def laid_out(array: AnyArray, layout: str) -> AnyArray:
    """The same values, channels side by side in memory where the layout says so."""
    if layout == "contiguous" or array.ndim < 3:
        return np.ascontiguousarray(array)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def batch_axis(request: Request) -> int:
    """Where the samples of data tensors are counted."""
    return 1 if request.operator is Operator.TBC else 0


def attributes(r: Request) -> dict[str, Any]:
    """The request's attributes as the functional door takes them."""
    return {
        "stride": r.stride or 1, "padding": r.padding or 0, "dilation": r.dilation or 1, "transposed": r.transposed,
        "output_padding": r.output_padding or 0, "groups": r.groups,
    }


def ask_convgrad(r: Request, g: AnyArray, x: AnyArray, w: AnyArray, wanted: Wanted, threads: int | None) -> Found:
    """This project's own engine, under the request's product, math and level of determinism."""
    rules: dict[str, Any] = {
        "math": r.math, "product": r.product, "conformance": r.conformance, "algorithm": r.algorithm,
        "deterministic": r.deterministic,
    }  # fmt: skip
    tg, tx, tw = _tensors(r, g, x, w)
    found: Found = {}
    mask = (wanted.input, wanted.weight, wanted.bias)
    if any(mask):
        if r.operator is Operator.TBC:
            given = functional.conv_tbc_backward(tg, tx, tw, pad=r.pad, threads=threads, **rules)
        else:
            given = functional.conv_backward(tg, tx, tw, output_mask=mask, threads=threads, **attributes(r), **rules)
        names = ("grad_input", "grad_weight", "grad_bias")
        found |= {n: _plain(a) for n, a, on in zip(names, given, mask, strict=True) if on and a is not None}
    if wanted.output:
        if r.operator is Operator.TBC:
            y = functional.conv_tbc(tx, tw, pad=r.pad, threads=threads, **rules)
        else:
            y = functional.convolution(tx, tw, threads=threads, **attributes(r), **rules)
        found["output"] = _plain(y)
    return found


def leaves(r: Request, g: AnyArray, x: AnyArray, w: AnyArray) -> Found:
    """The gradients of weight and bias of every sample, which this project's own engine has not rounded yet."""
    given = functional.plan(r).sample_gradients(*_tensors(r, g, x, w))
    return {n: a for n, a in (("grad_weight", given.weight), ("grad_bias", given.bias)) if a is not None}


def _tensors(r: Request, *arrays: AnyArray) -> list[Any]:
    """grad_output, input, weight as the functional door takes them."""
    specs = (r.grad_output, r.input, r.weight)
    return [
        Tensor(a, spec.dtype) if spec is not None and spec.dtype == "hifloat8" else a
        for a, spec in zip(arrays, specs, strict=True)
    ]


def _plain(array: Any) -> AnyArray:
    return array.data if isinstance(array, Tensor) else np.asarray(array)


def ask_torch(r: Request, g: AnyArray, x: AnyArray, w: AnyArray, wanted: Wanted, threads: int | None) -> Found:
    """PyTorch's own kernels on the CPU."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    tg, tx, tw = (_as_torch(torch, a) for a in (g, x, w))
    mask = [wanted.input, wanted.weight, wanted.bias]
    found: dict[str, Any] = {}
    if r.operator is Operator.TBC:
        bias = torch.zeros(tg.shape[2], dtype=tg.dtype)
        if any(mask):
            found = dict(zip(("grad_input", "grad_weight", "grad_bias"),
                             torch.ops.aten.conv_tbc_backward(tg, tx, tw, bias, r.pad), strict=True))  # fmt: skip
        if wanted.output:
            found["output"] = torch.conv_tbc(tx, tw, bias, r.pad)
    else:
        rank = tx.ndim - 2
        pairs = pad_pairs(r.padding or (0,) * rank, rank) or ()
        if any(low != high for low, high in pairs):
            raise NotRunError("PyTorch pads both sides alike")
        numbers = (r.stride or (1,) * rank, [low for low, _ in pairs], r.dilation or (1,) * rank, r.transposed,
                   r.output_padding or (0,) * rank, r.groups)  # fmt: skip
        if any(mask):
            sizes = [tg.shape[1]] if wanted.bias else None
            given = torch.ops.aten.convolution_backward(tg, tx, tw, sizes, *numbers, mask)
            found = dict(zip(("grad_input", "grad_weight", "grad_bias"), given, strict=True))
        if wanted.output:
            found["output"] = torch.convolution(tx, tw, None, *numbers)
    wants = {"output": wanted.output, "grad_input": wanted.input, "grad_weight": wanted.weight,
             "grad_bias": wanted.bias}  # fmt: skip
    return {name: _as_numpy(torch, t) for name, t in found.items() if wants[name] and t is not None}


def _as_torch(torch: Any, array: AnyArray) -> Any:
    if array.dtype.name in ("float32", "float64", "float16"):
        return torch.from_numpy(array)
    if not hasattr(torch, array.dtype.name) or array.dtype.name == "uint8":
        raise NotRunError(f"PyTorch has no {array.dtype.name}")
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, array.dtype.name))


def _as_numpy(torch: Any, tensor: Any) -> AnyArray:
    if tensor.dtype in (torch.float32, torch.float64, torch.float16):
        return np.asarray(tensor.detach().numpy())
    bits = tensor.detach().contiguous().view({1: torch.uint8, 2: torch.int16}[tensor.element_size()]).numpy()
    return np.asarray(bits.view(rounding.storage(dtypes.find(str(tensor.dtype).removeprefix("torch.")))))


def operands(r: Request, layout: str, seed: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """grad_output, input, weight of normal numbers."""
    rng = np.random.default_rng(seed)
    specs = (r.grad_output, r.input, r.weight)
    return stored(r, [rng.standard_normal(spec.shape) for spec in specs if spec is not None], layout)


def stored(r: Request, numbers: Sequence[AnyArray], layout: str) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Numbers for grad_output, input, weight in the request's dtypes and a layout (TBC has one of its own)."""
    layout = "contiguous" if r.operator is Operator.TBC else layout
    arrays = []
    for spec, values in zip((r.grad_output, r.input, r.weight), numbers, strict=True):
        assert spec is not None
        arrays.append(laid_out(rounding.store(dtypes.find(spec.dtype), values.astype(np.float64)), layout))
    return arrays[0], arrays[1], arrays[2]
