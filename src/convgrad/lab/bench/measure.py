"""One way to time a problem: every contestant once per round, one after the other, and the median of the rounds.

Whatever else the machine does hits all contestants of a round; the figure of a round is its best call, and a ratio is
the median of the rounds' ratios. The clock `cpu` counts processor time on one thread instead: the figure to trust on a
machine shared with others.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum

from convgrad import engines
from convgrad.core import dtypes
from convgrad.core.request import MATH_NAMES, Request
from convgrad.functional import ExecutablePlan, plan
from convgrad.lab.bench.contestants import (
    Call,
    engine_call,
    engine_paths,
    has_pytorch,
    jax_call,
    operands,
    pytorch_call,
)
from convgrad.text.terminal import UsageError

WORDS = ("hf32", *(row.word for row in dtypes.ALL if row.is_tensor_dtype))
"""What a problem can be timed in."""
_WANTS = {"input": (True, False, False), "weight+bias": (False, True, True), "all": (True, True, True)}


class Clock(Enum):
    """What time is."""

    WALL = "wall"
    CPU = "cpu"

    def seconds(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter() if self is Clock.WALL else time.process_time()


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is measured."""

    rounds: int = 5
    budget: float = 0.05
    """Seconds per contestant and round; at least one call is made after a first one that warms up."""
    clock: Clock = Clock.WALL
    pytorch: bool = True
    jax: bool = False
    channels_last: bool = False
    fresh: bool = True
    """The engine's results in new arrays, as PyTorch's are."""


@dataclass(frozen=True, slots=True)
class Task:
    """A problem line in one dtype, for some of its gradients."""

    line: str
    dtype: str
    want: str
    plan: ExecutablePlan


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a task's contestants, round by round."""

    task: Task
    rounds: Mapping[str, list[float]]
    paths: tuple[str, ...]
    """The engine's path of each step on the tensors that were timed."""

    def ms_of(self, name: str) -> float | None:
        """Milliseconds of a contestant: the median of the rounds."""
        return 1e3 * statistics.median(self.rounds[name]) if name in self.rounds else None

    def ratio_to(self, name: str) -> float | None:
        """A contestant's time by ours: the median of what the rounds say, each about one moment of the machine."""
        if name not in self.rounds:
            return None
        return statistics.median(a / b for a, b in zip(self.rounds[name], self.rounds["engine"], strict=True))

    @property
    def ms(self) -> float:
        """Our milliseconds."""
        return 1e3 * statistics.median(self.rounds["engine"])

    @property
    def pytorch_ms(self) -> float | None:
        """PyTorch's milliseconds."""
        return self.ms_of("pytorch")

    @property
    def work(self) -> float:
        """2 x multiply-adds, those with padding too, in 10^9."""
        made = self.task.plan
        return 2e-9 * made.problem.geometry.multiply_adds * len(made.contractions)

    @property
    def gflops(self) -> float:
        """`work` per second."""
        return 1e3 * self.work / self.ms

    @property
    def ratio(self) -> float | None:
        """PyTorch's time by ours: above 1 we are faster."""
        return self.ratio_to("pytorch")

    def as_dict(self) -> dict[str, object]:
        """What is recorded of it."""
        task = self.task
        row: dict[str, object] = {
            "line": task.line, "dtype": task.dtype, "want": task.want, "ms": self.ms, "pytorch_ms": self.pytorch_ms,
            "ratio": self.ratio, "gflops": self.gflops, "paths": list(self.paths),
            "workspace": task.plan.workspace_bytes,
        }
        return row if "jax" not in self.rounds else row | {"jax_ms": self.ms_of("jax")}


# ---- what is timed -----------------------------------------------------------------------------------------


def read_lines(text: str) -> list[str]:
    """The problem lines of a text, comments left out."""
    return [line for each in text.splitlines() if (line := each.partition("#")[0].strip())]


