"""Golden tiles of Conv3DBackpropInput: each element of gradInput belongs to one tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import layouts, rounding
from convgrad.core.dtypes import Overflow

from ..device.conv_type import DTYPE_NAMES
from ..device.errors import TilingError
from ..device.global_tensor import GlobalTensor
from ..shared.golden import GoldenTile, GoldenTiles, MemorySlice, Place
from .kernel import Conv3DBackpropInput
from .simulate import InputSimulation, input_types
from .split import Block
from .suspects import explain_tile
from .walk import Tile


class Golden(GoldenTiles[Block]):
    """The expected tiles of a simulated gradInput."""

    def __init__(self, simulation: InputSimulation, *, saturate: bool = False) -> None:
        if simulation.grad_input_gm.size != simulation.tiling.grad_input_size:
            raise TilingError("golden tiles need a simulation with gradInput in NDC1HWC0", "golden.layout")
        super().__init__(simulation.blocks, simulation.grad_input_gm, simulation.tiling.c0)
        self.simulation = simulation
        self._overflow = Overflow.CLAMP if saturate else Overflow.INF

    def started(self, block: Block) -> Conv3DBackpropInput:
        """A kernel object with everything set for the walk of a block."""
        sim = self.simulation
        kernel = Conv3DBackpropInput(*input_types(sim.dtype))
        kernel.Init(sim.tiling)
        kernel.SetSingleShape(block.M, block.K, block.N)
        kernel.SetStartPosition(block.plane, block.ho_start)
        kernel.SetGradOutput(GlobalTensor(sim.grad_output_gm, name="gradOutput")[block.offset_a])
        kernel.SetWeight(GlobalTensor(sim.weight_gm, name="weight")[block.offset_b])
        return kernel

    def slices(self, block: Block, tile: Tile) -> tuple[MemorySlice, ...]:
        """Where each channel block of a tile goes in gradInput (NDC1HWC0)."""
        t = self.simulation.tiling
        plane = t.hi * t.wi
        first = block.offset_c + (tile.plane * t.cin1 * t.c0 + tile.n_start) * plane + tile.m_start * t.c0
        channel = block.offset_c // (plane * t.c0) % t.cin1 + tile.n_start // t.c0
        count = tile.m_length * t.c0
        return tuple(
            MemorySlice(channel + b, first + b * plane * t.c0, first + b * plane * t.c0 + count)
            for b in range(tile.n_length // t.c0)
        )

    def rounded(self, values: NDArray[np.float32]) -> NDArray[Any]:
        """The values in the stored dtype, rounded once."""
        return rounding.store(DTYPE_NAMES[self.simulation.dtype], values, overflow=self._overflow)

    def part(self, block: Block) -> dict[str, int]:
        """The plane of a block."""
        return {"plane": block.plane}

    def places(self) -> Iterator[Place]:
        """Each tile that is stored."""
        if any(block.atomic for block in self.blocks):
            raise TilingError(
                "tiles of a problem with split K are partial sums and cannot be compared", "golden.atomic"
            )
        for tile in self.tiles():
            if tile.stored is not None:
                yield Place(tile, tile.slices, tile.stored)

    def element(self, flat: int) -> tuple[tuple[int, int, int, int, int], str]:
        """The logical element behind a place in gradInput."""
        t = self.simulation.tiling
        n, c, d, h, w = layouts.element_ndc1hwc0((t.batch, t.cin, t.di, t.hi, t.wi), t.c0, flat)
        return (n, c, d, h, w), f"(n {n}, c {c}, d {d}, h {h}, w {w})"

    def explain(self, place: Place, got: NDArray[Any]) -> tuple[GoldenTile, str]:
        """The tile of a place, and what its error looks like."""
        tile: GoldenTile = place.key
        assert isinstance(tile.tile, Tile)
        return tile, explain_tile(self.simulation, self.block(tile.block), tile.tile, tile.values, got)
