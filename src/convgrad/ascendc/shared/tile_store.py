"""How GetTensorC stores a tile: runs of elements, and their way into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..device.errors import AddressError, TileKernelError
from ..device.global_tensor import GlobalTensor


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
