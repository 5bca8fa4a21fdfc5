"""Pictures of the packed layouts: which channel lies in which cell of memory, block by block, pad lanes hatched."""

from __future__ import annotations

from convgrad.core import layouts
from convgrad.core.layouts import Shape

_CELL = 26
_HEAD = 54
_COLOURS = ("#dbeafe", "#fde7c7", "#d9f2df", "#f3d9f0")
_PAD = "#e5e5e5"
_TEXT = 'font-family="sans-serif" font-size="12" fill="#222"'


def _svg(width: int, height: int, title: str, body: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([head, f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
                      *body, "</svg>", ""])  # fmt: skip


def _cell(x: int, y: int, text: str, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="{colour}" stroke="#888"/>'
        f'<text x="{x + _CELL // 2}" y="{y + 17}" text-anchor="middle" {_TEXT}>{text}</text>'
    )


def _words(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" {_TEXT}>{text}</text>'


def ndc1hwc0() -> str:
    """docs/generated/format_ndc1hwc0.svg: 6 channels of a 1x2 image in blocks of 4 lanes."""
    shape: Shape = (1, 6, 1, 1, 2)
    c0, blocks = 4, 2
    body = [_words(10, 20, "NDC1HWC0 of N=1, C=6, D=1, H=1, W=2 with C0=4 (float16 has C0=16, float32 8):"),
            _words(10, 38, "memory from left to right; a cell shows its channel; grey: a pad lane, always 0")]
    for flat in range(blocks * 2 * c0):
        _, channel, _, _, w = layouts.element_ndc1hwc0(shape, c0, flat)
        x = 10 + flat * _CELL + flat // c0 * 8
        is_pad = channel >= shape[1]
        body.append(_cell(x, _HEAD, "0" if is_pad else f"c{channel}", _PAD if is_pad else _COLOURS[w]))
        if flat % c0 == 0:
            body.append(_words(x, _HEAD + 44, f"c1={flat // (2 * c0)}, w={w}"))
    return _svg(20 + blocks * 2 * (c0 * _CELL + 8), _HEAD + 56, "NDC1HWC0", body)


def fractal_z_3d() -> str:
    """docs/generated/format_fractal_z_3d.svg: the first block of a weight of 3 output and 5 input channels."""
    shape: Shape = (3, 5, 1, 1, 2)
    c0, n0 = 4, layouts.N0
    body = [_words(10, 20, "FRACTAL_Z_3D of Cout=3, Cin=5, Kd=1, Kh=1, Kw=2 with C0=4: (Kd C1 Kh Kw, N1, 16, C0)"),
            _words(10, 38, "a block: 16 output channels (rows) by C0 input channels; grey: pad lanes, always 0")]
    blocks = 2 * 2
    for flat in range(blocks * n0 * c0):
        co, ci, _, _, kw = layouts.element_fractal_z_3d(shape, c0, flat)
        block, inside = divmod(flat, n0 * c0)
        row, lane = divmod(inside, c0)
        if row >= 5:
            continue
        x, y = 10 + block * (c0 * _CELL + 24) + lane * _CELL, _HEAD + 10 + row * _CELL
        is_pad = co >= shape[0] or ci >= shape[1]
        body.append(_cell(x, y, "0" if is_pad else f"{co},{ci}", _PAD if is_pad else _COLOURS[kw]))
        if inside == 0:
            body.append(_words(x, _HEAD + 4, f"c1={block // 2}, kw={kw}"))
            body.append(_words(x, _HEAD + 158, "... rows 5 to 15: 0"))
    return _svg(20 + blocks * (c0 * _CELL + 24), _HEAD + 170, "FRACTAL_Z_3D", body)
