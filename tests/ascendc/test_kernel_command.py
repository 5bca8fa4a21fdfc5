"""`convgrad kernel`: the author's C++ file compiled, run, checked; mistakes, crashes and endless loops as results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from c_programs import ROOT
from convgrad.ascendc import tiling_to_bytes
from convgrad.ascendc.line_runs import plan_line
from convgrad.cli.command_line import main
from convgrad.cli.kernel_source import entries, role_of
from convgrad.text.language import chinese

KERNELS = ROOT / "tests" / "kernels"
LINE = "conv n1 c20>24 i3x9x8 k2x3x3 s1x2x1 p0x1x1 fp16"
INPUT = (KERNELS / "documented_input.cpp").read_text("utf-8").partition('#include "files.h"')[0]
WALK = "            while (gradInput_.Iterate(mistaken(\"partial_sum\"))) {"


def answer(capsys, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error of one command line."""
    code = main(["kernel", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def changed(directory: Path, old: str, new: str) -> str:
    """The documented kernel with a piece of its text replaced, as a file."""
    assert INPUT.count(old) == 1, old
    (directory / "my_kernel.cpp").write_text(INPUT.replace(old, new))
    return str(directory / "my_kernel.cpp")


def line_of(words: str) -> int:
    """The line of the documented kernel that holds these words."""
    return 1 + next(number for number, line in enumerate(INPUT.splitlines()) if words in line)


def test_the_documented_kernel(capsys, tmp_path, monkeypatch):
    """Report, picture of its walks, golden tiles and trace; the file is compiled as it is, with a main of its own."""
    monkeypatch.setenv("COLUMNS", "80")
    svg, golden, trace = tmp_path / "walk.svg", tmp_path / "golden", tmp_path / "trace.jsonl"
    words = ("--svg", str(svg), "--golden", str(golden), "--trace", str(trace))
    code, out, err = answer(capsys, str(KERNELS / "documented_input.cpp"), "--line", LINE, "--cores", "3", *words)
    assert code == 0, out
    assert all(len(line) <= 80 for line in out.splitlines() if str(KERNELS) not in line)
    for head in ("kernel  ", "problem ", "compiled", "ran     ", "coverage", "cores   ", "loads   ", "check   "):
        assert f"\n{head}" in f"\n{out}", head
    assert "3 of 3 work on" in out and "gradInput == what the functional API" in out and "found" not in out
    assert svg.read_text().startswith("<svg") and "wrote" in err
    tiles = json.loads((golden / "index.json").read_text())
    assert {tile["core"] for tile in tiles} == {0, 1, 2}
    assert json.loads(trace.read_text().splitlines()[0])["blocks"] == 3


def test_the_filter_kernel_in_bfloat16_as_json(capsys, tmp_path):
    """gradWeight by the result's name; a macro reaches the compiler; JSON has every part of the answer."""
    words = ("--line", LINE.replace("fp16", "bf16"), "--cores", "4", "--define", "NUMBER=bfloat16_t", "--json",
             "--svg", str(tmp_path / "walk.svg"))  # fmt: skip
    code, out, _ = answer(capsys, str(KERNELS / "documented_filter.cpp"), *words)
    told = json.loads(out)
    assert code == 0 and told["ok"] and told["check"]["equal"] and told["findings"] == []
    assert told["kernel"] == "Conv3DBackpropFilter" and told["dtype"] == "bfloat16" and told["compile"]["ok"]
    assert told["run"]["ended"] and told["walks"] > 4 and "summed" in told["coverage"][0] and told["cores_used"] == 4


def test_a_mistake_is_told_with_its_line(capsys, tmp_path):
    """A start row without its pad: the rule at file and line, the gradient differs, exit code 1."""
    path = changed(tmp_path, "int32_t(firstRow) - int32_t(t.backpropPadUp)", "int32_t(firstRow)")
    code, out, _ = answer(capsys, path, "--line", LINE, "--cores", "2")
    place = f"{path}:{line_of('gradInput_.GetTensorC(')}: start.top_pad"
    assert code == 1 and place in "".join(out.split("\n          ")).replace(" ", "").replace(":start", ": start")
    assert "of gradInput differ" in " ".join(out.split())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gradInput_.SetWeight(weightGm_", "gradInput_.SetWeights(weightGm_",
         ("compiled  not: g++ says", "SetWeights")),
        ("gradInput_.SetWeight(weightGm_[offsetB_]);", "*(volatile int *)nullptr = 1;",
         ("SIGSEGV", "core 0, SetGradOutput at", "check     not run")),
        (WALK, "            while (true) {",
         ("did not end within 2 seconds", "GetTensorC at", "order.no_tile: core 0")),
        ("gradInput_.SetWeight(weightGm_[offsetB_]);", "std::exit(3);", ("exit code 3",)),
        ("gradInput_.SetWeight(weightGm_[offsetB_]);", "std::exit(0);", ("exit code 0", "SetGradOutput at")),
    ],
    ids=["compile error", "crash", "endless loop", "exit", "exit as if all were well"],
)  # fmt: skip
def test_failures_are_results(capsys, tmp_path, old, new, words):
    """A compile error shows the author's line, a crash and a loop without end the last call; exit code 1."""
    path = changed(tmp_path, old, new)
    code, out, _ = answer(capsys, path, "--line", LINE, "--cores", "2", "--timeout", "2")
    plain = " ".join(out.split())
    assert code == 1 and f"{path}: conv3d_dx(weight, gradOutput, gradInput, tiling)" in plain
    for piece in words:
        assert " ".join(piece.split()) in plain, out
    if "compiled  not" in words[0]:
        assert f"{path}:{line_of('SetWeight(weightGm_[offsetB_])')}:" in out
        assert "kernel.cpp" in out and "convgrad-kernel-" not in out


def test_a_write_behind_the_result_is_told(capsys, tmp_path):
    """Bytes behind gradInput, written through a plain pointer: once, by the argument's name, at the kernel's line."""
    behind = "uint64_t(t.batch) * t.di * t.cin1 * t.hi * t.wi * t.c0"
    path = changed(tmp_path, "gradInput_.End();", f"gradInput_.End(); *gradInputGm_.GetPhyAddr({behind}) = 1;")
    code, out, _ = answer(capsys, path, "--line", LINE, "--cores", "2", "--json")
    (one,) = json.loads(out)["findings"]
    assert code == 1 and one["rule"] == "gm.range" and one["core"] is None, one
    assert one["text"].startswith("bytes past the end of gradInput (") and one["text"].endswith(" were overwritten")
    assert one["place"] == f"{path}:{line_of('void conv3d_dx(')}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k.cpp:5: sync.stuck: 1 of 3 cores wait for ever (core 1 in SyncAll), the others have ended",
         "k.cpp:5: sync.stuck: 3 个核中的 1 个永远等待（core 1 in SyncAll），其余已结束"),
        ("it aborted (SIGABRT); its last call: core 1, Iterate at k.cpp:41",
         "它中止了（SIGABRT）；最后一次调用：core 1，Iterate 在 k.cpp:41"),
        ("it ended the process with exit code 0; its last call: vector core of block 3, an object was made at k.cpp:4",
         "它以退出码 0 结束了进程；最后一次调用：块 3 的向量核，在 k.cpp:4 构造对象"),
    ],
)  # fmt: skip
def test_the_words_in_chinese(text, words):
    """A place before a sentence that begins with a number, the last call of a kernel that died."""
    assert chinese(text) == words


