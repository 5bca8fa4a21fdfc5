"""What every command shares: exit codes, the error of a wrong command line, and how text reaches a person.

Standard output is data; standard error is progress and errors. Colour only on a terminal, never with NO_COLOR.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, TextIO


class ExitCode(IntEnum):
    """What a command tells the shell."""

    PASS = 0
    PRECISION_FAIL = 1
    USAGE = 2
    REFUSED = 3
    INTERNAL = 4


class UsageError(ValueError):
    """The command line, or a file it names, cannot be used: one sentence, exit code 2."""


_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}


def wants_colour(stream: TextIO) -> bool:
    """Whether escape codes may be written to this stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """`text` in a colour, or as it is where colour is not wanted."""
    if not wants_colour(stream or sys.stdout):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def counted(number: int, noun: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean A2?)` where a known word is close, else nothing."""
    by_plain = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_plain, 1)
    return f" (did you mean {by_plain[close[0]]}?)" if close else ""


def print_json(value: Any) -> None:
    """One JSON document on standard output; NaN and infinities are written as the strings JSON allows."""
    print(json.dumps(jsonable(value), ensure_ascii=False, indent=2, allow_nan=False))


def jsonable(value: Any) -> Any:
    """The value with numbers JSON has no word for as strings: "nan", "inf", "-inf"."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    return value


def printable(text: object) -> str:
    """Text whose control characters (escape codes, line feeds) cannot act on a terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> str:
    """Rows in aligned columns; columns named in `right` are aligned to the right."""
    cells = [list(head), *([printable(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    to_right = set(right)
    lines = [
        "  ".join(c.rjust(w) if i in to_right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)
