"""The shape algebra of a convolution, once, for every layer: integers only.

A convolution ties a fine grid to a coarse grid through a window. Per axis:

    fine index = coarse index * stride - pad_low + tap * dilation

    T = sum  fine[b, f, i] * weight[c, f, k] * coarse[b, c, o]      over every tied (i, k, o), per group

Every result this library computes is one partial derivative of T (see `Contraction`).

                    fine is     coarse is    grad_input    grad_weight    grad_bias sums    forward
    convolution     input       output       dT/dfine      dT/dweight     coarse            dT/dcoarse
    transposed      output      input        dT/dcoarse    dT/dweight     fine              dT/dfine
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

INT64_MAX = 2**63 - 1


class Contraction(Enum):
    """Which partial derivative of T a compute loop gives."""

    TO_FINE = "fine"
    TO_COARSE = "coarse"
    TO_WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of the law."""

    fine: int
    coarse: int
    window: int
    stride: int = 1
    dilation: int = 1
    pad_low: int = 0
    pad_high: int = 0

    @property
    def reach(self) -> int:
        """Fine cells one window covers."""
        return self.dilation * (self.window - 1) + 1

    @property
    def slack(self) -> int:
        """Fine cells past the last window: what transposed convolution calls output padding."""
        return self.fine + self.pad_low + self.pad_high - self.reach - (self.coarse - 1) * self.stride

    @property
    def fits(self) -> bool:
        """Whether the three sizes obey the law."""
        return 0 <= self.slack < self.stride

    def tied_coarse(self, tap: int) -> range:
        """Coarse indices whose window has this tap inside the fine grid (never in its padding)."""
        # 0 <= o*stride - pad_low + tap*dilation < fine
        start = tap * self.dilation - self.pad_low
        first = max(0, -(start // self.stride))
        last = min(self.coarse - 1, (self.fine - 1 - start) // self.stride)
        return range(first, last + 1)


def coarse_size(
    fine: int, window: int, stride: int = 1, dilation: int = 1, pad_low: int = 0, pad_high: int = 0
) -> int:
    """Positions a window takes on a fine grid; zero or less when it does not fit even once."""
    room = fine + pad_low + pad_high - (dilation * (window - 1) + 1)
    return room // stride + 1 if room >= 0 else 0


def fine_size(
    coarse: int, window: int, stride: int = 1, dilation: int = 1, pad_low: int = 0, pad_high: int = 0, slack: int = 0
) -> int:
    """Size of the fine grid a transposed convolution makes; `slack` is its output padding."""
    return (coarse - 1) * stride + dilation * (window - 1) + 1 + slack - pad_low - pad_high


UNIT_AXIS = Axis(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of one convolution: always three axes (depth, height, width); lower ranks lead with unit axes."""

    batch: int
    fine_channels: int
    coarse_channels: int
    groups: int
    axes: tuple[Axis, Axis, Axis]

    @property
    def fine_shape(self) -> tuple[int, ...]:
        return (self.batch, self.fine_channels, *(a.fine for a in self.axes))

    @property
    def coarse_shape(self) -> tuple[int, ...]:
        return (self.batch, self.coarse_channels, *(a.coarse for a in self.axes))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.coarse_channels, self.fine_channels // self.groups, *(a.window for a in self.axes))

    @property
    def taps(self) -> int:
        return prod(a.window for a in self.axes)

    @property
    def multiply_adds(self) -> int:
        """Products in T, those with padding included."""
        return prod(self.coarse_shape) * (self.fine_channels // self.groups) * self.taps
