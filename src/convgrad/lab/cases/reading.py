"""What every reader of case files shares: reading a value of a known kind, or saying where and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from convgrad.lab.cases.case import Case, CaseFileError
from convgrad.text.terminal import printable

T = TypeVar("T")
MOST_REASONS = 10
MOST_BYTES = 2**28
"""Of a file of cases, also where its size is not known before: standard input, a pipe, a device."""


class Unreadable(ValueError):
    """A value that cannot be read: the place within a case, and the reason."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place}: {reason}")


def shown(value: object) -> str:
    """A value as a message shows it: short, and harmless on a terminal."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer too long to print
        text = f"a {type(value).__name__}"
    return printable(text if len(text) <= 60 else text[:57] + "...")


def text_of(path: str | Path) -> str:
    """The text of a file, UTF-8 with or without a byte order mark."""
    file = Path(path)
    if file.is_dir():
        raise CaseFileError(str(path), "is a directory, not a file of cases")
    with file.open("rb") as content:
        return text_from(str(path), content)


def text_from(name: str, content: BinaryIO) -> str:
    """The text of an open file, which may be endless; lines end as Python's do."""
    read = content.read(MOST_BYTES + 1)
    if len(read) > MOST_BYTES:
        raise CaseFileError(name, f"has more than {MOST_BYTES:,} bytes, which is all that is read")
    try:
        text = read.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaseFileError(name, f"is not UTF-8 text (byte {error.start})") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def whole(value: Any, place: str) -> int:
    """An integer that is not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(place, f"must be a whole number, not {shown(value)}")
    if abs(value) >= 2**63:
        raise Unreadable(place, "does not fit 64 bits")
    return value


def wholes(value: Any, place: str) -> tuple[int, ...]:
    """A list of integers."""
    if not isinstance(value, (list, tuple)):
        raise Unreadable(place, f"must be a list of whole numbers, not {shown(value)}")
    if len(value) > 64:
        raise Unreadable(place, f"has {len(value)} entries; at most 64 are read")
    return tuple(whole(v, f"{place}[{i}]") for i, v in enumerate(value))


def truth(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise Unreadable(place, f"must be true or false, not {shown(value)}")
    return value


def text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise Unreadable(place, f"must be text, not {shown(value)}")
    if len(value) > 10_000:
        raise Unreadable(place, f"has {len(value):,} characters; at most 10,000 are read")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise Unreadable(place, f"is not valid Unicode: {shown(value)}")
    return value


def number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unreadable(place, f"must be a number, not {shown(value)}")
    if not abs(value) <= 1e38:
        raise Unreadable(place, f"must be finite and at most 1e38, not {shown(value)}")
    return float(value)


def read_each(path: str, records: Iterable[tuple[str, T]], read: Callable[[T], Case]) -> list[Case]:
    """A case for every record, or one error that names each record that cannot be read (the first ten)."""
    cases: list[Case] = []
    reasons: list[str] = []
    for where, record in records:
        try:
            cases.append(read(record))
        except RecursionError:
            reasons.append(f"{where}: is nested too deeply")
        except ValueError as error:
            reasons.append(f"{where}, {error}" if isinstance(error, Unreadable) else f"{where}: {error}")
        if len(reasons) == MOST_REASONS:
            reasons.append("... and perhaps more")
            break
    if reasons:
        raise CaseFileError(path, reasons[0] if len(reasons) == 1 else "\n  " + "\n  ".join(reasons))
    return cases
