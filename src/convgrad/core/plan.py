"""`Plan`: what will be computed, in which precision and order. Made from a proved problem alone; printable.

Numerics of every plan, in this order:

    operand cast      each operand is rounded once to the compute dtype
    accumulation      products and sums in float32 (float64 for float64), in an order fixed by the problem
                      (deterministic = 3: weight and bias in that order for each sample, then a tree over samples)
    result cast       grad_input: rounded once to the compute dtype, then stored in its own dtype
                      grad_weight: stored once in its own dtype, straight from the accumulator
                      grad_bias: the sum of the original grad_output, rounded to grad_output's dtype, then stored
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import Enum

from convgrad.core import dtypes, precision
from convgrad.core.determinism import TREE
from convgrad.core.geometry import Contraction
from convgrad.core.problem import ConvProblem
from convgrad.core.request import Operator
from convgrad.core.ways import Way
from convgrad.text.fragment import entries, fragment, headline


class Accumulator(Enum):
    """Where sums are kept."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Result(Enum):
    """The tensors a plan can write."""

    GRAD_INPUT = "grad_input"
    GRAD_WEIGHT = "grad_weight"
    GRAD_BIAS = "grad_bias"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Step:
    """One result: the contraction that gives it (none for a bias: a plain sum) and its casts."""

    result: Result
    contraction: Contraction | None
    rounded_to: str
    """The sum is rounded to this dtype first ..."""
    stored_as: str
    """... and then stored in this one."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Casts, contractions and workspace of one problem."""

    problem: ConvProblem
    operand: str
    """Compute dtype: every operand is rounded to it once."""
    accumulate: Accumulator
    steps: tuple[Step, ...]
    advice: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """The engine's path of each step, in order, for contiguous tensors; `engines.paths_of` asks about given ones."""
    workspace_bytes: int = 0
    ways: tuple[Way, ...] = ()
    """How the product's runtime goes about each gradient, where that is known (950 under `runtime`)."""

    @property
    def winograd(self) -> bool:
        """Whether the weight gradient is summed by the runtime's own Winograd: other roundings, another NaN law."""
        return any(w.path == "winograd" for w in self.ways) and any(s.result is Result.GRAD_WEIGHT for s in self.steps)

    @property
    def by_samples(self) -> bool:
        """Whether the gradients of weight and bias are the tree over samples of level 3."""
        return self.problem.request.deterministic == TREE

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        return tuple(s.contraction for s in self.steps if s.contraction is not None)

    def __repr__(self) -> str:
        results = ", ".join(step.result.value for step in self.steps) or "nothing"
        return f"<{type(self).__name__} of {results} in {self.operand}: {self.problem.line}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the lines of `str` as a table."""
        rows = [(step.result.value, [f"{how}, stored as {casts}", *([f"path: {path}"] if path else ())])
                for step, how, casts, path in self._steps_told()]  # fmt: skip
        g, operand = self.problem.geometry, dtypes.find(self.operand)
        return fragment(
            headline("accepted", "plan", f"computed in {self.operand}", self.problem.line),
            entries([
                ("contraction", [f"{g.multiply_adds:,} multiply-adds"]),
                ("operands", [f"rounded once to {operand.name}, ties {operand.ties.value}"]),
                ("accumulation", [self.accumulate.value]), *rows, ("workspace", [f"{self.workspace_bytes:,} bytes"]),
                *(("runtime", [f"{way.result}: {way.told}"]) for way in self.ways),
                *(("note", [text]) for text in self.advice),
            ]),
        )  # fmt: skip

    def _steps_told(self) -> Iterator[tuple[Step, str, str, str]]:
        """Each step: how it is summed, what it is stored as, the engine's path."""
        for step, path in zip(self.steps, self.paths or ("",) * len(self.steps), strict=True):
            how = f"dT/d{step.contraction.value}" if step.contraction else "sum of the original grad_output"
            if self.by_samples and step.result in (Result.GRAD_WEIGHT, Result.GRAD_BIAS):
                how += ", a tree over samples"
            casts = f"{step.rounded_to} -> {step.stored_as}" if step.rounded_to != step.stored_as else step.stored_as
            yield step, how, casts, path

    def __str__(self) -> str:
        g = self.problem.geometry
        operand = dtypes.find(self.operand)
        lines = [
            self.problem.line,
            f"  fine {'x'.join(map(str, g.fine_shape))}   coarse {'x'.join(map(str, g.coarse_shape))}"
            f"   weight {'x'.join(map(str, g.weight_shape))}   groups {g.groups}",
            f"  {g.multiply_adds:,} multiply-adds per contraction",
            f"  operands      rounded once to {operand.name}, ties {operand.ties.value}",
            f"  accumulation  {self.accumulate.value}",
        ]
        for step, how, casts, path in self._steps_told():
            lines.append(f"  {step.result.value:13} {how:12} stored as {casts}" + (f"   path: {path}" if path else ""))
        for path in dict.fromkeys(path for path in self.paths if path.startswith(_TILED)):
            results = {step.result for step, its in zip(self.steps, self.paths, strict=True) if its == path}
            lines.append(_fewer_products(path, tuple(axis.window for axis in g.axes), results))
        lines.append(f"  workspace     {self.workspace_bytes:,} bytes")
        lines += [f"  runtime       {way.result}: {way.told}" for way in self.ways]
        lines += [f"  note: {text}" for text in self.advice]
        return "\n".join(lines)


