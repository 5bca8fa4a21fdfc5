"""A sample's bits do not depend on its batch: alone, in parts of the batch, at any place, on any number of threads.

    python batch_invariance.py CHUNK SIZE MOST      in one process, for the instruction set of CONVGRAD_ISA

One random problem is computed for the whole batch; then for every sample alone, for a part of the batch, and for the
samples in another order. The engine is asked for the same addresses and strides each time, so that nothing but the
batch differs. Input gradients and forward results; the gradients of the weight sum over the batch and are not compared.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import numpy as np

import instruction_sets
from outcome import Outcome

DTYPES = ("float32", "float32", "float32", "float16", "bfloat16", "float8_e4m3fn", "hifloat8", "float64")
ALGORITHMS = ("direct", "direct", "direct", "fast", "exact-fast")
BATCHES = (2, 2, 3, 4, 5, 8, 9, 16, 17, 33, 70)
_BATCH_PLACE = slice(0, 8)  # cg_problem.batch


class Subject:
    """One wanted result of a problem: computes any samples of it that follow each other."""

    def __init__(self, line: str, dtype: str, layout: str, algorithm: str, seed: int, bad_samples: bool) -> None:
        import native_problems as problems
        from convgrad.core import dtypes, rounding
        from convgrad.core.plan import Result
        from convgrad.engines import problem_struct

        # The plan of a forward pass and that of the input gradient are each one contraction.
        made = problems.problem(line, dtype, algorithm=algorithm)
        step = made.steps[0]
        made = problems.only(made, step)
        numbers = np.random.default_rng(seed)

        def fill(shape: tuple[int, ...]) -> np.ndarray:
            values = numbers.standard_normal(shape) * 2.0 ** numbers.integers(-6, 7, shape)
            if bad_samples:
                flat = values.reshape(-1)
                flat[numbers.integers(0, flat.size, max(1, flat.size // 200))] = numbers.choice([np.inf, -np.inf])
            return values

        r = made.problem.request
        self.batch = r.input.shape[0]
        stored = problems.operands(made, fill, layout)
        spec = r.grad_output if step.result is Result.OUTPUT else r.grad_input
        self.result = problems.spread(rounding.store(dtypes.find(step.stored_as), np.full(spec.shape, -13.0)), layout)
        # The operand of the result itself is not read.
        reads_fine = step.contraction.name != "TO_FINE"
        self.arrays = [stored[0] if reads_fine else None, None if reads_fine else stored[1], stored[2], self.result]
        self.packed = problem_struct.pack(made, self.arrays)
        self.of_batch = (True, True, False, True)
        self.is_hifloat8 = step.stored_as == "hifloat8"

    def bits(self, first: int, count: int, threads: int) -> np.ndarray:
        """The samples [first, first + count) computed in one call, as unsigned integers."""
        from convgrad.engines import library, problem_struct

        addresses = []
        for array, per_sample in zip(self.arrays, self.of_batch, strict=True):
            if array is None:
                addresses.append(0)
                continue
            start = array.__array_interface__["data"][0]
            addresses.append(start + (first * array.strides[0] if per_sample else 0))
        self.result[first : first + count] = np.zeros((), self.result.dtype)
        image = problem_struct.fill(self.packed, addresses, threads)
        image[_BATCH_PLACE] = count.to_bytes(8, "little")
        status = library.library().cg_run(bytes(image))
        assert status == 0, library.library().cg_last_error()
        found = np.ascontiguousarray(self.result[first : first + count])
        if not self.is_hifloat8:  # which of its payloads a NaN has is not promised
            found = np.where(np.isnan(found), np.array(77, found.dtype), found).astype(found.dtype)
        return found.view(f"u{found.itemsize}")


def layer_line(rng: random.Random) -> str:
    """A line as networks have them: square windows and planes, channels of a few vectors, where the fast sums pay."""
    kind, window, stride = rng.choice(("conv", "conv", "tconv")), rng.choice((1, 3, 3, 3, 5)), rng.choice((1, 1, 1, 2))
    plane, few = rng.choice((1, 2, 4, 7, 8, 14, 16)), rng.choice((16, 24, 32, 64))
    groups = rng.choice((1, 1, 1, 2, few))
    more = few * rng.choice((1, 1, 2)) if groups < few else few
    return (
        f"{kind} n1 c{few}>{more} i{plane}x{plane} k{window}x{window} s{stride} p{window // 2} "
        f"d{rng.choice((1, 1, 1, 2)) if plane > 2 * window else 1} g{groups} fp32"
    )


def random_case(rng: random.Random, most: float) -> tuple[str, str, str, str, bool]:
    """Line, dtype, layout, algorithm, and whether some values are not finite."""
    import native_problems as problems
    import random_problems

    layer = rng.random() < 0.3
    words = (layer_line(rng) if layer else random_problems.random_line(rng, most / 8)).split()
    words[1] = f"n{rng.choice(BATCHES[:5] if layer else BATCHES)}"
    want = "want=y" if rng.random() < 0.4 else "want=x"
    dtype, layout = rng.choice(DTYPES), rng.choice(problems.LAYOUTS)
    return f"{' '.join(words)} {want}", dtype, layout, rng.choice(ALGORITHMS), rng.random() < 0.1


def parts(rng: random.Random, batch: int) -> Iterator[tuple[int, int, int]]:
    """First sample, samples, threads: at least three alone, the first and the last among them, and two parts."""
    for sample in sorted({0, batch - 1, rng.randrange(batch)}):
        yield sample, 1, rng.choice((1, 2, 3, 5))
    for _ in range(2):
        count = rng.randint(1, batch)
        yield rng.randint(0, batch - count), count, rng.choice((1, 2, 3, 5))


def one(chunk: int, number: int, most: float) -> tuple[str, list[str]]:
    """One problem: its line with a digest of the whole batch, and the parts that differ from it."""
    rng = random.Random(f"batch {chunk} {number}")
    line, dtype, layout, algorithm, bad = random_case(rng, most)
    subject = Subject(line, dtype, layout, algorithm, rng.getrandbits(32), bad)
    told = f"{line} {dtype} {algorithm} {layout}{' not all finite' * bad}"
    whole, differ = subject.bits(0, subject.batch, rng.choice((1, 2, 3))), []
    for first, count, threads in parts(rng, subject.batch):
        part = subject.bits(first, count, threads)
        wrong = int(np.count_nonzero(part != whole[first : first + count]))
        if wrong:
            differ.append(f"{told}: {wrong} of {part.size} in [{first}, {first + count}) with {threads} threads")
    return f"{told} {hashlib.sha256(whole.tobytes()).hexdigest()}", differ


def run(chunk: int, size: int, most: float = 2e6) -> Outcome:
    """So many problems on every instruction set of this machine; the cases are the problems."""
    outcome, problems = instruction_sets.compared(__file__, chunk, size, most)
    outcome.cases += max(problems.values())
    return outcome


if __name__ == "__main__":
    instruction_sets.tell(one)
