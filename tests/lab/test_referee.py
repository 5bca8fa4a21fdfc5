"""The referees: what depends on the batch is found, what is wrong is found, and nothing else."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convgrad.cli.command_line import main
from convgrad.core.request import Request
from convgrad.lab.referee import audit, children, invariance, stacks

LINE = "conv n4 c3>5 i6x6 k3x3 s1 p1 d1 g1 fp32"
FAKES = '''
import os, signal, time
from dataclasses import replace
import numpy as np
from convgrad.lab.referee.stacks import ask_convgrad

def right(*call):
    return ask_convgrad(*call)

def one_wrong(*call):
    found = ask_convgrad(*call)
    for array in found.values():
        array.reshape(-1)[-1] += 1
    return found

def crashes(*call):
    os.kill(os.getpid(), signal.SIGSEGV)

def hangs(*call):
    time.sleep(600)

def refuses(*call):
    raise RuntimeError("no such kernel")

def nothing(*call):
    pass

def misspelt(*call):
    return {"dw": 1}

def weight_alone(*call):
    found = ask_convgrad(*call)
    return {name: found[name] for name in ("grad_weight",) if name in found}

def one_sample(*call):
    return {name: array[:1] for name, array in ask_convgrad(*call).items() if name != "grad_bias"}

def by_batch(request, g, x, w, wanted, threads):
    """The reduction is split where the batch has more than one sample."""
    found = ask_convgrad(request, g, x, w, wanted, threads)
    if x.shape[0] > 1 and "grad_input" in found:
        found["grad_input"] = found["grad_input"] * 3 / 3
    return found

def without_levels(request, *call):
    """Sums in the order of level 0, whatever is asked for."""
    return ask_convgrad(replace(request, deterministic=0), *call)

def bias_of_pairs(request, g, x, w, wanted, threads):
    """Level 3 but for the bias of two samples or more."""
    found = ask_convgrad(request, g, x, w, wanted, threads)
    if x.shape[0] > 1 and "grad_bias" in found:
        found["grad_bias"] = np.nextafter(found["grad_bias"], np.float32(np.inf))
    return found
'''


@pytest.fixture
def fakes(tmp_path: Path) -> str:
    (tmp_path / "fakes.py").write_text(FAKES, "utf-8")
    return str(tmp_path / "fakes.py")


@pytest.mark.parametrize(
    ("name", "verdict", "told"),
    [("right", "exact", ""), ("one_wrong", "wrong", "1 of 135 wrong"), ("crashes", "crash", "SIGSEGV"),
     ("hangs", "hang", "no answer"), ("refuses", "refused", "no such kernel")],
)  # fmt: skip
def test_every_kind_of_fault_is_told(
    fakes: str, monkeypatch: pytest.MonkeyPatch, name: str, verdict: str, told: str
) -> None:
    """A stack that is right, wrong in one element, killed, endless or refusing gets that verdict."""
    monkeypatch.setattr(children, "PATIENCE", 1)
    seconds = 5 if name == "hangs" else 120
    way = audit.Way("contiguous", "", 1)
    (found,) = audit.audit([Request.parse(LINE)], f"{fakes}:{name}", [way], seconds, repeats=1)
    assert (found.verdict, found.bad) == (verdict, verdict in ("wrong", "crash", "hang"))
    assert told in found.told


def test_a_reduction_split_by_the_batch_is_caught(fakes: str) -> None:
    """A stack whose order of sums follows from N is found, with the first bit and a command that shows it again."""
    ((_, found),) = invariance.referee([Request.parse(LINE)], f"{fakes}:by_batch", ["alone"], 120)
    assert [(d.axis, d.result) for d in found] == [("alone", "grad_input")]
    assert found[0].count > 0 and found[0].ulps >= 1 and "--axis alone" in found[0].reproducer


LEVEL_3 = "conv n7 c6>5 i9x9 k3x3 s1 p1 d1 g1 {} det=3"


@pytest.mark.parametrize("line", [LEVEL_3.format("fp32"), LEVEL_3.format("bf16"), "tbc n5 c4>8 i20 k3 p1 fp16 det=3",
                                  "tconv n6 c4>6 i7x7 k3x3 s2 p1 g2 hif8 det=3"])  # fmt: skip
def test_level_3_of_the_engine_is_the_tree_of_its_samples(line: str) -> None:
    """Nothing of the whole batch depends on how it is computed, its gradients of weight and bias included."""
    axes = ["alone", "halves", "order", "threads", "isa"]
    ((told, found),) = invariance.referee([Request.parse(line)], "convgrad", axes, 120)
    assert found == [] and told.endswith(" det=3")


@pytest.mark.parametrize(("name", "result"), [("without_levels", "grad_weight"), ("bias_of_pairs", "grad_bias")])
def test_a_level_that_is_not_kept_is_caught(fakes: str, name: str, result: str) -> None:
    """A stack whose sums over the batch are not the tree is found at level 3, and not where level 0 is asked for."""
    request = Request.parse(LEVEL_3.format("fp32"))
    ((line, found),) = invariance.referee([request], f"{fakes}:{name}", ["alone", "halves"], 120)
    assert [(d.axis, d.result) for d in found] == [("alone", result), ("halves", result)]
    assert found[0].how == "the tree of every sample alone"
    assert found[1].how == "the tree of the first 4 samples and the rest"
    assert f"'{line}'" in found[0].reproducer and line.endswith("det=3")
    ((_, usual),) = invariance.referee([replace(request, deterministic=0)], f"{fakes}:{name}", ["alone", "halves"], 120)
    assert usual == []


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "hif8"])
def test_rounded_sums_are_judged_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Where gradients are narrower than their sums, the tree is that of sums before their rounding, rounded once."""
    job = {"stack": "convgrad", "line": LEVEL_3.format(dtype), "axes": ["alone"], "layout": "contiguous",
           "save": str(tmp_path / "whole.npz")}  # fmt: skip
    assert invariance.work(job) == []
    usual = stacks.ask_convgrad

    def one_bit(request: Request, g: Any, *call: Any) -> Any:
        found = usual(request, g, *call)
        if "grad_weight" in found and len(g) > 1:
            bits = found["grad_weight"].view(f"u{found['grad_weight'].itemsize}")
            bits.reshape(-1)[3] ^= 1
        return found

    monkeypatch.setattr(stacks, "ask_convgrad", one_bit)
    (row,) = invariance.work(job)
    assert (row["axis"], row["result"], row["count"], row["first"]) == ("alone", "grad_weight", 1, [0, 0, 1, 0])


