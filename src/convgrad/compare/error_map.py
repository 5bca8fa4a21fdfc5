"""Where in a result the errors sit: one strip over its channels, one picture of its plane, in levels 0 to f.

    level = 0 where every element is exact, else ceil(log2 of the largest ULP error) + 5, from 1 to 15:
    4 is half an ULP (correctly rounded), 5 one ULP, 10 thirty-two, 15 a thousand or more

Levels mean the same on every map, so that maps can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgrad.metrics import Errors

MOST_CHANNELS, MOST_ROWS, MOST_COLUMNS = 32, 8, 12
_LEVELS = np.frombuffer(b"0123456789abcdef", "S1")


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Levels of the largest error per channel and per place of the plane (the last two axes), both binned."""

    channels: str
    plane: tuple[str, ...]


def error_map(e: Errors, shape: tuple[int, ...], axes: tuple[int, ...]) -> ErrorMap | None:
    """The map of a result; `axes` are its channel axis, its other axis, then space. `None` when nothing is off."""
    if e.ulp.max(initial=0.0) == 0:
        return None
    whole = e.ulp
    if e.at is not None:
        whole = np.zeros(e.count)
        whole[e.at] = e.ulp
    ordered = whole.reshape(shape).transpose(axes)
    channels = ordered.reshape(ordered.shape[0], -1).max(axis=1)
    plane = (1, 1, *ordered.shape[2:])[-2:]
    places = ordered.reshape(-1, *plane).max(axis=0)
    binned = _binned(_binned(places, MOST_ROWS, 0), MOST_COLUMNS, 1)
    return ErrorMap(_levels(_binned(channels, MOST_CHANNELS, 0)), tuple(_levels(row) for row in binned))


def _binned(values: NDArray[np.float64], most: int, axis: int) -> NDArray[np.float64]:
    size = values.shape[axis]
    if size <= most:
        return values
    return np.maximum.reduceat(values, np.arange(most) * size // most, axis=axis)


def _levels(ulps: NDArray[np.float64]) -> str:
    with np.errstate(divide="ignore"):
        levels = np.where(ulps > 0, (np.ceil(np.log2(ulps)) + 5).clip(1, 15), 0).astype(np.intp)
    return bytes(_LEVELS[levels].tobytes()).decode()
