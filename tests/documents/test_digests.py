"""The guards of tests/digests: bits, answers, names, commands and the C ABI are the recorded ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("part", ["bits", "answers", "calls", "api", "commands", "abi"])
def test_a_sample_of_every_guard_is_as_recorded(part: str) -> None:
    """A deterministic sample of what `make digests` compares has the recorded digests."""
    words = [sys.executable, str(Path(__file__).parents[1] / "digests"), "--short", "--only", part, "--jobs", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
