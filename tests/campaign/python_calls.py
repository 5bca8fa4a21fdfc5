"""Hostile calls of every public function (tests/support/hostile_calls.py)."""

from __future__ import annotations

from importlib.util import find_spec

from outcome import Outcome

SEED = 1


def run(chunk: int, size: int) -> Outcome:
    """The calls number chunk * size to (chunk + 1) * size - 1 of one seed."""
    import hostile_calls  # which imports PyTorch

    counts, findings = hostile_calls.campaign(SEED, size, chunk * size)
    return Outcome(sum(counts.values()), findings)


def jax(chunk: int, size: int) -> Outcome:
    """The same of the functions for JAX, whose compiler ends the process where memory is short: it has plenty."""
    import hostile_calls

    if find_spec("jax") is None:
        return Outcome()
    counts, findings = hostile_calls.campaign(SEED, size, chunk * size, hostile_calls.jax_doors(), 64 << 30)
    return Outcome(sum(counts.values()), findings)
