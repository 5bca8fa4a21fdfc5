"""Programs that tests run: limits that stand still, and input that arrives however late it is read."""

from __future__ import annotations

import sys
from pathlib import Path

from c_programs import run
from patience import TICK


def test_a_program_that_reads_late_gets_all_of_its_input() -> None:
    """A megabyte, read after the first look at the program: a pipe would have been left half full for ever."""
    text = "0123456789abcdef" * 65536
    late = f"import sys, time; time.sleep({3 * TICK}); print(len(sys.stdin.read()))"
    assert run(Path(sys.executable), "-c", late, text=text, timeout=20).stdout == f"{len(text)}\n"
