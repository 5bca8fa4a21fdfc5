"""The drawings every reader sees without opening a case: SVG, written from numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from convgrad.text.language import say

_RING = 2 * math.pi * 42


def ring(shares: Sequence[tuple[str, int]]) -> str:
    """A ring of outcomes, clockwise from the top; each part is a class for the style sheet."""
    total = sum(count for _, count in shares) or 1
    parts = ['<svg class="ring" viewBox="0 0 100 100" role="img" aria-label="outcomes">'
             '<circle class="track" cx="50" cy="50" r="42"/>']
    turned = 0.0
    for name, count in shares:
        if count:
            length = _RING * count / total
            parts.append(
                f'<circle class="{name}" cx="50" cy="50" r="42" stroke-dasharray="{length:.2f} {_RING - length:.2f}" '
                f'stroke-dashoffset="{_RING / 4 - turned:.2f}"/>'
            )
            turned += length
    return "".join(parts) + "</svg>"


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 150, 44, 18
_FLOOR, _TOP = -2.0, 3.0
"""Decades of ULP the plot shows; what lies outside sits on its edge."""


def _y(ulp: float) -> float:
    decade = _FLOOR if ulp <= 0 else min(max(math.log10(ulp), _FLOOR), _TOP)
    return round((_HEIGHT - _BOTTOM) * (1 - (decade - _FLOOR) / (_TOP - _FLOOR)) + 4, 1)


def ulp_plot(points: Sequence[tuple[int, str, float]]) -> str:
    """One dot per case: its place in the file, its mean ULP error on a logarithmic axis."""
    if not points:
        return ""
    last = max(index for index, _, _ in points) or 1
    label = say("mean ULP error of every case")
    lines = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">']
    for value, name in ((0.01, "≤0.01"), (0.25, "¼"), (1, "1"), (10, "10"), (100, "100"), (1e3, "≥1000")):
        y = _y(value)
        kind = "usual" if value == 0.25 else "grid"
        lines.append(f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - 4}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 3}" text-anchor="end">{name}</text>')
    for index, outcome, ulp in points:
        x = _LEFT + 8 + (_WIDTH - _LEFT - 20) * index / last
        lines.append(f'<a href="#c{index}"><circle class="{outcome}" cx="{x:.1f}" cy="{_y(ulp)}" r="3.2"/></a>')
    return "".join(lines) + "</svg>"
