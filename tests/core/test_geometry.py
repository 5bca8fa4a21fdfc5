"""The shape law."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from convgrad.core.geometry import Axis, Geometry, coarse_size, fine_size

size, step, pad = st.integers(1, 7), st.integers(1, 3), st.integers(0, 3)
axes = st.tuples(size, size, step, step, pad, pad)


@given(axes)
def test_the_coarse_size_is_the_number_of_window_positions(a):
    """Counting positions by hand gives coarse_size, and the axis then fits with 0 <= slack < stride."""
    fine, window, stride, dilation, low, high = a
    reach = dilation * (window - 1) + 1
    by_hand = sum(1 for start in range(0, fine + low + high, stride) if start + reach <= fine + low + high)
    assert coarse_size(fine, window, stride, dilation, low, high) == by_hand
    if by_hand:
        axis = Axis(fine, by_hand, window, stride, dilation, low, high)
        assert axis.fits
        assert fine_size(by_hand, window, stride, dilation, low, high, axis.slack) == fine


@given(axes)
def test_tied_cells_are_the_law(a):
    """tied_coarse(tap) lists exactly the o whose fine index lies in the grid."""
    fine, window, stride, dilation, low, high = a
    axis = Axis(fine, coarse_size(fine, window, stride, dilation, low, high), window, stride, dilation, low, high)
    for tap in range(window):
        want = [o for o in range(axis.coarse) if 0 <= o * stride - low + tap * dilation < fine]
        assert list(axis.tied_coarse(tap)) == want


def test_a_slack_of_a_whole_stride_does_not_fit():
    """One more position would have fitted, so the sizes contradict each other."""
    assert not Axis(fine=9, coarse=3, window=3, stride=2).fits
    assert Axis(fine=8, coarse=3, window=3, stride=2).fits


def test_shapes_and_multiply_adds():
    """Shapes of the three tensors, and the number of products, from one value."""
    g = Geometry(2, 4, 6, 2, (Axis(1, 1, 1), Axis(5, 3, 3), Axis(6, 4, 3)))
    assert g.fine_shape == (2, 4, 1, 5, 6) and g.coarse_shape == (2, 6, 1, 3, 4) and g.weight_shape == (6, 2, 1, 3, 3)
    assert g.multiply_adds == sum(1 for _ in product(range(2), range(6), range(3), range(4), range(2), range(9)))
