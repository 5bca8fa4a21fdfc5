"""The command line: verbs, options, exit codes, what a fixed set of commands prints and the keys of its JSON.

Recorded (commands.txt): `$ words`, then `exit`, `keys`, `stdout`, `stderr`. Times, paths and versions are left out; so
are the words of a help text, whose options count. Each command runs in a directory with the files of FILES.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import tensors

import convgrad

RECORD = Path(__file__).with_name("commands.txt")
GOOD = "conv n2 c3>4 i5x6 k3x3 s1 p1 d1 g1 fp16 on=A2"
BAD = "conv n2 c3>4 i5x6 k3x3 s0 p1 d1 g1 fp32 on=A2"
TILE = "conv n1 c16>16 i2x6x6 k3x3x3 p1 fp16"
FILES = {
    "lines.txt": f"{GOOD}  # first\n{BAD}  # second\ntbc n3 c10>12 i40 k5 p2 fp32  # third\n",
    "good.txt": f"{GOOD}  # first\n",
    "model.py": "from torch import nn\nnet = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 2, 2))\n",
    "wrong.json": '{"cases": 5}\n',
}
VERBS = ("run", "check", "explain", "plan", "rules", "dtypes", "cases", "golden", "kit", "compare", "standards",
         "bench", "tile", "scan", "dump", "sdk", "completion", "doctor")  # fmt: skip
HELPS = (
    "--help", *(f"{verb} --help" for verb in VERBS),
    *(f"cases {verb} --help" for verb in ("convert", "list", "gen", "schema")),
)  # fmt: skip
COMMANDS = (
    "", "--version", "fly", "check", "check --fly", f"check '{GOOD}'", f"check '{GOOD}' --json", f"check '{BAD}'",
    f"check '{BAD}' --json", "check 'conv n1 q9'", f"explain '{BAD}'", f"explain '{BAD}' --json", f"explain '{GOOD}'",
    f"plan '{GOOD}'", f"plan '{GOOD}' --json", f"plan '{BAD}'", "rules", "rules --json", "rules A2",
    "rules --product 950", "rules --product A2 --against 910", "rules --operator tbc --language zh",
    f"explain '{BAD}' --language zh", f"check '{BAD}' --language zh", f"explain '{GOOD}' --all",
    "dtypes", "dtypes --json", "dtypes hif8 1.1 3.3 70000", "dtypes fp16 1.1 --json", "standards",
    "standards --json", "cases list lines.txt", "cases list lines.txt --json", "cases list wrong.json",
    "cases list none.txt", "cases gen resnet50 --count 5 --seed 3", "cases gen boundary --json", "cases gen",
    "cases schema", "cases convert lines.txt -o out.json", "cases convert lines.txt --to json",
    "cases convert lines.txt out.csv", "golden good.txt -o gold", "golden good.txt -o gold --format bin --wide --json",
    "golden lines.txt -o gold", "golden good.txt -o gold --layout ttk --json",
    "kit ttk -o there --json", "kit atk",
    "compare none.npy none.npy", "run lines.txt -j 1 -q", "run lines.txt -j 1 --json",
    "run good.txt -j 1 --csv out.csv --html out.html",
    "run lines.txt -j 1 -q --progress-file out.json --junit out.xml --language zh",
    f"run '{GOOD}' -j 1 --standard none", f"tile '{TILE}' --dry",
    f"tile '{TILE}' --json", f"tile '{TILE}' --gradient weight", f"tile '{BAD}'", "bench --threads 0 'conv'",
    f"bench '{GOOD}' --no-torch --rounds 1 --threads 1 --json", "scan model:net --input 1,3,8,8 --json",
    "scan model:net --input 1,3,8,8 --product 910", "dump none", "sdk", "sdk --prefix here --json",
    "sdk --prefix empty --uninstall",
)  # fmt: skip
CHAINS = (
    "golden good.txt -o gold && compare gold gold --json", "golden good.txt -o gold && compare gold gold",
    "golden good.txt -o gold && compare gold gold --standard fly",
    "cases convert lines.txt -o out.json && cases list out.json --json",
    "sdk --prefix here && sdk --prefix here --uninstall",
)  # fmt: skip
"""Commands one after the other in one directory; the last one is shown."""
_MEASURED = ("run", "bench", "compare")
"""Verbs that print times or errors: numbers of this machine."""
_MOST_SHOWN = 2000


def commands(short: bool) -> list[str]:
    every = [*HELPS, *COMMANDS, *CHAINS]
    if find_spec("torch") is None:
        print("commands: torch is not installed; `scan` is left out")
        every = [c for c in every if not c.startswith("scan")]
    return every[::4] if short else every


def _run(words: list[str], directory: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "CONVGRAD_ISA": "baseline", "CONVGRAD_NUM_THREADS": "2", "LC_ALL": "C.UTF-8",
        "PYTHONPATH": directory,
    }  # fmt: skip
    ours = ("CONVGRAD_PRODUCT", "CONVGRAD_CONFORMANCE", "CONVGRAD_TRACEBACK", "CONVGRAD_LANGUAGE")
    for name in (*ours, "COLUMNS", "FORCE_COLOR"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "convgrad", *words]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, input="")


def told(command: str) -> str:
    """The block of a command in the record."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in FILES.items():
            (Path(directory) / name).write_text(text, "utf-8")
        for one in command.split(" && "):
            done = _run(shlex.split(one), directory)
        files = sorted(p.name for p in Path(directory).iterdir() if p.name not in FILES and p.name != "__pycache__")
    lines = [f"$ {command}", f"exit {done.returncode}"]
    if files:
        lines.append(f"files {' '.join(files)}")
    if command in HELPS:
        options = re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*|{[^}]*}", done.stdout)
        lines.append(f"options {' '.join(sorted(set(options)))}")
        return "\n".join(lines)
    measured = command.split(" && ")[-1].split(" ")[0] in _MEASURED
    if done.stderr.startswith("usage:"):  # argparse's words, which follow Python's version
        return "\n".join([*lines, "stderr usage"])
    if "--json" in command:
        lines.append(f"keys {' '.join(sorted(set(_keys(_documents(done.stdout)))))}")
        if measured:
            return "\n".join(lines)
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        shown = _steady(text, directory, measured)
        if len(shown) > _MOST_SHOWN:
            lines.append(f"{name} {len(shown.splitlines())} lines {tensors.text_digest(shown, 16)}")
        elif shown:
            lines += [name, *(f"  {line}" for line in shown.splitlines())]
    return "\n".join(lines)


