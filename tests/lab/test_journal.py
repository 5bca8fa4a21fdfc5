"""The journal of a run: one writer at a time, records that are whole, errors that name the file."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convgrad.cli.command_line import main
from convgrad.lab.run import journal
from convgrad.lab.run.journal import Journal
from convgrad.text.terminal import UsageError

LINE = "conv n1 c2>3 i5x5 k3x3 p1 fp16 on=A2"


@pytest.fixture
def saved(tmp_path, capsys):
    """A finished run of two cases: the file of cases and the directory it was saved to."""
    cases = tmp_path / "cases.txt"
    cases.write_text(f"{LINE}\n{LINE}\n")
    assert main(["run", str(cases), "--save", str(tmp_path / "a"), "-q"]) == 0
    capsys.readouterr()
    return cases, tmp_path / "a"


def test_two_runs_on_one_journal_are_refused(tmp_path):
    """The second run, fresh or resumed, is a usage error that names the journal; each case is there once."""
    cases, save = tmp_path / "cases.txt", tmp_path / "a"
    cases.write_text(f"{LINE}\n" * 150)
    words = [sys.executable, "-m", "convgrad", "run", str(cases), "--save", str(save), "-q", "--no-tensors", "-j1"]
    log = save / journal.NAME
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 60
        while not log.exists() or not log.stat().st_size:
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)  # alive, and surely not at its end
        try:
            for options in ([], ["--resume"]):
                second = subprocess.run([*words, *options], capture_output=True, text=True, check=False)
                assert second.returncode == 2, second.stderr
                assert " ".join(second.stderr.split()) == (  # folded where the path is long
                    f"convgrad: {log}: another run is writing it; wait for its end, or save elsewhere")
        finally:
            first.send_signal(signal.SIGCONT)
        assert first.wait() == 0
    assert [r["index"] for r in journal.in_order(log)] == list(range(150))


def test_a_lock_ends_with_its_process(tmp_path):
    """kill -9 leaves no lock behind: --resume goes on at once."""
    path = tmp_path / journal.NAME
    script = (
        "import sys, time; from pathlib import Path; from convgrad.lab.run.journal import Journal\n"
        "with Journal(Path(sys.argv[1]), {'digest': 'x'}): print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(UsageError, match="another run is writing it"):
            Journal(path, {"digest": "x"}, resume=True)
        process.kill()
        process.wait()
    with Journal(path, {"digest": "x"}, resume=True) as log:
        assert log.done == set()


@pytest.mark.parametrize("field", [*journal._FIELDS, *(f"results.{name}" for name in journal._RESULT_FIELDS)])
def test_a_record_without_a_field_is_no_record(saved, capsys, field):
    """The line is named, exit code 2, and the journal is left as it was; not one field may be missing."""
    cases, save = saved
    log = save / journal.NAME
    head, first, second = log.read_text().splitlines()
    record = json.loads(second)
    place = record["results"][0] if "." in field else record
    del place[field.rpartition(".")[2]]
    damaged = "\n".join([head, first, json.dumps(record)]) + "\n"
    log.write_text(damaged)
    for words in (["--save", str(save), "--resume"], ["--rerun", str(save)]):
        assert main(["run", str(cases), *words]) == 2
        err = capsys.readouterr().err
        assert f"{log}, line 3: is no record of a run: " in err and field.rpartition(".")[2] in err
    assert log.read_text() == damaged


@pytest.mark.parametrize("damage", [
    {"outcome": "perhaps"}, {"results": [1]}, {"results": [{}]}, {"index": "1"}, {"index": None}, {"results": None},
])
def test_a_record_of_other_kinds_is_no_record(saved, capsys, damage):
    """Wrong kinds of values are a usage error too."""
    cases, save = saved
    log = save / journal.NAME
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:2], json.dumps({**json.loads(lines[2]), **damage})]) + "\n")
    assert main(["run", str(cases), "--rerun", str(save)]) == 2
    assert "line 3: is no record of a run" in capsys.readouterr().err


def test_endless_journals_are_refused(tmp_path, capsys, monkeypatch):
    """A line without an end is read up to a limit."""
    monkeypatch.setattr(journal, "MOST_LINE_BYTES", 2**16)
    assert main(["run", LINE, "--rerun", "/dev/zero"]) == 2
    assert "/dev/zero, line 1: has more than 65,536 bytes" in capsys.readouterr().err


def test_a_full_disk_names_the_journal(saved, monkeypatch):
    """A record that cannot be written is an error of the journal's name."""
    _, save = saved
    head, _ = journal.read(save)
    with Journal(save / journal.NAME, {k: v for k, v in head.items() if k != "convgrad_run"}, resume=True) as log:
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(journal.os, "write", full)
        with pytest.raises(OSError, match="No space left") as error:
            log.append({"index": 7})
        monkeypatch.undo()
    assert error.value.filename == str(save / journal.NAME)


def test_resume_knows_the_problem_line_and_standard_input(tmp_path, capsys):
    """Cases that are no file are part of the digest as well: another line is another run."""
    save = ["--save", str(tmp_path / "a"), "-q"]
    assert main(["run", LINE, *save]) == 0
    assert main(["run", LINE, *save, "--resume"]) == 0
    assert main(["run", LINE.replace("n1", "n2"), *save, "--resume"]) == 2
    assert "digest changed" in capsys.readouterr().err


@pytest.mark.parametrize("option", [
    ["--values", "uniform:-5:5"], ["--product", "950"], ["--conformance", "runtime"], ["--filter", "c"],
    ["--seed", "1"],
])
def test_resume_refuses_other_options(saved, capsys, option):
    """Whatever changes cases or their numbers makes another run; the journal is not mixed."""
    cases, save = saved
    before = (save / journal.NAME).read_bytes()
    assert main(["run", str(cases), "--save", str(save), "--resume", *option]) == 2
    assert "belongs to another run" in capsys.readouterr().err
    assert (save / journal.NAME).read_bytes() == before


def test_the_journal_reader_takes_a_directory(saved):
    """`read` of the directory and of the file are the same."""
    _, save = saved
    assert list(journal.read(save)[1]) == list(journal.read(Path(save) / journal.NAME)[1])
