"""What a cluster would make of a problem: blocks, halos, bytes moved, summation depth, memory, expected efficiency.

`convgrad plan LINE --workers 64 --memory 32GB` prints it. Integers come from the partition, which is what runs;
seconds come from the model below, whose three rates are options. dask itself is not needed.

    work      multiply-adds * 2 / rate                               one core's seconds, all contractions
    compute   work / cores * rounds                                  rounds: tasks come in whole numbers per core
    tasks     number of tasks * TASK_SECONDS / workers               what a worker spends around a task
    moves     bytes moved / (bandwidth * workers)                    as if no transfer hid behind computing
    tail      log2(workers) * (one partial sum moved + a task)       the last levels of the tree, on few workers
    scheduler number of tasks * SCHEDULER_SECONDS                    one process hands out every task
    expected  max(compute + tasks + moves, scheduler) + tail
    efficiency = work / cores / expected
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import prod

import numpy as np

from convgrad import engines
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.geometry import Axis, Geometry
from convgrad.core.partition import (
    Cuts,
    Partition,
    Tied,
    block_plan,
    blocks,
    natural,
    partition,
    parts,
    ranges,
    sizes,
    tied_to_coarse,
    tied_to_fine,
    unrounded,
)
from convgrad.core.plan import Plan, Result
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, folded, print_json

TASK_SECONDS = 1e-3
SCHEDULER_SECONDS = 2e-4
WORKER_BYTES = 120 << 20
"""A worker that has imported everything and computed nothing: Python, NumPy, Dask."""
_NODES_SIDE_BY_SIDE = 32 << 20
"""Of native/engine/sample_tree.cpp: beyond it samples are computed one after the other."""


# ---- memory ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memory:
    """The most memory a worker needs, in bytes, when its arrays are chunked as the blocks are.

    total = WORKER_BYTES + threads * (4 * data + weight + result + nodes) + (depth + threads + 1) * partial

    Four times the data of a block: the chunks a task reads, their copy with the halo, the chunks loaded ahead for
    the next task, and pieces on their way to or from a neighbour.
    """

    data: int
    weight: int
    result: int
    partial: int
    nodes: int
    """Of the tree over samples that a task adds by itself, at level 3 of determinism."""
    total: int


def memory_per_worker(made: Partition, threads: int = 1) -> Memory:
    """Bound for a worker that runs `threads` tasks at once."""
    g, r = made.geometry, made.plan.problem.request
    assert r.grad_output is not None and r.input is not None and r.weight is not None
    fine_dtype, coarse_dtype = (r.grad_output, r.input) if made.plan.problem.transposed else (r.input, r.grad_output)
    groups, samples = max(sizes(made.groups)), max(sizes(made.batch))
    fine_cells = prod(max(map(_fine_length, _coarse_ties(a, c))) for a, c in zip(g.axes, made.coarse, strict=True))
    coarse_cells = prod(max(map(_coarse_length, _fine_ties(a, c))) for a, c in zip(g.axes, made.fine, strict=True))
    fine = samples * groups * (g.fine_channels // g.groups) * fine_cells * _bytes(fine_dtype.dtype)
    coarse = samples * groups * (g.coarse_channels // g.groups) * coarse_cells * _bytes(coarse_dtype.dtype)
    rows, columns = max(sizes(made.coarse_channels)), max(sizes(made.window_channels))
    partial = rows * columns * g.taps * made.item_bytes
    # A block of the data gradient reads the weight of all channels it sums over.
    wide = max(groups * (g.coarse_channels // g.groups) * columns, rows * (g.fine_channels // g.groups))
    weight = wide * g.taps * _bytes(r.weight.dtype)
    data, result = fine + coarse, coarse if made.plan.problem.transposed else fine
    # One sample after the other, or side by side where their nodes are few.
    nodes = max((1 + (samples - 1).bit_length()) * partial, min(_NODES_SIDE_BY_SIDE, 2 * samples * partial))
    nodes *= made.plan.by_samples
    total = WORKER_BYTES + threads * (4 * data + weight + result + nodes) + (made.depth + threads + 1) * partial
    return Memory(data, weight, result, partial, nodes, total)


def _bytes(dtype: str) -> int:
    return dtypes.find(dtype).bytes


def _coarse_ties(axis: Axis, cuts: Cuts) -> list[Tied | None]:
    return [tied_to_coarse(axis, block) for block in ranges(cuts)]


def _fine_ties(axis: Axis, cuts: Cuts) -> list[Tied | None]:
    return [tied_to_fine(axis, block) for block in ranges(cuts)]


def _fine_length(tied: Tied | None) -> int:
    return tied.fine[1] - tied.fine[0] if tied else 0


def _coarse_length(tied: Tied | None) -> int:
    return tied.coarse[1] - tied.coarse[0] if tied else 0


# ---- what moves and how many tasks there are ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reads:
    """How blocks of one contraction read a cut tensor: cells of one channel of one sample, chunks and pieces."""

    cells: int
    """All cells read."""
    own: int
    """Cells of the tensor itself."""
    pieces: int
    """Different parts of chunks that are read without the rest: each is a task."""

    @property
    def halo(self) -> int:
        return max(0, self.cells - self.own)

    @property
    def overhead(self) -> float:
        return self.halo / self.own if self.own else 0.0


def _reads(
    tie: Callable[[Axis, Cuts], list[Tied | None]], axes: Sequence[Axis], cuts: Sequence[Cuts],
    read_cuts: Sequence[Cuts], of_fine: bool,
) -> Reads:
    """Cells and pieces multiply over the axes, because blocks are boxes."""
    cells = pieces = full = own = 1
    for axis, by, read in zip(axes, cuts, read_cuts, strict=True):
        wanted = [t.fine if of_fine else t.coarse for t in tie(axis, by) if t]
        touched = {part for r in wanted for part in parts(read, r)}
        cells *= sum(stop - start for start, stop in wanted)
        pieces *= len(touched)
        full *= sum(inside == (0, read[i + 1] - read[i]) for i, inside in touched)
        own *= axis.fine if of_fine else axis.coarse
    return Reads(cells, own, pieces - full)


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """A plan on a cluster."""

    line: str
    workers: int
    threads: int
    chunks: dict[str, tuple[int, ...]]
    """Largest chunk of each tensor."""
    blocks: dict[str, int]
    engine_tasks: int
    tasks: int
    halo_overhead: dict[str, float]
    bytes_moved: dict[str, int]
    leaves: int
    depth: int
    accumulator: str
    memory: Memory
    memory_limit: int | None
    rate: float
    bandwidth: float
    work_seconds: float
    expected_seconds: float
    efficiency: float
    limited_by: str

    @property
    def fits(self) -> bool:
        return self.memory_limit is None or self.memory.total <= self.memory_limit


def scale_out(
    plan: Plan, workers: int, threads: int = 1, memory: int | None = None, rate: float = 50e9, bandwidth: float = 1e9
) -> ScaleOut:
    """What `workers` workers of `threads` tasks at once would make of a plan; rate in FLOP/s of one core."""
    made = partition(plan)
    p, g = plan.problem, made.geometry
    names = ("grad_output", "input") if p.transposed else ("input", "grad_output")
    cuts = {names[0]: made.fine_cuts, names[1]: made.coarse_cuts, "weight": made.weight_cuts}
    orders = {names[0]: p.data_order, names[1]: p.data_order, "weight": p.weight_order}
    counts = {name: prod(map(blocks, c)) for name, c in cuts.items()}
    limit = memory_per_worker(made, threads)
    traffic = _traffic(made, counts)
    moved = {
        "chunks": traffic.chunks, "halos": traffic.halos, "partial sums": traffic.sums,
        "weight": traffic.weight * (workers - 1),
    } if workers > 1 else {"chunks": 0, "halos": 0, "partial sums": 0, "weight": 0}  # fmt: skip
    work = 2.0 * g.multiply_adds * len(plan.contractions) / rate
    times = _times(work, workers, threads, traffic, sum(moved.values()), limit.partial, bandwidth)
    busy = times["compute"] + times["tasks"] + times["moves"]
    expected = max(busy, times["scheduler"]) + times["tail"]
    ideal = work / (workers * threads)
    lost = {**times, "compute": times["compute"] - ideal, "scheduler": times["scheduler"] - busy}
    return ScaleOut(
        p.line, workers, threads,
        {name: natural(tuple(max(sizes(c)) for c in cut), orders[name]) for name, cut in cuts.items()},
        counts, traffic.engine_tasks, traffic.tasks, traffic.overhead, moved, made.leaves, made.depth,
        plan.accumulate.value, limit, memory, rate, bandwidth, work, expected,
        ideal / expected if expected else 1.0, max(lost, key=lambda k: lost[k]),
    )


@dataclass(frozen=True, slots=True)
class _Traffic:
    engine_tasks: int
    tasks: int
    overhead: dict[str, float]
    chunks: int
    """A task runs where most of its data is: at most the rest moves."""
    halos: int
    sums: int
    weight: int


def _traffic(made: Partition, counts: dict[str, int]) -> _Traffic:
    p, g, r = made.plan.problem, made.geometry, made.plan.problem.request
    assert r.grad_output is not None and r.input is not None and r.weight is not None
    wanted = {step.result for step in made.plan.steps}
    fine_spec, coarse_spec = (r.grad_output, r.input) if p.transposed else (r.input, r.grad_output)
    fine, coarse = (prod(spec.shape) * _bytes(spec.dtype) for spec in (fine_spec, coarse_spec))
    to_weight = _reads(_coarse_ties, g.axes, made.coarse, made.fine, of_fine=True)
    to_data = to_weight if p.transposed else _reads(_fine_ties, g.axes, made.fine, made.coarse, of_fine=False)
    # Channels of a group are cut into parts: each part of one operand meets each part of the other.
    coarse_parts, fine_parts = blocks(made.coarse_channels) // blocks(made.groups), blocks(made.window_channels)
    channel_blocks = blocks(made.coarse_channels) * fine_parts
    overhead: dict[str, float] = {}
    engine_tasks = pieces = chunks = halos = sums = 0
    if Result.GRAD_WEIGHT in wanted:
        overhead["grad_weight"] = to_weight.overhead
        engine_tasks += made.leaves * channel_blocks
        pieces += to_weight.pieces * blocks(made.batch) * blocks(made.fine_channels)
        chunks += fine * coarse_parts + coarse * fine_parts - max(fine, coarse)
        halos += int(fine * coarse_parts * to_weight.overhead)
        sums += (made.leaves - 1) * channel_blocks
    if Result.GRAD_INPUT in wanted:
        overhead["grad_input"] = to_data.overhead
        engine_tasks += counts["input"]
        read, times, cut = (
            (fine, coarse_parts, made.fine_channels) if p.transposed else (coarse, fine_parts, made.coarse_channels)
        )
        pieces += to_data.pieces * blocks(made.batch) * blocks(cut)
        chunks += read * (times - 1)
        halos += int(read * times * to_data.overhead)
    moved_sums = (made.leaves - 1) * prod(g.weight_shape) * made.item_bytes if Result.GRAD_WEIGHT in wanted else 0
    bias = 2 * counts["grad_output"] if Result.GRAD_BIAS in wanted else 0
    weight = prod(g.weight_shape) * _bytes(r.weight.dtype) if Result.GRAD_INPUT in wanted else 0
    tasks = engine_tasks + pieces + sums + bias + counts["input"] + counts["grad_output"] + counts["weight"]
    return _Traffic(engine_tasks, tasks, overhead, chunks, halos, moved_sums, weight)


def _times(
    work: float, workers: int, threads: int, traffic: _Traffic, moved: int, partial: int, bandwidth: float
) -> dict[str, float]:
    cores = workers * threads
    rounds = math.ceil(traffic.engine_tasks / cores) * cores / traffic.engine_tasks if traffic.engine_tasks else 1.0
    return {
        "compute": work / cores * rounds,
        "tasks": traffic.tasks * TASK_SECONDS / workers,
        "moves": moved / (bandwidth * workers),
        "scheduler": traffic.tasks * SCHEDULER_SECONDS,
        "tail": (workers - 1).bit_length() * (partial / bandwidth + TASK_SECONDS),
    }


def measured_rate(plan: Plan) -> float:
    """FLOP/s of one core here while all are busy, as a worker's are: a block of the weight gradient, a second of it."""
    made = partition(plan)
    g = made.geometry
    step = next((s for s in plan.steps if s.result is Result.GRAD_WEIGHT), None)
    if step is None or plan.problem.empty:
        raise UsageError("--measure needs a problem that wants the weight gradient of tensors with elements")
    axes = [max((t for t in _coarse_ties(a, c) if t), key=_fine_length).axis
            for a, c in zip(g.axes, made.coarse, strict=True)]  # fmt: skip
    groups = max(sizes(made.groups))
    per_group = (max(sizes(made.fine_channels)) // groups, max(sizes(made.coarse_channels)) // groups)
    block = Geometry(max(sizes(made.batch)), per_group[0] * groups, per_group[1] * groups, groups,
                     (axes[0], axes[1], axes[2]))  # fmt: skip
    small = block_plan(plan, block, unrounded(plan, step))
    fine, coarse = (_ones(small, shape, which) for shape, which in ((block.fine_shape, 0), (block.coarse_shape, 1)))
    out = np.empty(natural(block.weight_shape, plan.problem.weight_order), small.accumulate.value)
    cores = engines.info().threads
    seconds: list[float] = []
    while len(seconds) < 3 or sum(seconds) < 1:
        start = time.perf_counter()
        engines.run(small, fine, coarse, None, {step.result: out}, threads=cores)
        seconds.append(time.perf_counter() - start)
    return 2.0 * block.multiply_adds / statistics.median(seconds) / cores


def _ones(plan: Plan, shape: tuple[int, ...], coarse: int) -> AnyArray:
    p, r = plan.problem, plan.problem.request
    spec = r.input if bool(coarse) == p.transposed else r.grad_output
    assert spec is not None
    return rounding.store(dtypes.find(spec.dtype), np.ones(natural(shape, p.data_order), np.float32))


# ---- the page ----------------------------------------------------------------------------------------------------


def page(s: ScaleOut) -> str:
    """The planning page as text."""
    lines = [s.line, f"  on {_plural(s.workers, 'worker')} of {_plural(s.threads, 'thread')}"
             + (f" and {_size(s.memory_limit)} each" if s.memory_limit is not None else "")]  # fmt: skip
    for name, shape in s.chunks.items():
        lines.append(f"  {name:13} {_plural(s.blocks[name], 'block')} of up to {'x'.join(map(str, shape))}")
    halo = ", ".join(f"{100 * share:.1f} % of what {name} reads" for name, share in s.halo_overhead.items())
    moved = ", ".join(f"{name} {_size(count)}" for name, count in s.bytes_moved.items())
    lines += [
        f"  tasks         {s.engine_tasks:,} that compute, {s.tasks:,} in all",
        f"  halo          {halo or 'none'}",
        f"  moved         at most {_size(sum(s.bytes_moved.values()))}: {moved}",
        f"  summation     {_plural(s.leaves, 'leaf', 'leaves')} in pairs of {s.accumulator}, depth {s.depth}",
        f"  memory        at most {_size(s.memory.total)} per worker"
        + ("" if s.memory_limit is None else ", which fits" if s.fits else f": MORE than {_size(s.memory_limit)}"),
        f"  work          {s.work_seconds:,.3g} s of one core at {s.rate / 1e9:.3g} GFLOP/s;"
        f" expected {s.expected_seconds:,.3g} s, transfers at {_size(s.bandwidth)}/s",
        f"  efficiency    {s.efficiency:.2f}" + (f", most lost to: {_LOSSES[s.limited_by]}" if s.workers > 1 else ""),
    ]
    return "\n".join(lines)


_LOSSES = {
    "compute": "cores without a block in the last round",
    "tasks": "the time around tasks",
    "moves": "transfers",
    "tail": "the last levels of the summation tree",
    "scheduler": "the scheduler",
}


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(text: str) -> int:
    """`32GB`, `1.5GiB`, `400 MB` in bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", text.lower())
    if found is None or found[2] == "i":
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 32GB or 1.5GiB")
    return int(float(found[1]) * _UNITS[found[2]])


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000000")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of `convgrad plan` about a cluster."""
    group = parser.add_argument_group("on a cluster (see docs/scaleout.md)")
    group.add_argument("--workers", type=_count, help="show blocks, bytes moved and efficiency on this many workers")
    group.add_argument("--threads", type=_count, default=1, help="tasks a worker runs at once (1)")
    group.add_argument("--memory", type=parse_bytes, help="memory of each worker, such as 32GB")
    group.add_argument("--rate", type=_positive, default=50.0, help="GFLOP/s of one core (50)")
    group.add_argument("--measure", action="store_true", help="take the rate from one block computed here and now")
    group.add_argument("--bandwidth", type=parse_bytes, default=10**9, help="bytes per second of a link (1GB)")


def show(plans: Sequence[Plan], arguments: argparse.Namespace) -> int:
    """`convgrad plan ... --workers`."""
    shown = []
    for plan in plans:
        rate = measured_rate(plan) if arguments.measure else arguments.rate * 1e9
        shown.append(
            scale_out(plan, arguments.workers, arguments.threads, arguments.memory, rate, arguments.bandwidth)
        )
    if arguments.json:
        print_json([{**asdict(s), "fits": s.fits} for s in shown])
    else:
        print(folded(say("\n\n".join(map(page, shown))), " " * 16))
    return ExitCode.PASS
