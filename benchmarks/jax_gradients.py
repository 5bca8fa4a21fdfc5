"""Gradients inside a compiled JAX program: XLA's own against convgrad.jax, alternating in one run, as JSON lines.

Both are `jax.jit` of the vector-Jacobian product with respect to input and weight; a figure is the median of the
rounds' best calls. Lines: arguments, else those of benchmarks/problems/networks.txt that XLA can be asked.
"""

import json
import statistics
import sys
from pathlib import Path

import jax
import numpy as np

import convgrad
import convgrad.jax as door
from convgrad.core.request import Operator, Request, pad_pairs
from convgrad.lab.bench.contestants import jax_call, operands
from convgrad.lab.bench.measure import Clock, best, read_lines

ROUNDS, BUDGET = 5, 0.1
PROBLEMS = Path(__file__).parent / "problems" / "networks.txt"


def door_call(request, tensors):
    """The same gradients through convgrad.jax."""
    pads = pad_pairs(request.padding, tensors[1].ndim - 2)
    how = {"stride": request.stride, "padding": pads, "dilation": request.dilation, "groups": request.groups}
    compiled = jax.jit(lambda g, x, w: jax.vjp(lambda x, w: door.convolution(x, w, **how), x, w)[1](g))
    given = [jax.numpy.asarray(t) for t in tensors]
    return lambda: jax.block_until_ready(compiled(*given))


def main():
    lines = sys.argv[1:] or read_lines(PROBLEMS.read_text("utf-8"))
    info = convgrad.engine_info()
    about = {"engine": info.engine, "isa": info.isa, "threads": info.threads, "jax": jax.__version__}
    print(json.dumps(about), flush=True)
    ratios = []
    for line in lines:
        request = Request.parse(line)
        if request.transposed or request.operator is Operator.TBC or request.math:
            continue
        tensors = operands(convgrad.plan(request))
        xla, ours = jax_call(request, tensors), door_call(request, tensors)
        rounds = [(best(xla, Clock.WALL, BUDGET), best(ours, Clock.WALL, BUDGET)) for _ in range(ROUNDS)]
        ratio = statistics.median(a / b for a, b in rounds)
        ratios.append(ratio)
        theirs, mine = (1e3 * statistics.median(r[i] for r in rounds) for i in (0, 1))
        print(json.dumps({"line": line, "xla_ms": round(theirs, 4), "convgrad_ms": round(mine, 4),
                          "ratio": round(ratio, 2)}), flush=True)  # fmt: skip
    print(json.dumps({"what": "geometric mean of the ratios", "lines": len(ratios),
                      "ratio": round(float(np.exp(np.mean(np.log(ratios)))), 2)}))  # fmt: skip


if __name__ == "__main__":
    main()
