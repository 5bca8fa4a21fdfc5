"""The picture of Conv3DBackpropFilter's walk: gradWeight by who adds to it, the sum in small, the input of one load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convgrad.core.arguments import text

from ..device.errors import TilingError
from ..shared.arguments import instance, instances, some_cores, whole
from ..shared.picture import Page, Piece, SmallPlane, Turn, draw_page, small_planes_of, turns
from ..shared.picture_window import Cell, GridView, taps_at
from ..shared.svg import FAINT, INK, Canvas, core_colour
from .record import TConv3DBpFilterTiling
from .split import FilterBlock
from .traffic import filter_traffic_report
from .walk import FilterTile, filter_shape, filter_tiles_in_order

LABELS = 52.0  # room for the channels beside gradWeight
HEAD = 30.0  # room for cin blocks and taps above it


def draw_filter_walk(
    t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock], cores: int, *, title: str = "", plane: int | None = None
) -> str:
    """The picture of a tiling's walk, as the text of an SVG file. `plane` chooses the window plane shown."""
    instance(t, TConv3DBpFilterTiling, "t")
    blocks, cores = instances(FilterBlock, blocks, "blocks"), some_cores(cores)
    title, plane = text("title", title), None if plane is None else whole(plane, "plane")
    reached = sorted({block.window_plane for block in blocks})
    if not reached:
        raise TilingError("blocks are none, no window plane meets the input: there is no walk to draw", "picture.empty")
    if plane is not None and plane not in reached:
        raise TilingError(f"plane must be a window plane that meets the input, one of {reached}, got {plane}",
                          "picture.plane")  # fmt: skip
    shown = reached[len(reached) // 2] if plane is None else plane
    first = min((block for block in blocks if block.window_plane == shown), key=lambda block: block.ho_start)
    positions = min(first.K, t.stepKb * t.baseK)
    return draw_page(
        Page(
            title=title or "Conv3DBackpropFilter: the tile walk",
            sizes=f"gradOutput {t.batch}x{t.cout}x{t.dout}x{t.ho}x{t.wo}, input "
            f"{t.batch}x{t.cin}x{t.di}x{t.hi}x{t.wi}, window {t.dk}x{t.hk}x{t.wk}; "
            f"a tile is {t.baseM} channels x {t.baseN} columns, {t.baseK} positions at a time",
            main=(
                f"gradWeight of window plane {shown}: colour is the core that adds, number and shade when it does",
                lambda canvas, *place: draw_grad_weight(canvas, t, blocks, shown, *place),
            ),
            planes=(f"The sum of window plane {shown}: gradOutput rows down", small_planes(t, blocks, shown)),
            window=(
                f"What the first load reads: input under the first {positions} positions, from row {first.ho_start}",
                window_view(t, first, positions),
            ),
        ),
        filter_traffic_report(t, blocks, cores),
    )


def turns_of(t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock]) -> dict[int, Turn]:
    """The turn of each block, by its index."""
    shapes = [filter_shape(t, block.M, block.N, block.K) for block in blocks]
    return turns(blocks, [shape.m.count * shape.n.count for shape in shapes])


def tiles_of(t: TConv3DBpFilterTiling, block: FilterBlock) -> list[FilterTile]:
    """The tiles of a block in walk order."""
    return filter_tiles_in_order(t, filter_shape(t, block.M, block.N, block.K))


@dataclass(frozen=True, slots=True)
class Sheet:
    """gradWeight of one window plane on paper: channels down, columns across."""

    x: float
    y: float
    across: float  # per column of 16
    down: float  # per channel

    def box(self, t: TConv3DBpFilterTiling, block: FilterBlock, first: FilterTile) -> tuple[float, float, float, float]:
        """x, y, width and height of a tile."""
        column = (block.cin_start * t.window_area + first.n_start) / t.c0
        return (self.x + column * self.across, self.y + (block.m_start + first.m_start) * self.down,
                first.n_length / t.c0 * self.across, first.m_length * self.down)  # fmt: skip


