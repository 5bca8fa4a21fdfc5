"""The cube's product of one tile: float32, baseK of k after baseK, the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

# A matrix library shares a large product among threads and then adds in another order than one thread would. Below this
# many multiply-adds it never does: every product here stays below.
MOST_MULTIPLY_ADDS = 1 << 18
ROWS = 64


def multiply_in_chunks(a: Matrix, b: Matrix, chunk: int, accumulator: Matrix | None = None) -> Matrix:
    """A @ B added to L0C, `chunk` of k at a time, ascending; without an accumulator the first product overwrites."""
    result = np.empty((a.shape[0], b.shape[1]), np.float32) if accumulator is None else accumulator
    whole = a.shape[0] // ROWS * ROWS
    for first, last, rows in ((0, whole, ROWS), (whole, a.shape[0], a.shape[0] - whole)):
        if first < last:
            multiply_rows(a[first:last], b, chunk, rows, result[first:last], accumulator is None)
    return result


def multiply_rows(a: Matrix, b: Matrix, chunk: int, rows: int, result: Matrix, overwrite: bool) -> None:
    """The same for a whole number of groups of rows: one small product per group, columns and chunk."""
    columns = widest_columns(b.shape[1], MOST_MULTIPLY_ADDS // (rows * min(chunk, a.shape[1])))
    groups = a.reshape(-1, 1, rows, a.shape[1])
    parts = b.reshape(b.shape[0], -1, columns).transpose(1, 0, 2)
    total = result.reshape(-1, rows, parts.shape[0], columns).transpose(0, 2, 1, 3)
    product = np.empty(total.shape, np.float32)
    for k in range(0, a.shape[1], chunk):
        np.matmul(groups[..., k : k + chunk], parts[:, k : k + chunk], out=product)
        if overwrite and k == 0:
            total[...] = product
        else:
            total += product


def widest_columns(columns: int, most: int) -> int:
    """The largest divisor of a number of columns that is a multiple of 16 and at most `most`; 16 if there is none."""
    blocks = columns // 16
    return 16 * max((count for count in range(1, blocks + 1) if blocks % count == 0 and 16 * count <= most), default=1)
