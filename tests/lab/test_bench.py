"""What `convgrad bench` times and shows. Never how fast anything is."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from convgrad import engines
from convgrad.cli import bench as command
from convgrad.cli.command_line import main
from convgrad.core import rounding
from convgrad.core.request import Request
from convgrad.core.status import ConvGradError
from convgrad.core.tensor import Tensor
from convgrad.functional import plan
from convgrad.lab.bench import contestants, measure
from convgrad.lab.bench.measure import Clock, Settings, on_threads, tasks

TINY = "conv n1 c2>2 i4x4 k1x1 fp32"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def instant(monkeypatch):
    """Time runs by itself: the n-th thing timed takes n milliseconds, and each is called once."""
    ticks = count(1)

    def best(call, clock, budget):
        call()
        return next(ticks) / 1000

    monkeypatch.setattr(measure, "best", best)


def test_a_line_is_three_rows_with_path_and_workspace(instant, capsys):
    """Each row names its gradients, time, rate, workspace and path; what is no data goes to standard error."""
    assert main(["bench", TINY, "--no-torch", "--rounds", "1"]) == 0
    shown = capsys.readouterr()
    head, *rows = shown.out.splitlines()
    assert head.split() == ["problem", "dtype", "want", "ms", "GF/s", "workspace", "path"]
    assert [row.removeprefix(TINY).split()[:3] for row in rows] == [
        ["fp32", "input", "1.0000"], ["fp32", "weight+bias", "2.0000"], ["fp32", "all", "3.0000"],
    ]
    made = tasks(TINY)[-1].plan
    assert rows[-1].endswith(f"{made.workspace_bytes / 1024:.0f} KiB  {', '.join(dict.fromkeys(made.paths))}")
    assert "alone" in shown.err and "median of 1 round\n" in shown.err


def test_engine_and_pytorch_take_turns(instant, capsys):
    """Three rounds of two contestants: the odd ticks are the engine's, the even ones PyTorch's, shown is the median."""
    pytest.importorskip("torch")
    assert main(["bench", f"{TINY} want=xw", "--rounds", "3", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["want"], row["ms"], row["pytorch_ms"]) == ("input+weight", 3, 4)
    assert row["ratio"] == row["pytorch_ms"] / row["ms"]
    assert row["gflops"] == pytest.approx(2 * (2 * 2 * 4 * 4) * 2 / 0.003 / 1e9)


def test_problems_come_from_files_too(instant, capsys, tmp_path):
    """Lines of a file follow those of the command line; comments and empty lines are nothing."""
    text = "# two problems\n\nconv n1 c1>1 i3 k3 fp64 want=x # one\n tbc n2 c1>1 i4 k2\n"
    (tmp_path / "problems.txt").write_text(text)
    assert main(["bench", f"{TINY} want=b", "--file", str(tmp_path / "problems.txt"), "--no-torch", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["line"], row["dtype"], row["want"]) for row in rows] == [
        (f"{TINY} want=b", "fp32", "bias"), ("conv n1 c1>1 i3 k3 fp64 want=x", "fp64", "input"),
        ("tbc n2 c1>1 i4 k2", "fp32", "all"),
    ]


def test_every_line_by_each_algorithm(instant, capsys):
    """--algorithms replaces the lines' own."""
    line = f"{TINY} want=w alg=exact-fast"
    assert main(["bench", line, "--algorithms", "direct", "fast", "--no-torch", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["line"].split()[-1] for row in rows] == ["alg=direct", "alg=fast"]


@pytest.mark.parametrize("words, code, text", [
    ([], 2, "needs a problem line"), (["conv n1 c2>2 i4x4 k1x1 fp99"], 2, "fp99"), ([f"{TINY} want=y"], 2, "want=y"),
    (["conv n1 c2>3 i4x4 k1x1 g2 fp32"], 3, "group"), (["--file", "no-such-file"], 2, "no-such-file"),
    ([TINY, "--rounds", "0"], 2, "--rounds"), ([TINY, "--threads", "x"], 2, "--threads"),
    ([TINY, "--dtypes", "int8"], 2, "int8"), ([TINY, "--clock", "sun"], 2, "sun"),
])
def test_bad_requests_are_said_before_anything_is_timed(words, code, text, capsys, monkeypatch):
    """The usual exit codes; a bad line behind a good one stops the command before the first measurement."""
    monkeypatch.setattr(command, "measure", lambda *arguments: pytest.fail("timed"))
    assert main(["bench", *([TINY] if words and words[0].startswith("conv") else []), *words]) == code
    shown = capsys.readouterr()
    assert shown.out == "" and text in shown.err


def test_bytes_that_are_no_text(capsys, tmp_path):
    """A file of something else is a usage error with its name."""
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00")
    assert main(["bench", "--file", str(tmp_path / "picture")]) == 2
    assert "picture" in capsys.readouterr().err


@pytest.mark.parametrize("word, dtype, operand", [
    ("fp32", "float32", "float32"), ("hf32", "float32", "hf32"), ("bf16", "bfloat16", "bfloat16"),
    ("fp64", "float64", "float64"), ("hif8", "hifloat8", "hifloat8"),
])
def test_a_line_moves_to_another_dtype(word, dtype, operand, instant):
    """Every tensor is in the dtype; HF32 is float32 tensors on a product that computes so. Each can be timed."""
    for task in tasks(TINY, [word]):
        r = task.plan.problem.request
        assert {spec.dtype for spec in (r.grad_output, r.input, r.weight)} == {dtype} and task.plan.operand == operand
        assert measure.measure(task, Settings(1, pytorch=False)).ms > 0


def test_hf32_stays_on_the_product_of_the_line():
    """A line's own product is kept, and a line that already says hf32 is called so."""
    assert {t.plan.problem.request.product for t in tasks(f"{TINY} on=A3", ["hf32"])} == {"A3"}
    assert {t.dtype for t in tasks(f"{TINY} math=hf32 on=A2")} == {"hf32"}
    with pytest.raises(ConvGradError):
        tasks(f"{TINY} on=310P", ["fp64"])


def test_the_best_call_counts():
    """The first call warms up and is not counted; of the others the shortest is taken."""
    moments = iter([0, 5, 5, 8, 8, 12])

    class Steps:
        def seconds(self):
            return next(moments)

    calls = []
    assert measure.best(lambda: calls.append(1), Steps(), 0) == 5 and len(calls) == 2


def test_threads_are_set_and_given_back(monkeypatch):
    """Inside, engine and PyTorch use the number asked for (one for processor time); afterwards all is as before."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CONVGRAD_NUM_THREADS", "5")
    theirs = torch.get_num_threads()
    for asked, clock, expected in ((3, Clock.WALL, 3), (None, Clock.WALL, 5), (3, Clock.CPU, 1)):
        with on_threads(asked, clock, pytorch=True) as threads:
            assert threads == expected == torch.get_num_threads()
            assert engines.info().engine != "native" or engines.info().threads == expected
        assert (torch.get_num_threads(), os.environ["CONVGRAD_NUM_THREADS"]) == (theirs, "5")


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("line", [
    "conv n2 c4>6 i5x7 k3x2 s2x1 p1x0 d1x2 g2 fp32", "conv n1 c2>3 i9 k3 fp64", "conv n1 c2>2 i3x4x5 k2x1x3 p1 fp32",
    "tconv n1 c4>3 i4x5 k3x3 s2 p1 op1 fp32", "conv n1 c2>2 i5x5 k3x3 p1x1x1x1 bf16", "tbc n2 c3>4 i6 k3 p1 fp32",
    "conv n1 c2>2 i4x4 k3x3 p1 hif8",
])
def test_contestants_compute_the_same(line, channels_last):
    """What PyTorch is timed on is the problem the engine is timed on: small integers agree exactly."""
    torch = pytest.importorskip("torch")
    made = plan(Request.parse(line))
    rng = np.random.default_rng(3)
    tensors = contestants.operands(made, channels_last)
    for tensor in tensors:
        whole = rng.integers(-1, 2, tensor.shape).astype(np.float64)
        if isinstance(tensor, Tensor):
            tensor.data[...] = rounding.store(tensor.dtype, whole)
        else:
            tensor[...] = whole
    mine = contestants.engine_call(made, tensors)()
    theirs = contestants.pytorch_call(made.problem.request, tensors)()
    for a, b in zip(mine, theirs, strict=True):
        values = a.values() if isinstance(a, Tensor) else np.asarray(a, np.float64)
        assert np.array_equal(values, b.to(torch.float64).numpy())
    if not isinstance(tensors[0], Tensor):
        kept = contestants.engine_call(made, tensors, fresh=False)
        once, twice = kept(), kept()
        assert all(a is b and np.array_equal(a, c) for a, b, c in zip(once, twice, mine, strict=True))
    if channels_last and not isinstance(tensors[0], Tensor):
        assert line.startswith("tbc") or np.moveaxis(mine[0], 1, -1).flags.c_contiguous


def test_what_pytorch_cannot_be_asked_is_left_out():
    """Uneven padding, a dtype without a kernel, another format, the forward pass: the engine is timed alone."""
    pytest.importorskip("torch")
    for line in ("conv n1 c2>2 i5x5 k3x3 p1x0x1x1 fp32", "conv n1 c2>2 i5x5 k3x3 fp8_e5m2"):
        made = plan(Request.parse(line))
        assert contestants.pytorch_call(made.problem.request, contestants.operands(made)) is None
    made = plan(Request.parse(TINY))
    request, tensors = made.problem.request, contestants.operands(made)
    assert contestants.pytorch_call(request, tensors) is not None
    assert contestants.pytorch_call(replace(request, forward=True), tensors) is None
    assert contestants.pytorch_call(replace(request, input=replace(request.input, format="NHWC")), tensors) is None


def test_without_pytorch_and_jax(instant, capsys, monkeypatch):
    """Where neither is installed the engine is timed alone, and it is said."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "jax", None)
    (task,) = tasks(f"{TINY} want=x")
    timing = measure.measure(task, Settings(1, jax=True))
    assert (timing.pytorch_ms, timing.ms_of("jax"), timing.ratio) == (None, None, None)
    assert main(["bench", TINY, "--rounds", "1"]) == 0
    shown = capsys.readouterr()
    assert "not installed" in shown.err and "PyTorch" not in shown.out


def script(name):
    """A module of benchmarks/."""
    spec = spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_recorded_run_can_be_read_back(instant, monkeypatch, tmp_path, capsys):
    """benchmarks/run.py writes a row per task with rates and errors, which compare.py turns into a page."""
    pytest.importorskip("torch")
    recorder = script("run")
    monkeypatch.setattr(recorder, "SIDE", 64)
    (tmp_path / "problems.txt").write_text(f"{TINY}\ntbc n2 c2>3 i5 k2 fp32\n")
    common = ["run.py", str(tmp_path / "problems.txt"), "--rounds", "1", "--clock", "cpu", "--no-jax"]

    def recorded(*words):
        monkeypatch.setattr(sys, "argv", [*common, "--json", str(tmp_path / "run.jsonl"), *words])
        recorder.main()
        return script("compare").rows(tmp_path / "run.jsonl")

    rows = recorded("--dtypes", "fp32", "hf32")
    assert [(r["dtype"], r["want"]) for r in rows] == [(d, w) for d in ("fp32", "hf32")
                                                       for w in ("input", "weight+bias", "all", "all")]  # fmt: skip
    assert all(max(r["error"]) < 1e-6 for r in rows if r["dtype"] == "fp32" and r["want"] == "all")
    assert {(r["threads"], r["clock"], r["of_sgemm"] > 0) for r in rows} == {(1, "cpu", True)}
    assert [r["dtype"] for r in rows if "float32_ratio" in r] == ["hf32"] * 4
    assert "geometric mean" in capsys.readouterr().out
    recorded("--append", "--dtypes", "fp32", "--channels-last")
    more = recorded("--append", "--dtypes", "fp32", "--batch", "3")[len(rows) :]
    kinds = [(r["want"], r["channels_last"], r["batch"]) for r in more]
    assert kinds == [(want, True, 1) for want in ("input", "weight+bias", "all")] + 2 * [("all", False, 3)]
    assert all(r["contiguous_ratio"] > 0 for r in more[:3]) and all(r["batch_ratio"] > 0 for r in more[3:])
    assert [r["line"].split()[1] for r in more[3:]] == ["n3", "n6"] and more[3]["pytorch_ms"] is None
    if engines.library.available():
        page = script("compare").page(rows + more, tmp_path / "run.jsonl")
        assert f"`{TINY}`" in page and "float32 by hf32 |" in page
        assert f"### fp32, channels last, {engines.info().isa}" in page and "### 3 times the batch" in page


@pytest.mark.skipif(engines.info().isa not in ("avx2", "avx512", "avx512bf16"), reason="needs AVX2")
def test_a_run_held_to_an_instruction_set(tmp_path):
    """--isa starts over with both sides held to it; --unless leaves out what would be the same again."""
    pytest.importorskip("torch")
    (tmp_path / "problems.txt").write_text(f"{TINY} want=x\n")
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), str(tmp_path / "problems.txt"), "--rounds", "1",
               "--no-jax", "--dtypes", "fp32", "--json", str(tmp_path / "run.jsonl"), "--isa", "avx2"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    (row,) = script("compare").rows(tmp_path / "run.jsonl")
    assert (row["isa"], row["held"]) == ("avx2", "avx2")
    subprocess.run([*command, "--append", "--unless", "avx2"], check=True, capture_output=True)
    assert len(script("compare").rows(tmp_path / "run.jsonl")) == 1


@pytest.mark.skipif(not engines.library.available(), reason="the native library names the paths")
def test_the_page_is_that_of_the_recorded_run():
    """docs/generated/benchmark.md was written from benchmarks/recorded.jsonl by the script as it is now."""
    pytest.importorskip("torch")
    recorded = ROOT / "benchmarks" / "recorded.jsonl"
    compare = script("compare")
    page = ROOT / "docs" / "generated" / "benchmark.md"
    assert page.read_text("utf-8") == compare.page(compare.rows(recorded), recorded), "benchmarks/compare.py --page"


def test_the_page_of_one_process_is_that_of_its_recorded_run():
    """docs/generated/one_process.md was written from benchmarks/one_process.jsonl, a run of every problem there is."""
    one_process = script("one_process")
    recorded = ROOT / "benchmarks" / "one_process.jsonl"
    rows = one_process.recorded(recorded)
    problems = (ROOT / "benchmarks" / "problems" / "in_one_process.txt").read_text("utf-8")
    assert [row["line"] for row in rows] == measure.read_lines(problems)
    page = (ROOT / "docs" / "generated" / "one_process.md").read_text("utf-8")
    assert page == one_process.page(rows), "make bench-process, or benchmarks/one_process.py --read"
