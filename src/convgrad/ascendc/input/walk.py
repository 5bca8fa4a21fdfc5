"""How a single shape is walked: counts and tails of the tiles, their order, and the rows each one reads."""

from __future__ import annotations

from dataclasses import dataclass

from ..device.errors import TilingError
from ..shared.tiling_record import ceil_div
from ..shared.walk import Extent
from .record import TConv3DBackpropInputTiling


@dataclass(frozen=True, slots=True)
class SingleShape:
    """The three axes of one single shape of Conv3DBackpropInput."""

    m: Extent
    k: Extent
    n: Extent
    cout1: int


def single_shape(tiling: TConv3DBackpropInputTiling, M: int, K: int, N: int) -> SingleShape:
    """Counts and tails from `SetSingleShape(M, K, N)`. K includes depth; N is rounded up to whole channel blocks."""
    k_per_block = tiling.dk * tiling.k_of_block
    if min(M, K, N) <= 0:
        raise TilingError(f"SetSingleShape: M, K and N must be above 0, got M {M}, K {K}, N {N}", "shape.positive")
    if K % k_per_block:
        swapped = "; the order of the arguments is M, K, N" if N % k_per_block == 0 else ""
        raise TilingError(
            f"SetSingleShape: K must be a multiple of dk * hk * wk * c0 = {k_per_block}, got K {K}"
            f" (hardware would round it down to {K // k_per_block * k_per_block}){swapped}",
            "shape.k",
        )
    if K // k_per_block > tiling.cout1:
        raise TilingError(
            f"SetSingleShape: K must be at most dk * hk * wk * cout1 * c0 = {k_per_block * tiling.cout1}, got {K}",
            "shape.k_total",
        )
    if tiling.hi * tiling.wi < M:
        raise TilingError(
            f"SetSingleShape: M must be at most hi * wi = {tiling.hi * tiling.wi}, got {M}", "shape.m_total"
        )
    if ceil_div(N, tiling.c0) > tiling.cin1:
        raise TilingError(
            f"SetSingleShape: N must be at most cin1 * c0 = {tiling.cin1 * tiling.c0}, got {N}", "shape.n_total"
        )
    cout1 = K // k_per_block
    return SingleShape(
        Extent(M, tiling.baseM),
        Extent(cout1 * tiling.k_of_block, tiling.baseK),
        Extent(ceil_div(N, tiling.c0) * tiling.c0, tiling.baseN),
        cout1,
    )


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of a walk: its indices, the plane it belongs to, and its positions and channels in the single shape."""

    i: int
    j: int
    plane: int
    m_start: int
    m_length: int
    n_start: int
    n_length: int

    def __str__(self) -> str:
        return f"tile (i {self.i}, j {self.j}) of plane {self.plane}"


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The expanded gradOutput rows one tile reads.

    start    first expanded row, negative in the top padding
    length   rows of the cut window that lie inside the expanded plane
    first    first gradOutput row that holds data
    rows     number of gradOutput rows with data in the window
    """

    start: int
    length: int
    first: int
    rows: int


def row_window(tiling: TConv3DBackpropInputTiling, ho_start: int, m_start: int) -> RowWindow:
    """The window of the tile whose first position is `m_start`, cut to the expanded plane."""
    start = ho_start + m_start // tiling.wi
    if start < 0:
        length = max(0, min(tiling.window_rows + start, tiling.expanded_rows))
    else:
        length = max(0, min(tiling.window_rows, tiling.expanded_rows - start))
    top = max(start, 0)
    first = ceil_div(top, tiling.strideH)
    skip = first * tiling.strideH - top
    return RowWindow(start, length, first, max(0, ceil_div(length - skip, tiling.strideH)))


def tiles_in_order(tiling: TConv3DBackpropInputTiling, shape: SingleShape, plane: int) -> list[Tile]:
    """Every tile of a single shape in the order Iterate visits them."""
    if tiling.iterateOrder == 1:
        pairs = [(i, j) for j in range(shape.n.count) for i in range(shape.m.count)]
    else:
        pairs = [(i, j) for i in range(shape.m.count) for j in range(shape.n.count)]
    return [make_tile(tiling, shape, i, j, plane) for i, j in pairs]


def make_tile(tiling: TConv3DBackpropInputTiling, shape: SingleShape, i: int, j: int, plane: int) -> Tile:
    """The tile at (i, j)."""
    return Tile(i, j, plane, i * tiling.baseM, shape.m.length(i), j * tiling.baseN, shape.n.length(j))