def draw_grad_weight(canvas: Canvas, t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock], plane: int,
                     x: float, y: float, width: float, height: float) -> float:  # fmt: skip
    """Every tile of a window plane, striped by the cores that add to it; the height used."""
    columns = t.cin1 * t.window_area
    down = min((height - HEAD) / t.weight_cout, 5.0)
    sheet = Sheet(x + LABELS, y + HEAD, (width - LABELS) / columns, down)
    adding: dict[tuple[int, int], list[FilterBlock]] = {}
    for block in blocks:
        if block.window_plane == plane:
            adding.setdefault((block.m_start, block.cin_start), []).append(block)
    turns_by_index = turns_of(t, blocks)
    for parts in adding.values():
        draw_single_shape(canvas, t, parts, turns_by_index, sheet)
    draw_frame(canvas, t, sheet)
    for parts in adding.values():
        draw_walks(canvas, t, parts, turns_by_index, sheet)
    words = "A stripe is one part of a tile's sum. Each cin block has a column of 16 lanes per tap (kh, kw)"
    canvas.text(sheet.x, sheet.y + t.weight_cout * down + 16, words, "small faint")
    return HEAD + t.weight_cout * down + 20


def draw_single_shape(canvas: Canvas, t: TConv3DBpFilterTiling, parts: Sequence[FilterBlock],
                      by_index: dict[int, Turn], sheet: Sheet) -> None:  # fmt: skip
    """The tiles of one single shape, each a stack of stripes: the parts of its sum, in the order of the blocks."""
    for number, tile in enumerate(tiles_of(t, parts[0])):
        left, top, width, height = sheet.box(t, parts[0], tile)
        stripe = height / len(parts)
        for place, block in enumerate(parts):
            colour = core_colour(block.core, by_index[block.index].shade(number))
            tip = f"core {block.core}, block {block.index}, tile i {tile.i} j {tile.j}: {block.describe(t)}"
            canvas.rect(left, top + place * stripe, width, stripe, colour, "#ffffff", 0.5, tip)


def draw_walks(canvas: Canvas, t: TConv3DBpFilterTiling, parts: Sequence[FilterBlock], by_index: dict[int, Turn],
               sheet: Sheet) -> None:  # fmt: skip
    """Over the stripes, where there is room: who adds what, and the order of its tiles."""
    tiles = tiles_of(t, parts[0])
    for place, block in enumerate(parts):
        boxes = [sheet.box(t, block, tile) for tile in tiles]
        path = [(left + wide / 2, top + (place + 0.5) * high / len(parts)) for left, top, wide, high in boxes]
        left, _, width, height = boxes[0]
        rows = block.rows(t)
        name = f"core {block.core}: n{block.batch} d{block.plane}, rows {rows.start}\u2013{rows.stop - 1}"
        if height / len(parts) >= 13 and width >= 26:
            draw_order(canvas, path, by_index[block.index].before)
        if height / len(parts) >= 13 and width >= 2 * (5.6 * len(name) + 20):
            canvas.rect(left + 5, path[0][1] - 7, 5.6 * len(name) + 8, 14, "#ffffffd8", radius=3)
            canvas.text(left + 8, path[0][1] + 4, name, "small")
        canvas.rect(left, boxes[0][1], block.N / t.c0 * sheet.across, block.M * sheet.down, "none", INK, 1.6)


def draw_order(canvas: Canvas, path: list[tuple[float, float]], before: int) -> None:
    """The walk over the tiles of one block, with the number of each in its core's order."""
    if len(path) > 1:
        canvas.line(path, INK, 0.9, 'stroke-opacity="0.35" marker-end="url(#arrow)"')
    for number, (x, y) in enumerate(path):
        canvas.circle(x, y, 7.5, "#ffffffd0")
        canvas.text(x, y + 4, str(before + number), "small", "middle")


