"""How GetTensorC stores a tile: the runs of elements it makes, in NDC1HWC0 or raw, and their way into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import AddressError, TileKernelError
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


def block_runs(t: TConv3DBackpropInputTiling, tile: Tile, values: NDArray[Any] | None) -> Iterator[Run]:
    """NDC1HWC0: each block of 16 columns is m_length rows of 16 lanes, one channel block further on."""
    plane_size, count = t.hi * t.wi, tile.m_length * t.c0
    start = (tile.plane * t.cin1 * t.c0 + tile.n_start) * plane_size + tile.m_start * t.c0
    for block in range(tile.n_length // t.c0):
        lanes = (
            None if values is None else np.ascontiguousarray(values[:, block * t.c0 : (block + 1) * t.c0]).reshape(-1)
        )
        doing = f"GetTensorC, {tile}, channel block {tile.n_start // t.c0 + block}"
        yield Run(start + block * plane_size * t.c0, count, lanes, doing)


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
