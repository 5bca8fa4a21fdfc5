"""Record a run: every problem of the files in every dtype, beside PyTorch, JAX where installed, and the sgemm rate.

    python benchmarks/run.py [--dtypes fp32 bf16 fp16 hf32] [--rounds 5] [--threads N] [--json run.jsonl] [FILE ...]
    python benchmarks/run.py --channels-last ...     the same tensors contiguous beside them
    python benchmarks/run.py --isa avx2 ...          engine and PyTorch held to this instruction set
    python benchmarks/run.py --batch 10 ...          so many times the batch, once the batch beside it; no PyTorch, and
                                                     no new arrays: the system zeroes large ones, small ones it recycles

It measures as `convgrad bench` does (convgrad.lab.bench.measure) and adds what a record needs: what a figure is
compared with in the same rounds (PyTorch's own float32 matrix product, float32 beside hf32, direct beside fast, ...);
errors against float64; JSON lines for benchmarks/compare.py.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import platform
import re
import resource
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import convgrad
from convgrad.core.request import DEFAULT_ALGORITHM
from convgrad.functional import plan
from convgrad.lab.bench.contestants import Call, engine_call, operands, pytorch_call
from convgrad.lab.bench.measure import Clock, Settings, Task, measure, on_threads, read_lines, tasks

HERE = Path(__file__).resolve().parent
DTYPES = ("fp32", "bf16", "fp16", "hf32")


HOLDS = {
    "avx2": {"CONVGRAD_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {"CONVGRAD_ISA": "avx512", "ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
               "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
}  # fmt: skip
"""What holds the engine, PyTorch, oneDNN and the matrix product to an instruction set; read when they are loaded."""

SIDE = 1024
"""Of the square float32 matrices whose product shows what this machine can do at this moment."""


def sgemm() -> Call:
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    return lambda: torch.mm(a, b)


def relative_error(got: object, exact: object) -> float:
    """In the L2 norm."""
    a, b = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


def errors(task: Task, channels_last: bool) -> dict[str, object]:
    """Relative errors of grad_input, grad_weight, grad_bias against PyTorch in float64."""
    tensors = operands(task.plan, channels_last)
    request = task.plan.problem.request
    exact, theirs = (pytorch_call(request, given) for given in ([t.astype(np.float64) for t in tensors], tensors))
    assert exact is not None and theirs is not None
    found = {"error": task.plan.run(*tensors), "pytorch_error": theirs()}
    return {name: [relative_error(a, b) for a, b in zip(got, exact(), strict=True)] for name, got in found.items()}


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[HERE / "problems" / "networks.txt"])
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.05, help="seconds per contestant and round")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--clock", choices=[c.value for c in Clock], default="wall")
    parser.add_argument("--isa", choices=HOLDS, help="hold the engine and PyTorch to this instruction set")
    parser.add_argument("--unless", choices=HOLDS, help="do nothing where the engine uses this instruction set anyway")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--batch", type=int, default=1, help="times the problem's own")
    parser.add_argument("--only", default="", help="lines containing this text")
    parser.add_argument("--no-jax", dest="jax", action="store_false")
    parser.add_argument("--no-pytorch", dest="pytorch", action="store_false")
    parser.add_argument("--no-errors", dest="errors", action="store_false")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--append", action="store_true", help="to what the JSON file has")
    return parser.parse_args()


def rivals(task: Task, line: str, asked: argparse.Namespace) -> dict[str, Call]:
    """Calls of our own whose time this task's is a share of, by the name of the share in its row."""

    def twin(word: str, channels_last: bool = asked.channels_last) -> Call:
        made = next(other.plan for other in tasks(line, [word]) if other.want == task.want)
        return engine_call(made, operands(made, channels_last), fresh=asked.batch == 1)

    def directly() -> Call:
        made = plan(replace(task.plan.problem.request, algorithm=DEFAULT_ALGORITHM))
        return engine_call(made, operands(made, asked.channels_last), fresh=asked.batch == 1)

    found = {}
    if task.plan.problem.request.algorithm != DEFAULT_ALGORITHM:
        found["direct_ratio"] = directly()
    if task.dtype == "hf32":
        found["float32_ratio"] = twin("fp32")
    if asked.channels_last:
        found["contiguous_ratio"] = twin(task.dtype, channels_last=False)
    if asked.batch > 1:
        found["batch_ratio"] = twin(task.dtype)
    return found


