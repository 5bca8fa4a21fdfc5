"""The command `convgrad`: a table of verbs, each in a module of its own that is imported only when asked for.

A verb's module exposes `add_command(subparsers)`: it adds its parser and sets the default `run`, a function from
the parsed arguments to an exit code (see `terminal.ExitCode`). Every parser made from `subparsers` has `--json`.

Errors become one line on standard error and an exit code; a traceback only with CONVGRAD_TRACEBACK=1.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from convgrad.cli.help_format import HelpFormatter
from convgrad.core.status import ConvGradError
from convgrad.text import language
from convgrad.text.language import say
from convgrad.text.terminal import EXIT_CODES, QUOTE, ExitCode, UsageError, did_you_mean, folded, print_json, printable


@dataclass(frozen=True, slots=True)
class Verb:
    """One sub-command and where it lives."""

    name: str
    module: str
    help: str


VERBS: tuple[Verb, ...] = (
    Verb("run", "convgrad.cli.run", "run a file of cases: contract, gradients, precision, time, report"),
    Verb("check", "convgrad.cli.contract", "say whether the contract accepts a problem line, and why not"),
    Verb("explain", "convgrad.cli.contract", "show every rule a problem line meets or breaks"),
    Verb("plan", "convgrad.cli.contract", "show casts, contractions and workspace of a problem line"),
    Verb("rules", "convgrad.cli.contract", "list the rules, by product, or the difference of two products"),
    Verb("dtypes", "convgrad.cli.contract", "list the number formats, or round values to one"),
    Verb("cases", "convgrad.cli.cases", "convert, list or generate case files"),
    Verb("golden", "convgrad.cli.golden", "write inputs and expected outputs of cases, with a manifest"),
    Verb("kit", "convgrad.cli.kit", "write the plug-in file through which a test kit takes its golden results"),
    Verb("compare", "convgrad.cli.compare", "judge results against golden data under named standards"),
    Verb("standards", "convgrad.cli.compare", "list the precision standards with their thresholds"),
    Verb("bench", "convgrad.cli.bench", "time problem lines: milliseconds, rate, path, beside PyTorch"),
    Verb("tile", "convgrad.cli.tile", "run the tile kernel on a problem: coverage, offsets, walk"),
    Verb("kernel", "convgrad.cli.kernel", "compile a C++ tile kernel, run it on cores, check it"),
    Verb("scan", "convgrad.cli.scan", "find a PyTorch model's convolutions and what each product says"),
    Verb("invariance", "convgrad.cli.invariance", "do a stack's bits depend on the batch, on threads, on the machine"),
    Verb("audit", "convgrad.cli.audit", "are the gradients of a CPU stack right: exact, wrong, crash or hang"),
    Verb("dump", "convgrad.cli.dump", "judge the convolution calls of a PyTorch run that was dumped"),
    Verb("sdk", "convgrad.cli.sdk", "install headers and libraries that stand in for the vendor's"),
    Verb("completion", "convgrad.cli.completion", "print a script that completes commands in bash, zsh or fish"),
    Verb("doctor", "convgrad.cli.doctor", "show versions, engine, instruction set, optional packages"),
)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing; one that names no file is that of a print."""


_MOST_USAGE = 3
"""Lines of a usage that are shown whole above an error."""


