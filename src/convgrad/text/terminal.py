"""What every command shares: exit codes, the error of a wrong command line, and how text reaches a person.

Standard output is data; standard error is progress and errors. Colour only on a terminal, never with NO_COLOR.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import IntEnum
from importlib.util import find_spec
from typing import Any, TextIO

from convgrad.text.language import say
from convgrad.text.language import width_of as width_of


class ExitCode(IntEnum):
    """What a command tells the shell; what each means is in `EXIT_CODES`."""

    PASS = 0
    PRECISION_FAIL = 1
    USAGE = 2
    REFUSED = 3
    INTERNAL = 4
    INTERRUPTED = 130


EXIT_CODES: tuple[tuple[ExitCode, str], ...] = (
    (ExitCode.PASS, "done; what was judged passes"),
    (ExitCode.PRECISION_FAIL, "a result fails its precision standard, or differs from what it must equal"),
    (ExitCode.USAGE, "the command line, or a file it names, cannot be used; nothing matches a selection"),
    (ExitCode.REFUSED, "the contract of the product refuses a call"),
    (ExitCode.INTERNAL, "a case could not be run, the native engine cannot be loaded, or a mistake in this program"),
    (ExitCode.INTERRUPTED, "interrupted from the keyboard"),
)
"""The one table of exit codes: help texts, the man page and docs/generated/exit_codes.md are made from it."""


class UsageError(ValueError):
    """The command line, or a file it names, cannot be used: one sentence, exit code 2."""


QUOTE = "quote the line: 'conv n2 c8>16 ...'; or write c8-16, since > sends the output of a command to a file"
"""Said where the words of a problem line arrive apart."""
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


def padded(text: str, width: int, right: bool = False) -> str:
    """A text filled up with spaces to so many columns."""
    space = " " * max(width - width_of(text), 0)
    return space + text if right else text + space


def columns(stream: TextIO | None = None) -> int | None:
    """How wide a person sees text: COLUMNS, else the terminal's width; `None` where nobody looks (a pipe, a file)."""
    set_by_hand = os.environ.get("COLUMNS", "")
    if set_by_hand.isdecimal() and int(set_by_hand) > 0:
        return max(int(set_by_hand), 40)
    return max(shutil.get_terminal_size().columns, 40) if (stream or sys.stdout).isatty() else None


_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def _seen(text: str) -> int:
    """Columns of a text that may be coloured."""
    return width_of(_ESCAPE.sub("", text))


_COPIED = re.compile(r"\s*(?:reproduce: |复现：)")
"""Lines that are copied into a shell: they stay whole, the terminal wraps them by itself."""
_JOINTS = "/._x>"
"""Where a path, a rule's name, a type or a shape is cut best."""
_PIECE = re.compile(r"[^\S\n]+|[（「]*(?:[⺀-￯]|[^\s⺀-￯]+)[，。；：、）」！？…]*")


