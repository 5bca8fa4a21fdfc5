"""Pages in the report's style, for a scan and for an impact: one file each, readable without a network."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from pathlib import Path

from convgrad import __version__
from convgrad.text.files import write_text
from convgrad.text.language import say
from convgrad.text.page_frame import card, page, table
from convgrad.torch.layer_impact import METRICS, Impact, shown
from convgrad.torch.scanning import Answer, Scan


def _page(title: str, subtitle: str, body: Iterable[str]) -> str:
    return page(title, f"convgrad {__version__} · {say(subtitle)}", body)


# ---- scan --------------------------------------------------------------------------------------------------


def scan_page(found: Scan) -> str:
    """The page of a scan."""
    subtitle = f"{len(found)} convolutions · backward calls judged on {', '.join(found.products)}"
    return _page(f"{found.model}: convolutions", subtitle, scan_body(found))


def scan_body(found: Scan) -> list[str]:
    """Tiles per product, the table of convolutions, and every refusal with its ways out."""
    tiles = []
    for product, counts in found.summary().items():
        answers = "".join(
            f'<div class="tile {word}"><b>{number}</b><span>{escape(say(f"{word} on {product}"))}</span></div>'
            for word, number in counts.items()
        )
        tiles.append(f'<div class="tiles">{answers}</div>')
    head = ("layer", "kind", "input", "weight", "output", "dtype", *(f"on {p}" for p in found.products), "problem line")
    return [
        f'<section class="summary products" aria-label="summary">{"".join(tiles)}</section>',
        card("Convolutions", "a dtype below a product: operands are rounded to it", table(head, _scan_rows(found))),
        *_refusals(found),
    ]


def _scan_rows(found: Scan) -> Iterable[str]:
    for row in found:
        cells = [f"<b>{escape(row.layer)}</b>", escape(row.kind)]
        cells += ["×".join(map(str, shape)) for shape in (row.input, row.weight, row.output)]
        cells.append(escape(row.dtype))
        for product in found.products:
            finding = row.findings.get(product)
            kind, text = ("none", "no gradient asked") if finding is None else (finding.answer.value, str(finding))
            reason = "" if finding is None else finding.verdict.message
            cells.append(f'<span class="badge {kind}" title="{escape(say(reason))}">{escape(say(text))}</span>')
        cells.append(f"<code>{escape(row.line)}</code>")
        line = cells.pop()
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}<td class=l>{line}</td></tr>"


def _refusals(found: Scan) -> Iterable[str]:
    for (product, rule), rows in found.refusals().items():
        finding = rows[0].findings[product]
        assert finding.answer is Answer.REFUSED
        layers = ", ".join(row.layer for row in rows)
        ways = "".join(
            f"<li>{escape(say(way.text))}" + (f"<br><code>{escape(way.line)}</code>" if way.line else "") + "</li>"
            for way in finding.ways_out
        )
        content = (
            f'<p class="said refused">{escape(say(finding.verdict.message))}'
            f"<small>{say('status')} {int(finding.verdict.status)}, {say('rule')} {escape(rule)}</small></p>"
            f"<p>{escape(layers)}</p><ul>{ways}</ul>"
            f'<div class="again"><pre>{escape(f"convgrad explain {finding.verdict.line!r}")}</pre></div>'
        )
        yield card(f"Refused on {product}", f"{len(rows)} of {len(found)}", content)


# ---- impact ------------------------------------------------------------------------------------------------

_TITLES = {
    "mere": ("Mean relative error (MERE)", "against float64"),
    "mare": ("Largest relative error (MARE)", "against float64"),
    "cosine": ("Cosine with the float64 gradient", "1 is the same direction"),
    "sign_flips": ("Sign flips", "share of elements pointing the other way"),
    "zeroed": ("Flushed to zero", "share of elements that should not be zero"),
}


def impact_page(found: Impact) -> str:
    """The page of an impact."""
    subtitle = "every mode gets the same operands; each row is what that layer alone does"
    return _page(f"{found.model}: what each dtype does to its gradients", subtitle, impact_body(found))


def impact_body(found: Impact) -> list[str]:
    """The update as a whole, then one table per metric, shaded by how far off a cell is."""
    updates = [
        f"<tr><td><b>{escape(u.mode)}</b></td>{_cell('change', u.change)}"
        + "".join(_cell(m, getattr(u.difference, m)) for m in METRICS) + "</tr>"
        for u in found.updates
    ]
    body = [
        card("The parameter update as a whole", "all parameter gradients together; errors travel from layer to layer",
              table(("mode", "change", *METRICS), updates, numbers_from=1)),
    ]  # fmt: skip
    for metric, (title, remark) in _TITLES.items():
        rows = (
            f"<tr><td><b>{escape(layer)}</b></td><td>{escape(gradient)}</td>"
            + "".join(_cell(metric, getattr(by_mode[m], metric)) for m in found.modes) + "</tr>"
            for (layer, gradient), by_mode in found.by_gradient()
        )
        body.append(card(title, remark, table(("layer", "gradient", *found.modes), rows, numbers_from=2)))
    return body


def _cell(metric: str, value: float) -> str:
    share = round(100 * _severity(metric, value))
    colours = f"background:color-mix(in oklab, var(--fail) {share // 2}%, transparent)" if share else ""
    return f'<td class="heat" style="{colours}">{escape(shown(metric, value))}</td>'


def _severity(metric: str, value: float) -> float:
    """0 for float32's own noise, 1 for a useless gradient; decades in between."""
    if math.isnan(value):
        return 1.0
    off = 1 - value if metric == "cosine" else value
    floor = {"cosine": 1e-10, "sign_flips": 1e-5, "zeroed": 1e-5}.get(metric, 1e-6)
    return min(max(math.log(max(off, floor) / floor) / math.log(1 / floor), 0.0), 1.0)


def write_page(path: str | Path, found: Scan | Impact) -> None:
    """Writes the page of a scan or an impact whole, in one step."""
    write_text(path, scan_page(found) if isinstance(found, Scan) else impact_page(found))