TEMPLATE = """
template <typename T>
__global__ __aicore__ void templated(__gm__ uint8_t *w, GM_ADDR dedy, GM_ADDR y, GM_ADDR workspace,
                                     Conv3DBackpropInputTilingData data, int32_t planes) {
    Conv3DDx op;
    if (planes != 3) return;
    op.Init(w, dedy, y, &data);
    op.Process();
}
void launch(uint8_t *any, Conv3DBackpropInputTilingData data) {
    templated<half><<<1, nullptr, nullptr>>>(any, any, any, any, data, 3);
}
"""


def test_template_instances_records_by_value_and_own_tilings(capsys, tmp_path):
    """An entry that is an instance, short names, a record and a number by value, launches in brackets, own records."""
    path = tmp_path / "two.cpp"
    path.write_text(INPUT + TEMPLATE)
    record = plan_line(LINE, 2).plan.record
    (tmp_path / "record.bin").write_bytes(tiling_to_bytes(record))
    given = {name: getattr(record, name) for name in record.__dataclass_fields__}
    (tmp_path / "record.json").write_text(json.dumps({"conv3DDxTiling": {**given, "iterateOrder": 7}}))
    entry = ("--entry", "templated<half>", "--args", "w,dedy,y,workspace,tiling,3")
    words = (str(path), "--line", LINE, "--cores", "2", *entry)
    code, out, _ = answer(capsys, *words, "--tiling", str(tmp_path / "record.bin"))
    call = "templated<half>(weight, gradOutput, gradInput, workspace, tiling, 3)"
    assert code == 0 and call in " ".join(out.split()), out
    code, out, _ = answer(capsys, *words, "--tiling", str(tmp_path / "record.json"), "--json")
    first = json.loads(out)["findings"][0]
    assert code == 1 and first["rule"].startswith("tiling.") and "iterateOrder" in first["text"]


def test_files_and_numbers_that_cannot_be_used(capsys, tmp_path):
    """Endless files, JSON nested deeply, no compiler, a workspace beyond 64 bits: a sentence, before compiling."""
    (tmp_path / "deep.json").write_text('{"a":' * 5000)
    (tmp_path / "kernel.cpp").write_text(INPUT)
    kernel = (str(tmp_path / "kernel.cpp"), "--line", LINE)
    for words, said in (
        ((*kernel, "--tiling", str(tmp_path / "deep.json")), "is nested too deeply"),
        ((*kernel, "--tiling", "/dev/zero"), "/dev/zero: has more than 1,048,576 bytes"),
        (("/dev/zero", "--line", LINE), "/dev/zero: has more than 16,777,216 bytes"),
        ((*kernel, "--cxx", " "), "there is no compiler"),
        ((*kernel, "--workspace", str(2**64)), "--workspace"),
        ((*kernel, "--timeout", "nan"), "--timeout"),
    ):
        code, _, err = answer(capsys, *words)
        assert code == 2 and said in " ".join(err.split()), (words, err)


