"""Time the engine against PyTorch, and JAX where installed, on problem lines: interleaved in one run.

    python benchmarks/run.py [--dtypes fp32 bf16 fp16 hf32] [--rounds 5] [--threads N] [--json run.jsonl] [FILE ...]

Each round measures every contestant once, one after the other, so that whatever else the machine does hits all of them;
the figure is the median over rounds of each round's best call. `--clock cpu` counts processor time on one thread
instead: the figure to trust on a machine shared with others. GF/s counts 2 x multiply-adds, those with padding too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import convgrad
from convgrad import dtypes, rounding
from convgrad.functional import ExecutablePlan, plan
from convgrad.request import Operator, Request

HERE = Path(__file__).resolve().parent
WANTS = {"input": (True, False, False), "weight+bias": (False, True, True), "all": (True, True, True)}
TORCH_DTYPES = {"fp32": torch.float32, "hf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HF32 = {"math": 3, "product": "A2"}
Call = Callable[[], object]


def lines(paths: list[Path]) -> list[str]:
    """Problem lines of text files, comments left out."""
    texts = (line.split("#")[0].strip() for path in paths for line in path.read_text().splitlines())
    return [text for text in texts if text]


def made_plan(line: str, word: str, want: tuple[bool, bool, bool]) -> ExecutablePlan:
    request = Request.parse(line.replace("fp32", "fp32" if word == "hf32" else word))
    if request.operator is Operator.CONV:
        shown = zip(want, (request.grad_input, request.grad_weight, request.grad_bias), strict=True)
        x, w, b = (spec if wanted else None for wanted, spec in shown)
        request = replace(request, output_mask=want, grad_input=x, grad_weight=w, grad_bias=b)
    return plan(replace(request, **HF32) if word == "hf32" else request)


def arrays(made: ExecutablePlan, channels_last: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    r = made.problem.request
    tensors = []
    for spec in (r.grad_output, r.input, r.weight):
        assert spec is not None
        array = rounding.store(dtypes.find(spec.dtype), rng.standard_normal(spec.shape, np.float32))
        if channels_last and spec is not r.weight and r.operator is Operator.CONV:
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        tensors.append(array)
    return tensors


def ours(made: ExecutablePlan, tensors: list[np.ndarray], channels_last: bool) -> Call:
    """The plan run on these tensors, results in fresh arrays as PyTorch's are; in the operands' layout where asked."""
    if not channels_last:
        return lambda: made.run(*tensors)
    first = made.run(*tensors)
    return lambda: made.run(
        *tensors, out=[None if g is None else np.empty_like(t) if t.shape == g.shape else np.empty_like(g)
                       for g, t in zip(first, (tensors[1], tensors[2], tensors[0]), strict=True)]
    )


def as_torch(array: np.ndarray, word: str) -> torch.Tensor:
    if array.dtype.itemsize == 2:
        return torch.from_numpy(array.view(np.int16)).view(TORCH_DTYPES[word])
    return torch.from_numpy(array)


def pytorch(made: ExecutablePlan, tensors: list[np.ndarray], word: str, want: tuple[bool, bool, bool]) -> Call:
    r = made.problem.request
    g, x, w = (as_torch(t, word) for t in tensors)
    if r.operator is Operator.TBC:
        bias = torch.zeros(g.shape[2], dtype=g.dtype)
        return lambda: torch.ops.aten.conv_tbc_backward(g, x, w, bias, r.pad)
    rank = x.ndim - 2
    channels = g.shape[1]
    return lambda: torch.ops.aten.convolution_backward(
        g, x, w, [channels], r.stride, r.padding, r.dilation, r.transposed, [0] * rank, r.groups, want
    )


def jax_call(made: ExecutablePlan, tensors: list[np.ndarray], word: str, want: tuple[bool, bool, bool]) -> Call | None:
    """The vector-Jacobian product, compiled; only where JAX is installed and says the same (no transposed, no TBC)."""
    r = made.problem.request
    if word == "hf32" or r.transposed or r.operator is Operator.TBC:
        return None
    try:
        import jax
    except ImportError:
        return None
    letters = "DHW"[3 - (tensors[1].ndim - 2) :]
    numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")

    def gradients(g, x, w):  # type: ignore[no-untyped-def]
        def forward(x, w):  # type: ignore[no-untyped-def]
            return jax.lax.conv_general_dilated(
                x, w, r.stride, [(p, p) for p in r.padding], rhs_dilation=r.dilation, feature_group_count=r.groups,
                dimension_numbers=numbers,
            )

        dx, dw = jax.vjp(forward, x, w)[1](g)
        return (dx if want[0] else None), (dw if want[1] else None)

    compiled = jax.jit(gradients)
    given = [jax.numpy.asarray(t) for t in tensors]
    return lambda: jax.block_until_ready(compiled(*given))


def sgemm_rate(clock: Callable[[], float]) -> float:
    """GF/s of PyTorch's own float32 matrix product: what this machine can do at this moment."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return 2 * 1024**3 / best(lambda: torch.mm(a, b), clock, 0.05) / 1e9


