"""Compare a dumped gradInput with the golden tiles: name the first wrong tile, channel block, element and tap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad import layouts, rounding

from .conv_type import DTYPE_NAMES
from .errors import TilingError
from .golden import Golden, GoldenTile
from .suspects import explain_tile


@dataclass(frozen=True, slots=True)
class WrongTile:
    """A tile with wrong elements: how many, the first of them, and what its error looks like."""

    golden: GoldenTile
    wrong: int
    channel_block: int
    element: tuple[int, int, int, int, int]
    flat: int
    expected: float
    got: float
    cause: str

    def __str__(self) -> str:
        n, c, d, h, w = self.element
        return (
            f"{self.golden}: {self.wrong} wrong elements, first in channel block {self.channel_block} at "
            f"(n {n}, c {c}, d {d}, h {h}, w {w}), flat {self.flat}: expected {self.expected:g}, got {self.got:g}; "
            f"{self.cause}"
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


def compare_dump(golden: Golden, dump: NDArray[Any], tolerance: float = 0.0) -> DumpComparison:
    """Compare a dumped gradInput (NDC1HWC0, any shape, the stored dtype) with every golden tile.

    `tolerance` is relative to max(1, |expected|): hardware may add in another order inside a product.
    """
    sim = golden.simulation
    t = sim.tiling
    flat = np.ascontiguousarray(dump).reshape(-1)
    if flat.size != t.grad_input_size or flat.dtype != sim.grad_input_gm.dtype:
        wanted = f"{t.grad_input_size} elements of {sim.grad_input_gm.dtype}"
        raise TilingError(f"the dump must have {wanted}, got {flat.size} of {flat.dtype}", "golden.dump")
    if any(block.atomic for block in sim.blocks):
        raise TilingError("tiles of a problem with split K are partial sums and cannot be compared", "golden.atomic")
    got = rounding.load(DTYPE_NAMES[sim.dtype], flat)
    tiles = wrong_tiles = wrong_elements = 0
    untouched = np.ones(flat.size, np.bool_)
    first: WrongTile | None = None
    for tile in golden.tiles():
        tiles += 1
        if tile.stored is None:
            continue
        found = np.stack([got[one.start : one.stop].reshape(-1, t.c0) for one in tile.slices], 1).reshape(
            tile.stored.shape
        )
        for one in tile.slices:
            untouched[one.start : one.stop] = False
        expected = rounding.load(DTYPE_NAMES[sim.dtype], tile.stored)
        bad = differs(expected, found, tolerance)
        if bad.any():
            wrong_tiles += 1
            wrong_elements += int(bad.sum())
            if first is None:
                first = describe_wrong(golden, tile, expected, found, bad)
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
    golden: Golden, tile: GoldenTile, expected: NDArray[Any], got: NDArray[Any], bad: NDArray[np.bool_]
) -> WrongTile:
    """The first wrong element of a tile, channel block by channel block, and the likeliest cause."""
    t = golden.simulation.tiling
    by_block = bad.reshape(bad.shape[0], -1, t.c0).transpose(1, 0, 2)
    block, row, lane = (int(place) for place in np.argwhere(by_block)[0])
    where = tile.slices[block]
    flat = where.start + row * t.c0 + lane
    column = block * t.c0 + lane
    return WrongTile(
        golden=tile,
        wrong=int(bad.sum()),
        channel_block=where.channel_block,
        element=layouts.element_ndc1hwc0((t.batch, t.cin, t.di, t.hi, t.wi), t.c0, flat),
        flat=flat,
        expected=float(expected[row, column]),
        got=float(got[row, column]),
        cause=explain_tile(golden, tile, got),
    )
