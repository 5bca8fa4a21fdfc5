"""The task graph of a partition.

    grad_input    one task per block, each final: no sum crosses blocks
    grad_weight   one leaf per block of batch and positions, in the order of batch, depth, height, width; then pairs
    grad_bias     one leaf per block of grad_output; then pairs

        leaf 0   leaf 1   leaf 2   leaf 3   leaf 4
           └──(+)──┘         └──(+)──┘        │        float32 (float64 for float64), never rounded to less
              └────────(+)──────┘             │
                        └────────(+)──────────┘
                                  └── rounded once, to the dtype of the result

At level 3 of determinism a block is 2^k whole samples and its leaf a node of the tree over samples, which the engine
adds up: these pairs are the rest of that tree.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from convgrad.core import rounding
from convgrad.core.geometry import Axis, Contraction, Geometry
from convgrad.core.partition import (
    Cuts,
    Partition,
    Range,
    Tied,
    block_plan,
    natural,
    parts,
    ranges,
    sizes,
    tied_to_coarse,
    tied_to_fine,
    tree,
    unrounded,
)
from convgrad.core.plan import Plan, Result, Step, bias_is_zero
from convgrad.core.problem import AxisOrder
from convgrad.dask.blocks import Assembly, Block, Place, add, finish, piece, run_block
from convgrad.dask.collections import Tensor, cut
from convgrad.functional import Gradients, Operand

Key = tuple[Any, ...]
Tasks = dict[Key, Any]
Box = tuple[Range, ...]
"""One range for each of (n, c, d, h, w); of a weight, (coarse channel, fine channel in the group, d, h, w)."""
_BIAS_ORDER: AxisOrder = (None, 0, None, None, None)


def gradients(made: Partition, g: Operand, x: Operand, w: Operand, threads: int | None) -> Gradients[Any, Any, Any]:
    """Lazy gradients of a partitioned plan."""
    builder = _Builder(made, {"grad_output": g, "input": x, "weight": w}, threads)
    by_result = {step.result: builder.gradient(step) for step in made.plan.steps}
    return Gradients(*(by_result.get(r) for r in (Result.GRAD_INPUT, Result.GRAD_WEIGHT, Result.GRAD_BIAS)))


class _Source:
    """A chunked operand: keys of its chunks and of pieces of them."""

    def __init__(self, name: str, operand: Operand, cuts: tuple[Cuts, ...], order: AxisOrder) -> None:
        self.name, self.dtype, self.cuts, self.order = name, operand.dtype, cuts, order
        self.array = cut(operand, name, cuts, order)
        self.token = tokenize(self.array.name)

    def read(self, tasks: Tasks, result: str, box: Box) -> tuple[Assembly, list[Key]]:
        """The keys of the pieces that make up a box; a piece smaller than its chunk is a task of its own."""
        keys: list[Key] = []
        places: list[Place] = []
        touched = [parts(cuts, wanted) for cuts, wanted in zip(self.cuts, box, strict=True)]
        for chosen in product(*touched):
            chunk = (self.array.name, *natural(tuple(i for i, _ in chosen), self.order))
            inner = tuple(inside for _, inside in chosen)
            if all(r == (0, c[i + 1] - c[i]) for (i, r), c in zip(chosen, self.cuts, strict=True)):
                keys.append(chunk)
            else:
                place = natural(inner, self.order)
                keys.append((f"{result}-halo-{self.token}", *chunk[1:], *(n for r in place for n in r)))
                tasks.setdefault(keys[-1], (partial(piece, name=self.name, place=place), chunk))
            starts = [c[i] + r[0] - wanted[0] for (i, r), c, wanted in zip(chosen, self.cuts, box, strict=True)]
            filled = tuple((at, at + r[1] - r[0]) for at, r in zip(starts, inner, strict=True))
            places.append(natural(filled, self.order))
        shape = natural(tuple(stop - start for start, stop in box), self.order)
        return Assembly(self.name, shape, self.dtype, tuple(places)), keys


class _Builder:
    """The graphs of one plan's results, on operands that are cut when the first result reads them."""

    def __init__(self, made: Partition, operands: dict[str, Operand], threads: int | None) -> None:
        self.made, self.plan, self.problem = made, made.plan, made.plan.problem
        self.geometry = g = self.problem.geometry
        self.operands, self.threads = operands, threads
        self.coarse_per_group, self.fine_per_group = g.coarse_channels // g.groups, g.fine_channels // g.groups
        self._plans: dict[tuple[Geometry, Step], Plan] = {}

    def gradient(self, step: Step) -> Any:
        """One result as a lazy array."""
        name = f"convgrad-{step.result.value}"
        token = tokenize(
            self.problem.line, self.made.weight_cuts, self.made.coarse_cuts, self.threads,
            *(getattr(o.array, "name", o.array) for o in self.operands.values()),
        )
        shape, order, cuts = self._layout(step)
        chunks = natural(tuple(map(sizes, cuts)), order)
        dtype = rounding.storage(step.stored_as)
        tasks: Tasks = {}
        nothing = bias_is_zero(self.problem) if step.result is Result.GRAD_BIAS else self.problem.empty
        if nothing or 0 in shape:
            array = da.zeros(shape, dtype=dtype, chunks=chunks)
        else:
            build = {
                Result.GRAD_INPUT: self._input_tasks, Result.GRAD_WEIGHT: self._weight_tasks,
                Result.GRAD_BIAS: self._bias_tasks,
            }[step.result]
            sources = build(step, tasks, name, token)
            graph = HighLevelGraph.from_collections(f"{name}-{token}", tasks, dependencies=sources)
            array = da.Array(graph, f"{name}-{token}", chunks, dtype=dtype)
        return Tensor(array, "hifloat8") if step.stored_as == "hifloat8" else array

    def _layout(self, step: Step) -> tuple[tuple[int, ...], AxisOrder, tuple[Cuts, ...]]:
        """Shape, order of axes and cuts of a result."""
        p, r, made = self.problem, self.problem.request, self.made
        fine_or_coarse = (made.coarse_cuts, made.fine_cuts) if p.transposed else (made.fine_cuts, made.coarse_cuts)
        spec, order, cuts = {
            Result.GRAD_INPUT: (r.grad_input, p.data_order, fine_or_coarse[0]),
            Result.GRAD_WEIGHT: (r.grad_weight, p.weight_order, made.weight_cuts),
            Result.GRAD_BIAS: (r.grad_bias, _BIAS_ORDER, fine_or_coarse[1]),
        }[step.result]
        assert spec is not None
        return spec.shape, order, cuts

    # ---- operands

    @cached_property
    def fine(self) -> _Source:
        name = "grad_output" if self.problem.transposed else "input"
        return _Source(name, self.operands[name], self.made.fine_cuts, self.problem.data_order)

    @cached_property
    def coarse(self) -> _Source:
        name = "input" if self.problem.transposed else "grad_output"
        return _Source(name, self.operands[name], self.made.coarse_cuts, self.problem.data_order)

    @cached_property
    def weight(self) -> _Source:
        return _Source("weight", self.operands["weight"], self.made.weight_cuts, self.problem.weight_order)

    # ---- grad_input: each block is final

    def _input_tasks(self, step: Step, tasks: Tasks, name: str, token: str) -> list[da.Array]:
        to_fine = step.contraction is Contraction.TO_FINE
        made, order = self.made, self.problem.data_order
        cuts = made.fine_cuts if to_fine else made.coarse_cuts
        tie = tied_to_fine if to_fine else tied_to_coarse
        for at in product(*(range(len(c) - 1) for c in cuts)):
            box = tuple((c[i], c[i + 1]) for c, i in zip(cuts, at, strict=True))
            tied = [tie(axis, r) for axis, r in zip(self.geometry.axes, box[2:], strict=True)]
            key = (f"{name}-{token}", *natural(at, order))
            shape = natural(tuple(stop - start for start, stop in box), order)
            if None in tied:
                tasks[key] = (partial(np.zeros, shape, rounding.storage(step.stored_as)),)
            else:
                tasks[key] = self._input_task(step, tasks, name, shape, box, [t for t in tied if t])
        return [(self.coarse if to_fine else self.fine).array, self.weight.array]

    def _input_task(
        self, step: Step, tasks: Tasks, name: str, shape: tuple[int, ...], box: Box, tied: list[Tied]
    ) -> Any:
        to_fine = step.contraction is Contraction.TO_FINE
        own, other = self.fine_per_group, self.coarse_per_group
        if not to_fine:
            own, other = other, own
        batch, (first, last) = box[0], box[1]
        groups = (first // own, -(-last // own))
        of_group = (first - groups[0] * own, last - groups[0] * own) if groups[1] - groups[0] == 1 else (0, own)
        read = (groups[0] * other, groups[1] * other)
        windows = tuple((0, a.window) for a in self.geometry.axes)
        spatial = [(t.fine, t.coarse) if to_fine else (t.coarse, t.fine) for t in tied]
        if to_fine:
            weight_box, channels = (read, of_group, *windows), (last - first, read[1] - read[0])
        else:
            weight_box, channels = ((first, last), (0, other), *windows), (read[1] - read[0], last - first)
        source = self.coarse if to_fine else self.fine
        made, keys = source.read(tasks, name, (batch, read, *(r for _, r in spatial)))
        weight, weight_keys = self.weight.read(tasks, name, weight_box)
        geometry = _geometry(batch, channels, groups, tied)
        written = natural(
            ((0, batch[1] - batch[0]), (0, last - first),
             *((r[0] - b[0], r[1] - b[0]) for (r, _), b in zip(spatial, box[2:], strict=True))),
            self.problem.data_order,
        )  # fmt: skip
        plan = self._sub_plan(geometry, step)
        if to_fine:
            return self._task(Block(plan, None, made, weight, shape, written), [], keys, weight_keys)
        return self._task(Block(plan, made, None, weight, shape, written), keys, [], weight_keys)

    # ---- grad_weight and grad_bias: leaves, then pairs

    def _weight_tasks(self, step: Step, tasks: Tasks, name: str, token: str) -> list[da.Array]:
        made = self.made
        for (i, channels), (j, window) in product(
            enumerate(ranges(made.coarse_channels)), enumerate(ranges(made.window_channels))
        ):
            leaves: list[Key] = []
            for batch, *boxes in product(ranges(made.batch), *map(ranges, made.coarse)):
                tied = [tied_to_coarse(a, box) for a, box in zip(self.geometry.axes, boxes, strict=True)]
                if None in tied:  # windows over padding only
                    continue
                leaves.append((f"{name}-leaf-{token}", i, j, len(leaves)))
                whole = [t for t in tied if t]
                tasks[leaves[-1]] = self._weight_leaf(step, tasks, name, batch, channels, window, whole)
            place = natural((i, j, 0, 0, 0), self.problem.weight_order)
            shape = natural((channels[1] - channels[0], window[1] - window[0],
                             *(a.window for a in self.geometry.axes)), self.problem.weight_order)  # fmt: skip
            self._sum(step, tasks, (name, token, (i, j)), leaves, (f"{name}-{token}", *place), shape)
        return [self.fine.array, self.coarse.array]

    def _weight_leaf(
        self, step: Step, tasks: Tasks, name: str, batch: Range, channels: Range, window: Range, tied: list[Tied]
    ) -> Any:
        groups = (channels[0] // self.coarse_per_group, -(-channels[1] // self.coarse_per_group))
        base = groups[0] * self.fine_per_group
        alone = groups[1] - groups[0] == 1
        fine_channels = (base + window[0], base + window[1]) if alone else (base, groups[1] * self.fine_per_group)
        fine, fine_keys = self.fine.read(tasks, name, (batch, fine_channels, *(t.fine for t in tied)))
        coarse, coarse_keys = self.coarse.read(tasks, name, (batch, channels, *(t.coarse for t in tied)))
        geometry = _geometry(batch, (fine_channels[1] - fine_channels[0], channels[1] - channels[0]), groups, tied)
        shape = natural(geometry.weight_shape, self.problem.weight_order)
        block = Block(self._sub_plan(geometry, unrounded(self.plan, step)), fine, coarse, None, shape, _all_of(shape))
        return self._task(block, fine_keys, coarse_keys, [])

    def _bias_tasks(self, step: Step, tasks: Tasks, name: str, token: str) -> list[da.Array]:
        transposed = self.problem.transposed
        source = self.fine if transposed else self.coarse
        batches, channel_cuts, *positions = source.cuts
        for i, channels in enumerate(ranges(channel_cuts)):
            leaves: list[Key] = []
            count = channels[1] - channels[0]
            for box in product(ranges(batches), [channels], *map(ranges, positions)):
                made, keys = source.read(tasks, name, box)
                # A bias is a plain sum: the law of a window of one cell, each channel a group of its own.
                axes = [Axis(stop - start, stop - start, 1) for start, stop in box[2:]]
                tied = [Tied(r, r, axis) for r, axis in zip(box[2:], axes, strict=True)]
                plan = self._sub_plan(_geometry(box[0], (count, count), channels, tied), unrounded(self.plan, step))
                leaves.append((f"{name}-leaf-{token}", i, len(leaves)))
                fine, coarse = (made, None) if transposed else (None, made)
                block = Block(plan, fine, coarse, None, (count,), ((0, count),))
                tasks[leaves[-1]] = self._task(block, keys if transposed else [], [] if transposed else keys, [])
            self._sum(step, tasks, (name, token, (i,)), leaves, (f"{name}-{token}", i), (count,))
        return [source.array]

    def _sum(
        self, step: Step, tasks: Tasks, place: tuple[str, str, tuple[int, ...]], leaves: list[Key], result: Key,
        shape: tuple[int, ...],
    ) -> None:
        """The fixed tree over the leaves and its one rounding."""
        if not leaves:
            tasks[result] = (partial(np.zeros, shape, rounding.storage(step.stored_as)),)
            return
        name, token, at = place
        below = leaves
        for level, nodes in enumerate(tree(len(leaves))):
            keys: list[Key] = []
            for i, pair in enumerate(nodes):
                if len(pair) == 1:
                    keys.append(below[pair[0]])
                    continue
                keys.append((f"{name}-sum-{token}", *at, level, i))
                tasks[keys[-1]] = (add, below[pair[0]], below[pair[1]])
            below = keys
        tasks[result] = (partial(finish, step), below[0])

    # ---- engine calls

    def _sub_plan(self, geometry: Geometry, step: Step) -> Plan:
        """Blocks of the same sizes share one plan."""
        if (geometry, step) not in self._plans:
            self._plans[geometry, step] = block_plan(self.plan, geometry, step)
        return self._plans[geometry, step]

    def _task(self, block: Block, fine: list[Key], coarse: list[Key], weight: list[Key]) -> Any:
        return (partial(run_block, block, self.threads), fine, coarse, weight)


def _geometry(batch: Range, channels: tuple[int, int], groups: Range, tied: list[Tied]) -> Geometry:
    """Of a block; channels are (fine, coarse)."""
    depth, height, width = (t.axis for t in tied)
    return Geometry(batch[1] - batch[0], channels[0], channels[1], groups[1] - groups[0], (depth, height, width))


def _all_of(shape: tuple[int, ...]) -> Place:
    return tuple((0, size) for size in shape)
