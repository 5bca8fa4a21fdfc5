"""Round values once to any number format, and turn them into stored bits and back.

The only place of the Python package that rounds. `nearest` is the definition; `store` gives the same values
faster. Ties and overflow belong to the cast: each function takes them, the dtype's row holds the defaults.

Special values, everywhere: NaN stays NaN and keeps its sign (hifloat8 has a single NaN), in formats shorter
than float32 with the plain quiet payload; a signed zero stays (hifloat8 has a single zero, +0); an infinity
counts as overflow, so a format without infinities makes it NaN, and a clamping cast makes it the largest
finite value.

ml_dtypes converts float64 through float32 and so rounds twice: it is never used here to round float64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad.core import dtypes
from convgrad.core.dtypes import Dtype, Overflow, Ties

__all__ = ["Overflow", "Ties", "decode", "encode", "load", "nearest", "round_to", "storage", "store"]

Array = NDArray[Any]
Floats = NDArray[np.float64]

_SIGN = np.uint32(0x8000_0000)
_INFINITY = np.uint32(0x7F80_0000)
_QUIET_NAN = np.uint32(0x7FC0_0000)


def round_to(
    dtype: Dtype | str, x: ArrayLike, ties: Ties | str | None = None, overflow: Overflow | str | None = None
) -> Floats:
    """The value of `dtype` nearest to each number of `x`, as float64; rounded once from the exact value.

    >>> float(round_to("bf16", 1 + 2**-8 + 2**-40))   # by way of float32 this would become 1.0
    1.0078125
    """
    row = dtypes.find(dtype)
    return _widened(load(row, store(row, x, ties, overflow)))


def encode(
    dtype: Dtype | str, x: ArrayLike, ties: Ties | str | None = None, overflow: Overflow | str | None = None
) -> Array:
    """The bit patterns of the rounded numbers, as unsigned integers of the stored width."""
    row = dtypes.find(dtype)
    return store(row, x, ties, overflow).view(f"u{row.bytes}")


def decode(dtype: Dtype | str, codes: ArrayLike) -> Floats:
    """The exact values that bit patterns (integers below 2**bits) stand for, as float64."""
    row = dtypes.find(dtype)
    patterns = np.asarray(codes)
    if patterns.dtype.kind not in "iu":
        raise TypeError(f"codes of {row} must be integers, not {patterns.dtype}")
    if patterns.size and not 0 <= int(patterns.min()) <= int(patterns.max()) < 1 << row.bits:
        raise ValueError(f"codes of {row} must lie in 0..{(1 << row.bits) - 1:#x}")
    return _widened(load(row, patterns.astype(f"u{row.bytes}").view(storage(row))))


def storage(dtype: Dtype | str) -> np.dtype[Any]:
    """The NumPy dtype of stored elements; hifloat8 is stored as its uint8 codes, hf32 as float32."""
    name = dtypes.find(dtype).storage
    return np.dtype(getattr(ml_dtypes, name, name))


def load(dtype: Dtype | str, stored: ArrayLike) -> Array:
    """The exact values of a stored array: float64 for float64, float32 for every other dtype.

    May return the given array itself when nothing needs converting.
    """
    row = dtypes.find(dtype)
    elements = np.asarray(stored)
    if elements.dtype != storage(row):
        raise TypeError(f"a stored {row} array has elements of {storage(row)}, not {elements.dtype}")
    if row.bits == 8:
        return np.asarray(_code_values(row)[elements.view(np.uint8)])
    with np.errstate(all="ignore"):
        return elements.astype(np.float64 if row.bits == 64 else np.float32, copy=False)


def store(
    dtype: Dtype | str, x: ArrayLike, ties: Ties | str | None = None, overflow: Overflow | str | None = None
) -> Array:
    """A new array of stored elements: each number of `x` rounded once to `dtype`. See `storage`."""
    row = dtypes.find(dtype)
    how = row.ties if ties is None else Ties(ties)
    beyond = row.overflow if overflow is None else Overflow(overflow)
    if beyond is Overflow.INF and not row.has_infinities:
        raise ValueError(f"{row} has no infinity to overflow to; choose nan or clamp")
    given = np.asarray(x)
    numbers = _as_floats(given, row)
    with np.errstate(all="ignore"):
        stored = _store(row, np.atleast_1d(numbers), how, beyond)
    return stored.reshape(given.shape)


def _store(row: Dtype, numbers: Array, ties: Ties, overflow: Overflow) -> Array:
    if row.bits == 8:
        patterns = _sticky_half(_float32_bits(numbers))
        return _code_table(row, ties, overflow)[patterns].view(storage(row))
    if row.min_exponent == -126 and row.significant_bits < 24:
        return _shortened_float32(row, _float32_bits(numbers), ties, overflow)
    if ties is Ties.EVEN and overflow is Overflow.INF:
        stored = numbers.astype(storage(row))  # NumPy's casts round once, to nearest even
        return _with_plain_nans(stored) if row.bits == 16 else stored
    return _representable(row, nearest(row, numbers, ties, overflow))


def nearest(dtype: Dtype | str, x: ArrayLike, ties: Ties, overflow: Overflow) -> Floats:
    """The definition of rounding, element by element in float64; `store` is the quick way to the same values.

    With e = max(exponent of x, min_exponent) and q = e - fraction bits at e, the multiples n * 2**q are the
    values of the format around x, and both scalings by a power of two are exact:

        y = nearest integer to (|x| / 2**q) * 2**q;   overflow if y > max_finite
    """
    row = dtypes.find(dtype)
    numbers = _widened(np.asarray(x))
    ordinary = np.where(np.isfinite(numbers), numbers, 0.0)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(ordinary)[1] - 1, row.min_exponent)
        limits, bits = (np.array(column) for column in zip(*row.fraction, strict=True))
        quantum = exponent - bits[np.searchsorted(limits, np.abs(exponent))]
        multiple = np.ldexp(np.abs(ordinary), -quantum)
        whole = np.floor(multiple)
        rest = multiple - whole
        if ties is Ties.EVEN:
            up = (rest > 0.5) | ((rest == 0.5) & (whole % 2 == 1))
        else:
            up = rest >= 0.5 if ties is Ties.AWAY else rest > 0.5
        size = np.where(np.isinf(numbers), np.inf, np.ldexp(whole + up, quantum))
        beyond = {Overflow.INF: np.inf, Overflow.NAN: np.nan, Overflow.CLAMP: row.max_finite}[overflow]
        size = np.where(size > row.max_finite, beyond, size)
        signed = np.where(np.isnan(numbers), numbers, np.copysign(size, numbers))
    return signed if row.signed_zero else np.where(np.isnan(signed), np.nan, signed + 0.0)


def _widened(values: Array) -> Floats:
    with np.errstate(all="ignore"):  # a signalling NaN is still just a NaN
        return values.astype(np.float64)


def _as_floats(given: Array, row: Dtype) -> Array:
    """Numbers as native float32 or float64, so that rounding them to `row` equals rounding the originals."""
    kind, width = given.dtype.kind, given.dtype.itemsize
    if kind in "iu":
        wide = width == 8 and row.significant_bits < 53
        return _odd_integers(given) if wide else given.astype(np.float64)
    if given.dtype in (np.dtype(np.float64), np.dtype(np.float32)):
        return given
    if given.dtype in _NARROW_FLOATS or (kind == "f" and width <= 8):
        return given.astype(np.float64 if width == 8 else np.float32)
    raise TypeError(f"cannot round elements of {given.dtype}: give floats of at most 64 bits, or integers")


_NARROW_FLOATS = {storage(row) for row in dtypes.ALL if row.storage != "uint8" and row.bits < 32}


def _odd_integers(given: Array) -> Array:
    """64-bit integers as float64: exact, or cut towards zero with the last kept bit set ("round to odd").

    Float64 cannot hold every 64-bit integer. The set bit says "not exact" to the rounding that follows, so
    a tie is seen as a tie only when it is one. Bit 11 is kept last: from 2**53 on, 43 bits or more remain.
    """
    negative = given < 0
    size = np.where(negative, np.uint64(0) - given.astype(np.uint64), given.astype(np.uint64))
    lost = (size & np.uint64(0x7FF)) != 0
    odd = (size & ~np.uint64(0x7FF)) | (lost.astype(np.uint64) << np.uint64(11))
    exact = np.where(size < np.uint64(1 << 53), size, odd).astype(np.float64)
    return np.asarray(np.where(negative, -exact, exact))


def _float32_bits(numbers: Array) -> NDArray[np.uint32]:
    """Bits of float32 numbers; float64 is cut towards zero with the last bit set if anything was lost.

    Rounding such an "odd" float32 to a format of at most 22 significant bits gives what rounding the
    float64 number gives: the set bit keeps it off every tie and every value of the format.
    """
    if numbers.dtype == np.float32:
        return numbers.view(np.uint32)
    near = numbers.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    bits -= np.abs(back) > np.abs(numbers)  # one step towards zero, also from infinity
    bits |= back != numbers
    return bits


def _shortened_float32(row: Dtype, bits: NDArray[np.uint32], ties: Ties, overflow: Overflow) -> Array:
    """Formats that are a float32 with fewer fraction bits: bfloat16 (7), hf32 (11 or 10).

        s eeeeeeee kkkkkkkkkkk dddddddddddd      hf32: 11 fraction bits kept, 12 dropped
                             + 100000000000      a half of the last kept bit; a carry into e is right,
                                                 and out of the largest binade it makes infinity

    Half a unit sends ties away; half less one sends them to zero; half less one plus the kept bit, to even.
    """
    dropped = 23 - (row.significant_bits - 1)
    half = 1 << (dropped - 1)
    if ties is Ties.EVEN:
        last_kept = (bits >> np.uint32(dropped)) & np.uint32(1)
        raised: NDArray[np.uint32] = bits + last_kept + np.uint32(half - 1)
    else:
        raised = bits + np.uint32(half if ties is Ties.AWAY else half - 1)
    raised &= np.uint32(0xFFFF_FFFF ^ (2 * half - 1))
    nan = (bits & ~_SIGN) > _INFINITY
    if overflow is not Overflow.INF:
        ceiling = np.float32(row.max_finite).view(np.uint32) if overflow is Overflow.CLAMP else _QUIET_NAN
        over = (raised & ~_SIGN) >= _INFINITY
        raised[over] = (raised[over] & _SIGN) | ceiling
    if nan.any():
        raised[nan] = (bits[nan] & _SIGN) | _QUIET_NAN
    kept = raised if row.bits == 32 else (raised >> np.uint32(16)).astype(np.uint16)
    return np.asarray(kept.view(storage(row)))


def _sticky_half(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """The upper 16 bits of float32 patterns, the last one set if any lower bit was."""
    upper: NDArray[np.uint16] = (bits >> np.uint32(16)).astype(np.uint16)
    upper |= bits.astype(np.uint16) != 0
    return upper


@cache
def _code_table(row: Dtype, ties: Ties, overflow: Overflow) -> NDArray[np.uint8]:
    """Codes of an 8-bit format by sticky upper half of a float32, worked out by the definition.

    Enough for every float32: 8 significant bits, the last one sticky, hold the at most 4 of the format,
    the bit that makes a tie, and the one that breaks it.
    """
    halves = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return _representable(row, nearest(row, halves.view(np.float32), ties, overflow)).view(np.uint8)


def _representable(row: Dtype, numbers: Floats) -> Array:
    """Stored elements of numbers that are values of the format already."""
    if row.storage == "uint8":
        return _hifloat8_codes(numbers)
    wide = numbers if row.bits == 64 else numbers.astype(np.float32)
    return _with_plain_nans(wide.astype(storage(row))) if row.bits < 32 else wide


def _with_plain_nans(stored: Array) -> Array:
    """The array with each NaN's payload replaced by the plain quiet one, its sign kept."""
    nan = np.isnan(stored)
    if nan.any():
        stored[nan] = np.copysign(stored.dtype.type(np.nan), stored[nan])
    return stored


