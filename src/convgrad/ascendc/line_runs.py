"""What a problem line asks of a tile kernel, ready to run: plan, traffic, picture, golden tiles, and the check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.functional import conv_backward, convolution

from .device.errors import TilingError
from .filter import MODEL as FILTER
from .from_line import Gradient, LineProblem, problem_of
from .input import MODEL as INPUT
from .shared.arguments import operands
from .shared.golden import GoldenTiles
from .shared.model import TileModel
from .shared.plan import Plan
from .shared.split import AnyBlock
from .shared.traffic import TrafficReport

MODELS = {Gradient(model.gradient): model for model in (INPUT, FILTER)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation gave, what the functional API gives, and the golden tiles."""

    got: NDArray[Any]
    expected: NDArray[Any]
    golden: GoldenTiles[Any]


@dataclass(frozen=True, slots=True)
class TileRun:
    """A tile kernel on a line, planned once: traffic, picture and run are all of the same plan."""

    model: TileModel
    problem: LineProblem
    plan: Plan[Any]
    blocks: tuple[AnyBlock, ...]

    @property
    def name(self) -> str:
        """The kernel."""
        return self.model.kernel.__name__ + (", transposed" if self.problem.transposed else "")

    @property
    def result(self) -> str:
        """What it computes."""
        return "output" if self.problem.transposed else f"grad{self.model.gradient.capitalize()}"

    def traffic(self) -> TrafficReport:
        """What moves."""
        return self.model.traffic(self.plan.record, self.blocks, self.plan.arguments.cores)

    def picture(self, plane: int | None) -> str:
        """The walk as the text of an SVG file, with this gradInput plane or window plane."""
        cores = self.plan.arguments.cores
        return self.model.picture(self.plan.record, self.blocks, cores, title=self.problem.line, plane=plane)

    def run(self) -> Outcome:
        """Integers through all cores, and the same by the functional API."""
        first, second = self.integers()
        simulation = self.model.simulate(self.plan, first, second)
        got = getattr(simulation, f"grad_{self.model.gradient}")
        return Outcome(got, self.expected(got.dtype), self.model.golden(simulation))

    def integers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two operands: small integers in the kernel's dtype."""
        problem, reads = self.problem, self.model.reads
        arrays = [problem.integers(problem.shapes[name], seed) for seed, name in enumerate(reads, 1)]
        first, second, _ = operands(arrays[0], arrays[1], problem.dtype, reads)
        return first, second

    def expected(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """What the functional API makes of the same integers, in the dtype of the result."""
        given = {name: array.astype(dtype) for name, array in zip(self.model.reads, self.integers(), strict=True)}
        return plain_result(self.problem, self.model.gradient, given)


def plan_line(line: str, cores: int, gradient: Gradient | None = None) -> TileRun:
    """The kernel that a line wants, planned; `gradient` decides when the line wants both."""
    problem = problem_of(line)
    model = MODELS[gradient or problem.gradient]
    try:
        if problem.transposed and model is FILTER:
            raise TilingError("Conv3DBackpropFilter computes gradWeight of conv lines, not of tconv", "tile.transposed")
        plan = model.tiling(problem.arguments(cores))
        return TileRun(model, problem, plan, model.split(plan))
    except TilingError as error:
        raise error.with_line(problem.line) from error


def walk_picture(line: str, cores: int, gradient: Gradient | None = None) -> str:
    """The picture of a line's walk, as the text of an SVG file."""
    return plan_line(line, cores, gradient).picture(None)


def plain_result(problem: LineProblem, gradient: str, given: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """The same by the functional API: the gradient, or the forward pass of a transposed convolution."""
    if problem.transposed:
        return np.asarray(convolution(
            given["grad_output"], given["weight"], transposed=True, output_padding=problem.output_padding,
            **problem.attributes,
        ))  # fmt: skip
    dtype = given["grad_output"].dtype
    blank = {gradient: np.zeros(problem.shapes[gradient], dtype)}  # only its shape is read
    tensors, wanted = given | blank, (gradient == "input", gradient == "weight", False)
    found = conv_backward(
        tensors["grad_output"], tensors["input"], tensors["weight"], output_mask=wanted, **problem.attributes
    )
    return np.asarray(getattr(found, gradient))
