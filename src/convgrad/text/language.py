"""The language of what people read: English as the program writes it, Chinese by rows.

A text is written once, in English, where it is needed: a print, an error, a help. Its Chinese is a row in
`text/chinese/*.txt`: the English line, the Chinese line, a blank line.

    {} rows on {}, in the order they are checked
    {1} 上有 {0} 条规则，按检查顺序列出

`{}` stands for what varies, `{#}` for a number, `{w}` for a word; `{0}` puts it in as it is, `{~0}` in Chinese where it
has a row. `say` finds the row a finished text fits, so nothing but the place where text reaches a person has to know of
languages: errors, records and JSON stay English. Rooms whose sentences are made from rows of their own (the rules) add
theirs with `add_rows`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

LANGUAGES = ("en", "zh")
VARIABLE = "CONVGRAD_LANGUAGE"

Row = tuple[str, str]
"""An English text and its Chinese."""

_current = "en"
_sources: list[Callable[[], Iterable[Row]]] = []
_HERE = Path(__file__).parent / "chinese"


def preferred(environment: Mapping[str, str] = os.environ) -> str:
    """What the environment asks for: CONVGRAD_LANGUAGE, else the locale; English where neither names a known one."""
    asked = environment.get(VARIABLE, "").strip().lower()
    if not asked:
        asked = next((environment[n] for n in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(n)), "").lower()
    return next((known for known in LANGUAGES if re.match(rf"{known}(\b|_)", asked)), "en")


def use(language: str) -> None:
    """Chooses the language of `say`; the command line does so, a Python program is answered in English."""
    global _current
    if language not in LANGUAGES:
        raise ValueError(f"unknown language {language!r}: use one of {', '.join(LANGUAGES)}")
    _current = language


def current() -> str:
    """The language chosen."""
    return _current


def say(text: str) -> str:
    """A text in the language chosen; as it is where it has no other form."""
    if _current == "en" or not text:
        return text
    return chinese(text) or text


def said_of(label: str, text: str) -> str:
    """A label, a colon, what is said of it: the colon of the language chosen, for both stand in it already."""
    return f"{label}：{text}" if _current == "zh" else f"{label}: {text}"


def add_rows(source: Callable[[], Iterable[Row]]) -> None:
    """Rows of a room whose sentences are made; asked for when the first text is looked up after this."""
    _sources.append(source)
    _catalogue.cache_clear()
    _fitting.cache_clear()


def chinese(text: str) -> str | None:
    """A text in Chinese; `None` where no row fits it.

    A text of several lines is taken line by line, one of parts that stand apart by spaces part by part, one with a
    place before it (`cases.json: line 3: ...`) or its count behind it (`... (3 times)`) in two. Of the ways to read a
    text, that one counts whose rows fix most.
    """
    found = _fitting(text)
    return None if found is None else found[1]


@lru_cache(4096)
def _fitting(text: str) -> tuple[int, str] | None:
    """How many characters the rows fix that a text fits, and its Chinese."""
    if not re.search("[A-Za-z]", text):
        return None
    if "\n" in text:
        return _joined(text.split("\n"), "\n")
    plain = text.strip()
    if plain != text:
        inner = _fitting(plain)
        return None if inner is None else (inner[0], text.replace(plain, inner[1], 1))
    often = re.fullmatch(r"(.*) \((\d+) times\)", text)
    if often:
        inner = _fitting(often[1])
        return None if inner is None else (inner[0], f"{inner[1]}（{often[2]} 次）")
    found = _catalogue().find(text)
    if "  " in text:  # a gap would take a label and the spaces behind it for one value
        apart = _aligned(text)
        if found is None or (apart is not None and apart[0] > found[0]):
            return apart
    for between in re.finditer("; ", text):
        parts = text[: between.start()], text[between.end() :]
        if all(_fitting(part) or not _WORDS.search(part) for part in parts):
            joined = _joined(parts, "；")
            if joined is not None and (found is None or joined[0] > found[0]):
                found = joined
    for colon in re.finditer(r": ", text):
        place, rest = _fitting(text[: colon.start()]), _fitting(text[colon.end() :])
        if rest is not None:
            fixed = rest[0] + (place[0] if place else 0)
            if found is None or fixed > found[0]:
                found = fixed, f"{place[1] if place else text[: colon.start()]}: {rest[1]}"
    return found


def _joined(parts: Sequence[str], between: str) -> tuple[int, str] | None:
    """Parts, each in Chinese where it has a row; `None` where none has."""
    found = [_fitting(part) for part in parts]
    fixed = sum(one[0] for one in found if one is not None)
    return (fixed, between.join(one[1] if one else p for one, p in zip(found, parts, strict=True))) if fixed else None


def _aligned(text: str) -> tuple[int, str] | None:
    """Parts of a line that stand apart by spaces, each in Chinese where it has a row, at the columns they had."""
    *pieces, last = re.split(r"(  +)", text)
    found, fixed = "", 0
    for part, spaces in zip([*pieces[::2], last], [*pieces[1::2], ""], strict=True):
        other = _fitting(part)
        fixed += other[0] if other else 0
        shown = other[1] if other else part
        found += shown + (" " * max(len(spaces) + width_of(part) - width_of(shown), 2) if spaces else "")
    return (fixed, found) if fixed else None


def width_of(text: str) -> int:
    """Columns a text takes on a terminal: Chinese characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def rows() -> Iterator[Row]:
    """Every row of the files."""
    for path in sorted(_HERE.glob("*.txt")):
        for block in re.split(r"\n\s*\n", path.read_text("utf-8")):
            lines = [line for line in block.splitlines() if line and not line.startswith("#")]
            if len(lines) == 2:
                yield lines[0], lines[1]
            elif lines:
                raise ValueError(f"{path.name}: a row is an English line and a Chinese one, not {lines!r}")


_WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
"""English: a word in small letters behind another; names and `limit = 0.1` are none."""
_GAP = re.compile(r"\{[#w]?\}")
_FITS = {"{}": "(.*?)", "{#}": r"(-?[\d.,]+(?:e[+-]?\d+)?)", "{w}": r"(\S+)"}
"""What may stand in a gap; short rows ask for numbers and words, so that they fit nothing they are not meant for."""


class Catalogue:
    """Rows to be looked up: whole texts by themselves, texts with gaps by what is fixed in them, the longest first."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._whole: dict[str, str] = {}
        gaps: dict[str, str] = {}
        for english, other in rows:
            (gaps if _GAP.search(english) else self._whole)[english] = other
        self._gaps = [_Gaps(english, other) for english, other in gaps.items()]
        self._gaps.sort(key=lambda row: -row.fixed)

    def find(self, text: str) -> tuple[int, str] | None:
        """How much is fixed in the rows that a text fits from end to end, and its Chinese."""
        if text in self._whole:
            return len(text), self._whole[text]
        for row in self._gaps:
            if row.longest in text:
                found = row.pattern.fullmatch(text)
                if found is not None:
                    return row.filled(found.groups())
        return None


class _Gaps:
    """One row with gaps."""

    def __init__(self, english: str, other: str) -> None:
        parts = _GAP.split(english)
        self.longest = max(parts, key=len)
        self.fixed = sum(map(len, parts))
        gaps = [_FITS[gap] for gap in _GAP.findall(english)]
        pattern = "".join(re.escape(part) + gap for part, gap in zip(parts, [*gaps, ""], strict=True))
        self.pattern = re.compile(pattern, re.DOTALL)
        self._other = other

    def filled(self, values: Sequence[str]) -> tuple[int, str]:
        """How much is fixed, by rows within gaps too, and the Chinese."""
        fixed = self.fixed

        def value(place: re.Match[str]) -> str:
            nonlocal fixed
            got = values[int(place[2])]
            found = _fitting(got) if place[1] else None
            fixed += found[0] if found else 0
            return found[1] if found else got

        text = re.sub(r"\{(~?)(\d+)\}", value, self._other)
        return fixed, text


@lru_cache(1)
def _catalogue() -> Catalogue:
    return Catalogue([row for source in (rows, *_sources) for row in source()])
