"""Rounding is nearest, once, under every tie and overflow rule; codes and values match in both directions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from convgrad.core import dtypes, rounding
from convgrad.core.dtypes import Dtype, Overflow, Ties
from convgrad.core.rounding import decode, encode, load, nearest, round_to, storage, store

Floats = NDArray[np.float64]

SMALL = [row for row in dtypes.ALL if row.bits <= 16]
EIGHT = [row for row in dtypes.ALL if row.bits == 8]
SHORT_FLOAT32 = [dtypes.find("hf32"), dtypes.find("hf32_10")]
CASTS = [
    pytest.param(row, ties, overflow, id=f"{row}-{ties.value}-{overflow.value}")
    for row in dtypes.ALL
    for ties in Ties
    for overflow in Overflow
    if row.has_infinities or overflow is not Overflow.INF
]


def same_values(one: Any, other: Any) -> bool:
    """Equal numbers with equal signs, those of zeros and NaNs included; a NaN's payload does not count."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(np.signbit(one), np.signbit(other))


def codes_of(row: Dtype) -> NDArray[Any]:
    return np.arange(1 << row.bits, dtype=f"u{row.bytes}")


def sizes_of(row: Dtype) -> Floats:
    """Every non-negative finite value, listed from the row's meaning alone."""
    sizes = {0.0}
    for exponent in range(row.min_exponent, row.max_exponent + 1):
        steps = 1 << row.fraction_bits(exponent)
        first = 0 if exponent == row.min_exponent else steps
        sizes |= {n / steps * 2.0**exponent for n in range(first, 2 * steps)}
    return np.array(sorted(size for size in sizes if size <= row.max_finite))