def test_stacks_without_level_3_are_not_run(fakes: str) -> None:
    """PyTorch has none; a stack of one's own is judged where its gradients are not rounded."""
    for stack, dtype, words in (("torch", "fp32", "PyTorch has no determinism level 3"),
                                (f"{fakes}:right", "fp16", "is judged in fp32 and fp64")):  # fmt: skip
        ((_, told),) = invariance.referee([Request.parse(LEVEL_3.format(dtype))], stack, ["alone"], 120)
        assert words in told


def test_the_command_takes_a_level(capsys: pytest.CaptureFixture[str]) -> None:
    """--deterministic stands in for every line's own det=; another number is a usage error."""
    words = ["invariance", LEVEL_3.format("fp32"), LINE, "--axis", "alone", "--json", "--deterministic"]
    for level, ends in (("3", [True, True]), ("0", [False, False])):
        assert main([*words, level]) == 0
        problems = json.loads(capsys.readouterr().out)["problems"]
        assert [p["line"].endswith("det=3") for p in problems] == ends
        assert all(p["differences"] == [] for p in problems)
    assert main([*words, "4"]) == 2


def test_the_first_difference_is_told_in_bits() -> None:
    """Count, place, bits of both and the distance in units of the last place; a NaN is a NaN."""
    whole = np.array([[1.0, np.nan], [2.0, -0.0]], np.float32)
    here = whole.copy()
    assert invariance.first_difference(whole, here) is None
    here[1, 0] = np.nextafter(np.float32(2), np.float32(3))
    found = invariance.first_difference(whole, here)
    assert found == {"count": 1, "size": 4, "first": [1, 0], "bits": ["0x40000000", "0x40000001"], "ulps": 1}


