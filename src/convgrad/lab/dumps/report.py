"""What is told about a dump: a table, a page, and the table of the dump tool's own comparison.

Our own columns stand at its end.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from convgrad.lab.dumps.judging import STATISTICS_ONLY, Answer, Gradient, Layer, summary
from convgrad.lab.dumps.reading import DumpedTensor
from convgrad.lab.dumps.tool_table import COLUMNS, ERROR, PASS, StatisticsRow
from convgrad.text.language import said_of, say
from convgrad.text.page_frame import card, page, table
from convgrad.text.spreadsheet import quoted

_STAGES = ("operand rounding", "accumulation", "result rounding", "unexplained")
EXTRA = ("Layer", "Product", "Standard", "Cause", "Operand rounding", "Accumulation", "Result rounding", "Unexplained")


def csv_text(layers: Sequence[Layer], product: str) -> str:
    """The tool's table of every gradient with values on both sides; of statistics or checksums where those are all."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    rows = [(layer, row) for layer in layers for row in layer.statistics]
    if rows and not any(layer.gradients for layer in layers):
        form = "md5" if any(row.tensor.crc or row.other.crc for _, row in rows) else "statistics"
        writer.writerow((*COLUMNS[form], EXTRA[0]))
        for layer, row in rows:
            faults = list(row.message)
            told = (*_names(layer, row), *row.cells, *_told(row.tensor, row.other, row.result, faults))
            writer.writerow(_quoted((*told, layer.entry.layer)))
        return out.getvalue()
    writer.writerow((*COLUMNS["tensor"], *EXTRA))
    for layer in layers:
        for gradient in layer.gradients:
            writer.writerow(_quoted((*_compared(layer, gradient), *_ours(layer, gradient, product))))
    return out.getvalue()


def _quoted(row: Sequence[Any]) -> list[Any]:
    return [quoted(v) if isinstance(v, str) else v for v in row]


def _names(layer: Layer, g: Gradient | StatisticsRow) -> Iterator[Any]:
    """The tool's first eight columns."""
    name = f"{layer.entry.name}.backward.output.{g.place}"
    sides = (g.tensor, g.other or g.tensor)
    yield from (name, name, *(f"torch.{t.dtype}" for t in sides), *(str(list(t.shape)) for t in sides))
    yield from (t.requires_grad for t in sides)


def _told(tensor: DumpedTensor, other: DumpedTensor, result: str, message: list[str]) -> tuple[Any, ...]:
    return tensor.requires_grad == other.requires_grad, result, str(message), "N/A"


def _compared(layer: Layer, g: Gradient) -> Iterator[Any]:
    yield from (*_names(layer, g), *g.differences.cells)
    other = g.other or g.tensor
    failing = [j.why for j in g.findings.judged if j.passed is False]
    message = ["infinities or NaNs in the dumped tensor only"] if g.differences.broken else failing
    message += [f"{what} differs" for what, same in (
        ("dtype", g.tensor.dtype == other.dtype), ("requires_grad", g.tensor.requires_grad == other.requires_grad),
    ) if not same]  # fmt: skip
    yield from _told(g.tensor, other, ERROR if message else PASS, message)
    yield str([g.tensor.name, g.other.name if g.other else "-1"])


def _ours(layer: Layer, g: Gradient, product: str) -> Iterator[Any]:
    standards = ", ".join(f"{j.standard} ({j.date})" for j in g.findings.judged)
    yield from (layer.entry.layer, product, standards, g.cause)
    parts = {} if g.findings.anatomy is None else dict(g.findings.anatomy.parts)
    yield from (parts.get(n, 0.0) for n in _STAGES)


def text(layers: Sequence[Layer]) -> str:
    """Per call: its layer and name, what products answer, the verdict, its line; each fits a terminal."""
    lines = []
    for x in layers:
        named = x.entry.layer != x.entry.name
        lines.append(f"{x.entry.layer}  {x.entry.name}" if named else x.entry.name)
        if x.line:
            lines.append(f"  {x.line}")
        if x.answers:
            lines.append("  " + ", ".join(_said(a) for a in x.answers))
        lines.append("  " + said_of(say("gradients"), _verdict(x)) if x.line else f"  {say(x.remark)}")
    return "\n".join(lines)


