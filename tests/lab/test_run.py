"""`convgrad run`: outcomes and exit codes, files, parallel and resumed runs, a run that is killed."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import openpyxl
import pytest

from convgrad import engines
from convgrad.cli.command_line import main
from convgrad.lab.cases import files
from convgrad.lab.cases.case import make
from convgrad.lab.judging import runs
from convgrad.lab.run import journal, workers
from convgrad.lab.run.case_run import Settings, guarded, run_case
from convgrad.lab.run.progress import Progress, clock

DATA = Path(__file__).parents[1] / "data"
GOOD = "conv n1 c2>3 i5x5 k3x3 p1 fp16 on=A2"
REFUSED = "conv n1 c1>1 i300 k300 fp16 on=A2"


def write(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "cases.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def run(capsys, *words: str) -> tuple[int, dict]:
    """Exit code and the JSON document."""
    code = main(["run", *words, "--json", "-q"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def wrong_engine(monkeypatch):
    """An engine whose results are 10 % off."""
    real = engines.run

    def run_wrong(plan, fine, coarse, weight, results, **options):
        real(plan, fine, coarse, weight, results, **options)
        for array in results.values():
            array[...] = (array.astype("f8") * 1.1).astype(array.dtype)

    monkeypatch.setattr(runs.engines, "run", run_wrong)


# ---- outcomes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines, code", [
    ((GOOD,), 0), ((GOOD, REFUSED), 3), ((REFUSED + " expect=161002",), 0), ((GOOD + " expect=161002",), 1), ((), 2),
])
def test_exit_codes(tmp_path, capsys, lines, code):
    """Pass, refused, refused as expected, expected to be refused, nothing to do."""
    assert run(capsys, write(tmp_path, *lines))[0] == code


def test_a_precision_failure(tmp_path, capsys, wrong_engine):
    """Exit code 1; the message names result, standard, date and thresholds; other cases still run."""
    code, document = run(capsys, write(tmp_path, GOOD, REFUSED, GOOD.replace("fp16", "fp32")))
    assert code == 1 and [c["outcome"] for c in document["cases"]] == ["fail", "refused", "fail"]
    assert re.match(r"grad_input fails mixed \(2026-07-15, float16\): .*rtol = 2\^-9", document["cases"][0]["message"])


def test_a_case_that_cannot_be_run(tmp_path, capsys, monkeypatch):
    """An exception in one case is its outcome and exit code 4; the others are not touched."""
    real = runs.golden

    def broken(plan, tensors):
        if plan.problem.geometry.batch == 7:
            raise RuntimeError("no such luck")
        return real(plan, tensors)

    monkeypatch.setattr(runs, "golden", broken)
    code, document = run(capsys, write(tmp_path, GOOD, GOOD.replace("n1", "n7"), GOOD))
    assert code == 4 and [c["outcome"] for c in document["cases"]] == ["pass", "error", "pass"]
    assert document["cases"][1]["message"] == "RuntimeError: no such luck"


def test_reproducers_reproduce(tmp_path, capsys, wrong_engine):
    """The printed command gives the same record: line, values, seed, metrics and verdicts."""
    tbc = "tbc n2 c3>4 i8 k3 bf16 on=A2 values=wide,narrow,integers:-2:2"
    lines = [GOOD + " values=outliers:-5:5", tbc, GOOD + " seed=77"]
    code, document = run(capsys, write(tmp_path, *lines), "--standard", "mixed,mere-mare", "--seed", "5")
    assert code == 1
    for case in document["cases"]:
        words = shlex.split(case["reproduce"])
        assert words[:2] == ["convgrad", "run"]
        again = run(capsys, *words[2:])[1]["cases"][0]
        for key in ("line", "values", "seed", "outcome", "message", "results"):
            assert again[key] == case[key], key


def test_every_result_is_judged_in_its_own_precision():
    """HF32 operands, float16 math, a bias from the original values: the column and the unit of each."""
    def found(line):
        record, _ = run_case(0, make("x", line), Settings())
        return {f["name"]: f["precision"] for f in record["results"]}

    assert found("conv n1 c2>2 i4x4 k3x3 fp32 math=hf32 on=A2") == {
        "grad_input": "hf32", "grad_weight": "hf32", "grad_bias": "float32"}
    assert found("conv n1 c2>2 i4x4 k3x3 fp32 math=hf32 on=950")["grad_input"] == "hf32_10"
    record, _ = run_case(0, make("x", "conv n1 c2>2 i9x9 k3x3 fp32 math=fp16 on=A2"), Settings())
    by_name = {f["name"]: f for f in record["results"]}
    assert by_name["grad_input"]["precision"] == "float16" and by_name["grad_input"]["metrics"]["max_ulp"] < 2, (
        "a float16-rounded result is counted in ULP of float16")


@pytest.mark.parametrize("line", [
    "conv n1 c2>2 i4x4 k3x3 fp16 want=y", "tconv n1 c2>2 i4 k3 bf16 want=y", "tbc n2 c3>4 i8 k3 fp32 want=y",
    "conv n0 c2>2 i4x4 k3x3 fp16 on=A2", "conv n1 c2>2 i4x4 k3x3 hif8", "conv n1 c2>2 i4x4 k3x3 fp8_e4m3fn",
    "conv n1 c2>2 i4x4 k3x3 fp64 want=-", "conv n1 c1>1 i1 k1 fp16 on=A2", "conv n1 c4>4 i3x4x5 k2x2x2 g2 bf16 on=A2",
])
@pytest.mark.parametrize("fill", ["normal", "special", "outliers", "cancellation"])
def test_every_kind_of_problem_runs(line, fill):
    """Forward, empty, 8-bit, one element, 3-D, nothing wanted: with ordinary and with special values."""
    settings = Settings(("mixed", "exact", "double-benchmark:L0", "small-values"))
    record, _ = guarded(0, make("x", line, fill, 3), settings)
    assert record["outcome"] in ("pass", "fail") and "Error" not in record["message"], record["message"]


# ---- choosing ------------------------------------------------------------------------------------------------


def test_products_filters_and_disabled_cases(tmp_path, capsys):
    """--product moves every case, --filter picks by name or line, disabled rows are not run."""
    _, document = run(capsys, str(DATA / "cases_ttk.csv"))
    assert [c["name"] for c in document["cases"]] == ["ttk_conv_001", "ttk_conv_002", "ttk_tbc_001"]
    _, document = run(capsys, str(DATA / "cases_ttk.csv"), "--product", "Ascend310P3", "--filter", "tbc")
    assert [(c["product"], c["status"]) for c in document["cases"]] == [("310P", 161002)]
    _, document = run(capsys, str(DATA / "cases_ttk.csv"), "--filter", "conv*fp16")
    assert [c["index"] for c in document["cases"]] == [0]
    path = write(tmp_path, "conv n1 c1>1 i3 k3 bf16 math=fp16 on=A2")
    assert run(capsys, path)[0] == 3 and run(capsys, path, "--conformance", "runtime")[0] == 0


def test_rerun_takes_what_did_not_pass(tmp_path, capsys):
    """--rerun with an earlier journal: only the refused case of three."""
    path = write(tmp_path, GOOD, REFUSED, GOOD)
    run(capsys, path, "--save", str(tmp_path / "a"))
    _, document = run(capsys, path, "--rerun", str(tmp_path / "a"))
    assert [c["index"] for c in document["cases"]] == [1]


@pytest.mark.parametrize("words", [
    ["--standard", "perfect"], ["--product", "H100"], ["--conformance", "law"], ["--values", "gauss"], ["--resume"],
    ["--seed", "-1"], ["--seed", "x"], ["-j", "-3"], ["--html", "nowhere/x.html"], ["--rerun", "nothing.jsonl"],
])
def test_wrong_options_are_usage_errors(tmp_path, capsys, words):
    """Exit code 2 and one line on standard error, before anything is run."""
    assert main(["run", write(tmp_path, GOOD), *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.strip() and "Traceback" not in shown.err


# ---- files ---------------------------------------------------------------------------------------------------


def test_tables(tmp_path, capsys):
    """One row per result; text that begins like a formula is text, in CSV and in the workbook."""
    path = write(tmp_path, f"{GOOD}   # =1+1", f"{REFUSED}   # @SUM(A1:A9)")
    main(["run", path, "--csv", str(tmp_path / "x.csv"), "--xlsx", str(tmp_path / "x.xlsx"), "-q"])
    rows = list(csv.DictReader((tmp_path / "x.csv").open(encoding="utf-8", newline="")))
    assert [r["result"] for r in rows] == ["grad_input", "grad_weight", "grad_bias", ""]
    assert rows[0]["name"] == "'=1+1" and rows[3]["name"] == "'@SUM(A1:A9)" and rows[0]["verdicts"] == "mixed pass"
    sheet = openpyxl.load_workbook(tmp_path / "x.xlsx").active
    head = [c.value for c in sheet[1]]
    cell = sheet.cell(2, head.index("name") + 1)
    assert cell.value == "=1+1" and cell.data_type == "s"
    assert sheet.cell(2, head.index("max_ulp") + 1).value == pytest.approx(float(rows[0]["max_ulp"]))
    assert not any(c.data_type == "f" for row in sheet.iter_rows() for c in row)


def test_the_terminal_table(tmp_path, capsys):
    """Data on standard output: a line per case, a reproducer per failure, the standards by name and date."""
    assert main(["run", write(tmp_path, GOOD, REFUSED), "-q"]) == 3
    shown = capsys.readouterr()
    assert shown.err == "" and "mixed (2026-07-15)" in shown.out and "\x1b" not in shown.out
    assert len(re.findall(r"^reproduce: convgrad run '", shown.out, re.M)) == 1


def test_many_cases_print_only_what_did_not_pass(tmp_path, capsys):
    """Of a hundred cases the one refused is shown."""
    main(["run", write(tmp_path, *[GOOD + " want=b"] * 99, REFUSED), "-q", "-j1"])
    out = capsys.readouterr().out
    assert out.count("\n") < 8 and "99 pass, 1 refused" in out


def test_plain_progress_lines(monkeypatch, capsys):
    """Without a terminal: counts, failures, speed and time left, now and then."""
    monkeypatch.setattr("convgrad.lab.run.progress._EVERY", 0.0)
    with Progress(3) as progress:
        progress.count("pass")
        progress.count("fail")
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith("2/3 cases, 1 fail, ") and err[-1].endswith("left")
    assert clock(3725) == "1:02:05" and clock(65) == "1:05"


def test_progress_files_are_kept_while_a_case_runs(tmp_path, monkeypatch):
    """States follow one another though no case ends; what cannot be written is told by the run, by no thread."""
    monkeypatch.setattr("convgrad.lab.run.progress._JSON_EVERY", 0.001)
    place = tmp_path / "states"
    place.mkdir()
    with Progress(2, quiet=True, file=place / "po", json_file=place / "json"):
        first = json.loads((place / "json").read_text())
        deadline = time.monotonic() + 60
        while json.loads((place / "json").read_text()) == first and time.monotonic() < deadline:
            time.sleep(0.001)
        assert json.loads((place / "json").read_text())["elapsed_seconds"] > first["elapsed_seconds"]
    assert (place / "po").read_text().endswith("CompletedCases:0")
    with pytest.raises(OSError, match="states"), Progress(2, quiet=True, json_file=place / "json") as progress:
        shutil.rmtree(place)
        progress._writer.join(60)
        assert not progress._writer.is_alive()


# ---- parallel, killed, resumed -------------------------------------------------------------------------------


def facts(record: dict) -> dict:
    """What a record says, without times."""
    return {k: v for k, v in record.items() if not k.endswith("seconds")}


def test_parallel_runs_give_the_same_records(tmp_path, capsys):
    """One process or two: the same bits, in the order of the file."""
    lines = [f"conv n{1 + i % 3} c2>3 i5x5 k3x3 p1 bf16 on=A2" for i in range(20)]
    path = write(tmp_path, *lines)
    one = run(capsys, path, "-j1")[1]["cases"]
    two = run(capsys, path, "-j2")[1]["cases"]
    assert [facts(c) for c in one] == [facts(c) for c in two] and [c["index"] for c in two] == list(range(20))


def test_threads_are_not_oversubscribed(monkeypatch):
    """Engine threads times processes never exceed the cores; few cases use one process, many one per core."""
    monkeypatch.setattr(workers, "cores", lambda: 8)
    assert workers.jobs_for(0, 25) == 1 and workers.jobs_for(0, 1000) == 8 and workers.jobs_for(3, 2) == 2
    seen = []
    monkeypatch.setattr(workers, "finish", lambda i, c, settings, save: seen.append(settings.threads) or {})
    list(workers.run_all([(0, make("x", GOOD))], Settings(), 1))
    assert seen == [8]


def test_a_worker_that_dies_takes_one_case_with_it(tmp_path, monkeypatch):
    """The case it died on is an error; the rest of the batch and all others are finished."""
    stub = tmp_path / "sitecustomize.py"
    stub.write_text(
        "import sys, os\n"
        "if 'convgrad.lab.run.worker' in ' '.join(sys.orig_argv):\n"
        "    import convgrad.lab.run.case_run as c\n"
        "    real = c.run_case\n"
        "    def die(index, case, settings):\n"
        "        if index == 5: os.kill(os.getpid(), 9)\n"
        "        return real(index, case, settings)\n"
        "    c.run_case = die\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    numbered = [(i, make(f"case {i}", GOOD + " want=b")) for i in range(12)]
    records = {r["index"]: r for r in workers.run_all(numbered, Settings(), 2)}
    assert sorted(records) == list(range(12))
    assert records[5]["outcome"] == "error" and "worker process died (exit -9)" in records[5]["message"]
    assert all(r["outcome"] == "pass" for i, r in records.items() if i != 5)


def test_a_run_is_not_written_over(tmp_path, capsys):
    """An existing journal needs --resume; one of another file or other standards is refused."""
    path = write(tmp_path, GOOD, GOOD)
    save = ["--save", str(tmp_path / "a")]
    assert run(capsys, path, *save)[0] == 0
    assert main(["run", path, *save]) == 2 and "--resume" in capsys.readouterr().err
    assert main(["run", path, *save, "--resume", "--standard", "exact"]) == 2
    assert "settings changed" in capsys.readouterr().err
    write(tmp_path, GOOD)
    assert main(["run", path, *save, "--resume"]) == 2 and "digest, cases changed" in capsys.readouterr().err


def test_a_torn_line_is_dropped(tmp_path, capsys):
    """A record cut short by a crash was not finished: its case is run again, the others are not."""
    path = write(tmp_path, GOOD, GOOD, GOOD)
    save = tmp_path / "a"
    run(capsys, path, "--save", str(save))
    log = save / journal.NAME
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole[:3]) + whole[3][:50])
    assert run(capsys, path, "--save", str(save), "--resume")[0] == 0
    again = log.read_bytes().splitlines(keepends=True)
    assert again[:3] == whole[:3] and len(again) == 4
    assert facts(json.loads(again[3])) == facts(json.loads(whole[3]))


@pytest.mark.parametrize("content", [b"", b"no json\n", b'{"a": 1}\n', b'{"convgrad_run": 1}\n[]\n', b"half"])
def test_journals_that_are_none(tmp_path, capsys, content):
    """Another file in the journal's place is a usage error, not a crash; an empty one is simply begun."""
    save = tmp_path / "a"
    save.mkdir()
    (save / journal.NAME).write_bytes(content)
    code = main(["run", write(tmp_path, GOOD), "--save", str(save), "--resume", "-q"])
    assert code == (2 if content else 0) and "Traceback" not in capsys.readouterr().err


