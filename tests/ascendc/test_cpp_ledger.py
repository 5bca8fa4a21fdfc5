"""What happened to each element of global memory: kept for whole runs, the same as kept for every one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from c_programs import NATIVE, ROOT


def test_runs_have_the_histories_of_their_cells(tmp_path: Path) -> None:
    """400 ledgers, random stretches that cut runs and zeros that end in one: every cell as if it were kept alone."""
    program = tmp_path / "ledger"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"]
    source = ROOT / "tests" / "native" / "ledger.cpp"
    subprocess.run(["g++", *flags, f"-I{NATIVE / 'ascendc'}", str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