def _said(answer: Answer) -> str:
    """`A2 lowered (hf32)`, and the rule of a refusal."""
    more = answer.computed_in if answer.word == "lowered" else answer.rule
    return f"{answer.product} {say(answer.word)}" + (f" ({more})" if more else "")


def _verdict(layer: Layer) -> str:
    if layer.statistics:
        faults = [said_of(row.name, say(row.message[0])) for row in layer.statistics if row.message]
        word = "pass" if layer.passed else "FAIL"
        return f"{say(word)} ({say(STATISTICS_ONLY)})" + ("  " + ", ".join(faults) if faults else "")
    if not layer.gradients:
        return say(layer.remark) or "–"
    failing = [said_of(g.name, say(g.cause or "differs")) for g in layer.gradients if not g.findings.passed]
    if failing:
        return f"{say('FAIL')} " + ", ".join(failing)
    causes = ", ".join(dict.fromkeys(say(g.cause) for g in layer.gradients if g.cause))
    return say("pass") + (f" ({causes})" if causes else "")


def html(title: str, layers: Sequence[Layer], product: str) -> str:
    """One page: counts, the table of calls, each refusal, each gradient with where its error comes from."""
    counts = summary(layers)
    compared = any(g.other is not None for x in layers for g in x.gradients)
    tiles = [f'<div class="tile"><b>{counts["calls"]}</b><span>{say("convolution calls")}</span></div>']
    if counts["gradients"]:
        failing = counts["gradients"] - counts["passed"]
        tiles.append(f'<div class="tile accepted"><b>{counts["passed"]}</b><span>{say("gradients pass")}</span></div>')
        word = say("gradients fail" if compared else "not explained")
        tiles.append(f'<div class="tile fail"><b>{failing}</b><span>{word}</span></div>')
    rows_of_tiles = [f'<div class="tiles">{"".join(tiles)}</div>']
    for name, answers in counts["answers"].items():
        each = "".join(
            f'<div class="tile {word}"><b>{n}</b><span>{escape(say(f"{word} on {name}"))}</span></div>'
            for word, n in answers.items()
        )
        rows_of_tiles.append(f'<div class="tiles">{each}</div>')
    body = [f'<section class="summary products" aria-label="summary">{"".join(rows_of_tiles)}</section>']
    body.append(card("Calls", "in order of execution", table(("layer", "call", "answers", "gradients", "line"), (
        f"<tr><td><b>{escape(x.entry.layer)}</b></td><td>{_call(x)}</td><td>{_badges(x)}</td>"
        f"<td>{escape(_verdict(x))}</td><td class=l><code>{escape(x.line or say(x.remark))}</code></td></tr>"
        for x in layers
    ))))
    if counts["gradients"]:
        head = ("layer", "gradient", "verdict", *(() if compared else ("cause",)), "max abs", "max ULP",
                *(() if compared else _STAGES))  # fmt: skip
        rows = (_gradient_row(x, g) for x in layers for g in x.gradients)
        remark = "beside those of the other dump" if compared else (
            f"recomputed on {product}; the last four are root mean squares of what each stage adds")
        body.append(card("Gradients", remark, table(head, rows, numbers_from=3 if compared else 4)))
    return page(title, f"{counts['calls']} calls, {counts['gradients']} gradients", body)


def _call(layer: Layer) -> str:
    """Its entry, where that is not the layer's name already."""
    return "" if layer.entry.layer == layer.entry.name else escape(layer.entry.name)


def _badges(layer: Layer) -> str:
    return " ".join(
        f'<span class="badge {a.word}" title="{escape(say(a.message))}">{escape(a.product)} {say(a.word)}</span>'
        for a in layer.answers
    )


def _gradient_row(layer: Layer, g: Gradient) -> str:
    m = g.findings.metrics
    parts = {} if g.findings.anatomy is None else dict(g.findings.anatomy.parts)
    numbers = (m.max_abs, m.max_ulp, *(parts.get(n, 0.0) for n in _STAGES if g.other is None))
    cause = f"<td>{escape(say(g.cause) or '–')}</td>" if g.other is None else ""
    word = "pass" if g.findings.passed else "fail"
    cells = "".join(f'<td class="heat">{value:.3g}</td>' for value in numbers)
    return (
        f"<tr><td><b>{escape(layer.entry.layer)}</b></td><td>{g.name}</td>"
        f'<td><span class="badge {word}">{say(word)}</span></td>{cause}{cells}</tr>'
    )