def fold(text: str, width: int | None, hanging: str = "") -> list[str]:
    """A text in lines of at most `width` columns, broken at spaces and between Chinese characters.

    Lines after the first begin with `hanging`; a word longer than a line is cut, behind a joint of it where it has one.
    """
    if width is None or _seen(text) <= width:
        return [text]
    lines, line = [], ""
    for piece in _PIECE.findall(text):
        if _seen(line + piece.rstrip()) <= width:
            line += piece
            continue
        if line.strip():
            lines.append(line.rstrip())
            line = hanging
        piece = piece.lstrip()
        while _seen(line + piece) > width:
            fits = next(n for n in range(len(piece), 0, -1) if _seen(line + piece[:n]) <= width or n == 1)
            joint = max(piece.rfind(mark, fits // 3, fits) for mark in _JOINTS) + 1
            cut = joint or fits
            lines.append(line + piece[:cut])
            line, piece = hanging, piece[cut:]
        line += piece
    return [*lines, line.rstrip()] if line.strip() else lines


def folded(text: str, hanging: str = "", stream: TextIO | None = None) -> str:
    """Every line of a text folded to what a person sees."""
    width = columns(stream)
    lines = (fold(line, None if _COPIED.match(line) else width, hanging) for line in text.split("\n"))
    return "\n".join(part for line in lines for part in line)


def tell(text: str, hanging: str = "", file: TextIO | None = None) -> None:
    """Prints a text to a person: in the language chosen, folded to what is seen, without control characters."""
    safe = "\n".join(printable(line) for line in say(text).split("\n"))
    print(folded(safe, hanging, file), file=file, flush=True)


def tell_under(label: str, text: str, colour: str = "") -> None:
    """Prints a text beside a label of ten columns, folded under itself."""
    for line in folded(f"{padded(say(label), 9)} {say(printable(text))}", " " * 10).split("\n"):
        print(coloured(line, colour) if colour else line)


_LEAST_COLUMN, _LONGEST_WORD = 6, 24
"""Columns that a column of text keeps, however narrow the terminal; the longest word that is cut only then."""


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = (), *,
    colours: Mapping[str, str] | None = None, indent: int = 0,
) -> str:
    """Rows in aligned columns under a head in the language chosen; columns named in `right` are aligned to the right.

    `colours` gives words of the first column their colour. Where a person looks, the widest columns are folded until
    the table fits; on a terminal where rich is installed it draws the table. In a pipe every row is one line.
    """
    cells = [[say(c) for c in head], *([printable(c) for c in row] for row in rows)]
    to_right, colours, most = set(right), colours or {}, columns()
    drawn = most is not None and wants_colour(sys.stdout) and find_spec("rich") is not None
    widths = _widths(cells, to_right, None if most is None else most - indent - drawn)  # rich pads the last column too
    if drawn:
        return _drawn(cells, to_right, colours, widths, indent)
    lines = []
    for row in cells:
        parts = [fold(cell, width) if most is not None else [cell] for cell, width in zip(row, widths, strict=True)]
        for n in range(max(map(len, parts))):
            shown = [part[n] if n < len(part) else "" for part in parts]
            line = "  ".join(padded(c, w, i in to_right) for i, (c, w) in enumerate(zip(shown, widths, strict=True)))
            first = row[0] if n == 0 and row is not cells[0] else ""
            if first in colours and line.startswith(first):
                line = coloured(first, colours[first]) + line[len(first) :]
            lines.append(" " * indent + line.rstrip())
    return "\n".join(lines)


def _widths(cells: Sequence[Sequence[str]], right: Container[int], room: int | None) -> list[int]:
    """Widths of columns: the widest are narrowed until all fit, to their longest word first, then beyond."""
    widths = [max(width_of(row[i]) for row in cells) for i in range(len(cells[0]))]
    words = [max(width_of(x) for row in cells for x in _PIECE.findall(row[i]) or [""]) for i in range(len(widths))]
    small = [min(width, _LEAST_COLUMN) for width in widths]
    for least in ([max(min(word, _LONGEST_WORD), few) for word, few in zip(words, small, strict=True)], small):
        while room is not None and sum(widths) + 2 * (len(widths) - 1) > room:
            free = [i for i in range(len(widths)) if i not in right and widths[i] > least[i]]
            if not free:
                break
            widths[max(free, key=lambda i: widths[i])] -= 1
    return widths


def _drawn(
    cells: Sequence[Sequence[str]], right: Container[int], colours: Mapping[str, str], widths: Sequence[int],
    indent: int,
) -> str:
    """The table as rich draws it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for i, (name, width) in enumerate(zip(cells[0], widths, strict=True)):
        drawn.add_column(Text(name), justify="right" if i in right else "left", overflow="fold", width=width)
    for row in cells[1:]:
        first, *rest = ("\n".join(fold(cell, width)) for cell, width in zip(row, widths, strict=True))
        drawn.add_row(Text(first, style=colours.get(row[0], "")), *map(Text, rest))
    console = Console(width=sum(widths) + 2 * len(widths), force_terminal=True)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(" " * indent + line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