def best(call: Call, clock: Callable[[], float], budget: float) -> float:
    """Seconds of the best call within a budget."""
    call()
    fastest, begin = math.inf, time.perf_counter()
    while True:
        start = clock()
        call()
        fastest = min(fastest, clock() - start)
        if time.perf_counter() - begin > budget:
            return fastest


def error(got: object, exact: object) -> float:
    """Relative L2 error."""
    a, b = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


def measure(line: str, word: str, options: argparse.Namespace, clock: Callable[[], float]) -> list[dict[str, object]]:
    rows = []
    for name, want in WANTS.items():
        if line.startswith("tbc") and name != "all":
            continue
        made = made_plan(line, word, want)
        tensors = arrays(made, options.channels_last)
        contestants: dict[str, Call | None] = {
            "convgrad": ours(made, tensors, options.channels_last),
            "pytorch": pytorch(made, tensors, word, want),
            "jax": jax_call(made, tensors, word, want) if options.jax else None,
        }
        times: dict[str, list[float]] = {k: [] for k, call in contestants.items() if call is not None}
        for _ in range(options.rounds):
            for contestant, call in contestants.items():
                if call is not None:
                    times[contestant].append(best(call, clock, options.budget))
        ms = {k: 1e3 * statistics.median(v) for k, v in times.items()}
        work = 2e-9 * made.problem.geometry.multiply_adds * (want[0] + want[1])
        row: dict[str, object] = {
            "line": line, "dtype": word, "want": name, "ms": ms["convgrad"], "pytorch_ms": ms["pytorch"],
            "ratio": ms["pytorch"] / ms["convgrad"], "gflops": work / ms["convgrad"] * 1e3,
            "paths": list(made.paths), "workspace": made.workspace_bytes,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        if "jax" in ms:
            row["jax_ms"] = ms["jax"]
        if name == "all" and word == "fp32" and options.errors:
            row |= errors(made, tensors, word, want)
        rows.append(row)
    return rows


def errors(
    made: ExecutablePlan, tensors: list[np.ndarray], word: str, want: tuple[bool, bool, bool]
) -> dict[str, object]:
    """Relative errors of grad_input, grad_weight, grad_bias against PyTorch in float64."""
    exact = pytorch(made, [t.astype(np.float64) for t in tensors], word, want)()
    theirs = pytorch(made, tensors, word, want)()
    mine = made.run(*tensors)
    return {
        "error": [error(a, b) for a, b in zip(mine, exact, strict=True)],  # type: ignore[call-overload]
        "pytorch_error": [error(a, b) for a, b in zip(theirs, exact, strict=True)],  # type: ignore[call-overload]
    }


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[HERE / "problems" / "networks.txt"])
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16", "fp16", "hf32"], choices=list(TORCH_DTYPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.05, help="seconds per contestant and round")
    parser.add_argument("--threads", type=int, default=convgrad.engine_info().threads)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--only", default="", help="lines containing this text")
    parser.add_argument("--no-jax", dest="jax", action="store_false")
    parser.add_argument("--no-errors", dest="errors", action="store_false")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    clock = time.perf_counter
    if options.clock == "cpu":
        clock, options.threads = time.process_time, 1
    torch.set_num_threads(options.threads)
    os.environ["CONVGRAD_NUM_THREADS"] = str(options.threads)
    info = convgrad.engine_info()
    machine = {"machine": platform.processor() or platform.machine(), "isa": info.isa, "threads": options.threads,
               "clock": options.clock, "channels_last": options.channels_last, "torch": torch.__version__,
               "convgrad": convgrad.__version__, "rounds": options.rounds}
    print(f"convgrad {convgrad.__version__} ({info.isa}, {options.threads} threads) against torch {torch.__version__}, "
          f"{options.clock} clock, {options.rounds} rounds", file=sys.stderr)
    sink = options.json.open("w") if options.json else None
    try:
        for word in options.dtypes:
            rows = []
            heads = f"{'ms':>9} {'torch ms':>9} {'ratio':>6} {'GF/s':>6} {'sgemm':>6}"
            print(f"\n{word:5} {'problem':62} {'want':12} {heads}")
            for line in lines(options.files):
                if options.only not in line:
                    continue
                rate = sgemm_rate(clock)
                for row in measure(line, word, options, clock):
                    row |= {"sgemm": rate, **machine}
                    rows.append(row)
                    print(f"{word:5} {line:62} {row['want']:12} {row['ms']:9.3f} {row['pytorch_ms']:9.3f} "
                          f"{row['ratio']:6.2f} {row['gflops']:6.0f} {rate:6.0f}", flush=True)
                    if sink:
                        sink.write(json.dumps(row) + "\n")
                        sink.flush()
            for name in WANTS:
                ratios = [float(str(r["ratio"])) for r in rows if r["want"] == name]
                if ratios:
                    print(f"{word:5} {name:12} geometric mean {geometric_mean(ratios):.2f}x, least {min(ratios):.2f}x")
    finally:
        if sink:
            sink.close()


if __name__ == "__main__":
    main()
