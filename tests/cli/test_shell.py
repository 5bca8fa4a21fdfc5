"""What other programs read: completion scripts, the manual, exit codes, progress and JUnit files, widths of output."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import convgrad
from convgrad.cli.command_line import VERBS, main
from convgrad.cli.command_tree import nodes
from convgrad.cli.manual import manual
from convgrad.core import dtypes, standards
from convgrad.lab.run.progress import Progress
from convgrad.text import language
from convgrad.text.terminal import EXIT_CODES, ExitCode, fold, folded, width_of

GOOD = "conv n1 c2>3 i5x5 k3x3 p1 fp32 on=A2"
BAD = "conv n1 c2>3 i5x5 k3x3 s0 p1 fp32 on=A2"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.txt"
    path.write_text(f"{GOOD}  # first\n{BAD}  # <second> & \"third\"\n")
    return path


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(words)
    asked = (
        f"{script}\nCOMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; COMP_LINE={line!r}\n"
        '_convgrad; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_verbs_options_and_values(capsys) -> None:
    """Run by bash itself: verbs, verbs of verbs, options of the verb alone, the values of an option."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "convgrad", "che") == ["check"]
    assert set(completed(script, "convgrad", "")) >= {verb.name for verb in VERBS}
    assert completed(script, "convgrad", "run", "--prog") == ["--progress-file"]
    assert completed(script, "convgrad", "cases", "g") == ["gen"]
    assert "--count" in completed(script, "convgrad", "cases", "gen", "--")
    assert completed(script, "convgrad", "rules", "--conformance", "r") == ["runtime"]
    assert completed(script, "convgrad", "completion", "f") == ["fish"]
    assert set(completed(script, "convgrad", "check", "--product", "=", "9")) == {"910", "950"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_verbs_options_and_values(tmp_path: Path, capsys) -> None:
    """Asked of fish itself: as bash; files only where a file may stand, the command's options before a verb only."""
    assert main(["completion", "fish"]) == 0
    (tmp_path / "convgrad.fish").write_text(capsys.readouterr().out)
    (tmp_path / "a_file.txt").touch()

    def offered(line: str) -> list[str]:
        asked = f"source convgrad.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, check=True,
                              cwd=tmp_path)  # fmt: skip
        return [answer.split("\t")[0] for answer in done.stdout.splitlines()]

    assert sorted(offered("convgrad ")) == sorted(verb.name for verb in VERBS)
    assert offered("convgrad --language zh che") == ["check"]
    assert offered("convgrad run --prog") == ["--progress-file"]
    assert offered("convgrad run --vers") == []
    assert offered("convgrad cases ") == ["convert", "gen", "list", "schema"]
    assert offered("convgrad cases gen --coun") == ["--count"]
    assert offered("convgrad rules --conformance r") == ["runtime"]
    assert offered("convgrad check --product=9") == ["--product=910", "--product=950"]
    assert offered("convgrad completion ") == ["bash", "fish", "zsh"]
    assert offered("convgrad run a_") == ["a_file.txt"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize("taken", [
    "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D",
    "autoload -Uz compinit; compinit -u -D; source ./_convgrad",
])  # fmt: skip
def test_zsh_completes_verbs_options_and_values(taken: str, tmp_path: Path, capsys) -> None:
    """Found by zsh or read by `source`: typed on a terminal of its own, what stands in the line after the tabulator."""
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_convgrad").write_text(capsys.readouterr().out)
    (tmp_path / "a_file.txt").touch()
    typed = {
        "convgrad che": "convgrad check ", "convgrad --language zh che": "convgrad --language zh check ",
        "convgrad run --prog": "convgrad run --progress-file=", "convgrad cases g": "convgrad cases gen ",
        "convgrad cases gen --coun": "convgrad cases gen --count=",
        "convgrad rules --conformance r": "convgrad rules --conformance runtime ",
        "convgrad rules --conformance=r": "convgrad rules --conformance=runtime ",
        "convgrad check --product=95": "convgrad check --product=950 ",
        "convgrad completion f": "convgrad completion fish ", "convgrad run a_": "convgrad run a_file.txt ",
    }  # fmt: skip
    script = (
        f"{taken}; "
        "tell() { print -r -- $BUFFER >> told; BUFFER=''; }; zle -N tell; bindkey '^T' tell\n"
        + "".join(f"{line}\t\x14" for line in typed) + "exit\n"
    )  # fmt: skip
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.environ["TERM"] = "dumb"
        os.execlp("zsh", "zsh", "-f", "-i")
    with open(terminal, "r+b", buffering=0) as keys:
        keys.write(script.encode())
        try:
            while keys.read(4096):
                pass
        except OSError:  # Linux's word for the end of a terminal
            pass
    os.waitpid(child, 0)
    assert (tmp_path / "told").read_text().splitlines() == list(typed.values())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_hold_every_option_of_every_verb(shell: str, capsys) -> None:
    """Whatever the parsers take is in the script; the shell, where it is installed, reads it without complaint."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for node in nodes():
        for option in node.options:
            for name in option.names:
                written = (f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}") if shell == "fish" else name
                assert written in script, (node.path, name)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_the_manual_has_every_verb_option_and_exit_code() -> None:
    """In both languages; no line is a roff command by accident."""
    for spoken in language.LANGUAGES:
        page = manual(spoken, convgrad.__version__)
        for node in nodes():
            assert not node.path or f".SS convgrad {' '.join(node.path)}\n" in page
            assert all(name.replace("-", "\\-") in page for option in node.options for name in option.names)
        assert all(f"\\fB{int(code)}\\fR" in page for code, _ in EXIT_CODES)
        commands = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert commands <= {'.\\"', ".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".nh", ".ad"}
    assert language.current() == "en"


def test_every_exit_code_has_its_meaning(capsys) -> None:
    """One table: each code once, in the help of the command, with its Chinese."""
    assert [code for code, _ in EXIT_CODES] == list(ExitCode)
    main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for code, text in EXIT_CODES:
        assert f"{int(code)} {text}" in shown and language.chinese(text)


def test_the_progress_file_and_junit(cases: Path, tmp_path: Path, capsys) -> None:
    """State of a finished run as one JSON object; a passed and a refused case as JUnit XML, names escaped."""
    progress, junit = tmp_path / "progress.json", tmp_path / "junit.xml"
    words = ["run", str(cases), "-j", "1", "-q", "--no-anatomy"]
    assert main([*words, "--progress-file", str(progress), "--junit", str(junit)]) == ExitCode.REFUSED
    state = json.loads(progress.read_text())
    assert (state["total"], state["done"], state["finished"], state["left_seconds"]) == (2, 2, True, 0.0)
    assert state["outcomes"] == {"pass": 1, "refused": 1}
    root = ElementTree.parse(junit).getroot()
    assert root.attrib["tests"] == "2" and root.attrib["failures"] == "1" and root.attrib["errors"] == "0"
    first, second = root.iter("testcase")
    assert first.attrib["name"] == "first" and len(first) == 0
    assert second.attrib["name"] == '<second> & "third"' and second[0].attrib["type"] == "refused"
    assert "stride must be at least 1" in second[0].attrib["message"] and BAD[:20] in (second[0].text or "")
    assert f"JUnit: {junit}" in capsys.readouterr().err


def test_the_progress_file_of_a_run_under_way(tmp_path: Path) -> None:
    """Written when the run begins, whole at any time; a run that is broken off does not say that it is finished."""
    file = tmp_path / "state.json"
    with pytest.raises(KeyboardInterrupt), Progress(5, 1, quiet=True, json_file=file) as progress:
        assert json.loads(file.read_text())["done"] == 1
        progress.count("pass")
        raise KeyboardInterrupt
    state = json.loads(file.read_text())
    assert (state["done"], state["finished"], state["done_before"]) == (2, False, 1)


@pytest.mark.parametrize("spoken", ["en", "zh"])
@pytest.mark.parametrize("words", [
    ["--help"], *([verb.name, "--help"] for verb in VERBS), ["rules"], ["rules", "--product", "A2", "--against", "910"],
    ["standards"], ["dtypes"], ["doctor"], ["explain", BAD, "--all"], ["check", BAD], ["explain", "161002"],
], ids=" ".join)  # fmt: skip
def test_output_fits_eighty_columns(words: list[str], spoken: str, monkeypatch, capsys) -> None:
    """Every line of help, rules, standards and refusals, in both languages; problem lines stay whole, to be pasted."""
    monkeypatch.setenv("COLUMNS", "80")
    main([*words, "--language", spoken])
    shown = capsys.readouterr()
    for line in (shown.out + shown.err).splitlines():
        assert width_of(line) <= 80 or "conv n1 c2>3" in line or "/" in line, line


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_commands_in_helps_stay_whole(verb: str, monkeypatch, capsys) -> None:
    """An example without a comment beside it is one line at 80 columns too: it is copied into a shell."""
    shown = []
    for columns in ("80", "110"):
        monkeypatch.setenv("COLUMNS", columns)
        main([verb, "--help"])
        lines = capsys.readouterr().out.splitlines()
        shown.append([line for line in lines if line.startswith("  convgrad ") and "  " not in line.strip()])
    assert shown[0] == shown[1]


def test_runs_fit_eighty_columns(cases: Path, monkeypatch, capsys) -> None:
    """The table of `run`; in a pipe the same rows are lines of their own."""
    words = ["run", str(cases), "-j", "1", "-q", "--no-anatomy"]
    main(words)
    assert sum("first" in line and "on=A2" in line for line in capsys.readouterr().out.splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "80")
    main(words)
    rows = capsys.readouterr().out.split("reproduce:")[0].splitlines()
    assert len(rows) == 4 and max(map(width_of, rows)) <= 80


def test_a_line_that_is_its_own_name_is_shown_once(monkeypatch, capsys) -> None:
    """A case given as a line has no name beside it, however the line is spelled, in a pipe and at 80 columns."""
    for columns in ("", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        main(["run", GOOD, "-q", "--no-anatomy"])
        assert capsys.readouterr().out.count("c2>3") == 1


def test_lines_to_copy_stay_whole_and_colours_take_no_columns(monkeypatch) -> None:
    """`reproduce:` is not folded; a coloured text is measured as it is seen; words are cut behind a joint."""
    monkeypatch.setenv("COLUMNS", "40")
    line = f"  reproduce: convgrad run '{GOOD} want=xwb on=A2'"
    assert folded(line, "    ") == line and len(folded(line.replace("reproduce:", "then:")).splitlines()) == 2
    red = f"\x1b[31m{'a' * 20}\x1b[0m {'b' * 19}"
    assert fold(red, 40) == [red] and len(fold(red + "b", 40)) == 2
    assert fold("grad_output.dtype.950.transposed", 26) == ["grad_output.dtype.950.", "transposed"]
    assert fold("conv_transpose2d 1x128x112x112", 11) == ["conv_", "transpose2d", "1x128x112x", "112"]


def test_the_usage_lines_up_in_chinese(capsys, monkeypatch) -> None:
    """What continues a usage stands under its first option, where a character takes two columns too."""
    monkeypatch.setenv("COLUMNS", "80")
    main(["compare", "--help", "--language", "zh"])
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert width_of(first[: first.index("[-h]")]) == len(second) - len(second.lstrip())


def test_a_refusal_and_its_line(monkeypatch, capsys) -> None:
    """`check`: one row in a pipe; for a person the line stands by itself, whole."""
    main(["check", BAD])
    assert len(capsys.readouterr().out.splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "60")
    main(["check", BAD])
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("  conv n1 c2>3 ") and last.endswith("on=A2")


def test_float32_rows_show_the_share_of_the_limit(tmp_path: Path, capsys) -> None:
    """A float32 row has no ULP but the standard's own margin; a float16 row has both; the JSON has it per standard."""
    path = tmp_path / "two.txt"
    path.write_text(f"{GOOD}  # wide\n{GOOD.replace('fp32', 'fp16')}  # narrow\n")
    main(["run", str(path), "-j", "1", "-q", "--no-anatomy"])
    wide, narrow = capsys.readouterr().out.splitlines()[1:3]
    assert wide.split()[2:6] == [wide.split()[2], "%", "–", "–"] and "–" not in narrow
    names = ",".join(s.name for s in standards.ALL)
    main(["run", str(path), "-j", "1", "-q", "--no-anatomy", "--no-recheck", "--json", "--standard", names])
    for case in json.loads(capsys.readouterr().out)["cases"]:
        for found in case["results"]:
            for judged in found["judged"]:
                if judged["used"] is not None and judged["standard"] != "msprobe-ulp":
                    assert (float(judged["used"]) <= 1) == judged["passed"], judged


def test_rich_draws_tables_on_a_terminal(cases: Path) -> None:
    """Under a terminal of 80 columns the rows are drawn by rich, coloured, none too wide; without it they are plain."""
    pytest.importorskip("rich")
    script = shutil.which("script")
    if script is None:
        pytest.skip("needs script(1)")
    command = f"stty cols 80; {sys.executable} -m convgrad run {cases} -j 1 -q --no-anatomy"
    done = subprocess.run([script, "-qec", command, "/dev/null"], capture_output=True, text=True, check=False)
    plain = [line for line in done.stdout.splitlines() if "───" in line or "\x1b[32mpass" in line]
    assert len(plain) == 2, done.stdout
    drawn = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.stdout.split("reproduce:")[0].splitlines()]
    assert max(map(width_of, drawn)) <= 80


def test_no_dtype_is_cut_on_a_usual_terminal(monkeypatch, capsys) -> None:
    """At 80 columns each name and word of `dtypes` can be copied whole, in either language."""
    monkeypatch.setenv("COLUMNS", "80")
    for spoken in ("en", "zh"):
        assert main(["--language", spoken, "dtypes"]) == 0
        shown = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]]
        assert shown == [[dtype.name, dtype.word] for dtype in dtypes.ALL]
