"""How GetTensorC stores a tile: the runs of elements it makes in each layout, and their way into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import AddressError, TileKernelError
from .filter_record import TConv3DDwTiling
from .filter_walk import FilterTile
from .global_tensor import GlobalTensor
from .input_record import TConv3DBackpropInputTiling
from .walk import Tile


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive elements, counted from the pointer; without values they are only marked as stored."""

    start: int
    count: int
    values: NDArray[Any] | None
    doing: str


def runs_of_blocks(
    values: NDArray[Any] | None, rows: int, blocks: int, c0: int, start: int, between: int, doing: str, first_block: int
) -> Iterator[Run]:
    """One run per block of c0 columns: all rows, c0 lanes each; the next block lies `between` elements further on."""
    for block in range(blocks):
        lanes = None
        if values is not None:
            lanes = np.ascontiguousarray(values[:, block * c0 : (block + 1) * c0]).reshape(-1)
        yield Run(start + block * between, rows * c0, lanes, f"GetTensorC, {doing} {first_block + block}")


def block_runs(t: TConv3DBackpropInputTiling, tile: Tile, values: NDArray[Any] | None) -> Iterator[Run]:
    """gradInput in NDC1HWC0: each block of 16 channels is one channel block further on."""
    plane_size = t.hi * t.wi
    start = (tile.plane * t.cin1 * t.c0 + tile.n_start) * plane_size + tile.m_start * t.c0
    yield from runs_of_blocks(values, tile.m_length, tile.n_length // t.c0, t.c0, start, plane_size * t.c0,
                              f"{tile}, channel block", tile.n_start // t.c0)  # fmt: skip


def weight_runs(
    t: TConv3DDwTiling, tile: FilterTile, values: NDArray[Any] | None, sequential: bool
) -> Iterator[Run]:
    """gradWeight in FRACTAL_Z_3D: blocks of 16 columns lie all channels apart; sequential: densely at the pointer."""
    start, between = tile.n_start * t.weight_cout + tile.m_start * t.c0, t.weight_cout * t.c0
    if sequential:
        start, between = 0, t.baseM * t.c0
    yield from runs_of_blocks(values, tile.m_length, tile.n_length // t.c0, t.c0, start, between,
                              f"{tile}, column block", 0)  # fmt: skip


def raw_run(t: TConv3DBackpropInputTiling, tile: Tile, values: NDArray[Any] | None, core: int) -> Iterator[Run]:
    """NCDHW: the tile as [channel block][position][lane], dense, in this core's share of a workspace."""
    blocks = None
    if values is not None:
        blocks = np.ascontiguousarray(values.reshape(tile.m_length, -1, t.c0).transpose(1, 0, 2)).reshape(-1)
    doing = f"GetTensorC, {tile}, raw tile of core {core}"
    yield Run(core * t.baseM * t.baseN, tile.m_length * tile.n_length, blocks, doing)


def store_runs(
    runs: Iterator[Run], output: GlobalTensor, atomic: bool, refuse: Callable[[TileKernelError], None]
) -> None:
    """Store or add every run; one that leaves the tensor is refused and not stored."""
    for run in runs:
        try:
            if run.values is None:
                output.touch(run.start, run.count, run.doing, atomic)
            else:
                output.write(run.start, run.values, run.doing, atomic)
        except AddressError as error:
            refuse(error)
