"""The command line as a tree of verbs and options, read from the parsers: completion and manual are made of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from convgrad.core import dtypes, products, standards
from convgrad.core.request import CONFORMANCES
from convgrad.text.language import say

_KNOWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("product", "on", "against"), products.KEYS),
    "conformance": CONFORMANCES,
    "standard": tuple(row.name for row in standards.ALL),
    "dtype": tuple(row.word for row in dtypes.ALL),
}
"""Values of options that take other spellings and lists too, so that no `choices` can name them all."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings, the name of its value (none for a switch), its choices, its help as it is shown.

    `offered` is what a shell offers for its value: the choices, or the names most people write.
    """

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    offered: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Node:
    """A verb, or a verb of a verb: `convgrad cases gen` is ("cases", "gen")."""

    path: tuple[str, ...]
    help: str
    description: str
    options: tuple[Option, ...]
    verbs: tuple[str, ...]
    operands: tuple[Option, ...]


def nodes() -> Iterator[Node]:
    """Every verb with what it takes; the command itself first."""
    from convgrad.cli.command_line import VERBS, build_parser, is_here

    helps = {verb.name: verb.help for verb in VERBS if is_here(verb)}
    root = build_parser([])
    yield _node((), "", root, tuple(helps))
    for name, text in helps.items():
        yield from _below((name,), text, _verbs(build_parser([name]))[name])


def _below(path: tuple[str, ...], text: str, parser: argparse.ArgumentParser) -> Iterator[Node]:
    inner = _verbs(parser)
    yield _node(path, text, parser, tuple(inner))
    helps = {a.dest: a.help or "" for s in parser._actions for a in getattr(s, "_choices_actions", ())}
    for name, verb in inner.items():
        yield from _below((*path, name), helps.get(name, ""), verb)


def _verbs(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _node(path: tuple[str, ...], text: str, parser: argparse.ArgumentParser, verbs: tuple[str, ...]) -> Node:
    actions = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
    return Node(
        path, text, parser.description or "",
        tuple(_option(a) for a in actions if a.option_strings), verbs,
        tuple(_option(a) for a in actions if not a.option_strings),
    )


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or ()))
    takes = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    text = say(action.help) % {**vars(action), "prog": "convgrad"} if action.help else ""
    offered = choices or _KNOWN.get(action.dest, ()) if takes else ()
    return Option(tuple(action.option_strings), metavar if takes else "", choices, offered, text)