def draw_frame(canvas: Canvas, t: TConv3DBpFilterTiling, sheet: Sheet) -> None:
    """Lines and names of cin blocks and taps above, channels beside."""
    bottom = sheet.y + t.weight_cout * sheet.down
    for column in range(t.cin1 * t.window_area + 1):
        at, block_edge = sheet.x + column * sheet.across, column % t.window_area == 0
        if block_edge or sheet.across >= 8:
            canvas.line([(at, sheet.y), (at, bottom)], "#ffffff", 1.6 if block_edge else 0.5, 'stroke-opacity="0.7"')
        if sheet.across >= 15 and column < t.cin1 * t.window_area:
            kh, kw = divmod(column % t.window_area, t.wk)
            canvas.text(at + sheet.across / 2, sheet.y - 3, f"{kh},{kw}", "tiny faint", "middle")
    block_width = t.window_area * sheet.across
    for block in range(t.cin1 if block_width >= 26 else 0):
        left = sheet.x + block * block_width
        last = min(t.cin, (block + 1) * t.c0) - 1
        words = f"cin {block * t.c0}\u2013{last}" if block_width >= 60 else str(block * t.c0)
        canvas.text(left + 2, sheet.y - 15, words, "small")
        canvas.line([(left, sheet.y - 24), (left, sheet.y)], FAINT, 0.8)
    step = max(16, 16 * -(-12 // max(1, int(16 * sheet.down))))
    for channel in range(0, t.weight_cout, step):
        canvas.text(sheet.x - 6, sheet.y + channel * sheet.down + 10, f"cout {channel}", "tiny faint", "end")


def small_planes(t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock], window_plane: int) -> list[SmallPlane]:
    """Every gradOutput plane of every batch: rows downwards, pieces of gradWeight across; hatched outside the input."""
    by_index = turns_of(t, blocks)
    chosen = [block for block in blocks if block.window_plane == window_plane]
    places = sorted({(block.m_start, block.cin_start) for block in chosen})
    pieces = []
    for block in chosen:
        rows, width = block.rows(t), 1 / len(places)
        piece = Piece(places.index((block.m_start, block.cin_start)) * width, rows.start / t.ho, width,
                      len(rows) / t.ho, block.core, by_index[block.index].shade(0),
                      f"core {block.core}, block {block.index}: {block.describe(t)}")  # fmt: skip
        pieces.append((block.batch, block.plane, piece))
    return small_planes_of(pieces, t.batch, t.dout)


def window_view(t: TConv3DBpFilterTiling, block: FilterBlock, positions: int) -> GridView:
    """The input rows under the first positions of a walk, with padding, and cells that no tap reaches."""
    rows = (positions - 1) // t.wo
    top = block.ho_start * t.strideH - t.padUp
    used_rows = {row * t.strideH + r * t.dilationH for row in range(rows + 1) for r in range(t.hk)}
    used_columns = {column * t.strideW + s * t.dilationW for column in range(t.wo) for s in range(t.wk)}

    def row_name(r: int) -> tuple[str, bool]:
        return f"row {top + r}", 0 <= top + r < t.hi

    def cell(r: int, c: int) -> tuple[Cell, str]:
        row, column = top + r, c - t.padLeft
        if not (0 <= row < t.hi and 0 <= column < t.wi):
            return Cell.PADDING, ""
        if r not in used_rows or c not in used_columns:
            return Cell.UNUSED, ""
        return Cell.DATA, f"input row {row}, column {column}"

    def taps(position: int) -> tuple[tuple[int, int], ...]:
        row, column = divmod(position, t.wo)
        return taps_at(row * t.strideH, column * t.strideW, (t.hk, t.wk), (t.dilationH, t.dilationW))

    return GridView(
        rows * t.strideH + (t.hk - 1) * t.dilationH + 1, (t.wo - 1) * t.strideW + (t.wk - 1) * t.dilationW + 1, top, 0,
        row_name, cell, (taps(0), taps(positions - 1)), ("input", "read by no tap"),
    )  # fmt: skip
