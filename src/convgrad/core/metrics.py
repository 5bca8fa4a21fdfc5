"""How far a result is from its reference, element by element and in numbers people quote.

    e    = a - g                    the error of an element (a = result, g = reference in float64)
    rel  = |e| / (|g| + 1e-7)       MERE and MARE are its mean and maximum
    ulp  = |e| / 2**q(g)            q(g): the exponent of the dtype's quantum at g

An element whose reference, rounded to the dtype, is infinite or NaN has no error: it must be the same infinity or
a NaN, and is counted as a mismatch otherwise. So is an infinity or NaN where the rounded reference is finite.
At the very edge of the range, the largest finite value and infinity count as neighbours, one ULP apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import dtypes, rounding
from convgrad.core.dtypes import Dtype
from convgrad.core.standards import REL_FLOOR

Floats = NDArray[np.float64]

ULP_EDGES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 1024.0)
"""Edges of the bins of the ULP histogram: a bin holds what is above its edge, up to the next (0 in the first)."""


def ulp_of(dtype: Dtype | str, values: Floats) -> Floats:
    """The distance between neighbours of `dtype` around each finite value."""
    row = dtypes.find(dtype)
    exponent = np.where(values == 0, row.min_exponent, np.maximum(np.frexp(values)[1] - 1, row.min_exponent))
    if row.is_tapered:
        limits, bits = (np.array(column) for column in zip(*row.fraction, strict=True))
        exponent = exponent - bits[np.searchsorted(limits, np.abs(exponent))]
    else:
        exponent = exponent - row.fraction[0][1]
    quantum: Floats = np.ldexp(1.0, exponent)
    return quantum


@cache
def _code_values(dtype: Dtype) -> Floats:
    """The finite values of an 8-bit format in order: a value's place in it is its ordinal."""
    values = rounding.decode(dtype, np.arange(256))
    return np.unique(values[np.isfinite(values)])


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of one result. Arrays are flat; `at` maps the measured elements back to the whole."""

    dtype: Dtype
    actual: Floats
    golden: Floats
    """The measured elements only: those that are finite on both sides."""
    at: NDArray[np.int64] | None
    """Their flat indices; `None` when every element is measured."""
    count: int
    inf_mismatches: int
    nan_mismatches: int
    first_mismatches: tuple[int, ...]
    whole: tuple[Floats, Floats]
    """Result and reference with every element, special values included."""

    @property
    def mismatches(self) -> int:
        return self.inf_mismatches + self.nan_mismatches

    @cached_property
    def signed(self) -> Floats:
        return self.actual - self.golden

    @cached_property
    def size(self) -> Floats:
        return np.abs(self.signed)

    @cached_property
    def golden_size(self) -> Floats:
        return np.abs(self.golden)

    @cached_property
    def rel(self) -> Floats:
        with np.errstate(over="ignore"):
            return self.size / (self.golden_size + REL_FLOOR)

    @cached_property
    def quantum(self) -> Floats:
        return ulp_of(self.dtype, self.golden)

    @cached_property
    def ulp(self) -> Floats:
        with np.errstate(over="ignore"):
            return self.size / self.quantum

    @cached_property
    def code_distance(self) -> NDArray[np.int64]:
        """Steps between the 8-bit codes of the result and of the rounded reference."""
        values = _code_values(self.dtype)
        expected = rounding.round_to(self.dtype, self.golden)
        distance: NDArray[np.int64] = np.abs(np.searchsorted(values, self.actual) - np.searchsorted(values, expected))
        return distance


@dataclass(frozen=True, slots=True)
class Metrics:
    """One number per question people ask about a result."""

    count: int
    mere: float
    mare: float
    rmse: float
    max_abs: float
    error_balance: float
    """Share of positive minus share of negative errors."""
    cosine: float
    max_ulp: float
    mean_ulp: float
    over_one_ulp: float
    """Share of elements more than 1 ULP off."""
    inf_mismatches: int
    nan_mismatches: int
    small_values: int
    """Elements whose reference is below the precision's small-value threshold; 0 where it has none."""
    small_value_errors: int
    """Those of them whose error exceeds the precision's small-value error."""


