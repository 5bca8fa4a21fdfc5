"""Damaged case files: a clear error and exit code 2, or cases; never a traceback, never anything executed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convgrad.cli.command_line import main
from convgrad.lab.cases import files
from convgrad.lab.cases.case import CaseFileError

DATA = Path(__file__).parents[1] / "data"
SOURCES = {
    ".json": (DATA / "cases_atk.json").read_text(), ".csv": (DATA / "cases_ttk.csv").read_text(),
    ".own.json": files.as_text("x", files.read(DATA / "cases_atk.json"), "json"),
    ".txt": "conv n2 c8>16 i14x14 k3x3 p1 bf16 on=A2 values=uniform:-5:5 seed=3 # a name\ntbc n2 c4>3 i8 k3 fp16\n",
}
ODD_TEXT = (
    "=1+1", "'", '"', "\x00", "\x1b[2J", "(", "{", "None", "nan", "-1", "1e999", "9" * 400, "\\ud800", "🙂", ",",
)


def damaged(text: str, rng: random.Random) -> str:
    """Cut, spliced, repeated, or with something odd put in."""
    for _ in range(rng.randint(1, 4)):
        place, length = rng.randrange(len(text) + 1), rng.randrange(40)
        how = rng.randrange(4)
        if how == 0:
            text = text[:place]
        elif how == 1:
            text = text[:place] + text[place + length :]
        elif how == 2:
            text = text[:place] + rng.choice(ODD_TEXT) + text[place + rng.randrange(4) :]
        else:
            other = rng.randrange(len(text) + 1)
            text = text[:place] + text[other : other + length] + text[place:]
    return text


def readable(suffix: str, text: str) -> bool:
    """Whether a text is read; any other error than the one for bad files fails the test."""
    try:
        cases = files._read_text("x", text, ".json" if suffix.endswith(".json") else suffix)
        for case in cases:
            for form in ("json", "lines"):
                files.as_text("x", [case], form)
    except CaseFileError as error:
        assert str(error).startswith("x: ") and all(line.isprintable() for line in str(error).splitlines())
        return False
    return True


@pytest.mark.parametrize("suffix", SOURCES)
def test_damaged_files(suffix):
    """Hundreds of damaged copies of every form; some are still readable, most are not."""
    rng = random.Random(suffix)
    outcomes = [readable(suffix, damaged(SOURCES[suffix], rng)) for _ in range(250)]
    assert not all(outcomes) and any(not o for o in outcomes)


@pytest.mark.parametrize("suffix", SOURCES)
def test_every_truncation(suffix):
    """Cut at every tenth of the file."""
    text = SOURCES[suffix]
    for tenth in range(10):
        readable(suffix, text[: len(text) * tenth // 10])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["conv n1 c1>1 i3 k3", "tensor", "attrs", "ConvolutionBackward"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["name", "line", "values", "seed", "kit", "cases", "inputs", "shape", "dtype", "type",
                         "aclnn_name", "range_values", "convgrad_cases", "expect", "enabled"]), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(anything)
def test_wrong_types_everywhere(document):
    """Any JSON document, also in the places where records belong."""
    for whole in (
        document, [document], {"convgrad_cases": 1, "cases": document}, {"convgrad_cases": 1, "cases": [document]},
        [{"aclnn_name": "ConvolutionBackward", "id": 1, "inputs": document}],
    ):
        readable(".json", json.dumps(whole, allow_nan=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(SOURCES)), st.integers(0, 10**6))
def test_the_command_line_never_shows_a_traceback(tmp_path, capsys, suffix, seed):
    """`cases list`, `cases convert` and `run` on damaged files: exit code 0, 2 or 3 and no traceback."""
    path = tmp_path / f"x{'.json' if suffix.endswith('.json') else suffix}"
    path.write_text(damaged(SOURCES[suffix], random.Random(seed)), encoding="utf-8", errors="surrogatepass")
    # A damaged size may be huge and still accepted; those cases are not started (exit code 4).
    commands = (
        (["cases", "list", str(path)], (0, 2)), (["cases", "convert", str(path), "--to", "json"], (0, 2)),
        (["run", str(path), "-q"], (0, 1, 2, 3, 4)),
    )
    for words, allowed in commands:
        code = main(words)
        shown = capsys.readouterr()
        assert code in allowed
        assert "Traceback" not in shown.err and "internal error" not in shown.err
        assert "\x1b" not in shown.err + shown.out


def test_sizes_too_large_for_memory_are_not_started(tmp_path, capsys):
    """An accepted case of dozens of terabytes gets a sentence and exit code 4, and the next case still runs."""
    path = tmp_path / "x.txt"
    path.write_text("conv n1 c1>1 i900000000000 k1 fp16   # far too large\nconv n1 c1>1 i3 k3 fp16   # small\n")
    assert main(["run", str(path), "--json", "-q"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert [c["outcome"] for c in document["cases"]] == ["error", "pass"]
    assert "GiB" in document["cases"][0]["message"]
