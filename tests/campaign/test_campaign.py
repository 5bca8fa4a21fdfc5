"""The campaigns as a program: their rows, what is remembered, and that every kind of fault is a finding."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import c_calls
import campaigns
import command_lines
import damaged_files
import exact_integers
import instruction_sets
import killed_runs
import page
import python_calls
import running
import same_bits
import special_values
from campaigns import Campaign
from outcome import Outcome
from running import State

HERE = Path(__file__).resolve().parent


def good(chunk: int, size: int) -> Outcome:
    return Outcome(size)


ROWS = (
    Campaign("large", "many", "cases", 1000, 10, good),
    Campaign("small", "few", "cases", 10, 1, good),
)


@pytest.mark.parametrize("campaign", campaigns.CAMPAIGNS, ids=lambda c: c.name)
def test_every_campaign_is_in_the_tests(campaign: Campaign) -> None:
    """A row is run short by a test: the one here, or the one it names."""
    if campaign.tests:
        file, _, name = campaign.tests.partition("::")
        assert f"def {name}(" in (running.ROOT / file).read_text("utf-8")
    else:
        assert campaign.short or campaign.name == "exact-neon", "NEON wants a cross compiler and an emulator"


@pytest.mark.parametrize("campaign", [c for c in campaigns.CAMPAIGNS if c.short], ids=lambda c: c.name)
def test_short(campaign: Campaign) -> None:
    """The first cases of every campaign: no finding."""
    outcome = campaign.run(0, campaign.short)
    assert outcome.cases >= campaign.short and not outcome.wrong, "\n".join(outcome.wrong[:5])


# ---- what is remembered


def test_the_campaign_farthest_from_its_goal_is_next(tmp_path: Path) -> None:
    """Shares of the goals grow together, whatever the goals are."""
    state, order = State(tmp_path / "state.json"), []
    for _ in range(38):
        chosen = running.neediest(state, ROWS)
        order.append(chosen.name)
        state.of(chosen.name).cases += chosen.chunk
        state.of(chosen.name).chunks += 1
    assert order.count("small") == 2 and order.count("large") == 36


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Counts, findings and commits survive."""
    state = State(tmp_path / "sub" / "state.json", commits=["abc"], seconds=7.5)
    done = state.of("forks")
    done.begun, done.chunks, done.cases, done.open = 4, 3, 300, {"1": ["a child hung"]}
    state.save()
    assert State.load(state.path) == state and not list(tmp_path.rglob("*.part"))
    assert state.findings() == ["forks, chunk 1: a child hung"]


QUICK = r"""
import subprocess, sys, time
sys.path[:0] = [{here!r}, {support!r}]
import campaigns, running
from pathlib import Path

def start(campaign, chunk, directory):
    result, log = directory / f"{{chunk}}.json", directory / "log"
    words = ["sh", "-c", "sleep 0.02; echo '{{\"cases\": 7, \"wrong\": [], \"seconds\": 0.5}}' > $0", str(result)]
    process = subprocess.Popen(words, start_new_session=True)
    return running.Running(campaign, chunk, process, result, log, running.Waited())

running.start = start
running.run(running.State.load(Path({path!r})), [campaigns.find("forks")], {seconds}, 2, lambda text: None)
"""


def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    """kill -9 of a run: what was finished is kept, the next run goes on behind it and counts nothing twice."""
    path = tmp_path / "state.json"

    def script(seconds: float) -> list[str]:
        names = {"here": str(HERE), "support": str(HERE.parent / "support"), "path": str(path), "seconds": seconds}
        return [sys.executable, "-c", QUICK.format(**names)]

    process = subprocess.Popen(script(60))
    while not path.exists() or State.load(path).of("forks").chunks < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = State.load(path).of("forks")
    subprocess.run(script(1.5), check=True)
    after = State.load(path).of("forks")
    assert before.begun >= before.chunks >= 5 and before.cases == 7 * before.chunks
    assert before.seconds == 0.5 * before.chunks
    assert after.chunks > before.chunks and after.cases == 7 * after.chunks and after.begun >= after.chunks


