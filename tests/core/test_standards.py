"""Each standard's pass/fail boundary on both sides, and the numbers of its row."""

from __future__ import annotations

import json

import numpy as np
import pytest

from convgrad.cli.command_line import main
from convgrad.compare import compare
from convgrad.core import metrics, standards
from convgrad.lab.judging import bootstrap
from convgrad.lab.judging.judge import Measured, judge, ratio

SMALLEST = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-14, "hf32": 2**-12, "float8_e4m3fn": 2**-4,
            "float8_e5m2": 2**-3}  # fmt: skip
THRESHOLDS = {  # written a second time, so that an edit of the rows needs two hands
    "mere-mare": {"float16": [2**-10], "bfloat16": [2**-7], "float32": [2**-13], "hf32": [2**-11],
                  "float8_e4m3fn": [2**-3], "float8_e5m2": [2**-2], "any": [2**-13]},
    "mixed": {"float16": [2**-9, 2**-9, 1e-1], "bfloat16": [2**-6, 2**-6, 1], "float32": [2**-10, 2**-16, 1e-2],
              "hf32": [2**-9, 2**-10, 1e-1], "float8_e4m3fn": [2**-2, 2**-4, 4], "float8_e5m2": [2**-1, 2**-3, 8],
              "float64": [2**-10, 2**-16, 1e-2]},
    "mixed-elementwise": {
        "float16": [2**-9, 2**-9, 1e-1, 2**-10], "bfloat16": [2**-6, 2**-6, 1, 2**-7],
        "float32": [2**-10, 2**-16, 1e-2, 2**-23], "hf32": [2**-9, 2**-10, 1e-1, 2**-10],
        "float8_e4m3fn": [2**-2, 2**-4, 1, 2**-3], "float8_e5m2": [2**-1, 2**-3, 1e-1, 2**-2]},
    "cosine": {"any": [0.01]}, "quant": {"any": [1]},
    "msprobe-ulp": {"float16": [1, 1e-3, 0, 1], "bfloat16": [1, 1e-3, 0, 1], "float32": [32, 0.05, 64, 1],
                    "float8_e4m3fn": [1, 1e-3, 0, 0], "float8_e5m2": [1, 1e-3, 0, 0], "hifloat8": [1, 1e-3, 0, 0]},
    "msprobe-absolute": {"float16": [2**-10, 2**-10, 2**-16], "bfloat16": [2**-8, 2**-10, 1e-16],
                         "float32": [2**-20, 2**-20, 2**-30]},
    "close": {"float16": [1e-3, 1e-3, 1e-8], "bfloat16": [1e-3, 1e-3, 1e-8], "any": [1e-4, 1e-4, 1e-8]},
    "requant": {"float8_e4m3fn": [], "float8_e5m2": [], "hifloat8": []},
    **{f"double-benchmark:{level}": {name: [*limits, s] for name, s in SMALLEST.items()}
       for level, limits in (("L0", (10, 2, 2)), ("L1", (5, 1.5, 1.5)), ("L2", (2, 1.2, 1.2)))},
    "small-values": {"float16": [2**-11, 2**-16], "bfloat16": [2**-8, 2**-16], "float32": [2**-14, 2**-30],
                     "hf32": [2**-12, 2**-28], "float8_e4m3fn": [2**-4, 2**-6], "float8_e5m2": [2**-3, 2**-5]},
    **{f"cross_check:{level}": {name: [*limits, SMALLEST[name], error] for name, error in
                                (("float16", 2**-16), ("bfloat16", 2**-16), ("float32", 2**-30))}
       for level, limits in (("L0", (10, 2, 2)), ("L1", (5, 1.5, 1.5)), ("L2", (2, 1.2, 1.2)))},
    "msprobe-ratio": {"float16": [10, 2, 2, 2, 2**-10, 1e-16, 2**-11], "bfloat16": [10, 2, 2, 2, 2**-10, 1e-16, 2**-8],
                      "float32": [10, 2, 2, 2, 2**-20, 2**-30, 2**-14]},
    "cann-bench": {"float16": [2**-10, 2**-11, 2**-16, 2**-5], "bfloat16": [2**-7, 2**-8, 2**-16, 2**-3],
                   "float32": [2**-13, 2**-14, 2**-30, 2**-8], "hf32": [2**-11, 2**-12, 2**-28, 2**-8],
                   "float8_e4m3fn": [2**-3, 2**-4, 2**-6, 2**-1], "float8_e5m2": [2**-2, 2**-3, 2**-5, 1]},
    "dual-1000": {name: [1e-3, 0.999] for name in ("float16", "bfloat16", "float32")},
    "torch": {"float16": [1e-3, 1e-5], "bfloat16": [1.6e-2, 1e-5], "float32": [1.3e-6, 1e-5], "float64": [1e-7, 1e-7]},
    "exact": {"any": []},
}
ONES = np.ones(1000)
SIX = ("float16", "bfloat16", "float32", "hf32", "float8_e4m3fn", "float8_e5m2")
TIGHT, WIDE = 1 - 1e-9, 1 + 1e-6


