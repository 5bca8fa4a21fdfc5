"""Headers of the engine are headers: each compiles alone, for every instruction set it is written for."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
ENGINE = NATIVE / "engine"
HEADERS = sorted(path.relative_to(ENGINE) for path in ENGINE.rglob("*.h"))
AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
AVX512 = (*AVX2, "-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw")
# Of each instruction set: lanes, compiler flags, and the files that only others include.
SETS = {
    "avx2": (8, AVX2, ("baseline", "avx512", "neon")),
    "baseline": (4, (), ("avx2", "avx512", "x86_eight", "neon")),
    "avx512": (16, AVX512, ("baseline", "avx2", "neon")),
    "avx512bf16": (16, (*AVX512, "-mavx512bf16"), ("baseline", "avx2", "neon")),
}


def _targets_x86() -> bool:
    if shutil.which("g++") is None:
        return False
    return subprocess.run(["g++", "-dumpmachine"], capture_output=True, text=True).stdout.startswith("x86_64")


def _formats_like_ours() -> bool:
    if shutil.which("clang-format") is None:
        return False
    return "version 14." in subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout


@pytest.mark.skipif(not _targets_x86(), reason="there is no g++ for x86-64")
@pytest.mark.parametrize("isa", ["avx2", *(pytest.param(isa, marks=pytest.mark.slow) for isa in [*SETS][1:])])
def test_every_header_compiles_alone(isa: str) -> None:
    """Each includes what it uses: editors, tools and readers can open any of them."""
    lanes, flags, of_others = SETS[isa]
    options = ["-std=gnu++17", "-fsyntax-only", "-Wno-psabi", f"-DCG_ISA={isa}", f"-DLANES={lanes}", *flags]
    options += [f"-I{NATIVE / 'include'}", f"-I{ENGINE}", "-x", "c++"]

    def errors(header: Path) -> str:
        command = ["g++", *options, "-include", str(ENGINE / header), "/dev/null"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    tried = [header for header in HEADERS if header.name.removesuffix(".inl.h") not in of_others]
    with ThreadPoolExecutor(2) as pool:
        broken = {str(header): text for header, text in zip(tried, pool.map(errors, tried), strict=True) if text}
    assert not broken


def test_what_is_compiled_once_per_instruction_set_has_internal_linkage() -> None:
    """Every .inl.h is in an anonymous namespace: the linker can never exchange the copies of two instruction sets."""
    for header in HEADERS:
        if header.name.endswith(".inl.h"):
            text = (ENGINE / header).read_text(encoding="utf-8")
            assert "namespace cg {\nnamespace {\n" in text, header
            assert text.startswith("//") and "\n#pragma once\n" in text, header


@pytest.mark.skipif(not _formats_like_ours(), reason="there is no clang-format 14: others format a little differently")
def test_sources_are_formatted() -> None:
    """`clang-format -i` changes nothing, by the .clang-format of the repository."""
    ours = [*ENGINE.rglob("*"), *(NATIVE / "acl").rglob("*"), *(NATIVE / "ascendc").rglob("*")]
    files = [str(path) for path in ours if path.suffix in (".h", ".cpp")]
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