def test_a_trace_replaces_a_file_whole_or_not_at_all(capsys, tmp_path):
    """A full device keeps its name in the error; a link is written through."""
    kernel = (str(KERNELS / "documented_input.cpp"), "--line", LINE, "--cores", "2")
    (tmp_path / "link").symlink_to(tmp_path / "trace.jsonl")
    assert answer(capsys, *kernel, "--trace", str(tmp_path / "link"))[0] == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "trace.jsonl").stat().st_size > 0
    code, _, err = answer(capsys, *kernel, "--trace", "/dev/full")
    assert code == 2 and "/dev/full" in err


def test_what_a_kernel_was_given_and_what_was_not_counted_is_said(capsys, tmp_path, monkeypatch):
    """A record that Init refuses was not the kernel's own; columns over window planes have no terms to be counted."""
    monkeypatch.setenv("COLUMNS", "200")
    own = changed(tmp_path, "    GET_TILING_DATA(", "    tiling += 8;\n    GET_TILING_DATA(")
    code, out, _ = answer(capsys, own, "--line", LINE, "--cores", "1")
    assert code == 1 and "it was given the documented record: --tiling FILE has a record of its own" in out, out
    words = (str(KERNELS / "operator_filter.cpp"), "--line", "conv n1 c16>16 i3x5x5 k2x3x3 fp16", "--cores", "2")
    code, out, _ = answer(capsys, *words)
    assert code == 0 and "; terms were not counted; 2 cores" in out and "0 terms" not in out, out


@pytest.mark.parametrize("kernel", ["operator_input", "operator_filter", "operator_ncdhw"])
def test_kernels_in_the_older_spelling(capsys, kernel):
    """Several planes a walk, columns over window planes, vector cores that turn raw tiles: right, and replayed."""
    line = "conv n1 c20>24 i4x8x6 k2x3x3 s1x1x1 p0x1x1 fp16"
    words = (str(KERNELS / f"{kernel}.cpp"), "--line", line, "--cores", "3", "--tiling-key", "1", "--json")
    code, out, _ = answer(capsys, *words)
    told = json.loads(out)
    assert code == 0 and told["ok"] and told["walks"] > 0 and told["findings"] == [], told


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["missing.cpp", "--line", LINE], 2, "missing.cpp: No such file"),
        ([str(KERNELS / "files.h"), "--line", LINE], 2, "defines no __global__ function"),
        ([str(KERNELS / "launches.cpp"), "--line", LINE], 2, "6 __global__ functions: --entry one of twice, number_b"),
        ([str(KERNELS / "launches.cpp"), "--line", LINE, "--entry", "twice"], 2, "'twice<half>' names an instance"),
        ([str(KERNELS / "launches.cpp"), "--line", LINE, "--entry", "twices"], 2, "did you mean twice?"),
        ([str(KERNELS / "flags.cpp"), "--line", LINE], 2, "what is argument numbers? --args tells"),
        ([str(KERNELS / "documented_input.cpp"), "--line", LINE, "--args", "weight"], 2, "has 4 parameters"),
        ([str(KERNELS / "documented_input.cpp"), "--line", LINE, "--cxx", "no-compiler"], 2, "no compiler no-compiler"),
        ([str(KERNELS / "documented_input.cpp"), "--line", LINE, "--cores", "0"], 2, "--cores"),
        ([str(KERNELS / "documented_input.cpp"), "--line", LINE.replace("fp16", "fp32")], 2, "fp16 or bf16"),
        ([str(KERNELS / "documented_input.cpp"), "--line", "conv nonsense"], 2, "nonsense"),
    ],
)  # fmt: skip
def test_refusals(capsys, words, code, text):
    """A wrong command line, or a problem no kernel is for, is 2; nothing is compiled."""
    got, out, err = answer(capsys, *words)
    assert (got, out) == (code, "") and text in err


def test_signatures_are_read():
    """Qualifiers in any order, comments, declarations, templates, defaults; names in several spellings."""
    text = """
    // __global__ void no(int a) {}
    extern "C" __global__ __aicore__ void declared(GM_ADDR x);
    extern "C" __global__ __mix__(1, 2) __aicore__ void one(GM_ADDR x, GM_ADDR filter_size, __gm__ half* out_backprop,
        GM_ADDR y /* result, */, GM_ADDR usrWorkspace = nullptr) {
    }
    template <typename T, int N> __global__ __aicore__ inline void two(GM_ADDR a) { }
    """
    one, two = entries(text)
    assert (one.name, one.template, two.name, two.template) == ("one", False, "two", True)
    roles = [role_of(p.name, "weight") for p in one.parameters]
    assert roles == ["input", "weightSize", "gradOutput", "gradWeight", "workspace"]
    assert [p.is_pointer for p in one.parameters] == [True] * 5
    assert role_of("grad_output_gm") == "gradOutput" and role_of("weightGm_") == "weight" and role_of("nothing") is None
