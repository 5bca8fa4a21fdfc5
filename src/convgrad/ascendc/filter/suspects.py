"""What a wrong part of gradWeight looks like: sum its tiles with one thing done wrong, and see what gives the dump."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from convgrad.core import layouts

from ..device.errors import AddressError
from ..device.global_tensor import GlobalTensor
from ..shared.golden import Place, explains
from .math import Matrix, grad_output_matrix, input_matrix
from .record import TConv3DBpFilterTiling
from .simulate import FilterSimulation
from .split import FilterBlock
from .walk import FilterTile

Suspect = tuple[int | None, str, Matrix]  # the block to blame, the cause, what memory would hold


def explain_sum(
    sim: FilterSimulation, blocks: Sequence[FilterBlock], tile: FilterTile, parts: Sequence[Matrix], place: Place,
    got: NDArray[np.float32],
) -> tuple[int | None, str]:  # fmt: skip
    """The number of the block to blame, if it is one, and the mistake that reproduces the dump."""
    if np.isnan(got[~np.isnan(place.expected)]).any():
        return None, "memory holds NaN: gradWeight was not zeroed before the tiles were added"
    if not got.any():
        return None, "memory holds 0: no tile was added, or memory was zeroed after they were"
    tried = (lost_or_repeated(sim.tiling, blocks, parts), wrong_window(sim, place), wrong_reads(sim, blocks, tile))
    for suspects in tried:
        for blamed, cause, values in suspects:
            if explains(values, got, place.expected):
                return blamed, cause
    return None, "no single tile, batch, plane, window or row shift explains it"


def lost_or_repeated(
    t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock], parts: Sequence[Matrix]
) -> Iterator[Suspect]:
    """Parts of the reduction that are missing, counted twice, or all that is there."""
    right = total(parts)
    for number, (block, part) in enumerate(zip(blocks, parts, strict=True)):
        what = f"core {block.core}, block {block.index} ({block.describe(t)})"
        yield number, f"the part of {what} is missing", right - part
        yield number, f"the part of {what} is counted twice", right + part
        if len(parts) > 1:
            yield number, f"only the part of {what} is there: it was stored, not added (enAtomic 0)", part
    for name, of in REDUCTION:
        for value in sorted({of(block) for block in blocks}):
            chosen = [number for number, block in enumerate(blocks) if of(block) == value]
            if 1 < len(chosen) < len(blocks):
                part = total([parts[number] for number in chosen])
                yield chosen[0], f"{name} {value} is missing", right - part
                yield chosen[0], f"{name} {value} is counted twice", right + part
                if name == "core":
                    yield chosen[0], f"only core {value}'s parts are there: others' sums were stored over", part


REDUCTION: tuple[tuple[str, Callable[[FilterBlock], int]], ...] = (
    ("core", lambda block: block.core),
    ("batch", lambda block: block.batch),
    ("gradOutput plane", lambda block: block.plane),
    ("the piece from row", lambda block: block.ho_start),
)


def wrong_window(sim: FilterSimulation, place: Place) -> Iterator[Suspect]:
    """The right sums in the wrong place of the window."""
    t, weight = sim.tiling, sim.grad_weight

    def at_place(moved: NDArray[np.float32]) -> Matrix:
        flat = np.ascontiguousarray(layouts.to_fractal_z_3d(np.ascontiguousarray(moved), t.c0)).reshape(-1)
        return np.concatenate([flat[one.start : one.stop].reshape(-1, t.c0) for one in place.slices], 1)

    turned = "the window is turned by half a turn in the plane, which is the input kernel's business"
    yield None, turned, at_place(weight[:, :, :, ::-1, ::-1])
    if t.hk == t.wk:
        yield None, "rows and columns of the window are exchanged", at_place(weight.swapaxes(3, 4))
    for shift in range(1, t.dk):
        moved = at_place(np.roll(weight, shift, axis=2))
        assert place.slices[0].tap is not None
        kd = (place.slices[0].tap[0] - shift) % t.dk
        yield None, f"these are the sums of window plane kd {kd}: look at kd in the offset of GetTensorC", moved


def wrong_reads(sim: FilterSimulation, blocks: Sequence[FilterBlock], tile: FilterTile) -> Iterator[Suspect]:
    """The input read at other rows or columns than those under gradOutput."""
    t = sim.tiling
    mistakes: list[tuple[str, TConv3DBpFilterTiling, bool]] = []
    if any(block.ho_start for block in blocks):
        mistakes.append(("every walk starts as if at row 0: SetStartPosition needs each walk's own hoStart", t, True))
    for name, field in (("rows", "padUp"), ("columns", "padLeft")):
        pad = getattr(t, field)
        for shift in sorted({-1, min(1, pad), pad} - {0}):
            far = f"the input is read {abs(shift)} {name} too {'far on' if shift > 0 else 'early'}"
            hint = f" ({field} left out)" if shift == pad else ""
            mistakes.append((far + hint, replace(t, **{field: pad - shift}), False))
    for cause, wrong, from_zero in mistakes:
        try:
            yield None, cause, total([part_of(sim, wrong, block, tile, from_zero) for block in blocks])
        except AddressError:  # such a read would leave the tensor: not what made a dump
            continue


def part_of(
    sim: FilterSimulation, wrong: TConv3DBpFilterTiling, block: FilterBlock, tile: FilterTile, from_zero: bool
) -> Matrix:
    """A tile of a block with other pads than the true ones, or walked as if it started at row 0."""
    t = sim.tiling
    row = max(block.ho_start * t.strideH - t.padUp, 0)
    ho_start, pointer = (0, row) if from_zero else (block.ho_start, max(block.ho_start * t.strideH - wrong.padUp, 0))
    grad_output = GlobalTensor(sim.grad_output_gm)[block.offset_a]
    input = GlobalTensor(sim.input_gm)[block.offset_b + (pointer - row) * t.wi * t.c0]
    a = grad_output_matrix(wrong, grad_output, tile.m_start, tile.m_length, 0, block.K, "compare")
    b = input_matrix(wrong, input, ho_start, tile.n_start, tile.n_length, 0, block.K, "compare")
    return np.asarray(a.T @ b)


def total(parts: Sequence[Matrix]) -> Matrix:
    """The sum of some tiles, in the order of the blocks."""
    return np.asarray(np.sum(np.stack(parts), axis=0), np.float32)
