"""The figures beside the walk: how full the stores are, how even the cores are, what moves."""

from __future__ import annotations

from .svg import ACCENT, FAINT, PANEL, Canvas, core_colour
from .traffic import TrafficReport


def human(number: float) -> str:
    """A number with a binary unit."""
    for unit in ("", "Ki", "Mi", "Gi"):
        if abs(number) < 1024 or unit == "Gi":
            return f"{number:.0f} {unit}" if unit == "" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError("unreachable")


def draw_stores(canvas: Canvas, report: TrafficReport, x: float, y: float, width: float) -> float:
    """A bar per store; L1 shows its two operands apart. The height used."""
    bar = width - 190
    a_name, b_name = report.names
    for row, (store, (used, size)) in enumerate(report.fill.items()):
        top = y + row * 26
        canvas.text(x, top + 12, store, "label")
        canvas.rect(x + 40, top, bar, 16, PANEL, "#cbd2d9", 0.8, radius=3)
        if store == "L1":
            part = report.l1_parts[0] / size * bar
            canvas.rect(x + 40, top, part, 16, "#5aa9a3", tip=a_name, radius=3)
            canvas.rect(x + 40 + part, top, used / size * bar - part, 16, "#8b9fd4", tip=b_name, radius=3)
        else:
            canvas.rect(x + 40, top, used / size * bar, 16, "#8b9fd4" if store == "L0B" else "#5aa9a3", radius=3)
        canvas.text(x + 48 + bar, top + 12, f"{used / size:4.0%}  {used} of {size}", "small mono")
    return 26.0 * len(report.fill)


def draw_balance(canvas: Canvas, report: TrafficReport, x: float, y: float, width: float, height: float) -> None:
    """Work per core, with the mean as a line."""
    busiest = max(report.per_core, default=0) or 1
    step = width / report.cores
    for core, work in enumerate(report.per_core):
        tall = work / busiest * (height - 16)
        canvas.rect(x + core * step + step * 0.1, y + height - 16 - tall, step * 0.8, tall, core_colour(core, 0.5),
                    tip=f"core {core}: {work} multiply-adds", radius=1.5)  # fmt: skip
        if step >= 14:
            canvas.text(x + (core + 0.5) * step, y + height - 3, str(core), "small faint", "middle")
    mean = sum(report.per_core) / report.cores / busiest * (height - 16)
    level = y + height - 16 - mean
    canvas.line([(x, level), (x + width, level)], ACCENT, 1.2, 'stroke-dasharray="5 3"')
    canvas.line([(x, y + height - 16), (x + width, y + height - 16)], FAINT, 0.8)


def draw_traffic(canvas: Canvas, report: TrafficReport, x: float, y: float) -> None:
    """What moves and how often, as a short table."""
    total, (a_name, b_name), (a_note, b_note, c_note) = report.total, report.names, report.notes
    rows = (
        ("multiply-adds", f"{human(total.multiply_adds)}", f"{report.products_per_byte:.0f} per byte of global memory"),
        (f"GM to L1, {a_name}", f"{human(total.gm_to_a1)}B", a_note),
        (f"GM to L1, {b_name}", f"{human(total.gm_to_b1)}B", b_note),
        ("L1 to L0A, L0B", f"{human(total.a1_to_l0a + total.b1_to_l0b)}B", ""),
        ("L0C to GM", f"{human(total.l0c_to_gm)}B", c_note),
        ("tiles", str(total.tiles), f"{total.skipped_tiles} skipped, in {report.blocks} blocks"),
    )  # fmt: skip
    for number, (name, value, note) in enumerate(rows):
        top = y + 20 * number
        canvas.text(x, top, name, "label")
        canvas.text(x + 225, top, value, "label mono", "end")
        canvas.text(x + 240, top, note, "small faint")