def passes(name, actual, golden, precision, dtype=None, partner=None):
    """The verdict of a standard on values judged in `precision`."""
    unit = dtype or ("float32" if precision == "hf32" else precision)
    e = metrics.errors(actual, golden, unit)
    small = standards.find("small-values").limits(precision)
    theirs = None if partner is None else metrics.errors(partner, golden, unit)
    other = None if theirs is None else metrics.measure(theirs, small)
    m = Measured(e, metrics.measure(e, small), False, other, theirs)
    return judge(standards.find(name), precision, m).passed


def test_rows_hold_the_thresholds():
    """Names, dtypes and numbers of every row."""
    assert {s.name: {d: list(n) for d, n in s.thresholds} for s in standards.ALL} == THRESHOLDS
    assert all(s.date.startswith("2026") for s in standards.ALL)


@pytest.mark.parametrize("precision", SIX)
def test_mere_mare(precision):
    """MERE just below and just above T; MARE just below and just above 10 T."""
    (t,) = THRESHOLDS["mere-mare"][precision]
    scale = 1 + 1e-7  # rel = |a-g| / (|g| + 1e-7)
    assert passes("mere-mare", ONES + t * scale * 0.999, ONES, precision) is True
    assert passes("mere-mare", ONES + t * scale * 1.001, ONES, precision) is False
    for factor, expected in ((9.99, True), (10.01, False)):
        one_off = ONES.copy()
        one_off[7] += factor * t * scale
        assert passes("mere-mare", one_off, ONES, precision) is expected


def test_the_threshold_itself_fails_mere_mare():
    """MERE and MARE are strict; a NaN where the reference has one counts for nothing, one beside a number fails."""
    golden = np.full(1000, 1 - 1e-7)  # |g| + 1e-7 is 1, so that rel is |a - g| exactly
    t = THRESHOLDS["mere-mare"]["float32"][0]
    even, one = golden - t, golden.copy()
    one[3] -= 10 * t
    for at, below in ((even, golden - t * TIGHT), (one, np.where(one == golden, golden, one + 2.0**-40))):
        assert passes("mere-mare", at, golden, "float32") is False
        assert passes("mere-mare", below, golden, "float32") is True
    with_nan, beside = below.copy(), golden.copy()
    with_nan[7] = beside[7] = np.nan
    assert passes("mere-mare", with_nan, beside, "float32") is True
    assert passes("mere-mare", with_nan, golden, "float32") is False


@pytest.mark.parametrize("name", ["mixed", "mixed-elementwise"])
@pytest.mark.parametrize("precision", SIX)
def test_mixed_tolerance_and_share(name, precision):
    """Exactly 99 % within tolerance passes, one element less fails."""
    rtol, atol, *_ = THRESHOLDS[name][precision]
    for outside, expected in ((10, True), (11, False)):
        actual = ONES + (atol + rtol) * TIGHT
        actual[:outside] = 1 + (atol + rtol) * 1.5  # below the cap, or within 32 ULP
        assert passes(name, actual, ONES, precision) is expected, outside


