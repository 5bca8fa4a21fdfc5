"""The ledger of a sum: which gradOutput rows each part of gradWeight has been given, and how often.

gradWeight of a window plane is a sum over batches, gradOutput planes and rows; every row must come in once. A term is
one gradOutput row summed into one block of 16 channels x 16 columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .filter_record import TConv3DDwTiling
from .kernel_filter import PartOfSum
from .pointers import place_in_ndc1hwc0

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Box:
    """What one tile sums: rows of one gradOutput plane, into channels and columns of one window plane."""

    window_plane: int
    batch: int
    plane: int
    channels: Span
    columns: Span
    rows: Span


@dataclass(frozen=True, slots=True)
class TermCounts:
    """Terms of a whole problem: how many there are, how many are missing or too many, and the first of these."""

    terms: int
    missing: int
    twice: int
    first_missing: str
    first_twice: str


class Reduction:
    """Boxes as they are summed; counted at the end on the grid that their edges make."""

    def __init__(self, tiling: TConv3DDwTiling) -> None:
        self.tiling = tiling
        self.boxes: list[Box] = []

    def summed(self, part: PartOfSum) -> None:
        """A tile was added to gradWeight; where it lies follows from the pointers."""
        t, tile = self.tiling, part.tile
        place = place_in_ndc1hwc0(part.grad_output_offset, t.dout, t.cout1, t.ho, t.wo * t.c0)
        cin_place, rest = divmod(part.output.offset, t.window_area * t.weight_cout * t.c0)
        window_plane, cin_block = divmod(cin_place, t.cin1)
        channel, column = rest // t.c0 + tile.m_start, cin_block * t.window_area * t.c0 + tile.n_start
        box = Box(window_plane, place.batch, place.plane, (channel, channel + tile.m_length),
                  (column, column + tile.n_length), (part.rows.start, part.rows.stop))  # fmt: skip
        if 0 <= box.window_plane < t.dk and 0 <= box.batch < t.batch:  # otherwise the pointers were refused
            self.boxes.append(box)

    def count(self) -> TermCounts:
        """Every term that should be there once: how often it is."""
        t = self.tiling
        channels = cuts((box.channels for box in self.boxes), t.weight_cout)
        columns = cuts((box.columns for box in self.boxes), t.cin1 * t.window_area * t.c0)
        rows = cuts((box.rows for box in self.boxes), t.ho)
        counts = np.zeros((t.dk, t.batch, t.dout, len(channels) - 1, len(columns) - 1, len(rows) - 1), np.uint32)
        for box in self.boxes:
            counts[box.window_plane, box.batch, box.plane, between(channels, box.channels),
                   between(columns, box.columns), between(rows, box.rows)] += 1  # fmt: skip
        meets = np.array([[plane in t.planes_met(kd) for plane in range(t.dout)] for kd in range(t.dk)])
        due = np.broadcast_to(meets[:, None, :, None, None, None], counts.shape)
        started = counts.any(axis=(1, 2, 5), keepdims=True)  # where no term came in at all, the elements tell it
        weights = (np.diff(channels)[:, None, None] // 16) * (np.diff(columns)[:, None] // 16) * np.diff(rows)

        def terms(where: NDArray[np.bool_]) -> int:
            return int((where * weights).sum())

        def first(where: NDArray[np.bool_]) -> str:
            if not where.any():
                return ""
            kd, n, d, m, c, r = (int(place) for place in np.argwhere(where)[0])
            return (
                f"window plane {kd}, channels {channels[m]}...{channels[m + 1] - 1}, columns {columns[c]}..."
                f"{columns[c + 1] - 1}: batch {n}, gradOutput plane {d}, rows {rows[r]}...{rows[r + 1] - 1}"
            )

        missing, twice = due & (counts == 0) & started, counts > 1
        return TermCounts(terms(due), terms(due & (counts == 0)), terms(twice), first(missing), first(twice))


def cuts(spans: Iterable[Span], size: int) -> NDArray[np.int64]:
    """Every edge of the spans inside an axis, and both its ends."""
    edges = {edge for span in spans for edge in span if 0 < edge < size}
    return np.array([0, *sorted(edges), size], np.int64)


def between(edges: NDArray[np.int64], span: Span) -> slice:
    """The cells of a cut axis that a span covers."""
    first, last = np.searchsorted(edges, span)
    return slice(int(first), int(last))
