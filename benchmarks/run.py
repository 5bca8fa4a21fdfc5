"""Record a run: every problem of the files in every dtype, beside PyTorch, JAX where installed, and the sgemm rate.

    python benchmarks/run.py [--dtypes fp32 bf16 fp16 hf32] [--rounds 5] [--threads N] [--json run.jsonl] [FILE ...]

It measures as `convgrad bench` does (convgrad.bench.measure) and adds what a record needs: PyTorch's own float32 matrix
product, and float32 beside hf32, in the same rounds; errors against float64; JSON lines for benchmarks/compare.py.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import platform
import resource
import statistics
import sys
from pathlib import Path

import numpy as np
import torch

import convgrad
from convgrad.bench.contestants import Call, engine_call, operands, pytorch_call
from convgrad.bench.measure import Clock, Settings, Task, measure, on_threads, read_lines, tasks

HERE = Path(__file__).resolve().parent
DTYPES = ("fp32", "bf16", "fp16", "hf32")


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
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--only", default="", help="lines containing this text")
    parser.add_argument("--no-jax", dest="jax", action="store_false")
    parser.add_argument("--no-errors", dest="errors", action="store_false")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def record(asked: argparse.Namespace, settings: Settings, machine: dict[str, object]) -> None:
    """Prints a table per dtype and writes each row as it is measured."""
    product = sgemm()
    lines = [line for path in asked.files for line in read_lines(path.read_text("utf-8")) if asked.only in line]
    with asked.json.open("w") if asked.json else io.StringIO() as sink:
        for word in asked.dtypes:
            heads = f"{'ms':>9} {'torch ms':>9} {'ratio':>6} {'GF/s':>6} {'of sgemm':>8}"
            print(f"\n{word:5} {'problem':62} {'want':12} {heads}")
            ratios: dict[str, list[float]] = {}
            for line in lines:
                for task in tasks(line, [word]):
                    beside = {"sgemm": product}
                    if word == "hf32":
                        twin = next(other.plan for other in tasks(line, ["fp32"]) if other.want == task.want)
                        given = operands(twin, settings.channels_last)
                        beside["float32"] = engine_call(twin, given, settings.channels_last)
                    timing = measure(task, settings, beside)
                    assert timing.pytorch_ms is not None and timing.ratio is not None, line
                    of_sgemm = timing.ratio_to("sgemm")
                    assert of_sgemm is not None
                    of_sgemm *= timing.work / (2e-9 * SIDE**3)
                    row = timing.as_dict() | {"peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
                    if word == "hf32":
                        row["float32_ratio"] = timing.ratio_to("float32")
                    if task.want == "all" and word == "fp32" and asked.errors:
                        row |= errors(task, settings.channels_last)
                    ratios.setdefault(task.want, []).append(timing.ratio)
                    print(f"{word:5} {line:62} {task.want:12} {timing.ms:9.3f} {timing.pytorch_ms:9.3f} "
                          f"{timing.ratio:6.2f} {timing.gflops:6.0f} {of_sgemm:8.2f}", flush=True)
                    sink.write(json.dumps(row | {"of_sgemm": of_sgemm, **machine}) + "\n")
                    sink.flush()
            for want, values in ratios.items():
                print(f"{word:5} {want:12} geometric mean {geometric_mean(values):.2f}x, least {min(values):.2f}x")


def main() -> None:
    asked = options()
    settings = Settings(
        asked.rounds, asked.budget, Clock(asked.clock), jax=asked.jax, channels_last=asked.channels_last
    )
    with on_threads(asked.threads, settings.clock, pytorch=True) as threads:
        isa = convgrad.engine_info().isa
        machine = {"machine": platform.processor() or platform.machine(), "isa": isa, "threads": threads,
                   "clock": asked.clock, "channels_last": asked.channels_last, "torch": torch.__version__,
                   "convgrad": convgrad.__version__, "rounds": asked.rounds}
        print(f"convgrad {convgrad.__version__} ({isa}, {threads} threads) against torch {torch.__version__}, "
              f"{asked.clock} clock, {asked.rounds} rounds", file=sys.stderr)
        record(asked, settings, machine)


if __name__ == "__main__":
    main()
