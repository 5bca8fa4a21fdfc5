"""What a new user stumbles over: empty selections, wrong names, unquoted lines, packages that are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import convgrad
from convgrad.cli.command_line import main
from convgrad.core.request import Request
from convgrad.text.terminal import ExitCode

LINE = "conv n1 c2>3 i5x5 k3x3 p1 fp32 on=A2"
MODEL = "from torch import nn\nimport parts\nnet = nn.Sequential(nn.Conv2d(3, parts.WIDTH, 3))\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text(f"{LINE}  # first\n")
    return path


def without(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process where a package is not installed."""
    code = (
        f"import sys; sys.modules[{package!r}] = None; import importlib.util as u; found = u.find_spec; "
        f"u.find_spec = lambda name, *rest: None if name == {package!r} else found(name, *rest); "
        f"from convgrad.cli.command_line import main; sys.exit(main({list(words)!r}))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_selection_that_matches_nothing_is_a_usage_error(lines: Path, tmp_path: Path, capsys) -> None:
    """A filter that fits no case, and a file without cases: exit code 2 and why; not 0 over nothing."""
    assert main(["run", str(lines), "--filter", "nothing"]) == ExitCode.USAGE
    assert "none of 1 case is selected" in capsys.readouterr().err
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing here\n")
    assert main(["run", str(empty)]) == ExitCode.USAGE
    assert "no cases" in capsys.readouterr().err


def test_a_json_file_with_nothing_in_it(tmp_path: Path, capsys) -> None:
    """An empty .json has no cases, as an empty .txt; it is not told where a value was expected."""
    empty = tmp_path / "empty.json"
    empty.touch()
    assert main(["run", str(empty)]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"convgrad: {empty}: no cases in it\n"


@pytest.mark.parametrize("words", [
    ["golden", "{}", "-o", "{}.dir"], ["cases", "list", "{}"], ["cases", "convert", "{}", "-o", "{}.json"],
    ["bench", "--file", "{}"], ["invariance", "{}"], ["audit", "convgrad", "{}"],
    ["cases", "gen", "random", "--count", "0", "-o", "{}.json"],
])  # fmt: skip
def test_no_verb_succeeds_over_nothing(words: list[str], tmp_path: Path, capsys) -> None:
    """A file without cases is a usage error of every verb that reads one, and nothing is written."""
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    assert main([word.format(empty) for word in words]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "no cases in it" in shown or "no problem line in it" in shown or "nothing to generate" in shown
    assert list(tmp_path.iterdir()) == [empty]


def test_a_file_where_a_line_is_asked_for(lines: Path, capsys) -> None:
    """`check FILE` and `bench FILE` name the command that reads it."""
    for verb, told in (("check", "convgrad cases list"), ("explain", "convgrad cases list"),
                       ("plan", "convgrad cases list"), ("bench", "convgrad bench --file")):  # fmt: skip
        assert main([verb, str(lines)]) == ExitCode.USAGE
        assert f"`{told} {lines}`" in capsys.readouterr().err, verb


@pytest.mark.parametrize(("line", "told"), [
    ("conv n2 c8>16 i14,14 k3x3", "sizes are written with x between them, as in 14x14"),
    ("conv n2 c8>16 i14X14 k3x3", "'i14X14': sizes are written with x"),
    ("conv n2 c8>16", "i, k missing: n, c, i and k go together"), ("conv c8>16 i14 k3", "n missing"),
    ("conv n2 c8 > 16 i14 k3", "unknown dtype '>'"), ("conv n2 c8>16 i14 k3 pp1", "other words: a letter and a number"),
    ("conv n2 c8>16 i14 k3 math=kep", "use math=keep, math=allow_down"),
    ("conv n2 c8>16 i14 k3 rev=yesterday", "use a date, as in rev=2026-08-22"),
    ("conv n2 c8＞16 i14 k3", "'c8＞16' has full-width characters: write 'c8>16'"), ("", "not ''"),
])  # fmt: skip
def test_a_line_that_cannot_be_read(line: str, told: str, capsys) -> None:
    """The word is named with how it is written; no status of a product is told for it."""
    assert main(["check", line]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert told in " ".join(shown.split()) and "16100" not in shown


def test_any_space_stands_between_words() -> None:
    """A tab and a Chinese keyboard's space are spaces."""
    assert Request.parse(LINE.replace(" ", "\t")) == Request.parse(LINE.replace(" ", "\u3000")) == Request.parse(LINE)


@pytest.mark.parametrize(("verb", "closed", "code"), [
    ("check", ">&-", ExitCode.PASS), ("check", ">&- 2>&-", ExitCode.PASS), ("chekc", ">&- 2>&-", ExitCode.USAGE),
    ("run -", "<&-", ExitCode.USAGE),
])  # fmt: skip
def test_streams_that_are_closed(verb: str, closed: str, code: int) -> None:
    """A job without standard streams gets its exit code; a closed standard input has no cases in it."""
    line = "" if verb == "run -" else f"'{LINE}'"
    words = f"{sys.executable} -m convgrad {verb} {line} {closed}"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr


def test_a_mistake_is_not_lost_under_the_usage(capsys) -> None:
    """A long usage is told in one line above the mistake, with what must be given; a short one whole."""
    assert main(["kernel", "a.cpp", "--cores", "x"]) == ExitCode.USAGE
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "usage: convgrad kernel [...] --line LINE file" and len(shown) <= 4, shown
    assert shown[-1] == "`convgrad kernel --help` lists the options."
    assert main(["doctor", "x"]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("usage: convgrad doctor [-h]")


@pytest.mark.parametrize("name", ["out.yaml", "out.parquet"])
def test_cases_are_not_written_under_a_wrong_name(name: str, lines: Path, tmp_path: Path, capsys) -> None:
    """A suffix of another format is refused, and no file is left; --to says what it shall hold."""
    assert main(["cases", "convert", str(lines), "-o", str(tmp_path / name)]) == ExitCode.USAGE
    assert ".json, .csv, .xlsx or .txt" in capsys.readouterr().err and not (tmp_path / name).exists()
    assert main(["cases", "convert", str(lines), "-o", str(tmp_path / name), "--to", "lines"]) == 0


def test_channels_may_be_written_without_a_redirection() -> None:
    """`c8-16` is `c8>16`; a first minus stays a sign; the line is printed in its usual form."""
    assert str(Request.parse(LINE.replace(">", "-"))) == str(Request.parse(LINE))
    assert Request.parse("conv n1 c-2>3 i5 k3").input.shape[1] == -2  # type: ignore[union-attr]
    assert Request.parse("conv n1 c-2 i5 k3").input.shape[1] == -2  # type: ignore[union-attr]


def test_words_that_arrive_apart_are_told_to_be_quoted(capsys) -> None:
    """An unquoted line: exit code 2 and how to write it."""
    for verb in ("explain", "check", "plan", "bench", "run", "tile"):
        assert main([verb, *LINE.split()]) == ExitCode.USAGE
        assert "quote the line" in capsys.readouterr().err, verb
    assert main(["check", LINE, LINE]) == 0  # two lines are two lines


@pytest.mark.parametrize(("words", "meant"), [
    (["chekc", LINE], "check"), (["run", "x.txt", "--fliter", "a"], "--filter"),
    (["rules", "--operator", "tbcc"], "tbc"), (["run", LINE, "--standard", "mixd"], "mixed"),
    (["check", LINE, "--product", "A22"], "A2"), (["run", LINE, "--product", "951"], "950"),
    (["dtypes", "floot16"], "float16"), (["run", LINE, "--conformance", "runtme"], "runtime"),
    (["help"], "--help"), (["version"], "--version"), (["check", "cnov n1 c2>3 i5 k3"], "conv"),
    (["dump", ".", "--on", "A33"], "A3"), (["check", LINE.replace("fp32", "bf15")], "bf16"),
])  # fmt: skip
def test_the_word_that_was_meant(words: list[str], meant: str, capsys) -> None:
    """A wrong verb, option, choice or standard: exit code 2 and the closest known word."""
    assert main(words) == ExitCode.USAGE
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_the_product_that_was_meant_in_python() -> None:
    """A function names the closest product too; an object that is no name has none."""
    ones = np.ones((1, 1, 4, 4), np.float32)
    for product, told in (("A22", r"product 'A22' \(did you mean A2\?\)"), (object(), "unknown product <object")):
        with pytest.raises(convgrad.ConvGradError, match=told):
            convgrad.conv_backward(ones, ones, ones, product=product)  # type: ignore[arg-type]


def test_a_word_nobody_knows_is_named(capsys) -> None:
    """Beside a dtype too, where it is no second one; two dtypes are still told."""
    assert main(["check", f"{LINE} pvalid"]) == ExitCode.USAGE
    assert "unknown dtype 'pvalid'" in capsys.readouterr().err
    assert main(["check", f"{LINE} bf16"]) == ExitCode.USAGE
    assert "'bf16' and 'fp32' say the same thing twice" in capsys.readouterr().err


def test_fillings_are_listed_once(capsys) -> None:
    """A wrong filling: what was meant, and each known word once, though some are a kind and a set."""
    assert main(["run", LINE, "--values", "unifrom:-1:1"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    known = " ".join(shown.split()).partition("known: ")[2].split(", ")
    assert "unknown values 'unifrom:-1:1' (did you mean uniform?)" in " ".join(shown.split())
    assert len(known) == len(set(known)) > 8


def test_an_engine_nobody_knows_is_a_usage_error(monkeypatch, capsys) -> None:
    """CONVGRAD_ENGINE with another word: exit code 2 and the words there are, no internal error."""
    monkeypatch.setenv("CONVGRAD_ENGINE", "quick")
    for words in (["run", LINE], ["doctor"]):
        assert main(words) == ExitCode.USAGE
        assert "CONVGRAD_ENGINE='quick': use one of native, reference" in capsys.readouterr().err


def test_a_workbook_that_cannot_be_written_is_told_before_the_run(lines: Path, tmp_path: Path) -> None:
    """Without openpyxl `run --xlsx` stops at once: nothing is run, nothing is written."""
    done = without("openpyxl", "run", str(lines), "--csv", str(tmp_path / "t.csv"), "--xlsx", str(tmp_path / "t.xlsx"))
    assert done.returncode == 2 and "--xlsx needs openpyxl: pip install 'convgrad[report]'" in done.stderr
    assert not (tmp_path / "t.csv").exists() and "pass" not in done.stdout


def test_numbers_that_are_none(capsys) -> None:
    """A seed that is no number is told in words, not by the name of a function."""
    assert main(["run", LINE, "--seed", "x"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "_seed" not in shown and "must be a whole number between 0 and 2**63 - 1, not 'x'" in shown


@pytest.mark.parametrize("words", [
    ["golden", LINE, "-o", "nowhere", "--seed", "x"], ["cases", "gen", "random", "--count", "-1"],
    ["tile", LINE, "--cores", "x"],
])  # fmt: skip
def test_wrong_numbers_of_other_verbs(words: list[str], capsys) -> None:
    """The same words for every number: no names of types."""
    assert main(words) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "must be a whole number between 0 and" in shown or "expected one argument" in shown


@pytest.mark.parametrize("line", [
    "tbc n1 c16>16 i6 k3", "conv n1 c16>16 i2x6x6 k3x3x3 p1 fp32 on=A2", "conv n1 c16>16 i2x6x6 k3x3x3 p1 fp16 on=950",
    "conv n1 c16>16 i2x6x6 k3x3x3 p1 g2 fp16 on=A2",
])  # fmt: skip
def test_what_this_program_cannot_do_has_no_vendor_status(line: str, capsys) -> None:
    """Problems no tile kernel is written for: exit code 2 and why, without a status of the product."""
    assert main(["tile", line]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "161002" not in shown and "reproduce: " in shown


def test_refused_files_of_a_kit_get_a_hint(tmp_path: Path, capsys) -> None:
    """One line about --conformance runtime where a kit's file is refused under the documents; none under runtime."""
    kit = Path(__file__).parents[1] / "data" / "cases_atk.json"
    assert main(["run", str(kit), "-j", "1", "-q", "--no-anatomy"]) == ExitCode.REFUSED
    assert capsys.readouterr().out.count("--conformance runtime") == 1
    main(["run", str(kit), "-j", "1", "-q", "--no-anatomy", "--conformance", "runtime"])
    assert "hint" not in capsys.readouterr().out


def test_files_written_are_announced_and_counted_in_words(lines: Path, tmp_path: Path, capsys) -> None:
    """--csv and --xlsx name their files on standard error; one case is `1 case`."""
    words = ["run", str(lines), "--csv", str(tmp_path / "t.csv"), "--xlsx", str(tmp_path / "t.xlsx"), "--no-anatomy"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert f"table: {tmp_path}/t.csv" in shown.err and f"workbook: {tmp_path}/t.xlsx" in shown.err
    assert "\n1 case: 1 pass" in shown.out


def test_without_pytorch_and_without_dask() -> None:
    """`scan --help` needs no PyTorch; `scan`, `run --pytorch` and the Dask door say what to install."""
    done = without("torch", "scan", "--help")
    assert done.returncode == 0 and "file.py:name" in done.stdout, done.stderr
    for words in (["scan", "model:net", "--input", "1,3,8,8"], ["run", LINE, "--pytorch"]):
        done = without("torch", *words)
        assert done.returncode == 2 and "pip install 'convgrad[torch]'" in done.stderr, done
    code = "import sys; sys.modules['dask'] = None; import convgrad.dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "convgrad.dask needs Dask: pip install 'convgrad[dask]'" in done.stderr


def test_a_model_in_a_file_elsewhere(tmp_path: Path, capsys) -> None:
    """`path/to/file.py:name` is scanned, with what it imports from beside it; an unknown product is a usage error."""
    pytest.importorskip("torch")
    (tmp_path / "a_model_elsewhere.py").write_text(MODEL)
    (tmp_path / "parts.py").write_text("WIDTH = 4\n")
    model = f"{tmp_path}/a_model_elsewhere.py:net"
    assert main(["scan", model, "--input", "1,3,8,8", "--product", "A2"]) in (0, 3)
    assert "3>4" in capsys.readouterr().out.replace("4, 3, 3, 3", "3>4").replace("4x3x3x3", "3>4")
    assert main(["scan", model, "--input", "1,3,8,8", "--product", "XX"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "unknown product" in shown and "161002" not in shown
    assert main(["scan", model, "--input", "1,3,8,8", "--dtype", "floot"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "did you mean float64?" in shown and "161002" not in shown
    assert main(["scan", model, "--input", "1,3,8,8", "--dtype", "fp16"]) == 0
    assert "float16" in capsys.readouterr().out


def test_names_of_files_cannot_act_on_a_terminal(tmp_path: Path, monkeypatch, capfd) -> None:
    """What is announced as written is printed without its control characters; the file keeps its name."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", LINE, "-q", "--csv", "\x1b[2Jdocument"]) == 0
    shown = capfd.readouterr().err
    assert "table: \\x1b[2Jdocument" in shown and "\x1b" not in shown
    assert (tmp_path / "\x1b[2Jdocument").exists()
