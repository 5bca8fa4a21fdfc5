"""Record NumPy arrays beside PyTorch in one process: conv_backward between PyTorch's calls, whose threads spin on.

    python benchmarks/one_process.py [--rounds 12] [--json benchmarks/one_process.jsonl] [FILE ...]
    python benchmarks/one_process.py --read benchmarks/one_process.jsonl --page docs/generated/one_process.md

Each way of having threads is a process: as a program has them that only imports torch and convgrad ("found"), after
`import convgrad.torch` ("lent"), with a pool of our own beside PyTorch's ("own"), and with that pool beside a thread
that never rests ("spinner": what another runtime's threads do at their worst). In each round every process does the
problem in turn, PyTorch's call and ours one after the other, so that ours begins where one of PyTorch's has just ended.
Where its arrays happen to lie makes a process up to a quarter faster or slower: every second round has new processes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import convgrad
from convgrad.core.request import Request
from convgrad.lab.bench.contestants import operands, pytorch_call
from convgrad.lab.bench.measure import read_lines

HERE = Path(__file__).resolve().parent
WAYS = {"found": {}, "lent": {}, "own": {"CONVGRAD_THREADPOOL": "own"}, "spinner": {"CONVGRAD_THREADPOOL": "own"},
        "one": {"CONVGRAD_THREADPOOL": "own", "CONVGRAD_NUM_THREADS": "1"}}  # fmt: skip
"""What each process has in its environment. "one": a single thread beside that spinner, which is no rival to it."""
SHARES = {
    "pytorch_by_found": "PyTorch's time by ours as found", "found_by_lent": "lent threads' time by that as found",
    "spinner_by_one": "beside a spinner, one thread's time by two's",
}  # fmt: skip
SECONDS, CALLS = 0.04, 3
"""Per problem, process and round, at least."""
ROUNDS_OF_A_PROCESS = 2


def spin() -> None:
    """A thread that keeps a core busy outside the interpreter's lock."""
    text = bytes(1 << 24)
    while True:
        hashlib.sha256(text)


def answer(way: str) -> None:
    """In a process: times each problem line read, until there are no more."""
    import torch

    if way == "lent":
        import_module("convgrad.torch")
    torch.set_num_threads(int(os.environ["PYTORCH_THREADS"]))
    if way in ("spinner", "one"):
        threading.Thread(target=spin, daemon=True).start()
    made: dict[str, tuple[object, object]] = {}
    for text in sys.stdin:
        line = text.strip()
        if line not in made:
            request = Request.parse(line)
            g, x, w = operands(convgrad.plan(request))
            made[line] = (
                pytorch_call(request, (g, x, w)),
                partial(
                    convgrad.conv_backward,
                    g,
                    x,
                    w,
                    stride=request.stride,
                    padding=request.padding,
                    dilation=request.dilation,
                    transposed=request.transposed,
                    output_padding=request.output_padding,
                    groups=request.groups,
                ),
            )
        theirs, ours = made[line]
        taken: dict[str, list[float]] = {"pytorch": [], "ours": []}
        end = time.perf_counter() + SECONDS
        while len(taken["ours"]) < CALLS or time.perf_counter() < end:
            for name, call in (("pytorch", theirs), ("ours", ours)):
                start = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - start)
        pool = Path(convgrad.engine_info().threadpool).name
        print(
            json.dumps({name: 1e3 * statistics.median(values) for name, values in taken.items()} | {"pool": pool}),
            flush=True,
        )


Taken = dict[str, list[dict[str, Any]]]
"""By way, what its processes answered, round by round."""


def measured(lines: Sequence[str], rounds: int) -> dict[str, Taken]:
    """Every problem in every way, in turn."""
    threads = str(len(os.sched_getaffinity(0)))
    taken: dict[str, Taken] = {line: {way: [] for way in WAYS} for line in lines}
    for first in range(0, rounds, ROUNDS_OF_A_PROCESS):
        workers = {
            way: subprocess.Popen(
                [sys.executable, str(Path(__file__)), "--way", way], text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, env={**os.environ, "PYTORCH_THREADS": threads, **more},
            )
            for way, more in WAYS.items()
        }  # fmt: skip
        for line in lines:
            for _ in range(first, min(first + ROUNDS_OF_A_PROCESS, rounds)):
                for way, worker in workers.items():
                    assert worker.stdin is not None and worker.stdout is not None
                    os.kill(worker.pid, signal.SIGCONT)
                    print(line, file=worker.stdin, flush=True)
                    taken[line][way].append(json.loads(worker.stdout.readline()))
                    os.kill(worker.pid, signal.SIGSTOP)  # its spinner is not there for the others
        for worker in workers.values():
            worker.kill()
            worker.communicate()
    return taken