def test_a_chunk_ends_with_its_run(tmp_path: Path) -> None:
    """The chunk of a run that was killed does not go on by itself."""
    code = f"import os, sys, time; sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent / 'support')!r}]; import running; " \
           "running.end_with(os.getppid(), 0.02); print(os.getpid(), flush=True); time.sleep(60)"  # fmt: skip
    middle = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True)"
    parent = subprocess.Popen([sys.executable, "-c", middle + "; time.sleep(60)"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    chunk = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{chunk}").exists() and "Z" not in Path(f"/proc/{chunk}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- a chunk that goes wrong




def chunk_of(tmp_path: Path, code: str) -> running.Running:
    """A chunk that runs this code in the place of a campaign."""
    result, log = tmp_path / "result.json", tmp_path / "log"
    with log.open("wb") as out:
        words = [sys.executable, "-c", code, str(result)]
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    return running.Running(ROWS[0], 3, process, result, log, running.Waited())


@pytest.mark.parametrize(
    ("code", "longest", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", 60, "ended with code -11"),
        ("raise ZeroDivisionError", 60, "ZeroDivisionError"),
        ("pass", 60, "ended with code 0"),
        ("import time; time.sleep(60)", 0.3, "hung for 0 seconds"),
    ],
)
def test_a_chunk_that_dies_or_hangs_is_a_finding(tmp_path: Path, code: str, longest: float, words: str) -> None:
    """Whatever ends a chunk, its words are kept; a later run without it settles the finding."""
    chunk = chunk_of(tmp_path, code)
    while (found := running.finished(chunk, longest)) is None:
        time.sleep(0.02)
    state = State(tmp_path / "state.json")
    running.record(state, chunk, found)
    (finding,) = state.findings()
    assert words in finding and finding.startswith("large, chunk 3: the chunk ")


def test_findings_are_settled_by_another_run(tmp_path: Path) -> None:
    """A chunk that is good now is settled; one that is not stays open."""
    state = State(tmp_path / "state.json")
    state.of("exit-orders").open = {"0": ["something"]}
    running.again(state, campaigns.CAMPAIGNS, lambda text: None)
    assert not state.findings() and state.of("exit-orders").settled == 1


def test_the_page_has_the_counts(tmp_path: Path) -> None:
    """The table replaces what was between the marks and nothing else."""
    state = State(tmp_path / "state.json", commits=["abc"])
    state.of("forks").cases = 5100
    file = tmp_path / "page.md"
    file.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", "utf-8")
    page.put(file, state)
    text = file.read_text("utf-8")
    assert "old" not in text and "| 5,100 children | 5,000 | 0 | 0 |" in text and "on commits abc." in text
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "Open:" not in text
    state.of("forks").open = {"3": ['a child\nhung at "/home/me/it/tests/c/forks.cpp"']}
    assert page.table(state).endswith('Open:\n\n- `forks` chunk 3: a child hung at "tests/c/forks.cpp"')


# ---- planted faults


def test_a_wrong_result_of_the_engine_is_found(tmp_path: Path) -> None:
    """Exactness: a program that finds one element wrong, tries fewer problems than asked, or on another set."""
    program = tmp_path / "program"
    for script, words in (
        ("echo '  to fine, element 3: 1, not 2'; exit 1", "not 2"),
        ("echo 'avx2: 2 random problems, 9 runs, every element exact'", "2 random problems"),
        ("echo 'baseline: 5 random problems, 9 runs, every element exact'", "baseline"),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        outcome = exact_integers.judged([str(program)], "avx2", 5, 0, "3e5")
        assert outcome.cases == 0 and len(outcome.wrong) == 1 and words in outcome.wrong[0]


def test_a_hostile_call_gone_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls: a gradient that is off by one (more faults in tests/calls/test_hostile_calls.py)."""
    from convgrad import functional
    from convgrad.calls import decide

    run = functional._execute
    monkeypatch.setattr(functional, "_execute", lambda *a: run(*a)._replace(bias=run(*a).bias + 1))
    decide._decisions.clear()
    outcome = python_calls.run(0, 300)
    decide._decisions.clear()
    assert any("differs from PyTorch's" in text for text in outcome.wrong)


def test_a_special_value_gone_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Special values: an engine that makes zero of what is not finite, or of subnormal numbers."""
    run = special_values.native.run

    def flush(plan, fine, coarse, weight, results, **options):  # type: ignore[no-untyped-def]
        run(plan, fine, coarse, weight, results, **options)
        for array in results.values():
            array[~np.isfinite(array) | (np.abs(array) < 1e-30)] = 0

    monkeypatch.setattr(special_values.native, "run", flush)
    outcome = special_values.run(0, 60)
    assert any("inf" in text or "nan" in text for text in outcome.wrong)
    assert any("times 2^" in text for text in outcome.wrong)


def test_bits_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same bits: a result that depends on the number of threads; digests of two instruction sets that differ."""
    import native_problems

    run = native_problems.native.run

    def unsteady(*arguments, threads=None, **options):  # type: ignore[no-untyped-def]
        run(*arguments, threads=threads, **options)
        for array in arguments[-1].values():
            if threads == 3:
                array.reshape(-1).view(np.uint8)[0] ^= 1

    with monkeypatch.context() as context:
        context.setattr(native_problems.native, "run", unsteady)
        assert "3 threads differ from one thread" in same_bits.digests(0, 2, 1e4)[1][0]
    printed = iter(["avx2\na 1\nb 2\n", "avx512\na 1\nb 3\nDIFFERS b: 3 threads\n"])
    monkeypatch.setattr(instruction_sets, "SETS", ("avx2", "avx512"))
    monkeypatch.setattr("convgrad.engines.library.isa", lambda: "avx512")
    done = subprocess.CompletedProcess
    monkeypatch.setattr(instruction_sets.subprocess, "run", lambda *a, **o: done(a, 0, next(printed), ""))
    found = " ".join(same_bits.run(0, 2).wrong)
    assert "avx512 and avx2 differ: b 2; b 3" in found and "DIFFERS b: 3 threads" in found


def test_a_journal_that_loses_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed runs: a record that is lost, a tensor that differs, a file that is left behind, another exit code."""
    for spoil, words in (
        (lambda save: (save / "results.jsonl").write_bytes(
            b"".join((save / "results.jsonl").read_bytes().splitlines(keepends=True)[:-1])), "records differ"),
        (lambda save: next(save.rglob("*.npy")).write_bytes(b""), "files differ"),
        (lambda save: (save / ".output_left").write_bytes(b""), ".output_left"),
    ):  # fmt: skip
        def spoiled(rng, cases, save, seconds, jobs, spoil=spoil):  # type: ignore[no-untyped-def]
            subprocess.run(killed_runs.command(cases, save, 1), capture_output=True, check=False)
            spoil(save)
            return 0

        monkeypatch.setattr(killed_runs, "kill_and_resume", spoiled)
        outcome = killed_runs.run(0, 1)
        assert len(outcome.wrong) == 1 and words in outcome.wrong[0], outcome.wrong


def test_a_command_that_breaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged files: a traceback, an internal error, an unknown exit code, control characters, silence, a hang."""
    monkeypatch.setattr(damaged_files, "SECONDS", 1)

    def breaks(words):  # type: ignore[no-untyped-def]
        print({"internal": "internal error: x", "escape": "\x1b[2J"}.get(words[0], ""))
        if words[0] == "raises":
            raise ZeroDivisionError
        while words[0] == "hangs":
            time.sleep(0.1)
        return {"code": 77, "silent": 2}.get(words[0], 0)

    monkeypatch.setattr(damaged_files, "main", breaks)
    ways = ("internal", "escape", "raises", "hangs", "code", "silent")
    said = {word: damaged_files.complaint([word]) for word in ways}
    assert all(said.values()) and "TimeoutError" in said["hangs"] and damaged_files.complaint(["good"]) == ""


def test_a_command_line_that_breaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Command lines: an option whose value is used unread is a finding, with the words that make it again."""
    from convgrad.cli import contract

    known = {command_lines.LINE: contract.parse(command_lines.LINE)}
    monkeypatch.setattr(contract, "parse", lambda line: known[line])
    assert any("KeyError" in text for text in command_lines.run(0, 100).wrong)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str, str], None]:
    """Programs of tests/c with a fault in them."""
    def plant(name: str, old: str, new: str) -> None:
        for file in c_calls.c_reliability.SOURCES.iterdir():
            text = file.read_text("utf-8")
            (tmp_path / file.name).write_text(text.replace(old, new) if file.name == name else text, "utf-8")
        assert new in (tmp_path / name).read_text("utf-8")
        monkeypatch.setattr(c_calls.c_reliability, "SOURCES", tmp_path)

    return plant


def test_faults_of_c_programs_are_found(planted: Callable[[str, str, str], None]) -> None:
    """C calls: an abort in a sequence, a child that waits, a call that dies without memory, a crash at exit."""
    planted("call_sequences.cpp", "void executors(State &s, Choices &c) {",
            "void executors(State &s, Choices &c) {\n    if (c.below(4) == 0) std::abort();")  # fmt: skip
    assert "exit code -6" in c_calls.sequences("", "0", 0, 200).wrong[0]
    planted("forks.cpp", "kPatience = 30", "kPatience = 1")
    joined = "    std::thread([&] { wrong ="
    planted("forks.cpp", joined, f"    if (number % 7 == 3) while (true) pause();\n{joined}")
    planted("forks.cpp", "void child() {", "int number = 0;\nvoid child() {")
    planted("forks.cpp", "if (process == 0) child();", "if (process == 0) number = i, child();")
    assert "20 children, 3 hung" in c_calls.forked(0, 20).wrong[0]
    planted("allocation_failure.cpp", "an_allocation_failed() {", "an_allocation_failed() {\n    std::abort();")
    assert "ended by signal 6" in c_calls.allocations(0, 1).wrong[0]
    planted("exit_order.cpp", "int main(", "struct Late { ~Late() { std::abort(); } } late;\nint main(")
    assert "exit code -6" in c_calls.at_exit(0, 1).wrong[0]


def test_the_command_line_tells_findings(tmp_path: Path) -> None:
    """Exit status 1 and the words of what is open; 0 when nothing is."""
    state = State(tmp_path / "state.json")
    state.save()
    words = [sys.executable, str(HERE), "--state", str(state.path), "--report"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    state.of("forks").open = {"7": ["a child hung"]}
    state.save()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "forks, chunk 7: a child hung" in done.stdout
    assert json.loads(state.path.read_text("utf-8"))["progress"]["forks"]["cases"] == 0
