"""What one tile reads: its window in the expanded gradOutput, with padding and inserted zeros."""

from __future__ import annotations

from .core_split import Block
from .input_record import TConv3DBackpropInputTiling
from .svg import ACCENT, FAINT, INK, Canvas
from .walk import Tile, row_window

DATA, INSERTED, FIRST, LAST = "#5aa9a3", "#ffffff", ACCENT, "#6d28d9"
MOST_COLUMNS, MOST_ROWS = 56, 34


def draw_window(canvas: Canvas, t: TConv3DBackpropInputTiling, block: Block, tile: Tile, x: float, y: float,
                width: float, height: float) -> float:  # fmt: skip
    """The window of a tile, one cell per expanded position; the height used."""
    window = row_window(t, block.ho_start, tile.m_start)
    columns = t.wi + (t.wk - 1) * t.dilationW
    first_column = max(0, min(tile.m_start % t.wi - 4, columns - MOST_COLUMNS))
    shown, rows = min(columns, MOST_COLUMNS), min(t.window_rows, MOST_ROWS)
    cell = min((width - 90) / shown, (height - 20) / rows, 22)
    left, below = x + 86, max(window.start, 0) + window.length
    for r in range(rows):
        expanded_row = window.start + r
        real = 0 <= expanded_row < below
        has_data = real and expanded_row % t.strideH == 0
        label = f"row {expanded_row}" + (f" = {expanded_row // t.strideH}" if has_data and t.strideH > 1 else "")
        if cell >= 11 or (has_data and t.strideH > 1) or r % 3 == 0:
            kind = ("small" if cell >= 11 else "tiny") + ("" if has_data else " faint")
            canvas.text(left - 6, y + (r + 0.5) * cell + 3.5, label, kind, "end")
        for c in range(shown):
            column = first_column + c - t.backpropPadLeft
            draw_cell(canvas, t, real, has_data, column, left + c * cell, y + r * cell, cell)
    canvas.rect(left, y, shown * cell, rows * cell, "none", INK, 1.0)
    draw_taps(canvas, t, tile, left, y, cell, first_column, shown, rows)
    cut = [f"columns {first_column}\u2013{first_column + shown - 1} of {columns}"] if shown < columns else []
    cut += [f"rows {window.start}\u2013{window.start + rows - 1} of {t.window_rows}"] if rows < t.window_rows else []
    canvas.text(left, y + rows * cell + 15, ", ".join(cut), "small faint")
    return rows * cell + 20


def draw_cell(canvas: Canvas, t: TConv3DBackpropInputTiling, real: bool, has_data: bool, column: int, x: float,
              y: float, size: float) -> None:  # fmt: skip
    """One expanded position: data, an inserted zero, or padding."""
    inside = real and 0 <= column < t.expanded_columns
    if not inside:
        canvas.rect(x, y, size, size, "url(#pad)", "#ffffff", 0.5)
    elif has_data and column % t.strideW == 0:
        canvas.rect(x, y, size, size, DATA, "#ffffff", 0.7, f"gradOutput column {column // t.strideW}")
    else:
        canvas.rect(x, y, size, size, INSERTED, "#dde2e8", 0.5)
        canvas.circle(x + size / 2, y + size / 2, max(0.8, size / 12), "#b4bcc6")


def draw_taps(canvas: Canvas, t: TConv3DBackpropInputTiling, tile: Tile, left: float, top: float, cell: float,
              first_column: int, shown: int, rows: int) -> None:  # fmt: skip
    """The window cells that the first and the last position of the tile look at."""
    inset = cell * 0.14
    for position, colour in ((tile.m_start, FIRST), (tile.m_start + tile.m_length - 1, LAST)):
        first_row = position // t.wi - tile.m_start // t.wi
        for r in range(t.hk):
            for s in range(t.wk):
                row, column = first_row + r * t.dilationH, position % t.wi + s * t.dilationW - first_column
                if 0 <= column < shown and row < rows:
                    canvas.rect(left + column * cell + inset, top + row * cell + inset, cell - 2 * inset,
                                cell - 2 * inset, "none", colour, 2)  # fmt: skip


def draw_window_legend(canvas: Canvas, x: float, y: float) -> None:
    """What the cells mean."""
    entries = (
        (DATA, FAINT, "gradOutput"), (INSERTED, FAINT, "inserted zero"), ("url(#pad)", FAINT, "padding"),
        ("none", FIRST, "taps of the first position"), ("none", LAST, "taps of the last position"),
    )  # fmt: skip
    for fill, stroke, words in entries:
        canvas.rect(x, y - 10, 11, 11, fill, stroke, 2 if fill == "none" else 0.6)
        canvas.text(x + 17, y, words, "small")
        x += 34 + 5.6 * len(words)
