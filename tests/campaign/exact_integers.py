"""The engine alone on integers, instruction set by instruction set (tests/native/exactness.cpp).

The sets of this machine are those of the library that Python loads; NEON is a build of its own under an emulator.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import c_programs
import exactness_program
from convgrad.engines import library
from outcome import Outcome

EMULATOR, CROSS_COMPILER = "qemu-aarch64", "aarch64-linux-gnu-g++"
LARGE, SMALL = "3e6", "3e5"
"""Multiply-adds of the largest problems: one chunk of ten has large ones, which take five times as long."""


def emulated() -> Path:
    """Built by the rule of native/engine.mk."""
    path = Path("build/engine/aarch64/exactness")
    done = subprocess.run(["make", "-s", str(path)], cwd=c_programs.ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the exactness program does not build for aarch64: {done.stderr[-2000:]}")
    return c_programs.ROOT / path


def widest(*sets: str) -> str:
    """The first of these instruction sets that this machine has; empty for none."""
    order = ("baseline", "avx2", "avx512", "avx512bf16")
    here = order[: order.index(library.isa()) + 1] if library.isa() in order else ()
    return next((name for name in sets if name in here), "")


def run(sets: tuple[str, ...], chunk: int, size: int, built: Path | None = None) -> Outcome:
    """Random problems on the first of the sets that is here; seeds follow from the chunk."""
    isa = widest(*sets)
    if not isa:
        return Outcome()  # nothing is counted where nothing can run
    return judged([str(built or exactness_program.program())], isa, size, chunk, SMALL if chunk % 10 else LARGE)


def neon(chunk: int, size: int) -> Outcome:
    """The same under the emulator, small."""
    if not (shutil.which(EMULATOR) and shutil.which(CROSS_COMPILER)):
        return Outcome()
    return judged([EMULATOR, str(emulated())], "neon", size, chunk, SMALL)


def judged(words: list[str], isa: str, size: int, chunk: int, most: str) -> Outcome:
    """All problems tried, on the set that was asked for, and none of them wrong."""
    outcome = Outcome()
    environment = {**os.environ, "LC_ALL": "C", "CONVGRAD_ISA": isa}
    done = subprocess.run([*words, str(size), str(chunk + 1), most], capture_output=True, text=True, check=False,
                          env=environment)  # fmt: skip
    told = re.search(rf"^{isa}: (\d+) random problems, \d+ runs, every element exact$", done.stdout, re.MULTILINE)
    good = done.returncode == 0 and told is not None and int(told[1]) == size
    words_of = f"exit code {done.returncode} {done.stdout[-2000:]}{done.stderr[-1000:]}"
    outcome.add(size if good else 0, f"exactness {size} {chunk + 1} {most} on {isa}", words_of, good)
    return outcome
