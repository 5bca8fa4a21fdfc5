"""The drop-in C library: headers, runtime, operators, strict mode, and how programs are built against it."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from c_programs import LINK_FLAGS, NATIVE, SOURCES, WARNINGS, build, prefix, run

CPP_STANDARDS = ("c++11", "c++14", "c++17", "c++20")
FACTS = (SOURCES / "abi_facts.h").read_text("utf-8")


def names_in(source: str, pattern: str) -> list[str]:
    return re.findall(pattern, (SOURCES / source).read_text("utf-8"), re.MULTILINE)


# ---- headers and symbols -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_headers_hold_every_fact_and_compile_cleanly(compiler: str) -> None:
    """Enum values, statuses and signatures are the documented ones, in clean C11/C17 and C++11 to C++20."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    cpp = compiler.endswith("++")
    for standard in CPP_STANDARDS if cpp else ("c11", "c17"):
        language = ("-x", "c++") if cpp else ()
        command = [compiler, *language, f"-std={standard}", "-pedantic", *WARNINGS, "-fsyntax-only",
                   f"-I{NATIVE / 'sdk/include'}", str(SOURCES / "abi_facts.c")]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{standard}: {done.stderr}"


@pytest.mark.parametrize("header", sorted((NATIVE / "sdk/include").rglob("*.h")), ids=lambda p: p.name)
def test_every_header_stands_alone(header: Path) -> None:
    """A header can be the first include of a C and of a C++ file."""
    for compiler, standard in (("gcc", "c11"), ("g++", "c++11")):
        language = "c++" if compiler == "g++" else "c"
        command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only",
                   f"-I{NATIVE / 'sdk/include'}", "-include", str(header), "/dev/null"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_library_exports_the_documented_functions_and_nothing_else() -> None:
    """Every function of the facts, of the engine, of the kernels and XLA's handler are there; the C++ inside is not."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(prefix() / "lib64/libascendcl.so")],
        capture_output=True, text=True, check=True,
    ).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    header = (NATIVE / "include/convgrad.h").read_text("utf-8")
    engine = set(re.findall(r"^CG_API .*?\b(cg_\w+)\(", header, re.MULTILINE))
    kernels = (NATIVE / "sdk/include/convgrad_tile.h").read_text("utf-8")
    tile_calls = set(re.findall(r"\b((?:cgt|convgrad_tile)_\w+)\(", kernels))
    assert exported == set(re.findall(r"\b([aA]cl\w+)\(", FACTS)) | engine | tile_calls | {"cg_xla_call"}
    assert len(exported) > 100


# ---- behaviour ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names_in("runtime.cpp", r"^TEST\((\w+),"))
def test_runtime(name: str, tmp_path: Path) -> None:
    """What tests/c/runtime.cpp says of its test of this name is true."""
    done = run(build(SOURCES / "runtime.cpp"), name, environment={"TEST_SCRATCH_FILE": str(tmp_path / "config.json")})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", names_in("operators.cpp", r"^TEST\((\w+),"))
def test_operators(name: str) -> None:
    """What tests/c/operators.cpp says of its test of this name is true."""
    done = run(build(SOURCES / "operators.cpp"), name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("product", "soc"),
    [("A2", "Ascend910B3"), ("Ascend950PR_9599", "Ascend950PR_9599"), ("Atlas A3", "Ascend910_9391"),
     ("Ascend910B4", "Ascend910B3"), ("A5", "Ascend950PR_9599"), ("Ascend910_9382", "Ascend910_9391"),
     ("Atlas A2 训练系列产品/Atlas 800I A2 推理产品/A200I A2 Box 异构组件", "Ascend910B3")],
)
def test_soc_name_follows_the_product(product: str, soc: str) -> None:
    """CONVGRAD_PRODUCT takes keys, SoC names and marketing names."""
    environment = {"CONVGRAD_PRODUCT": product, "TEST_SOC_NAME": soc}
    done = run(build(SOURCES / "runtime.cpp"), "version_and_names", environment=environment)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("product", ["Ascend12345", "Ascend910_55", "KirinX90"])
def test_an_unknown_product_is_refused_by_aclInit(product: str) -> None:
    """A misspelt product, or one without rules, is an error with a message, not a silent default."""
    done = run(build(SOURCES / "strict.cpp"), "clean_program", environment={"CONVGRAD_PRODUCT": product})
    assert done.returncode == 7


def test_linked_and_opened_libraries_are_one_instance() -> None:
    """A C program links libascendcl, opens libopapi and looks its functions up: streams and tensors are shared."""
    program = build(SOURCES / "dynamic.c", compiler="gcc", standard="gnu11", link=("-lascendcl", "-ldl"))
    assert run(program).stdout == "0 0 5 optional symbol missing\n"


# ---- strict mode -------------------------------------------------------------------------------------------

# mistake: (words of the report, what the program prints)
CAUGHT = {
    "copy_past_the_end": ("41 bytes at offset 0 run past the end of device block #1 (40 bytes)", "status 107000"),
    "copy_from_freed_memory": ("the source is freed device block #1", "status 107000"),
    "copy_in_the_wrong_direction": ("kind 1 does not fit: the destination is host memory", "status 107000"),
    "free_twice": ("no live block (freed twice, or never allocated)", "status 107000"),
    "forget_to_copy_the_input": ("input reads device block #7 (16 bytes), which nothing was ever", "status 361001"),
    "pass_a_host_pointer": ("input is not in device memory", "status 361001"),
    "pass_a_short_block": ("grad_output runs past the end of its device block (device block #7, 12", "status 361001"),
    "pass_a_freed_block": ("weight lies in a freed device block", "status 361001"),
    "name_a_small_workspace": ("workspaceSize is", "status 361001"),
    "allocate_a_small_workspace": ("the workspace lies in device block #7", "status 361001"),
    "give_no_workspace": ("workspaceSize is 0 bytes, phase 1 asked for", "status 361001"),
    "write_past_pinned_memory": ("host code wrote past the end of pinned host block #1 (40 bytes)", "status 0"),
    "forget_the_device": ("aclrtMalloc on a thread without a device", "status 107002"),
}
STOPPED = {
    "read_device_memory": ("host code {read} byte 8 of device block #1 (40 bytes at 0x"),
    "write_device_memory": ("host code {write} byte 39 of device block #1 (40 bytes at 0x"),
    "write_past_the_end": ("host code {write} 60 bytes past the end of device block #1 (40 bytes at 0x"),
    "read_before_the_start": ("host code {read} 16 bytes before the start of device block #1"),
    "read_freed_memory": ("host code {read} byte 0 of freed device block #1"),
    "write_far_past_pinned_memory": ("host code {write} 24 bytes past the end of pinned host block #1 (40 bytes at 0x"),
}


def strictly(name: str) -> subprocess.CompletedProcess[str]:
    return run(build(SOURCES / "strict.cpp"), name, environment={"CONVGRAD_STRICT": "1"})


@pytest.mark.parametrize("name", CAUGHT)
def test_strict_mode_reports_the_mistake(name: str) -> None:
    """The call fails and a line names the block; without strict mode the same program is let through or differs."""
    report, printed = CAUGHT[name]
    done = strictly(name)
    assert f"convgrad strict: {report}" in done.stderr or report in done.stderr, done.stderr
    assert printed in done.stdout


def test_memory_that_was_set_counts_as_written() -> None:
    """aclrtMemset fills an input as well as a copy does: no report, and the gradient of zeros is zero."""
    done = strictly("set_the_input_to_zero")
    assert "nothing was ever" not in done.stderr and "status 0\n0\n" in done.stdout, done.stderr + done.stdout


@pytest.mark.parametrize("value, on", [("1", True), ("yes", True), ("0", False), ("", False), (None, False)])
def test_which_settings_turn_strict_mode_on(value: str | None, on: bool) -> None:
    """CONVGRAD_STRICT=0, an empty one and none at all are off: memory that nothing was copied to is let through."""
    environment = {} if value is None else {"CONVGRAD_STRICT": value}
    done = run(build(SOURCES / "strict.cpp"), "forget_to_copy_the_input", environment=environment)
    assert ("status 361001" in done.stdout, "convgrad strict" in done.stderr) == (on, on), done.stderr


@pytest.mark.parametrize("name", STOPPED)
def test_strict_mode_stops_the_program_at_the_access(name: str) -> None:
    """Host code that touches device memory faults at once, and the report names block, size and place."""
    done = strictly(name)
    words = {"read": "(read|touched)", "write": "(wrote|touched)"}
    pattern = re.escape(STOPPED[name]).replace(r"\{read\}", words["read"]).replace(r"\{write\}", words["write"])
    assert re.search("convgrad strict: " + pattern, done.stderr), done.stderr
    assert done.returncode == -signal.SIGSEGV and "survived" not in done.stdout


def test_strict_mode_lists_leaks_at_the_end() -> None:
    """Every kind of thing still alive at aclFinalize is listed; what was destroyed is not."""
    leaks = {line.removeprefix("convgrad strict: leak: ") for line in strictly("leak_everything").stderr.splitlines()}
    assert leaks == {
        "device block #1, 40 bytes", "pinned host block #2, 7 bytes", "1 stream", "1 context", "1 event", "1 tensor",
        "2 int arrays",
    }  # fmt: skip


def test_a_correct_program_runs_silently_in_strict_mode() -> None:
    """Right results, no report, no leak; fresh device memory is NaN."""
    done = strictly("clean_program")
    assert (done.stdout, done.stderr) == ("status 0\n1 4 4\nsurvived\n", "")
    assert strictly("fresh_memory_is_nan").stdout.startswith("10 of 10 are NaN")


def test_strict_mode_survives_many_blocks() -> None:
    """A hundred thousand blocks, more than are remembered at once."""
    assert strictly("allocate_and_free_many").stdout == "status 0\nsurvived\n"


def test_strict_mode_knows_a_freed_block_that_another_thread_uses() -> None:
    """A freed address is refused, never written to, also while a call of another thread keeps the block."""
    assert strictly("set_freed_memory_that_another_thread_uses").stdout == "100 refused\nsurvived\n"


# ---- ways to build -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", CPP_STANDARDS)
def test_programs_compile_without_a_warning(compiler: str, standard: str) -> None:
    """A whole program (fixtures, unique_ptr, threads) in every standard with both compilers."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    command = [compiler, f"-std={standard}", *WARNINGS, "-fsyntax-only", f"-I{prefix() / 'include'}", f"-I{SOURCES}",
               str(SOURCES / "operators.cpp")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "link",
    [
        LINK_FLAGS,
        ("-lopapi_nn", "-lopapi_math", "-lascendcl", "-lnnopbase"),
        ("-lacl_rt", "-lnnopbase", "-lcust_opapi"),
    ],
    ids=["one opapi", "split opapi", "custom"],
)
def test_documented_link_flags(link: tuple[str, ...]) -> None:
    """Each documented set of libraries links and runs."""
    assert run(build(SOURCES / "strict.cpp", link=link), "clean_program").stdout == "status 0\n1 4 4\nsurvived\n"


def test_linking_by_full_path() -> None:
    """The documented CMake recipe names the libraries by path, not by -l."""
    lib64 = prefix() / "lib64"
    link = tuple(str(lib64 / f"lib{name}.so") for name in ("ascendcl", "nnopbase", "opapi_math", "opapi_nn"))
    assert run(build(SOURCES / "strict.cpp", link=link), "clean_program").stdout == "status 0\n1 4 4\nsurvived\n"
