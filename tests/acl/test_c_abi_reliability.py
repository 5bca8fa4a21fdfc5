"""The drop-in C library at the end of a program, without memory, and in the children of fork()."""

from __future__ import annotations

from pathlib import Path

import pytest

from c_reliability import PARTS, Build, allocation_failures, exit_cases, exit_orders, forks


def test_every_part_is_known() -> None:
    """The parts are read from the program: a list that lost one would test less without a word."""
    assert PARTS == (
        "errors", "objects", "memory", "streams_and_events", "small_convolution", "large_convolution", "tbc_in_place",
        "refused_convolution",
    )  # fmt: skip


@pytest.mark.parametrize("part", ["errors", "objects", "large_convolution"])
def test_calls_may_be_made_until_the_very_end(part: str) -> None:
    """Destructors of static and thread_local objects, of keys, and exit handlers may fail calls and run operators."""
    outcome = exit_orders(Build(), exit_cases([part]))
    assert outcome.cases == 81 and not outcome.wrong, "\n".join(outcome.wrong)


@pytest.mark.parametrize(
    ("state", "mode", "strict"),
    [
        ("cold", "single", "0"),
        ("cold", "persistent", "0"),
        ("warm", "single", "0"),
        ("thread", "single", "0"),
        ("cold", "single", "1"),
    ],
)
def test_every_allocation_may_fail(state: str, mode: str, strict: str, tmp_path: Path) -> None:
    """Whichever allocation fails, calls answer with a status, nothing dies or leaks, and the next calls work."""
    outcome = allocation_failures(Build(), tmp_path, [state], [mode], CONVGRAD_STRICT=strict)
    assert outcome.cases > 800 and not outcome.wrong, "\n".join(outcome.wrong)


@pytest.mark.parametrize("strict", ["0", "1"])
def test_children_of_fork_never_wait(strict: str) -> None:
    """However deep in the library other threads are when a process forks, its child can make every call."""
    outcome = forks(Build(), parents=5, children=20, CONVGRAD_STRICT=strict)
    assert outcome.cases == 100 and not outcome.wrong, "\n".join(outcome.wrong)
