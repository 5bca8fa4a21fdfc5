"""Each standard's pass/fail boundary on both sides, and the numbers of its row."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.compare import compare
from convgrad.core import metrics, standards
from convgrad.lab.judging import bootstrap
from convgrad.lab.judging.judge import Measured, judge, ratio

THRESHOLDS = {  # written a second time, so that an edit of the rows needs two hands
    "mere-mare": {"float16": [2**-10], "bfloat16": [2**-7], "float32": [2**-13], "hf32": [2**-11],
                  "float8_e4m3fn": [2**-3], "float8_e5m2": [2**-2]},
    "mixed": {"float16": [2**-9, 2**-9, 1e-1], "bfloat16": [2**-6, 2**-6, 1], "float32": [2**-10, 2**-16, 1e-2],
              "hf32": [2**-9, 2**-10, 1e-1], "float8_e4m3fn": [2**-2, 2**-4, 1], "float8_e5m2": [2**-1, 2**-3, 1e-1]},
    "mixed-2026-07": {"float16": [2**-10, 2**-10, 1e-1], "bfloat16": [2**-7, 2**-7, 1e-1],
                      "float32": [2**-13, 2**-13, 1e-2], "hf32": [2**-10, 2**-10, 1e-1],
                      "float8_e4m3fn": [2**-3, 2**-3, 1], "float8_e5m2": [2**-2, 2**-2, 1]},
    "close": {"float16": [1e-3, 1e-3, 1e-8], "bfloat16": [1e-3, 1e-3, 1e-8], "float32": [1e-4, 1e-4, 1e-8]},
    "requant": {"float8_e4m3fn": [], "float8_e5m2": [], "hifloat8": []},
    "double-benchmark:L0": {"any": [10, 2, 2]}, "double-benchmark:L1": {"any": [5, 1.5, 1.5]},
    "double-benchmark:L2": {"any": [2, 1.2, 1.2]},
    "small-values": {"float16": [2**-11, 2**-16], "bfloat16": [2**-8, 2**-16], "float32": [2**-14, 2**-30],
                     "hf32": [2**-12, 2**-28], "float8_e4m3fn": [2**-4, 2**-6], "float8_e5m2": [2**-3, 2**-5]},
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
    other = None if partner is None else metrics.measure(metrics.errors(partner, golden, unit), small)
    m = Measured(e, metrics.measure(e, small), False, other)
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


@pytest.mark.parametrize("name", ["mixed", "mixed-2026-07"])
@pytest.mark.parametrize("precision", SIX)
def test_mixed_tolerance_and_share(name, precision):
    """Exactly 99 % within tolerance passes, one element less fails."""
    rtol, atol, _ = THRESHOLDS[name][precision]
    for outside, expected in ((10, True), (11, False)):
        actual = ONES + (atol + rtol) * TIGHT
        actual[:outside] = 1 + (atol + rtol) * 1.5  # below the cap, or within 32 ULP
        assert passes(name, actual, ONES, precision) is expected, outside


@pytest.mark.parametrize("name", ["mixed", "mixed-2026-07"])
@pytest.mark.parametrize("precision", SIX)
def test_mixed_cap(name, precision):
    """One element beyond the cap fails, unless it is within 32 ULP of its own size."""
    cap = THRESHOLDS[name][precision][2]
    small = ONES * 2.0**-6
    unit = float(metrics.ulp_of("float32" if precision == "hf32" else precision, small[:1])[0])
    for error, expected in ((cap * TIGHT, True), (max(cap, 32 * unit) * WIDE, False)):
        actual = small.copy()
        actual[3] += error
        assert passes(name, actual, small, precision) is expected


@pytest.mark.parametrize("name", ["mixed", "mixed-2026-07"])
@pytest.mark.parametrize("precision", SIX[:4])
def test_mixed_cap_of_large_values_is_32_ulp(name, precision):
    """At 2^20 an ULP is larger than the cap: 32 of them pass, 33 fail."""
    big = np.full(1000, 2.0**15 if precision == "float16" else 2.0**20)
    unit = float(metrics.ulp_of("float32" if precision == "hf32" else precision, big[:1])[0])
    for ulps, expected in ((32, True), (33, False)):
        actual = big.copy()
        actual[3] -= ulps * unit
        assert passes(name, actual, big, precision) is expected


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32"])
def test_close(precision):
    """The allowed share of elements beyond tolerance, and one more."""
    rtol, allowed, atol = THRESHOLDS["close"][precision]
    golden = np.ones(10_000)
    for outside, expected in ((round(allowed * 10_000), True), (round(allowed * 10_000) + 1, False)):
        actual = golden + (atol + rtol) * TIGHT
        actual[:outside] = 1 + (atol + rtol) * WIDE
        assert passes("close", actual, golden, precision) is expected


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
@pytest.mark.parametrize("which", [0, 1, 2])
def test_double_benchmark_ratios(level, which):
    """Each ratio at its limit passes, just above fails."""
    limits = THRESHOLDS[f"double-benchmark:{level}"]["any"]
    for factor, expected in ((TIGHT, True), (WIDE, False)):
        ratios = [1.0, 1.0, 1.0]
        ratios[which] = limits[which] * factor
        e = metrics.errors(ONES + 1e-3, ONES, "float32")
        partner = metrics.measure(e)
        values = {n: getattr(partner, n) for n in partner.__slots__}
        ours = metrics.Metrics(**{**values, **{
            n: values[n] * r for n, r in zip(("mare", "mere", "rmse"), ratios, strict=True)}})
        m = Measured(e, ours, False, partner)
        assert judge(standards.find(f"double-benchmark:{level}"), "float32", m).passed is expected


def test_double_benchmark_of_exact_results():
    """Two exact results are equally good; an error where the partner has none is infinitely worse."""
    assert ratio(0.0, 0.0) == 1 and ratio(1e-9, 0.0) == np.inf and ratio(0.0, 1.0) == 0
    assert passes("double-benchmark", ONES, ONES, "float32", partner=ONES) is True
    assert passes("double-benchmark", ONES + 1e-6, ONES, "float32", partner=ONES) is False
    assert passes("double-benchmark", ONES, ONES, "float32") is None, "without a partner there is no verdict"


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
        actual[:off] = 1 + 1.001e-3
        assert passes("dual-1000", actual, golden, precision) is expected


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
    ("close", "hf32"), ("requant", "float32"), ("mere-mare", "hifloat8"), ("torch", "float8_e5m2"),
    ("mixed", "float64"), ("dual-1000", "hf32"), ("small-values", "hifloat8"),
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
