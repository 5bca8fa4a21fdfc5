"""A small SVG writer: shapes with tooltips, text, and the palette of the pictures."""

from __future__ import annotations

from xml.sax.saxutils import escape

INK, FAINT, PAPER, PANEL, ACCENT = "#1f2933", "#7b8794", "#ffffff", "#f5f7fa", "#c2410c"
STYLE = """
text { font-family: 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif; fill: #1f2933; }
.small { font-size: 11px; } .label { font-size: 12px; } .head { font-size: 15px; font-weight: 600; }
.tiny { font-size: 9.5px; } .title { font-size: 20px; font-weight: 600; } .faint { fill: #7b8794; }
.mono { font-family: Consolas, 'DejaVu Sans Mono', monospace; }
"""


def core_colour(core: int, order: float = 0.0) -> str:
    """The colour of a core: hues a golden angle apart, so neighbours differ; later tiles are darker."""
    hue = (205 + core * 137.508) % 360
    return f"hsl({hue:.0f}, 62%, {83 - 23 * order:.0f}%)"


class Canvas:
    """Collects shapes, in the order they are drawn."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, fill: str, stroke: str = "none",
             stroke_width: float = 1.0, tip: str = "", radius: float = 0.0) -> None:  # fmt: skip
        """A rectangle."""
        rounded = f' rx="{radius:g}"' if radius else ""
        self._shape(f'rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"{rounded}',
                    fill, stroke, stroke_width, tip)  # fmt: skip

    def polygon(self, points: list[tuple[float, float]], fill: str, stroke: str = "none", stroke_width: float = 1.0,
                tip: str = "") -> None:  # fmt: skip
        """A closed shape."""
        where = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self._shape(f'polygon points="{where}"', fill, stroke, stroke_width, tip)

    def line(self, points: list[tuple[float, float]], stroke: str, stroke_width: float = 1.0, extra: str = "") -> None:
        """An open line."""
        where = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self.parts.append(f'<polyline points="{where}" fill="none" stroke="{stroke}" stroke-width="{stroke_width:g}" '
                          f'stroke-linejoin="round" {extra}/>')  # fmt: skip

    def circle(self, x: float, y: float, radius: float, fill: str) -> None:
        """A dot."""
        self.parts.append(f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" fill="{fill}"/>')

    def text(self, x: float, y: float, words: str, kind: str = "label", anchor: str = "start", extra: str = "") -> None:
        """A line of text; `kind` is one or more classes of the style sheet."""
        self.parts.append(f'<text x="{x:.2f}" y="{y:.2f}" class="{kind}" text-anchor="{anchor}" {extra}>'
                          f"{escape(words)}</text>")  # fmt: skip

    def document(self, width: float, height: float) -> str:
        """The whole picture."""
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
                f'viewBox="0 0 {width:g} {height:g}">')  # fmt: skip
        patterns = (
            '<defs><pattern id="pad" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            '<rect width="5" height="5" fill="#e4e7eb"/><rect width="1.6" height="5" fill="#b4bcc6"/></pattern>'
            '<marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#1f2933"/></marker></defs>'
        )  # fmt: skip
        page = f'<rect width="{width:g}" height="{height:g}" fill="{PAPER}"/>'
        return "\n".join([head, f"<style>{STYLE}</style>", patterns, page, *self.parts, "</svg>"]) + "\n"

    def _shape(self, what: str, fill: str, stroke: str, stroke_width: float, tip: str) -> None:
        paint = f'fill="{fill}"' + (f' stroke="{stroke}" stroke-width="{stroke_width:g}"' if stroke != "none" else "")
        if tip:
            self.parts.append(f"<{what} {paint}><title>{escape(tip)}</title></{what.split()[0]}>")
        else:
            self.parts.append(f"<{what} {paint}/>")
