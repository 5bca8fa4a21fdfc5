"""Raw tensor files: the bytes of a flat tensor in its layout, little-endian, without a header."""

from __future__ import annotations

import sys
from math import prod
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import arguments, rounding
from convgrad.core.arrays import as_array
from convgrad.text.files import write_bytes

from .conv_type import DTYPE_NAMES, find_dtype
from .errors import TilingError


def write_bin(path: str | PathLike[str], tensor: NDArray[Any]) -> None:
    """Write the elements of a tensor as they lie in memory; every layout is flattened in its own order."""
    write_bytes(_place(path), _little_endian(np.ascontiguousarray(as_array(tensor, "tensor"))).tobytes())


def read_bin(path: str | PathLike[str], dtype: object, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """The tensor in a raw file, flat or in a shape; raises when the file holds another number of elements."""
    code = find_dtype(dtype)
    storage = np.dtype(np.int32) if DTYPE_NAMES[code] == "int32" else rounding.storage(DTYPE_NAMES[code])
    if shape is not None:
        shape = tuple(arguments.number("shape", one) for one in arguments.listed("shape", shape))
    content = _place(path).read_bytes()
    if len(content) % storage.itemsize:
        raise TilingError(f"{path}: {len(content)} bytes are no whole number of {storage} elements", "bin.size")
    flat = _little_endian(np.frombuffer(content, storage).copy())
    if shape is None:
        return flat
    if min(shape, default=1) < 0 or flat.size != prod(shape):
        raise TilingError(f"{path}: shape {shape} has {prod(shape)} elements, the file {flat.size}", "bin.size")
    return flat.reshape(shape)


def _place(path: object) -> Path:
    try:
        return Path(fspath(path))  # type: ignore[call-overload]
    except Exception:  # whatever looking at the object raises
        raise TilingError(f"path must name a file, got {arguments.told(path)}", "argument.path") from None


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return array if sys.byteorder == "little" else array.byteswap()
