"""What a problem line asks of a tile kernel, ready to run: plan, traffic, picture, golden tiles, and the check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.functional import conv_backward, convolution

from .device.errors import TilingError
from .device.platform import PlatformInfo
from .filter.golden import FilterGolden
from .filter.picture import draw_filter_walk
from .filter.record import FilterBasicBlock, TConv3DDwTiling
from .filter.simulate import simulate_filter
from .filter.split import FilterBlock, filter_blocks
from .filter.tiling import plan_filter
from .filter.traffic import filter_traffic_report
from .from_line import Gradient, LineProblem, problem_of
from .input.golden import Golden
from .input.picture import draw_walk
from .input.record import TConv3DBackpropInputTiling
from .input.simulate import simulate
from .input.split import Block, flat_blocks
from .input.tiling import plan_input
from .input.traffic import traffic_report
from .shared.golden import GoldenTiles
from .shared.tiling_report import FieldReport
from .shared.traffic import TrafficReport


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation gave, what the functional API gives, and the golden tiles."""

    got: NDArray[Any]
    expected: NDArray[Any]
    golden: GoldenTiles[Any]


@dataclass(frozen=True, slots=True)
class InputRun:
    """Conv3DBackpropInput on a line, or the transposed convolution through it."""

    problem: LineProblem
    cores: int
    record: TConv3DBackpropInputTiling
    report: tuple[FieldReport, ...]
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """The kernel."""
        return "Conv3DBackpropInput, transposed" if self.problem.transposed else "Conv3DBackpropInput"

    @property
    def result(self) -> str:
        """What it computes."""
        return "output" if self.problem.transposed else "gradInput"

    @property
    def single_shape(self) -> dict[str, int]:
        """What the record does not hold: nothing."""
        return {}

    def traffic(self) -> TrafficReport:
        """What moves."""
        return traffic_report(self.record, self.blocks, self.cores)

    def picture(self, plane: int | None) -> str:
        """The walk as the text of an SVG file, with this gradInput plane."""
        return draw_walk(self.record, self.blocks, self.cores, title=self.problem.line, plane=plane)

    def run(self) -> Outcome:
        """Integers through all cores, and the same by the functional API."""
        problem = self.problem
        grad_output, weight = problem.integers(problem.output_shape, 1), problem.integers(problem.weight_shape, 2)
        result = simulate(
            grad_output, weight, input_shape=None if problem.transposed else problem.input_shape,
            output_padding=problem.output_padding, cores=self.cores, dtype=problem.dtype, **problem.attributes,
        )  # fmt: skip
        storage = result.grad_input.dtype
        expected = plain_input_gradient(problem, grad_output.astype(storage), weight.astype(storage))
        return Outcome(result.grad_input, expected, Golden(result))


@dataclass(frozen=True, slots=True)
class FilterRun:
    """Conv3DBackpropFilter on a line."""

    problem: LineProblem
    cores: int
    record: TConv3DDwTiling
    basic_block: FilterBasicBlock
    report: tuple[FieldReport, ...]
    blocks: tuple[FilterBlock, ...]
    name = "Conv3DBackpropFilter"
    result = "gradWeight"

    @property
    def single_shape(self) -> dict[str, int]:
        """The basic block, which stands beside the record."""
        return asdict(self.basic_block)

    def traffic(self) -> TrafficReport:
        """What moves."""
        return filter_traffic_report(self.record, self.blocks, self.cores)

    def picture(self, plane: int | None) -> str:
        """The walk as the text of an SVG file, with this window plane."""
        return draw_filter_walk(self.record, self.blocks, self.cores, title=self.problem.line, plane=plane)

    def run(self) -> Outcome:
        """Integers through all cores, and the same by the functional API."""
        problem = self.problem
        input, grad_output = problem.integers(problem.input_shape, 1), problem.integers(problem.output_shape, 2)
        result = simulate_filter(input, grad_output, weight_shape=problem.weight_shape, cores=self.cores,
                                 dtype=problem.dtype, **problem.attributes)  # fmt: skip
        return Outcome(result.grad_weight, plain_weight_gradient(problem, input, grad_output), FilterGolden(result))


def plan_line(line: str, cores: int, gradient: Gradient | None = None) -> InputRun | FilterRun:
    """The kernel that a line wants, planned; `gradient` decides when the line wants both."""
    problem = problem_of(line)
    given: dict[str, Any] = {**problem.attributes, "dtype": problem.dtype, "cores": cores, "platform": PlatformInfo()}
    try:
        if (gradient or problem.gradient) is Gradient.INPUT:
            shape = None if problem.transposed else problem.input_shape
            record, report = plan_input(problem.output_shape, problem.weight_shape, input_shape=shape,
                                        output_padding=problem.output_padding, **given)  # fmt: skip
            return InputRun(problem, cores, record, report, tuple(flat_blocks(record, cores)))
        if problem.transposed:
            raise TilingError("Conv3DBackpropFilter computes gradWeight of conv lines, not of tconv", "tile.transposed")
        dw, block, report = plan_filter(problem.input_shape, problem.output_shape, problem.weight_shape, **given)
        return FilterRun(problem, cores, dw, block, report, tuple(filter_blocks(dw, block, cores)))
    except TilingError as error:
        raise error.with_line(problem.line) from error


def walk_picture(line: str, cores: int, gradient: Gradient | None = None) -> str:
    """The picture of a line's walk, as the text of an SVG file."""
    return plan_line(line, cores, gradient).picture(None)


def plain_input_gradient(problem: LineProblem, grad_output: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    """The same result by the functional API: gradInput, or the forward pass of a transposed convolution."""
    attributes: dict[str, Any] = {**problem.attributes, "padding": problem.pad_pairs}
    if problem.transposed:
        return np.asarray(convolution(
            grad_output, weight, transposed=True, output_padding=problem.output_padding, **attributes
        ))  # fmt: skip
    blank = np.zeros(problem.input_shape, grad_output.dtype)
    found = conv_backward(grad_output, blank, weight, output_mask=(True, False, False), **attributes)
    return np.asarray(found.input)


def plain_weight_gradient(problem: LineProblem, input: NDArray[Any], grad_output: NDArray[Any]) -> NDArray[Any]:
    """gradWeight by the functional API, in float32."""
    attributes: dict[str, Any] = {**problem.attributes, "padding": problem.pad_pairs}
    blank = np.zeros(problem.weight_shape, np.float32)
    found = conv_backward(
        grad_output.astype(np.float32), input.astype(np.float32), blank, output_mask=(False, True, False), **attributes
    )
    return np.asarray(found.weight)
