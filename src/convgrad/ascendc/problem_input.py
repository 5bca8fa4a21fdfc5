"""A tile-kernel problem from plain arguments: shapes, strides, pads, and the tiling object they fill."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad import rounding

from .conv_type import DTYPE_NAMES, SIXTEEN_BIT, ConvDtype, find_dtype
from .errors import TilingError

Triple = tuple[int, int, int]
Sextuple = tuple[int, int, int, int, int, int]


def whole(number: object, name: str) -> int:
    """An integer; anything else, 1.5 or "1" say, is refused."""
    try:
        return index(number)  # type: ignore[arg-type]
    except TypeError:
        raise TilingError(f"{name} must be an integer, got {number!r}", f"argument.{name}") from None


def three(given: int | Sequence[int], name: str) -> Triple:
    """A number for depth, rows and columns each; one number stands for all three."""
    numbers = tuple(given) if isinstance(given, Sequence | np.ndarray) else (given,) * 3
    if len(numbers) != 3:
        raise TilingError(f"{name} must be one number or three, got {given!r}", f"argument.{name}")
    d, h, w = (whole(number, name) for number in numbers)
    return d, h, w


def six_pads(given: int | Sequence[Any]) -> Sextuple:
    """front, back, up, down, left, right from one number, three, three (low, high) pairs, or six."""
    if isinstance(given, int | np.integer):
        flat: list[int] = [int(given)] * 6
    elif len(given) == 6:
        flat = [whole(number, "padding") for number in given]
    elif len(given) == 3:
        flat = []
        for one in given:
            low_high = one if isinstance(one, Sequence) and not isinstance(one, str) else (one, one)
            flat += [whole(number, "padding") for number in low_high]
    else:
        flat = []
    if len(flat) != 6:
        raise TilingError(
            f"padding must be one number, three, three (low, high) pairs, or six, got {given!r}", "argument.padding"
        )
    return flat[0], flat[1], flat[2], flat[3], flat[4], flat[5]


def operands(
    first: ArrayLike, second: ArrayLike, dtype: object | None, names: tuple[str, str]
) -> tuple[NDArray[Any], NDArray[Any], ConvDtype]:
    """Two five-axis arrays in one 16-bit dtype, rounded once; without `dtype`, bfloat16 if both are, else float16."""
    arrays = [np.asarray(first), np.asarray(second)]
    for array, name in zip(arrays, names, strict=True):
        if array.ndim != 5:
            raise TilingError(f"{name} must have five axes, got shape {array.shape}", "argument.axes")
    if dtype is None:
        dtype = "bfloat16" if all(array.dtype.name == "bfloat16" for array in arrays) else "float16"
    code = find_dtype(dtype)
    if code not in SIXTEEN_BIT:
        raise TilingError(f"operands must be half or bfloat16, got {code.name}", "argument.dtype")
    storage = rounding.storage(DTYPE_NAMES[code])
    rounded = [array if array.dtype == storage else rounding.store(DTYPE_NAMES[code], array) for array in arrays]
    return rounded[0], rounded[1], code
