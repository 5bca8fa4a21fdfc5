"""One tile and global memory in its true layouts: the two operand matrices read, the result as runs to store.

m = h * Wi + w                                   positions of one gradInput plane
k = ((co1 * Kh + r) * Kw + s) * C0 + co0         gradOutput channel block, window row, window column, lane
A(m, k) = expanded gradOutput(co, h - padUp' + r * dH, w - padLeft' + s * dW), zero outside
B(k, n) = weight(co, n, kd, Kh-1-r, Kw-1-s)      turned in the plane, not in depth
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ..device.global_tensor import GlobalTensor
from ..shared.tile_store import Run, runs_of_blocks
from ..shared.tiling_record import ceil_div
from .record import TConv3DBackpropInputTiling
from .walk import RowWindow, Tile

Matrix = NDArray[np.float32]


def expanded_block(
    t: TConv3DBackpropInputTiling,
    gm: GlobalTensor,
    ho_start: int,
    window: RowWindow,
    plane: int,
    cout_start: int,
    cout_blocks: int,
    doing: str,
) -> Matrix:
    """gradOutput rows of a window for some channel blocks, with padding and inserted zeros: [co1][row][column][lane].

    The pointer stands at the first row of the single shape; the object adds plane and channel block itself.
    """
    first_of_shape = max(0, ceil_div(ho_start, t.strideH))
    columns = t.wi + (t.wk - 1) * t.dilationW
    block = np.zeros((cout_blocks, t.window_rows, columns, t.c0), np.float32)
    if window.rows == 0:
        return block
    row = t.wo * t.c0
    top = window.first * t.strideH - window.start
    kept = min(t.wo, ceil_div(columns - t.backpropPadLeft, t.strideW))
    for co1 in range(cout_blocks):
        start = ((plane * t.cout1 + cout_start + co1) * t.ho + window.first - first_of_shape) * row
        rows = gm.read(start, window.rows * row, doing).reshape(window.rows, t.wo, t.c0)
        block[co1, top :: t.strideH, t.backpropPadLeft :: t.strideW][: window.rows, :kept] = rows[:, :kept]
    return block


def gather_positions(t: TConv3DBackpropInputTiling, block: Matrix, tile: Tile) -> Matrix:
    """A(m, k) of a tile from its expanded block: one row per position, whole channel blocks of k."""
    blocks = block.shape[0]
    s_block, s_row, s_column, s_lane = block.strides
    rows = block.shape[1] - (t.hk - 1) * t.dilationH
    windows = as_strided(
        block,
        (rows, t.wi, blocks, t.hk, t.wk, t.c0),
        (s_row, s_column, s_block, s_row * t.dilationH, s_column * t.dilationW, s_lane),
        writeable=False,
    )
    matrix = np.empty((tile.m_length, blocks, t.hk, t.wk, t.c0), np.float32)
    column = tile.m_start % t.wi
    done = row = 0
    while done < tile.m_length:  # the rest of a first row, whole rows, the start of a last row
        if column == 0 and tile.m_length - done >= t.wi:
            whole = (tile.m_length - done) // t.wi
            matrix[done : done + whole * t.wi].reshape(whole, t.wi, *matrix.shape[1:])[...] = windows[row : row + whole]
            done, row = done + whole * t.wi, row + whole
            continue
        length = min(t.wi - column, tile.m_length - done)
        matrix[done : done + length] = windows[row, column : column + length]
        done, row, column = done + length, row + 1, 0
    return matrix.reshape(tile.m_length, -1)


def weight_elements(
    t: TConv3DBackpropInputTiling, gm: GlobalTensor, kd: int, tile: Tile, last_cout_block: int, doing: str
) -> NDArray[Any]:
    """The stored weights a tile needs of one window plane; the pointer stands at the first cin block, kd = 0.

    Of the last tap only the channel blocks up to `last_cout_block` are read: more would leave a split K.
    """
    per_tap = t.weight_cout * t.c0
    per_cin = t.window_area * per_tap
    start = (kd * t.cin1 + tile.n_start // t.c0) * per_cin
    used = tile.n_length // t.c0 * per_cin - (per_tap - last_cout_block * 16 * t.c0)
    return gm.read(start, used, doing)


def weight_matrix(
    t: TConv3DBackpropInputTiling, elements: NDArray[Any], tile: Tile, cout_start: int, cout_blocks: int
) -> Matrix:
    """B(k, n) of a tile for some channel blocks of k, from its stored weights."""
    cin_blocks = tile.n_length // t.c0
    padded = np.zeros(cin_blocks * t.window_area * t.weight_cout * t.c0, np.float32)
    padded[: elements.size] = elements
    taps = padded.reshape(cin_blocks, t.hk, t.wk, t.weight_cout // 16, 16, t.c0)
    taps = taps[:, ::-1, ::-1, cout_start : cout_start + cout_blocks]
    return np.ascontiguousarray(taps.transpose(3, 1, 2, 4, 0, 5)).reshape(-1, tile.n_length)


def block_runs(t: TConv3DBackpropInputTiling, tile: Tile, values: NDArray[Any] | None) -> Iterator[Run]:
    """gradInput in NDC1HWC0: each block of 16 channels is one channel block further on."""
    plane_size = t.hi * t.wi
    start = (tile.plane * t.cin1 * t.c0 + tile.n_start) * plane_size + tile.m_start * t.c0
    yield from runs_of_blocks(values, tile.m_length, tile.n_length // t.c0, t.c0, start, plane_size * t.c0,
                              f"{tile}, channel block", tile.n_start // t.c0)  # fmt: skip


def raw_run(t: TConv3DBackpropInputTiling, tile: Tile, values: NDArray[Any] | None, core: int) -> Iterator[Run]:
    """NCDHW: the tile as [channel block][position][lane], dense, in this core's share of a workspace."""
    blocks = None
    if values is not None:
        blocks = np.ascontiguousarray(values.reshape(tile.m_length, -1, t.c0).transpose(1, 0, 2)).reshape(-1)
    doing = f"GetTensorC, {tile}, raw tile of core {core}"
    yield Run(core * t.baseM * t.baseN, tile.m_length * tile.n_length, blocks, doing)
