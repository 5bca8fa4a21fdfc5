"""The picture of Conv3DBackpropInput's walk: a gradInput plane, every plane in small, the window of the first tile."""

from __future__ import annotations

from collections.abc import Sequence

from convgrad.core.arguments import text

from ..device.errors import TilingError
from ..shared.arguments import instance, instances, some_cores, whole
from ..shared.picture import Page, Piece, SmallPlane, Turn, draw_page, small_planes_of, turns
from ..shared.picture_window import Cell, GridView, taps_at
from ..shared.svg import FAINT, INK, Canvas, core_colour
from .record import TConv3DBackpropInputTiling
from .split import Block
from .traffic import traffic_report
from .walk import Tile, row_window, single_shape, tiles_in_order

MOST_LABELS = 400
Point = tuple[float, float]


def draw_walk(
    t: TConv3DBackpropInputTiling, blocks: Sequence[Block], cores: int, *, title: str = "", plane: int | None = None
) -> str:
    """The picture of a tiling's walk, as the text of an SVG file. `plane` chooses the gradInput plane shown."""
    instance(t, TConv3DBackpropInputTiling, "t")
    blocks, cores = instances(Block, blocks, "blocks"), some_cores(cores)
    title, plane = text("title", title), None if plane is None else whole(plane, "plane")
    if not blocks:
        raise TilingError("blocks are none: there is no walk to draw", "picture.empty")
    if plane is not None and plane not in {block.plane for block in blocks}:
        raise TilingError(f"plane must be a gradInput plane, 0...{t.di - 1}, got {plane}", "picture.plane")
    reached = [one for one in sorted({block.plane for block in blocks}) if t.depth_taps(one)]
    shown = plane if plane is not None else (reached[len(reached) // 2] if reached else 0)
    block, tile = chosen_tile(t, blocks, shown)
    return draw_page(
        Page(
            title=title or "Conv3DBackpropInput: the tile walk",
            sizes=f"gradOutput {t.batch}x{t.cout}x{t.dout}x{t.ho}x{t.wo}, window {t.dk}x{t.hk}x{t.wk}, gradInput "
            f"{t.batch}x{t.cin}x{t.di}x{t.hi}x{t.wi}; a tile is {t.baseM} positions x {t.baseN} channels, "
            f"{t.baseK} of K at a time",
            main=(
                f"gradInput plane {shown}: colour is the core, number and shade when it gets there",
                lambda canvas, *place: draw_plane(canvas, t, blocks, shown, *place),
            ),
            planes=("Every plane: rows down, channel pieces across", small_planes(t, blocks)),
            window=(
                f"What the first tile reads: expanded gradOutput rows from {block.ho_start}",
                window_view(t, block, tile),
            ),
        ),
        traffic_report(t, blocks, cores),
    )


def chosen_tile(t: TConv3DBackpropInputTiling, blocks: Sequence[Block], plane: int) -> tuple[Block, Tile]:
    """The tile whose window is drawn: the first of the plane, which shows the top padding."""
    block = next(block for block in blocks if block.plane == plane)
    return block, tiles_in_order(t, single_shape(t, block.M, block.K, block.N), plane)[0]


def small_planes(t: TConv3DBackpropInputTiling, blocks: Sequence[Block]) -> list[SmallPlane]:
    """Every plane of every batch: rows downwards, channel pieces across."""
    n_pieces = max((block.n_piece for block in blocks), default=0) + 1
    turns, width = turns_of(t, blocks), 1 / n_pieces
    pieces = []
    for block in blocks:
        if t.depth_taps(block.plane):
            tip = f"core {block.core}, block {block.index}"
            piece = Piece(block.n_piece * width, block.first_row / t.hi, width, block.M / t.wi / t.hi, block.core,
                          turns[block.index].shade(0), tip)  # fmt: skip
            pieces.append((block.batch, block.plane, piece))
    return small_planes_of(pieces, t.batch, t.di)


def window_view(t: TConv3DBackpropInputTiling, block: Block, tile: Tile) -> GridView:
    """The window of a tile in the expanded gradOutput, with padding and inserted zeros."""
    window = row_window(t, block.ho_start, tile.m_start)
    below = max(window.start, 0) + window.length

    def real(r: int) -> bool:
        return 0 <= window.start + r < below

    def row_name(r: int) -> tuple[str, bool]:
        row = window.start + r
        has_data = real(r) and row % t.strideH == 0
        return f"row {row}" + (f" = {row // t.strideH}" if has_data and t.strideH > 1 else ""), has_data

    def cell(r: int, c: int) -> tuple[Cell, str]:
        row, column = window.start + r, c - t.backpropPadLeft
        if not (real(r) and 0 <= column < t.expanded_columns):
            return Cell.PADDING, ""
        if row % t.strideH or column % t.strideW:
            return Cell.UNUSED, ""
        return Cell.DATA, f"gradOutput column {column // t.strideW}"

    def taps(position: int) -> tuple[tuple[int, int], ...]:
        row = position // t.wi - tile.m_start // t.wi
        return taps_at(row, position % t.wi, (t.hk, t.wk), (t.dilationH, t.dilationW))

    return GridView(
        t.window_rows, t.wi + (t.wk - 1) * t.dilationW, window.start, tile.m_start % t.wi - 4, row_name, cell,
        (taps(tile.m_start), taps(tile.m_start + tile.m_length - 1)), ("gradOutput", "inserted zero"),
    )  # fmt: skip


def tile_outline(first: int, last: int, columns: int, x: float, y: float, cell: Point) -> list[Point]:
    """The outline of positions first...last of a plane: whole rows, with a step where it starts or ends inside one."""
    row, column = divmod(first, columns)
    end_row, end_column = divmod(last + 1, columns)

    def at(r: int, c: int) -> Point:
        return x + c * cell[0], y + r * cell[1]

    if row == end_row or (row + 1 == end_row and end_column == 0):
        stop = end_column or columns
        return [at(row, column), at(row, stop), at(row + 1, stop), at(row + 1, column)]
    if row + 1 == end_row and end_column <= column:  # two pieces that touch at most in a corner
        return [at(row, column), at(row, columns), at(row + 1, columns), at(row + 1, column), at(row + 1, end_column),
                at(row + 2, end_column), at(row + 2, 0), at(row + 1, 0), at(row + 1, column)]  # fmt: skip
    points = [at(row, column), at(row, columns), at(end_row, columns)]
    if end_column:
        points += [at(end_row, end_column), at(end_row + 1, end_column), at(end_row + 1, 0)]
    else:
        points += [at(end_row, 0)]
    return [*points, at(row + 1, 0), at(row + 1, column)] if column else points


def middle_of(first: int, last: int, columns: int, x: float, y: float, cell: Point) -> Point:
    """A point well inside a tile: where its number is written and its walk passes."""
    row, column = divmod(first, columns)
    end_row, end_column = divmod(last, columns)
    if row == end_row:
        return x + (column + end_column + 1) / 2 * cell[0], y + (row + 0.5) * cell[1]
    if end_row == row + 1:  # one of two part rows: the longer one
        if columns - column >= end_column + 1:
            return x + (column + columns) / 2 * cell[0], y + (row + 0.5) * cell[1]
        return x + (end_column + 1) / 2 * cell[0], y + (end_row + 0.5) * cell[1]
    return x + columns / 2 * cell[0], y + (row + end_row + 1) / 2 * cell[1]


def turns_of(t: TConv3DBackpropInputTiling, blocks: Sequence[Block]) -> dict[int, Turn]:
    """The turn of each block, by its index."""
    shapes = [single_shape(t, block.M, block.K, block.N) for block in blocks]
    return turns(blocks, [shape.m.count * shape.n.count for shape in shapes])


def draw_plane(canvas: Canvas, t: TConv3DBackpropInputTiling, blocks: Sequence[Block], plane: int, x: float, y: float,
               width: float, height: float) -> float:  # fmt: skip
    """One plane of batch 0, first channel piece; the height used."""
    cell = (min(width / t.wi, height / t.hi * 2.2), min(height / t.hi, width / t.wi * 2.2))
    shown = [block for block in blocks if (block.batch, block.plane, block.n_piece, block.k_piece) == (0, plane, 0, 0)]
    canvas.rect(x, y, t.wi * cell[0], t.hi * cell[1], "url(#pad)", FAINT, 0.5, "rows that no tile computes: zeroed")
    by_index, drawn = turns_of(t, blocks), 0
    for block in shown:
        drawn += draw_block(canvas, t, block, by_index[block.index], x, y, cell, drawn < MOST_LABELS)
    if min(cell) >= 9:
        for column in range(1, t.wi):
            at = x + column * cell[0]
            canvas.line([(at, y), (at, y + t.hi * cell[1])], "#ffffff", 0.6, 'stroke-opacity="0.5"')
        for row in range(1, t.hi):
            at = y + row * cell[1]
            canvas.line([(x, at), (x + t.wi * cell[0], at)], "#ffffff", 0.6, 'stroke-opacity="0.5"')
    for block in shown:
        start = block.first_row * t.wi
        canvas.polygon(tile_outline(start, start + block.M - 1, t.wi, x, y, cell), "none", INK, 1.4)
        last_row = block.first_row + (block.M - 1) // t.wi
        name = f"core {block.core}: rows {block.first_row}\u2013{last_row}"
        if (last_row + 1 - block.first_row) * cell[1] >= 18:
            top = y + block.first_row * cell[1]
            canvas.rect(x + 5, top + 4, 6.1 * len(name) + 4, 14, "#ffffffd8", radius=3)
            canvas.text(x + 8, top + 15, name, "small")
    return t.hi * cell[1]


def draw_block(canvas: Canvas, t: TConv3DBackpropInputTiling, block: Block, turn: Turn, x: float, y: float, cell: Point,
               with_order: bool) -> int:  # fmt: skip
    """The tiles of a block, darker the later, with the walk as a line and numbers where there is room; their count."""
    shape = single_shape(t, block.M, block.K, block.N)
    walk = list(enumerate(tiles_in_order(t, shape, block.plane)))
    tiles = [(number, tile) for number, tile in walk if tile.j == 0]
    start = block.first_row * t.wi
    path: list[Point] = []
    for number, tile in tiles:
        first, last = start + tile.m_start, start + tile.m_start + tile.m_length - 1
        colour = core_colour(block.core, turn.shade(number))
        tip = f"core {block.core}, block {block.index}, tile i {tile.i}: positions {first}...{last}"
        canvas.polygon(tile_outline(first, last, t.wi, x, y, cell), colour, "#ffffff", 0.8, tip)
        path.append(middle_of(first, last, t.wi, x, y, cell))
    if with_order and len(path) > 1:
        canvas.line(path, INK, 0.9, 'stroke-opacity="0.45" marker-end="url(#arrow)"')
    for (px, py), (number, tile) in zip(path, tiles, strict=True):
        if with_order and tile.m_length * cell[0] * cell[1] > 260 and max(1, tile.m_length // t.wi) * cell[1] >= 12:
            canvas.circle(px, py, 8.5, "#ffffffd0")
            canvas.text(px, py + 4, str(turn.before + number), "small", "middle")
    return len(tiles)
