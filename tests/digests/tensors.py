"""Numbers and memory of a guarded case: the same values on every machine, laid out in every way callers do."""

from __future__ import annotations

import hashlib

import numpy as np

import convgrad

LAYOUTS = (
    "contiguous", "channels-last", "batch-inside", "every-second", "reversed", "strided", "broadcast", "unaligned",
)  # fmt: skip
FILLS = ("real",) * 17 + ("special", "tiny", "large")
"""What the values are like, by lot; see `values`."""
_SENTINEL = 0x5A
"""Bytes of memory around a result; nothing may write there."""


def lot(*parts: object) -> int:
    """A number drawn from the parts' text alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little")


class Draw:
    """Raw bits of PCG64, whose stream NumPy never changes (those of Generator's methods it may)."""

    def __init__(self, *seed: object) -> None:
        self._bits = np.random.PCG64(lot(*seed))

    def raw(self, count: int) -> np.ndarray:
        return np.asarray(self._bits.random_raw(count), np.uint64)

    def below(self, limit: int) -> int:
        return int(self._bits.random_raw()) % limit


def values(draw: Draw, shape: tuple[int, ...], fill: str, wide: bool) -> np.ndarray:
    """Real numbers of either sign, most significant bits random, exponents of a range: the order of sums shows.

    `tiny` reaches denormals, `large` overflows in 16 bits and below, `special` has infinities, NaN and negative zeros.
    """
    count = int(np.prod(shape, dtype=np.int64))
    raw = draw.raw(count)
    digits = 52 if wide else 23
    whole = (raw >> np.uint64(64 - digits)).astype(np.float64) + 1.0
    exponent = (raw & np.uint64(7)).astype(np.int64) - 6 - digits
    sign = np.where(raw & np.uint64(8), -1.0, 1.0)
    if fill == "tiny":
        exponent = exponent - np.where(raw & np.uint64(16), 66, 20)
    elif fill == "large":
        exponent = exponent + np.where(raw & np.uint64(16), 9, 0)
    numbers = np.ldexp(whole, exponent) * sign
    if fill == "special" and count:
        for number in (np.inf, np.nan, -0.0, -np.inf):
            numbers[draw.below(count)] = number
    return (numbers if wide else numbers.astype(np.float32)).reshape(shape)


def _empty(shape: tuple[int, ...], dtype: np.dtype, layout: str, draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """An array of this layout and the bytes it lies in."""
    rank, order, steps = len(shape), list(range(len(shape))), [1] * len(shape)
    if layout == "channels-last" and rank > 2:
        order = [0, *range(2, rank), 1]
    elif layout == "batch-inside" and rank > 2:
        order = [*range(2, rank), 0, 1]
    elif layout == "every-second":
        steps[-1] = 2
    elif layout == "reversed":
        steps[-1] = -1
    elif layout == "strided":
        for last in range(rank - 1, 0, -1):
            place = draw.below(last + 1)
            order[last], order[place] = order[place], order[last]
        steps = [(1, 1, 1, 2, 3)[draw.below(5)] * (-1 if draw.below(3) == 0 else 1) for _ in shape]
    size = [extent * abs(step) for extent, step in zip(shape, steps, strict=True)]
    offset = 1 if layout == "unaligned" and dtype.itemsize > 1 else 0
    memory = np.full(int(np.prod(size, dtype=np.int64)) * dtype.itemsize + offset, _SENTINEL, np.uint8)
    whole = memory[offset:].view(dtype).reshape([size[axis] for axis in order]).transpose(np.argsort(order))
    return whole[tuple(slice(None, None, step) for step in steps)], memory


def operand(
    draw: Draw, shape: tuple[int, ...], dtype: str, layout: str, fill: str
) -> np.ndarray | convgrad.Tensor:
    """A tensor of random numbers; hifloat8 is no NumPy dtype and comes as a Tensor."""
    if layout == "broadcast" and shape and fill == "real":
        axis = draw.below(len(shape))
        one = tuple(1 if place == axis else extent for place, extent in enumerate(shape))
        stored = convgrad.Tensor(values(draw, one, fill, dtype == "float64"), dtype=dtype).data
        array = np.broadcast_to(stored, shape)
    else:
        stored = convgrad.Tensor(values(draw, shape, fill, dtype == "float64"), dtype=dtype).data
        array, _ = _empty(shape, stored.dtype, layout, draw)
        array[...] = stored
    return convgrad.Tensor(array, dtype=dtype) if dtype == "hifloat8" else array


class Buffer:
    """Memory for a result, and whether anything around it was written."""

    def __init__(self, draw: Draw, shape: tuple[int, ...], dtype: str, layout: str) -> None:
        stored = convgrad.Tensor(np.zeros(0, np.float32), dtype=dtype).data.dtype
        self.array, self._memory = _empty(shape, stored, layout, draw)
        self.given = convgrad.Tensor(self.array, dtype=dtype) if dtype == "hifloat8" else self.array

    def wrote_outside(self) -> bool:
        kept = self.array.copy()
        self.array[...] = np.frombuffer(bytes([_SENTINEL]) * self.array.itemsize, self.array.dtype)[0]
        outside = bool((self._memory != _SENTINEL).any())
        self.array[...] = kept
        return outside


def digest(result: object, *, with_layout: bool) -> str:
    """Eight digits of the SHA-256 of a result's bits and dtype; and of its layout, where the engine chose it."""
    if result is None:
        return "-"
    array = result.data if isinstance(result, convgrad.Tensor) else result
    assert isinstance(array, np.ndarray)
    found = hashlib.sha256(repr((array.dtype.name, array.shape)).encode())
    if with_layout:
        found.update(repr([s for s, extent in zip(array.strides, array.shape, strict=True) if extent > 1]).encode())
    found.update(_one_nan(np.ascontiguousarray(array)).reshape(-1).view(np.uint8))
    return found.hexdigest()[:8]


def _one_nan(array: np.ndarray) -> np.ndarray:
    """Which of its NaN a processor gives (sign, payload) is promised nowhere."""
    if array.dtype == np.uint8:  # hifloat8 has one
        return array
    nan = np.isnan(array)
    return np.where(nan, np.array(np.nan, array.dtype), array) if nan.any() else array


def text_digest(text: str, digits: int = 8) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
