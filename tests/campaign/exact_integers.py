"""The engine alone on integers, one build per instruction set (tests/native/exactness.cpp)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from outcome import Outcome

ROOT = Path(__file__).resolve().parents[2]
EMULATORS = {"aarch64": "qemu-aarch64"}
MOST = {"avx2": "3e6", "avx512bf16": "3e6", "aarch64": "3e5"}
"""Multiply-adds of the largest problems."""


def program(isa: str) -> Path:
    """Built by the rule of native/engine.mk."""
    path = Path("build/engine") / isa / "exactness"
    done = subprocess.run(["make", "-s", str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the exactness program does not build for {isa}: {done.stderr[-2000:]}")
    return ROOT / path


def run(isa: str, chunk: int, size: int, built: Path | None = None) -> Outcome:
    """Random problems; seeds follow from the chunk."""
    outcome = Outcome()
    emulator = EMULATORS.get(isa)
    if emulator is not None and not (shutil.which(emulator) and shutil.which("aarch64-linux-gnu-g++")):
        return outcome  # nothing is counted where nothing can run
    words = [*([emulator] if emulator else []), str(built or program(isa)), str(size), str(chunk + 1), MOST[isa]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    told = re.search(r": (\d+) random problems, \d+ runs, every element exact$", done.stdout, re.MULTILINE)
    good = done.returncode == 0 and told is not None and int(told[1]) == size
    words_of = f"exit code {done.returncode} {done.stdout[-2000:]}{done.stderr[-1000:]}"
    outcome.add(size if good else 0, f"exactness {size} {chunk + 1} {MOST[isa]} on {isa}", words_of, good)
    return outcome