def awkward_float32() -> NDArray[np.float32]:
    """Every upper half of a float32 with the lower halves around its ties: 393,216 numbers, NaNs included."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return (upper[:, None] | lower).ravel().view(np.float32)


def awkward_float64(count: int = 20_000) -> Floats:
    """Random numbers of every magnitude, near-ties of every format, and the special values."""
    random = np.random.default_rng(7)
    plain = random.normal(size=count) * np.exp2(random.integers(-160, 140, count))
    short = (
        np.round(random.uniform(1, 2, count) * 2.0**12) / 2.0**12 * np.exp2(random.integers(-150, 130, count))
    )
    special = [
        0.0,
        np.inf,
        np.nan,
        5e-324,
        1.7976931348623157e308,
        3.4028235677973366e38,
        2.0**-150,
        2.0**-149,
    ]
    sizes = np.concatenate([plain, short, np.nextafter(short, np.inf), np.nextafter(short, 0), special])
    return np.concatenate([sizes, -sizes])


@pytest.mark.parametrize("row", SMALL, ids=str)
def test_every_code_comes_back(row: Dtype) -> None:
    """All codes of every 8- and 16-bit format: encode(decode(code)) is the code; NaNs give the plain NaN."""
    codes = codes_of(row)
    values = decode(row, codes)
    again = encode(row, values)
    number = ~np.isnan(values)
    assert np.array_equal(again[number], codes[number])
    assert np.isnan(decode(row, again[~number])).all()
    assert len(set(again[~number].tolist())) == (2 if row.signed_zero else 1)
    assert len(set(values[number].tolist())) == number.sum() - (1 if row.signed_zero else 0)


@pytest.mark.parametrize("row", SMALL, ids=str)
def test_codes_hold_exactly_the_values_of_the_row(row: Dtype) -> None:
    """The finite values behind the codes are those the row describes, none missing and none added."""
    values = decode(row, codes_of(row))
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    assert np.array_equal(finite, sizes_of(row))
    assert np.isinf(values).any() == row.has_infinities


@pytest.mark.parametrize("ties", list(Ties))
@pytest.mark.parametrize("row", SMALL, ids=str)
def test_nearest_by_brute_force(row: Dtype, ties: Ties) -> None:
    """Every value, midpoint and float64 neighbour of a midpoint goes where searching the value list says."""
    sizes = sizes_of(row)
    last_quantum = 2.0 ** (row.max_exponent - row.fraction_bits(row.max_exponent))
    low, high = sizes, np.append(sizes[1:], sizes[-1] + last_quantum)  # the last rung stands for overflow
    middle = (low + high) / 2
    odd = low / (high - low) % 2 == 1  # low is an odd multiple of the local quantum
    tied = {Ties.AWAY: high, Ties.ZERO: low, Ties.EVEN: np.where(odd, high, low)}[ties]
    numbers = np.concatenate([sizes, middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0)])
    rungs = np.concatenate([sizes, tied, high, low])
    for overflow, top in [(Overflow.INF, np.inf), (Overflow.NAN, np.nan), (Overflow.CLAMP, row.max_finite)]:
        if overflow is not Overflow.INF or row.has_infinities:
            expected = np.where(rungs > row.max_finite, top, rungs)
            assert same_values(round_to(row, numbers, ties, overflow), expected)
            keeps_sign = row.signed_zero | ((expected != 0) & ~np.isnan(expected))
            negative = np.where(keeps_sign, -expected, expected)
            assert same_values(round_to(row, -numbers, ties, overflow), negative)


@pytest.mark.parametrize("row", [row for row in SMALL if not row.is_tapered], ids=str)
def test_even_is_an_even_code(row: Dtype) -> None:
    """In the formats whose codes count upwards, a tie to even lands on a code whose last bit is zero."""
    sizes = sizes_of(row)
    middle = (sizes[1:] + sizes[:-1]) / 2
    assert not (encode(row, middle, Ties.EVEN) & 1).any()


@pytest.mark.parametrize(("row", "ties", "overflow"), CASTS)
def test_quick_paths_equal_the_definition(row: Dtype, ties: Ties, overflow: Overflow) -> None:
    """store() gives the values of nearest(), from float64 and float32, under every tie and overflow rule."""
    numbers = awkward_float64()
    assert same_values(round_to(row, numbers, ties, overflow), nearest(row, numbers, ties, overflow))
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32)
    assert same_values(round_to(row, single, ties, overflow), nearest(row, single, ties, overflow))


@pytest.mark.parametrize("row", [row for row in dtypes.ALL if row.bits < 64], ids=str)
def test_quick_paths_equal_the_definition_on_every_upper_half(row: Dtype) -> None:
    """The same on 393,216 float32 patterns around every 16-bit tie, with the row's own defaults."""
    numbers = awkward_float32()
    assert same_values(round_to(row, numbers), nearest(row, numbers, row.ties, row.overflow))


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_equals_numpy_from_float64(name: str) -> None:
    """NumPy's own casts from float64, which round once, give the same values."""
    numbers = awkward_float64(100_000)
    with np.errstate(over="ignore"):
        expected = numbers.astype(name)
    assert same_values(round_to(name, numbers), expected)
    assert same_values(nearest(name, numbers, Ties.EVEN, Overflow.INF), expected)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_equals_ml_dtypes_from_float32(name: str) -> None:
    """ml_dtypes, which rounds once from float32, gives the same bits; NaNs agree in being NaN."""
    numbers = awkward_float32()
    with np.errstate(all="ignore"):
        theirs = numbers.astype(getattr(ml_dtypes, name))
    ours = store(name, numbers)
    width = f"u{ours.dtype.itemsize}"
    number = ~np.isnan(theirs)
    assert np.array_equal(ours.view(width)[number], theirs.view(width)[number])
    assert np.isnan(ours[~number]).all()


def test_hifloat8_equals_en_dtypes() -> None:
    """All 256 codes mean what en_dtypes says, and it sends 393,216 float32 numbers to the same codes."""
    en_dtypes = pytest.importorskip("en_dtypes")
    codes = codes_of(dtypes.find("hifloat8"))
    theirs = codes.view(en_dtypes.hifloat8).astype(np.float64)
    assert np.array_equal(decode("hifloat8", codes), theirs, equal_nan=True)
    numbers = awkward_float32()
    with np.errstate(all="ignore"):
        assert np.array_equal(encode("hifloat8", numbers), numbers.astype(en_dtypes.hifloat8).view(np.uint8))