def test_results_of_other_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two files: samples of a batch against the same ones computed in a part."""
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.save(tmp_path / "whole.npy", whole)
    np.save(tmp_path / "part.npy", whole[2:])
    words = ["invariance", "--files", str(tmp_path / "whole.npy"), str(tmp_path / "part.npy"), "--at"]
    assert main([*words, "2"]) == 0
    assert main([*words, "1"]) == 1
    capsys.readouterr()
    assert main([*words, "3"]) == main([*words, "-1"]) == 2
    assert "a part of 2 samples at 3 is not inside a batch of 4" in capsys.readouterr().err
    main([*words, "1", "--json"])
    assert json.loads(capsys.readouterr().out)["differences"][0]["count"] == 12
    np.save(tmp_path / "part.npy", whole[:0])
    assert main([*words, "0"]) == 2 and "has no value to compare" in capsys.readouterr().err
    assert main([*words, "0", LINE]) == main(["invariance", LINE, "--at", "1"]) == 2


def test_a_model_that_asks_for_values_runs_on_real_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--device cpu, as a scan has it: what the message about the meta device names works here too."""
    pytest.importorskip("torch")
    (tmp_path / "asks.py").write_text(
        "from torch import nn\nclass Net(nn.Conv2d):\n    def __init__(self):\n        super().__init__(3, 4, 3)\n"
        "    def forward(self, x):\n        y = super().forward(x)\n        return y * y.sum().item()\n",
        "utf-8",
    )
    words = ["invariance", "--model", f"{tmp_path / 'asks.py'}:Net", "-i", "4,3,6,6", "--axis", "order"]
    assert main(words) == 2 and "--device cpu" in " ".join(capsys.readouterr().err.split())
    assert main([*words, "--device", "cpu"]) == 0 and "c3>4 i6x6 k3x3" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", ["complex128", "longdouble", "U2", "V3", "M8[s]", "V2", "bool", "int8", ">f4"])
def test_files_of_every_dtype_are_compared_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str
) -> None:
    """Numbers of up to eight bytes, and formats NumPy has no name for, bit by bit; the rest is named."""
    np.save(tmp_path / "a.npy", np.zeros((2, 3), dtype))
    code = main(["invariance", "--files", str(tmp_path / "a.npy"), str(tmp_path / "a.npy")])
    shown = "".join(capsys.readouterr())
    numbers = dtype in ("V2", "bool", "int8", ">f4")
    assert code == (0 if numbers else 2) and ("every bit" if numbers else "not a tensor of numbers") in shown


def test_a_damaged_file_of_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header that NumPy's own reader stumbles over, and one that promises more than follows."""
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    whole = (tmp_path / "a.npy").read_bytes()
    for content in (whole.replace(b"), }", b"), ("), whole[:-4], b""):
        (tmp_path / "b.npy").write_bytes(content)
        assert main(["invariance", "--files", str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]) == 2
        assert "b.npy: " in capsys.readouterr().err


def test_whole_numbers_stay_exact() -> None:
    """No sum of products can leave what float32 holds: the bound shrinks with the problem."""
    assert (audit.whole_numbers(Request.parse(LINE)).bound, audit.whole_numbers(Request.parse(LINE)).share) == (3, 1)
    for word, limit in (("fp32", 2**24), ("fp16", 2**11), ("bf16", 2**8)):
        request = Request.parse(f"conv n4 c16>8 i64x64 k1x1 s1 p0 d1 g1 {word}")
        assert audit.largest_exact(request) == limit
        numbers = audit.whole_numbers(request)
        magnitudes = audit.Numbers(tuple(map(abs, numbers.operands)), numbers.bound, numbers.share)
        assert max(a.max() for a in audit.expected(request, magnitudes).values()) <= limit / 2
        assert all(np.count_nonzero(a) for a in audit.expected(request, numbers).values())


