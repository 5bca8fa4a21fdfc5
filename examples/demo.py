"""Gradients of a handful of real layers, each checked against the textbook in float64."""

from __future__ import annotations

import time

import numpy as np

import convgrad
import textbook
from convgrad.request import Operator, pad_pairs

LAYERS = (
    ("ResNet 3x3", "conv n4 c64>64 i56x56 k3x3 p1 fp32"),
    ("7x7 stem, stride 2", "conv n2 c3>64 i112x112 k7x7 s2 p3 fp32"),
    ("ConvNeXt depthwise", "conv n4 c96>96 i28x28 k7x7 p3 g96 fp32"),
    ("video 3x3x3", "conv n1 c32>32 i8x28x28 k3x3x3 p1 bf16"),
    ("U-Net upsampler", "tconv n2 c64>32 i28x28 k4x4 s2 p1 fp16"),
    ("ResNet 3x3, HF32", "conv n4 c64>64 i56x56 k3x3 p1 fp32 math=hf32 on=A2"),
    ("translation TBC", "tbc n16 c128>128 i60 k5 p2 fp32"),
)


def gradients(request: convgrad.Request, g, x, w):
    """Ours, and the textbook's from the same stored values."""
    exact = [convgrad.Tensor(t).values().astype(np.float64) for t in (g, x, w)]
    numerics = {"math": request.math, "product": request.product}
    started = time.perf_counter()
    if request.operator is Operator.TBC:
        ours = convgrad.conv_tbc_backward(g, x, w, pad=request.pad, **numerics)
        seconds = time.perf_counter() - started
        return ours, textbook.tbc_backward(*exact, request.pad), seconds
    pads = pad_pairs(request.padding, len(request.stride))
    ours = convgrad.conv_backward(
        g, x, w, stride=request.stride, padding=pads, dilation=request.dilation, transposed=request.transposed,
        groups=request.groups, **numerics,
    )
    seconds = time.perf_counter() - started
    theirs = textbook.conv_backward(
        *exact, request.stride, pads, request.dilation, request.transposed, request.groups
    )
    return ours, theirs, seconds


def error(ours, exact) -> float:
    """Largest difference, in units of the largest gradient."""
    values = convgrad.Tensor(ours).values().astype(np.float64)
    return float(np.abs(values - exact).max() / np.abs(exact).max())


def main() -> None:
    info = convgrad.engine_info()
    print(f"convgrad {convgrad.__version__}: engine {info.engine}, {info.isa}, {info.threads} threads\n")
    head = ("layer", "input", "weight", "dtype", "grad_input", "grad_weight", "grad_bias", "time")
    form = "{:20} {:>16} {:>14} {:>9}   {:>10} {:>11} {:>10} {:>10}"
    print(form.format(*head))
    rng = np.random.default_rng(0)
    for name, line in LAYERS:
        request = convgrad.Request.parse(line)
        specs = (request.grad_output, request.input, request.weight)
        tensors = [convgrad.Tensor(rng.normal(size=s.shape), s.dtype) for s in specs]
        ours, exact, seconds = gradients(request, *tensors)
        errors = [f"{error(a, b):.1e}" for a, b in zip(ours, exact, strict=True)]
        shapes = ["x".join(map(str, s.shape)) for s in (request.input, request.weight)]
        print(form.format(name, *shapes, request.input.dtype, *errors, f"{seconds * 1e3:.1f} ms"))
        print(f"    {request}")
    print("\nErrors are the largest difference from float64, relative to the largest gradient.")


if __name__ == "__main__":
    main()