def ratio(theirs: list[dict[str, Any]], ours: list[dict[str, Any]], of: str = "ours") -> float:
    """Time by time, the median of what the rounds say."""
    return statistics.median(a[of] / b["ours"] for a, b in zip(theirs, ours, strict=True))


def as_row(line: str, taken: Taken) -> dict[str, Any]:
    """Medians of the rounds."""
    return {
        "line": line, "threads": len(os.sched_getaffinity(0)), "rounds": len(taken["found"]),
        "isa": convgrad.engine_info().isa, "torch": version("torch"),
        "pool": {way: each[0]["pool"] for way, each in taken.items()},
        "pytorch_ms": {way: statistics.median(one["pytorch"] for one in each) for way, each in taken.items()},
        "ms": {way: statistics.median(one["ours"] for one in each) for way, each in taken.items()},
        "pytorch_by_found": ratio(taken["found"], taken["found"], "pytorch"),
        "found_by_lent": ratio(taken["lent"], taken["found"]),
        "spinner_by_one": ratio(taken["one"], taken["spinner"]),
    }  # fmt: skip


def recorded(path: Path) -> list[dict[str, Any]]:
    """The rows of a run."""
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


def page(rows: list[dict[str, Any]]) -> str:
    """The table of a recorded run."""
    first = rows[0]
    head = ("problem", "PyTorch", *WAYS, "PyTorch by found", "lent by found", "one by spinner")
    text = f"""<!-- Written by `benchmarks/one_process.py`; change nothing here. -->
# In one process with PyTorch

`convgrad.conv_backward` on NumPy arrays, all gradients in float32, between PyTorch's calls, whose threads spin on:
{first["isa"]}, {first["threads"]} threads, PyTorch {first["torch"]}, medians of {first["rounds"]} rounds, a new
process every second one. Milliseconds: PyTorch's own; ours on the OpenMP runtime `found` in the process; on the same,
`lent` by `import convgrad.torch`; on a pool of our `own`; on that pool beside a `spinner`, a thread that never rests;
on `one` thread beside it. Ratios are medians of the rounds' ratios: `A by B` above 1, B is faster.

| {" | ".join(head)} |
|{"---|" * len(head)}
"""
    for row in rows:
        times = " | ".join(f"{row['ms'][way]:.3f}" for way in WAYS)
        shares = " | ".join(f"{row[name]:.2f}" for name in SHARES)
        text += f"| `{row['line']}` | {row['pytorch_ms']['found']:.3f} | {times} | {shares} |\n"
    text += "\n"
    for name, told in SHARES.items():
        values = [row[name] for row in rows]
        text += f"* {told}: geometric mean {mean(values):.2f}, least {min(values):.2f}.\n"
    return text


def mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[HERE / "problems" / "in_one_process.txt"])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path, help="this recorded run; measure nothing")
    parser.add_argument("--page", type=Path, help="of the recorded run")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        answer(asked.way)
        return
    if asked.read:
        rows = recorded(asked.read)
    else:
        lines = [line for path in asked.files for line in read_lines(path.read_text("utf-8"))]
        rows = [as_row(line, taken) for line, taken in measured(lines, asked.rounds).items()]
    print(f"{'problem':56} {'PyTorch ms':>10}" + "".join(f"{way:>9}" for way in WAYS), "  found by lent")
    for row in rows:
        times = "".join(f"{row['ms'][way]:9.3f}" for way in WAYS)
        print(f"{row['line']:56} {row['pytorch_ms']['found']:10.3f}{times} {row['found_by_lent']:10.2f}")
    print("\n".join(page(rows).splitlines()[-len(SHARES) :]))
    if asked.json:
        asked.json.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    if asked.page:
        asked.page.write_text(page(rows), "utf-8")


if __name__ == "__main__":
    main()
