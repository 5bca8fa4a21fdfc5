"""The time PyTorch takes for the same case, where it is installed and knows the problem."""

from __future__ import annotations

import time
from typing import Any

from convgrad import dtypes, rounding
from convgrad.arrays import AnyArray
from convgrad.compare.runs import Operands
from convgrad.request import Operator, Request, pad_pairs

REPEATS = 3


def pytorch_seconds(request: Request, tensors: Operands, threads: int) -> float | None:
    """Seconds of `convolution_backward`, the best of a few; `None` where PyTorch is not here or cannot do the case."""
    if request.forward or request.operator is Operator.TBC or tensors.grad_output is None:
        return None
    if not _symmetric(request):
        return None
    try:
        import torch
    except ImportError:
        return None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        g, x, w = (_torch_tensor(torch, a, s.dtype) for a, s in (
            (tensors.grad_output, request.grad_output), (tensors.input, request.input),
            (tensors.weight, request.weight)) if s is not None)
        taken = []
        for _ in range(1 + REPEATS):
            start = time.perf_counter()
            torch.ops.aten.convolution_backward(
                g, x, w, list(request.bias_sizes or ()), list(request.stride or ()), list(_pads(request)),
                list(request.dilation or ()), request.transposed, list(request.output_padding or ()), request.groups,
                list(request.output_mask or ()),
            )
            taken.append(time.perf_counter() - start)
        return min(taken[1:])  # the first one warms up
    except RuntimeError:
        return None
    finally:
        torch.set_num_threads(before)


def _pads(request: Request) -> tuple[int, ...]:
    pairs = pad_pairs(request.padding or (), len(request.stride or ())) or ()
    return tuple(low for low, _ in pairs)


def _symmetric(request: Request) -> bool:
    pairs = pad_pairs(request.padding or (), len(request.stride or ())) or ()
    return all(low == high for low, high in pairs)


def _torch_tensor(torch: Any, array: AnyArray, dtype: str) -> Any:
    values = torch.from_numpy(rounding.load(dtypes.find(dtype), array).copy())
    return values.to(getattr(torch, dtype)) if hasattr(torch, dtype) else values
