"""The C library: call sequences under sanitizers, and calls at hard moments (tests/support/c_reliability.py)."""

from __future__ import annotations

import itertools
import re
import tempfile
from pathlib import Path

import c_reliability
from c_programs import sanitized_prefix
from c_reliability import Build
from outcome import Outcome
from sanitize import OPTIONS

SANITIZERS = ("", "address,undefined", "thread")


def watched(sanitizer: str) -> Build:
    """The library built for a sanitizer; the installed one for none."""
    if not sanitizer:
        return Build()
    return Build(sanitized_prefix(sanitizer), (f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer"), OPTIONS)


def sequences(sanitizer: str, strict: str, chunk: int, size: int, threads: int = 1) -> Outcome:
    """So many random sequences on each thread; the cases are the calls made."""
    how, outcome = watched(sanitizer), Outcome()
    standalone = Build(how.library, (*how.flags, "-DSTANDALONE"), how.environment)
    arguments = (str(chunk + 1), str(size), str(threads))
    code, words = standalone.run("call_sequences.cpp", *arguments, CONVGRAD_STRICT=strict, timeout=1500)
    told = re.search(r"^(\d+) sequences, (\d+) calls$", words, re.MULTILINE)
    good = code == 0 and told is not None and int(told[1]) == size * threads
    name = f"call_sequences {' '.join(arguments)}, strict {strict}, {sanitizer or 'no sanitizer'}"
    outcome.add(int(told[2]) if told else 0, name, f"exit code {code} {words}", good)
    return outcome


def threads(chunk: int, size: int) -> Outcome:
    """Sequences of four threads under TSan; strictness takes turns."""
    return sequences("thread", "01"[chunk % 2], chunk, size, threads=4)


def allocations(chunk: int, size: int) -> Outcome:
    """`size` of all combinations of part, state, mode, strictness and build, going round."""
    every = list(itertools.product(
        SANITIZERS[:2], ("0", "1"), c_reliability.MODES, c_reliability.STATES, c_reliability.ALLOCATING_PARTS
    ))  # fmt: skip
    total = Outcome()
    for i in range(chunk * size, (chunk + 1) * size):
        sanitizer, strict, mode, state, part = every[i % len(every)]
        with tempfile.TemporaryDirectory() as scratch:
            found = c_reliability.allocation_failures(
                watched(sanitizer), Path(scratch), [state], [mode], [part], CONVGRAD_STRICT=strict
            )
        total.cases += found.cases
        total.wrong += found.wrong
    return total


def forked(chunk: int, size: int) -> Outcome:
    """`size` children of parents with twenty each; builds and strictness take turns."""
    sanitizer, strict = list(itertools.product(SANITIZERS, ("0", "1")))[chunk % 6]
    return c_reliability.forks(watched(sanitizer), max(1, size // 20), 20, CONVGRAD_STRICT=strict)


def at_exit(chunk: int, size: int) -> Outcome:
    """`size` of the combinations of part, place, order, thread and end, going round; the build changes every chunk."""
    every = c_reliability.exit_cases()
    first = chunk // 2 * size
    chosen = [every[i % len(every)] for i in range(first, first + size)]
    return c_reliability.exit_orders(watched(SANITIZERS[chunk % 2]), chosen)
