"""Reading and writing files of cases in any of the four forms; which one is told by the file itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from convgrad.lab.cases import atk, own, ttk
from convgrad.lab.cases.case import Case, CaseFileError, make
from convgrad.lab.cases.reading import shown, text_from, text_of
from convgrad.text.files import write_text
from convgrad.text.terminal import UsageError

FORMS = ("json", "lines", "atk", "ttk")
"""Our JSON, our problem lines, and the two test kits' files."""

_WRITERS: dict[str, Callable[[str, Sequence[Case]], str]] = {
    "json": lambda path, cases: own.write_json(cases),
    "lines": lambda path, cases: own.write_lines(cases),
    "atk": atk.write,
    "ttk": ttk.write,
}


def read(source: str | Path) -> list[Case]:
    """Cases of a file, of standard input (`-`), or of one problem line given in place of a file."""
    path = str(source)
    if path == "-":
        return _read_text("standard input", text_from("standard input", sys.stdin.buffer), "")
    if path.split(" ")[0] in ("conv", "tconv", "tbc"):
        try:
            return [make(path, path)]
        except ValueError as error:
            raise UsageError(str(error)) from None
    return _read_text(path, text_of(path), Path(path).suffix.lower())


def _read_text(path: str, content: str, suffix: str) -> list[Case]:
    start = content.lstrip()[:1]
    if suffix == ".csv":
        return ttk.read(path, content)
    if suffix == ".json" or start in ("{", "["):
        document = own.parse_json(path, content)
        if isinstance(document, list):
            return atk.read(path, document)
        if isinstance(document, dict):
            return own.read_json(path, document)
        raise CaseFileError(path, f"must hold an object or a list of cases, not {shown(document)}")
    if not suffix and content.startswith("testcase_name,"):
        return ttk.read(path, content)
    return own.read_lines(path, content)


def form_of(path: str | Path, asked: str | None = None) -> str:
    """The form to write: the one asked for, else by the file's name."""
    if asked:
        return asked
    return {".csv": "ttk", ".json": "json"}.get(Path(path).suffix.lower(), "lines")


def as_text(path: str | Path, cases: Sequence[Case], form: str) -> str:
    """The whole text of a file of cases."""
    try:
        written = _WRITERS[form](str(path), cases)
        written.encode()
    except UnicodeEncodeError:
        raise CaseFileError(str(path), "a case holds text that is not valid Unicode") from None
    except RecursionError:
        raise CaseFileError(str(path), "a case holds data that is nested too deeply") from None
    return written


def write(path: str | Path, cases: Sequence[Case], form: str | None = None) -> None:
    """Writes all of it or nothing: an existing file is replaced only by a complete one."""
    write_text(path, as_text(path, cases, form_of(path, form)))
