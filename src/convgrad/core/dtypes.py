"""Every number format as one row: its range, precision, defaults of a cast, and its codes elsewhere.

A finite value of a format is n * 2**q with integer n, where q = e - fraction bits at exponent e and
e = max(exponent of the value, min_exponent). Whatever follows from the row is a property, never stored.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import Enum

from convgrad.text.terminal import did_you_mean


class Ties(Enum):
    """Where a value exactly half way between two neighbours goes."""

    EVEN = "even"  # to the even multiple of the local quantum
    AWAY = "away"  # away from zero
    ZERO = "zero"  # towards zero


class Overflow(Enum):
    """What a magnitude that rounds beyond the largest finite value, or an infinity, becomes."""

    INF = "inf"
    NAN = "nan"
    CLAMP = "clamp"  # the largest finite value of the same sign (saturation)


ANY = 10_000  # an exponent limit no format reaches: "every |exponent| from here on"


@dataclass(frozen=True, slots=True)
class Dtype:
    """One number format."""

    name: str
    word: str  # how the problem line spells it
    bits: int  # of storage; hf32 lives in a float32
    min_exponent: int  # smaller values share the quantum of this binade
    fraction: tuple[tuple[int, int], ...]  # (|exponent| up to, fraction bits): one pair unless tapered
    max_finite: float
    overflow: Overflow  # default of a cast; NAN also says that the format has no infinities
    ties: Ties  # default of a cast
    signed_zero: bool  # whether zero and NaN carry a sign; otherwise there is one of each
    storage: str  # NumPy or ml_dtypes name of the stored elements
    acl_code: int | None  # aclDataType; None: compute only, no tensor has this dtype
    engine_code: int  # enum cg_dtype
    aliases: tuple[str, ...]

    def fraction_bits(self, exponent: int) -> int:
        """Fraction bits of the values 2**exponent <= |x| < 2**(exponent + 1)."""
        return next(bits for limit, bits in self.fraction if abs(exponent) <= limit)

    @property
    def is_tensor_dtype(self) -> bool:
        """False for formats that only operands are rounded to (hf32)."""
        return self.acl_code is not None

    @property
    def is_tapered(self) -> bool:
        """True when precision depends on the exponent."""
        return len(self.fraction) > 1

    @property
    def has_infinities(self) -> bool:
        """True when infinity is a value of the format."""
        return self.overflow is Overflow.INF

    @property
    def bytes(self) -> int:
        """Bytes of one stored element."""
        return self.bits // 8

    @property
    def significant_bits(self) -> int:
        """Bits of the widest significand, the leading one included."""
        return 1 + max(bits for _, bits in self.fraction)

    @property
    def eps(self) -> float:
        """Distance from 1 to the next larger value."""
        return math.ldexp(1.0, -self.fraction_bits(0))

    @property
    def smallest(self) -> float:
        """The smallest positive value."""
        return math.ldexp(1.0, self.min_exponent - self.fraction_bits(self.min_exponent))

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite value."""
        return math.frexp(self.max_finite)[1] - 1

    def __str__(self) -> str:
        return self.name


def _row(
    name: str, bits: int, min_exponent: int, fraction: int | tuple[tuple[int, int], ...], max_finite: float,
    overflow: Overflow, ties: Ties, word: str, storage: str, acl_code: int | None, engine_code: int,
    aliases: str, signed_zero: bool = True,
) -> Dtype:  # fmt: skip
    pairs = ((ANY, fraction),) if isinstance(fraction, int) else fraction
    return Dtype(
        name, word, bits, min_exponent, pairs, max_finite, overflow, ties,
        signed_zero, storage, acl_code, engine_code, tuple(aliases.split()),
    )  # fmt: skip


_INF, _NAN, _EVEN, _AWAY = Overflow.INF, Overflow.NAN, Ties.EVEN, Ties.AWAY
_TAPER = ((3, 3), (7, 2), (15, 1), (ANY, 0))  # hifloat8: precision falls with |exponent|

