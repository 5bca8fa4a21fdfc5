"""The time PyTorch takes for the same case, where it is installed and knows the problem."""

from __future__ import annotations

import time

import numpy as np

from convgrad.core.operands import Operands
from convgrad.core.request import Request
from convgrad.core.tensor import Tensor
from convgrad.lab.bench.contestants import has_pytorch, pytorch_call

REPEATS = 3


def pytorch_seconds(request: Request, tensors: Operands, threads: int) -> float | None:
    """Seconds of PyTorch's gradients, the best of a few; `None` where PyTorch is not here or cannot do the case."""
    if tensors.grad_output is None or not has_pytorch():
        return None
    import torch

    given = [
        Tensor(array.copy(), spec.dtype) if spec.dtype == "hifloat8" else np.array(array)
        for array, spec in ((tensors.grad_output, request.grad_output), (tensors.input, request.input),
                            (tensors.weight, request.weight)) if spec is not None
    ]  # fmt: skip
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        call = pytorch_call(request, given)  # has been called once: warm
        if call is None:
            return None
        taken = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
        return min(taken)
    finally:
        torch.set_num_threads(before)
