"""The staged mode of the filter kernel: every baseK positions of a tile go through bounded L1 and L0 buffers, counted.

One A1 buffer holds stepM tiles of channels, one B1 buffer the input under stepN tiles of columns, each for a group of
positions. Contents are kept from tile to tile while the block of tiles is the same and every group has a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..device.cube import Matrix, multiply_in_chunks
from ..device.global_tensor import GlobalTensor
from ..shared.tiling_record import ceil_div
from ..shared.traffic import Traffic
from .checks import a1_bytes, b1_bytes
from .math import grad_output_matrix, input_matrix
from .record import TConv3DBpFilterTiling
from .walk import FilterShape, FilterTile, input_rows


@dataclass(slots=True)
class L1Side:
    """A1 or B1: which block of tiles its buffers belong to, and the groups of positions they hold."""

    block: int = -1
    groups: dict[int, Matrix] = field(default_factory=dict)

    def holds(self, block: int, group: int) -> bool:
        """True when the group of this block is there; another block empties the buffers."""
        if block != self.block:
            self.block = block
            self.groups.clear()
        return group in self.groups

    def keep(self, group: int, matrix: Matrix, buffers: int) -> None:
        """Put a group into a buffer; the oldest one gives way."""
        while len(self.groups) >= buffers:
            self.groups.pop(next(iter(self.groups)))
        self.groups[group] = matrix


@dataclass(slots=True)
class StagedFilterCube:
    """L1 (A1, B1) and L0 (A, B) of one core."""

    counters: Traffic = field(default_factory=Traffic)
    a1: L1Side = field(default_factory=L1Side)
    b1: L1Side = field(default_factory=L1Side)

    def begin_walk(self) -> None:
        """Another walk reads other pointers: nothing in L1 is kept."""
        self.a1, self.b1 = L1Side(), L1Side()

    def compute(
        self, t: TConv3DBpFilterTiling, shape: FilterShape, tile: FilterTile, grad_output: GlobalTensor,
        input: GlobalTensor, ho_start: int,
    ) -> Matrix:  # fmt: skip
        """One tile in float32, baseK positions at a time, ascending; loads every stepKa and stepKb chunks."""
        l0c: Matrix = np.zeros((tile.m_length, tile.n_length), np.float32)
        m_inside, n_inside = tile.i % t.stepM * t.baseM, tile.j % t.stepN * t.baseN
        for chunk in range(shape.k.count):
            a1 = self._a1(t, shape, tile, grad_output, chunk // t.stepKa)
            b1 = self._b1(t, shape, tile, input, ho_start, chunk // t.stepKb)
            length = shape.k.length(chunk)
            a_start, b_start = chunk % t.stepKa * t.baseK, chunk % t.stepKb * t.baseK
            l0a = a1[a_start : a_start + length, m_inside : m_inside + tile.m_length]
            l0b = b1[b_start : b_start + length, n_inside : n_inside + tile.n_length]
            assert l0a.shape == (length, tile.m_length) and l0b.shape == (length, tile.n_length)
            multiply_in_chunks(l0a.T, np.ascontiguousarray(l0b), t.baseK, l0c)
            whole = ceil_div(length, 16) * 16
            self.counters.a1_to_l0a += tile.m_length * whole * t.element_bytes
            self.counters.b1_to_l0b += tile.n_length * whole * t.element_bytes
            self.counters.multiply_adds += tile.m_length * tile.n_length * whole
        return l0c

    def _a1(
        self, t: TConv3DBpFilterTiling, shape: FilterShape, tile: FilterTile, gm: GlobalTensor, group: int
    ) -> Matrix:
        """gradOutput of a block of channels and a group of positions, loaded unless it is there."""
        block = tile.i // t.stepM
        if not self.a1.holds(block, group):
            start, length = shape.k.run(group, t.stepKa)
            first, channels = shape.m.run(block, t.stepM)
            matrix = grad_output_matrix(t, gm, first, channels, start, length, f"Iterate, {tile}, A1 load {group}")
            loaded = matrix.size * t.element_bytes
            assert loaded <= a1_bytes(t)
            self.counters.a_loads += 1
            self.counters.gm_to_a1 += loaded
            self.a1.keep(group, matrix, t.al1Pbuffer)
        return self.a1.groups[group]

    def _b1(
        self, t: TConv3DBpFilterTiling, shape: FilterShape, tile: FilterTile, gm: GlobalTensor, ho_start: int,
        group: int,
    ) -> Matrix:  # fmt: skip
        """The input under a group of positions and a block of columns, loaded unless it is there."""
        block = tile.j // t.stepN
        if not self.b1.holds(block, group):
            start, length = shape.k.run(group, t.stepKb)
            first, columns = shape.n.run(block, t.stepN)
            matrix = input_matrix(t, gm, ho_start, first, columns, start, length, f"Iterate, {tile}, B1 load {group}")
            rows = len(input_rows(t, ho_start, start, length))
            loaded = rows * t.wi * t.cin_blocks(first, columns) * t.c0 * t.element_bytes
            assert loaded <= b1_bytes(t)
            self.counters.b_loads += 1
            self.counters.gm_to_b1 += loaded
            self.counters.rows_loaded += rows
            self.b1.keep(group, matrix, t.bl1Pbuffer)
        return self.b1.groups[group]
