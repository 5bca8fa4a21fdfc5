"""The page: rows a browser shows at once, and the details of each case as data that a small script draws on demand.

Whatever comes from a case is escaped: in the rows as HTML, in the data as JSON without `<`; the script only ever
sets text. The page stays under one megabyte: cases that did not pass come first, and what no longer fits is said.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from convgrad import __version__
from convgrad.core import metrics, standards
from convgrad.core.standards import PassRule
from convgrad.lab.judging.anatomy import Anatomy
from convgrad.lab.judging.findings import METRIC_NAMES
from convgrad.lab.report import drawing
from convgrad.lab.run.case_run import OUTCOMES, PASS, Record
from convgrad.lab.run.tables import share_of_limit, worst_ulp
from convgrad.text.files import write_text
from convgrad.text.language import say
from convgrad.text.page_frame import in_language
from convgrad.text.page_style import page_style
from convgrad.text.terminal import jsonable

MOST_BYTES = 980_000
MOST_ROWS = 1500
_MOST_DOTS, _BYTES_PER_DOT = 600, 80
_TOLD_BY_METRICS = (PassRule.MIXED, PassRule.MEAN_AND_MAX, PassRule.CLOSE, PassRule.EVERY, PassRule.EXACT)
_HERE = Path(__file__).parent


def write_page(path: str | Path, title: str, head: Record, records: Iterable[Record]) -> None:
    """Writes the page whole, in one step."""
    write_text(path, page(title, head, records))


@dataclass(slots=True)
class Collected:
    """What a pass over the records leaves: counts of all of them, and the cases to show."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    ratios: list[float] = field(default_factory=list)
    """PyTorch's time over ours, where it was measured."""
    shown: list[Record] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.outcomes.values())


def collect(records: Iterable[Record]) -> Collected:
    """Counts every case and keeps as many as the page lists, those that did not pass first."""
    found = Collected()
    kept: dict[bool, list[Record]] = {True: [], False: []}
    for record in records:
        found.outcomes[record["outcome"]] += 1
        found.seconds += record.get("seconds") or 0.0
        if record.get("pytorch_seconds") and record.get("seconds"):
            found.ratios.append(record["pytorch_seconds"] / record["seconds"])
        side = kept[record["outcome"] == PASS]
        if len(side) < MOST_ROWS:
            side.append(record)
    found.shown = sorted([*kept[False], *kept[True]][:MOST_ROWS], key=lambda r: r["index"])
    return found


def page(title: str, head: Record, records: Iterable[Record]) -> str:
    """The whole text of the page."""
    found = collect(records)
    shown = found.shown
    settings = head.get("settings", {})
    names = settings.get("standards", [])
    details, left_out = _details(shown, names)
    points = [(r["index"], r["outcome"], worst(r, "mean_ulp")) for r in shown if r["results"]]
    constants = {
        "edges": metrics.ULP_EDGES, "metrics": METRIC_NAMES, "limits": _limits(names, shown),
        "standards": ",".join(names), "parts": [say(name) for name, _ in Anatomy(0, 0, 0, 1).parts],
        "words": _words(),
    }
    return Template(in_language((_HERE / "page.html").read_text("utf-8"))).substitute(
        title=escape(title), subtitle=escape(_subtitle(settings)), standards="".join(_standard(n) for n in names),
        ring=drawing.ring([(o, found.outcomes[o]) for o in OUTCOMES]),
        rate=_percent(found.outcomes[PASS], found.total), tiles=_tiles(found),
        plot=drawing.ulp_plot(points[:_MOST_DOTS]), measured="measured" if found.ratios else "unmeasured",
        notes=_notes(found.total - len(shown), left_out), rows="".join(_row(r) for r in shown),
        products=_options(r["product"] for r in shown),
        dtypes=_options(f["dtype"] for r in shown for f in r["results"]), details=details,
        constants=_script_json(constants), style=page_style(),
        script=(_HERE / "page.js").read_text("utf-8"),
    )


