"""Compare the speed of two builds in one interleaved run: what a change that must cost nothing costs.

    python benchmarks/builds.py BEFORE AFTER [--rounds 7] [--processes 3] [--threads 2] [--json FILE]

BEFORE and AFTER are checkouts with an environment in `.venv`, or interpreters. A process of each answers in turn, so
that both meet every moment of the machine; the order changes from round to round, and `--processes` pairs are started
one after the other, for a process keeps the memory layout it began with. Timed are `plan.run` and `conv_backward` on
the tiny problem (the cost of a call) and a dozen lines of the benchmark; both builds read the lines of this checkout.
A ratio is the time after by the time before in the same round; shown is the median. Exit code 1 when a call takes more
than 3 % longer, or the benchmark (its geometric mean) more than 2 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROBLEMS = Path(__file__).resolve().parent / "problems"
TINY = "conv n2 c2>2 i7x7 k1x1 s1 p0 d1 g1 fp32"
LATENCY_LIMIT, BENCHMARK_LIMIT = 1.03, 1.02
BUDGET = 0.15
"""Seconds of a benchmark line's turn."""
CALLS = 2000
"""Calls of the tiny problem timed together, eight times a turn."""
VARIANTS = (("fp32", False), ("fp32", True), ("bf16", False))
"""Dtype and channels last, in turn over the lines."""


def tasks(count: int) -> list[dict[str, Any]]:
    """What is timed: two ways to call, then lines spread over the benchmark's files."""
    lines = [line.partition("#")[0].strip() for path in sorted(PROBLEMS.glob("*.txt"))
             for line in path.read_text("utf-8").splitlines()]  # fmt: skip
    lines = [line for line in lines if line and line != TINY and "alg=" not in line]  # older builds know no such word
    chosen = [lines[place * len(lines) // count] for place in range(min(count, len(lines)))]
    found: list[dict[str, Any]] = [{"call": call, "line": TINY} for call in ("plan.run", "conv_backward")]
    for place, line in enumerate(chosen):
        dtype, channels_last = VARIANTS[place % len(VARIANTS)]
        if line.startswith("tbc"):
            channels_last = False
        found.append({"call": "benchmark", "line": line.replace("fp32", dtype), "channels_last": channels_last})
    return found


# ---- the process of one build ------------------------------------------------------------------------------


def prepared(task: dict[str, Any], threads: int | None) -> Callable[[], object]:
    """The call of a task on numbers of its own; of convgrad only what every build has."""
    import numpy as np

    import convgrad

    plan = convgrad.plan(convgrad.Request.parse(task["line"]))
    r = plan.problem.request
    rng = np.random.default_rng(7)
    arrays = []
    for spec in (r.grad_output, r.input, r.weight):
        assert spec is not None
        array = convgrad.Tensor(rng.standard_normal(spec.shape, np.float32), dtype=spec.dtype).data
        if task.get("channels_last"):
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        arrays.append(array)
    g, x, w = arrays
    if task["call"] == "plan.run":
        return lambda: plan.run(g, x, w)
    if task["call"] == "conv_backward":
        return lambda: convgrad.conv_backward(g, x, w)
    return lambda: plan.run(g, x, w, threads=threads)


def turn(task: dict[str, Any], call: Callable[[], object]) -> float:
    """The best time of a call in one turn, in seconds."""
    call()
    clock, best = time.perf_counter, math.inf
    if task["call"] != "benchmark":
        for _ in range(8):
            begun = clock()
            for _ in range(CALLS):
                call()
            best = min(best, (clock() - begun) / CALLS)
        return best
    end, turns = clock() + BUDGET, 0
    while clock() < end or turns < 3:
        begun = clock()
        call()
        best, turns = min(best, clock() - begun), turns + 1
    return best


def answer() -> None:
    """A number of a task per line of standard input, its time per line of standard output."""
    setup = json.loads(sys.stdin.readline())
    calls: dict[int, Callable[[], object]] = {}
    for line in sys.stdin:
        number = int(line)
        if number not in calls:
            calls.clear()  # tensors of one task at a time
            calls[number] = prepared(setup["tasks"][number], setup["threads"])
        print(turn(setup["tasks"][number], calls[number]), flush=True)


# ---- both ----------------------------------------------------------------------------------------------------


def interpreter(build: Path) -> str:
    found = build / ".venv" / "bin" / "python" if build.is_dir() else build
    if not found.exists():
        raise SystemExit(f"builds: no {found}")
    return str(found.absolute())


def started(build: Path, setup: dict[str, Any]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [interpreter(build), __file__, "--answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=build if build.is_dir() else None, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(json.dumps(setup) + "\n")
    return process


def asked(process: subprocess.Popen[str], number: int) -> float:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{number}\n")
    process.stdin.flush()
    told = process.stdout.readline()
    if not told:
        raise SystemExit(f"builds: {process.args[0]} ended with {process.wait()}")  # type: ignore[index]
    return float(told)


def measure(builds: tuple[Path, Path], setup: dict[str, Any], rounds: int, processes: int) -> list[list[list[float]]]:
    """Times by task and build, one of every round."""
    times: list[list[list[float]]] = [[[], []] for _ in setup["tasks"]]
    for pair in range(processes):
        both = [started(build, setup) for build in builds]
        for number, found in enumerate(times):
            for place in range(rounds):
                for which in (0, 1) if (place + pair) % 2 == 0 else (1, 0):
                    found[which].append(asked(both[which], number))
        for process in both:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--processes", type=int, default=3, help="pairs, each with all the rounds")
    parser.add_argument("--lines", type=int, default=12, help="of the benchmark")
    parser.add_argument("--threads", type=int, help="of the benchmark's lines; default: as the engine takes")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        answer()
        return 0
    if given.before is None or given.after is None:
        parser.error("two builds to compare")
    setup = {"tasks": tasks(given.lines), "threads": given.threads}
    times = measure((given.before, given.after), setup, given.rounds, given.processes)
    print(f"{'call':14} {'problem':62} {'before':>10} {'after':>10} {'ratio':>7}   quartiles")
    rows = []
    for task, (before, after) in zip(setup["tasks"], times, strict=True):
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        row = {**task, "before_ms": 1e3 * statistics.median(before), "after_ms": 1e3 * statistics.median(after),
               "ratio": middle, "quartiles": [low, high]}  # fmt: skip
        rows.append(row)
        layout = " channels last" if task.get("channels_last") else ""
        print(f"{task['call']:14} {task['line'] + layout:62} {row['before_ms']:7.4f} ms {row['after_ms']:7.4f} ms "
              f"{middle:7.4f}   {low:.3f} .. {high:.3f}")  # fmt: skip
    latency = max(row["ratio"] for row in rows if row["call"] != "benchmark")
    benchmark = [row["ratio"] for row in rows if row["call"] == "benchmark"]
    mean = math.exp(statistics.fmean(map(math.log, benchmark)))
    print(f"a call: at most {latency:.4f} (limit {LATENCY_LIMIT}); benchmark: geometric mean {mean:.4f} (limit "
          f"{BENCHMARK_LIMIT}), {min(benchmark):.4f} .. {max(benchmark):.4f}")  # fmt: skip
    if given.json:
        given.json.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return 1 if latency > LATENCY_LIMIT or mean > BENCHMARK_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
