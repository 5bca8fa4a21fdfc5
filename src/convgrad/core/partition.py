"""How a problem is cut into blocks: integers only, derived from the plan alone.

The blocks never depend on how the caller's arrays are chunked, nor on how many workers there are; that is what makes
the summation tree over them, and so every bit of the result, a function of the problem.

Along one axis the coarse grid is cut at o_0 = 0 < o_1 < ... and the fine grid below it at f_j = o_j*stride - pad_low:

    coarse      |  block j  |  block j+1  |         dT/dweight, dT/dcoarse of coarse block [o_j, o_j+1) read the fine
    fine        |  block j  |  block j+1  |         cells its windows cover: block j and a halo of reach - stride cells
                             ^halo^                 behind it. dT/dfine of a fine block reads the coarse cells whose
                                                    windows touch it: block j and a halo before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

from convgrad.core.geometry import Axis, Geometry
from convgrad.core.plan import Accumulator, Plan, Step
from convgrad.core.problem import AxisOrder

Cuts = tuple[int, ...]
"""0 = first cut < ... < last cut = size: block i is the range cuts[i] to cuts[i + 1]."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one block may be. Changing a limit changes the summation tree, and so the last bits of gradients."""

    data_bytes: int = 64 << 20
    """Both operands of a block without its halo, as float32 (float64 where that is the accumulator)."""
    weight_bytes: int = 16 << 20
    """One block of the weight gradient: what a leaf of the summation tree hands on."""
    multiply_adds: int = 1 << 34
    """Work of one block: about half a second of one core, so that a lost worker costs little."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Partition:
    """The cuts of one plan along batch, channels and positions."""

    plan: Plan
    batch: Cuts
    coarse_channels: Cuts
    fine_channels: Cuts
    window_channels: Cuts
    """The second axis of the weight: fine channels within a group."""
    groups: Cuts
    coarse: tuple[Cuts, Cuts, Cuts]
    fine: tuple[Cuts, Cuts, Cuts]

    @property
    def geometry(self) -> Geometry:
        return self.plan.problem.geometry

    @property
    def coarse_cuts(self) -> tuple[Cuts, ...]:
        """Of the coarse tensor, in the order (n, c, d, h, w)."""
        return (self.batch, self.coarse_channels, *self.coarse)

    @property
    def fine_cuts(self) -> tuple[Cuts, ...]:
        return (self.batch, self.fine_channels, *self.fine)

    @property
    def weight_cuts(self) -> tuple[Cuts, ...]:
        return (self.coarse_channels, self.window_channels, *((0, axis.window) for axis in self.geometry.axes))

    @property
    def item_bytes(self) -> int:
        """Bytes of one accumulated element."""
        return item_bytes(self.plan)

    @property
    def leaves(self) -> int:
        """Leaves of the summation tree of one block of the weight gradient."""
        return blocks(self.batch) * prod(map(blocks, self.coarse))

    @property
    def depth(self) -> int:
        """Additions on the longest way from a leaf to the sum."""
        return (self.leaves - 1).bit_length()


def item_bytes(plan: Plan) -> int:
    """Bytes of one accumulated element."""
    return 8 if plan.accumulate is Accumulator.FLOAT64 else 4


def blocks(cuts: Cuts) -> int:
    """How many blocks the cuts make."""
    return len(cuts) - 1


def ranges(cuts: Cuts) -> list[Range]:
    """The blocks themselves."""
    return list(pairwise(cuts))


def sizes(cuts: Cuts) -> tuple[int, ...]:
    """What dask calls chunks."""
    return tuple(stop - start for start, stop in ranges(cuts))


def even_cuts(size: int, pieces: int) -> Cuts:
    """Cuts into blocks that differ by one at most; a size of zero is one empty block."""
    pieces = max(1, min(pieces, size))
    return tuple(size * i // pieces for i in range(pieces + 1))


# ---- choosing the cuts ----------------------------------------------------------------------------------------


def partition(plan: Plan, limits: Limits | None = None) -> Partition:
    """The blocks of a plan: channels are cut only for a large weight; data by batch, then groups, then positions.

    At level 3 of determinism by batch only, at nodes of the tree over samples, however large a sample is.
    """
    limits = limits or LIMITS
    g = plan.problem.geometry
    if plan.problem.empty:
        return _assembled(plan, even_cuts(g.batch, g.batch), g.groups, 1, 1, (1, 1, 1))
    if plan.by_samples:
        return _assembled(plan, _cut_at_nodes(g, limits, item_bytes(plan)), g.groups, 1, 1, (1, 1, 1))
    group_run, coarse_parts, fine_parts = _cut_weight(g, limits.weight_bytes // item_bytes(plan))
    batch_run, group_run, pieces = _cut_data(g, group_run, min(coarse_parts, fine_parts), limits, item_bytes(plan))
    batch = even_cuts(g.batch, -(-g.batch // batch_run))
    return _assembled(plan, batch, group_run, coarse_parts, fine_parts, pieces)


def _cut_at_nodes(g: Geometry, limits: Limits, item: int) -> Cuts:
    """Samples i * 2^k to (i + 1) * 2^k are a node of the tree over samples; the last block may be shorter."""
    run = _largest(g.batch, lambda samples: _fits(g, limits, item, samples, g.groups, (1, 1, 1), 1))
    if run < g.batch:
        run = 1 << run.bit_length() - 1
    return (*range(0, g.batch, run), g.batch)


def _cut_weight(g: Geometry, most: int) -> tuple[int, int, int]:
    """Groups per block, and parts each group's coarse and fine channels are cut into."""
    coarse, fine = g.coarse_channels // g.groups, g.fine_channels // g.groups
    group_run = max(1, min(g.groups, most // (coarse * fine * g.taps)))
    coarse_parts = fine_parts = 1
    while -(-coarse // coarse_parts) * -(-fine // fine_parts) * g.taps > most:
        if coarse_parts >= coarse and fine_parts >= fine:
            break
        if coarse * fine_parts >= fine * coarse_parts:
            coarse_parts = min(coarse, coarse_parts * 2)
        else:
            fine_parts = min(fine, fine_parts * 2)
    return group_run, coarse_parts, fine_parts


def _cut_data(
    g: Geometry, group_run: int, channel_parts: int, limits: Limits, item: int
) -> tuple[int, int, tuple[int, int, int]]:
    """Samples and groups per block, and pieces along each axis of positions."""
    pieces = [1, 1, 1]

    def fits(samples: int, groups: int) -> bool:
        return _fits(g, limits, item, samples, groups, pieces, channel_parts)

    if fits(1, group_run):
        return _largest(g.batch, lambda samples: fits(samples, group_run)), group_run, (1, 1, 1)
    group_run = _largest(group_run, lambda groups: fits(1, groups))
    while not fits(1, group_run):
        axis = _cheapest_axis(g.axes, pieces)
        if axis is None:
            break
        pieces[axis] = min(pieces[axis] * 2, g.axes[axis].coarse)
    return 1, group_run, (pieces[0], pieces[1], pieces[2])


def _fits(
    g: Geometry, limits: Limits, item: int, samples: int, groups: int, pieces: Sequence[int], channel_parts: int
) -> bool:
    """Whether a block of so many samples, groups and pieces of positions stays within the limits."""
    cells = [-(-a.coarse // p) for a, p in zip(g.axes, pieces, strict=True)]
    below = [min(a.fine, o * a.stride) for a, o in zip(g.axes, cells, strict=True)]
    coarse, fine = g.coarse_channels // g.groups, g.fine_channels // g.groups
    data = samples * groups * (coarse * prod(cells) + fine * prod(below)) * item
    # A data gradient sums over all channels of a group, for one part of the channels it has itself.
    work = samples * groups * coarse * fine * prod(cells) * g.taps // channel_parts
    return data <= limits.data_bytes and work <= limits.multiply_adds


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, but at least one."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


_HALO_SHARE = 8
"""A cut costs little while the halo is at most an eighth of the block."""


def _cheapest_axis(axes: Sequence[Axis], pieces: Sequence[int]) -> int | None:
    """Where to cut next: the outermost axis whose halo stays small; else where it grows least. None: nothing left."""
    room = {
        i: -(-a.coarse // (2 * p)) * a.stride / max(1, a.reach - a.stride)
        for i, (a, p) in enumerate(zip(axes, pieces, strict=True)) if p < a.coarse
    }
    if not room:
        return None
    return next((i for i, ratio in room.items() if ratio >= _HALO_SHARE), max(room, key=lambda i: room[i]))


def _assembled(
    plan: Plan, batch: Cuts, group_run: int, coarse_parts: int, fine_parts: int, pieces: tuple[int, int, int]
) -> Partition:
    g = plan.problem.geometry
    groups = even_cuts(g.groups, -(-g.groups // max(1, group_run)))
    coarse = tuple(even_cuts(a.coarse, p) for a, p in zip(g.axes, pieces, strict=True))
    fine = tuple(_fine_cuts(a, cuts) for a, cuts in zip(g.axes, coarse, strict=True))
    per_group = (g.coarse_channels // max(1, g.groups), g.fine_channels // max(1, g.groups))
    window_channels = even_cuts(per_group[1], fine_parts)
    return Partition(
        plan, batch,
        _channel_cuts(groups, per_group[0], coarse_parts), _channel_cuts(groups, per_group[1], fine_parts),
        window_channels, groups, (coarse[0], coarse[1], coarse[2]), (fine[0], fine[1], fine[2]),
    )


def _fine_cuts(axis: Axis, coarse: Cuts) -> Cuts:
    inner = {min(max(o * axis.stride - axis.pad_low, 0), axis.fine) for o in coarse[1:-1]}
    return (0, *sorted(inner - {0, axis.fine}), axis.fine)


def _channel_cuts(groups: Cuts, per_group: int, parts: int) -> Cuts:
    """Channels of all groups; `parts` is more than one only where a block holds a single group."""
    if per_group == 0:
        return (0, 0)
    inner = even_cuts(per_group, parts)
    return (0, *(start * per_group + c for start, stop in ranges(groups)
                 for c in (inner[1:] if parts > 1 else ((stop - start) * per_group,))))  # fmt: skip


# ---- what a block reads ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tied:
    """One axis of a block: the fine and coarse ranges that meet in it, and the law between just these."""

    fine: Range
    coarse: Range
    axis: Axis


def tied_to_coarse(axis: Axis, coarse: Range) -> Tied | None:
    """The fine cells that windows at these coarse cells cover; None when they cover padding only."""
    if coarse == (0, axis.coarse):
        return Tied((0, axis.fine), coarse, axis)
    start, stop = _covered(axis, coarse)
    return _tied(axis, coarse, (max(start, 0), min(stop, axis.fine)))


def tied_to_fine(axis: Axis, fine: Range) -> Tied | None:
    """The coarse cells whose windows touch these fine cells, and the part of these fine cells they cover."""
    if fine == (0, axis.fine):
        return Tied(fine, (0, axis.coarse), axis)
    # o*stride - pad_low <= fine_last   and   o*stride - pad_low + reach > fine_first
    first = max(0, -((axis.reach - 1 - fine[0] - axis.pad_low) // axis.stride))
    last = min(axis.coarse - 1, (fine[1] - 1 + axis.pad_low) // axis.stride)
    if first > last:
        return None
    start, stop = _covered(axis, (first, last + 1))
    return _tied(axis, (first, last + 1), (max(start, fine[0]), min(stop, fine[1])))


def _covered(axis: Axis, coarse: Range) -> Range:
    """Fine cells from the first to behind the last cell of the windows, padding included."""
    first, last = coarse[0], coarse[1] - 1
    return first * axis.stride - axis.pad_low, last * axis.stride - axis.pad_low + axis.reach


def _tied(axis: Axis, coarse: Range, fine: Range) -> Tied | None:
    """Cells the windows cover beyond the kept fine range become this block's own padding."""
    if fine[0] >= fine[1]:
        return None
    start, stop = _covered(axis, coarse)
    law = replace(
        axis, fine=fine[1] - fine[0], coarse=coarse[1] - coarse[0], pad_low=fine[0] - start, pad_high=stop - fine[1]
    )
    return Tied(fine, coarse, law)


def parts(cuts: Cuts, wanted: Range) -> list[tuple[int, Range]]:
    """The blocks a range touches, each with the range inside that block."""
    first, last = bisect_right(cuts, wanted[0]) - 1, bisect_left(cuts, wanted[1])
    return [
        (i, (max(wanted[0], cuts[i]) - cuts[i], min(wanted[1], cuts[i + 1]) - cuts[i])) for i in range(first, last)
    ]


def natural(values: tuple[Any, ...], order: AxisOrder) -> tuple[Any, ...]:
    """What is given for (n, c, d, h, w), in the order of a tensor's own axes."""
    stored = {axis: value for axis, value in zip(order, values, strict=True) if axis is not None}
    return tuple(stored[axis] for axis in sorted(stored))


def block_plan(plan: Plan, geometry: Geometry, step: Step) -> Plan:
    """The plan of one block: one step with the parent's casts, on the block's own sizes.

    A block of whole samples goes about a sample as the whole problem does.
    """
    p, r = plan.problem, plan.problem.request
    go, x = geometry.coarse_shape, geometry.fine_shape
    if p.transposed:
        go, x = x, go
    assert r.grad_output is not None and r.input is not None and r.weight is not None
    request = replace(
        r, groups=geometry.groups,
        grad_output=replace(r.grad_output, shape=natural(go, p.data_order)),
        input=replace(r.input, shape=natural(x, p.data_order)),
        weight=replace(r.weight, shape=natural(geometry.weight_shape, p.weight_order)),
    )
    problem = replace(p, request=request, geometry=geometry, empty=False)
    return Plan(problem, plan.operand, plan.accumulate, (step,), ways=plan.ways if plan.by_samples else ())


def unrounded(plan: Plan, step: Step) -> Step:
    """A step whose sum stays in the accumulator's dtype: a leaf of the summation tree."""
    accumulator = plan.accumulate.value
    return replace(step, rounded_to=accumulator, stored_as=accumulator)


def tree(leaves: int) -> list[list[tuple[int, ...]]]:
    """Levels of the summation tree: each lists its nodes, a pair (or, at an odd end, one) of the level below."""
    levels: list[list[tuple[int, ...]]] = []
    while leaves > 1:
        levels.append([(i, i + 1) if i + 1 < leaves else (i,) for i in range(0, leaves, 2)])
        leaves = len(levels[-1])
    return levels
