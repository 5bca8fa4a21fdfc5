"""Rows: how the tensors of a case are filled. A filling has a one-word text form, such as `uniform:-5:5`.

Every filling is drawn from a seed alone, one stream per tensor, so a seed and a word reproduce the bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.text.terminal import did_you_mean

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...], tuple[float, ...], str], Floats]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to draw values."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    """Names and defaults."""
    help: str
    draw: Draw


@dataclass(frozen=True, slots=True)
class Values:
    """A kind with its numbers."""

    kind: str
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        return ":".join([self.kind, *(_short(n) for n in self.numbers)])


_MOST_OCCURRING = 32
OUTLIER_SHARE, OUTLIER_FACTOR = 0.001, 1000.0


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    low, high, *occurring = n
    values = low + (high - low) * rng.random(shape)
    if occurring and values.size:  # at places of their own, as many as there is room for
        count = min(len(occurring), values.size)
        values.reshape(-1)[rng.choice(values.size, count, replace=False)] = occurring[:count]
    return values


def _normal(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    mean, sigma = n
    return mean + sigma * rng.standard_normal(shape)


def _outliers(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    values = _uniform(rng, shape, n, dtype)
    flat = values.reshape(-1)
    if flat.size:  # at least one, however small the tensor
        flat[rng.integers(0, flat.size, max(1, round(OUTLIER_SHARE * flat.size)))] *= OUTLIER_FACTOR
    return values


def _integers(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    return rng.integers(math.ceil(n[0]), math.floor(n[1]) + 1, shape).astype(np.float64)


def _cancellation(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    """Neighbours of opposite sign and nearly the same size, so that sums lose most of their digits."""
    size, spread = n
    flat = np.empty(math.prod(shape))
    half = size * (0.5 + 0.5 * rng.random((flat.size + 1) // 2))
    flat[0::2] = half
    flat[1::2] = -half[: flat.size // 2] * (1 + spread * rng.standard_normal(flat.size // 2))
    return flat.reshape(shape)


def _special(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    """Mostly ordinary numbers, with zeros of both signs, limits of the dtype, infinities and a few NaNs."""
    row = dtypes.find(dtype)
    values = rng.standard_normal(shape)
    flat = values.reshape(-1)
    pool = [0.0, -0.0, row.max_finite, -row.max_finite, row.smallest, -row.smallest, math.inf, -math.inf, math.nan]
    if flat.size:
        count = max(1, round(n[0] * flat.size))
        flat[rng.integers(0, flat.size, count)] = rng.choice(np.array(pool), count)
    return values


def _constant(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    return np.full(shape, n[0])


def _infinities(rng: np.random.Generator, shape: tuple[int, ...], n: tuple[float, ...], dtype: str) -> Floats:
    return np.where(rng.random(shape) < 0.5, -math.inf, math.inf)


KINDS: tuple[Kind, ...] = (
    Kind("uniform", (("low", -5.0), ("high", 5.0)),
         "evenly spread from low to high; further numbers, also nan and inf, occur once each", _uniform),
    Kind("normal", (("mean", 0.0), ("sigma", 1.0)), "normally distributed", _normal),
    Kind("outliers", (("low", -5.0), ("high", 5.0)), "uniform, and 0.1 % of the values times 1000", _outliers),
    Kind("integers", (("low", -3.0), ("high", 3.0)), "small integers: sums are exact", _integers),
    Kind("cancellation", (("size", 1.0), ("spread", 1e-3)), "neighbours that nearly cancel", _cancellation),
    Kind("special", (("share", 0.01),), "a share of zeros, limits, infinities and NaNs", _special),
    Kind("constant", (("value", 1.0),), "one number everywhere, also nan, inf, -inf", _constant),
    Kind("infinities", (), "infinities of either sign", _infinities),
)
_BY_NAME = {kind.name: kind for kind in KINDS}

DEFAULT = Values("normal", (0.0, 1.0))
STANDARD_SETS = {
    "wide": "uniform:-5:5", "narrow": "uniform:-0.001:0.001", "normal": "normal:0:1", "shifted": "normal:100:25",
    "outliers": "outliers:-5:5", "integers": "integers:-3:3", "cancellation": "cancellation:1:0.001",
    "special": "special:0.01",
}
"""The distributions the strictest standards ask for, by a short name."""
WITHDRAWN_SETS = ("narrow", "shifted", "outliers")
"""Of these, what the commercial document of 2026-04-09 asked for, which was withdrawn on 2026-04-22."""


def parse(text: str) -> Values:
    """`kind`, or `kind:number:number`; short names of `STANDARD_SETS` as well."""
    if not isinstance(text, str):
        raise ValueError(f"values must be a word such as uniform:-5:5, not {type(text).__name__}")
    name, *words = STANDARD_SETS.get(text, text).split(":")
    kind = _BY_NAME.get(name)
    if kind is None:
        known = dict.fromkeys((*_BY_NAME, *STANDARD_SETS))  # some names are in both
        raise ValueError(f"unknown values {text[:60]!r}{did_you_mean(name, known)}; known: {', '.join(known)}")
    if len(words) > len(kind.parameters) and not (kind.name == "uniform" and len(words) <= _MOST_OCCURRING):
        raise ValueError(f"values {text[:60]!r}: {name} takes {len(kind.parameters)} numbers")
    given = tuple(_number(w, text, name == "constant" or i >= len(kind.parameters)) for i, w in enumerate(words))
    numbers = given + tuple(d for _, d in kind.parameters[len(words) :])
    if kind.name in ("uniform", "outliers", "integers") and numbers[0] > numbers[1]:
        raise ValueError(f"values {text[:60]!r}: low is above high")
    if kind.name == "integers" and (max(map(abs, numbers)) > 2**53 or math.ceil(numbers[0]) > math.floor(numbers[1])):
        raise ValueError(f"values {text[:60]!r}: no whole numbers in that range")
    if kind.name == "special" and not 0 <= numbers[0] <= 1:
        raise ValueError(f"values {text[:60]!r}: the share lies between 0 and 1")
    return Values(kind.name, numbers)


def _number(word: str, text: str, special: bool = False) -> float:
    try:
        value = float(word)
    except ValueError:
        raise ValueError(f"values {text[:60]!r}: {word[:40]!r} is not a number") from None
    if special and not math.isfinite(value):
        return math.nan if math.isnan(value) else value  # the one NaN: fillings are compared
    if not math.isfinite(value) or abs(value) > 1e38:
        raise ValueError(f"values {text[:60]!r}: {word[:40]!r} is out of range")
    return value


def _short(number: float) -> str:
    if number == 0 and math.copysign(1, number) < 0:
        return "-0.0"
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def fill(values: Values, shape: tuple[int, ...], dtype: str, seed: int, stream: int) -> AnyArray:
    """A stored array: values drawn in float64 and rounded once to `dtype`."""
    rng = np.random.default_rng((seed, stream))
    return rounding.store(dtype, _BY_NAME[values.kind].draw(rng, shape, values.numbers, dtype))
