"""Golden values per tile, for either kernel: what L0C must hold, what must be stored, and the slices of memory."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from convgrad.text.files import write_text

from ..device.bin_files import write_bin
from ..device.errors import TilingError
from ..device.global_tensor import GlobalTensor
from .split import AnyBlock
from .walk import AnyTile

BlockType = TypeVar("BlockType", bound=AnyBlock)


@dataclass(frozen=True, slots=True)
class MemorySlice:
    """A run of elements that one block of C0 columns of a tile fills: rows times lanes.

    channel_block    block of input channels
    tap              (kd, kh, kw) of gradWeight; None for gradInput, where every tap ends up in each element
    """

    channel_block: int
    start: int
    stop: int
    tap: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class GoldenTile:
    """One tile: who computes it, what L0C must hold, what must be stored (or added), and where.

    A skipped tile has no values: nothing is computed and memory keeps its zeros. `part` says which plane, and for
    gradWeight which batch and rows, the tile belongs to.
    """

    core: int
    block: int
    number: int
    tile: AnyTile
    values: NDArray[np.float32] | None
    stored: NDArray[Any] | None
    slices: tuple[MemorySlice, ...]
    part: dict[str, int]

    @property
    def skipped(self) -> bool:
        """True when the kernel computes nothing for this tile."""
        return self.values is None

    def __str__(self) -> str:
        return f"core {self.core}, block {self.block}, {self.tile}"


@dataclass(frozen=True, slots=True)
class Place:
    """Memory that is compared as a whole: the elements of one tile, or of all tiles that add to the same elements.

    tiles    how many of them there are
    """

    key: Any
    slices: tuple[MemorySlice, ...]
    expected: NDArray[Any]
    tiles: int = 1


class GoldenTiles(ABC, Generic[BlockType]):
    """The expected tiles of a simulated problem; tiles are computed when asked for.

    memory    the tensor they end up in, as the simulation left it
    """

    def __init__(self, blocks: tuple[BlockType, ...], memory: NDArray[Any], c0: int) -> None:
        self.blocks = blocks
        self.memory = memory
        self.c0 = c0
        self._scratch = GlobalTensor(np.zeros_like(memory))

    # ---- what each kernel says for itself

    @abstractmethod
    def started(self, block: BlockType) -> Any:
        """A kernel object with everything set for the walk of a block."""

    @abstractmethod
    def slices(self, block: BlockType, tile: Any) -> tuple[MemorySlice, ...]:
        """Where each block of columns of a tile goes."""

    @abstractmethod
    def rounded(self, values: NDArray[np.float32]) -> NDArray[Any]:
        """What GetTensorC makes of the values in L0C."""

    @abstractmethod
    def part(self, block: BlockType) -> dict[str, int]:
        """Which plane a block belongs to, and for gradWeight which batch and rows."""

    @abstractmethod
    def places(self) -> Iterator[Place]:
        """Everything a dump is compared with, in walk order."""

    @abstractmethod
    def element(self, flat: int) -> tuple[tuple[int, int, int, int, int], str]:
        """The logical element behind a place in memory, and its name in words."""

    @abstractmethod
    def explain(self, place: Place, got: NDArray[Any]) -> tuple[GoldenTile, str]:
        """The tile to blame for a wrong place, and what its error looks like."""

    # ---- what they share

    def block(self, index: int) -> BlockType:
        """The block with this index."""
        for block in self.blocks:
            if block.index == index:
                return block
        raise TilingError(f"there is no block {index}: either beyond the list, or no row reaches it", "golden.block")

    def tiles(self, core: int | None = None, block: int | None = None) -> Iterator[GoldenTile]:
        """Expected tiles in walk order: all of them, those of one core, or those of one block."""
        for one in self.blocks:
            if core in (None, one.core) and block in (None, one.index):
                yield from self._walk(one)

    def tile(self, core: int, block: int, i: int, j: int) -> GoldenTile:
        """The expected tile (i, j) of a block on a core."""
        for golden in self.tiles(core, block):
            if (golden.tile.i, golden.tile.j) == (i, j):
                return golden
        raise TilingError(f"core {core}, block {block} has no tile (i {i}, j {j})", "golden.tile")

    def write(self, directory: str | PathLike[str]) -> int:
        """Write every tile as raw float32 L0C values and stored elements, with an index.json; the number of tiles."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        index = []
        for golden in self.tiles():
            name = f"core{golden.core}_block{golden.block}_i{golden.tile.i}_j{golden.tile.j}"
            if golden.values is not None and golden.stored is not None:
                write_bin(folder / f"{name}.l0c.bin", golden.values)
                write_bin(folder / f"{name}.stored.bin", golden.stored)
            index.append({
                "core": golden.core, "block": golden.block, "i": golden.tile.i, "j": golden.tile.j, **golden.part,
                "rows": golden.tile.m_length, "columns": golden.tile.n_length,
                "skipped": golden.skipped, "file": None if golden.skipped else name,
                "slices": [[one.channel_block, one.start, one.stop, *(one.tap or ())] for one in golden.slices],
            })  # fmt: skip
        write_text(folder / "index.json", json.dumps(index, indent=1) + "\n")
        return len(index)

    def _walk(self, block: BlockType) -> Iterator[GoldenTile]:
        kernel, number = self.started(block), 0
        while kernel.Iterate():
            tile, values = kernel.tile, kernel.l0c
            stored = None if values is None else self.rounded(values)
            yield GoldenTile(block.core, block.index, number, tile, values, stored, self.slices(block, tile),
                             self.part(block))  # fmt: skip
            kernel.GetTensorC(self._scratch[block.offset_c])
            number += 1
        kernel.End()


def explains(suspect: NDArray[Any], got: NDArray[Any], right: NDArray[Any]) -> bool:
    """True when a suspected mistake gives the dump: nearly everywhere, and where the dump is wrong above all."""
    agrees = np.isclose(suspect, got, rtol=1e-5, atol=1e-5, equal_nan=True)
    wrong = ~np.isclose(right, got, rtol=1e-5, atol=1e-5, equal_nan=True)
    return bool(wrong.any() and agrees.mean() > 0.99 and agrees[wrong].mean() > 0.99)
