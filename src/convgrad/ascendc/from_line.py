"""A tile-kernel problem from a problem line: shapes, attributes, integer data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core.geometry import Geometry
from convgrad.core.problem import prove
from convgrad.core.request import Operator, Request
from convgrad.core.status import ConvGradError
from convgrad.rules.check import check

from .device.conv_type import ConvDtype, find_dtype
from .device.errors import TilingError
from .shared.arguments import Sextuple, TileArguments, Triple

PRODUCTS = ("cpu", "A2", "A3")


class Gradient(Enum):
    """Which gradient, and with it which kernel."""

    INPUT = "input"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class LineProblem:
    """What a problem line asks of the tile kernel; 1-D and 2-D problems have unit axes."""

    line: str
    geometry: Geometry
    dtype: ConvDtype
    transposed: bool
    gradient: Gradient

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of gradInput: the fine grid."""
        return (self.geometry.batch, self.geometry.fine_channels, *(axis.fine for axis in self.geometry.axes))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of gradOutput: the coarse grid."""
        return (self.geometry.batch, self.geometry.coarse_channels, *(axis.coarse for axis in self.geometry.axes))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of weight."""
        return (
            self.geometry.coarse_channels,
            self.geometry.fine_channels,
            *(axis.window for axis in self.geometry.axes),
        )

    @property
    def stride(self) -> Triple:
        """Strides."""
        d, h, w = (axis.stride for axis in self.geometry.axes)
        return d, h, w

    @property
    def dilation(self) -> Triple:
        """Dilations."""
        d, h, w = (axis.dilation for axis in self.geometry.axes)
        return d, h, w

    @property
    def padding(self) -> Sextuple:
        """front, back, up, down, left, right."""
        d, h, w = self.geometry.axes
        return d.pad_low, d.pad_high, h.pad_low, h.pad_high, w.pad_low, w.pad_high

    @property
    def output_padding(self) -> Triple:
        """Cells past the last window."""
        d, h, w = (axis.slack for axis in self.geometry.axes)
        return d, h, w

    @property
    def pad_pairs(self) -> list[tuple[int, int]]:
        """(low, high) of each axis."""
        return [(axis.pad_low, axis.pad_high) for axis in self.geometry.axes]

    @property
    def attributes(self) -> dict[str, Any]:
        """Strides, pads and dilations by name, as the functional API takes them."""
        return {"stride": self.stride, "padding": self.pad_pairs, "dilation": self.dilation}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The three shapes by name."""
        return {"input": self.input_shape, "weight": self.weight_shape, "grad_output": self.output_shape}

    def arguments(self, cores: int) -> TileArguments:
        """What the tiling object is told; a transposed convolution has no input shape of its own."""
        return TileArguments(
            self.output_shape, self.weight_shape, None if self.transposed else self.input_shape, self.stride,
            self.padding, self.dilation, self.dtype, cores, self.output_padding,
        )  # fmt: skip

    def integers(self, shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
        """Integers from -2 to 2: exact in every dtype, with sums that float32 holds exactly."""
        return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def problem_of(line: str) -> LineProblem:
    """The problem behind a line; refuses what the contract refuses, and what the tile kernel does not know."""
    request = Request.parse(line)
    verdict = check(request)
    if not verdict.ok:
        raise ConvGradError(
            verdict.message, status=verdict.status, rule=verdict.rule_id, value=verdict.value, line=verdict.line
        )
    shown = str(request)
    if request.operator is not Operator.CONV:
        raise TilingError("the tile kernels compute conv and tconv", "tile.operator", shown)
    if request.product not in PRODUCTS:
        raise TilingError(f"the tile kernels exist on A2 and A3, got {request.product}", "tile.product", shown)
    if request.groups != 1:
        raise TilingError(f"groups must be 1, got {request.groups}", "tile.groups", shown)
    assert request.input is not None
    if request.input.dtype not in ("float16", "bfloat16"):
        raise TilingError(f"operands must be fp16 or bf16, got {request.input.dtype}", "tile.dtype", shown)
    problem = prove(request)
    if problem.empty:
        raise TilingError("the tile kernels need tensors with elements", "tile.empty", shown)
    wants_input, wants_weight, _ = problem.wants
    gradient = Gradient.INPUT if request.transposed or wants_input or not wants_weight else Gradient.WEIGHT
    return LineProblem(shown, problem.geometry, find_dtype(request.input.dtype), request.transposed, gradient)
