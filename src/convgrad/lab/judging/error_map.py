"""Where in a result the errors sit: one strip over its channels, one picture of its plane, in levels 0 to f.

    level = 0 where every element is exact, else ceil(log2 of the largest error) + 5, from 1 to 15:
    4 is half a unit, 5 one, 10 thirty-two, 15 a thousand or more

The unit is one ULP of the reference's root mean square, the same for every element: so tiny references, whose own
ULP is tiny, do not drown the rest. Levels mean the same on every map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgrad.core.metrics import Errors, ulp_of

MOST_CHANNELS, MOST_ROWS, MOST_COLUMNS = 32, 8, 12
_LEVELS = np.frombuffer(b"0123456789abcdef", "S1")


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """Levels of the largest error per channel and per place of the plane (the last two axes), both binned."""

    channels: str
    plane: tuple[str, ...]


def error_map(e: Errors, shape: tuple[int, ...], axes: tuple[int, ...]) -> ErrorMap | None:
    """The map of a result; `axes` are its channel axis, its other axis, then space. `None` when nothing is off."""
    if e.size.max(initial=0.0) == 0:
        return None
    with np.errstate(over="ignore"):
        size = np.sqrt(np.mean(np.square(e.golden)))
        units = e.size / float(ulp_of(e.dtype, np.array([min(size, e.dtype.max_finite)]))[0])
    whole = units
    if e.at is not None:
        whole = np.zeros(e.count)
        whole[e.at] = units
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


def _levels(units: NDArray[np.float64]) -> str:
    with np.errstate(divide="ignore"):
        levels = np.where(units > 0, (np.ceil(np.log2(units)) + 5).clip(1, 15), 0).astype(np.intp)
    return bytes(_LEVELS[levels].tobytes()).decode()
