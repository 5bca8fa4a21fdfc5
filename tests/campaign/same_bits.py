"""The same bits again: whatever the number of threads, the instruction set, the run, and what scratch memory held.

    python same_bits.py CHUNK SIZE     in one process, for the instruction set of CONVGRAD_ISA: a digest per problem

Values are normal numbers of every magnitude, so that any other order of a sum shows.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np

from outcome import Outcome

HERE = Path(__file__).resolve().parent
SETS = ("avx2", "avx512", "avx512bf16")
"""Which promise the same bits as each other."""
RUNS = ((1, False), (2, False), (3, False), (7, False), (1, True), (2, True), (2, False))
"""Threads, and whether scratch memory is filled with NaN before every task."""


def digests(chunk: int, number: int, most: float) -> tuple[str, list[str]]:
    """One problem computed in every way of `RUNS`: its line with the digest, and the ways that differ."""
    import native_problems as problems
    import random_problems
    from convgrad.engines import library

    rng = random.Random(f"bits {chunk} {number}")
    line, dtype = random_problems.random_line(rng, most), rng.choice(("float32", "float32", "bfloat16", "hifloat8"))
    layout = rng.choice(("contiguous", "channels last", "any"))
    made = problems.problem(line, dtype)
    numbers = np.random.default_rng(rng.getrandbits(32))

    def fill(shape: tuple[int, ...]) -> np.ndarray:
        return numbers.standard_normal(shape) * 2.0 ** numbers.integers(-8, 9, shape)

    arrays, first, differ = problems.operands(made, fill, layout), "", []
    for threads, spoiled in RUNS:
        library.library().cg_check_scratch(int(spoiled))
        try:
            found = problems.native_results(made, arrays, layout, threads=threads)
        finally:
            library.library().cg_check_scratch(0)
        told = hashlib.sha256()
        for result in sorted(found, key=str):
            values = np.ascontiguousarray(found[result])
            # Which of its payloads a NaN has is not promised.
            plain = values if dtype == "hifloat8" else np.where(np.isnan(values), 77, values).astype(values.dtype)
            told.update(plain.view(np.uint8))
        first = first or told.hexdigest()
        if told.hexdigest() != first:
            how = f"{threads} threads{', NaN in scratch memory' * spoiled}"
            differ.append(f"{line} {dtype} {layout}: {how} differ from one thread")
    return f"{line} {dtype} {layout} {first}", differ


def run(chunk: int, size: int, most: float = 1e6) -> Outcome:
    """So many problems on every instruction set of this machine; the cases are the runs."""
    from convgrad.engines import library

    outcome, told = Outcome(), {}
    here = library.isa()
    for isa in SETS[: SETS.index(here) + 1] if here in SETS else (here,):
        words = [sys.executable, str(Path(__file__)), str(chunk), str(size), str(most)]
        path = os.pathsep.join((str(HERE), str(HERE.parent / "support")))
        environment = {**os.environ, "CONVGRAD_ISA": isa, "PYTHONPATH": path}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        lines = done.stdout.splitlines()
        good = done.returncode == 0 and lines[:1] == [isa]
        outcome.add(0, f"chunk {chunk} on {isa}", done.stdout + done.stderr, good)
        told[isa] = [line for line in lines[1:] if not line.startswith("DIFFERS ")]
        outcome.wrong += [f"chunk {chunk} on {isa}: {line}" for line in lines if line.startswith("DIFFERS ")]
        outcome.cases += len(told[isa]) * len(RUNS)
    first = next(iter(told))
    for isa, lines in told.items():
        for one, other in zip(told[first], lines, strict=False):
            if one != other:
                outcome.wrong.append(f"chunk {chunk}: {isa} and {first} differ: {one}; {other}")
    return outcome


def main() -> None:
    from convgrad.engines import library

    chunk, size, most = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    print(library.isa())
    for number in range(size):
        told, differ = digests(chunk, number, most)
        print(told)
        for text in differ:
            print(f"DIFFERS {text}")


if __name__ == "__main__":
    main()
