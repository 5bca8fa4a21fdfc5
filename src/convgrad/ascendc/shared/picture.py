"""A picture of a tile walk (SVG): who computes what and in which order, what one tile reads, and what it costs.

Both kernels' pictures are one page: the result cut into tiles, the whole problem in small, the work of each core, the
window of one tile, the stores and the traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .picture_figures import draw_balance, draw_stores, draw_traffic
from .picture_window import GridView, draw_grid, draw_legend
from .split import AnyBlock
from .svg import FAINT, Canvas, core_colour
from .traffic import TrafficReport

WIDTH, MARGIN, LEFT, RIGHT = 1240.0, 28.0, 720.0, 430.0
SMALL_WIDTH, SMALL_HEIGHT, SMALL_ACROSS, SMALL_DOWN = 38.0, 44.0, 46, 62
Draw = Callable[[Canvas, float, float, float, float], float]  # canvas, x, y, width, height; gives the height used


@dataclass(frozen=True, slots=True)
class Turn:
    """When a core gets to a block: tiles it has done before, and tiles it has in all."""

    before: int
    in_all: int

    def shade(self, number: int) -> float:
        """How late a tile comes, from 0 to 1."""
        return (self.before + number) / max(1, self.in_all - 1)


def turns(blocks: Sequence[AnyBlock], tiles: Sequence[int]) -> dict[int, Turn]:
    """The turn of each block, by its index; `tiles` says how many each block has."""
    done: dict[int, int] = {}
    before: dict[int, int] = {}
    for block, count in zip(blocks, tiles, strict=True):
        before[block.index] = done.get(block.core, 0)
        done[block.core] = before[block.index] + count
    return {block.index: Turn(before[block.index], done[block.core]) for block in blocks}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a small plane: its place in parts of the whole, the core that does it, how late, and who it is."""

    left: float
    top: float
    width: float
    height: float
    core: int
    shade: float
    tip: str


@dataclass(frozen=True, slots=True)
class SmallPlane:
    """One plane in small; hatched where no piece lies."""

    batch: int
    plane: int
    pieces: tuple[Piece, ...]


def small_planes_of(pieces: Sequence[tuple[int, int, Piece]], batches: int, planes: int) -> list[SmallPlane]:
    """Every plane of every batch, with the pieces (batch, plane, piece) that lie in it."""
    found: dict[tuple[int, int], list[Piece]] = {}
    for batch, plane, piece in pieces:
        found.setdefault((batch, plane), []).append(piece)
    every = [(batch, plane) for batch in range(batches) for plane in range(planes)]
    return [SmallPlane(*place, tuple(found.get(place, ()))) for place in every]


@dataclass(frozen=True, slots=True)
class Page:
    """What the two pictures differ in."""

    title: str
    sizes: str
    main: tuple[str, Draw]
    planes: tuple[str, list[SmallPlane]]
    window: tuple[str, GridView]


def draw_page(page: Page, report: TrafficReport) -> str:
    """The whole picture, as the text of an SVG file."""
    canvas, right = Canvas(), MARGIN + LEFT + 30
    canvas.text(MARGIN, 40, page.title, "title")
    canvas.text(MARGIN, 62, f"{page.sizes}; {report.cores_used} of {report.cores} cores work", "label faint")
    canvas.text(MARGIN, 98, page.main[0], "head")
    main_height = page.main[1](canvas, MARGIN, 110, LEFT, 400)
    canvas.text(right, 98, page.planes[0], "head")
    planes_height = draw_small_planes(canvas, page.planes[1], right, 108, RIGHT, 190)
    top = 108 + planes_height + 30
    canvas.text(right, top, f"Work per core: the mean is {report.balance:.0%} of the busiest", "head")
    draw_balance(canvas, report, right, top + 12, RIGHT, 110)
    second = max(110 + main_height, top + 122) + 36
    canvas.text(MARGIN, second, page.window[0], "head")
    window_height = draw_grid(canvas, page.window[1], MARGIN, second + 34, LEFT, 400)
    draw_legend(canvas, page.window[1], MARGIN, second + 22)
    canvas.text(right, second, "Stores", "head")
    stores_height = draw_stores(canvas, report, right, second + 14, RIGHT)
    canvas.text(right, second + stores_height + 40, "Traffic", "head")
    draw_traffic(canvas, report, right, second + stores_height + 62)
    height = max(second + 34 + window_height, second + stores_height + 62 + 6 * 20) + 24
    return canvas.document(WIDTH, height)


def draw_small_planes(
    canvas: Canvas, planes: list[SmallPlane], x: float, y: float, width: float, height: float
) -> float:
    """Every plane in small, as many as there is room for; the height used."""
    across = max(1, min(len(planes), int(width // SMALL_ACROSS)))
    down = -(-len(planes) // across)
    shown_rows = min(down, max(1, int(height // SMALL_DOWN)))
    for number, plane in enumerate(planes[: across * shown_rows]):
        left, top = x + number % across * SMALL_ACROSS, y + number // across * SMALL_DOWN + 12
        canvas.text(left, top - 2, f"n{plane.batch} d{plane.plane}", "small faint")
        tip = f"batch {plane.batch}, plane {plane.plane}"
        canvas.rect(left, top, SMALL_WIDTH, SMALL_HEIGHT, "url(#pad)", FAINT, 0.5, tip)
        for piece in plane.pieces:
            canvas.rect(left + piece.left * SMALL_WIDTH, top + piece.top * SMALL_HEIGHT, piece.width * SMALL_WIDTH,
                        piece.height * SMALL_HEIGHT, core_colour(piece.core, piece.shade), "#ffffff", 0.5,
                        piece.tip)  # fmt: skip
    if shown_rows < down:
        more = f"and {len(planes) - across * shown_rows} more planes"
        canvas.text(x, y + shown_rows * SMALL_DOWN + 10, more, "small faint")
    return float(shown_rows * SMALL_DOWN)
