"""Ascend C kernels in C++: compiled unchanged, run on simulated cores, right gradients, and mistakes that are told."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from c_programs import ROOT, prefix
from convgrad.ascendc import (
    CapacityError,
    PlatformInfo,
    TilingError,
    check_record,
)
from kernel_programs import (
    C_NAMES,
    KERNELS,
    PROBLEMS,
    STRICT_WARNINGS,
    check_grad_input,
    check_grad_weight,
    compiled,
    filter_record,
    has_chinese,
    input_record,
    program,
    run_input,
    wrapper,
)
from tile_problems import (
    TileProblem,
    forced_small_filter_tiles,
    forced_small_tiles,
    random_problem,
)

CORES = (1, 3, 8, 24)
INCLUDE = ROOT / "native/sdk/kernel"
KERNEL_HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))


@pytest.mark.parametrize("dtype", C_NAMES)
def test_documented_input_kernel(dtype: str, tmp_path: Path) -> None:
    """The document's five steps give gradInput: strides, dilations, ragged channels, zeroing, 1 to 24 cores."""
    binary = program("documented_input.cpp", f"-DNUMBER={C_NAMES[dtype]}")
    zeroed = 0
    for seed in range(PROBLEMS):
        problem = random_problem(seed, transposed=seed % 4 == 3)
        record = input_record(problem, dtype)
        record = forced_small_tiles(record, seed) if seed % 2 else record
        zeroed += record.initOutputFlag
        check_grad_input(binary, problem, record, CORES[seed % 4], tmp_path, dtype)
    assert 0 < zeroed < PROBLEMS


@pytest.mark.parametrize("dtype", C_NAMES)
def test_documented_filter_kernel(dtype: str, tmp_path: Path) -> None:
    """The filter kernel, zeroed by vector cores and with K split over rows, gives gradWeight."""
    binary = program("documented_filter.cpp", f"-DNUMBER={C_NAMES[dtype]}")
    for seed in range(PROBLEMS):
        problem = random_problem(seed)
        record = filter_record(problem, dtype)
        record = forced_small_filter_tiles(record, seed)[0] if seed % 2 else record
        check_grad_weight(binary, problem, record, CORES[seed % 4], tmp_path, dtype)


def test_any_number_of_cores_gives_the_same_bits(tmp_path: Path) -> None:
    """Real numbers: the same bytes on one core and on eight, and again."""
    problem, rng = random_problem(5), np.random.default_rng(5)
    operands = rng.normal(size=problem.output_shape), rng.normal(size=problem.weight_shape)
    binary, record = program("documented_input.cpp", "-DNUMBER=half"), input_record(problem)
    results = [
        run_input(binary, problem, record, cores, tmp_path, operands=operands).result.tobytes() for cores in (1, 8, 8)
    ]
    assert results[0] == results[1] == results[2]


