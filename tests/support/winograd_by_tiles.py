"""The 950's Winograd weight gradient tile by tile, a second hand's: F(3, 2) nested, float32 transforms and sums.

Tiles of 2x2 gradients and windows of 4x4 of the zero-padded input, step 2. Per axis (points 0, 1, -1, infinity; the
halves stand in the output transform):

    input     x0-x2  x1+x2  x2-x1  x1-x3        gradient  g0  g0+g1  g0-g1  -g1
    output    m0 + (m1+m2)/2    (m1-m2)/2    (m1+m2)/2 + m3

Every addition rounds to float32. Padding is transformed and multiplied like data: a NaN of the input reaches all nine
taps of its channel. After 32768 tile positions the sixteen sums are transformed and added to the result. The order of
a sum inside is unpublished; here it is that of the tiles, row by row, sample by sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SEGMENT = 32_768


def grad_weight(x: Floats, grad_output: Floats, padding: tuple[int, int]) -> Floats:
    """The gradient (Co, Ci, 3, 3) of a 3x3 window at stride 1; x is (N, Ci, H, W), grad_output (N, Co, Ho, Wo)."""
    batch, inner, height, width = x.shape
    outer, rows, columns = grad_output.shape[1], -(-grad_output.shape[2] // 2), -(-grad_output.shape[3] // 2)
    padded = np.zeros((batch, inner, 2 * rows + 2, 2 * columns + 2), np.float32)
    h, w = (min(n + p, m) for n, p, m in zip((height, width), padding, padded.shape[2:], strict=True))
    padded[:, :, padding[0] : h, padding[1] : w] = x[:, :, : h - padding[0], : w - padding[1]]
    whole = np.zeros((batch, outer, 2 * rows, 2 * columns), np.float32)
    whole[:, :, : grad_output.shape[2], : grad_output.shape[3]] = grad_output
    result = np.zeros((outer, inner, 3, 3), np.float32)
    sums = np.zeros((4, 4, outer, inner), np.float32)
    done = 0
    with np.errstate(all="ignore"):
        for n in range(batch):
            for i in range(rows):
                for j in range(columns):
                    window = _input(padded[n, :, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4])
                    tile = _gradient(whole[n, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2])
                    sums += tile[:, :, :, None] * window[:, :, None, :]
                    done += 1
                    if done % SEGMENT == 0:
                        result += _output(sums)
                        sums[...] = 0
        result += _output(sums)
    return result


def _input(window: Floats) -> Any:
    """(channels, 4, 4) to (4, 4, channels)."""
    def along(a: Any) -> Any:
        return np.stack((a[0] - a[2], a[1] + a[2], a[2] - a[1], a[1] - a[3]))

    rows = along(np.moveaxis(window, 1, 0))  # (4, channels, 4)
    return np.swapaxes(along(np.moveaxis(rows, 2, 0)), 0, 1)


def _gradient(tile: Floats) -> Any:
    """(channels, 2, 2) to (4, 4, channels)."""
    def along(a: Any) -> Any:
        return np.stack((a[0], a[0] + a[1], a[0] - a[1], -a[1]))

    rows = along(np.moveaxis(tile, 1, 0))
    return np.swapaxes(along(np.moveaxis(rows, 2, 0)), 0, 1)


def _output(sums: Floats) -> Any:
    """(4, 4, Co, Ci) to (Co, Ci, 3, 3)."""
    def along(a: Any) -> Any:
        half = np.float32(0.5) * (a[1] + a[2])
        return np.stack((a[0] + half, np.float32(0.5) * (a[1] - a[2]), half + a[3]))

    rows = along(sums)  # (3, 4, Co, Ci)
    taps = along(np.moveaxis(rows, 1, 0))  # (3 columns, 3 rows, Co, Ci)
    return np.moveaxis(taps, (1, 0), (2, 3))
