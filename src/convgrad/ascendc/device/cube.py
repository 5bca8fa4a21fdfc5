"""The cube's product of one tile: float32, baseK of k after baseK, the same bits on every machine and in C++."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convgrad import engines
from convgrad.engines.library import library

Matrix = NDArray[np.float32]


def multiply_in_chunks(a: Matrix, b: Matrix, chunk: int, accumulator: Matrix | None = None) -> Matrix:
    """A @ B added to L0C, `chunk` of k at a time, ascending; without an accumulator the first product overwrites.

    Each chunk is summed in order of k and then added, products rounded before they are added. The engine's library does
    it with the very function that kernels in C++ run; without the library NumPy gives the same bits.
    """
    result = np.empty((a.shape[0], b.shape[1]), np.float32) if accumulator is None else accumulator
    if engines.chosen() == "native":
        left, right = np.ascontiguousarray(a), np.ascontiguousarray(b)
        assert result.flags.c_contiguous and b.shape[1] % 16 == 0
        library().cgt_product(left.ctypes.data, right.ctypes.data, *left.shape, right.shape[1], chunk,
                              accumulator is None, result.ctypes.data)  # fmt: skip
    else:
        plain_product(a, b, chunk, result, accumulator is None)
    return result


def plain_product(a: Matrix, b: Matrix, chunk: int, result: Matrix, overwrite: bool) -> None:
    """The definition of the product, one k after the other."""
    for start in range(0, a.shape[1], chunk):
        total = np.zeros_like(result)
        for k in range(start, min(start + chunk, a.shape[1])):
            total += a[:, k, None] * b[k]
        if overwrite and start == 0:
            result[...] = total
        else:
            result += total