def tasks(line: str, words: Iterable[str] = ()) -> list[Task]:
    """A line's tasks, in its own dtype or in each of these: grad_input, grad_weight + grad_bias, all together.

    A line that does not want all three gradients is one task. Lines that cannot be read or are refused raise.
    """
    try:
        request = Request.parse(line)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if request.forward:
        raise UsageError(f"{line}: only gradients are timed, not want=y")
    made = []
    for word in words or (_own_word(request),):
        asked = _in_dtype(request, word)
        whole = plan(asked)  # first: what is refused is shown as it was asked
        wanted = {name: _wanting(asked, want) for name, want in _WANTS.items()}
        if not request.operator.has_mask or request.output_mask != (True, True, True):
            wanted = {_want_name(request.output_mask): asked}
        made += [Task(line, word, name, whole if part == asked else plan(part)) for name, part in wanted.items()]
    return made


def _own_word(request: Request) -> str:
    name = request.input.dtype if request.input is not None else ""
    try:
        word = dtypes.find(name).word
    except ValueError:
        return name  # no dtype at all: for the rules to refuse
    return "hf32" if word == "fp32" and request.math == MATH_NAMES.index("hf32") else word


def _in_dtype(request: Request, word: str) -> Request:
    """The request with every tensor in a dtype; HF32 is float32 with that math."""
    if word == _own_word(request):
        return request
    name = "float32" if word == "hf32" else dtypes.find(word).name
    tensors = ("grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias")
    specs = {field: getattr(request, field) for field in tensors}
    moved = replace(request, **{field: replace(spec, dtype=name) for field, spec in specs.items() if spec is not None})
    return replace(moved, math=MATH_NAMES.index("hf32")) if word == "hf32" else moved


def _want_name(mask: tuple[bool, ...] | None) -> str:
    names = [name for name, on in zip(("input", "weight", "bias"), mask or (), strict=False) if on]
    return "all" if len(names) in (0, 3) else "+".join(names)


def _wanting(request: Request, want: tuple[bool, bool, bool]) -> Request:
    shown = zip(want, (request.grad_input, request.grad_weight, request.grad_bias), strict=True)
    x, w, b = (spec if wanted else None for wanted, spec in shown)
    return replace(request, output_mask=want, grad_input=x, grad_weight=w, grad_bias=b)


# ---- timing ------------------------------------------------------------------------------------------------


def best(call: Call, clock: Clock, budget: float) -> float:
    """Seconds of the best call within a budget."""
    call()
    fastest, begin = math.inf, time.perf_counter()
    while True:
        start = clock.seconds()
        call()
        fastest = min(fastest, clock.seconds() - start)
        if time.perf_counter() - begin > budget:
            return fastest


def measure(task: Task, settings: Settings, beside: Mapping[str, Call] | None = None) -> Timing:
    """Times one task: contestants in turn, and other calls beside them."""
    request = task.plan.problem.request
    tensors = operands(task.plan, settings.channels_last)
    contestants: dict[str, Call | None] = {
        "engine": engine_call(task.plan, tensors, settings.fresh),
        "pytorch": pytorch_call(request, tensors) if settings.pytorch else None,
        "jax": jax_call(request, tensors) if settings.jax else None,
        **(beside or {}),
    }
    present = {name: call for name, call in contestants.items() if call is not None}
    taken: dict[str, list[float]] = {name: [] for name in present}
    for _ in range(settings.rounds):
        for name, call in present.items():
            taken[name].append(best(call, settings.clock, settings.budget))
    return Timing(task, taken, engine_paths(task.plan, tensors))


@contextmanager
def on_threads(asked: int | None, clock: Clock, pytorch: bool) -> Iterator[int]:
    """Engine and PyTorch on the same number of threads: as asked, else the engine's own; one for the clock `cpu`."""
    count = 1 if clock is Clock.CPU else asked or engines.info().threads
    name = "CONVGRAD_NUM_THREADS"
    before, theirs = os.environ.get(name), None
    os.environ[name] = str(count)
    try:
        if pytorch and has_pytorch():
            import torch

            theirs = torch.get_num_threads()
            torch.set_num_threads(count)
        yield count
    finally:
        if theirs is not None:
            torch.set_num_threads(theirs)
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