# Two planes, two tiles a walk; and one whose bottom rows no window reaches: zeroing.
PLAIN = TileProblem(1, 20, 24, (2, 6, 5), (2, 6, 5), (1, 3, 3), (1, 1, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1))
ZEROED = TileProblem(1, 16, 16, (2, 9, 5), (2, 2, 5), (1, 3, 3), (1, 4, 1), (0, 0, 0, 0, 1, 1), (1, 1, 1))
MISTAKES = {
    "init_twice": "order.init_once: core 0: Init: Init is called once; a second call would reserve every buffer twice",
    "set_value": "gm.range: core 0: SetValue: elements 1099511627776...1099511627776 of gradInput",
    "plane_in_c": "pointer.depth: core 1: GetTensorC offset 960 holds a depth term (plane 1); the plane is counted",
    "row_itself": "start.top_pad: core 0: SetStartPosition hoStart 0 is the gradInput row itself: subtract the top ",
    "row_of_a": "pointer.row: core 0: SetGradOutput offset 80 stands at row 1 of gradOutput: hoStart -1 needs ",
    "past_the_end": "gm.range: core 0: GetTensorC, tile (i 0, j 0) of plane 0, channel block 0: elements 1099511627776",
    "swapped": "shape.k: core 0: SetSingleShape: K must be a multiple of dk * hk * wk * c0 = 144, got K 16 (hardware "
    "would round it down to 0); the order of the arguments is M, K, N",
    "fill_on_cube": "role.cube_fill: core 0: Fill: works through the buffer of a vector core",
    "tile_not_taken": "order.tile_not_taken: core 0: Iterate: L0C holds one tile; call GetTensorC before the next ",
    "taken_twice": "order.taken_twice: core 0: GetTensorC: a tile is taken once; call Iterate before the next ",
    "atomic": "order.atomic: core 0: GetTensorC: enAtomic must be 0 or 1, got 2",
    "sequential": "order.sequential: core 0: GetTensorC: enSequentialWrite is reserved",
    "set_mid_walk": "order.set_mid_walk: core 0: SetWeight: finish the walk (Iterate until it returns false) and set "
    "ctx.isFirstIter_ = true before setting anything (state: a tile waits in L0C, last tile (i 0, j 0) of plane 0)",
    "first_iter": "order.first_iter: core 0: Iterate: set ctx.isFirstIter_ = true after each finished walk",
    "partial_sum": "note.reserved: core 0: Iterate: enPartialSum is reserved and has no effect",
    "no_end": "object.unended: core 0: the object goes without End (state: no walk is under way)",
    "end_twice": "order.after_end: core 0: End: nothing may follow End; create a new object",
}
MISTAKES_OF_ZEROING = {
    "no_meeting": "coverage.race: core 0: elements that one core zeroes while another stores them: all cores must meet "
    "(SyncAll) in between",
    "vector_meeting": "role.sync: core 0: SyncAll: meets vector cores only; a cube core needs SyncAll<false>()",
    "one_misses": "sync.stuck: 4 of 6 cores wait for ever (core 0 in SyncAll, vector core 0 of block 0 in SyncAll, ",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(mistake: str, tmp_path: Path) -> None:
    """Each mistake is a finding with its rule, words and line, and the program ends with 1; a note does not fail it."""
    binary = program("documented_input.cpp", "-DNUMBER=half", "-DWITH_MISTAKES")
    record = forced_small_tiles(input_record(PLAIN), 3)
    cores = 1 if mistake == "first_iter" else 2
    ran = run_input(binary, PLAIN, record, cores, tmp_path, MISTAKE=mistake)
    told = [line for line in ran.stderr.splitlines() if MISTAKES[mistake] in line]
    assert len(told) == 1, ran.stderr
    assert told[0].startswith(f"{KERNELS / 'documented_input.cpp'}:"), told
    assert ran.code == (0 if mistake == "partial_sum" else 1) and has_chinese(told[0]), ran.stderr


@pytest.mark.parametrize("mistake", MISTAKES_OF_ZEROING)
def test_mistakes_of_zeroing_are_told(mistake: str, tmp_path: Path) -> None:
    """No meeting after zeroing is a race, a core that misses one a deadlock that is seen; without mistake: nothing."""
    binary = program("documented_input.cpp", "-DNUMBER=half", "-DWITH_MISTAKES")
    record = input_record(ZEROED)
    assert record.initOutputFlag == 1
    ran = run_input(binary, ZEROED, record, 2, tmp_path, MISTAKE=mistake)
    assert MISTAKES_OF_ZEROING[mistake] in ran.stderr and ran.code == 1, ran.stderr
    ran = run_input(binary, ZEROED, record, 2, tmp_path)
    assert (ran.stderr, ran.code) == ("", 0)


def test_settings_of_findings(tmp_path: Path) -> None:
    """CONVGRAD_STRICT=1 ends the program at the launch, before it writes; CONVGRAD_TILE=ignore only prints."""
    binary = program("documented_input.cpp", "-DNUMBER=half", "-DWITH_MISTAKES")
    record = input_record(PLAIN)
    outcomes = {}
    for name, value in (("CONVGRAD_STRICT", "1"), ("CONVGRAD_TILE", "ignore"), ("CONVGRAD_TILE", "")):
        ran = run_input(binary, PLAIN, record, 2, tmp_path, MISTAKE="end_twice", **{name: value})
        assert "order.after_end" in ran.stderr
        outcomes[name, value] = ran.code, bool(ran.result.any())
    assert outcomes == {
        ("CONVGRAD_STRICT", "1"): (1, False), ("CONVGRAD_TILE", "ignore"): (0, True), ("CONVGRAD_TILE", ""): (1, True),
    }  # fmt: skip


def test_a_broken_record_is_refused_with_the_words_of_the_python_model(tmp_path: Path) -> None:
    """Init names every broken demand as the model does, capacities too, at the line of Init."""
    binary = program("documented_input.cpp", "-DNUMBER=half")
    record = input_record(PLAIN)
    broken = ({"stepM": 2, "iterateOrder": 7}, {"baseM": 1024, "baseN": 512}, {"baseK": 17, "c0Bits": 3}, {"hk": 0})
    for fields in broken:
        wrong = replace(record, **fields)
        with pytest.raises(TilingError if "baseN" not in fields else CapacityError) as caught:
            check_record(wrong, PlatformInfo())
        ran = run_input(binary, PLAIN, wrong, 1, tmp_path)
        place = f"{KERNELS / 'documented_input.cpp'}:{line_of('gradInput_.Init(')}: "
        assert f"{place}{caught.value.rule}: core 0: {caught.value.message}\n" in ran.stderr, ran.stderr
        assert ran.code == 1


def line_of(words: str) -> int:
    """The first line of the documented kernel that holds these words."""
    lines = (KERNELS / "documented_input.cpp").read_text("utf-8").splitlines()
    return 1 + next(number for number, line in enumerate(lines) if words in line)


@pytest.mark.parametrize("strict", ["0", "1"])
def test_other_launches(strict: str) -> None:
    """<<<...>>> and ACLRT_LAUNCH_KERNEL build through convgrad-cxx and run on acl memory, lines kept; roles count."""
    done = subprocess.run(
        [str(program("launches.cpp"))], capture_output=True, text=True, check=False, env={"CONVGRAD_STRICT": strict}
    )
    line = 1 + (KERNELS / "launches.cpp").read_text("utf-8").splitlines().index(
        '    std::printf("%s %g %g %g %g line %d\\n", text, host[0], host[1], host[2], host[3], __LINE__);'
    )
    roles = "12 12\n11 11\n1 1\n10 10\n"  # a cube core counts 10, a vector core 1
    assert (done.stdout, done.stderr) == (f"not<<<a, launch>>>(at all) 10 12 14 16 line {line}\n{roles}", "")
    assert done.returncode == 0


def test_the_wrapper_does_not_start_itself(tmp_path: Path) -> None:
    """CXX=convgrad-cxx, as builds set it, means g++; a CXX that leads back to the wrapper is told, once."""
    wrapper, source = prefix() / "bin/convgrad-cxx", KERNELS / "launches.cpp"

    def compiled_by(cxx: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(wrapper), str(source), "-fsyntax-only"], capture_output=True, text=True, check=False,
            env={**os.environ, "CXX": str(cxx)}, timeout=600,
        )  # fmt: skip

    assert compiled_by(wrapper).returncode == 0
    loop = tmp_path / "my-cxx"
    loop.write_text(f'#!/bin/sh\nexec "{wrapper}" "$@"\n')
    loop.chmod(0o755)
    done = compiled_by(loop)
    assert (done.returncode, done.stderr) == (1, f"convgrad-cxx: CXX={loop} leads back here: set it to a compiler\n")


