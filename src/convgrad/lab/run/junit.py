"""Records as JUnit XML, the form build servers read: one test case per case, its outcome, time and reproducer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from convgrad.lab.run.case_run import ERROR, FAIL, PASS, REFUSED, Record
from convgrad.text.files import write_text
from convgrad.text.terminal import printable

_ELEMENTS = {FAIL: "failure", REFUSED: "failure", ERROR: "error"}


def write_junit(path: Path, name: str, records: Iterable[Record]) -> None:
    """The file, whole, in one step."""
    write_text(path, junit(name, records))


def junit(name: str, records: Iterable[Record]) -> str:
    """A refused case is a failure of type `refused`, one that could not be run an error."""
    cases, seconds, counts = [], 0.0, dict.fromkeys((PASS, FAIL, REFUSED, ERROR), 0)
    for r in records:
        counts[r["outcome"]] += 1
        seconds += r.get("seconds") or 0.0
        cases.append(_case(name, r))
    numbers = (
        f'tests="{len(cases)}" failures="{counts[FAIL] + counts[REFUSED]}" errors="{counts[ERROR]}" skipped="0" '
        f'time="{seconds:.6f}"'
    )
    suite = f"<testsuite name={_attribute(name)} {numbers}>\n" + "".join(cases) + "</testsuite>\n"
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites {numbers}>\n{suite}</testsuites>\n'


def _case(suite: str, r: Record) -> str:
    place = f"{suite}.{r['product']}"
    head = (f"<testcase classname={_attribute(place)} name={_attribute(r['name'])} "
            f'time="{r.get("seconds") or 0.0:.6f}"')  # fmt: skip
    if r["outcome"] == PASS:
        return f"  {head}/>\n"
    element = _ELEMENTS[r["outcome"]]
    said = (f"    <{element} type={_attribute(r['outcome'])} message={_attribute(r['message'])}>"
            f"{escape(printable(r['line']))}\n"
            f"reproduce: {escape(printable(r['reproduce']))}</{element}>\n")  # fmt: skip
    return f"  {head}>\n{said}  </testcase>\n"


def _attribute(text: str) -> str:
    """Text in quotes; XML holds no control characters."""
    return quoteattr(printable(text))