@pytest.mark.parametrize("precision", SIX)
def test_mixed_limit_and_cap(precision):
    """One element beyond the limit fails; elementwise, unless it is within 32 ULP of its own size."""
    small = ONES * 2.0**-6
    *_, cap, eps = THRESHOLDS["mixed-elementwise"][precision]
    unit = eps * 2.0**-6
    for name, limit in (("mixed", THRESHOLDS["mixed"][precision][2]), ("mixed-elementwise", max(cap, 32 * unit))):
        for error, expected in ((limit * TIGHT, True), (limit * WIDE, False)):
            actual = small.copy()
            actual[3] += error
            assert passes(name, actual, small, precision) is expected


@pytest.mark.parametrize("precision", SIX[:4])
def test_the_limit_of_large_values(precision):
    """At 2^20 an ULP is larger than the limit: elementwise 32 of them pass, 33 fail; `mixed` has one number for all."""
    at = 2.0**15 if precision == "float16" else 2.0**20
    big, unit = np.full(1000, at), at * 2.0 ** -{"bfloat16": 7, "float32": 23}.get(precision, 10)
    for ulps, expected in ((32, True), (33, False)):
        actual = big.copy()
        actual[3] -= ulps * unit
        assert passes("mixed-elementwise", actual, big, precision) is expected
        assert passes("mixed", actual, big, precision) is False


def test_mixed_as_the_kit_takes_it():
    """bfloat16 at 1000, off by 2: beyond the limit of 1, within 32 ULP there. e5m2: 8 passes, 8.5 fails."""
    big = ONES * 1000
    actual = big.copy()
    actual[3] += 2
    assert passes("mixed", actual, big, "bfloat16") is False
    assert passes("mixed-elementwise", actual, big, "bfloat16") is True
    for error, expected in ((8.0, True), (8.5, False)):
        actual = ONES * 64
        actual[3] += error
        assert passes("mixed", actual, ONES * 64, "float8_e5m2") is expected


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32", "hf32", "float64", "hifloat8"])
def test_close(precision):
    """The allowed share of elements beyond tolerance, and one more; what is not 16 bits wide shares a column."""
    rtol, allowed, atol = THRESHOLDS["close"].get(precision, THRESHOLDS["close"]["any"])
    golden = np.ones(10_000)
    for outside, expected in ((round(allowed * 10_000), True), (round(allowed * 10_000) + 1, False)):
        actual = golden + (atol + rtol) * TIGHT
        actual[:outside] = 1 + (atol + rtol) * WIDE
        assert passes("close", actual, golden, precision) is expected


@pytest.mark.parametrize(("name", "dtype", "off"), [
    ("mixed", "float16", 1e-2), ("mixed-elementwise", "float16", 1e-2), ("close", "float16", 1e-2),
    ("requant", "float8_e5m2", 1.0),
])
def test_special_values_like_the_references_count_as_passing(name, dtype, off):
    """Shares are of all elements: one of ten is too many, one of ten and 990 equal NaNs and infinities is not."""
    golden = np.ones(10)
    actual = golden.copy()
    actual[0] += off
    assert passes(name, actual, golden, dtype) is False
    special = np.repeat([np.nan, np.inf, -np.inf], 330)
    golden, actual = np.concatenate([golden, special]), np.concatenate([actual, special])
    assert passes(name, actual, golden, dtype) is True
    actual[-1] = np.inf
    assert passes(name, actual, golden, dtype) is False


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "hifloat8"])
def test_requant(dtype):
    """99.9 % within one code: one element of a thousand may be two codes off, two may not. hifloat8 in `mixed` too."""
    step = float(metrics.ulp_of(dtype, np.array([1.0]))[0])
    for far, expected in ((1, True), (2, False)):
        actual = ONES + step
        actual[:far] += step
        assert passes("requant", actual, ONES, dtype) is expected
        if dtype == "hifloat8":
            assert passes("mixed", actual, ONES, dtype) is expected


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
def test_double_benchmark_ratios(level):
    """Each ratio at its limit passes, just above fails: one element for MARE, all of them for MERE and RMSE."""
    mare, mere, _, s = THRESHOLDS[f"double-benchmark:{level}"]["float32"]
    error = 8 * s
    partner = ONES + error
    for factor, expected in ((TIGHT, True), (WIDE, False)):
        actual = ONES + error * mere * factor
        assert passes(f"double-benchmark:{level}", actual, ONES, "float32", partner=partner) is expected
        one = ONES + error / 8
        one[5] = 1 + error * mare * factor
        assert passes(f"double-benchmark:{level}", one, ONES, "float32", partner=partner) is expected