def test_a_script_for_upstream_runs_without_convgrad() -> None:
    """The script of a finding is a program of its own; where a process ended it asks for what the audit asked for."""
    pytest.importorskip("torch")
    way = audit.Way("channels_last", "", 1)
    found = audit.Finding(f"{LINE} math=keep want=xwb on=cpu", way, "torch", "grad_weight", "wrong", "", {})
    text = audit.script(found)
    assert "convgrad" not in text
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "done" in done.stdout and "wrong" not in done.stdout, done.stderr
    assert "for mask in [[False, True, False]] * 10" in text
    text = audit.script(replace(found, gradient="", verdict="crash"))
    assert "for mask in [[False, True, False], [True, False, False], [True, True, True]] * 10" in text
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "done" in done.stdout and "wrong" not in done.stdout, done.stderr


def test_the_descriptor_is_that_of_benchdnn() -> None:
    """The known fault of a strided 1x1 window in oneDNN's own words."""
    line, way = "conv n32 c4>8 i32x32 k1x1 s2 p0 d1 g1 fp32", audit.Way("channels_last", "avx2", 1)
    told = audit.descriptor(audit.Finding(line, way, "torch", "", "crash", "SIGSEGV", {}))
    assert told.startswith("--conv --dir=BWD_W --dt=f32 --stag=axb --wtag=any --dtag=axb ")
    assert told.endswith(" mb32ic4oc8ih32oh16kh1sh2ph0iw32ow16kw1sw2pw0")


@pytest.mark.parametrize("words", [["audit", "nothing.py:f"], ["audit", "torch", "--set", "none"], ["invariance"],
                                   ["audit", "convgrad", "--repeats", "0"]])  # fmt: skip
def test_a_wrong_command_line_is_a_usage_error(words: list[str]) -> None:
    """Exit code 2, nothing is run."""
    pytest.importorskip("torch")
    assert main(words) == 2


def test_layouts_hold_the_same_values() -> None:
    """Channels last changes strides, not numbers."""
    r = Request.parse(LINE)
    for one, other in zip(stacks.operands(r, "contiguous", 3), stacks.operands(r, "channels_last", 3), strict=True):
        assert np.array_equal(one, other)
    assert stacks.operands(r, "channels_last", 3)[1].strides[1] == 4


def test_answers_that_are_none_are_told(fakes: str) -> None:
    """A stack that returns nothing, an unknown name or not what was asked for has not been found exact."""
    way, told = audit.Way("contiguous", "", 1), {}
    for name in ("nothing", "misspelt", "weight_alone"):
        (found,) = audit.audit([Request.parse(LINE)], f"{fakes}:{name}", [way], 120, repeats=1)
        told[name] = (found.verdict, found.told)
    assert told == {
        "nothing": ("not run", "a stack returns a dict of results by name, not NoneType"),
        "misspelt": ("not run", "a stack has no result 'dw': names are output, grad_input, grad_weight, grad_bias"),
        "weight_alone": ("refused", "no grad_input in its answer"),
    }
    ((_, reason),) = invariance.referee([Request.parse(LINE)], f"{fakes}:weight_alone", ["alone"], 120)
    assert reason == "neither output nor grad_input in its answer"
    ((_, reason),) = invariance.referee([Request.parse(LINE)], f"{fakes}:one_sample", ["alone"], 120)
    assert reason == "output has the shape (1, 5, 6, 6), not (4, 5, 6, 6)"


def test_every_finding_has_a_script(fakes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--scripts makes the directory and a file per finding; one that cannot be made is told before the work."""
    words = ["audit", f"{fakes}:one_wrong", LINE, "--isa", "default", "--threads", "1", "--repeats", "1", "--scripts"]
    assert main([*words, str(tmp_path / "found" / "here")]) == 1
    names = sorted(path.name for path in (tmp_path / "found" / "here").iterdir())
    assert names == ["001_wrong_contiguous_default_threads_1.sh", "002_wrong_channels_last_default_threads_1.sh"]
    text = (tmp_path / "found" / "here" / names[0]).read_text("utf-8")
    assert text.startswith("# wrong: 1 of 135 wrong") and f"convgrad audit {fakes}:one_wrong" in text
    assert f"one of 2: all in {tmp_path / 'found' / 'here'}" in capsys.readouterr().out.replace("\n", " ")
    (tmp_path / "taken").write_text("", "utf-8")
    assert main([*words, str(tmp_path / "taken")]) == 2 and "taken" in capsys.readouterr().err