class HintingParser(argparse.ArgumentParser):
    """A parser that speaks the language chosen, folds its help to the terminal, and names what was probably meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", HelpFormatter)
        super().__init__(*args, **kwargs)
        self.add_argument("--language", choices=language.LANGUAGES, default=argparse.SUPPRESS,
                          help="of what is printed; default: CONVGRAD_LANGUAGE, else that of LANG")  # fmt: skip

    def error(self, message: str) -> NoReturn:
        """argparse echoes what it was given: control characters in it must not act on the terminal."""
        hint = _hint(message, self)
        text = f"{self.prog}: {say('error')}: {say(printable(message))}{say(hint).replace(' （', '（')}"
        usage = self.format_usage()
        if usage.count("\n") > _MOST_USAGE:  # what must be given alone, so that the mistake does not scroll away
            short = self.formatter_class(prog=f"{self.prog} [...]")
            short.add_usage(None, [a for a in self._actions if a.required or not a.option_strings], [])
            usage = short.format_help()
            text += "\n" + say(f"`{self.prog} --help` lists the options.")
        print(usage + folded(text, stream=sys.stderr), file=sys.stderr)
        raise UsageExit(message + hint)


class UsageExit(SystemExit):
    """What argparse ends with, told already; the mistake in English goes with it for `--json`."""

    def __init__(self, mistake: str) -> None:
        super().__init__(ExitCode.USAGE)
        self.mistake = mistake


class VerbParser(HintingParser):
    """A parser that knows `--json`; a module may still define its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("conflict_handler", "resolve")
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)
        self.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer with JSON")


def _hint(message: str, parser: argparse.ArgumentParser) -> str:
    """The word that was probably meant; for the pieces of a problem line, that it wants quotes."""
    choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    if choice:
        known = [name.strip(" '") for name in choice[2].split(",")]
        options = parser._option_string_actions if message.startswith("argument VERB") else ()
        return did_you_mean(choice[1], known) or did_you_mean(choice[1], options)
    unknown = message.partition("unrecognized arguments: ")[2].split()
    if any(re.fullmatch(r"[ncikospdg]\d[\dx>:-]*", word) for word in unknown):
        return f"\n{QUOTE}"
    option = next((word for word in unknown if word.startswith("--")), None)
    return did_you_mean(option.partition("=")[0], parser._option_string_actions) if option else ""


def is_here(verb: Verb) -> bool:
    """Whether the verb's module is part of this installation."""
    # By its file: find_spec would import the packages around it, and with them what they need.
    path = Path(__file__).parents[1].joinpath(*verb.module.split(".")[1:])
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for a command line: only the verb it names is imported."""
    from convgrad import __version__

    known = [verb for verb in VERBS if is_here(verb)]
    width = max((len(verb.name) for verb in known), default=0)
    listing = "\n".join(f"  {verb.name:{width}}  {say(verb.help)}" for verb in known)
    codes = "\n".join(f"  {int(code):<{width}}  {say(text)}" for code, text in EXIT_CODES)
    parser = HintingParser(
        prog="convgrad",
        description="Convolution gradients under the rules and the rounding of an Ascend NPU's operators, on any CPU.",
        epilog=f"verbs:\n{listing}\n\n`convgrad VERB --help` tells more.\n\nexit codes:\n{codes}",
    )
    parser.add_argument("--version", action="version", version=f"convgrad {__version__}")
    parser.set_defaults(json=False, run=None)
    asked = next((word for word in words if not word.startswith("-")), None)
    verbs = parser.add_subparsers(metavar="VERB", help="one of the verbs below", parser_class=VerbParser)
    for verb in known:
        if verb.name == asked:
            importlib.import_module(verb.module).add_command(verbs)
    for verb in known:
        if verb.name not in verbs.choices:
            verbs.add_parser(verb.name)  # a name only, so that errors can list the choices
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    if words is None:  # the process is the command's own
        warnings.showwarning = partial(_tell_warning, warnings.showwarning)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name the terminal cannot show is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _exit_code(_in_language(list(sys.argv[1:] if words is None else words)))
        try:
            sys.stdout.flush()  # here, not when the interpreter ends: it would complain
        except BrokenPipeError:
            raise
        except OSError as error:  # a full disk
            code = _failed(error, False)
            _discard_output()
        return code
    except BrokenPipeError:
        # The reader left (`convgrad … | head`): nothing to say, and nothing more to flush.
        _discard_output()
        return ExitCode.PASS


def _open_closed_streams() -> None:
    """A stream that whoever started the process closed (`>&-`) reads as empty and writes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in this order they take their own numbers
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (open as long as the process)