def test_a_partners_tiny_error_counts_as_s():
    """float32, an exact partner, every element off by 2^-15: the ratio is 0.5; small values do not enter."""
    actual = ONES * (1 + 2.0**-15 * (1 + 1e-7))
    assert ratio(2.0**-15, 0.0, 2.0**-14) == 0.5 and ratio(0.0, 0.0, 0.5) == 1 and ratio(np.inf, np.inf, 0.5) == 1
    assert passes("double-benchmark:L2", actual, ONES, "float32", partner=ONES) is True
    assert passes("cross_check:L2", actual, ONES, "float32", partner=ONES) is True
    golden = ONES.copy()
    golden[:500] = 2.0**-15  # below s
    wrong = golden.copy()
    wrong[:500] *= 9
    assert passes("double-benchmark:L2", wrong, golden, "float32", partner=golden) is True
    assert passes("double-benchmark", ONES * 1.01, ONES, "float32", partner=ONES) is False
    assert passes("cross_check", ONES, ONES, "float32") is None, "without a partner there is no verdict"
    assert passes("double-benchmark", ONES, ONES, "float64", partner=ONES) is None


@pytest.mark.parametrize(("level", "mare", "mere"), [("L0", 10, 2), ("L1", 5, 1.5), ("L2", 2, 1.2)])
def test_cross_check_has_both_parts(level, mare, mere):
    """Each ratio at its limit and above it; small values twice the partner's count and one more; the special ones."""
    name, error = f"cross_check:{level}", 2.0**-10
    partner = ONES * (1 + error)
    for factor, expected in ((TIGHT, True), (WIDE, False)):
        assert passes(name, ONES * (1 + error * mere * factor), ONES, "float32", partner=partner) is expected
        one = ONES * (1 + error / 8)
        one[5] = 1 + error * mare * factor
        assert passes(name, one, ONES, "float32", partner=partner) is expected
    golden = ONES.copy()
    golden[:100] = 2.0**-20
    theirs, ours = golden.copy(), golden.copy()
    theirs[:3] += 2.0**-29
    for count, expected in ((6, True), (7, False)):
        ours[:count] = 2.0**-20 + 2.0**-29
        assert passes(name, ours, golden, "float32", partner=theirs) is expected
    spoilt = np.full(1000, np.nan)
    assert passes(name, spoilt, ONES, "float32", partner=spoilt) is True
    assert passes(name, spoilt, ONES, "float32", partner=ONES) is False
    assert passes(name, ONES, ONES, "float32", partner=spoilt) is False, "neither the partner's nor beside a bad g"
    assert passes(name, spoilt, spoilt, "float32", partner=ONES) is True
    assert passes(name, ONES, ONES, "hf32", partner=ONES) is None, "the kit knows three dtypes"


def test_msprobe_ratio():
    """Each of the four ratios at its limit and above it; a partner's tiny error counts as the least."""
    error = 2.0**-9
    partner = ONES + error
    for factor, expected in ((TIGHT, True), (WIDE, False)):
        assert passes("msprobe-ratio", ONES + 2 * error * factor, ONES, "float32", partner=partner) is expected
        one = ONES + error / 8
        one[5] = 1 + 10 * error * factor
        assert passes("msprobe-ratio", one, ONES, "float32", partner=partner) is expected
    assert passes("msprobe-ratio", ONES * (1 + 2.0**-13.01), ONES, "float32", partner=ONES) is True
    assert passes("msprobe-ratio", ONES * (1 + 2.0**-12.9), ONES, "float32", partner=ONES) is False
    golden = np.full(1000, 2.0**-21)  # all small: the share of errors above 2**-30, over the partner's
    theirs, ours = golden.copy(), golden.copy()
    theirs[:100] += 2.0**-29
    for count, expected in ((200, True), (201, False)):
        ours[:count] = 2.0**-21 + 2.0**-29
        assert passes("msprobe-ratio", ours, golden, "float32", partner=theirs) is expected
    assert passes("msprobe-ratio", ONES, ONES, "float32") is None


