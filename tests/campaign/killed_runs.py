"""kill -9 at random moments of `convgrad run`, then --resume: in the end everything is as without a kill."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from convgrad.lab.run import journal
from outcome import Outcome

CASES = 24


def case_file(rng: random.Random, path: Path) -> None:
    """Cases of every outcome: passing, refused, of other seeds and fillings."""
    lines = []
    for i in range(CASES):
        channels, dtype = rng.randrange(1, 5), rng.choice(("fp16", "bf16", "fp32"))
        refused = " i300 k300" if rng.random() < 0.1 else " i7x6 k3x3 p1"
        lines.append(f"conv n1 c{channels}>3{refused} {dtype} on=A2 seed={rng.randrange(9)}   # case {i}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def command(cases: Path, save: Path, jobs: int) -> list[str]:
    return [sys.executable, "-m", "convgrad", "run", str(cases), "--save", str(save), "-q", f"-j{jobs}"]


def left_behind(save: Path) -> dict[str, Any]:
    """What a finished run has: its records without times, the digests of its tensors, and any other file."""
    lines = (save / journal.NAME).read_bytes().splitlines()
    records = sorted((json.loads(line) for line in lines[1:]), key=lambda record: record["index"])
    timeless = [{k: v for k, v in record.items() if "seconds" not in k and k != "saved"} for record in records]
    files = {str(p.relative_to(save)): p for p in sorted(save.rglob("*")) if p.is_file() and p.name != journal.NAME}
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return {"records": timeless, "files": digests}


def kill_and_resume(rng: random.Random, cases: Path, save: Path, seconds: float, jobs: int) -> int:
    """Kills a run one to three times, each time at a random moment, and lets it end; its exit code."""
    words = command(cases, save, jobs)
    for _ in range(rng.choice((1, 1, 2, 3))):
        begun = (save / journal.NAME).exists() and (save / journal.NAME).stat().st_size > 0
        process = subprocess.Popen([*words, *(["--resume"] if begun else [])], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        time.sleep(rng.random() * seconds)
        process.kill()
        process.wait()
    resume = ["--resume"] if (save / journal.NAME).exists() and (save / journal.NAME).stat().st_size else []
    return subprocess.run([*words, *resume], capture_output=True, check=False).returncode


def run(chunk: int, size: int) -> Outcome:
    """So many runs that are killed, of one file of cases, against one that is not."""
    outcome, rng = Outcome(), random.Random(f"kills {chunk}")
    with tempfile.TemporaryDirectory(prefix="killed-") as name:
        scratch = Path(name)
        cases = scratch / "cases.txt"
        case_file(rng, cases)
        begun = time.monotonic()
        code = subprocess.run(command(cases, scratch / "whole", 1), capture_output=True, check=False).returncode
        seconds = time.monotonic() - begun
        want = left_behind(scratch / "whole")
        for i in range(size):
            save = scratch / "killed"
            found = kill_and_resume(rng, cases, save, seconds, rng.choice((1, 2)))
            got = left_behind(save)
            differ = [key for key in want if got[key] != want[key]]
            words = f"exit code {found} for {code}; {', '.join(differ)} differ"
            if "files" in differ:
                words += f": {sorted(set(got['files'].items()) ^ set(want['files'].items()))[:6]}"
            outcome.add(1, f"kill {i} of chunk {chunk}", words, found == code and not differ)
            shutil.rmtree(save)
    return outcome
