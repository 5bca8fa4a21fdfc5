"""The re-check of a failed double benchmark: is the median ratio really above 1, or was it one unlucky draw?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convgrad.core import standards


@dataclass(frozen=True, slots=True)
class Recheck:
    """The interval of the median ratio over many seeds."""

    seeds: int
    median: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """It fails only when the whole interval lies above 1."""
        return not self.low > 1.0

    def __str__(self) -> str:
        where = f"[{self.low:.4g}, {self.high:.4g}]"
        return f"{self.seeds} seeds: median ratio {self.median:.4g}, {standards.RECHECK_INTERVAL:.0%} interval {where}"


def recheck(ratios: Sequence[float], seed: int = 0, resamples: int = standards.RECHECK_RESAMPLES) -> Recheck:
    """Bootstrap of the median: at least 200 ratios, each from another seed."""
    if len(ratios) < standards.RECHECK_SEEDS:
        raise ValueError(f"a re-check needs at least {standards.RECHECK_SEEDS} seeds, got {len(ratios)}")
    values = np.asarray(ratios, np.float64)
    rng = np.random.default_rng(seed)
    # One resample at a time: flat memory, and medians of infinities stay infinities.
    medians = np.sort([_median(values[rng.integers(0, values.size, values.size)]) for _ in range(resamples)])
    tail = (1 - standards.RECHECK_INTERVAL) / 2
    low, high = (float(medians[round(q * (resamples - 1))]) for q in (tail, 1 - tail))
    return Recheck(values.size, _median(values), low, high)


def _median(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    ordered = np.sort(values)
    middle = ordered.size // 2
    if ordered.size % 2 or ordered[middle - 1] == ordered[middle]:
        return float(ordered[middle])
    return float((ordered[middle - 1] + ordered[middle]) / 2)