def test_hifloat8_codes_by_hand() -> None:
    """One code of each kind: denormal, each dot field, both exponent signs, infinity, zero and NaN."""
    by_hand = {
        0x00: 0.0, 0x01: 2.0**-22, 0x07: 2.0**-16, 0x08: 1.0, 0x0F: 1.875, 0x10: 2.0, 0x1B: 0.6875,
        0x20: 4.0, 0x3F: 0.234375, 0x45: 40.0, 0x5F: 1.75 / 128, 0x61: 384.0, 0x6E: 32768.0, 0x6F: np.inf,
        0x7F: 1.5 * 2.0**-15, 0x88: -1.0, 0xEF: -np.inf,
    }  # fmt: skip
    assert same_values(decode("hif8", list(by_hand)), list(by_hand.values()))
    assert np.isnan(decode("hif8", 0x80))
    assert encode("hif8", [-0.0, np.nan, -np.nan, -(2.0**-24)]).tolist() == [0x00, 0x80, 0x80, 0x00]
    assert encode("hif8", [40959.9, 40960.0, -1e30]).tolist() == [0x6E, 0x6F, 0xEF]
    assert encode("hif8", [1e9, -np.inf], overflow=Overflow.CLAMP).tolist() == [0x6E, 0xEE]


@pytest.mark.parametrize(("row", "dropped"), list(zip(SHORT_FLOAT32, (12, 13), strict=True)), ids=str)
def test_hf32_is_add_and_mask(row: Dtype, dropped: int) -> None:
    """hf32 equals its integer definition: add half of the last kept bit, clear the rest; NaN stays NaN."""
    random = np.random.default_rng(3)
    near_ties = (random.integers(0, 1 << (32 - dropped), 200_000) << dropped) + (1 << (dropped - 1))
    bits = np.concatenate(
        [
            random.integers(0, 1 << 32, 200_000),
            *(near_ties + step for step in (-1, 0, 1)),
            [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0xFF7FFFFF, 1, 0x007FFFFF, 0x00800000],
        ]
    ).astype(np.uint32)
    numbers = bits.view(np.float32)
    half = np.uint32(1 << (dropped - 1))
    expected = ((bits + half) & ~np.uint32(2 * half - 1)).view(np.float32)
    nan = np.isnan(numbers)
    assert nan.any()
    got = store(row, numbers)
    assert got.dtype == np.float32
    assert np.array_equal(got[~nan].view(np.uint32), expected[~nan].view(np.uint32))
    assert np.isnan(got[nan]).all()
    assert np.array_equal(np.signbit(got[nan]), np.signbit(numbers[nan]))


@pytest.mark.parametrize("row", SHORT_FLOAT32, ids=str)
def test_hf32_special_values(row: Dtype) -> None:
    """Ties go away from zero, the largest float32 becomes infinity, full-payload NaNs do not wrap to zero."""
    eps = row.eps
    ties = np.array([1 + eps / 2, -1 - eps / 2, 1 + 1.5 * eps, row.smallest / 2], np.float32)
    away = [1 + eps, -1 - eps, 1 + 2 * eps, row.smallest]
    assert same_values(round_to(row, ties), away)
    largest = np.finfo(np.float32).max
    assert same_values(
        round_to(row, [largest, -largest, np.inf, -np.inf]), [np.inf, -np.inf, np.inf, -np.inf]
    )
    assert round_to(row, row.max_finite) == row.max_finite
    assert round_to(row, largest, overflow=Overflow.CLAMP) == row.max_finite
    full = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(round_to(row, full)).all()
    assert same_values(round_to(row, [0.0, -0.0]), [0.0, -0.0])
    below_tie = 1 + eps / 2 - 2.0**-50  # a float32 detour would turn this into the tie
    assert round_to(row, below_tie) == 1.0