def test_cann_bench():
    """MERE and MARE of the normal part or twice the partner's count; small and cancelled values by count."""
    t = 2.0**-13
    assert passes("cann-bench", ONES * (1 + t * 0.99), ONES, "float32", partner=ONES) is True
    assert passes("cann-bench", ONES * (1 + t * 1.01), ONES, "float32", partner=ONES) is False
    assert passes("cann-bench", ONES * (1 + t * 1.01), ONES, "float32", partner=ONES * (1 + 2 * t)) is True
    one = ONES.copy()
    for factor, expected in ((9.99, True), (10.01, False)):
        one[5] = 1 + factor * t
        assert passes("cann-bench", one, ONES, "float32", partner=ONES) is expected
    for base in (2.0**-20, 2.0**-10):  # a small value, a cancelled one
        golden, theirs = np.full(1000, base), np.full(1000, base)
        theirs[:3] += 2.0**-29
        for count, expected in ((6, True), (7, False)):
            ours = golden.copy()
            ours[:count] += 2.0**-29
            assert passes("cann-bench", ours, golden, "float32", partner=theirs) is expected
    cancelled = np.full(1000, 2.0**-9)
    escaped = cancelled.copy()
    escaped[0] = 2.0**-7  # the result is not below b: the normal part
    assert passes("cann-bench", escaped, cancelled, "float32", partner=cancelled) is False


def test_special_values_may_be_the_partners():
    """An infinity that the partner has too is no failure of a double benchmark; one of its own is."""
    actual = ONES.copy()
    actual[4] = np.inf
    assert passes("double-benchmark", actual, ONES, "float32", partner=actual) is True
    assert passes("double-benchmark", actual, ONES, "float32", partner=ONES) is False


@pytest.mark.parametrize("precision", SIX)
def test_small_values(precision):
    """Twice the partner's count of bad small values passes, one more fails; values at the threshold do not count."""
    threshold, error = THRESHOLDS["small-values"][precision]
    golden = np.full(100, threshold * TIGHT)
    partner, ours = golden.copy(), golden.copy()
    partner[:3] += error * WIDE
    for count, expected in ((6, True), (7, False)):
        ours = golden.copy()
        ours[:count] += error * WIDE
        assert passes("small-values", ours, golden, precision, partner=partner) is expected
    ours = golden + error * TIGHT  # not above the error
    assert passes("small-values", ours, golden, precision, partner=golden) is True
    at = np.full(100, threshold)
    assert passes("small-values", at + 2 * error, at, precision, partner=at) is True


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32"])
def test_dual_1000(precision):
    """The share must exceed 0.999: of two thousand, one may be off, two may not."""
    golden = np.ones(2000)
    for off, expected in ((1, True), (2, False)):
        actual = golden + 1e-3 * TIGHT
        actual[:off] = 1 + 1e-3 * (1 + 1e-9)
        assert passes("dual-1000", actual, golden, precision) is expected


def test_msprobe_ulp():
    """63 ULP everywhere pass by the mean, 65 in 4 % by share and mean; 70 everywhere fail unless a partner is worse."""
    ulp = 2.0**-23
    assert passes("msprobe-ulp", ONES + 63 * ulp, ONES, "float32") is True
    some = ONES.copy()
    some[:40] += 65 * ulp
    assert passes("msprobe-ulp", some, ONES, "float32") is True
    assert passes("msprobe-ulp", ONES + 70 * ulp, ONES, "float32") is False
    nine = ONES + 70 * ulp
    nine[0] = 1
    assert passes("msprobe-ulp", nine, ONES, "float32", partner=ONES + 70 * ulp) is True
    assert passes("msprobe-ulp", ONES + 2 * 2.0**-10, ONES, "float16") is False