def test_the_wrapper_as_a_build_uses_it(tmp_path: Path) -> None:
    """-c alone names the object after the source; a file of dependencies names files that stay, one with a blank."""
    directory = tmp_path / "a kernel"
    directory.mkdir()
    source = shutil.copy(KERNELS / "launches.cpp", directory / "my launches.cpp")
    wrapped = [str(prefix() / "bin/convgrad-cxx"), "-c", "-MD", str(source)]
    done = subprocess.run(wrapped, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {one.name for one in tmp_path.iterdir() if one.is_file()} == {"my launches.o", "my launches.d"}
    rest = (tmp_path / "my launches.d").read_text("utf-8").partition(":")[2].replace("\\\n", " ").replace("\\ ", "\0")
    named = [one.replace("\0", " ") for one in rest.split()]
    assert str(source) in named and [one for one in named if not Path(one).is_file()] == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ConvFormat::FRACTAL_Z_3D, NUMBER", "ConvFormat::NCDHW, NUMBER",
         "type.format: weight must have layout FRACTAL_Z_3D"),
        ("TPosition::GM, ConvCommonApi::ConvFormat::ND", "TPosition::A1, ConvCommonApi::ConvFormat::ND",
         "type.position: inputSize must be in GM"),
        ("ConvFormat::ND, int32_t", "ConvFormat::ND, float", "type.dtype: inputSize must be INT32"),
        ("NDC1HWC0, NUMBER>;\n    ConvBackpropApi::Conv", "NDC1HWC0, bfloat16_t>;\n    ConvBackpropApi::Conv",
         "type.same_dtype: the 16-bit operands must share one dtype"),
        ("    gradInput_.End();", "    gradInput_.Ende();", "error:"),
    ],
)  # fmt: skip
def test_type_parameters_are_checked_by_the_compiler(old: str, new: str, words: str, tmp_path: Path) -> None:
    """A type the object does not take is a compile error with the model's words, which names the author's line."""
    text = (KERNELS / "documented_input.cpp").read_text("utf-8")
    assert old in text
    (tmp_path / "wrong.cpp").write_text(text.replace(old, new))
    done = compiled(tmp_path / "wrong.cpp", f"-I{KERNELS}")
    assert done.returncode != 0 and words in done.stderr and "wrong.cpp:" in done.stderr, done.stderr


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.skipif(
    shutil.which("clang++") is None, reason="there is no clang++"))])  # fmt: skip
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_kernels_compile_silently(compiler: str, standard: str, optimised: str, tmp_path: Path) -> None:
    """Compilers, standards, optimisation: all warnings as errors, also with private and protected made public."""
    strict = (f"-std={standard}", optimised, *STRICT_WARNINGS)
    public = ("-Dprivate=public", "-Dprotected=public")
    for source in ("documented_input.cpp", "documented_filter.cpp", "operator_ncdhw.cpp", "operator_filter.cpp"):
        flags = {"documented_filter.cpp": ("-fno-exceptions",), "operator_ncdhw.cpp": public}.get(source, ())
        done = compiled(source, *strict, *flags, compiler=compiler)
        assert (done.returncode, done.stderr) == (0, ""), (source, flags)
    source = "documented_input.cpp" if standard == "c++17" else "operator_input.cpp"
    done = wrapper([str(KERNELS / source), *strict, "-c", "-o", str(tmp_path / "kernel.o")], compiler)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_header_compiles_alone(tmp_path: Path) -> None:
    """Each header includes what it uses; all of them twice, in two translation units, link to one program."""
    assert "kernel_operator.h" in KERNEL_HEADERS and len(KERNEL_HEADERS) > 15
    for header in KERNEL_HEADERS:
        (tmp_path / "alone.cpp").write_text(f'#include "{header}"\n#include "{header}"\n')
        done = compiled(tmp_path / "alone.cpp", *STRICT_WARNINGS)
        assert (done.returncode, done.stderr) == (0, ""), header
    every = "".join(f'#include "{header}"\n' for header in KERNEL_HEADERS)
    (tmp_path / "one.cpp").write_text(every + "int other();\nint main() { return other(); }\n")
    (tmp_path / "two.cpp").write_text(every + "int other() { return 0; }\n")
    sources = str(tmp_path / "one.cpp"), str(tmp_path / "two.cpp")
    done = wrapper([*sources, *STRICT_WARNINGS, "-o", str(tmp_path / "both")])
    assert (done.returncode, done.stderr) == (0, "")
    assert subprocess.run([str(tmp_path / "both")], check=False).returncode == 0


