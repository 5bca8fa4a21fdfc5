"""The same bits again: whatever the number of threads, the instruction set, the run, and what scratch memory held.

    python same_bits.py CHUNK SIZE MOST    in one process, for the instruction set of CONVGRAD_ISA: a digest per problem

Values are normal numbers of every magnitude, so that any other order of a sum shows.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np

import instruction_sets
from outcome import Outcome

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
    outcome, problems = instruction_sets.compared(__file__, chunk, size, most)
    outcome.cases += sum(problems.values()) * len(RUNS)
    return outcome


if __name__ == "__main__":
    instruction_sets.tell(digests)
