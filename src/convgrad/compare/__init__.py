"""Judging results: metrics, named standards, error maps, error anatomy."""

from __future__ import annotations

from collections.abc import Iterable

from convgrad import standards
from convgrad.compare.findings import Findings, find
from convgrad.standards import Standard
from convgrad.tensor import Tensor

__all__ = ["Findings", "compare"]


def compare(
    actual: object, golden: object, dtype: str | None = None, *,
    standard: str | Iterable[str | Standard] = standards.DEFAULT, partner: object | None = None, name: str = "result",
) -> Findings:
    """Judges one array against its reference.

    `dtype` is the number format the result is judged in; by default its own. `golden` may be float64.

    >>> import numpy as np
    >>> golden = np.linspace(1, 2, 5)
    >>> compare(golden.astype(np.float16), golden, standard="mixed,exact").passed
    True
    """
    result, reference = Tensor(actual), Tensor(golden)
    if result.shape != reference.shape:
        raise ValueError(f"the result has shape {result.shape}, the reference {reference.shape}")
    return find(
        name, result.values(), reference.values(), dtype or result.dtype.name, standards.find_all(standard),
        partner=None if partner is None else Tensor(partner).values(),
    )
