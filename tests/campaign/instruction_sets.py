"""One program per instruction set that promises the same bits: what each tells of a problem is compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from outcome import Outcome

HERE = Path(__file__).resolve().parent
SETS = ("avx2", "avx512", "avx512bf16")
"""Which promise the same bits as each other."""

One = Callable[[int, int, float], tuple[str, list[str]]]
"""Chunk, number, most multiplications: the problem's line with a digest of its results, and what differs within it."""


def compared(program: str, chunk: int, size: int, most: float) -> tuple[Outcome, dict[str, int]]:
    """`program CHUNK SIZE MOST` on every instruction set of this machine: what went wrong, and the problems of each."""
    from convgrad.engines import library

    outcome, told = Outcome(), {}
    here = library.isa()
    for isa in SETS[: SETS.index(here) + 1] if here in SETS else (here,):
        words = [sys.executable, program, str(chunk), str(size), str(most)]
        path = os.pathsep.join((str(HERE), str(HERE.parent / "support")))
        environment = {**os.environ, "CONVGRAD_ISA": isa, "PYTHONPATH": path}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        lines = done.stdout.splitlines()
        good = done.returncode == 0 and lines[:1] == [isa]
        outcome.add(0, f"chunk {chunk} on {isa}", done.stdout + done.stderr, good)
        told[isa] = [line for line in lines[1:] if not line.startswith("DIFFERS ")]
        outcome.wrong += [f"chunk {chunk} on {isa}: {line}" for line in lines if line.startswith("DIFFERS ")]
    first = next(iter(told))
    for isa, lines in told.items():
        for mine, other in zip(told[first], lines, strict=False):
            if mine != other:
                outcome.wrong.append(f"chunk {chunk}: {isa} and {first} differ: {mine}; {other}")
    return outcome, {isa: len(lines) for isa, lines in told.items()}


def tell(one: One) -> None:
    """The program itself: a line per problem, for the instruction set of CONVGRAD_ISA."""
    from convgrad.engines import library

    chunk, size, most = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    print(library.isa())
    for number in range(size):
        told, differ = one(chunk, number, most)
        print(told)
        for text in differ:
            print(f"DIFFERS {text}")