def errors(actual: Any, golden: Any, dtype: Dtype | str) -> Errors:
    """Compares a result of `dtype` with its reference; both any shape, the same element count."""
    row = dtypes.find(dtype)
    with np.errstate(invalid="ignore"):  # a signalling NaN is still just a NaN
        a = np.asarray(actual, np.float64).reshape(-1)
        g = np.asarray(golden, np.float64).reshape(-1)
    if a.size != g.size:
        raise ValueError(f"the result has {a.size} elements, the reference {g.size}")
    with np.errstate(all="ignore"):
        # Ordinary data needs no more than this: nothing overflows, nothing is infinite or NaN.
        if np.isfinite(a).all() and not (np.abs(g) > row.max_finite).any() and not np.isnan(g).any():
            return Errors(row, a, g, None, a.size, 0, 0, (), (a, g))
        return _with_special_values(row, a, g)


def _with_special_values(row: Dtype, a: Floats, g: Floats) -> Errors:
    whole = (a, g)
    expected = rounding.round_to(row, g)
    beyond = np.ldexp(1.0, row.max_exponent + 1)
    edge = row.max_finite + float(ulp_of(row, np.array([row.max_finite]))[0])
    # One step over the edge of the range is one ULP, on either side.
    stepped_out = np.isinf(a) & (np.abs(expected) == row.max_finite) & (np.sign(a) == np.sign(expected))
    stayed_in = np.isinf(expected) & (np.abs(a) == row.max_finite) & (np.abs(g) <= edge) & (np.sign(a) == np.sign(g))
    a = np.where(stepped_out, np.copysign(beyond, a), a)
    measured = (np.isfinite(a) & np.isfinite(expected)) | stayed_in
    same = (np.isnan(a) & np.isnan(expected)) | (a == expected)
    wrong = ~measured & ~same
    nan = wrong & (np.isnan(a) != np.isnan(expected))
    at = np.flatnonzero(measured)
    first = tuple(int(i) for i in np.flatnonzero(wrong)[:8])
    return Errors(row, a[at], g[at], at, a.size, int((wrong & ~nan).sum()), int(nan.sum()), first, whole)


def measure(e: Errors, small: tuple[float, ...] | None = None) -> Metrics:
    """Every metric of these errors; zeros (cosine 1) where there is nothing to measure.

    `small` holds the threshold and the error of small values, where the precision has them.
    """
    n = e.size.size
    if n == 0:
        return Metrics(e.count, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, e.inf_mismatches, e.nan_mismatches, 0, 0)
    below = None if small is None else e.golden_size < small[0]
    with np.errstate(over="ignore", invalid="ignore"):
        return Metrics(
            e.count, float(e.rel.mean()), float(e.rel.max()), float(np.sqrt(np.mean(np.square(e.size)))),
            float(e.size.max()), (int((e.signed > 0).sum()) - int((e.signed < 0).sum())) / n,
            cosine(e.actual, e.golden), float(e.ulp.max()), float(e.ulp.mean()), int((e.ulp > 1).sum()) / n,
            e.inf_mismatches, e.nan_mismatches, 0 if below is None else int(below.sum()),
            0 if below is None or small is None else int((below & (e.size > small[1])).sum()),
        )


def cosine(a: Floats, g: Floats) -> float:
    """The cosine of the angle between two vectors, scaled so that no square overflows; 1 for two zero vectors."""
    top_a, top_g = float(np.abs(a).max(initial=0.0)), float(np.abs(g).max(initial=0.0))
    if top_a == 0 or top_g == 0:
        return float(top_a == top_g)
    x, y = a / top_a, g / top_g
    return float(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))


def ulp_histogram(e: Errors) -> tuple[int, ...]:
    """How many elements fall into each bin of `ULP_EDGES`."""
    places = np.searchsorted(np.array(ULP_EDGES), e.ulp, side="left") - 1
    return tuple(int(n) for n in np.bincount(np.maximum(places, 0), minlength=len(ULP_EDGES)))


def worst(e: Errors, most: int = 5) -> tuple[tuple[int, float, float, float], ...]:
    """The elements furthest off in ULP: flat index, result, reference, ULP; the furthest first."""
    n = e.ulp.size
    if n == 0 or e.ulp.max() == 0:
        return ()
    places = np.argpartition(e.ulp, n - most)[n - most :] if n > most else np.arange(n)
    order = places[np.lexsort((places, -e.ulp[places]))]
    flat = order if e.at is None else e.at[order]
    return tuple(
        (int(i), float(e.actual[p]), float(e.golden[p]), float(e.ulp[p]))
        for i, p in zip(flat, order, strict=True)
        if e.ulp[p] > 0
    )
