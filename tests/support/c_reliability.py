"""Calls of the C library where they are hardest to answer: while the program ends, without memory, after fork().

Three programs of tests/c, each run over all of its cases; what comes back is how many there were and what was wrong.
The tests run them short, `make sanitize` runs them watched.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from c_programs import SOURCES, build, run
from outcome import Outcome

PARTS = tuple(re.findall(r"^ *(?:static const Part parts\[\] = )?\{+\"(\w+)\", \w+\}",
                         (SOURCES / "every_call.h").read_text("utf-8"), re.MULTILINE))  # fmt: skip
ALLOCATING_PARTS = (*PARTS, "configuration")
PLACES = ("static", "local_static", "thread_local", "atexit", "key")
ORDERS = ("before", "after", "only")
THREADS = ("main", "second")
ENDS = ("return", "exit", "pthread_exit")
STATES = ("cold", "warm", "thread")
MODES = ("single", "persistent")


@dataclass(frozen=True)
class Build:
    """Which library, and how programs are compiled for it: the installed one by default."""

    library: Path | None = None
    flags: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, source: str, *arguments: str, timeout: float = 600, **environment: str) -> tuple[int, str]:
        program = build(SOURCES / source, library=self.library, flags=self.flags)
        every = {"CONVGRAD_NUM_THREADS": "2", **self.environment, **environment}
        done = run(program, *arguments, library=self.library, environment=every, timeout=timeout)
        watched = "Sanitizer:" in done.stderr or "runtime error:" in done.stderr
        # Strict mode reports every mistake; here mistakes are the point.
        told = [line for line in done.stderr.splitlines() if not line.startswith("convgrad strict:")]
        return done.returncode or int(watched), done.stdout + "\n".join(told)


def makes_no_call(place: str, thread: str, end: str) -> bool:
    """The C library runs neither a key's destructor when the main thread leaves with the program, nor those of its
    thread_local objects when it leaves before it."""
    return thread == "main" and (place, end == "pthread_exit") in (("key", False), ("thread_local", True))


ExitCase = tuple[str, str, str, str, str]


def exit_cases(parts: Iterable[str] = PARTS, ends: Iterable[str] = ENDS) -> list[ExitCase]:
    """Every part at every place, in every order, on either thread, at every kind of end."""
    every = itertools.product(parts, PLACES, ORDERS, THREADS, ends)
    return [case for case in every if not makes_no_call(case[1], case[3], case[4])]


def exit_orders(how: Build, cases: Iterable[ExitCase]) -> Outcome:
    """Calls while a program ends."""
    outcome = Outcome()
    for part, place, order, thread, end in cases:
        # Workers of the pool sleep until the process ends: with them the last thread of a program never leaves.
        threads = {"CONVGRAD_NUM_THREADS": "1"} if end == "pthread_exit" else {}
        # Freed memory is overwritten: who still looks at it is found without a sanitizer too.
        code, words = how.run("exit_order.cpp", part, place, order, thread, end, MALLOC_PERTURB_="85", **threads)
        good = code == 0 and words == f"{place}: 0 wrong\n"
        outcome.add(1, f"{part} {place} {order} {thread} {end}", f"exit code {code} {words}", good)
    return outcome


def allocation_failures(
    how: Build, scratch: Path, states: Iterable[str] = STATES, modes: Iterable[str] = MODES,
    parts: Iterable[str] = ALLOCATING_PARTS, **environment: str,
) -> Outcome:  # fmt: skip
    """Every allocation of every part fails once; the cases are the allocations."""
    shared, broken = scratch / "shared.json", scratch / "broken.json"
    shared.write_text(json.dumps({"err_msg_mode": "1"}), "utf-8")
    broken.write_text('{"dump"', "utf-8")
    files = {"TEST_CONFIGURATION": str(shared), "TEST_BROKEN_CONFIGURATION": str(broken)}
    outcome = Outcome()
    for part, state, mode in itertools.product(parts, states, modes):
        code, words = how.run("allocation_failure.cpp", part, state, mode, **files, **environment)
        counts = re.search(r"^(\d+) allocations failed, (\d+) badly$", words, re.MULTILINE)
        good = code == 0 and counts is not None and int(counts[1]) > 0 and int(counts[2]) == 0
        outcome.add(int(counts[1]) if counts else 0, f"{part} {state} {mode}", f"exit code {code} {words}", good)
    return outcome


def forks(how: Build, parents: int, children: int, **environment: str) -> Outcome:
    """Children forked while four threads of their parent are inside the library; the cases are the children."""
    outcome = Outcome()
    code, words = how.run("forks.cpp", str(parents), str(children), **environment)
    good = code == 0 and f"{parents * children} children, 0 hung, 0 died, 0 wrong" in words
    outcome.add(parents * children, "forks", f"exit code {code} {words}", good)
    return outcome
