"""Golden tiles of Conv3DBackpropFilter: many tiles, of many cores, add to the same elements of gradWeight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import layouts

from ..device.global_tensor import GlobalTensor
from ..shared.golden import GoldenTile, GoldenTiles, MemorySlice, Place
from .kernel import Conv3DBackpropFilter
from .simulate import FilterSimulation, filter_types
from .split import FilterBlock
from .suspects import explain_sum
from .walk import FilterTile, filter_shape, filter_tiles_in_order


class FilterGolden(GoldenTiles[FilterBlock]):
    """The expected tiles of a simulated gradWeight; each is a part of the sum over batches, planes and rows."""

    def __init__(self, simulation: FilterSimulation) -> None:
        super().__init__(simulation.blocks, simulation.grad_weight_gm, simulation.tiling.c0)
        self.simulation = simulation

    def started(self, block: FilterBlock) -> Conv3DBackpropFilter:
        """A kernel object with everything set for the walk of a block."""
        sim = self.simulation
        kernel = Conv3DBackpropFilter(*filter_types(sim.dtype))
        kernel.Init(sim.tiling)
        kernel.SetSingleShape(block.M, block.N, block.K)
        kernel.SetStartPosition(block.ho_start)
        kernel.SetInput(GlobalTensor(sim.input_gm, name="input")[block.offset_b])
        kernel.SetGradOutput(GlobalTensor(sim.grad_output_gm, name="gradOutput")[block.offset_a])
        return kernel

    def slices(self, block: FilterBlock, tile: FilterTile) -> tuple[MemorySlice, ...]:
        """Where each block of 16 columns goes in gradWeight (FRACTAL_Z_3D): one input channel block, one tap."""
        t = self.simulation.tiling
        first = block.offset_c + tile.n_start * t.weight_cout + tile.m_start * t.c0
        between, count = t.weight_cout * t.c0, tile.m_length * t.c0
        found = []
        for number in range(tile.n_length // t.c0):
            cin_block, tap = divmod(tile.n_start // t.c0 + number, t.window_area)
            start = first + number * between
            place = (block.window_plane, *divmod(tap, t.wk))
            found.append(MemorySlice(block.cin_start // t.c0 + cin_block, start, start + count, place))
        return tuple(found)

    def rounded(self, values: NDArray[np.float32]) -> NDArray[Any]:
        """gradWeight is float32: what is added is what L0C holds."""
        return values

    def part(self, block: FilterBlock) -> dict[str, int]:
        """Batch, gradOutput plane, window plane and first row of a block."""
        return {"batch": block.batch, "plane": block.plane, "window_plane": block.window_plane,
                "ho_start": block.ho_start}  # fmt: skip

    def places(self) -> Iterator[Place]:
        """Each tile-shaped part of gradWeight with the blocks that add to it; the sum is what memory must hold."""
        t = self.simulation.tiling
        adding: dict[tuple[int, int, int], list[FilterBlock]] = {}
        for block in self.blocks:
            adding.setdefault((block.window_plane, block.m_start, block.cin_start), []).append(block)
        for blocks in adding.values():
            for tile in filter_tiles_in_order(t, filter_shape(t, blocks[0].M, blocks[0].N, blocks[0].K)):
                slices = self.slices(blocks[0], tile)
                lanes = [self.memory[one.start : one.stop].reshape(-1, t.c0) for one in slices]
                yield Place((tuple(blocks), tile), slices, np.concatenate(lanes, 1), len(blocks))

    def element(self, flat: int) -> tuple[tuple[int, int, int, int, int], str]:
        """The logical element behind a place in gradWeight."""
        t = self.simulation.tiling
        co, ci, kd, kh, kw = layouts.element_fractal_z_3d((t.cout, t.cin, t.dk, t.hk, t.wk), t.c0, flat)
        return (co, ci, kd, kh, kw), f"(cout {co}, cin {ci}, kd {kd}, kh {kh}, kw {kw})"

    def explain(self, place: Place, got: NDArray[Any]) -> tuple[GoldenTile, str]:
        """The tile to blame: the one whose loss or repetition gives the dump, or else the first that adds there."""
        blocks, tile = place.key
        parts = [self.tile(block.core, block.index, tile.i, tile.j) for block in blocks]
        blamed, cause = explain_sum(self.simulation, blocks, tile, [_values(part) for part in parts], place, got)
        return parts[blamed or 0], cause


def _values(tile: GoldenTile) -> NDArray[np.float32]:
    assert tile.values is not None  # no tile of this kernel is skipped
    return tile.values