def _steady(text: str, directory: str, measured: bool) -> str:
    """The text without what differs from run to run."""
    text = text.replace(directory, "DIRECTORY").replace(os.path.realpath(directory), "DIRECTORY")
    text = text.replace(str(convgrad.engine_info().library), "LIBRARY")
    text = text.replace(f"convgrad {convgrad.__version__}", "convgrad VERSION")
    if measured:
        text = re.sub(r"\b\d+(\.\d+)?(e[+-]\d+)?\b", "#", text)
        text = re.sub(r" +", " ", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _documents(text: str) -> list[object]:
    """The JSON of an answer: one document, or one per line; none where it is a usage error."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def _keys(value: object, above: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f"{above}.{key}".lstrip(".")
            yield name
            yield from _keys(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{above}[]")


def _blocks(short: bool, jobs: int) -> list[str]:
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(told, commands(short)))


def write(jobs: int) -> None:
    RECORD.write_text("\n".join(_blocks(False, jobs)) + "\n", "utf-8")


def differences(short: bool, jobs: int) -> Iterator[str]:
    """Commands that do something else, with the lines."""
    recorded = {}
    for block in ("\n" + RECORD.read_text("utf-8").rstrip("\n")).split("\n$ ")[1:]:
        recorded[block.partition("\n")[0]] = "$ " + block
    for block in _blocks(short, jobs):
        command = block.partition("\n")[0][2:]
        was = recorded.get(command, "")
        if was != block:
            lines = difflib.unified_diff(was.splitlines(), block.splitlines(), "recorded", "now", lineterm="", n=0)
            yield f"{command}\n" + "\n".join(f"    {line}" for line in lines)
