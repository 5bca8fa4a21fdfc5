"""`compare` and `golden`: files, directories, anatomy, maps, the partner, and functions for test kits."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import convgrad
import textbook
from convgrad import golden_functions
from convgrad.cli.command_line import main
from convgrad.compare import compare
from convgrad.core import dtypes, rounding
from convgrad.core.metrics import errors
from convgrad.core.plan import Result
from convgrad.lab.cases import files
from convgrad.lab.cases.case import make
from convgrad.lab.golden import tensor_files
from convgrad.lab.golden import writing as golden
from convgrad.lab.judging import runs
from convgrad.lab.judging.anatomy import anatomy
from convgrad.lab.judging.error_map import error_map
from convgrad.lab.run.case_run import Settings, judge_results, run_case

DATA = Path(__file__).parents[1] / "data"
HF32 = "conv n2 c8>6 i9x9 k3x3 p1 fp32 math=hf32 on=A2"


def planned(line: str, fill: str = "", seed: int = 1):
    case = make("a case", line, fill, seed)
    return convgrad.plan(case.request), case.tensors(seed)


# ---- the runs ------------------------------------------------------------------------------------------------


def test_the_reference_is_float64_from_rounded_operands():
    """g equals the textbook in float64 on operands that were rounded to HF32 first."""
    plan, tensors = planned(HF32)
    rounded = [rounding.round_to("hf32", t) for t in (tensors.grad_output, tensors.input, tensors.weight)]
    theirs = textbook.conv_backward(*rounded, (1, 1), ((1, 1), (1, 1)), (1, 1), False, 1)
    ours = runs.golden(plan, tensors)
    for key, expected in zip((Result.GRAD_INPUT, Result.GRAD_WEIGHT), theirs[:2], strict=True):
        assert ours[key].dtype == np.float64 and np.allclose(ours[key], expected, rtol=1e-12, atol=1e-12)
    original = textbook.conv_backward(
        *(np.asarray(t, np.float64) for t in (tensors.grad_output, tensors.input, tensors.weight)),
        (1, 1), ((1, 1), (1, 1)), (1, 1), False, 1,
    )
    assert np.allclose(runs.unrounded(plan, tensors)[Result.GRAD_INPUT], original[0], rtol=1e-12, atol=1e-12)
    assert np.allclose(ours[Result.GRAD_BIAS], original[2], rtol=1e-12), "a bias sums the original grad_output"


def test_results_left_unwritten_show():
    """Buffers start as NaN in every dtype, so a missing element is a mismatch, not a lucky zero."""
    for word in ("fp32", "fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2", "hif8"):
        plan, _ = planned(f"conv n1 c1>1 i3 k3 {word}")
        for step in plan.steps:
            assert np.isnan(rounding.load(step.stored_as, runs.poisoned(plan)[step.result])).all()


def test_integers_are_exact():
    """On small integers every standard and the bits agree: nothing rounds anywhere."""
    for line in ("conv n2 c4>6 i7x7 k3x3 p1 fp16 on=A2", "tconv n1 c4>3 i5 k3 s2 bf16 on=A2 want=x", HF32,
                 "tbc n2 c3>4 i8 k3 fp32 on=A2", "conv n1 c2>2 i5x5 k2x2 fp64"):
        record, _ = run_case(0, make("x", line, "integers:-2:2", 3), Settings(("mixed", "exact", "torch", "close")))
        assert record["outcome"] == "pass", record["message"]
        for f in record["results"]:
            assert f["metrics"]["max_abs"] == 0 and f["map"] is None and f["worst"] == []
            assert all(value == 0 for value in f["anatomy"].values())


# ---- anatomy -------------------------------------------------------------------------------------------------


def test_anatomy_names_the_stage_that_rounds():
    """HF32 rounds operands; bf16 tensors round results only; float32 neither: what is left is accumulation."""
    plan, tensors = planned(HF32)
    subject, _ = runs.subject(plan, tensors)
    hf32 = anatomy(plan, tensors, runs.golden(plan, tensors), subject)[Result.GRAD_INPUT]
    assert hf32.operand_rounding > 1000 * hf32.accumulation > 0 and hf32.result_rounding == 0
    plan, tensors = planned("conv n2 c8>6 i9x9 k3x3 p1 bf16 on=A2")
    subject, _ = runs.subject(plan, tensors)
    bf16 = anatomy(plan, tensors, runs.golden(plan, tensors), subject)[Result.GRAD_INPUT]
    assert bf16.operand_rounding == 0 and bf16.result_rounding > 100 * bf16.accumulation
    assert dict(bf16.shares)["result rounding"] > 0.99


def test_anatomy_parts_add_up_to_the_error():
    """unrounded + operand + accumulation + result rounding = the result, element by element (float16 math)."""
    plan, tensors = planned("conv n1 c4>3 i6x6 k3x3 fp32 math=fp16 on=A2")
    exact, sums = runs.unrounded(plan, tensors), runs.golden(plan, tensors)
    before, (subject, _) = runs.accumulated(plan, tensors), runs.subject(plan, tensors)
    for step in plan.steps:
        key = step.result
        stages = (sums[key] - exact[key]) + (before[key] - sums[key]) + (subject[key] - before[key])
        assert np.allclose(exact[key] + stages, subject[key], rtol=1e-12, atol=1e-12)
        assert np.array_equal(runs.as_planned(step, before[key]), subject[key]), "only the casts are left"


def test_foreign_errors_are_unexplained():
    """What a foreign result adds beyond our own stages is told apart."""
    plan, tensors = planned(HF32)
    subject, _ = runs.subject(plan, tensors)
    foreign = {key: values + 0.25 for key, values in subject.items()}
    found = anatomy(plan, tensors, runs.golden(plan, tensors), subject, foreign=foreign)
    assert found[Result.GRAD_INPUT].unexplained == pytest.approx(0.25, rel=1e-6)


# ---- error maps ----------------------------------------------------------------------------------------------


def test_error_map_points_at_the_place():
    """One element 64 ULP off in channel 2 at (1, 3) of a (1, 4, 3, 5) result."""
    golden_ = np.ones((1, 4, 3, 5))
    actual = golden_.copy()
    actual[0, 2, 1, 3] += 64 * 2.0**-10
    found = error_map(errors(actual, golden_, "float16"), golden_.shape, (1, 0, 2, 3))
    assert found is not None
    assert found.channels == "00b0" and found.plane == ("00000", "000b0", "00000")  # b = 5 + log2(64)
    assert error_map(errors(golden_, golden_, "float16"), golden_.shape, (1, 0, 2, 3)) is None


def test_error_map_of_large_results_is_binned():
    """A thousand channels and a large plane stay small; the worst of each bin is kept."""
    golden_ = np.ones((1, 1000, 30, 40))
    actual = golden_.copy()
    actual[0, 999, 29, 39] = 2.0
    found = error_map(errors(actual, golden_, "float32"), golden_.shape, (1, 0, 2, 3))
    assert found is not None
    assert len(found.channels) == 32 and found.channels[-1] == "f" and set(found.channels[:-1]) == {"0"}
    assert len(found.plane) == 8 and found.plane[-1][-1] == "f"


# ---- arrays and files ----------------------------------------------------------------------------------------


def test_compare_arrays():
    """The public function: dtype from the result, thresholds in the verdict, shapes that differ are refused."""
    golden_ = np.linspace(1, 2, 12).reshape(3, 4)
    found = compare(golden_.astype(np.float16), golden_, standard="mixed,mere-mare")
    assert found.passed and found.dtype == "float16" and "rtol = 2^-9" in found.judged[0].limits
    assert not compare((golden_ + 0.3).astype(np.float16), golden_).passed
    with pytest.raises(ValueError, match="shape"):
        compare(golden_[0], golden_)


@pytest.mark.parametrize("dtype", [row.name for row in dtypes.ALL if row.is_tensor_dtype])
@pytest.mark.parametrize("extension", ["npy", "bin"])
def test_tensor_files_repeat(tmp_path, dtype, extension):
    """What is written is read: the same elements, shape and dtype."""
    stored = rounding.store(dtype, np.linspace(-3, 3, 24).reshape(2, 3, 4))
    path = tmp_path / tensor_files.file_name("golden", 1, dtype, extension)
    tensor_files.write(path, stored, extension)
    again, found = tensor_files.read(path, None, (2, 3, 4))
    assert found.name == dtype and again.dtype == stored.dtype and again.tobytes() == stored.tobytes()
    assert tensor_files.role_and_number(path) == ("golden", 1)


def test_compare_two_files(tmp_path, capsys):
    """Exit code 0 and 1, thresholds and worst elements printed, JSON the same facts."""
    golden_ = np.random.default_rng(0).normal(size=(2, 3, 4, 4))
    np.save(tmp_path / "golden.npy", golden_)
    actual = golden_.astype(np.float32)
    np.save(tmp_path / "good.npy", actual)
    actual[1, 2, 3, 0] += 1
    np.save(tmp_path / "bad.npy", actual)
    words = [str(tmp_path / "golden.npy"), "--standard", "mixed,torch"]
    assert main(["compare", str(tmp_path / "good.npy"), *words]) == 0
    assert main(["compare", str(tmp_path / "bad.npy"), *words]) == 1
    text = capsys.readouterr().out
    assert "[1, 2, 3, 0]" in text and "rtol = 2^-10" in text and "FAIL" in text
    assert main(["compare", str(tmp_path / "bad.npy"), *words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["results"][0]["worst"][0][0] == [1, 2, 3, 0] and document["results"][0]["limits"]["torch"]


def test_double_benchmark_of_files_takes_a_partner(tmp_path, capsys):
    """Against a partner's file: twice its error fails L2, the same error passes; without one there is no verdict."""
    golden_ = np.random.default_rng(0).normal(size=500)
    np.save(tmp_path / "golden.npy", golden_)
    for name, factor in (("partner", 1), ("same", 1), ("worse", 3)):
        np.save(tmp_path / f"{name}.npy", (golden_ + factor * 1e-3).astype(np.float32))
    words = [str(tmp_path / "golden.npy"), "--standard", "double-benchmark:L2"]
    partner = ["--partner", str(tmp_path / "partner.npy")]
    assert main(["compare", str(tmp_path / "same.npy"), *words, *partner]) == 0
    assert main(["compare", str(tmp_path / "worse.npy"), *words, *partner]) == 1
    assert main(["compare", str(tmp_path / "worse.npy"), *words]) == 0
    assert "no partner run" in capsys.readouterr().out


