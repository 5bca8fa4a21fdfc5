"""Record the memory a call takes besides its operands and gradients, ours and PyTorch's.

    python benchmarks/memory.py [--json benchmarks/memory.jsonl] [FILE ...]

Each figure is of a process of its own: operands are made, a tiny call loads what is loaded once, freed memory is given
back, then the first call of the problem runs. Shown is how far the peak of the process rose above what it held before,
less the size of the gradients. Linux only: it reads VmHWM.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import convgrad
from convgrad.core.request import Request
from convgrad.lab.bench.contestants import engine_call, operands, pytorch_call

HERE = Path(__file__).resolve().parent
TINY = "conv n2 c2>2 i7x7 k1x1 s1 p0 d1 g1 fp32"


def kibibytes(name: str) -> int:
    """A figure of /proc/self/status."""
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":"))


def first_call(stack: str, line: str) -> int:
    """Bytes the first call of a problem takes at its peak, its gradients included."""
    made = convgrad.plan(Request.parse(line))
    tensors = operands(made)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = kibibytes("VmRSS")
    if stack == "PyTorch":
        assert pytorch_call(made.problem.request, tensors) is not None  # it makes a first call itself
    else:
        engine_call(made, tensors)()
    return 1024 * (kibibytes("VmHWM") - before)


def measure(stack: str, line: str) -> int:
    """The extra bytes of a call, in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--child", stack, line]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the memory of a call besides its operands and gradients.")
    parser.add_argument("files", nargs="*", type=Path, default=[HERE / "problems" / "networks.txt"])
    parser.add_argument("--json", type=Path, default=HERE / "memory.jsonl")
    parser.add_argument("--child", nargs=2, metavar=("STACK", "LINE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        stack, line = arguments.child
        first_call(stack, TINY)
        r = Request.parse(line)
        specs = [spec for spec in (r.input, r.weight) if spec is not None]
        gradients = sum(4 * math.prod(spec.shape) for spec in specs)
        print(max(0, first_call(stack, line) - gradients))
        return
    rows = []
    for path in arguments.files:
        for text in path.read_text().splitlines():
            line = text.partition("#")[0].strip()
            if line:
                extra = {stack: measure(stack, line) for stack in ("convgrad", "PyTorch")}
                rows.append({"line": line, "extra_bytes": extra, "torch": version("torch")})
                print(line, *(f"{stack} {size / 2**20:.1f} MiB" for stack, size in extra.items()), flush=True)
    arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