def _words() -> dict[str, str]:
    """What the script says, in the language chosen; nothing where that is what stands in it."""
    spoken = re.findall(r'\bsay\("([^"]+)"', (_HERE / "page.js").read_text("utf-8"))
    return {text: say(text) for text in spoken if say(text) != text}


def _notes(not_listed: int, without_details: int) -> str:
    notes = []
    if not_listed:
        notes.append(f"{not_listed} more cases are not listed here, passing ones first; the CSV table has them all.")
    if without_details:
        notes.append(f"{without_details} cases are listed without their details, to keep this page small.")
    return "".join(f'<p class="note">{escape(say(n))}</p>' for n in notes)


def _subtitle(settings: dict[str, Any]) -> str:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    engine, seed = say(f"{settings.get('engine', '')} engine"), say(f"seed {settings.get('seed', 0)}")
    return f"convgrad {__version__} · {engine} · {seed} · {now}"


def _percent(part: int, whole: int) -> str:
    if not whole:
        return "–"
    return "100 %" if part == whole else f"{min(100 * part / whole, 99.9):.1f} %"


def _tiles(found: Collected) -> str:
    tiles = [f'<button class="tile all" data-only=""><b>{found.total}</b><span>{say("cases")}</span></button>']
    for outcome in OUTCOMES:
        tiles.append(
            f'<button class="tile {outcome}" data-only="{outcome}"><b>{found.outcomes[outcome]}</b>'
            f"<span>{say(outcome)}</span></button>"
        )
    tiles.append(f'<div class="tile plain"><b>{_time(found.seconds)}</b><span>{say("computing")}</span></div>')
    if found.ratios:
        mean = math.exp(sum(map(math.log, found.ratios)) / len(found.ratios))
        said = f"as fast as PyTorch ({len(found.ratios)} measured)"
        tiles.append(f'<div class="tile plain"><b>{mean:.2f}×</b><span>{say(said)}</span></div>')
    return "".join(tiles)


def _standard(name: str) -> str:
    row = standards.find(name)
    rule = escape(say(row.rule.value))
    return f'<span class="chip" title="{rule}">{escape(row.name)} <i>{escape(row.date)}</i></span>'


def _options(names: Iterable[str]) -> str:
    return "".join(f'<option value="{escape(n)}">{escape(n)}</option>' for n in sorted(set(names)))


def worst(record: Record, metric: str) -> float:
    """The largest value of a metric over the results of a case."""
    return max((float(f["metrics"][metric]) for f in record["results"]), default=0.0)


def share(value: float) -> str:
    """A share in percent; a small one is not rounded away."""
    return "0" if value == 0 else f"{100 * value:.2g} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds / 60:.1f} min"


def _row(r: Record) -> str:
    judged = bool(r["results"])
    limit, ulp, over = share_of_limit(r), worst_ulp(r, "mean_ulp"), worst_ulp(r, "over_one_ulp")
    mare = worst(r, "mare")
    seconds, theirs = r.get("seconds"), r.get("pytorch_seconds")
    ratio = theirs / seconds if theirs and seconds else None
    dtype = r["results"][0]["dtype"] if judged else ""
    outcome = r["outcome"]
    cells = (
        f'<td class="o"><span class="badge {outcome}">{say(outcome)}</span></td>',
        f'<td class="n"><button class="open" aria-expanded="false">{escape(r["name"])}</button></td>',
        f'<td class="l"><code>{escape(r["line"])}</code></td>',
        f'<td class="num">{"–" if limit is None or limit == math.inf else share(limit)}</td>',
        f'<td class="num">{"–" if ulp is None else f"{ulp:.3g}"}</td>',
        f'<td class="num">{"–" if over is None else share(over)}</td>',
        f'<td class="num">{f"{mare:.1e}" if judged else "–"}</td>',
        f'<td class="num">{_time(seconds)}</td>',
        f'<td class="num">{ratio:.2f}</td>' if ratio else "",
    )
    found = {"g": limit, "u": ulp, "v": over, "m": mare if judged else None, "t": seconds or None, "r": ratio}
    numbers = ((key, value) for key, value in found.items() if value is not None)
    # JavaScript reads 1e999 as infinity.
    keys = " ".join(f'data-{key}="{value:.5g}"'.replace('"inf"', '"1e999"') for key, value in numbers)
    return (
        f'<tr class="case" id="c{r["index"]}" data-o="{outcome}" data-p="{escape(r["product"])}" '
        f'data-d="{escape(dtype)}" {keys}>{"".join(cells)}</tr>\n'
    )


