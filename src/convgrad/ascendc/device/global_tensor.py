"""Global memory as the kernel sees it: a flat buffer, and a view on it that starts at an offset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgrad.core import rounding

from .errors import AddressError


class Watcher(Protocol):
    """Told of every range of elements that is stored to or zeroed, before it happens."""

    def stored(self, start: int, stop: int, atomic: bool) -> None: ...

    def filled(self, start: int, stop: int) -> None: ...


@dataclass(slots=True)
class GlobalMemory:
    """One flat tensor of global memory, with a name for messages and an optional watcher of its writes."""

    data: NDArray[Any]
    name: str = "global tensor"
    watcher: Watcher | None = field(default=None)


class GlobalTensor:
    """A view on global memory from an offset on: `gm[offset]` moves it; reads and writes stay inside or raise.

    A view may be made anywhere, as a pointer may; only touching memory outside the buffer is an error.
    """

    __slots__ = ("memory", "offset")

    def __init__(self, data: NDArray[Any] | GlobalMemory, offset: int = 0, name: str = "global tensor") -> None:
        if isinstance(data, GlobalMemory):
            self.memory = data
        else:
            if not data.flags.c_contiguous:
                raise AddressError(f"{name} must be contiguous, got strides {data.strides}", "gm.flat")
            self.memory = GlobalMemory(data.reshape(-1), name)
        self.offset = int(offset)

    def __getitem__(self, offset: int) -> GlobalTensor:
        return GlobalTensor(self.memory, self.offset + int(offset))

    def __repr__(self) -> str:
        return f"GlobalTensor({self.memory.name}, {self.memory.data.dtype} x {self.size}, offset {self.offset})"

    @property
    def size(self) -> int:
        """Elements of the whole buffer, whatever the offset of this view."""
        return int(self.memory.data.size)

    def span(self, start: int, count: int, doing: str) -> tuple[int, int]:
        """Absolute first and one-past-last element of a range of this view; raises with the overrun."""
        first = self.offset + start
        last = first + count
        if first < 0 or last > self.size:
            overrun = (
                f"{-first} elements before its start" if first < 0 else f"{last - self.size} elements past its end"
            )
            raise AddressError(
                f"{doing}: elements {first}...{last - 1} of {self.memory.name} (size {self.size}) lie {overrun}",
                "gm.range",
            )
        return first, last

    def read(self, start: int, count: int, doing: str = "read") -> NDArray[Any]:
        """`count` elements from `start` on, as a view."""
        first, last = self.span(start, count, doing)
        return self.memory.data[first:last]

    def touch(self, start: int, count: int, doing: str = "write", atomic: bool = False) -> None:
        """Check and report a store of `count` elements without storing anything."""
        first, last = self.span(start, count, doing)
        if self.memory.watcher is not None:
            self.memory.watcher.stored(first, last, atomic)

    def write(self, start: int, values: NDArray[Any], doing: str = "write", atomic: bool = False) -> None:
        """Store values (or add them, when atomic); the addition rounds to the dtype of the memory."""
        self.touch(start, values.size, doing, atomic)
        first, last = self.offset + start, self.offset + start + values.size
        if atomic:
            self.memory.data[first:last] = added(self.memory.data[first:last], values)
        else:
            self.memory.data[first:last] = values


def added(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """The sum of two stored arrays, rounded once to their dtype."""
    if old.dtype == np.float32:
        return np.asarray(old + new)
    return rounding.store(old.dtype.name, old.astype(np.float64) + new.astype(np.float64))


def Fill(gm: GlobalTensor, size: int, value: float) -> None:
    """Set `size` elements from the view's offset on, as a kernel does before tiles that may be skipped."""
    first, last = gm.span(0, size, "Fill")
    if gm.memory.watcher is not None:
        gm.memory.watcher.filled(first, last)
    gm.memory.data[first:last] = value