@pytest.mark.parametrize(("dtype", "at", "ulp"), [
    ("float8_e4m3fn", 1.5, 2**-3), ("float8_e4m3fn", 2**-9, 2**-9), ("float8_e4m3fn", 416.0, 32.0),
    ("float8_e5m2", 1.5, 2**-2), ("float8_e5m2", 2**-16, 2**-16), ("float8_e5m2", 0.0, 2**-2),
    ("hifloat8", 1.5, 2**-3), ("hifloat8", 8.0, 1.0), ("hifloat8", 16.0, 4.0), ("hifloat8", 2.0**10, 2.0**9),
    ("float16", 0.0, 2**-10), ("float16", 2**-24, 2**-24), ("bfloat16", 3.0, 2**-6),
])  # fmt: skip
def test_msprobe_ulp_of_narrow_dtypes(dtype, at, ulp):
    """One ULP off is none too far, two are, up to one of a thousand; a worse partner excuses 16 bits only."""
    golden = np.full(2000, at)
    assert passes("msprobe-ulp", golden + ulp, golden, dtype) is True
    for count, expected in ((1, True), (2, False)):
        actual = golden.copy()
        actual[:count] += 2 * ulp
        assert passes("msprobe-ulp", actual, golden, dtype) is expected
    worse = golden.copy()
    worse[:3] += 2 * ulp
    assert passes("msprobe-ulp", actual, golden, dtype, partner=worse) is (dtype in ("float16", "bfloat16"))
    assert passes("msprobe-ulp", actual, golden, dtype, partner=actual) is False


def test_every_row_says_its_date_source_and_thresholds(capsys):
    """`standards` prints them, the page holds them; what a row does not speak of it says nothing about."""
    assert main(["standards", "--json"]) == 0
    told, page = {r["name"]: r for r in json.loads(capsys.readouterr().out)}, standards.page("made")
    for row in standards.ALL:
        assert told[row.name]["date"] == row.date and told[row.name]["note"] == row.note
        assert f"| `{row.name}` | {row.date} |" in page and (not row.note or f"| {row.note} |" in page)
        for name, numbers in row.thresholds:
            assert all(f"{c} = {standards.power_of_two(v)}" in row.says(name)
                       for c, v in zip(row.columns, numbers, strict=True))  # fmt: skip
        if row.limits("float4") is None:
            assert row.says("float4") == f"{row.name} says nothing about float4"


def test_cosine_quant_and_absolute():
    """Opposite and zero vectors fail, a step of one passes, both parts of the absolute threshold count."""
    assert passes("cosine", ONES * 3, ONES, "float16") is True and passes("cosine", -ONES, ONES, "float16") is False
    zeros = np.zeros(1000)
    assert passes("cosine", zeros, ONES, "float16") is False and passes("cosine", zeros, zeros, "float16") is False
    assert passes("quant", ONES + 1, ONES, "float32") is True and passes("quant", ONES + 1.5, ONES, "float32") is False
    for base, limit in ((1.0, 2.0**-10), (2.0**-12, 2.0**-16)):
        for factor, expected in ((TIGHT, True), (WIDE, False)):
            actual = ONES * base
            actual[9] += limit * factor
            assert passes("msprobe-absolute", actual, ONES * base, "float16") is expected


def test_requant_of_zeros():
    """Zeros of both signs are one code; a hundred codes apart fail."""
    zeros = np.zeros(1000)
    assert passes("requant", -zeros, zeros, "float8_e4m3fn") is True
    assert passes("requant", zeros + 64, zeros, "float8_e4m3fn") is False
    values = metrics._code_values(metrics.dtypes.find("hifloat8"))
    far = np.full(1000, values[0])
    assert passes("requant", np.full(1000, values[127]), far, "hifloat8") is False, "127 codes apart"


def test_withdrawn_rows_say_so():
    """Every row has its source's date; what was withdrawn or superseded is told in words."""
    notes = {s.name: s.note for s in standards.ALL}
    assert all("withdrawn 2026-04-22" in notes[n] for n in notes if n.startswith(("double", "small")))
    assert "superseded 2026-07-15" in notes["mere-mare"] and standards.find("mixed").date == "2026-07-15"
    with pytest.raises(ValueError, match="unknown standard"):
        standards.find("mixed-2026-07")


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32", "float64"])
def test_torch(precision):
    """Every element counts: one just beyond rtol and atol fails."""
    rtol, atol = THRESHOLDS["torch"][precision]
    for factor, expected in ((TIGHT, True), (1 + 1e-3, False)):
        actual = ONES.copy()
        actual[5] += (atol + rtol) * factor
        assert passes("torch", actual, ONES, precision) is expected


