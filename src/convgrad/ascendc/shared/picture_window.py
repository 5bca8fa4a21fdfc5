"""What one tile reads, cell by cell: data, zeros between, padding, and the taps of two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from .svg import ACCENT, FAINT, INK, Canvas

FIRST, LAST = ACCENT, "#6d28d9"
MOST_COLUMNS, MOST_ROWS = 56, 34
Cells = tuple[tuple[int, int], ...]


class Cell(Enum):
    """What a cell holds, by its fill."""

    DATA = "#5aa9a3"
    UNUSED = "#ffffff"
    PADDING = "url(#pad)"


@dataclass(frozen=True, slots=True)
class GridView:
    """A window of cells: rows and columns counted from its own corner.

    row_name    the label of a row, and whether it holds data
    cell        what a row and column hold, with a tooltip
    first_row   the number of its first row, and the column to begin at when not all fit
    taps        cells that the first and the last position look at
    words       what data and unused cells are called
    """

    rows: int
    columns: int
    first_row: int
    first_column: int
    row_name: Callable[[int], tuple[str, bool]]
    cell: Callable[[int, int], tuple[Cell, str]]
    taps: tuple[Cells, Cells]
    words: tuple[str, str]


def taps_at(row: int, column: int, window: tuple[int, int], dilation: tuple[int, int]) -> Cells:
    """The cells of a window whose first tap lies at (row, column)."""
    return tuple(
        (row + r * dilation[0], column + s * dilation[1]) for r in range(window[0]) for s in range(window[1])
    )


def draw_grid(canvas: Canvas, view: GridView, x: float, y: float, width: float, height: float) -> float:
    """The window, one square per cell; the height used."""
    first = max(0, min(view.first_column, view.columns - MOST_COLUMNS))
    shown, rows = min(view.columns, MOST_COLUMNS), min(view.rows, MOST_ROWS)
    size = min((width - 90) / shown, (height - 20) / rows, 22)
    left = x + 86
    for r in range(rows):
        label, has_data = view.row_name(r)
        if size >= 11 or r % 3 == 0 or " = " in label:
            kind = ("small" if size >= 11 else "tiny") + ("" if has_data else " faint")
            canvas.text(left - 6, y + (r + 0.5) * size + 3.5, label, kind, "end")
        for c in range(shown):
            draw_cell(canvas, *view.cell(r, first + c), left + c * size, y + r * size, size)
    canvas.rect(left, y, shown * size, rows * size, "none", INK, 1.0)
    inset = size * 0.14
    for colour, row, column in shown_taps(view):
        if 0 <= column - first < shown and row < rows:
            canvas.rect(left + (column - first) * size + inset, y + row * size + inset, size - 2 * inset,
                        size - 2 * inset, "none", colour, 2)  # fmt: skip
    cut = [f"columns {first}\u2013{first + shown - 1} of {view.columns}"] if shown < view.columns else []
    last_row = view.first_row + rows - 1
    cut += [f"rows {view.first_row}\u2013{last_row} of {view.rows}"] if rows < view.rows else []
    canvas.text(left, y + rows * size + 15, ", ".join(cut), "small faint")
    return rows * size + 20


def shown_taps(view: GridView) -> Iterator[tuple[str, int, int]]:
    """Colour, row and column of each tap."""
    for colour, cells in zip((FIRST, LAST), view.taps, strict=True):
        for row, column in cells:
            yield colour, row, column


def draw_cell(canvas: Canvas, cell: Cell, tip: str, x: float, y: float, size: float) -> None:
    """One cell."""
    stroke = {Cell.DATA: ("#ffffff", 0.7), Cell.UNUSED: ("#dde2e8", 0.5), Cell.PADDING: ("#ffffff", 0.5)}[cell]
    canvas.rect(x, y, size, size, cell.value, *stroke, tip)
    if cell is Cell.UNUSED:
        canvas.circle(x + size / 2, y + size / 2, max(0.8, size / 12), "#b4bcc6")


def draw_legend(canvas: Canvas, view: GridView, x: float, y: float) -> None:
    """What the cells mean."""
    entries = (
        (Cell.DATA.value, FAINT, view.words[0]), (Cell.UNUSED.value, FAINT, view.words[1]),
        (Cell.PADDING.value, FAINT, "padding"), ("none", FIRST, "taps of the first position"),
        ("none", LAST, "taps of the last position"),
    )  # fmt: skip
    for fill, stroke, words in entries:
        if words:
            canvas.rect(x, y - 10, 11, 11, fill, stroke, 2 if fill == "none" else 0.6)
            canvas.text(x + 17, y, words, "small")
            x += 34 + 5.6 * len(words)
