"""Hypothesis strategies shared by the tests: any request at all, and consistent convolution problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from convgrad.core.geometry import coarse_size, fine_size
from convgrad.core.products import KEYS
from convgrad.core.request import Operator, Request, TensorSpec

DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8", "int32")
FORMATS = ("ND", "NCL", "NCHW", "NCDHW", "NHWC")

sizes = st.integers(-2, 5)
shapes = st.lists(sizes, max_size=6).map(tuple)
tensors = st.none() | st.builds(TensorSpec, shapes, st.sampled_from(DTYPES), st.sampled_from(FORMATS))
arrays = st.none() | st.lists(sizes, max_size=5).map(tuple)
pads = st.none() | st.lists(sizes | st.tuples(sizes, sizes), max_size=5).map(tuple)

any_request = st.builds(
    Request,
    st.sampled_from(Operator), tensors, tensors, tensors, tensors, arrays, arrays, pads, arrays, st.booleans(), arrays,
    st.integers(-2, 4), st.none() | st.lists(st.booleans(), max_size=4).map(tuple), st.integers(-1, 5),
    tensors, tensors, tensors, st.integers(-2, 300), st.booleans(), st.sampled_from(KEYS),
    st.sampled_from(("document", "runtime")),
)


@dataclass(frozen=True)
class Layer:
    """A consistent convolution: the arguments of the functional API and the shapes of its tensors."""

    rank: int
    batch: int
    fine_channels: int
    coarse_channels: int
    groups: int
    fine: tuple[int, ...]
    coarse: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    transposed: bool
    slack: tuple[int, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """grad_output, input, weight."""
        fine = (self.batch, self.fine_channels, *self.fine)
        coarse = (self.batch, self.coarse_channels, *self.coarse)
        weight = (self.coarse_channels, self.fine_channels // self.groups, *self.window)
        return (fine, coarse, weight) if self.transposed else (coarse, fine, weight)

    @property
    def options(self) -> dict[str, object]:
        return {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups,
            "transposed": self.transposed, "output_padding": self.slack if self.transposed else 0,
        }

    def integers(self, seed: int, low: int = -3, high: int = 4, dtype: str = "float64") -> tuple[np.ndarray, ...]:
        """grad_output, input, weight filled with small integers: every sum is exact, so gradients compare with ==."""
        rng = np.random.default_rng(seed)
        return tuple(rng.integers(low, high, s).astype(dtype) for s in self.shapes)


@st.composite
def layers(draw: st.DrawFn, ranks: tuple[int, ...] = (1, 2, 3), transposed: bool | None = None) -> Layer:
    """Every option the law has: strides, dilations, one-sided padding, groups, multipliers, slack."""
    rank = draw(st.sampled_from(ranks))
    swapped = draw(st.booleans()) if transposed is None else transposed
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    fine_channels, coarse_channels = (groups * draw(st.integers(1, 3)) for _ in range(2))
    small = 3 if rank == 3 else 4
    axes = []
    for _ in range(rank):
        window, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        reach = dilation * (window - 1) + 1
        if swapped:
            slack = draw(st.integers(0, stride - 1))
            # The fine grid must have at least one cell left after the padding is taken off.
            least = max(1, -(-(low + high + 1 - reach - slack) // stride) + 1)
            coarse = draw(st.integers(least, least + small - 1))
            fine = fine_size(coarse, window, stride, dilation, low, high, slack)
        else:
            fine = draw(st.integers(max(1, reach - low - high), max(1, reach - low - high) + 2 * small))
            coarse = coarse_size(fine, window, stride, dilation, low, high)
            slack = 0
        axes.append((fine, coarse, window, stride, dilation, (low, high), slack))
    fine_, coarse_, window_, stride_, dilation_, padding_, slack_ = zip(*axes, strict=True)
    batch = draw(st.integers(1, 2))
    return Layer(
        rank, batch, fine_channels, coarse_channels, groups, fine_, coarse_, window_, stride_, dilation_, padding_,
        swapped, slack_,
    )
