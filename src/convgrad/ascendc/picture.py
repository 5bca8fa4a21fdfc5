"""A picture of the tile walk (SVG): who computes what and in which order, what one tile reads, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from .core_split import Block
from .errors import TilingError
from .input_record import TConv3DBackpropInputTiling
from .picture_figures import draw_balance, draw_stores, draw_traffic
from .picture_plane import draw_all_planes, draw_plane
from .picture_window import draw_window, draw_window_legend
from .svg import Canvas
from .traffic_input import traffic_report
from .walk import Tile, single_shape, tiles_in_order

WIDTH, MARGIN, LEFT, RIGHT = 1240.0, 28.0, 720.0, 430.0


def chosen_tile(t: TConv3DBackpropInputTiling, blocks: Sequence[Block], plane: int) -> tuple[Block, Tile]:
    """The tile whose window is drawn: the first of the plane, which shows the top padding."""
    block = next(block for block in blocks if block.plane == plane)
    return block, tiles_in_order(t, single_shape(t, block.M, block.K, block.N), plane)[0]


def draw_walk(
    t: TConv3DBackpropInputTiling, blocks: Sequence[Block], cores: int, *, title: str = "", plane: int | None = None
) -> str:
    """The picture of a tiling's walk, as the text of an SVG file. `plane` chooses the gradInput plane shown."""
    if plane is not None and plane not in {block.plane for block in blocks}:
        raise TilingError(f"plane must be a gradInput plane, 0...{t.di - 1}, got {plane}", "picture.plane")
    reached = [one for one in sorted({block.plane for block in blocks}) if t.depth_taps(one)]
    shown = plane if plane is not None else (reached[len(reached) // 2] if reached else 0)
    report = traffic_report(t, blocks, cores)
    canvas, right = Canvas(), MARGIN + LEFT + 30
    canvas.text(MARGIN, 40, title or "Conv3DBackpropInput: the tile walk", "title")
    sizes = (
        f"gradOutput {t.batch}x{t.cout}x{t.dout}x{t.ho}x{t.wo}, window {t.dk}x{t.hk}x{t.wk}, gradInput "
        f"{t.batch}x{t.cin}x{t.di}x{t.hi}x{t.wi}; a tile is {t.baseM} positions x {t.baseN} channels, "
        f"{t.baseK} of K at a time; {report.cores_used} of {report.cores} cores work"
    )
    canvas.text(MARGIN, 62, sizes, "label faint")
    canvas.text(MARGIN, 98, f"gradInput plane {shown}: colour is the core, number and shade when it gets there", "head")
    plane_height = draw_plane(canvas, t, blocks, shown, MARGIN, 110, LEFT, 400)
    canvas.text(right, 98, "Every plane: rows down, channel pieces across", "head")
    planes_height = draw_all_planes(canvas, t, blocks, right, 108, RIGHT, 190)
    top = 108 + planes_height + 30
    canvas.text(right, top, f"Work per core: the mean is {report.balance:.0%} of the busiest", "head")
    draw_balance(canvas, report, right, top + 12, RIGHT, 110)
    second = max(110 + plane_height, top + 122) + 36
    block, tile = chosen_tile(t, blocks, shown)
    canvas.text(MARGIN, second, f"What the first tile reads: expanded gradOutput rows from {block.ho_start}", "head")
    window_height = draw_window(canvas, t, block, tile, MARGIN, second + 34, LEFT, 400)
    draw_window_legend(canvas, MARGIN, second + 22)
    canvas.text(right, second, "Stores", "head")
    stores_height = draw_stores(canvas, report, right, second + 14, RIGHT)
    canvas.text(right, second + stores_height + 40, "Traffic", "head")
    draw_traffic(canvas, report, right, second + stores_height + 62)
    height = max(second + 34 + window_height, second + stores_height + 62 + 6 * 20) + 24
    return canvas.document(WIDTH, height)
