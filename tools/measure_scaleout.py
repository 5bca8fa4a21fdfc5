"""Measures the efficiency docs/scaleout.md speaks of, beside what the planning page expects. JSON on standard output.

One call of the functional API with two threads, then the same problem on one and on two workers of one
thread, in turns; the best of each counts. Each run is given as (seconds on the clock, processor seconds): on a busy
machine only the second means something. Operands are in memory before the clock starts, and blocks of grad_input are
dropped where they are made, so that storage is left out on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import convgrad
import convgrad.dask
from convgrad import Request
from convgrad.lab.scaleout import measured_rate, scale_out

LINE = "conv n400 c256>256 i56x56 k3x3 p1"
WARM_LINE = "conv n8 c64>64 i56x56 k3x3 p1"


def options(request: Request) -> dict[str, object]:
    return {"stride": request.stride, "padding": request.padding, "groups": request.groups}


def operands(line: str) -> tuple[da.Array, da.Array, np.ndarray]:
    """grad_output, input, weight: halves and ones, made in the blocks of the problem."""
    request, chunks = Request.parse(line), convgrad.dask.chunks(line)
    go = da.ones(request.grad_output.shape, chunks=chunks["grad_output"], dtype="f4")
    x = da.full(request.input.shape, np.float32(0.5), chunks=chunks["input"], dtype="f4")
    return go, x, np.ones(request.weight.shape, "f4")


def transferred(dask_worker: object) -> int:
    return dask_worker.transfer_outgoing_bytes_total


def on_workers(client: Client, line: str) -> tuple[float, float]:
    """Seconds on the clock, and processor seconds of all workers together."""
    *data, weight = operands(line)
    held = client.persist(data)
    wait(held)
    gradients = convgrad.dask.conv_backward(*held, weight, **options(Request.parse(line)))
    kept = gradients.input.map_blocks(lambda block: block[:1, :1, :1, :1], chunks=(1, 1, 1, 1))
    before = sum(client.run(time.process_time).values())
    start = time.perf_counter()
    dask.compute(kept, gradients.weight, gradients.bias)
    seconds = time.perf_counter() - start
    return seconds, sum(client.run(time.process_time).values()) - before


def measure(line: str, repeats: int) -> None:
    request = Request.parse(line)
    plan = convgrad.plan(request)
    arrays = [np.asarray(a.compute() if isinstance(a, da.Array) else a) for a in operands(line)]
    seconds: dict[str, list[tuple[float, float]]] = {"one process, two threads": [], "1 worker": [], "2 workers": []}
    moved = 0
    for _ in range(repeats):
        start, processor = time.perf_counter(), time.process_time()
        convgrad.conv_backward(*arrays, **options(request), threads=2)
        seconds["one process, two threads"].append((time.perf_counter() - start, time.process_time() - processor))
        for workers in (1, 2):
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                on_workers(client, WARM_LINE)  # imports are not part of the run
                seconds["1 worker" if workers == 1 else "2 workers"].append(on_workers(client, line))
                moved = sum(client.run(transferred).values())
    best, processor_best = ({n: min(f[i] for f in found) for n, found in seconds.items()} for i in (0, 1))
    rate = measured_rate(plan)
    predicted = {w: scale_out(plan, w, rate=rate) for w in (1, 2)}
    facts = {
        "line": line, "seconds": seconds, "load": os.getloadavg()[0], "engine_rate": rate,
        "efficiency": best["one process, two threads"] / best["2 workers"],
        "processor_efficiency": processor_best["one process, two threads"] / processor_best["2 workers"],
        "speedup_of_two_workers": best["1 worker"] / best["2 workers"],
        "planned": {w: {"efficiency": s.efficiency, "seconds": s.expected_seconds} for w, s in predicted.items()},
        "moved_bytes": moved, "planned_at_most": sum(predicted[2].bytes_moved.values()),
    }  # fmt: skip
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--line", default=LINE)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    measure(arguments.line, arguments.repeats)
