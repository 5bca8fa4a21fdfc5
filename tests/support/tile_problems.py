"""Random tile-kernel problems, and the plain definition of the gradients they are compared with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from convgrad.ascendc import FilterBasicBlock, TConv3DBackpropInputTiling, TConv3DBpFilterTiling


@dataclass(frozen=True)
class TileProblem:
    """Shapes and attributes of one 3-D convolution; `output_padding` asks for transpose mode."""

    batch: int
    cin: int
    cout: int
    size: tuple[int, int, int]
    out: tuple[int, int, int]
    window: tuple[int, int, int]
    stride: tuple[int, int, int]
    padding: tuple[int, int, int, int, int, int]
    dilation: tuple[int, int, int]
    output_padding: tuple[int, int, int] | None = None
    cores: int = 24
    seed: int = field(default=0)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.batch, self.cin, *self.size)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, self.cout, *self.out)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.cout, self.cin, *self.window)

    def attributes(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Integers small enough for every sum to be exact in half: gradOutput, weight, input."""
        rng = np.random.default_rng(self.seed)
        return tuple(rng.integers(-2, 3, shape) for shape in (self.output_shape, self.weight_shape, self.input_shape))


def random_problem(seed: int, transposed: bool = False) -> TileProblem:
    """A small problem: strides 1-3, dilation 1-2, asymmetric pads, ragged channels, 1-24 cores."""
    rng = np.random.default_rng(seed)
    while True:
        window = tuple(int(k) for k in rng.integers(1, 4, 3))
        stride = (int(rng.integers(1, window[0] + 1)), int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        dilation = tuple(int(d) for d in rng.integers(1, 3, 3))
        padding = tuple(int(rng.integers(0, window[axis // 2])) for axis in range(6))
        batch, cin, cout = int(rng.integers(1, 3)), int(rng.integers(1, 40)), int(rng.integers(1, 40))
        reach = [(window[axis] - 1) * dilation[axis] + 1 for axis in range(3)]
        pads = [padding[2 * axis] + padding[2 * axis + 1] for axis in range(3)]
        output_padding = None
        if transposed:
            out = [int(rng.integers(1, 4)), int(rng.integers(1, 7)), int(rng.integers(1, 7))]
            output_padding = tuple(int(rng.integers(0, max(stride[axis], dilation[axis]))) for axis in range(3))
            size = [
                (out[axis] - 1) * stride[axis] - pads[axis] + reach[axis] + output_padding[axis] for axis in range(3)
            ]
        else:
            size = [int(rng.integers(1, 6)), int(rng.integers(1, 13)), int(rng.integers(1, 13))]
            out = [(size[axis] + pads[axis] - reach[axis]) // stride[axis] + 1 for axis in range(3)]
        if min(size) > 0 and min(out) > 0:
            return TileProblem(
                batch,
                cin,
                cout,
                tuple(size),
                tuple(out),
                window,
                stride,
                padding,
                dilation,
                output_padding,
                int(rng.integers(1, 25)),
                seed,
            )


def taps(problem: TileProblem):
    """Each window tap with the slices of the padded input that it ties to gradOutput."""
    for tap in itertools.product(*(range(k) for k in problem.window)):
        yield (
            tap,
            tuple(
                slice(k * d, k * d + (out - 1) * s + 1, s)
                for k, d, out, s in zip(tap, problem.dilation, problem.out, problem.stride, strict=True)
            ),
        )


def padded_shape(problem: TileProblem) -> tuple[int, ...]:
    """Room for every window, and for the input with its pads."""
    return tuple(
        max(
            size + problem.padding[2 * axis] + problem.padding[2 * axis + 1],
            (problem.out[axis] - 1) * problem.stride[axis] + (problem.window[axis] - 1) * problem.dilation[axis] + 1,
        )
        for axis, size in enumerate(problem.size)
    )


def inner(problem: TileProblem) -> tuple[slice, ...]:
    """Where the input lies in the padded array."""
    return tuple(
        slice(problem.padding[2 * axis], problem.padding[2 * axis] + size) for axis, size in enumerate(problem.size)
    )


def plain_grad_input(problem: TileProblem, grad_output: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """gradInput by definition: every tap scatters gradOutput times its weights."""
    padded = np.zeros((problem.batch, problem.cin, *padded_shape(problem)))
    for (kd, kh, kw), (d, h, w) in taps(problem):
        padded[:, :, d, h, w] += np.einsum("nodhw,oi->nidhw", grad_output, weight[:, :, kd, kh, kw])
    return padded[(slice(None), slice(None), *inner(problem))]


def plain_grad_weight(problem: TileProblem, grad_output: np.ndarray, input: np.ndarray) -> np.ndarray:
    """gradWeight by definition: every tap gathers the input under gradOutput."""
    padded = np.zeros((problem.batch, problem.cin, *padded_shape(problem)))
    padded[(slice(None), slice(None), *inner(problem))] = input
    result = np.zeros(problem.weight_shape)
    for (kd, kh, kw), (d, h, w) in taps(problem):
        result[:, :, kd, kh, kw] = np.einsum("nodhw,nidhw->oi", grad_output, padded[:, :, d, h, w])
    return result


def forced_small_tiles(record: TConv3DBackpropInputTiling, seed: int) -> TConv3DBackpropInputTiling:
    """The same problem cut into tiny tiles and single shapes, any walk order: many tails, many blocks."""
    rng = np.random.default_rng(seed)
    base_k = 16
    group = record.k_of_block // base_k
    cin1 = int(rng.integers(1, record.cin1 + 1))
    return replace(
        record,
        baseM=16 * int(rng.integers(1, 4)),
        baseN=16 * int(rng.integers(1, 3)),
        baseK=base_k,
        stepKa=group * int(rng.integers(1, 3)),
        stepKb=group * int(rng.integers(1, 3)),
        singleCoreM=record.wi * int(rng.integers(1, record.hi + 1)),
        singleCoreCin1=cin1,
        singleCoreCin=min(record.cin, cin1 * record.c0),
        iterateOrder=int(rng.integers(0, 2)),
    )


def with_filter_tiles(record: TConv3DBpFilterTiling, **fields: int) -> TConv3DBpFilterTiling:
    """The record with other tiles and steps, and the input buffer that follows from them."""
    t = replace(record, **fields)
    return replace(t, bl1Bound=t.input_elements_in_l1(t.stepKb * t.baseK, t.stepN * t.baseN))


def forced_small_filter_tiles(
    record: TConv3DBpFilterTiling, seed: int
) -> tuple[TConv3DBpFilterTiling, FilterBasicBlock]:
    """The same problem in tiny tiles, steps above 1, either order, and single shapes that split every axis."""
    rng = np.random.default_rng(seed)
    t = with_filter_tiles(
        record, baseM=16, baseN=16 * int(rng.integers(1, 5)), baseK=16 * int(rng.integers(1, 3)),
        stepM=int(rng.integers(1, 3)), stepN=int(rng.integers(1, 3)), stepKa=1, stepKb=int(rng.integers(1, 3)),
        iterateOrder=int(rng.integers(0, 2)),
    )  # fmt: skip
    block = FilterBasicBlock(
        16 * int(rng.integers(1, t.weight_cout // 16 + 1)),
        t.window_area * 16 * int(rng.integers(1, t.cin1G + 1)), t.wo * int(rng.integers(1, t.ho + 1)),
    )  # fmt: skip
    return t, block