def test_killed_and_resumed(tmp_path, capsys):
    """kill -9 in the middle: no worker survives; --resume loses nothing, repeats nothing, and the end is the same."""
    path = write(tmp_path, *[f"conv n1 c{1 + i % 4}>3 i5x5 k3x3 p1 fp16 on=A2   # c{i}" for i in range(160)])
    save = tmp_path / "a"
    words = [sys.executable, "-m", "convgrad", "run", path, "--save", str(save), "-j2", "-q", "--json"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        log = save / journal.NAME
        deadline = time.monotonic() + 60
        while not log.exists() or log.read_bytes().count(b"\n") < 20:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        children = _children(process.pid)
        process.kill()
    finished = log.read_bytes().rpartition(b"\n")[0].splitlines()[1:]
    assert 19 <= len(finished) < 160
    done = subprocess.run([*words, "--resume"], capture_output=True, check=False)
    assert done.returncode == 0
    lines = log.read_bytes().splitlines()[1:]
    assert lines[: len(finished)] == finished, "what was finished is kept as it was"
    assert sorted(json.loads(line)["index"] for line in lines) == list(range(160)), "each case once"
    whole = run(capsys, path, "-j1")[1]["cases"]
    assert [facts(c) | {"saved": 0} for c in whole] == [
        facts(c) | {"saved": 0} for c in json.loads(done.stdout)["cases"]]
    assert len(list((save / "tensors").iterdir())) == 160 and not list(save.rglob(".*"))
    for child in children:
        for _ in range(100):
            if not _alive(child):
                break
            time.sleep(0.05)
        assert not _alive(child), "a worker outlived its run"


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for path in found for word in path.read_text().split()]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, ProcessLookupError):
        return False


