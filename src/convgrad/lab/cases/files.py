"""Reading and writing files of cases in any of the forms below; which one is told by the file itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from convgrad.lab.cases import atk, benchdnn, own, ttk, workbook
from convgrad.lab.cases.case import Case, CaseFileError, make
from convgrad.lab.cases.reading import shown, text_from, text_of
from convgrad.text.files import write_bytes, write_text
from convgrad.text.terminal import UsageError


def _read_json(path: str, content: str) -> list[Case]:
    """An object is ours, a list is the kit's; nothing at all is no case, as in the other forms."""
    if not content.strip():
        return []
    document = own.parse_json(path, content)
    if isinstance(document, list):
        return atk.read(path, document)
    if isinstance(document, dict):
        return own.read_json(path, document)
    raise CaseFileError(path, f"must hold an object or a list of cases, not {shown(document)}")


@dataclass(frozen=True, slots=True)
class Form:
    """One row: a form of case files, how a file of it is told, read and written."""

    name: str
    suffix: str
    """Files of this name are written in it unless another is asked for."""
    recognised: Callable[[str, str], bool]
    """Whether a file of this suffix and content is read so; the first row that says yes reads it."""
    read: Callable[[str, str], list[Case]]
    write: Callable[[str, Sequence[Case]], str]


ROWS = (
    Form("ttk", ".csv", lambda suffix, text: suffix == ".csv" or (not suffix and text.startswith("testcase_name,")),
         ttk.read, ttk.write),
    Form("json", ".json", lambda suffix, text: suffix == ".json" or text.lstrip()[:1] in ("{", "["),
         _read_json, lambda path, cases: own.write_json(cases)),
    Form("atk", "", lambda suffix, text: False, _read_json, atk.write),
    Form("benchdnn", "", lambda suffix, text: benchdnn.looks_like(text), benchdnn.read, benchdnn.write),
    Form("lines", "", lambda suffix, text: True, own.read_lines, lambda path, cases: own.write_lines(cases)),
)  # fmt: skip
"""The test kits' tables, our JSON, the other kit's JSON (a list where ours is an object), oneDNN's, our problem lines.

A workbook is bytes, not text: a kit's table in another shell."""

_BY_NAME = {row.name: row for row in ROWS}
FORMS = ("json", "lines", "atk", "ttk", "xlsx")
"""As help texts name those that are written."""


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
    suffix = Path(path).suffix.lower()
    if suffix in workbook.SUFFIXES:
        return ttk.read(path, workbook.as_csv(path))
    if suffix == ".zip":
        return [case for name, content in workbook.members(path) for case in ttk.read(name, content)]
    return _read_text(path, text_of(path), suffix)


def read_some(source: str | Path) -> list[Case]:
    """As `read`; a file without cases is a mistake of who named it."""
    found = read(source)
    if not found:
        raise UsageError(f"{source}: no cases in it")
    return found


def _read_text(path: str, content: str, suffix: str) -> list[Case]:
    return next(row for row in ROWS if row.recognised(suffix, content)).read(path, content)


def form_of(path: str | Path, asked: str | None = None) -> str:
    """The form to write: the one asked for, else by the file's name."""
    if asked:
        return asked
    suffix = Path(path).suffix.lower()
    if suffix == ".xlsx":
        return "xlsx"
    if suffix in ("", ".txt", ".lines"):
        return "lines"
    try:
        return next(row.name for row in ROWS if row.suffix == suffix)
    except StopIteration:
        raise UsageError(
            f"{path}: cases are written as .json, .csv, .xlsx or .txt, not {suffix}; "
            f"--to {'|'.join(FORMS)} says what it shall hold"
        ) from None


def as_text(path: str | Path, cases: Sequence[Case], form: str) -> str:
    """The whole text of a file of cases."""
    if form == "xlsx":
        raise UsageError("a workbook is no text: name a file with -o")
    try:
        written = _BY_NAME[form].write(str(path), cases)
        written.encode()
    except UnicodeEncodeError:
        raise CaseFileError(str(path), "a case holds text that is not valid Unicode") from None
    except RecursionError:
        raise CaseFileError(str(path), "a case holds data that is nested too deeply") from None
    return written


def write(path: str | Path, cases: Sequence[Case], form: str | None = None) -> None:
    """Writes all of it or nothing: an existing file is replaced only by a complete one."""
    chosen = form_of(path, form)
    if chosen == "xlsx":
        write_bytes(path, workbook.from_csv(as_text(path, cases, "ttk")))
    else:
        write_text(path, as_text(path, cases, chosen))