# First line: the numbers. Second line: the problem line's word, what NumPy stores, the ACL code (newer
# toolkits for 34 to 36), the engine's code, further spellings.
# fmt: off
ALL: tuple[Dtype, ...] = (
    #    name            bits   emin  fraction  max finite                       overflow  ties
    _row("float64",       64,  -1022, 52,       sys.float_info.max,              _INF,     _EVEN,
         "fp64", "float64", 11, 0, "double f64"),
    _row("float32",       32,   -126, 23,       float.fromhex("0x1.fffffep127"), _INF,     _EVEN,
         "fp32", "float32", 0, 1, "float f32 single"),
    _row("hf32",          32,   -126, 11,       float.fromhex("0x1.ffep127"),    _INF,     _AWAY,
         "hf32", "float32", None, 7, "hf32_11 hfloat32"),
    _row("hf32_10",       32,   -126, 10,       float.fromhex("0x1.ffcp127"),    _INF,     _AWAY,
         "hf32_10", "float32", None, 8, ""),
    _row("float16",       16,    -14, 10,       65504.0,                         _INF,     _EVEN,
         "fp16", "float16", 1, 2, "half f16"),
    _row("bfloat16",      16,   -126, 7,        float.fromhex("0x1.fep127"),     _INF,     _EVEN,
         "bf16", "bfloat16", 27, 3, ""),
    _row("float8_e4m3fn",  8,     -6, 3,        448.0,                           _NAN,     _EVEN,
         "fp8_e4m3fn", "float8_e4m3fn", 36, 4, "e4m3fn f8e4m3fn"),
    _row("float8_e5m2",    8,    -14, 2,        57344.0,                         _INF,     _EVEN,
         "fp8_e5m2", "float8_e5m2", 35, 5, "e5m2 f8e5m2"),
    _row("hifloat8",       8,    -22, _TAPER,   32768.0,                         _INF,     _AWAY,
         "hif8", "uint8", 34, 6, "hifp8", signed_zero=False),
)
# fmt: on

# Spellings of other libraries: torch.float16, ACL_FLOAT16, DT_FLOAT16 all name float16.
_PREFIXES = ("torch.", "numpy.", "np.", "ml_dtypes.", "acl_", "dt_")
_BY_SPELLING = {spelling: row for row in ALL for spelling in (row.name, row.word, *row.aliases)}
_BY_ACL_CODE = {row.acl_code: row for row in ALL if row.acl_code is not None}


def find(spelling: str | Dtype) -> Dtype:
    """The row a name, word or alias means, in any case; a row is returned as it is.

    >>> find("ACL_BF16").name, find("half").word, find("torch.float8_e5m2").bits
    ('bfloat16', 'fp16', 8)
    """
    if isinstance(spelling, Dtype):
        return spelling
    if not isinstance(spelling, str):
        raise TypeError(f"a dtype is told by its name, not by a value of type {type(spelling).__name__}")
    key = spelling.strip().lower()
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    if key not in _BY_SPELLING:
        known = [row.name for row in ALL]
        hint = did_you_mean(key, [*known, *(row.word for row in ALL)])
        raise ValueError(f"unknown dtype {spelling!r}{hint}; known: {', '.join(known)}")
    return _BY_SPELLING[key]


OTHER_NAMES: dict[int, str] = {
    -1: "undefined", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64",
    10: "uint64", 12: "bool", 13: "string", 16: "complex64", 17: "complex128", 29: "int4", 30: "uint1",
    33: "complex32", 37: "float8_e8m0", 38: "float6_e3m2", 39: "float6_e2m3", 40: "float4_e2m1", 41: "float4_e1m2",
}  # fmt: skip
"""aclDataTypes that no rule accepts: a tensor can have one, and the refusal says its name."""


def name_of(dtype: int | str) -> str:
    """The name of an aclDataType told by its number, its `ACL_` name or ours; a number the vendor has not is `codeN`.

    >>> name_of(3), name_of("ACL_COMPLEX64"), name_of(27), name_of("fp16"), name_of(99)
    ('int32', 'complex64', 'bfloat16', 'float16', 'code99')
    """
    if not isinstance(dtype, str):
        row = _BY_ACL_CODE.get(dtype)
        return row.name if row else OTHER_NAMES.get(dtype, f"code{dtype}")
    key = dtype.strip().lower()
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    return key if key in OTHER_NAMES.values() else find(dtype).name


def from_acl(code: int) -> Dtype:
    """The row of an aclDataType; ValueError when the code is none of the float tensor dtypes."""
    if code not in _BY_ACL_CODE:
        known = ", ".join(f"{row.acl_code} {row.name}" for row in _BY_ACL_CODE.values())
        raise ValueError(f"aclDataType {code} is not a supported float dtype; known: {known}")
    return _BY_ACL_CODE[code]
