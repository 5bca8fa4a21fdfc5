"""The 950's Winograd weight gradient: F(3, 2) nested, transforms and sums rounded to the dtype they are computed in.

Tiles of 2x2 gradients and windows of 4x4 of the zero-padded input, step 2. Per axis (points 0, 1, -1, infinity; the
halves stand in the output transform):

    input     x0-x2  x1+x2  x2-x1  x1-x3        gradient  g0  g0+g1  g0-g1  -g1
    output    m0 + (m1+m2)/2    (m1-m2)/2    (m1+m2)/2 + m3

Padding is transformed and multiplied like data: a NaN of the input reaches all nine taps of its channel. After at most
32768 tile positions the sixteen sums are transformed and added to the result. The order of a sum inside is unpublished;
here a band of tile rows of one sample is summed as the weight gradient of a 1x1 window with a group for each point, in
the engine's own fixed order, and bands are added one after the other: the same bits on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convgrad.core.arrays import AnyArray
from convgrad.core.plan import Plan, make_plan
from convgrad.core.problem import prove
from convgrad.core.request import Operator, Request, TensorSpec
from convgrad.engines import native

SEGMENT = 32_768
"""Tile positions after which sums start again."""
_BAND_NUMBERS = 2**24
"""Transformed numbers of a band: 64 MiB."""
Products = Callable[[AnyArray, AnyArray], AnyArray]
"""The sums (16, Co, Ci) over the tiles of (16, Co, tiles) and (16, Ci, tiles)."""


def grad_weight(fine: AnyArray, coarse: AnyArray, pads: tuple[int, int], products: Products) -> AnyArray:
    """The gradient (Co, Ci, 3, 3) in the dtype of the operands; fine is (N, Ci, H, W), coarse (N, Co, Ho, Wo)."""
    outer, inner = coarse.shape[1], fine.shape[1]
    rows, columns = -(-coarse.shape[2] // 2), -(-coarse.shape[3] // 2)
    band = max(1, min(SEGMENT, _BAND_NUMBERS // (16 * (outer + inner))) // max(columns, 1))
    result = np.zeros((outer, inner, 3, 3), fine.dtype)
    sums = np.zeros((16, outer, inner), fine.dtype)
    done = 0
    with np.errstate(all="ignore"):  # infinities and NaNs are data here
        for x, g in zip(fine, coarse, strict=True):
            for first in range(0, rows, band):
                count = min(band, rows - first)
                if done and done + count * columns > SEGMENT:
                    result += _output(sums)
                    sums[...] = 0
                    done = 0
                windows = _rows_of(x, 2 * first - pads[0], 2 * count + 2, -pads[1], 2 * columns + 2)
                tiles = _rows_of(g, 2 * first, 2 * count, 0, 2 * columns)
                sums += products(_transformed(tiles, 2, _gradient), _transformed(windows, 4, _input))
                done += count * columns
        result += _output(sums)
    return result


def _rows_of(a: AnyArray, top: int, height: int, left: int, width: int) -> AnyArray:
    """A piece of (channels, H, W), zeros outside of it."""
    out = np.zeros((a.shape[0], height, width), a.dtype)
    h, w = a.shape[1:]
    rows, columns = range(max(top, 0), min(top + height, h)), range(max(left, 0), min(left + width, w))
    if rows and columns:
        out[:, rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = (
            a[:, rows.start : rows.stop, columns.start : columns.stop]
        )
    return out


def _transformed(a: AnyArray, size: int, along: Callable[[list[Any]], list[Any]]) -> AnyArray:
    """(channels, H, W) to (16, channels, tiles): rows first, then columns; pieces of `size`, step 2."""
    tall = (a.shape[1] - size) // 2 + 1
    wide = (a.shape[2] - size) // 2 + 1
    rows = along([a[:, k : k + 2 * tall - 1 : 2] for k in range(size)])
    points = [p for row in rows for p in along([row[:, :, k : k + 2 * wide - 1 : 2] for k in range(size)])]
    return np.stack(points).reshape(16, a.shape[0], tall * wide)


def _input(x: list[Any]) -> list[Any]:
    return [x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]]


def _gradient(g: list[Any]) -> list[Any]:
    return [g[0], g[0] + g[1], g[0] - g[1], -g[1]]


def _output(sums: AnyArray) -> AnyArray:
    """(16, Co, Ci) to (Co, Ci, 3, 3)."""
    half = sums.dtype.type(0.5)

    def along(m: Any) -> list[Any]:
        both = half * (m[1] + m[2])
        return [m[0] + both, half * (m[1] - m[2]), both + m[3]]

    points = sums.reshape(4, 4, *sums.shape[1:])
    taps = [along(row) for row in along(points)]  # three rows of four columns, then three columns each
    return np.moveaxis(np.array(taps), (0, 1), (2, 3))


def by_numpy(tiles: AnyArray, windows: AnyArray) -> AnyArray:
    """Sums in the operands' own dtype."""
    found: AnyArray = np.matmul(tiles, windows.swapaxes(1, 2))
    return found


def by_engine(threads: int | None) -> Products:
    """Float32 sums of the native engine."""
    def products(tiles: AnyArray, windows: AnyArray) -> AnyArray:
        points, outer, count = tiles.shape
        inner = windows.shape[1]
        out = np.empty((points * outer, inner, 1), np.float32)
        x, g = windows.reshape(1, points * inner, count), tiles.reshape(1, points * outer, count)
        plan = _one_by_one(points, inner, outer, count)
        native.run(plan, x, g, None, {plan.steps[0].result: out}, threads=threads)
        return out.reshape(points, outer, inner)

    return products


def _one_by_one(groups: int, inner: int, outer: int, length: int) -> Plan:
    def spec(*shape: int) -> TensorSpec:
        return TensorSpec(shape, "float32", "NCL")

    weight = spec(groups * outer, inner, 1)
    return make_plan(prove(Request(
        Operator.CONV, spec(1, groups * outer, length), spec(1, groups * inner, length), weight, None,
        (groups * outer,), (1,), (0,), (1,), False, (0,), groups, (False, True, False), grad_weight=weight,
    )))  # fmt: skip