def chosen(asked: argparse.Namespace, word: str) -> Iterator[tuple[Task, str]]:
    """What is timed in a dtype, and the line it is from, whose batch may be another.

    Time-batch-channel has no other layout; a larger batch is only timed for all gradients together.
    """
    lines = [line for path in asked.files for line in read_lines(path.read_text("utf-8")) if asked.only in line]
    for line in lines:
        if asked.channels_last and line.startswith("tbc"):
            continue
        larger = re.sub(r" n([0-9]+) ", lambda found: f" n{int(found[1]) * asked.batch} ", line)
        for task in tasks(larger, [word]):
            if asked.batch == 1 or task.want == "all":
                yield task, line


def record(asked: argparse.Namespace, settings: Settings, machine: dict[str, object]) -> None:
    """Prints a table per dtype and writes each row as it is measured."""
    product = sgemm()
    with asked.json.open("a" if asked.append else "w") if asked.json else io.StringIO() as sink:
        for word in asked.dtypes:
            heads = f"{'ms':>9} {'torch ms':>9} {'ratio':>6} {'GF/s':>6} {'of sgemm':>8}"
            print(f"\n{word:5} {'problem':62} {'want':12} {heads}")
            ratios: dict[str, list[float]] = {}
            for task, line in chosen(asked, word):
                own = rivals(task, line, asked)
                timing = measure(task, settings, {"sgemm": product, **own})
                of_sgemm = timing.ratio_to("sgemm")
                assert of_sgemm is not None
                of_sgemm *= timing.work / (2e-9 * SIDE**3)
                row = timing.as_dict() | {"peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
                row |= {name: timing.ratio_to(name) for name in own}
                if asked.batch > 1:  # a rate, not a time
                    row["batch_ratio"] = asked.batch * (timing.ratio_to("batch_ratio") or math.nan)
                if task.want == "all" and word == "fp32" and asked.errors and settings.pytorch:
                    row |= errors(task, settings.channels_last)
                shown = f"{'':9} {'':6}"
                if settings.pytorch:
                    assert timing.pytorch_ms is not None and timing.ratio is not None, task.line
                    ratios.setdefault(task.want, []).append(timing.ratio)
                    shown = f"{timing.pytorch_ms:9.3f} {timing.ratio:6.2f}"
                print(f"{word:5} {task.line:62} {task.want:12} {timing.ms:9.3f} {shown} {timing.gflops:6.0f} "
                      f"{of_sgemm:8.2f}", *(f"{name} {row[name]:.2f}" for name in own), flush=True)
                sink.write(json.dumps(row | {"of_sgemm": of_sgemm, **machine}) + "\n")
                sink.flush()
            for want, values in ratios.items():
                print(f"{word:5} {want:12} geometric mean {geometric_mean(values):.2f}x, least {min(values):.2f}x")


def hold_to(isa: str) -> None:
    """Starts over with the instruction set in the environment."""
    if HOLDS[isa].items() - os.environ.items():
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **HOLDS[isa]})


def main() -> None:
    asked = options()
    if asked.isa:
        hold_to(asked.isa)
    if asked.unless == convgrad.engine_info().isa:
        return
    settings = Settings(
        asked.rounds, asked.budget, Clock(asked.clock), pytorch=asked.pytorch and asked.batch == 1,
        jax=asked.jax and asked.batch == 1, channels_last=asked.channels_last, fresh=asked.batch == 1,
    )
    with on_threads(asked.threads, settings.clock, pytorch=True) as threads:
        isa = convgrad.engine_info().isa
        machine = {"machine": platform.processor() or platform.machine(), "isa": isa, "held": asked.isa,
                   "threads": threads, "clock": asked.clock, "channels_last": asked.channels_last, "batch": asked.batch,
                   "torch": torch.__version__, "convgrad": convgrad.__version__, "rounds": asked.rounds}
        if settings.jax and find_spec("jax") is not None:
            machine["jax"] = version("jax")
        print(f"convgrad {convgrad.__version__} ({isa}, {threads} threads) against torch {torch.__version__}, "
              f"{asked.clock} clock, {asked.rounds} rounds", file=sys.stderr)
        record(asked, settings, machine)


if __name__ == "__main__":
    main()
