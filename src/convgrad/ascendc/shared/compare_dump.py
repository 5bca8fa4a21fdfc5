"""Compare a dumped result with the golden tiles: name the first wrong tile, channel block, element and tap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import rounding

from ..device.errors import TilingError
from .golden import GoldenTile, GoldenTiles, Place


@dataclass(frozen=True, slots=True)
class WrongTile:
    """A tile with wrong elements: how many, the first of them, and what its error looks like.

    element    (n, c, d, h, w) of gradInput, (cout, cin, kd, kh, kw) of gradWeight
    others     tiles that add to the same elements
    """

    golden: GoldenTile
    wrong: int
    channel_block: int
    tap: tuple[int, int, int] | None
    element: tuple[int, int, int, int, int]
    where: str
    flat: int
    expected: float
    got: float
    cause: str
    others: int = 0

    def __str__(self) -> str:
        tap = "" if self.tap is None else ", tap (kd {}, kh {}, kw {})".format(*self.tap)
        others = f" and {self.others} more that add to the same elements" if self.others else ""
        return (
            f"{self.golden}{others}: {self.wrong} wrong elements, first in channel block {self.channel_block}{tap} at "
            f"{self.where}, flat {self.flat}: expected {self.expected:g}, got {self.got:g}; {self.cause}"
        )


@dataclass(frozen=True, slots=True)
class DumpComparison:
    """What comparing a dump gave: counts, and the first wrong tile."""

    tiles: int
    wrong_tiles: int
    wrong_elements: int
    not_zeroed: int
    first: WrongTile | None

    @property
    def ok(self) -> bool:
        """True when every element is right."""
        return self.wrong_elements == 0 and self.not_zeroed == 0

    def __str__(self) -> str:
        if self.ok:
            return f"all {self.tiles} tiles are right"
        zero = f"; {self.not_zeroed} elements that no tile writes are not zero" if self.not_zeroed else ""
        head = f"{self.wrong_tiles} of {self.tiles} tiles are wrong ({self.wrong_elements} elements){zero}"
        return f"{head}\n  first: {self.first}" if self.first else head


def compare_dump(golden: GoldenTiles[Any], dump: NDArray[Any], tolerance: float = 0.0) -> DumpComparison:
    """Compare a dumped result (any shape, true layout, the stored dtype) with every golden tile.

    `tolerance` is relative to max(1, |expected|): hardware may add in another order.
    """
    flat = np.ascontiguousarray(dump).reshape(-1)
    if flat.size != golden.memory.size or flat.dtype != golden.memory.dtype:
        wanted = f"{golden.memory.size} elements of {golden.memory.dtype}"
        raise TilingError(f"the dump must have {wanted}, got {flat.size} of {flat.dtype}", "golden.dump")
    dtype = flat.dtype.name
    got = rounding.load(dtype, flat)
    tiles = wrong_tiles = wrong_elements = 0
    untouched = np.ones(flat.size, np.bool_)
    first: WrongTile | None = None
    for place in golden.places():
        tiles += place.tiles
        found = np.stack([got[one.start : one.stop].reshape(-1, golden.c0) for one in place.slices], 1)
        found = found.reshape(place.expected.shape)
        for one in place.slices:
            untouched[one.start : one.stop] = False
        expected = rounding.load(dtype, place.expected)
        bad = differs(expected, found, tolerance)
        if bad.any():
            wrong_tiles += place.tiles
            wrong_elements += int(bad.sum())
            if first is None:
                first = describe_wrong(golden, place, expected, found, bad)
    not_zeroed = int(np.count_nonzero(got[untouched] != 0))
    return DumpComparison(tiles, wrong_tiles, wrong_elements, not_zeroed, first)


def differs(expected: NDArray[Any], got: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Which elements are wrong; equal infinities and two NaN count as equal."""
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    if tolerance:
        with np.errstate(invalid="ignore"):
            same |= np.abs(got - expected) <= tolerance * np.maximum(1.0, np.abs(expected))
    return np.asarray(~same)


def describe_wrong(
    golden: GoldenTiles[Any], place: Place, expected: NDArray[Any], got: NDArray[Any], bad: NDArray[np.bool_]
) -> WrongTile:
    """The first wrong element of a place, block of columns by block of columns, and the likeliest cause."""
    by_block = bad.reshape(bad.shape[0], -1, golden.c0).transpose(1, 0, 2)
    block, row, lane = (int(index) for index in np.argwhere(by_block)[0])
    slice_, column = place.slices[block], block * golden.c0 + lane
    flat = slice_.start + row * golden.c0 + lane
    element, where = golden.element(flat)
    tile, cause = golden.explain(place, got)
    return WrongTile(
        golden=tile, wrong=int(bad.sum()), channel_block=slice_.channel_block, tap=slice_.tap, element=element,
        where=where, flat=flat, expected=float(expected[row, column]), got=float(got[row, column]), cause=cause,
        others=place.tiles - 1,
    )  # fmt: skip