@cache
def _code_values(row: Dtype) -> NDArray[np.float32]:
    """The value of each code of an 8-bit format; looking one up beats converting it."""
    if row.storage == "uint8":
        return _hifloat8_values()
    return np.arange(256, dtype=np.uint8).view(storage(row)).astype(np.float32)


@cache
def _hifloat8_values() -> NDArray[np.float32]:
    """The value of each hifloat8 code.

    After the sign a prefix (the dot field) says how many bits the exponent has; the rest is fraction.
    The exponent is a sign and a magnitude whose leading one is not stored:

        s 11   e eee f      |exponent| = 8 + eee     8..15   1 fraction bit
        s 10   e ee ff      |exponent| = 4 + ee      4..7    2 fraction bits
        s 01   e e fff      |exponent| = 2 + e       2..3    3 fraction bits
        s 001  e fff        |exponent| = 1           1       3 fraction bits
        s 0001 fff          exponent 0                       3 fraction bits
        s 0000 fff          2**(fff - 23), and for fff = 0: zero (s = 0) or NaN (s = 1)

    The largest magnitude, s 11 0 111 1, is infinity.
    """
    sizes = np.array([_hifloat8_size(code) for code in range(0x80)], np.float32)
    values = np.concatenate([sizes, -sizes])
    values[0x80] = np.nan
    return values


