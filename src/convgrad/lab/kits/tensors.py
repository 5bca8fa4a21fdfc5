"""Tensors as a kit passes them to a golden function, and results as it wants them back.

A kit may widen every floating tensor before the call (float16, bfloat16, 8-bit -> float32; float32 -> float64) and
tells only some functions so. What gives it away are the values: float64 operands that are all exact in float32 are a
widened float32 call. torch tensors in give torch tensors out, NumPy arrays give NumPy arrays.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from convgrad.core import dtypes, layouts, rounding
from convgrad.core.arguments import told
from convgrad.core.arrays import AnyArray, as_array
from convgrad.core.status import ConvGradError
from convgrad.core.tensor import Tensor, read_dtype, read_tensor

HALF_PRECISIONS = ("float16", "bfloat16")


def is_torch(given: object) -> bool:
    """Whether an object is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)


def read(name: str, given: object, word: object = None) -> Tensor:
    """The argument `name`; `word` is the dtype the kit tells, which counts for one-byte codes only."""
    if isinstance(given, Tensor):
        return given
    array = as_array(given, name)
    if array.dtype.name == "hifloat8" or (array.dtype.itemsize == 1 and _is_hifloat8(word)):
        return Tensor(array.view(np.uint8), "hifloat8")
    return read_tensor(name, array)


def _is_hifloat8(word: object) -> bool:
    try:
        return isinstance(word, str) and dtypes.find(word).name == "hifloat8"
    except ValueError:
        return False


def exact_in(tensor: Tensor, dtype: str) -> bool:
    """Whether every value of a tensor is one of `dtype`'s."""
    values = tensor.values()
    return bool(np.array_equal(rounding.round_to(dtype, values), values, equal_nan=True))


def narrowed(tensor: Tensor, dtype: str) -> Tensor:
    """The same values stored in a narrower dtype that holds them all."""
    return Tensor(rounding.store(dtype, tensor.values()), dtype, tensor.format)


def format_at(formats: object, place: int) -> str:
    """The format a kit tells for a tensor: a name or the vendor's number; "" where it says nothing about axes."""
    if not isinstance(formats, (list, tuple)) or not formats:
        return ""
    entry = formats[place] if place < len(formats) else formats[0] if len(formats) == 1 else None
    if entry is None or (isinstance(entry, str) and not entry.strip()):
        return ""
    try:
        row = layouts.from_acl(entry) if isinstance(entry, int) else layouts.find(cast(Any, entry))
    except (ValueError, AttributeError):
        message = f"format {told(entry)} of tensor {place} is unknown; known: {', '.join(r.name for r in layouts.ALL)}"
        raise ConvGradError(message, rule="format.name", value=entry) from None
    return "" if row.packed or row.axes is None else row.name


def entry_at(entries: object, place: int) -> object:
    """What a kit's list says about a tensor; a list of one is about all of them."""
    if not isinstance(entries, (list, tuple)) or not entries:
        return None
    return entries[place] if place < len(entries) else entries[0] if len(entries) == 1 else None


def given_back(array: AnyArray, dtype: str, like: object) -> Any:
    """A stored array of `dtype` as the kind of object `like` is: a torch tensor, a Tensor, or a NumPy array."""
    row = read_dtype("result", dtype)
    plain = np.ascontiguousarray(array).reshape(array.shape)
    if is_torch(like):
        return _as_torch(plain, row.name)
    if row.name == "hifloat8":
        received = getattr(like, "dtype", None)
        if isinstance(received, np.dtype) and received.itemsize == 1:
            return plain.view(received)
        return Tensor(plain, row)
    return plain


def _as_torch(array: AnyArray, dtype: str) -> Any:
    torch = sys.modules["torch"]
    if dtype in ("float16", "float32", "float64") or not hasattr(torch, dtype):
        return torch.from_numpy(array)
    codes = array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)
    return torch.from_numpy(codes).view(getattr(torch, dtype))
