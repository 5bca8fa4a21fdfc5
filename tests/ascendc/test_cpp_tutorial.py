"""The page from five steps to a checked kernel, and the example project: what they show is what happens."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from c_programs import ROOT, prefix

PAGE = ROOT / "docs" / "ascendc_cpp_tutorial.md"
EXAMPLE = ROOT / "examples" / "09_ascendc_kernels"


def changed(text: str, difference: str) -> str:
    """The text with the lines marked - replaced by those marked +."""
    old, new = ("".join(line[1:] for line in difference.splitlines(True) if line[0] == sign) for sign in "-+")
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_the_page_runs(tmp_path: Path) -> None:
    """The pieces of the page are one file; each command says what the page shows, before and after each mistake."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    kernel = tmp_path / "my_kernel.cpp"
    kernel.write_text("".join(text for kind, text in blocks if kind == "cpp"))
    codes, said = [], None
    for kind, text in blocks:
        if kind == "diff":
            kernel.write_text(changed(kernel.read_text(), text))
        elif kind == "sh":
            words = shlex.split(text)
            assert words.pop(0) == "convgrad"
            environment = {**os.environ, "NO_COLOR": "1", "CXX": "g++", "COLUMNS": "80"}
            done = subprocess.run([sys.executable, "-m", "convgrad", *words], cwd=tmp_path, capture_output=True,
                                  text=True, check=False, env=environment)  # fmt: skip
            said = done.stdout
            codes.append(done.returncode)
        elif kind == "text":
            assert said is not None and said.rstrip() == text.rstrip()
    assert codes == [0, 1, 1, 1] and said is not None
    assert "did not end within 2 seconds" in said and "my_kernel.cpp:36" in said  # the last has no output on the page


def test_the_example_project_builds_and_passes(tmp_path: Path) -> None:
    """find_package(convgrad) alone: a right kernel, a filter kernel with zeroing, a mixed one; each checks itself."""
    script = f"source {prefix()}/set_env.sh; cmake -S {EXAMPLE} -B b; cmake --build b -j 2; ctest --test-dir b"
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout
    assert "warning" not in done.stderr
    for name in ("grad_input", "grad_weight", "grad_input_zeroed"):
        ran = subprocess.run([str(tmp_path / "b" / name)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0 and f"{name}: 0 of " in ran.stdout and ran.stderr == "", ran.stderr
