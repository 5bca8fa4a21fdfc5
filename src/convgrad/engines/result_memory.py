"""Memory for large results: given back when a result dies, and taken again for the next one while nobody needed it.

The system zeroes every page of new memory, which takes a sixth of the time of a large gradient. Small arrays escape
that: the C library keeps what they gave back, up to 32 MiB a piece. Larger results escape it here. The pages of a dead
result are the system's to take at any moment (MADV_FREE); while it has not, the next result is written over them.
"""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import suppress
from math import prod
from typing import Any, cast

import numpy as np

from convgrad.core.arrays import AnyArray

RECYCLED_ANYWAY = 32 << 20
"""Bytes: the C library recycles memory up to this size by itself, only larger results are held here."""
_PAGE = 2 << 20
_DEFAULT_MIB = 256
_NAME = "CONVGRAD_RESULT_MEMORY_MIB"

# Dead mappings, the longest dead first. Appending and popping are single steps of the interpreter: results die at any
# moment, also while another is being made, so a lock could be waited for by its own holder.
_kept: list[mmap.mmap] = []


def _most_kept() -> int:
    """Bytes that may wait here for the next result."""
    asked = os.environ.get(_NAME, "")
    if not asked:
        return _DEFAULT_MIB << 20
    try:
        mib = int(asked)
    except ValueError:
        mib = -1
    if mib < 0:
        raise ValueError(f"{_NAME}={asked!r}: a whole number of MiB, 0 keeps nothing")
    return mib << 20


class _Block:
    """The memory of one result, under NumPy's array interface: arrays made from it keep it alive."""

    __slots__ = ("__array_interface__", "_mapping", "_most_kept")

    def __init__(self, mapping: mmap.mmap, most_kept: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._mapping = mapping
        self._most_kept = most_kept
        address = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
        shown = f"|V{dtype.itemsize}"  # bytes of this size: dtypes of other packages have no letter of their own
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": shown, "version": 3}

    def __del__(self) -> None:
        if sys.is_finalizing() or len(self._mapping) > self._most_kept:
            return
        # A system that does not free lazily: the mapping goes at once. Another thread may empty the list meanwhile.
        with suppress(OSError, IndexError):
            self._mapping.madvise(mmap.MADV_FREE)
            _kept.append(self._mapping)
            while sum(map(len, _kept)) > self._most_kept:
                _kept.pop(0)


def _mapping_of(size: int) -> mmap.mmap:
    """A dead mapping that wastes at most an eighth, the latest first; a new one where there is none."""
    for mapping in reversed(_kept):
        if size <= len(mapping) <= size + size // 8:
            with suppress(ValueError):  # another thread was faster
                _kept.remove(mapping)
                return mapping
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError, AttributeError):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], channels_last: bool = False) -> AnyArray:
    """As `numpy.empty`; large ones in memory of a result that died where there is any of about this size."""
    if channels_last:
        return np.moveaxis(empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)
    size = prod(shape) * dtype.itemsize
    if size <= RECYCLED_ANYWAY or not hasattr(mmap, "MADV_FREE"):
        return np.empty(shape, dtype)
    most_kept = _most_kept()
    if size > most_kept:
        return np.empty(shape, dtype)
    try:
        mapping = _mapping_of(-(-size // _PAGE) * _PAGE)
    except OSError as error:
        raise MemoryError(f"no {size} bytes for a result of shape {shape}: {error}") from error
    return cast(AnyArray, np.asarray(_Block(mapping, most_kept, shape, dtype)).view(dtype))
