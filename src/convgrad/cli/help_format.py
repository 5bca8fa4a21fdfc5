"""Help texts: in the language chosen, folded to the terminal, Chinese at its true width."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any

from convgrad.text.language import said_of, say
from convgrad.text.terminal import columns, fold, width_of

_WIDEST, _NARROWEST = 110, 60


class HelpFormatter(argparse.HelpFormatter):
    """Paragraphs are folded; lines that begin with a space (examples, lists) stay lines, folded under themselves."""

    def __init__(self, prog: str, *args: Any, **kwargs: Any) -> None:
        self._headings: list[str] = []
        kwargs["width"] = max(min(columns() or 80, _WIDEST), _NARROWEST)
        super().__init__(prog, *args, **kwargs)

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, say("usage: ").removesuffix(" ") + " " if prefix is None else prefix)

    def _format_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None) -> str:
        if prefix is None:
            return super()._format_usage(usage, actions, groups, prefix)
        wide = "u" * width_of(prefix)  # argparse counts characters
        return prefix + super()._format_usage(usage, actions, groups, wide).removeprefix(wide)

    def start_section(self, heading: str | None) -> None:
        super().start_section(None if heading is None else say(heading))
        self._headings.append(say(heading or ""))

    def format_help(self) -> str:
        text = super().format_help()
        for heading in self._headings:  # argparse ends them with its own colon
            text = text.replace(f"\n{heading}:\n", f"\n{said_of(heading, '').rstrip()}\n")
        return text

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return None if action.help is None else say(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return fold(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in self._lines(text, width - len(indent)))

    def _lines(self, text: str, width: int) -> Iterable[str]:
        for part in paragraphs(text):
            label, rest = labelled(part)
            if label:
                yield from fold(label + say(rest), width, " " * len(label))
            elif part.startswith(" "):
                yield from fold(part, width, " " * (len(part) - len(part.lstrip()) + 2))
            else:
                yield from fold(say(part), width)


def labelled(line: str) -> tuple[str, str]:
    """An indented line as its label, with all spaces, and what is said of it; both empty where it is no such line."""
    found = re.fullmatch(r"( +\S.*?  +)(\S.*)", line)
    return (found[1], found[2]) if found else ("", "")


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each one line; indented lines and empty ones by themselves."""
    found: list[str] = []
    for line in text.strip("\n").split("\n"):
        joins = found and found[-1] and not found[-1].startswith(" ") and line and not line.startswith(" ")
        if joins and not found[-1].endswith(":"):
            found[-1] += " " + line.strip()
        else:
            found.append(line.rstrip())
    return found
