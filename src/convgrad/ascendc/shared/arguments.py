"""A tile-kernel problem from plain arguments: shapes, strides, pads, operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad.core import arguments, rounding
from convgrad.core.arguments import told
from convgrad.core.arrays import as_array
from convgrad.core.status import ConvGradError, ConvGradTypeError

from ..device.conv_type import DTYPE_NAMES, SIXTEEN_BIT, ConvDtype, find_dtype
from ..device.errors import TilingError
from ..device.platform import PlatformInfo

Triple = tuple[int, int, int]
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class TileArguments:
    """One problem as it is told to the tiling object of either kernel: shapes of the forward convolution, attributes.

    input_shape    None asks for transpose mode: it follows from gradOutput and the output padding
    """

    grad_output_shape: Sequence[int]
    weight_shape: Sequence[int]
    input_shape: Sequence[int] | None
    stride: Triple
    padding: Sextuple
    dilation: Triple
    dtype: ConvDtype
    cores: int
    output_padding: Triple = (0, 0, 0)
    platform: PlatformInfo = field(default_factory=PlatformInfo)
Sextuple = tuple[int, int, int, int, int, int]


def whole(number: object, name: str) -> int:
    """An integer of 64 bits; anything else, 1.5 or "1" say, is refused."""
    try:
        return arguments.number(name, number)
    except ConvGradTypeError:
        raise TilingError(f"{name} must be an integer, got {told(number)}", f"argument.{name}") from None
    except ConvGradError as error:
        raise TilingError(error.message, f"argument.{name}") from None


def instances(kind: type[Kind], given: object, name: str) -> list[Kind]:
    """A list of objects of this package."""
    if not isinstance(given, Sequence):
        raise TilingError(f"{name} must be a list of {kind.__name__}, got {told(given)}", f"argument.{name}")
    return [instance(one, kind, name) for one in given]


def some_cores(given: object) -> int:
    """A number of cores."""
    if (cores := whole(given, "cores")) < 1:
        raise TilingError(f"cores must be positive, got {cores}", "argument.cores")
    return cores


def three(given: object, name: str) -> Triple:
    """A number for depth, rows and columns each; one number stands for all three."""
    found = arguments.entries(name, given)
    numbers = (given,) * 3 if found is None else found
    if len(numbers) != 3:
        raise TilingError(f"{name} must be one number or three, got {told(given)}", f"argument.{name}")
    d, h, w = (whole(number, name) for number in numbers)
    return d, h, w


def six_pads(given: object) -> Sextuple:
    """front, back, up, down, left, right from one number, three, three (low, high) pairs, or six."""
    found = arguments.entries("padding", given)
    if found is None:
        flat = [whole(given, "padding")] * 6
    elif len(found) == 6:
        flat = [whole(number, "padding") for number in found]
    elif len(found) == 3:
        pairs = [arguments.entries("padding", one) or (one, one) for one in found]
        flat = [whole(number, "padding") for pair in pairs for number in pair]
    else:
        flat = []
    if len(flat) != 6:
        raise TilingError(
            f"padding must be one number, three, three (low, high) pairs, or six, got {told(given)}", "argument.padding"
        )
    return flat[0], flat[1], flat[2], flat[3], flat[4], flat[5]


def five(given: object, name: str) -> tuple[int, ...]:
    """The five sizes of a shape."""
    sizes = tuple(whole(size, name) for size in arguments.listed(name, given))
    if len(sizes) != 5:
        raise TilingError(f"{name} must have five numbers, got {sizes}", f"argument.{name}")
    return sizes


def instance(given: object, kind: type[Kind], name: str) -> Kind:
    """An argument that is an object of this package."""
    if not isinstance(given, kind):
        raise TilingError(f"{name} must be a {kind.__name__}, got {told(given)}", f"argument.{name}")
    return given


def launched(
    author: object, tiling: object, kind: type[Any], cores: object, platform: PlatformInfo | None
) -> tuple[int, PlatformInfo]:
    """The number of cores and the platform of a launch, whose kernel is a function and whose record is of a kind."""
    if not callable(author):
        raise TilingError(f"author must be a function of a core, got {told(author)}", "argument.author")
    instance(tiling, kind, "tiling")
    sizes = PlatformInfo() if platform is None else instance(platform, PlatformInfo, "platform")
    return some_cores(cores), sizes


def operands(
    first: ArrayLike, second: ArrayLike, dtype: object | None, names: tuple[str, str]
) -> tuple[NDArray[Any], NDArray[Any], ConvDtype]:
    """Two five-axis arrays in one 16-bit dtype, rounded once; without `dtype`, bfloat16 if both are, else float16."""
    arrays = [np.asarray(as_array(given, name)) for given, name in zip((first, second), names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if array.ndim != 5:
            raise TilingError(f"{name} must have five axes, got shape {array.shape}", "argument.axes")
    if dtype is None:
        dtype = "bfloat16" if all(array.dtype.name == "bfloat16" for array in arrays) else "float16"
    code = find_dtype(dtype)
    if code not in SIXTEEN_BIT:
        raise TilingError(f"operands must be half or bfloat16, got {code.name}", "argument.dtype")
    storage = rounding.storage(DTYPE_NAMES[code])
    rounded = [
        array if array.dtype == storage else _rounded(DTYPE_NAMES[code], array, name)
        for array, name in zip(arrays, names, strict=True)
    ]
    return rounded[0], rounded[1], code


def _rounded(dtype: str, array: NDArray[Any], name: str) -> NDArray[Any]:
    try:
        return rounding.store(dtype, array)
    except TypeError as error:
        raise TilingError(f"{name}: {error}", "argument.dtype") from None
