"""Golden values per tile: for each core, block and tile the expected L0C values and the slices of global memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad import rounding
from convgrad.dtypes import Overflow

from .bin_files import write_bin
from .conv_type import DTYPE_NAMES
from .core_split import Block
from .errors import TilingError
from .global_tensor import GlobalTensor
from .input_record import TConv3DBackpropInputTiling
from .kernel_input import Conv3DBackpropInput
from .simulate import InputSimulation, input_types
from .walk import Tile


@dataclass(frozen=True, slots=True)
class MemorySlice:
    """A run of gradInput elements (NDC1HWC0) that one channel block of a tile fills: positions times lanes."""

    channel_block: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class GoldenTile:
    """One tile: who computes it, what L0C must hold, what must be stored, and where.

    A skipped tile has no values: nothing is computed and memory keeps its zeros.
    """

    core: int
    block: int
    number: int
    tile: Tile
    values: NDArray[np.float32] | None
    stored: NDArray[Any] | None
    slices: tuple[MemorySlice, ...]

    @property
    def skipped(self) -> bool:
        """True when the kernel computes nothing for this tile."""
        return self.values is None

    def __str__(self) -> str:
        return f"core {self.core}, block {self.block}, {self.tile}"


def tile_slices(t: TConv3DBackpropInputTiling, block: Block, tile: Tile) -> tuple[MemorySlice, ...]:
    """Where each channel block of a tile goes in gradInput (NDC1HWC0)."""
    plane = t.hi * t.wi
    first = block.offset_c + (tile.plane * t.cin1 * t.c0 + tile.n_start) * plane + tile.m_start * t.c0
    channel = block.n_piece * t.singleCoreCin1 + tile.n_start // t.c0
    count = tile.m_length * t.c0
    return tuple(
        MemorySlice(channel + b, first + b * plane * t.c0, first + b * plane * t.c0 + count)
        for b in range(tile.n_length // t.c0)
    )


class Golden:
    """The expected tiles of a simulated problem; tiles are computed when asked for."""

    def __init__(self, simulation: InputSimulation, *, saturate: bool = False) -> None:
        if simulation.grad_input_gm.size != simulation.tiling.grad_input_size:
            raise TilingError("golden tiles need a simulation with gradInput in NDC1HWC0", "golden.layout")
        self.simulation = simulation
        self._overflow = Overflow.CLAMP if saturate else Overflow.INF

    def block(self, index: int) -> Block:
        """The block with this index."""
        for block in self.simulation.blocks:
            if block.index == index:
                return block
        raise TilingError(f"there is no block {index}: either beyond the list, or no row reaches it", "golden.block")

    def tiles(self, core: int | None = None, block: int | None = None) -> Iterator[GoldenTile]:
        """Expected tiles in walk order: all of them, those of one core, or those of one block."""
        sim = self.simulation
        t = sim.tiling
        for one in sim.blocks:
            if core in (None, one.core) and block in (None, one.index):
                kernel = Conv3DBackpropInput(*input_types(sim.dtype))
                kernel.Init(t)
                kernel.SetSingleShape(one.M, one.K, one.N)
                kernel.SetStartPosition(one.plane, one.ho_start)
                kernel.SetGradOutput(GlobalTensor(sim.grad_output_gm, name="gradOutput")[one.offset_a])
                kernel.SetWeight(GlobalTensor(sim.weight_gm, name="weight")[one.offset_b])
                yield from self._walk(kernel, one)

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
                "core": golden.core, "block": golden.block, "i": golden.tile.i, "j": golden.tile.j,
                "plane": golden.tile.plane, "rows": golden.tile.m_length, "columns": golden.tile.n_length,
                "skipped": golden.skipped, "file": None if golden.skipped else name,
                "slices": [[one.channel_block, one.start, one.stop] for one in golden.slices],
            })  # fmt: skip
        (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        return len(index)

    def _walk(self, kernel: Conv3DBackpropInput, block: Block) -> Iterator[GoldenTile]:
        scratch = GlobalTensor(np.zeros(self.simulation.tiling.grad_input_size, self.simulation.grad_input_gm.dtype))
        number = 0
        while kernel.Iterate():
            tile, values = kernel.tile, kernel.l0c
            assert tile is not None
            stored = None
            if values is not None:
                stored = rounding.store(DTYPE_NAMES[self.simulation.dtype], values, overflow=self._overflow)
            slices = tile_slices(self.simulation.tiling, block, tile)
            yield GoldenTile(block.core, block.index, number, tile, values, stored, slices)
            kernel.GetTensorC(scratch[block.offset_c], int(block.atomic))
            number += 1
        kernel.End()
