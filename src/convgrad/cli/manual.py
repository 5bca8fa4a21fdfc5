"""`man convgrad`: the manual, made from the parsers; docs/man has it in both languages, wheels install it."""

from __future__ import annotations

from collections.abc import Iterator

from convgrad.cli.command_tree import Node, Option, nodes
from convgrad.cli.help_format import labelled, paragraphs
from convgrad.text import language
from convgrad.text.language import say
from convgrad.text.terminal import EXIT_CODES

_VARIABLES = (
    (language.VARIABLE, "language of what is printed: en or zh"),
    ("CONVGRAD_NUM_THREADS", "threads of the engine"),
    ("CONVGRAD_ISA", "instruction set of the engine, at most that of the machine"),
    ("CONVGRAD_ENGINE", "native or reference"),
    ("CONVGRAD_TRACEBACK", "1 shows where an error was raised"),
    ("NO_COLOR", "no colours"),
    ("COLUMNS", "width that text is folded to"),
)


def manual(spoken: str, version: str) -> str:
    """The page of section 1 in a language."""
    before = language.current()
    language.use(spoken)
    try:
        return "\n".join(_lines(list(nodes()), version)) + "\n"
    finally:
        language.use(before)


def _lines(tree: list[Node], version: str) -> Iterator[str]:
    root, *verbs = tree
    yield '.\\" made from the parsers of src/convgrad/cli by tools/generate.py; do not edit'
    yield f'.TH CONVGRAD 1 "" "convgrad {version}"'
    yield from (".nh", ".ad l")
    yield from _section("NAME")
    yield f"convgrad \\- {_text(say(root.description))}"
    yield from _section("SYNOPSIS")
    yield "\\fBconvgrad\\fR \\fIVERB\\fR [options]"
    yield from _section("VERBS")
    for node in verbs:
        yield f".SS convgrad {' '.join(node.path)}"
        yield from _paragraphs(node.description or node.help)
        for option in (*node.operands, *node.options):
            if "--help" not in option.names and "--language" not in option.names:
                yield from _option(option)
    yield from _section("COMMON OPTIONS")
    for option in root.options:
        yield from _option(option)
    yield from _section("EXIT STATUS")
    for code, text in EXIT_CODES:
        yield from (".TP", f"\\fB{int(code)}\\fR", _text(say(text)))
    yield from _section("ENVIRONMENT")
    for name, text in _VARIABLES:
        yield from (".TP", f"\\fB{name}\\fR", _text(say(text)))


def _section(title: str) -> Iterator[str]:
    yield f".SH {say(title)}"


def _paragraphs(text: str) -> Iterator[str]:
    for part in paragraphs(text):
        label, rest = labelled(part)
        if label:
            yield from (".TP", f"\\fB{_text(label.strip())}\\fR", _text(say(rest)))
        elif part.startswith(" "):
            yield from (".nf", f"    {_text(part.strip())}", ".fi")
        elif part:
            yield from (".PP", _text(say(part)))


def _option(option: Option) -> Iterator[str]:
    # \: is a place where the line may break
    value = "{" + ",\\:".join(map(_text, option.choices)) + "}" if option.choices else _text(option.value)
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
    yield ".TP"
    yield f"{names} \\fI{value}\\fR" if names and value else names or f"\\fI{value}\\fR"
    yield _text(option.help)


def _text(text: str) -> str:
    """Text that roff prints as it is: no command at the beginning of a line, hyphens that can be copied."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
