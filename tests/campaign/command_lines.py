"""Hostile command lines: every verb and option, right but for one to four words that are anything.

Options are read from the parsers (`cli/command_tree.py`), so a new one is met by itself. Files named are whole,
damaged, empty, directories, links into nothing, devices. What may come out is what damaged files may: an answer and an
exit code. Everything is written below a directory of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import damaged_files
from convgrad.cli.command_tree import Node, nodes
from outcome import Outcome

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "09_ascendc_kernels"
LINE = "conv n1 c2>3 i5x5 k3x3 p1 fp16 on=A2"
TILE_LINE = "conv n1 c16>16 i1x6x6 k1x3x3 p0x1x1 fp16"
NUMBERS = (
    "0", "1", "2", "-1", "3", "1.5", "-0", "nan", "inf", "1e999", "4097", "2147483648", "9" * 40, "9" * 5000, "0x10",
)  # fmt: skip
TEXTS = (
    "", " ", "-", "--", "=", "x", "é", "🙂", "\x1b[2J", "\udcff", "a" * 3000, "'", '"', "%s", "%", "{}", "{0}", "../x",
    "[", "(",
    "*", ",", ",,", "a,b", "cpu,", "None", "[1,2]", "{}:{}", ":", "a:b", "file.py:", "no_such:name", "\n", "#", "~",
    "$HOME",
    "uniform:", "uniform:5:-5", "normal:0:-1", "outliers:a:b", "integers:1e9:1e10", "special:2", "cancellation:0:0",
)  # fmt: skip
WORDS = (
    "A2", "950", "A3", "cpu", "document", "runtime", "keep", "fp16", "bf16", "hf32", "float32", "hifloat8", "mixed",
    "exact",
    "mixed,exact", "en", "zh", "random", "resnet50", "boundary", "direct", "fast", "convgrad", "torch", "1,3,8,8",
    "alone",
    "Ascend910B3", "conv n1 c1>1 i3 k1", "tconv n1 c2>3 i4 k2 s2", "tbc n2 c3>4 i6 k3 p1", "conv n0 c1>1 i3 k1",
    "conv n1 c1>1 i1000000x1000000 k1x1", "conv n9999999999 c1>1 i3 k1", "conv", "conv n1", TILE_LINE,
)  # fmt: skip
RARE = ("kernel", "audit", "invariance", "bench", "sdk", "scan")
"""Verbs that start compilers, processes or PyTorch: one command line of twenty."""


def whole_files(directory: Path) -> dict[str, list[str]]:
    """The words that are right for each verb; the files they name are made."""
    (directory / "cases.txt").write_text(f"{LINE}\nconv n1 c2>2 i4 k2 fp32 on=A2\n", "utf-8")
    np.save(directory / "one.npy", np.ones((4, 3), np.float32))
    np.save(directory / "part.npy", np.ones((2, 3), np.float32))
    (directory / "stack.py").write_text("def gradients(*a, **k):\n    raise ValueError('no')\n", "utf-8")
    (directory / "net.py").write_text(
        "import torch\nNet = lambda: torch.nn.Conv2d(3, 4, 3)\nBroken = lambda: 1 / 0\nnumber = 5\n", "utf-8"
    )
    (directory / "none.cpp").write_text("// no kernel\n", "utf-8")
    shutil.copy(EXAMPLES / "grad_input.cpp", directory / "kernel.cpp")
    shutil.copy(EXAMPLES / "problem.h", directory)
    (directory / "dump").mkdir()
    (directory / "dump" / "dump.json").write_text('{"task": "statistics", "framework": "pytorch", "data": {}}', "utf-8")
    return {
        "run": ["cases.txt", "-q", "-j1"], "check": [LINE], "explain": [LINE], "plan": [LINE], "rules": [],
        "dtypes": [],
        "cases list": ["cases.txt"], "cases convert": ["cases.txt", "--to", "json"],
        "cases gen": ["random", "--count", "3"],
        "golden": ["cases.txt", "-o", "made"], "kit": ["ttk", "-o", "made"], "compare": ["one.npy", "one.npy"],
        "standards": [],
        "bench": [LINE, "--rounds", "1", "--no-torch"], "tile": [TILE_LINE, "--cores", "2"],
        "kernel": ["kernel.cpp", "--line", TILE_LINE], "scan": ["net.py:Net", "-i", "1,3,8,8"],
        "invariance": ["--files", "one.npy", "part.npy", "--at", "1"],
        "audit": ["stack.py:gradients", "conv n1 c1>1 i3 k1", "--repeats", "1", "--threads", "1", "--isa", "default"],
        "dump": ["dump"], "sdk": ["--prefix", "made"], "completion": ["bash"], "doctor": [],
    }  # fmt: skip


def odd_files(directory: Path) -> list[str]:
    """Names of files that are none of those a command wants."""
    (directory / "empty").write_bytes(b"")
    (directory / "zeros").write_bytes(bytes(300))
    (directory / "text.json").write_text('{"cases": [{"a": 1}], "cases": 5}', "utf-8")
    (directory / "deep.json").write_text('{"a":' * 3000, "utf-8")
    (directory / "list.json").write_text("[[1, 2], null, {}]", "utf-8")
    (directory / "bad.py").write_text("def f(:\n", "utf-8")
    (directory / "exits.py").write_text("raise SystemExit(7)\n", "utf-8")
    if not (directory / "nowhere").is_symlink():
        (directory / "nowhere").symlink_to("gone/away")
        (directory / "loop").symlink_to("loop")
    (directory / "folder").mkdir(exist_ok=True)
    return [
        "empty", "zeros", "text.json", "deep.json", "list.json", "bad.py", "exits.py", "nowhere", "loop", "folder",
        "missing",
        "missing/below", "cases.txt/below", "one.npy", "part.npy", "cases.txt", "net.py", "none.cpp", "kernel.cpp",
        "dump", "made", ".", "..",
        "/dev/null", "/dev/full", "/dev/zero", "/proc/self/mem", "bad.py:f", "exits.py:f", "net.py:Net",
        "net.py:Broken",
        "net.py:number", "net.py:gone", "stack.py:gradients", "x" * 300, "out.html", "out.xlsx", "out.csv", "out.json",
    ]  # fmt: skip


def any_word(rng: random.Random, files: list[str]) -> str:
    word = rng.choice(rng.choice((NUMBERS, TEXTS, WORDS, files)))
    return rng.choice((word, word, word, f"{word}{rng.choice(WORDS)}", word[: rng.randrange(9)]))


def hostile(rng: random.Random, node: Node, ordinary: list[str], files: list[str]) -> list[str]:
    """The words of a verb with some of them changed, dropped, doubled, and options added."""
    words = list(ordinary)
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        how = rng.randrange(10)
        place = rng.randrange(len(words) + 1)
        if how < 6 and node.options:
            option = rng.choice([o for o in node.options if "--help" not in o.names])
            value = [rng.choice(option.choices)] if option.choices and rng.random() < 0.5 else [any_word(rng, files)]
            words += [rng.choice(option.names), *(value if option.value or rng.random() < 0.02 else [])]
        elif how == 6 and words:
            words[rng.randrange(len(words))] = any_word(rng, files)
        elif how == 7 and words:
            del words[rng.randrange(len(words))]
        elif how == 8 and words:
            words.insert(place, rng.choice(words))
        else:
            words.insert(place, any_word(rng, files))
    # Not in a process that hears signals for the whole chunk, nor beside a cluster that is not there.
    return [*node.path, *(w for w in words if w not in ("--scheduler", "--workers"))]


@contextlib.contextmanager
def inside(directory: Path, typed: str) -> Iterator[None]:
    """Works in a directory, with something on standard input."""
    before, stdin = Path.cwd(), sys.stdin
    os.chdir(directory)
    sys.stdin = io.TextIOWrapper(io.BytesIO(typed.encode("utf-8", "surrogateescape")), encoding="utf-8")
    try:
        yield
    finally:
        os.chdir(before)
        sys.stdin = stdin


def run(chunk: int, size: int) -> Outcome:
    """So many command lines."""
    from hostile_calls import little_memory

    outcome, rng = Outcome(), random.Random(f"command lines {chunk}")
    tree = {" ".join(node.path): node for node in nodes()}
    with tempfile.TemporaryDirectory(prefix="lines-") as name:
        ordinary, files = whole_files(Path(name)), odd_files(Path(name))
        verbs = sorted(ordinary)
        for i in range(size):
            verb = rng.choice(verbs)
            if verb in RARE and rng.random() < 0.95:
                verb = "dump"
            words = hostile(rng, tree[verb], ordinary[verb], files)
            with inside(Path(name), rng.choice(("", LINE, "\0", "{"))), little_memory(1 << 30):
                found = damaged_files.complaint(words)
            outcome.add(1, f"command line {i} of chunk {chunk}, {' '.join(map(repr, words))[:600]}", found, not found)
    return outcome
