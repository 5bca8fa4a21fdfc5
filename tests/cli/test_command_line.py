"""The command line: verbs, exit codes, one-line errors, standard output for data only."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from convgrad.cli import command_line
from convgrad.cli.command_line import VERBS, Verb, main
from convgrad.core.status import ConvGradError, Status
from convgrad.text import terminal
from convgrad.text.terminal import ExitCode, UsageError


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch):
    """Makes `convgrad try` call a function of the test's choice."""

    def install(function):
        def add_command(subparsers):
            parser = subparsers.add_parser("try")
            parser.add_argument("--size", type=int, default=0)
            parser.set_defaults(run=function)

        module = SimpleNamespace(add_command=add_command)
        monkeypatch.setattr(command_line, "VERBS", (Verb("try", "a.module.of.this.test", "try"),))
        monkeypatch.setattr(command_line, "is_here", lambda verb: True)
        monkeypatch.setattr(importlib, "import_module", lambda name: module)

    return install


def test_every_verb_that_is_here_adds_its_command():
    """Each module of the table exposes add_command, adds its own name, and gives every parser --json and a `run`."""
    here = [verb for verb in VERBS if command_line.is_here(verb)]
    for verb in here:
        parser = command_line.build_parser([verb.name])
        actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        own = actions[0].choices[verb.name]
        assert any("--json" in action.option_strings for action in own._actions), verb.name
        leaves = [p for a in own._actions if isinstance(a, argparse._SubParsersAction) for p in a.choices.values()]
        assert all(callable(leaf.get_default("run")) for leaf in leaves or [own]), verb.name


def test_unknown_verbs_and_no_verb_are_usage_errors(capsys):
    """Exit code 2, the text on standard error, nothing on standard output."""
    assert main(["fly"]) == ExitCode.USAGE
    assert main([]) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert shown.out == "" and "fly" in shown.err


def test_help_and_version_succeed(capsys):
    """Both are data: standard output, exit code 0."""
    assert main(["--version"]) == 0 and main(["--help"]) == 0
    assert "convgrad" in capsys.readouterr().out


@pytest.mark.parametrize("error, code", [
    (UsageError("no such standard"), 2), (FileNotFoundError(2, "No such file", "cases.json"), 2),
    (ConvGradError("stride must be 1", status=Status.PARAM_INVALID, rule="stride", line="conv n1"), 3),
    (ZeroDivisionError("division by zero"), 4), (MemoryError("2 TB"), 4), (RecursionError("deep"), 4),
])
def test_errors_become_exit_codes_and_one_message(verb, capsys, monkeypatch, error, code):
    """Each kind of error has its code; never a traceback, and with --json the error is JSON on standard output."""
    def fail(arguments):
        raise error

    monkeypatch.delenv("CONVGRAD_TRACEBACK", raising=False)
    verb(fail)
    assert main(["try"]) == code
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("convgrad: ") and "Traceback" not in shown.err
    assert main(["try", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["exit_code"] == code


def test_a_traceback_is_shown_on_request(verb, capsys, monkeypatch):
    """CONVGRAD_TRACEBACK=1 is for us."""
    monkeypatch.setenv("CONVGRAD_TRACEBACK", "1")
    verb(lambda arguments: 1 // 0)
    assert main(["try"]) == ExitCode.INTERNAL and "Traceback" in capsys.readouterr().err


def test_control_characters_of_a_message_do_not_act(verb, capsys):
    """An escape code in a file name is shown, not obeyed."""
    def fail(arguments):
        raise UsageError("\x1b[2J gone")

    verb(fail)
    main(["try"])
    main(["try", "--size", "\x1b[2J"])
    main(["\x1b[2J"])
    assert "\x1b" not in capsys.readouterr().err


def test_json_is_known_to_every_verb(verb, capsys):
    """--json arrives in the arguments; without it, it is false."""
    seen = []
    verb(lambda arguments: seen.append(arguments.json) or 0)
    assert main(["try", "--json"]) == 0 and main(["try"]) == 0
    assert seen == [True, False]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--help"], ["rules"], ["check", "--help"]], ids=" ".join)
def test_a_closed_pipe_is_no_error(words, unbuffered, monkeypatch):
    """`convgrad … | head -1` ends quietly, whether the output was written at once or waited in a buffer."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    script = f"import sys; from convgrad.cli.command_line import main; sys.exit(main({words!r}))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_colour_only_on_a_terminal(monkeypatch):
    """NO_COLOR and anything that is no terminal get plain text."""
    screen = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.coloured("x", "red", screen) == "\x1b[31mx\x1b[0m"
    assert terminal.coloured("x", "red", SimpleNamespace(isatty=lambda: False)) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.coloured("x", "red", screen) == "x"


@pytest.mark.parametrize(("words", "told"), [
    (["chekc"], "did you mean check?"), (["run"], "arguments are required: CASES"),
    (["run", "x", "--fliter"], "did you mean --filter?"), (["doctor", "x"], "unrecognized arguments: x"),
])  # fmt: skip
def test_a_wrong_command_line_is_json_too(words, told, capsys):
    """With --json the mistake stands where answers do, in English; people are told as before."""
    assert main([*words, "--json", "--language", "zh"]) == 2
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert told in found["error"] and found["exit_code"] == 2 and "错误" in shown.err


def test_a_completion_is_json_too(capsys):
    """The script of a shell in a document, as it is without --json."""
    assert main(["completion", "bash", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["completion", "bash"]) == 0
    assert found == {"shell": "bash", "script": capsys.readouterr().out}


def test_json_has_no_bare_nan(capsys):
    """What JSON has no word for becomes a string, also deep inside."""
    terminal.print_json({"a": [float("nan"), (float("inf"),)], "b": -float("inf"), "c": 1.5})
    assert json.loads(capsys.readouterr().out) == {"a": ["nan", ["inf"]], "b": "-inf", "c": 1.5}
