"""A tile-kernel problem from plain arguments: shapes, strides, pads, and the tiling object they fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad import rounding

from .conv_type import DTYPE_NAMES, SIXTEEN_BIT, ConvDtype, find_dtype
from .errors import TilingError

Triple = tuple[int, int, int]
Sextuple = tuple[int, int, int, int, int, int]


def three(given: int | Sequence[int], name: str) -> Triple:
    """A number for depth, rows and columns each; one number stands for all three."""
    numbers = (given,) * 3 if isinstance(given, int | np.integer) else tuple(given)
    if len(numbers) != 3:
        raise TilingError(f"{name} must be one number or three, got {given!r}", f"argument.{name}")
    d, h, w = (int(number) for number in numbers)
    return d, h, w


def six_pads(given: int | Sequence[Any]) -> Sextuple:
    """front, back, up, down, left, right from one number, three, three (low, high) pairs, or six."""
    if isinstance(given, int | np.integer):
        flat: list[int] = [int(given)] * 6
    elif len(given) == 6:
        flat = [int(number) for number in given]
    elif len(given) == 3:
        flat = []
        for one in given:
            flat += [int(one)] * 2 if isinstance(one, int | np.integer) else [int(number) for number in one]
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
