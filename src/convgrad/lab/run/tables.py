"""Records as a table: CSV, a workbook, and a few aligned lines on the terminal. One row per result of a case."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

from convgrad.core.request import Request
from convgrad.lab.judging.findings import METRIC_NAMES
from convgrad.lab.run.case_run import Record
from convgrad.text import terminal
from convgrad.text.files import output_file, write_bytes
from convgrad.text.language import say
from convgrad.text.spreadsheet import quoted
from convgrad.text.terminal import UsageError, printable

Cell = str | int | float | None
NEEDS_OPENPYXL = "--xlsx needs openpyxl: pip install 'convgrad[report]'"

_CASE_COLUMNS = ("index", "name", "product", "outcome", "status", "rule", "line", "values", "seed")
_LAST_COLUMNS = ("milliseconds", "pytorch_milliseconds", "message", "reproduce")
COLUMNS = (*_CASE_COLUMNS, "result", "dtype", "precision", "verdicts", *METRIC_NAMES, *_LAST_COLUMNS)


def rows(record: Record) -> Iterator[list[Cell]]:
    """The rows of one case, in `COLUMNS`; a case without results has one."""
    first: list[Cell] = [record.get(name) for name in _CASE_COLUMNS]
    last: list[Cell] = [
        _milliseconds(record.get("seconds")), _milliseconds(record.get("pytorch_seconds")), record["message"],
        record["reproduce"],
    ]
    for found in record["results"] or [None]:
        if found is None:
            yield [*first, *[None] * (4 + len(METRIC_NAMES)), *last]
            continue
        metrics: list[Cell] = [found["metrics"][name] for name in METRIC_NAMES]
        verdicts = "; ".join(f"{j['standard']} {word(j['passed'])}" for j in found["judged"])
        yield [*first, found["name"], found["dtype"], found["precision"], verdicts, *metrics, *last]


def word(passed: bool | None) -> str:
    """A verdict in one word."""
    return {True: "pass", False: "fail", None: "not judged"}[passed]


def _milliseconds(seconds: Any) -> float | None:
    return None if seconds is None else round(1000 * float(seconds), 4)


def write_csv(path: Path, records: Iterable[Record]) -> None:
    """A CSV file; text that begins like a formula is quoted."""
    with output_file(path) as file:
        out = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for record in records:
            writer.writerows([quoted(c) if isinstance(c, str) else c for c in row] for row in rows(record))
        out.detach()  # written out, not closed


def write_xlsx(path: Path, records: Iterable[Record]) -> None:
    """A workbook; every text cell is text, whatever it begins with."""
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.styles import Font, PatternFill
    except ImportError:
        raise UsageError(NEEDS_OPENPYXL) from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("cases")
    sheet.freeze_panes = "C2"
    bold = Font(bold=True)
    fills = {
        outcome: PatternFill("solid", fgColor=colour)
        for outcome, colour in (("pass", "D5F0DC"), ("fail", "F8D2CF"), ("refused", "FBE7C2"), ("error", "E7D4F5"))
    }

    def cell(value: Cell) -> Any:
        made = WriteOnlyCell(sheet, _cell_text(value) if isinstance(value, str) else value)
        if isinstance(value, str):
            made.data_type = "s"
            made.quotePrefix = True
        return made

    head = [cell(name) for name in COLUMNS]
    for made in head:
        made.font = bold
    sheet.append(head)
    place = COLUMNS.index("outcome")
    for record in records:
        for row in rows(record):
            cells = [cell(value) for value in row]
            cells[place].fill = fills[record["outcome"]]
            sheet.append(cells)
    packed = io.BytesIO()  # a zip archive that cannot be finished complains for long
    book.save(packed)
    write_bytes(path, packed.getvalue())


def _cell_text(text: str) -> str:
    """A workbook holds no control characters and at most 32,767 characters in a cell."""
    return printable(text)[:32_000]


def summary_table(records: Sequence[Record]) -> str:
    """A line per case for people: outcome, name, how far off, how fast, and what was asked or why it did not pass.

    The last only where there is room for it.
    """
    head = ["", "case", "of limit", "mean ULP", ">1 ULP", "time", *([""] if has_room() else [])]
    body = []
    for r in records:
        mean, over = (worst_ulp(r, name) for name in ("mean_ulp", "over_one_ulp"))
        used = share_of_limit(r)
        unnamed = r["line"] == _line_of(r["name"])
        told = say(r["message"]) if r["outcome"] != "pass" else "" if unnamed else r["line"]
        body.append([
            say(r["outcome"]), r["name"] if unnamed else shortened(r["name"], 34),
            "–" if used is None or used == inf else f"{100 * used:.2g} %", "–" if mean is None else f"{mean:.3g}",
            "–" if over is None else f"{100 * over:.2g} %",
            "–" if r.get("seconds") is None else f"{1000 * r['seconds']:.1f} ms",
            *([told] if has_room() else []),
        ])
    colours = {say(outcome): colour for outcome, colour in _OUTCOME_COLOURS.items()}
    return terminal.table(head, body, right=(2, 3, 4, 5), colours=colours)


_WIDE = ("float32", "float64")


def worst_ulp(record: Record, metric: str) -> float | None:
    """A metric in ULP, the worst of the gradients; `None` where none is of a narrow dtype.

    Sums in float32 are many ULP off in any order and the standards count otherwise: `share_of_limit` says how good
    they are.
    """
    # Infinities and NaN are words in JSON, which float() reads.
    return max((float(f["metrics"][metric]) for f in record["results"] if f["dtype"] not in _WIDE), default=None)


def share_of_limit(record: Record) -> float | None:
    """How much of what its standards allow the worst gradient takes; `None` where no standard has a share."""
    used = (float(j["used"]) for f in record["results"] for j in f["judged"] if j.get("used") is not None)
    return max(used, default=None)


_ROOM_FOR_LINES = 110
"""Columns from which on the line of a case, or why it did not pass, stands beside its numbers."""


def has_room() -> bool:
    """Whether the table has its last column."""
    width = terminal.columns()
    return width is None or width >= _ROOM_FOR_LINES
_OUTCOME_COLOURS = {"pass": "green", "fail": "red", "refused": "yellow", "error": "red"}


def _line_of(name: str) -> str:
    """The line a case's name is, where it has no other."""
    try:
        return str(Request.parse(name))
    except ValueError:
        return ""


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