# ---- details -----------------------------------------------------------------------------------------------


def _script_json(value: Any) -> str:
    """JSON that can stand inside a script element: `<` cannot end it, nor can a line separator break it."""
    text = json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _details(shown: list[Record], names: list[str]) -> tuple[str, int]:
    """The details of as many cases as fit, those that did not pass first; and how many were left out."""
    room = MOST_BYTES - sum(len(_row(r).encode()) for r in shown) - _BYTES_PER_DOT * min(len(shown), _MOST_DOTS)
    room -= sum(len((_HERE / name).read_bytes()) for name in ("page.html", "page.js")) + len(page_style()) + 10_000
    parts = []
    for r in sorted(shown, key=lambda r: (r["outcome"] == PASS, r["index"])):
        part = f'"{r["index"]}":{_script_json(_detail(r, names))}'
        room -= len(part.encode()) + 1
        if room < 0:
            break
        parts.append(part)
    return "{" + ",\n".join(parts) + "}", len(shown) - len(parts)


# Details are short on purpose: one letter per field, and nothing that the page already holds elsewhere.
def _detail(r: Record, names: list[str]) -> dict[str, Any]:
    # What the script can put together from the row, it does.
    usual = f"convgrad run '{r['line']}' --values {r['values']} --seed {r['seed']} --standard {','.join(names)}"
    again = {"z": r["seed"]} if r["reproduce"] == usual else {"x": r["reproduce"]}
    detail = {
        "m": say(r["message"]), "s": r["status"], "r": r["rule"], "a": [say(a) for a in r["advice"]],
        "v": r["values"], **again, "f": [_result(f) for f in r["results"]],
    }
    return {key: value for key, value in detail.items() if key == "z" or value not in ("", [], 0)}


def _short(value: Any, digits: int = 3) -> Any:
    """A number with few digits, whole ones as they are; words ("nan") stay words."""
    if isinstance(value, float) and math.isfinite(value):
        rounded = float(f"{value:.{digits}g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded
    return value


def _result(f: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "n": f["name"], "s": "×".join(map(str, f["shape"])), "d": f["dtype"],
        "k": _without_last_zeros([_short(f["metrics"][name]) for name in METRIC_NAMES]),
        "j": [_judged(j) for j in f["judged"]], "h": _without_last_zeros(f["histogram"]),
    }
    if f["precision"] != f["dtype"]:
        result["p"] = f["precision"]
    if f["worst"]:
        furthest = f["worst"][: 2 if f["passed"] else 5]
        result["w"] = [[",".join(map(str, i)), _short(a, 7), _short(g, 9), _short(u)] for i, a, g, u in furthest]
    if f["map"]:
        result["e"] = [f["map"]["channels"], "/".join(f["map"]["plane"])]
    if f["anatomy"]:
        result["t"] = [_short(value) for value in f["anatomy"].values()]
    return result


def _without_last_zeros(numbers: list[Any]) -> list[Any]:
    last = max((i for i, n in enumerate(numbers) if n != 0), default=-1)
    return numbers[: last + 1]


def _judged(j: dict[str, Any]) -> list[Any]:
    """Standard, verdict, and the numbers found where the metrics do not already tell them."""
    told = j["passed"] is True and standards.find(j["standard"]).rule in _TOLD_BY_METRICS
    return [j["standard"], j["passed"], *([] if told else [say(j["why"])])]


def _limits(names: list[str], shown: list[Record]) -> dict[str, dict[str, str]]:
    """Each standard's rule with the numbers of every precision on this page."""
    used = sorted({f["precision"] for r in shown for f in r["results"]})
    limits = {}
    for name in names:
        row = standards.find(name)
        limits[name] = {p: say(standards.find(dict(row.deferred).get(p, name)).says(p)) for p in used}
    return limits
