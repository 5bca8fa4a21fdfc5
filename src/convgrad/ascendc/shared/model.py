"""What is asked of a tile kernel whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from .arguments import TileArguments
from .golden import GoldenTiles
from .plan import Plan
from .split import AnyBlock
from .tile_object import TileObject
from .traffic import TrafficReport


class DrawWalk(Protocol):
    """Draws the walk of a record's blocks, as the text of an SVG file."""

    def __call__(self, t: Any, blocks: Sequence[Any], cores: int, *, title: str, plane: int | None) -> str: ...


@dataclass(frozen=True, slots=True)
class TileModel:
    """A tile kernel as its folder offers it: what is asked of either kernel alike, under the name of the file it is in.

    gradient    whose gradient it computes: "input" or "weight"
    reads       its operands, as the arguments of its simulation are called
    """

    gradient: str
    reads: tuple[str, str]
    tiling: Callable[[TileArguments], Plan[Any]]
    split: Callable[[Any], tuple[AnyBlock, ...]]
    kernel: type[TileObject[Any, Any]]
    simulate: Callable[[Any, NDArray[Any], NDArray[Any]], Any]
    golden: Callable[[Any], GoldenTiles[Any]]
    traffic: Callable[[Any, Sequence[Any], int], TrafficReport]
    picture: DrawWalk
