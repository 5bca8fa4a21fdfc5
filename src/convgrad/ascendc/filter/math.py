"""One filter tile and global memory in its true layouts: the operand matrices read, the result as runs to store.

k = (ho - hoStart) * Wo + wo                     positions of gradOutput
n = ((c1 * Kh + r) * Kw + s) * C0 + c0           input channel block, window row, window column, lane
A(k, m) = gradOutput(m, ho, wo)
B(k, n) = input(c, ho * sH - padUp + r * dH, wo * sW - padLeft + s * dW), zero outside; not turned
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..device.global_tensor import GlobalTensor
from ..shared.tile_store import Run, runs_of_blocks
from .record import TConv3DBpFilterTiling
from .walk import FilterTile, input_rows

Matrix = NDArray[np.float32]


def grad_output_matrix(
    t: TConv3DBpFilterTiling, gm: GlobalTensor, m_start: int, m_length: int, k_start: int, k_length: int, doing: str
) -> Matrix:
    """A(k, m) for some channels and positions; the pointer stands at the first row of the single shape."""
    blocks = m_length // t.c0
    matrix = np.zeros((k_length, blocks, t.c0), np.float32)
    for block in range(blocks):
        start = ((m_start // t.c0 + block) * t.ho * t.wo + k_start) * t.c0
        matrix[:, block] = gm.read(start, k_length * t.c0, doing).reshape(k_length, t.c0)
    return matrix.reshape(k_length, m_length)


def input_matrix(
    t: TConv3DBpFilterTiling, gm: GlobalTensor, ho_start: int, n_start: int, n_length: int, k_start: int, k_length: int,
    doing: str,
) -> Matrix:  # fmt: skip
    """B(k, n) for some columns and positions; the pointer stands at input row max(hoStart * sH - padUp, 0)."""
    row_first, row_last = k_start // t.wo, (k_start + k_length - 1) // t.wo
    rows = row_last - row_first + 1
    block_first, block_last = n_start // (t.window_area * t.c0), (n_start + n_length - 1) // (t.window_area * t.c0)
    padded = padded_input(t, gm, ho_start, row_first, rows, block_first, block_last - block_first + 1, doing)
    matrix = np.empty((rows, t.wo, n_length // t.c0, t.c0), np.float32)
    for column in range(n_length // t.c0):
        c1, tap = divmod(n_start // t.c0 + column, t.window_area)
        top, left = tap // t.wk * t.dilationH, tap % t.wk * t.dilationW
        window = padded[c1 - block_first, top :: t.strideH, left :: t.strideW]
        matrix[:, :, column] = window[:rows, : t.wo]
    skipped = k_start - row_first * t.wo
    return matrix.reshape(rows * t.wo, n_length)[skipped : skipped + k_length]


def padded_input(
    t: TConv3DBpFilterTiling, gm: GlobalTensor, ho_start: int, row_first: int, rows: int, block_first: int, blocks: int,
    doing: str,
) -> Matrix:  # fmt: skip
    """The input rows that some gradOutput rows see, with zero pads: [c1][row][column][lane]."""
    pointer_row = max(ho_start * t.strideH - t.padUp, 0)
    top = (ho_start + row_first) * t.strideH - t.padUp
    height = (rows - 1) * t.strideH + (t.hk - 1) * t.dilationH + 1
    width = (t.wo - 1) * t.strideW + (t.wk - 1) * t.dilationW + 1
    padded = np.zeros((blocks, height, width, t.c0), np.float32)
    seen = input_rows(t, ho_start, row_first * t.wo, rows * t.wo)
    kept = min(t.wi, width - t.padLeft)
    if not seen or kept <= 0:
        return padded
    for block in range(blocks):
        start = ((block_first + block) * t.hi + seen.start - pointer_row) * t.wi * t.c0
        stored = gm.read(start, len(seen) * t.wi * t.c0, doing).reshape(len(seen), t.wi, t.c0)
        padded[block, seen.start - top : seen.stop - top, t.padLeft : t.padLeft + kept] = stored[:, :kept]
    return padded


def weight_runs(
    t: TConv3DBpFilterTiling, tile: FilterTile, values: NDArray[Any] | None, sequential: bool
) -> Iterator[Run]:
    """gradWeight in FRACTAL_Z_3D: blocks of 16 columns lie all channels apart; sequential: densely at the pointer.

    A sequential tile has baseM rows in every block, a tail tile as well: what it leaves in the others is undefined, NaN
    here.
    """
    start, between, rows = tile.n_start * t.weight_cout + tile.m_start * t.c0, t.weight_cout * t.c0, tile.m_length
    if sequential:
        start, between, rows = 0, t.baseM * t.c0, t.baseM
        if values is not None:
            values = np.pad(values, ((0, t.baseM - tile.m_length), (0, 0)), constant_values=np.nan)
    yield from runs_of_blocks(values, rows, tile.n_length // t.c0, t.c0, start, between,
                              f"{tile}, column block", 0)  # fmt: skip
