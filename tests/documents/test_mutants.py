"""The kept list of breaks: it fits the sources, it is long enough, and a sample of it is caught here and now."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import breaks  # noqa: E402

EVERY = breaks.read()


def test_every_break_fits_its_file():
    """What is to be broken stands there exactly once, and the test that catches it exists by name."""
    sources: dict[str, str] = {}
    for one in EVERY:
        for name in (one.file, one.test.partition("::")[0]):
            sources.setdefault(name, (ROOT / name).read_text("utf-8"))
        one.applied(sources[one.file])
        path, _, function = one.test.partition("::")
        assert function and f"def {function.partition('[')[0]}(" in sources[path], f"{one.place}: {one.test}"


def test_the_list_is_long_and_wide():
    """At least 200 breaks, 40 of them native, in every area a user would notice."""
    assert len(EVERY) >= 200 and sum(b.native for b in EVERY) >= 40
    wanted = {"kernels", "rounding", "rounding_native", "rules", "cases", "compare", "report", "torch", "c_library"}
    assert wanted <= {b.area for b in EVERY}
    assert sum(bool(b.survives) for b in EVERY) <= len(EVERY) // 20


@pytest.mark.parametrize("block, said", [
    ("@ pyproject.toml\n? x\n- nothing like this\n+ y\n", "has 0 times"), ("@ pyproject.toml\n? x\n- a\n+ b\n", "has"),
    ("@ pyproject.toml\n? x\n- a\n+ a\n", "says no change"), ("@ pyproject.toml\n* x\n", "begins with none of"),
])
def test_a_stale_break_is_said(tmp_path, block, said):
    """A list that no longer fits fails by name, it does not pass as caught."""
    (tmp_path / "area.txt").write_text(block)
    with pytest.raises(breaks.StaleBreak, match=said):
        for one in breaks.read(tmp_path):
            one.applied((ROOT / one.file).read_text("utf-8"))


def test_a_sample_is_caught():
    """Six breaks of Python files, others with every version of the list, in a scratch copy: none survives."""
    words = [sys.executable, str(ROOT / "tests" / "mutants"), "--sample", "6", "--seed", str(len(EVERY))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "6 of 6 breaks caught" in done.stdout, done.stdout + done.stderr


def test_the_page_is_that_of_the_list():
    """docs/mutants.md tells the score of this list: as many breaks, at least 95 % of them caught."""
    text = (ROOT / "docs" / "mutants.md").read_text("utf-8")
    assert f"it makes {len(EVERY)} deliberate breaks" in text
    caught, tried = map(int, re.search(r"\*\*(\d+) of (\d+) breaks caught", text).groups())
    assert tried >= 200 and caught >= 0.95 * tried