_HIFLOAT8_FIELDS = (  # first code, exponent bits, fraction bits
    (0x60, 4, 1), (0x40, 3, 2), (0x20, 2, 3), (0x10, 1, 3), (0x08, 0, 3),
)  # fmt: skip


def _hifloat8_size(code: int) -> float:
    if code == 0x6F:
        return np.inf
    if code < 0x08:
        return 2.0 ** (code - 23) if code else 0.0
    exponent_bits, fraction_bits = next(row[1:] for row in _HIFLOAT8_FIELDS if code >= row[0])
    field = (code >> fraction_bits) % (1 << exponent_bits)
    leading = (1 << exponent_bits) >> 1  # the exponent's sign bit sits where its hidden leading one belongs
    exponent = -field if field & leading else field | leading
    return (1 + code % (1 << fraction_bits) / (1 << fraction_bits)) * 2.0**exponent


def _hifloat8_codes(numbers: Floats) -> NDArray[np.uint8]:
    """Codes of hifloat8 values."""
    values = _hifloat8_values()[:0x80]
    order = np.argsort(values).astype(np.uint8)
    codes = order[np.minimum(np.searchsorted(values[order], np.abs(numbers)), 0x7F)]
    codes |= np.where(np.signbit(numbers), np.uint8(0x80), np.uint8(0))
    return np.where(np.isnan(numbers), np.uint8(0x80), codes)