def _tell_warning(
    others: Callable[..., None], message: Warning | str, category: type[Warning], filename: str, *place: Any
) -> None:
    """Our own warnings as a person reads them, without a line of source; those of other packages as they are."""
    if not Path(filename).is_relative_to(Path(__file__).parents[1]):
        others(message, category, filename, *place)
    else:
        text = f"convgrad: {say('warning')}: {say(printable(message))}"
        print(folded(text, stream=sys.stderr), file=sys.stderr)


def _in_language(words: list[str]) -> list[str]:
    """Takes the language from the words, wherever it stands: help and errors of parsing are to be in it too."""
    chosen, rest, i = language.preferred(), [], 0
    while i < len(words):
        name, equals, value = words[i].partition("=")
        if len(name) > 4 and "--language".startswith(name):
            value = value if equals else "".join(words[i + 1 : i + 2])
            if value in language.LANGUAGES:
                chosen, i = value, i + (1 if equals else 2)
                continue
        rest.append(words[i])
        i += 1
    language.use(chosen)
    return rest


def _discard_output() -> None:
    """What could not be written must not be tried again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_code(words: list[str]) -> int:
    try:
        parser = build_parser(words)
        arguments, unknown = parser.parse_known_args(words)
        if unknown:  # told by the verb's own parser, which knows its options
            getattr(arguments, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
        if arguments.run is None:
            parser.print_help(sys.stderr)
            return ExitCode.USAGE
        command: Callable[[argparse.Namespace], int] = arguments.run
        return int(command(arguments))
    except UsageExit as stop:
        if "--json" in words:
            _print_error(stop.mistake, ExitCode.USAGE)
        return ExitCode.USAGE
    except SystemExit as stop:  # argparse: 0 after --help
        return int(stop.code or 0) if isinstance(stop.code, (int, type(None))) else ExitCode.USAGE
    except BrokenPipeError as error:
        if error.filename is None:
            raise
        return _failed(error, "--json" in words)  # not standard output: a pipe that was asked for by name
    except KeyboardInterrupt:
        print(f"convgrad: {say('interrupted')}", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _failed(error, "--json" in words)


_USAGE_RULES = (
    "scan.", "tile.operator", "tile.product", "tile.groups", "tile.dtype", "tile.empty", "tile.transposed",
    "picture.plane", "padding.type",
)  # fmt: skip
"""Rules of this program about how it is asked: no product has them, so none of its status codes is told."""


def _is_usage(error: ConvGradError) -> bool:
    return error.rule.startswith(_USAGE_RULES)


def _failed(error: Exception, as_json: bool) -> int:
    """One line (and a reproducer where there is one) instead of a traceback."""
    if os.environ.get("CONVGRAD_TRACEBACK") == "1":
        traceback.print_exc()
    if isinstance(error, ConvGradError) and _is_usage(error):
        code, text = ExitCode.USAGE, error.message + (f"\n  reproduce: {error.line}" if error.line else "")
    elif isinstance(error, ConvGradError):
        code, text = ExitCode.REFUSED, str(error)
    elif isinstance(error, OSError) and error.strerror and (error.filename or error.errno in _FULL):
        code, text = ExitCode.USAGE, f"{error.filename or 'standard output'}: {error.strerror}"
        if not error.filename:
            _discard_output()  # the rest of a buffer would be told of again
    elif isinstance(error, (UsageError, OSError, ImportError)):  # an extra that is not installed is said as it is
        code, text = ExitCode.USAGE, str(error)
    elif isinstance(error, MemoryError):
        code, text = ExitCode.INTERNAL, f"not enough memory: {error}"
    else:
        code = ExitCode.INTERNAL
        text = f"internal error: {type(error).__name__}: {error} (CONVGRAD_TRACEBACK=1 shows where)"
    shown = "\n".join(printable(line) for line in say(text).splitlines())
    print(folded(f"convgrad: {shown}", stream=sys.stderr), file=sys.stderr)
    if as_json:
        _print_error(text, code)
    return code


def _print_error(text: str, code: ExitCode) -> None:
    """The answer of a failed command to a program."""
    print_json({"error": text, "exit_code": int(code)})