@pytest.mark.parametrize("words", [
    ["missing.npy", "golden.npy"], ["golden.npy", "."], ["text.npy", "golden.npy"], ["raw.bin", "golden.npy"],
    ["golden.npy", "golden.npy", "--standard", "perfect"], ["short.npy", "golden.npy"], ["object.npy", "golden.npy"],
    ["golden.npy", "golden.npy", "--dtype", "fp7"],
])
def test_what_cannot_be_compared_is_a_usage_error(tmp_path, monkeypatch, capsys, words):
    """Exit code 2 and one line; a pickled array is never loaded."""
    monkeypatch.chdir(tmp_path)
    np.save("golden.npy", np.ones(4))
    np.save("short.npy", np.ones(3))
    np.save("object.npy", np.array([{}], object), allow_pickle=True)
    Path("text.npy").write_text("no array")
    Path("raw.bin").write_bytes(b"123")
    assert main(["compare", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err


# ---- golden directories --------------------------------------------------------------------------------------


@pytest.fixture
def cases_file(tmp_path):
    path = tmp_path / "cases.txt"
    bf16, long = "conv n1 c2>2 i5x5 k3x3 bf16 on=A2", "conv n1 c1>1 i300 k300 on=A2"
    path.write_text(f"{HF32}   # hf32\n{bf16}   # bf16\n{long}   # long\n")
    return path


@pytest.mark.parametrize("extension", ["npy", "bin"])
def test_golden_directories(tmp_path, cases_file, capsys, extension):
    """Names of the kits, checksums that sha256sum accepts, a manifest, refused cases told (exit code 3)."""
    out = tmp_path / "golden"
    assert main(["golden", str(cases_file), "-o", str(out), "--format", extension]) == 3
    assert "refused: long" in capsys.readouterr().out
    names = sorted(p.name for p in (out / "000001_bf16").iterdir())
    assert names == [f"golden_{i}_bfloat16.{extension}" for i in range(3)] + [
        f"input_{i}_bfloat16.{extension}" for i in range(3)]
    manifest = json.loads((out / "manifest.json").read_text())
    assert [c["status"] for c in manifest["cases"]] == [0, 0, 161002]
    for case in manifest["cases"]:
        for f in case["files"]:
            assert hashlib.sha256((out / case["directory"] / f["file"]).read_bytes()).hexdigest() == f["sha256"]
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=out, check=True)
    assert main(["golden", str(cases_file), "-o", str(out)]) == 2, "an existing directory is not written over"


def test_expected_outputs_are_the_reference_rounded_as_planned(tmp_path, cases_file):
    """The file holds the float64 sums with the planned casts; --wide the sums themselves."""
    (case, *_) = files.read(cases_file)
    list(golden.write_all(tmp_path / "a", [case]))
    list(golden.write_all(tmp_path / "b", [case], wide=True))
    plan, tensors = convgrad.plan(case.request), case.tensors(case.seed_for(0))
    sums = runs.golden(plan, tensors)
    stored, _ = tensor_files.read(tmp_path / "a" / "000000_hf32" / "golden_0_float32.npy")
    wide, _ = tensor_files.read(tmp_path / "b" / "000000_hf32" / "golden_0_float64.npy")
    assert np.array_equal(wide, sums[Result.GRAD_INPUT])
    assert np.array_equal(stored, sums[Result.GRAD_INPUT].astype(np.float32))


def test_a_run_is_compared_with_golden_data(tmp_path, cases_file, capsys):
    """`run --save`, `golden`, `compare`: the same seeds, so all pass; a changed output fails and is unexplained."""
    saved, out = tmp_path / "saved", tmp_path / "golden"
    main(["run", str(cases_file), "--save", str(saved), "-q"])
    main(["golden", str(cases_file), "-o", str(out), "--format", "bin"])
    capsys.readouterr()
    words = ["compare", str(saved), str(out), "--standard", "mixed,double-benchmark:L2", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["results"]) == 6 and all(r["anatomy"]["operand rounding"] >= 0 for r in document["results"])
    assert {r["precision"] for r in document["results"]} == {"hf32", "float32", "bfloat16"}
    target = saved / "tensors" / "000000_hf32" / "output_1_float32.npy"
    np.save(target, np.load(target) + 1)
    assert main(words) == 1
    document = json.loads(capsys.readouterr().out)
    (bad,) = [r for r in document["results"] if not r["passed"]]
    assert bad["name"].endswith("grad_weight") and bad["anatomy"]["unexplained"] == pytest.approx(1, rel=1e-3)


def test_a_missing_result_fails_and_a_missing_case_is_told(tmp_path, cases_file, capsys):
    """Of a case with other results a missing file is a failure; a case nobody ran is listed and not judged."""
    saved, out = tmp_path / "saved", tmp_path / "golden"
    main(["run", str(cases_file), "--save", str(saved), "-q"])
    main(["golden", str(cases_file), "-o", str(out)])
    ran = sorted(path for path in (saved / "tensors").iterdir() if len(list(path.iterdir())) > 1)
    shutil.rmtree(ran[-1])
    capsys.readouterr()
    assert main(["compare", str(saved), str(out)]) == 0
    assert f"without results, not judged: 1 ({ran[-1].name})" in capsys.readouterr().out
    (ran[0] / "output_1_float32.npy").unlink()
    assert main(["compare", str(saved), str(out)]) == 1
    told = capsys.readouterr().out
    assert f"{ran[0].name}/grad_weight\n  FAIL  no file holds this result" in told and "1 fail" in told
    assert main(["compare", str(saved), str(out), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["missing"] == [f"{ran[0].name}/grad_weight", ran[-1].name]
    (saved / "tensors").rename(tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "other")
    (tmp_path / "plain" / ran[0].name / "output_0_float32.npy").unlink()
    main(["compare", str(tmp_path / "plain"), str(tmp_path / "other")])
    assert "without results, not judged: 1" in capsys.readouterr().out


def test_the_recheck_over_many_seeds(tmp_path, capsys):
    """Two hundred draws of one line: an unlucky one does not fail the line, a kernel that is always worse does."""
    line = "conv n1 c2>2 i6 k3 fp32 on=A2 want=x"
    path = tmp_path / "cases.txt"
    path.write_text("".join(f"{line} seed={s}   # s{s}\n" for s in range(200)))
    saved, out = tmp_path / "saved", tmp_path / "golden"
    main(["run", str(path), "--save", str(saved), "-q", "-j1", "--no-anatomy"])
    main(["golden", str(path), "-o", str(out)])
    capsys.readouterr()
    words = ["compare", str(saved), str(out), "--standard", "double-benchmark:L2"]
    for target in list((saved / "tensors").rglob("*.npy"))[:3]:
        np.save(target, np.load(target) * np.float32(1 + 1e-3))
    assert main(words) == 0 and "re-check" in capsys.readouterr().out
    for target in (saved / "tensors").rglob("*.npy"):
        np.save(target, np.load(target) * np.float32(1 + 1e-3))
    assert main(words) == 1 and "median ratio" in capsys.readouterr().out


# ---- functions for test kits ---------------------------------------------------------------------------------


def test_functions_for_test_kits():
    """Vendor parameter names, positional as in the header, extra keywords ignored, bits of the golden files."""
    plan, tensors = planned("conv n1 c4>6 i7x7 k3x3 p1 g2 bf16 on=A2")
    g, x, w = tensors.grad_output, tensors.input, tensors.weight
    got = golden_functions.aclnnConvolutionBackward(
        g, x, w, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 2, [True, True, True], 0, kit_extra=1)
    for ours, expected in zip(got, golden.expected(plan, tensors).values(), strict=True):
        assert ours.dtype == expected.dtype and np.array_equal(ours, expected)
    named = golden_functions.golden_conv_backward(
        gradOutput=g, input=x, weight=w, biasSizes=[6], stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=2,
        outputMask=[False, True, False], wide=True)
    assert named[0] is None and named[2] is None and named[1].dtype == np.float64
    with pytest.raises(convgrad.ConvGradError):
        golden_functions.aclnnConvolutionBackward(g, x, w, [6], [1, 1], [9, 9], [1, 1], groups=2)
    plan, tensors = planned("tbc n2 c3>4 i8 k3 p1 fp32 on=A2")
    got = golden_functions.aclnnConvTbcBackward(
        self=tensors.grad_output, input=tensors.input, weight=tensors.weight, bias=np.zeros(4, np.float32), pad=1,
        cubeMathType=0)
    for ours, expected in zip(got, golden.expected(plan, tensors).values(), strict=True):
        assert np.array_equal(ours, expected)


def test_partner_is_the_chained_float32_run():
    """The partner of a double benchmark adds one product at a time in float32: never better than the reference."""
    plan, tensors = planned("conv n1 c16>8 i10x10 k3x3 fp32 on=A2")
    settings = Settings(("double-benchmark:L0",))
    subject, _ = runs.subject(plan, tensors)
    ratios = judge_results(plan, tensors, subject, settings)[0].judged[0].ratios
    assert len(ratios) == 3 and all(0 < r <= 10 for r in ratios)
    worse = {key: values * np.float32(1 + 1e-4) for key, values in subject.items()}
    assert judge_results(plan, tensors, worse, settings)[0].judged[0].passed is False
