"""The pictures of the README: time and memory of a call beside PyTorch and JAX, from the recorded runs.

A family is what stands under one heading of benchmarks/problems/networks.txt; a dot is the geometric mean over its
layers (time) or their largest figure (memory). Colours follow the reader's light or dark theme.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 760, 250, 34, 40, 74
_STYLE = """<style>
text { font: 13px system-ui, "Noto Sans CJK SC", sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .small { font-size: 11px; fill: #59636e } .mid { text-anchor: middle }
line { stroke: #d1d9e0 } .we { fill: #1a7f37; stroke: #1a7f37 } .a { fill: #bc4c00 } .b { fill: #8250df }
svg { background: #fff }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117 }
text { fill: #e6edf3 } .small { fill: #9198a1 } line { stroke: #3d444d } .we { fill: #3fb950; stroke: #3fb950 }
.a { fill: #f0883e } .b { fill: #bc8cff } }
</style>"""


@dataclass(frozen=True, slots=True)
class Dots:
    """One stack's figures, a value per family or None."""

    name: str
    style: str
    values: Sequence[float | None]


def families(problems: str) -> dict[str, list[str]]:
    """Headings of a file of problem lines and the lines under each."""
    found: dict[str, list[str]] = {}
    heading = ""
    for text in problems.splitlines():
        line = text.partition("#")[0].strip()
        if text.startswith("#"):
            heading = text.lstrip("# ").partition(":")[0]
        elif line:
            found.setdefault(heading, []).append(line)
    return found


def speed_picture(benchmarks: Path) -> str:
    """How many times as long PyTorch and JAX take."""
    groups = families((benchmarks / "problems/networks.txt").read_text("utf-8"))
    rows = [row for row in _rows(benchmarks / "recorded.jsonl") if _counts(row)]
    by_line = {row["line"]: row for row in rows}

    def slower(stack: str) -> list[float | None]:
        means: list[float | None] = []
        for lines in groups.values():
            ratios = [by_line[n][stack] / by_line[n]["ms"] for n in lines if n in by_line and by_line[n].get(stack)]
            means.append(_mean(ratios) if ratios else None)
        return means

    first = rows[0]
    jax = next((row["jax"] for row in rows if "jax" in row), "")
    return _picture(
        "Time of all gradients in float32; convgrad = 1, further right is slower",
        f"Geometric means. {first['isa']}, {first['threads']} threads, PyTorch {first['torch']}, JAX {jax} (no dot: "
        "not asked). Recorded by `make bench`.",
        list(groups), (Dots("PyTorch", "a", slower("pytorch_ms")), Dots("JAX", "b", slower("jax_ms"))),
        (1, 3, 10, 30, 100),
        lambda value: f"{value:.1f}×" if value < 100 else f"{value:.0f}×", our_line="convgrad",
    )  # fmt: skip


def fast_picture(benchmarks: Path) -> str:
    """How many times as long the direct paths, PyTorch and JAX take as algorithm="fast"."""
    groups = families((benchmarks / "problems/fast.txt").read_text("utf-8"))
    rows = [row for row in _rows(benchmarks / "fast.jsonl") if _counts(row)]
    by_line = {row["line"]: row for row in rows}

    def slower(share: Callable[[Row], float | None]) -> list[float | None]:
        found = [[ratio for n in lines if (ratio := share(by_line[n]))] for lines in groups.values()]
        return [_mean(ratios) if ratios else None for ratios in found]

    first = rows[0]
    return _picture(
        'Time of all gradients in float32 with fewer multiplications; algorithm="fast" = 1',
        f"Geometric means. {first['isa']}, {first['threads']} threads, PyTorch {first['torch']}, JAX "
        f"{first.get('jax', '')}. Recorded by `make bench-fast`.",
        list(groups),
        (Dots("direct", "we", slower(lambda row: row["direct_ratio"])), Dots("PyTorch", "a", slower(_to_pytorch)),
         Dots("JAX", "b", slower(_to_jax))),
        (1, 2, 4, 8, 16, 32), lambda value: f"{value:.1f}×", our_line="fast",
    )  # fmt: skip


def fast_page(benchmarks: Path) -> str:
    """The same as a table, for each layer and gradient; other dtypes and a held instruction set as means."""
    rows = _rows(benchmarks / "fast.jsonl")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["isa"], row["dtype"]), []).append(row)
    first = rows[0]
    lines = [
        "# Fewer multiplications, recorded",
        "",
        f"Times of the same call, medians of {first['rounds']} interleaved rounds, by that of `algorithm=\"fast\"`: "
        f"{first['isa']},",
        f"{first['threads']} threads, PyTorch {first['torch']}, JAX {first.get('jax', 'not installed')}, float32. "
        "`make bench-fast` records it anew.",
        "",
        "| problem | gradients | paths | ms | direct | PyTorch | JAX |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in groups[first["isa"], first["dtype"]]:
        problem = row["line"].replace(" s1 p1 d1 g1 fp32 alg=fast", "")
        paths = ", ".join(path for path in row["paths"] if path != "line sums")
        jax = _to_jax(row)
        lines.append(f"| `{problem}` | {row['want']} | {paths} | {row['ms']:.2f} | {row['direct_ratio']:.2f} | "
                     f"{_to_pytorch(row):.2f} | {'' if jax is None else f'{jax:.2f}'} |")  # fmt: skip
    lines += [
        "",
        "Geometric means, and the least layer in brackets; an empty column was not timed. PyTorch is held to the same",
        "instruction set.",
        "",
        "| instruction set | dtype | layers | gradients | direct | PyTorch |",
        "|---|---|---|---|---|---|",
    ]
    for (isa, dtype), group in groups.items():
        for layers, video in (("3x3 of ResNet-50, VGG-16, U-Net", False), ("3x3x3, video", True)):
            for want in ("input", "weight+bias", "all"):
                some = [row for row in group if row["want"] == want and ("k3x3x3" in row["line"]) == video]
                direct = _mean_and_least([row["direct_ratio"] for row in some])
                pytorch = _mean_and_least([row["ratio"] for row in some if row["ratio"] is not None])
                if some:
                    lines.append(f"| {isa} | {dtype} | {layers} | {want} | {direct} | {pytorch} |")
    return "\n".join(lines) + "\n"


def _mean_and_least(ratios: Sequence[float]) -> str:
    return f"{_mean(ratios):.2f} ({min(ratios):.2f})" if ratios else ""


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _to_pytorch(row: Row) -> float:
    return float(row["ratio"])


def _to_jax(row: Row) -> float | None:
    return row["jax_ms"] / row["ms"] if row.get("jax_ms") else None


def memory_picture(benchmarks: Path) -> str:
    """Memory besides operands and gradients."""
    groups = families((benchmarks / "problems/networks.txt").read_text("utf-8"))
    rows = _rows(benchmarks / "memory.jsonl")
    extra = {row["line"]: row["extra_bytes"] for row in rows}
    del groups[next(name for name in groups if name.startswith("Tiny"))]

    def largest(stack: str) -> list[float | None]:
        return [max(extra[line][stack] for line in lines) / 2**20 for lines in groups.values()]

    return _picture(
        "Memory of a call besides its operands and gradients, in MiB",
        f"Largest layer of each family, first call of a process, float32, PyTorch {rows[0]['torch']}. "
        "Recorded by benchmarks/memory.py.",
        list(groups), (Dots("convgrad", "we", largest("convgrad")), Dots("PyTorch", "a", largest("PyTorch"))),
        (0.5, 1, 3, 10, 30, 100), lambda value: f"{value:.1f}" if value < 10 else f"{value:.0f}", our_line="",
    )  # fmt: skip


def _rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _counts(row: Row) -> bool:
    """Float32 in the usual layout and batch, all gradients, every stack with the instructions it chooses."""
    return (
        row["dtype"] == "fp32" and row["want"] == "all" and row["held"] is None
        and not row["channels_last"] and row["batch"] == 1
    )  # fmt: skip


def _picture(
    title: str, note: str, names: Sequence[str], stacks: Sequence[Dots], ticks: Sequence[float], said: Any, *,
    our_line: str,
) -> str:  # fmt: skip
    """Dots on a logarithmic axis, a row per family."""
    low, high = math.log(ticks[0] * 0.8), math.log(ticks[-1] * 1.6)

    def x(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log(max(value, ticks[0] * 0.85)) - low) / (high - low)

    bottom = _TOP + _ROW * len(names)
    parts = [f'<text class="title" x="12" y="24">{escape(title)}</text>']
    at = _LEFT
    for dots in stacks:
        parts.append(f'<circle class="{dots.style}" cx="{at}" cy="44" r="5"/>')
        parts.append(f'<text x="{at + 10}" y="48">{dots.name}</text>')
        at += 110
    for tick in ticks:
        mark = ' class="we"' if our_line and tick == 1 else ""
        parts.append(f'<line{mark} x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="small mid" x="{x(tick):.1f}" y="{bottom + 16}">{tick:g}</text>')
    if our_line:
        parts.append(f'<text class="small mid" x="{x(1):.1f}" y="{_TOP - 14}">{our_line}</text>')
    for i, name in enumerate(names):
        y = _TOP + _ROW * i + _ROW / 2
        parts.append(f'<text x="12" y="{y + 4:.1f}">{escape(name)}</text>')
        for dots, label in zip(stacks, (y - 8, y + 17, y - 8), strict=False):  # above and below: dots may be close
            value = dots.values[i]
            if value is not None:
                parts.append(f'<circle class="{dots.style}" cx="{x(value):.1f}" cy="{y:.1f}" r="5"/>')
                parts.append(f'<text class="small mid" x="{x(value):.1f}" y="{label:.1f}">{said(value)}</text>')
    parts.append(f'<text class="small" x="12" y="{bottom + 36}">{escape(note)}</text>')
    box = f"0 0 {_WIDTH} {bottom + 46}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, _STYLE, *parts, "</svg>"]) + "\n"
