"""NaN, infinities, subnormal numbers and minus zero on every path, against the reference engine.

Operands are small integers, so that finite sums are exact. Some elements of one of them are then NaN, inf or minus
zero; or the whole of one is scaled down to subnormal numbers of its dtype, which leaves every sum exact.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import native_problems as problems
import random_problems
from convgrad.core import dtypes, rounding
from convgrad.engines import library, native
from outcome import Outcome

SMALLEST = {"float32": -149, "float16": -24, "bfloat16": -133}
"""Exponent of the smallest subnormal number."""
HOLES = (np.nan, np.inf, -np.inf, -0.0)


def spoil(rng: random.Random, dtype: str, arrays: list[Any]) -> str:
    """Puts special values into one operand; says what was done."""
    place = rng.randrange(3)
    values = rounding.load(dtypes.find(dtype), arrays[place]).astype(np.float64)
    if rng.random() < 0.25:
        exponent = SMALLEST[dtype] + rng.randrange(4)
        values *= 2.0**exponent
        words = f"operand {place} times 2^{exponent}"
    else:
        holes = [rng.choice(HOLES) for _ in range(rng.choice((1, 1, 2, 5)))]
        for hole in holes:
            values.flat[rng.randrange(values.size)] = hole
        words = f"operand {place} with {holes}"
    arrays[place][...] = rounding.store(dtypes.find(dtype), values)
    return words


def same(got: Any, want: Any, path: int, tiny: bool) -> bool:
    """Equal in value. A path with fewer multiplications rounds in between, or halves, which the smallest subnormal
    numbers do not survive: there only what is not finite is compared."""
    halves = tiny and library.path_names()[path].startswith("winograd")
    if path == 0 or (path in problems.EXACT_PATHS and not halves):
        return np.array_equal(got, want, equal_nan=True)
    return np.array_equal(*(np.where(np.isfinite(a), 0, a) for a in (got, want)), equal_nan=True)


def differences(rng: random.Random, most: float) -> tuple[int, list[str]]:
    """One problem on every path that takes it: runs, and what differs from the reference."""
    line, dtype = random_problems.random_line(rng, most), rng.choice(("float32", "float32", "float16", "bfloat16"))
    layout = rng.choice(("contiguous", "channels last", "any"))
    made = problems.problem(line, dtype)
    numbers = np.random.default_rng(rng.getrandbits(32))
    arrays = problems.operands(made, lambda shape: numbers.integers(-3, 4, shape).astype(float), layout)
    arrays = [problems.spread(a.copy(), layout) for a in arrays]
    words, runs, wrong = spoil(rng, dtype, arrays), 0, []
    for step in made.steps:
        one = problems.only(made, step)
        row = dtypes.find(step.stored_as)
        want = rounding.load(row, problems.reference_results(one, arrays)[step.result])
        for path in problems.PATHS if step.contraction is not None else (0,):
            results = problems.empty_results(one, layout)
            if path and not problems.accepted(one, arrays, results, path):
                continue
            native.run(one, *arrays, results, threads=rng.choice((1, 2, 3)), path=path)
            got = rounding.load(row, results[step.result])
            runs += 1
            if not same(got, want, path, "times 2^" in words):
                count = int((~((got == want) | (np.isnan(got) & np.isnan(want)))).sum())
                name = library.path_names()[path]
                wrong.append(f"{line} {dtype} {layout}, {words}: {step.result}, path {name}: {count} elements differ")
    return runs, wrong


def run(chunk: int, size: int, most: float = 2e5) -> Outcome:
    """So many random problems; the cases are the runs of paths."""
    outcome = Outcome()
    for i in range(size):
        runs, wrong = differences(random.Random(f"special {chunk} {i}"), most)
        outcome.cases += runs
        outcome.wrong += [f"problem {i} of chunk {chunk}: {text}" for text in wrong]
    return outcome
