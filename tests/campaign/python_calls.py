"""Hostile calls of every public function (tests/support/hostile_calls.py)."""

from __future__ import annotations

from outcome import Outcome

SEED = 1


def run(chunk: int, size: int) -> Outcome:
    """The calls number chunk * size to (chunk + 1) * size - 1 of one seed."""
    import hostile_calls  # which imports PyTorch

    counts, findings = hostile_calls.campaign(SEED, size, chunk * size)
    return Outcome(sum(counts.values()), findings)