def test_exact_looks_at_bits():
    """The nearest value passes, its neighbour fails, and minus zero is not zero; a NaN equals a NaN."""
    golden = np.array([1 / 3, 0.0, np.nan])
    right = golden.astype(np.float16)
    assert compare(right, golden, standard="exact").judged[0].passed is True
    neighbour = right.copy()
    neighbour[0] = np.nextafter(right[0], np.float16(1))
    assert compare(neighbour, golden, standard="exact").judged[0].passed is False
    signed = right.copy()
    signed[1] = -0.0
    assert compare(signed, golden, standard="exact").judged[0].passed is False


@pytest.mark.parametrize("row", standards.ALL, ids=lambda s: s.name)
def test_a_mismatched_infinity_fails_every_standard(row):
    """One infinity among a million good elements is no rounding error."""
    precision = next(d for d, _ in row.thresholds)
    precision = "float32" if precision == "any" else precision
    actual = np.ones(100_000)
    actual[5] = np.nan if precision == "float8_e4m3fn" else np.inf
    assert passes(row.name, actual, np.ones(100_000), precision, partner=np.ones(100_000)) is False


@pytest.mark.parametrize("name, precision", [
    ("requant", "float32"), ("torch", "float8_e5m2"),
    ("mixed-elementwise", "float64"), ("dual-1000", "hf32"), ("msprobe-ulp", "hf32"), ("small-values", "hifloat8"),
])
def test_a_standard_that_says_nothing_gives_no_verdict(name, precision):
    """Neither pass nor fail where the row has no number."""
    unit = "float32" if precision == "hf32" else precision
    assert passes(name, ONES, ONES, precision, unit, partner=ONES) is None


def test_the_precision_of_a_result():
    """The narrower of compute dtype and stored dtype; both HF32 are one column."""
    assert standards.precision_of("hf32", "float32") == "hf32"
    assert standards.precision_of("float16", "float32") == "float16"
    assert standards.precision_of("bfloat16", "bfloat16") == "bfloat16"
    assert standards.precision_of("float32", "float16") == "float16"
    assert standards.find("mixed").limits("hf32_10") == standards.find("mixed").limits("hf32")


def test_names():
    """Lists with commas, an alias, any case; unknown names list the known ones."""
    assert [s.name for s in standards.find_all("mixed, EXACT,mixed")] == ["mixed", "exact"]
    assert standards.find("double-benchmark").name == "double-benchmark:L1"
    assert standards.find("cross_check").name == "cross_check:L1"
    assert standards.find("isclose").name == "close"
    for wrong in ("", "mixxed", ","):
        with pytest.raises(ValueError, match="mere-mare"):
            standards.find_all(wrong)


def test_bootstrap_recheck():
    """Medians clearly above 1 fail, at or around 1 pass; the same draws give the same interval."""
    rng = np.random.default_rng(0)
    high, around = rng.normal(1.3, 0.1, 200), rng.normal(1.0, 0.3, 200)
    assert not bootstrap.recheck(high).passed and bootstrap.recheck(around).passed
    assert bootstrap.recheck(high) == bootstrap.recheck(high)
    assert bootstrap.recheck([1.0] * 200).passed, "an interval that touches 1 is not above it"
    assert not bootstrap.recheck([1.0 + 1e-9] * 200).passed
    assert not bootstrap.recheck([np.inf] * 200).passed
    low = bootstrap.recheck(high)
    assert low.low < low.median < low.high and low.seeds == 200
    with pytest.raises(ValueError, match="200 seeds"):
        bootstrap.recheck(high[:199])


@pytest.mark.parametrize(("theirs", "row"), [
    ("mix_tolerance", "mixed"), ("stat_rel_err", "mere-mare"), ("isclose", "close"), ("cross_check", "cross_check:L1"),
    ("double-benchmark", "double-benchmark:L1"), ("binary", "exact"), ("benchmark", "msprobe-ratio"),
])  # fmt: skip
def test_names_that_kits_have_for_rows(theirs, row):
    """A standard asked for by a test kit's or the dump tool's own name is the row that has its numbers."""
    assert standards.find(theirs).name == row
