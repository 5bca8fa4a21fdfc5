"""What the walks of both kernels share: an axis cut into tiles, and what a tile has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .tiling_record import ceil_div


class AnyTile(Protocol):
    """What a tile of either kernel has: its indices, and its rows and columns in the single shape."""

    @property
    def i(self) -> int: ...

    @property
    def j(self) -> int: ...

    @property
    def m_start(self) -> int: ...

    @property
    def m_length(self) -> int: ...

    @property
    def n_start(self) -> int: ...

    @property
    def n_length(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Extent:
    """One axis cut into tiles of `base`, the last one `tail`."""

    total: int
    base: int

    @property
    def count(self) -> int:
        """Number of tiles."""
        return ceil_div(self.total, self.base)

    def length(self, index: int) -> int:
        """Length of one tile: base, or what is left."""
        return min(self.base, self.total - index * self.base)

    def run(self, index: int, tiles: int) -> tuple[int, int]:
        """First position and length of a run of so many tiles, the last one cut."""
        start = index * tiles * self.base
        return start, min(tiles * self.base, self.total - start)

    @property
    def tail(self) -> int:
        """Length of the last tile."""
        return self.length(self.count - 1)
