"""The picture of Conv3DBackpropInput's walk: a gradInput plane, every plane in small, the window of the first tile."""

from __future__ import annotations

from collections.abc import Sequence

from .core_split import Block
from .errors import TilingError
from .input_record import TConv3DBackpropInputTiling
from .picture import Page, Piece, SmallPlane, draw_page, small_planes_of
from .picture_plane import draw_plane, turns_of
from .picture_window import Cell, GridView, taps_at
from .traffic_input import traffic_report
from .walk import Tile, row_window, single_shape, tiles_in_order


def draw_walk(
    t: TConv3DBackpropInputTiling, blocks: Sequence[Block], cores: int, *, title: str = "", plane: int | None = None
) -> str:
    """The picture of a tiling's walk, as the text of an SVG file. `plane` chooses the gradInput plane shown."""
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