def test_float64_is_rounded_once() -> None:
    """Just off a bfloat16 or float8 tie, by less than float32 can see: the nearest value is still found."""
    assert round_to("bf16", 1 + 2.0**-8 + 2.0**-40) == 1.0078125
    assert float(np.array(1 + 2.0**-8 + 2.0**-40).astype(ml_dtypes.bfloat16)) == 1.0  # what must not be used
    assert round_to("fp8_e4m3fn", 1 + 2.0**-4 + 2.0**-40) == 1.125
    assert round_to("fp8_e4m3fn", -431.99999999999994) == -416.0
    assert round_to("hif8", 1 + 2.0**-4 - 2.0**-50) == 1.0
    assert round_to("bf16", 2.0**-134 + 2.0**-180) == 2.0**-133


def test_float32_ties_from_float64() -> None:
    """Half way between two float32 numbers each rule picks its side, in both signs and in the subnormals."""
    low = np.array(
        [1.0, 1 + 2.0**-23, 2.0**-149, 3 * 2.0**-149, np.float32(1e30), np.float32(3.3e38)], np.float32
    )
    high = np.nextafter(low, np.float32(np.inf))
    middle = (low.astype(np.float64) + high) / 2
    even = np.where(low.view(np.uint32) % 2 == 0, low, high)
    for ties, expected in [(Ties.EVEN, even), (Ties.AWAY, high), (Ties.ZERO, low)]:
        assert same_values(round_to("fp32", middle, ties), expected)
        assert same_values(round_to("fp32", -middle, ties), -expected)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_wide_integers_are_rounded_once(dtype: type) -> None:
    """Integers beyond 2**53 reach float32, bfloat16 and the rest from their exact value, not by float64."""
    tie = 2**60 + 2**36  # half way between two float32 numbers
    numbers = np.array([tie - 1, tie, tie + 1, 2**53 + 1], dtype)
    assert round_to("fp32", numbers).tolist() == [2.0**60, 2.0**60, 2.0**60 + 2.0**37, 2.0**53]
    around_bf16_tie = np.array([2**60 + 2**52 - 1, 2**60 + 2**52, 2**60 + 2**52 + 1], dtype)
    assert round_to("bf16", around_bf16_tie).tolist() == [2.0**60, 2.0**60, 2.0**60 + 2.0**53]
    assert round_to("fp32", np.array([np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)).tolist() == [
        float(np.iinfo(dtype).max + 1),
        float(np.iinfo(dtype).min),
    ]
    if dtype is np.int64:
        assert round_to("fp32", -numbers).tolist() == (-round_to("fp32", numbers)).tolist()


@pytest.mark.parametrize("row", dtypes.ALL, ids=str)
def test_infinities_and_nan(row: Dtype) -> None:
    """Each overflow rule says what an infinity becomes; NaN is NaN whatever the rule."""
    numbers = np.array([np.inf, -np.inf, np.nan])
    clamped = round_to(row, numbers, overflow=Overflow.CLAMP)
    assert same_values(clamped, [row.max_finite, -row.max_finite, np.nan])
    assert np.isnan(round_to(row, numbers, overflow=Overflow.NAN)).all()
    if row.has_infinities:
        assert same_values(round_to(row, numbers), numbers)
    else:
        assert np.isnan(round_to(row, numbers)).all()
        with pytest.raises(ValueError, match="no infinity"):
            round_to(row, numbers, overflow=Overflow.INF)


@pytest.mark.parametrize("row", dtypes.ALL, ids=str)
def test_store_and_load(row: Dtype) -> None:
    """A stored array has the row's element type and width, and loads to exactly its values, in any shape."""
    numbers = np.arange(24.0).reshape(2, 3, 4) - 11.3
    kept = numbers.copy()
    for shaped in (
        numbers,
        numbers[:, ::-1, ::2],
        numbers.T,
        numbers[:0],
        np.array(2.7),
        numbers.astype(">f8"),
    ):
        stored = store(row, shaped)
        assert stored.shape == shaped.shape
        assert stored.dtype == storage(row)
        assert stored.dtype.itemsize == row.bytes
        values = load(row, stored)
        assert values.dtype == (np.float64 if row.name == "float64" else np.float32)
        assert np.array_equal(values, nearest(row, shaped, row.ties, row.overflow))
        assert encode(row, shaped).dtype == np.dtype(f"u{row.bytes}")
    assert np.array_equal(numbers, kept)


def test_store_never_writes_its_input() -> None:
    """float32 numbers, whose bits are read in place, are left as they were, read-only arrays included."""
    numbers = awkward_float32()
    bits = numbers.view(np.uint32).copy()
    numbers.flags.writeable = False
    for row in dtypes.ALL:
        assert not np.shares_memory(store(row, numbers), numbers)
    assert np.array_equal(numbers.view(np.uint32), bits)


def test_narrow_floats_are_read_exactly() -> None:
    """Arrays of float16, bfloat16 and the 8-bit floats are taken as their exact values."""
    for row in SMALL:
        if row.name != "hifloat8":
            values = decode(row, codes_of(row))
            stored = codes_of(row).view(storage(row))
            assert same_values(round_to("float32", stored), values)
            assert same_values(round_to("hif8", stored), round_to("hif8", values))


def test_numpy_error_settings_do_not_matter() -> None:
    """Overflow, underflow and NaN are ordinary results even where NumPy is told to raise."""
    with np.errstate(all="raise"):
        for row in dtypes.ALL:
            encode(row, [1e300, 1e-300, np.nan, np.inf, 0.0])
            encode(row, awkward_float32()[::97])


@pytest.mark.parametrize("wrong", [[1j], [True], ["1"], [None], np.array([1.0], np.longdouble)], ids=repr)
def test_other_elements_are_refused(wrong: Any) -> None:
    """Complex, bool, text, objects and extended precision are refused by name, not silently converted."""
    with pytest.raises(TypeError, match="cannot round elements of"):
        store("float16", wrong)


def test_wrong_stored_arrays_and_codes_are_refused() -> None:
    """load wants the row's own element type, decode wants integers that fit the row's bits."""
    with pytest.raises(TypeError, match="stored bfloat16 array"):
        load("bf16", np.zeros(3, np.float16))
    with pytest.raises(TypeError, match="must be integers"):
        decode("fp16", [1.0])
    for codes in ([256], [-1]):
        with pytest.raises(ValueError, match="0xff"):
            decode("hif8", codes)


def test_tie_and_overflow_words() -> None:
    """The rules may be given by their words; other words are refused."""
    assert round_to("fp16", 2049.0, "away") == 2050.0
    assert round_to("fp16", 1e6, overflow="clamp") == 65504.0
    with pytest.raises(ValueError, match="sideways"):
        round_to("fp16", 1.0, "sideways")


def test_examples_in_docstrings() -> None:
    """The examples written in dtypes and rounding give what they say."""
    import doctest

    for module in (dtypes, rounding):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_64_bit_integers_tie_only_where_they_are_halfway(kind, sign):
    """2**62 + half a quantum is a tie, one more or less is not: float64 in between would see ties everywhere."""
    if kind == "uint64" and sign < 0:
        return
    for name in ("float32", "bfloat16", "hf32"):
        row = dtypes.find(name)
        half = 2 ** (62 - row.significant_bits)
        for low, up in ((2**62, 2**62 + 2 * half), (2**62 + 2 * half, 2**62 + 4 * half)):
            middle = low + half
            even = low if (low // (2 * half)) % 2 == 0 else up
            want = [low, low, {"even": even, "away": up, "zero": low}[row.ties.value], up, up]
            given = np.array([sign * v for v in (low, middle - 1, middle, middle + 1, up)], kind)
            assert [int(v) for v in rounding.round_to(row, given)] == [sign * v for v in want], name
