"""Metrics against hand-computed values and against formulas written a second time, in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgrad.core import dtypes, metrics, rounding

TENSOR_DTYPES = [row.name for row in dtypes.ALL if row.is_tensor_dtype]


def measured(actual, golden, dtype="float32"):
    return metrics.measure(metrics.errors(actual, golden, dtype))


def test_hand_computed():
    """Two elements, one exact and one 3 off at 8: every number follows on paper."""
    m = measured([1.0, 11.0], [1.0, 8.0], "float16")
    assert m.count == 2
    assert m.mare == 3 / (8 + 1e-7) and m.mere == m.mare / 2
    assert m.rmse == math.sqrt(4.5) and m.max_abs == 3
    assert m.error_balance == 0.5
    assert m.max_ulp == 3 / 2**-7 and m.mean_ulp == m.max_ulp / 2  # the quantum of float16 at 8 is 2^(3-10)
    assert m.over_one_ulp == 0.5
    assert m.cosine == pytest.approx(89 / math.sqrt(122 * 65), rel=1e-15)
    assert (m.inf_mismatches, m.nan_mismatches) == (0, 0)


def test_small_values_are_counted():
    """Three references below the threshold, two of them with too large an error; at the threshold does not count."""
    golden = [0.1, 0.2, -0.3, 0.5, 2.0]
    e = metrics.errors([0.1, 0.3, -0.5, 0.9, 9.0], golden, "float32")
    m = metrics.measure(e, (0.5, 0.05))
    assert (m.small_values, m.small_value_errors) == (3, 2)
    assert metrics.measure(e).small_values == 0


def test_error_balance_counts_signs():
    """Three errors up, one down, one exact: (3 - 1) / 5."""
    assert measured([2, 2, 2, 0, 1], [1, 1, 1, 1, 1]).error_balance == 0.4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e4, 1e4)] * 2), min_size=1, max_size=20), st.sampled_from(TENSOR_DTYPES))
def test_against_plain_python(pairs, dtype):
    """Every metric equals the definition evaluated with Python floats and fractions, element by element."""
    row = dtypes.find(dtype)
    limit = row.max_finite
    a = [max(-limit, min(limit, p[0])) for p in pairs]
    g = [max(-limit, min(limit, p[1])) for p in pairs]
    g = [0.0 if abs(y) < 1e-290 else y for y in g]  # float64's own subnormals leave no room for fractions of them
    m = measured(a, g, dtype)
    e = [x - y for x, y in zip(a, g, strict=True)]
    rel = [abs(d) / (abs(y) + 1e-7) for d, y in zip(e, g, strict=True)]
    assert m.mare == max(rel) and m.mere == pytest.approx(math.fsum(rel) / len(rel), rel=1e-12)
    # The squares underflow below 1e-150: compare absolutely there.
    assert m.rmse == pytest.approx(math.sqrt(math.fsum(d * d for d in e) / len(e)), rel=1e-12, abs=1e-150)
    assert m.error_balance == (sum(d > 0 for d in e) - sum(d < 0 for d in e)) / len(e)
    ulps = [Fraction(abs(d)) / Fraction(quantum(row, y)) for d, y in zip(e, g, strict=True)]
    try:
        furthest = float(max(ulps))
    except OverflowError:
        furthest = np.inf
    assert m.max_ulp == pytest.approx(furthest, rel=1e-12)
    assert m.over_one_ulp == sum(u > 1 for u in ulps) / len(ulps)


def quantum(row, value):
    """The distance of neighbours, by the definition of the format."""
    exponent = row.min_exponent if value == 0 else max(math.frexp(value)[1] - 1, row.min_exponent)
    return math.ldexp(1.0, exponent - row.fraction_bits(exponent))


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_correct_rounding_is_at_most_half_an_ulp(dtype):
    """A float64 value rounded once to a format is never more than half a quantum off."""
    rng = np.random.default_rng(1)
    golden = rng.normal(size=2000) * np.exp2(rng.integers(-6, 6, 2000))
    m = measured(rounding.round_to(dtype, golden), golden, dtype)
    assert m.max_ulp <= 0.5 or (dtypes.find(dtype).is_tapered and m.max_ulp <= 1)  # a taper widens above a power of two


def test_empty_results_have_no_error():
    """Nothing to measure: zeros, and a cosine of one."""
    m = measured([], [])
    assert (m.count, m.mare, m.rmse, m.max_ulp, m.cosine) == (0, 0, 0, 0, 1)


@pytest.mark.parametrize("actual, golden, infs, nans", [
    ([np.inf], [np.inf], 0, 0), ([np.nan], [np.nan], 0, 0), ([np.inf], [-np.inf], 1, 0), ([1.0], [np.inf], 1, 0),
    ([np.inf], [1.0], 1, 0), ([np.nan], [1.0], 0, 1), ([1.0], [np.nan], 0, 1), ([np.nan], [np.inf], 0, 1),
    ([np.inf], [70000.0], 0, 0), ([65504.0], [70000.0], 1, 0),  # float16 overflows: infinity is right
    ([np.inf], [65519.0], 0, 0), ([65504.0], [65521.0], 0, 0),  # one step over the edge is one ULP
    ([-65504.0], [65521.0], 1, 0),
])
def test_infinities_and_nans(actual, golden, infs, nans):
    """What must match exactly, what the edge of the range allows, in float16."""
    m = measured(actual, golden, "float16")
    assert (m.inf_mismatches, m.nan_mismatches) == (infs, nans)


def test_one_step_over_the_edge_is_at_most_a_few_ulp():
    """Infinity where 65504 is right counts as the neighbour 65536."""
    assert measured([np.inf], [65504.0], "float16").max_ulp == 1.0


def test_special_elements_do_not_disturb_the_others():
    """The error of an ordinary element is the same with and without a matching NaN beside it."""
    alone, beside = measured([1.5], [1.0]), measured([1.5, np.nan], [1.0, np.nan])
    assert beside.mare == alone.mare and beside.count == 2


def test_histogram_counts_every_element_once():
    """Bins hold what is above their edge up to the next; exact elements are in the first."""
    golden = np.ones(6)
    ulp = 2.0**-10
    e = metrics.errors(golden + ulp * np.array([0, 0.5, 1, 1.5, 3, 5000]), golden, "float16")
    counts = dict(zip(metrics.ULP_EDGES, metrics.ulp_histogram(e), strict=True))
    assert sum(counts.values()) == 6
    assert {edge: n for edge, n in counts.items() if n} == {0.0: 1, 0.375: 1, 0.75: 1, 1.0: 1, 2.0: 1, 1024.0: 1}


def test_worst_elements_come_furthest_first():
    """Indices, values and order, also when some elements are special and left out."""
    golden = np.array([1.0, np.nan, 1.0, 1.0])
    actual = np.array([1.0, np.nan, 1.25, 1.5])
    found = metrics.worst(metrics.errors(actual, golden, "float16"), most=2)
    assert [(i, a) for i, a, _, _ in found] == [(3, 1.5), (2, 1.25)]
    assert metrics.worst(metrics.errors(golden, golden, "float16")) == ()


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "hifloat8"])
def test_code_distance_is_the_number_of_steps(dtype):
    """Neighbouring 8-bit values are one step apart, everywhere in the format."""
    values = np.unique(rounding.decode(dtype, np.arange(256)))
    values = values[np.isfinite(values)]
    steps = metrics.errors(values[1:], values[:-1], dtype).code_distance
    assert (steps == 1).all()
    assert (metrics.errors(values[2:], values[:-2], dtype).code_distance == 2).all()


def test_cosine_of_huge_vectors_does_not_overflow():
    """Scaling first: two equal vectors of 1e300 have a cosine of one; opposite ones of minus one."""
    huge = np.full(4, 1e300)
    assert metrics.cosine(huge, huge) == pytest.approx(1) and metrics.cosine(huge, -huge) == pytest.approx(-1)
    assert metrics.cosine(np.zeros(2), np.zeros(2)) == 1 and metrics.cosine(np.zeros(2), np.ones(2)) == 0


def test_different_sizes_are_refused():
    """Five results against four references is nobody's comparison."""
    with pytest.raises(ValueError, match="5 elements"):
        metrics.errors(np.zeros(5), np.zeros(4), "float32")
