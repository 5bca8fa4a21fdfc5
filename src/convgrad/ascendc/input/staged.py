"""The staged mode: every baseK chunk of a tile goes through bounded L1 and L0 buffers, and every load is counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..device.cube import multiply_in_chunks
from ..device.global_tensor import GlobalTensor
from ..shared.tiling_record import ceil_div
from ..shared.traffic import Traffic
from .checks import a1_bytes, b1_bytes
from .math import Matrix, expanded_block, gather_positions, weight_elements, weight_matrix
from .record import TConv3DBackpropInputTiling
from .walk import SingleShape, Tile, row_window


@dataclass(slots=True)
class StagedCube:
    """L1 (A1, B1) and L0 (A, B) of one core; ping and pong are named by the parity the object uses."""

    counters: Traffic = field(default_factory=Traffic)
    trace: list[tuple[str, int, int, int]] = field(default_factory=list)  # (buffer, ping or pong, kd, chunk group)
    kept_weights: dict[tuple[int, int], Matrix] = field(default_factory=dict)

    def begin_walk(self) -> None:
        """Forget the weights kept for the last walk."""
        self.kept_weights.clear()

    def compute(
        self,
        t: TConv3DBackpropInputTiling,
        shape: SingleShape,
        tile: Tile,
        taps: list[tuple[int, int]],
        grad_output: GlobalTensor,
        weight: GlobalTensor,
        row_start: int,
        stay: bool,
    ) -> Matrix:
        """One tile in float32: window planes ascending, chunks of baseK ascending, loads every stepKa and stepKb."""
        rows16 = ceil_div(tile.m_length, 16) * 16
        l0c: Matrix | None = None
        for kd, plane in taps:
            a1 = b1 = np.empty((0, 0), np.float32)
            for chunk in range(shape.k.count):
                if chunk % t.stepKa == 0:
                    a1 = self._load_a1(t, shape, tile, grad_output, row_start, kd, plane, chunk // t.stepKa)
                if chunk % t.stepKb == 0:
                    b1 = self._load_b1(t, shape, tile, weight, kd, chunk // t.stepKb, stay)
                k_length = shape.k.length(chunk)
                a_start, b_start = chunk % t.stepKa * t.baseK, chunk % t.stepKb * t.baseK
                l0a = np.ascontiguousarray(a1[:, a_start : a_start + k_length])
                l0b = np.ascontiguousarray(b1[b_start : b_start + k_length])
                assert l0a.shape == (tile.m_length, k_length) and l0b.shape == (k_length, tile.n_length)
                l0c = multiply_in_chunks(l0a, l0b, t.baseK, l0c)
                self.counters.a1_to_l0a += rows16 * k_length * t.element_bytes
                self.counters.b1_to_l0b += tile.n_length * k_length * t.element_bytes
                self.counters.multiply_adds += rows16 * tile.n_length * k_length
        assert l0c is not None
        return l0c

    def _load_a1(
        self,
        t: TConv3DBackpropInputTiling,
        shape: SingleShape,
        tile: Tile,
        gm: GlobalTensor,
        row_start: int,
        kd: int,
        plane: int,
        group: int,
    ) -> Matrix:
        """One A1 load: the window's rows of some channel blocks, zero-filled and scattered when strided."""
        blocks_per_load = t.stepKa * t.baseK // t.k_of_block
        first = group * blocks_per_load
        blocks = min(blocks_per_load, shape.cout1 - first)
        window = row_window(t, row_start, tile.m_start)
        loaded = window.rows * t.wo * blocks * t.c0 * t.element_bytes
        assert loaded <= a1_bytes(t)
        self.counters.a_loads += 1
        self.counters.gm_to_a1 += loaded
        self.trace.append(("A1", (tile.i * ceil_div(shape.k.count, t.stepKa) + group) % 2, kd, group))
        block = expanded_block(t, gm, row_start, window, plane, first, blocks, f"Iterate, {tile}, A1 load {group}")
        return gather_positions(t, block, tile)

    def _load_b1(
        self,
        t: TConv3DBackpropInputTiling,
        shape: SingleShape,
        tile: Tile,
        gm: GlobalTensor,
        kd: int,
        group: int,
        stay: bool,
    ) -> Matrix:
        """One B1 load: the weights of some channel blocks; none when they stay in L1 for the whole walk."""
        if stay and (tile.j, group) in self.kept_weights:
            return self.kept_weights[tile.j, group]
        blocks_per_load = t.stepKb * t.baseK // t.k_of_block
        first = group * blocks_per_load
        blocks = min(blocks_per_load, shape.cout1 - first)
        elements = weight_elements(t, gm, kd, tile, first + blocks, f"Iterate, {tile}, B1 load {group}")
        matrix = weight_matrix(t, elements, tile, first, blocks)
        loaded = matrix.size * t.element_bytes
        assert loaded <= b1_bytes(t)
        self.counters.b_loads += 1
        self.counters.gm_to_b1 += loaded
        self.trace.append(("B1", (tile.j * ceil_div(shape.k.count, t.stepKb) + group) % 2, kd, group))
        if stay:
            self.kept_weights[tile.j, group] = matrix
        return matrix