def test_cmake_target_and_pkg_config(tmp_path: Path) -> None:
    """find_package(tikicpulib) and the pkg-config file build a kernel without any other flag."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.14)\nproject(p CXX)\nfind_package(tikicpulib REQUIRED)\n"
        f"add_executable(program {KERNELS}/documented_filter.cpp)\n"
        "target_link_libraries(program PRIVATE tikicpulib::Ascend910B1)\n"
    )
    script = f"source {prefix()}/set_env.sh; cmake -S . -B b; cmake --build b"
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "b/program").is_file(), done.stdout + done.stderr
    if shutil.which("pkg-config"):
        flags = "$(pkg-config --cflags --libs convgrad-ascendc)"
        script = f"source {prefix()}/set_env.sh; g++ -std=c++17 {KERNELS}/documented_filter.cpp {flags} -o p"
        subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True)


def test_flags_between_cores() -> None:
    """A cube core waits for both of its vector cores; a flag not set is a deadlock, one not waited for is left."""
    binary = str(program("flags.cpp"))
    told = {}
    for left_out in ("n", "s", "w"):
        done = subprocess.run([binary, left_out], capture_output=True, text=True, check=False, timeout=60)
        told[left_out] = done.returncode, done.stderr
        assert left_out != "n" or (done.stdout, done.stderr) == ("11 11 11 11\n", "")
    assert [code for code, _ in told.values()] == [0, 1, 1]
    stuck = "sync.stuck: 2 of 6 cores wait for ever (core 0 in CrossCoreWaitFlag(3), core 1 in CrossCoreWaitFlag(3))"
    assert stuck in told["s"][1] and "flags.cpp:" in told["s"][1]
    left = r"flags.cpp:\d+: sync.flag_left: core 0: CrossCoreSetFlag: flag 3 was set 1 times and waited for 0 times"
    assert re.search(left, told["w"][1])


@pytest.mark.parametrize("how", ["launch", "host", "device", "part", "not"])
@pytest.mark.parametrize("strict", ["0", "1"])
def test_zeros_of_before_the_launch(how: str, strict: str) -> None:
    """What the host or another launch zeroed may be added to; what nobody did is NaN and told, by its number."""
    binary = str(program("earlier_zeros.cpp"))
    given = {"CONVGRAD_STRICT": strict}
    done = subprocess.run([binary, how], capture_output=True, text=True, check=False, timeout=60, env=given)
    unzeroed = {"part": 43, "not": 2304}.get(how, 0)
    if not unzeroed:
        assert (done.stdout, done.stderr, done.returncode) == ("2304 of 2304\n", "", 0)
        return
    assert strict == "1" or done.stdout == f"{2304 - unzeroed} of 2304\n"
    assert re.search(rf"zeros.cpp:\d+: coverage.add_unzeroed: .*; {unzeroed} elements, first", done.stderr), done.stderr
    assert done.returncode == 1