def test_interrupted_runs_can_go_on(tmp_path):
    """Ctrl-C: exit code 130, one line, a journal that --resume takes."""
    path = write(tmp_path, *[GOOD] * 200)
    words = [sys.executable, "-m", "convgrad", "run", path, "--save", str(tmp_path / "a"), "-j2", "-q", "--no-tensors"]
    # A shell may have started these tests with SIGINT ignored, which children inherit.
    heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=heeded) as process:
        log = tmp_path / "a" / journal.NAME
        deadline = time.monotonic() + 60
        while not log.exists() or log.read_bytes().count(b"\n") < 10:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.decode() == "convgrad: interrupted\n"
    assert subprocess.run([*words, "--resume"], stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert log.read_bytes().count(b"\n") == 201


# ---- the campaign --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_thousands_of_small_cases_in_flat_memory(tmp_path):
    """Every case finished and passed; memory after the first tenth is what it was in it.

    CONVGRAD_CAMPAIGN sets the number of cases (`make campaign-cases`: 30,000); by default it is small.
    """
    count = int(os.environ.get("CONVGRAD_CAMPAIGN", "300"))
    path = tmp_path / "cases.json"
    main(["cases", "gen", "random", "--count", str(count // 3), "--seed", "1", "-o", str(path)])
    words = [sys.executable, "-m", "convgrad", "run", str(path), "--save", str(tmp_path / "a"), "--no-tensors", "-j2"]
    log = tmp_path / "a" / journal.NAME
    early = late = done = read = 0
    start = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            if log.exists():
                with log.open("rb") as lines:
                    lines.seek(read)
                    fresh = lines.read()
                done, read = done + fresh.count(b"\n"), read + len(fresh)
            memory = sum(map(_resident, [process.pid, *_children(process.pid)]))
            if done <= count // 10:
                early = max(early, memory)
            else:
                late = max(late, memory)
            time.sleep(0.2)
        out = process.stdout.read().decode()
    seconds = time.monotonic() - start
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{count} cases in {seconds:.0f} s ({spent.ru_utime + spent.ru_stime:.0f} s of processor time), "
          f"{early / 2**20:.0f} MiB in the first tenth, {late / 2**20:.0f} MiB at most after it")
    assert process.returncode == 0 and f"{count // 3 * 3} cases: {count // 3 * 3} pass" in out
    assert late < early + 64 * 2**20
    assert sum(1 for _ in journal.read(log)[1]) == len(files.read(path))


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0