_TILED, _LINE = "winograd ", "line "
_ROUNDINGS = {"line": (16, 16), "3x3": (16, 32), "5x5": (44, 44)}
"""Of data gradients and of weight gradients: they grow with the taps, and with the cells of a tile."""


def _fewer_products(path: str, windows: tuple[int, ...], results: Set[Result]) -> str:
    """What a path that saves multiplications saves, and how it errs. Its points are 0, the roots of unity, infinity:
    some real, some in pairs of complex ones, and a product of two complex numbers takes three real ones."""
    name = path.removeprefix(_TILED)
    is_line, roots = name.startswith(_LINE), int(name.removeprefix(_LINE))
    pairs = (roots - 1) // 2
    reals = roots + 2 - 2 * pairs
    window = next(w for w in reversed(windows) if 3 <= w <= 9)  # a line runs along the last axis that has as many
    tile = roots + 3 - window
    if is_line:
        shape, products, direct = f"lines of {tile}", reals + 3 * pairs, window * tile
    else:
        shape, products = f"tiles of {tile}x{tile}", reals**2 + 6 * reals * pairs + 6 * pairs**2
        direct = (window * tile) ** 2
    of_data, of_weight = _ROUNDINGS["line" if is_line else f"{window}x{window}"]
    bounds = sorted({of_weight if result is Result.GRAD_WEIGHT else of_data for result in results})
    bound = f"{bounds[0]} (grad_weight: {bounds[1]})" if len(bounds) > 1 else f"{bounds[0]}"
    return (
        f"  {path}: {shape}, {products} products for {direct}, {direct / products:.2f} times fewer;\n"
        f"    an error is up to {bound} * 2^-24 * sum of (largest of the tile * largest of the window)"
    )


def make_plan(problem: ConvProblem, advice: tuple[str, ...] = (), compute: str | None = None) -> Plan:
    """The plan of a problem; engines add their paths and workspace to it. `compute` overrules the precision rows."""
    r = problem.request
    go, x, w = r.grad_output, r.input, r.weight
    assert go is not None and x is not None and w is not None
    inputs = (x.dtype, w.dtype) if r.forward else (go.dtype, x.dtype, w.dtype)
    compute = compute or precision.compute_dtype(r.product, precision.promote(*inputs), r.math, r.conformance)
    numerics = precision.NUMERICS[compute]
    accumulate, result = Accumulator(numerics.accumulate), numerics.result
    if r.forward:
        steps = (Step(Result.OUTPUT, problem.forward_contraction, result, go.dtype),)
        return Plan(problem, compute, accumulate, steps, advice)
    want_input, want_weight, want_bias = problem.wants
    bias_dtype = r.grad_bias.dtype if r.grad_bias else go.dtype
    steps = (
        *([Step(Result.GRAD_INPUT, problem.input_contraction, result, r.grad_input.dtype)]
          if want_input and r.grad_input else ()),
        *([Step(Result.GRAD_WEIGHT, Contraction.TO_WEIGHT, numerics.accumulate, r.grad_weight.dtype)]
          if want_weight and r.grad_weight else ()),
        *([Step(Result.GRAD_BIAS, None, go.dtype, bias_dtype)] if want_bias and r.grad_bias else ()),
    )
    return Plan(problem, compute, accumulate, steps, advice)


def bias_is_zero(problem: ConvProblem) -> bool:
    """Whether there is no sum to give: a grad_output of another batch than input, or of other channels than grad_bias.

    Only the empty path of the runtime lets such shapes pass; the host code writes zeros then.
    """
    r = problem.request
    assert r.grad_output is not None and r.input is not None
    if r.operator is Operator.TBC or r.grad_bias is None:
        return False
    return r.grad_output.shape[0] != r.input.shape[0] or r.grad_bias.shape != r.grad_output.shape[1:2]
