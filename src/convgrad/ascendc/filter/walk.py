"""How a single shape of Conv3DBackpropFilter is walked: counts and tails of the tiles, and their order."""

from __future__ import annotations

from dataclasses import dataclass

from ..device.errors import TilingError
from ..shared.tiling_record import ceil_div
from ..shared.walk import Extent
from .record import TConv3DBpFilterTiling


@dataclass(frozen=True, slots=True)
class FilterShape:
    """The three axes of one single shape."""

    m: Extent
    n: Extent
    k: Extent


@dataclass(frozen=True, slots=True)
class FilterTile:
    """One tile: its indices, its gradOutput channels and its columns in the single shape."""

    i: int
    j: int
    m_start: int
    m_length: int
    n_start: int
    n_length: int

    def __str__(self) -> str:
        return f"tile (i {self.i}, j {self.j})"


def filter_shape(t: TConv3DBpFilterTiling, M: int, N: int, K: int, planes: int = 1) -> FilterShape:
    """Counts and tails from `SetSingleShape(M, N, K)`; channels are rounded up to whole blocks, K is whole rows.

    planes    window planes that the columns may run on into
    """
    if min(M, N, K) <= 0:
        raise TilingError(f"SetSingleShape: M, N and K must be above 0, got M {M}, N {N}, K {K}", "shape.positive")
    if N % t.window_area:
        raise TilingError(f"SetSingleShape: N must be a multiple of hk * wk = {t.window_area}, got {N}", "shape.n")
    swapped = "; the order of the arguments is M, N, K" if N % t.wo == 0 and K % t.window_area == 0 else ""
    if K % t.wo:
        raise TilingError(f"SetSingleShape: K must be whole rows of wo = {t.wo}, got {K}{swapped}", "shape.k")
    columns = ceil_div(N // t.window_area, t.c0) * t.c0 * t.window_area
    most_columns = t.cin1G * t.c0 * t.window_area * planes
    limits = (("M", M, t.weight_cout), ("N", columns, most_columns), ("K", K, t.ho * t.wo))
    for name, value, most in limits:
        if value > most:
            raise TilingError(
                f"SetSingleShape: {name} must be at most {most}, got {value}{swapped}", f"shape.{name.lower()}_total"
            )
    return FilterShape(Extent(ceil_div(M, 16) * 16, t.baseM), Extent(columns, t.baseN), Extent(K, t.baseK))


def input_rows(t: TConv3DBpFilterTiling, ho_start: int, k_start: int, k_length: int) -> range:
    """The input rows that some positions of a single shape see, pads cut off."""
    first = ho_start + k_start // t.wo
    last = ho_start + (k_start + k_length - 1) // t.wo
    top = first * t.strideH - t.padUp
    bottom = last * t.strideH - t.padUp + (t.hk - 1) * t.dilationH + 1
    return range(max(top, 0), min(bottom, t.hi))


def filter_tiles_in_order(t: TConv3DBpFilterTiling, shape: FilterShape) -> list[FilterTile]:
    """Every tile in walk order: L1 blocks of stepM and stepN tiles outside, single tiles inside.

    order 1    N block, M block, n, m (m fastest);   order 0    M block, N block, m, n (n fastest)
    """
    pairs = [(i, j) for i in range(shape.m.count) for j in range(shape.n.count)]
    if t.iterateOrder == 1:
        pairs.sort(key=lambda p: (p[1] // t.stepN, p[0] // t.stepM, p[1], p[0]))
    else:
        pairs.sort(key=lambda p: (p[0] // t.stepM, p[1] // t.stepN, p[0], p[1]))
    return [FilterTile(i, j, i * t.baseM, shape.m.length(i), j * t.baseN, shape.n.length(j)) for i, j in pairs]
