"""Blocks: cut by the problem alone, within the limits, and tied by the same law as the whole."""

from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgrad import Request, plan
from convgrad.core.geometry import Axis, coarse_size
from convgrad.core.partition import (
    LIMITS,
    Limits,
    Partition,
    even_cuts,
    partition,
    parts,
    ranges,
    sizes,
    tied_to_coarse,
    tied_to_fine,
    tree,
)


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    """Axes with gaps between windows, padding wider than a window, and slack."""
    window, stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    low, high = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    reach = dilation * (window - 1) + 1
    fine = draw(st.integers(max(1, reach - low - high), reach + 20))
    return Axis(fine, coarse_size(fine, window, stride, dilation, low, high), window, stride, dilation, low, high)


def ties(axis: Axis, fine_from: int = 0, coarse_from: int = 0) -> set[tuple[int, int, int]]:
    """Every tied (fine, tap, coarse), in the numbers of the whole axis."""
    found = product(range(axis.coarse), range(axis.window))
    cells = ((o * axis.stride - axis.pad_low + k * axis.dilation, k, o) for o, k in found)
    return {(i + fine_from, k, o + coarse_from) for i, k, o in cells if 0 <= i < axis.fine}


@settings(max_examples=200, deadline=None)
@given(axes(), st.integers(1, 6))
def test_coarse_blocks_have_every_tie_of_the_axis_once(axis, pieces):
    """The blocks' own laws, taken together, are the law of the axis: nothing is lost, nothing counted twice."""
    seen: list[tuple[int, int, int]] = []
    for block in ranges(even_cuts(axis.coarse, pieces)):
        tied = tied_to_coarse(axis, block)
        if tied is not None:
            assert tied.axis.fits and min(tied.axis.pad_low, tied.axis.pad_high) >= 0
            seen += ties(tied.axis, tied.fine[0], tied.coarse[0])
    assert sorted(seen) == sorted(ties(axis))


@settings(max_examples=200, deadline=None)
@given(axes(), st.integers(1, 6))
def test_fine_blocks_have_every_tie_of_the_axis_once(axis, pieces):
    """The same for blocks of the fine grid, whose windows may start before the block or leave cells untouched."""
    seen: list[tuple[int, int, int]] = []
    for block in ranges(even_cuts(axis.fine, pieces)):
        tied = tied_to_fine(axis, block)
        if tied is not None:
            assert tied.axis.fits and min(tied.axis.pad_low, tied.axis.pad_high) >= 0
            assert block[0] <= tied.fine[0] < tied.fine[1] <= block[1]
            seen += ties(tied.axis, tied.fine[0], tied.coarse[0])
    assert sorted(seen) == sorted(ties(axis))


@given(st.integers(1, 30), st.integers(1, 9), st.data())
def test_parts_of_a_range_follow_each_other(size, pieces, data):
    """The pieces of a range, in order, are the range."""
    cuts = even_cuts(size, pieces)
    start = data.draw(st.integers(0, size - 1))
    stop = data.draw(st.integers(start + 1, size))
    cells = [cuts[i] + k for i, (a, b) in parts(cuts, (start, stop)) for k in range(a, b)]
    assert cells == list(range(start, stop))


@pytest.mark.parametrize("leaves", [1, 2, 3, 5, 8, 13])
def test_the_tree_adds_each_leaf_once(leaves):
    """Pairs of neighbours, level by level, down to one sum; its depth is the logarithm of the leaves."""
    values: list[tuple[int, ...]] = [(i,) for i in range(leaves)]
    levels = tree(leaves)
    for nodes in levels:
        values = [tuple(leaf for i in node for leaf in values[i]) for node in nodes]
    assert values == [tuple(range(leaves))]
    assert len(levels) == (leaves - 1).bit_length()


@pytest.mark.parametrize(
    ("line", "cuts"),
    [
        ("conv n64 c64>64 i224x224 k3x3 p1", {"batch": 32, "coarse_channels": 1, "positions": (1, 1, 1)}),
        ("conv n1 c16>16 i4096x4096 k3x3 p1", {"batch": 1, "coarse_channels": 1, "positions": (1, 32, 1)}),
        ("conv n1 c512>512 i1024x1024 k3x3 p1 g512", {"batch": 1, "coarse_channels": 64, "positions": (1, 1, 1)}),
        ("conv n8 c4096>4096 i16x16 k3x3 p1", {"batch": 3, "coarse_channels": 8, "positions": (1, 1, 1)}),
        ("conv n2 c8>8 i14x14 k3x3 p1", {"batch": 1, "coarse_channels": 1, "positions": (1, 1, 1)}),
    ],
)
def test_where_ordinary_problems_are_cut(line, cuts):
    """By batch; else by groups; else by rows; by channels only for a large weight; small problems not at all."""
    made = partition(plan(Request.parse(line)))
    assert len(made.batch) - 1 == cuts["batch"]
    assert len(made.coarse_channels) - 1 == cuts["coarse_channels"]
    assert tuple(len(c) - 1 for c in made.coarse) == cuts["positions"]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(4, 40),
       st.integers(40, 4000), st.integers(10, 400), st.integers(10, 4000))  # fmt: skip
def test_blocks_stay_within_the_limits_unless_they_are_single_cells(n, c, f, g, size, data, weight, work):
    """Cutting goes on until every limit holds or nothing can be cut any more."""
    made = partition(plan(Request.parse(f"conv n{n} c{f * g}>{c * g} i{size}x{size} k3x3 p1 g{g}")),
                     Limits(data, weight, work))  # fmt: skip
    geometry = made.geometry
    groups = max(sizes(made.groups))
    cells = [max(sizes(cuts)) for cuts in made.coarse]
    cell_count = cells[1] * cells[2]
    below = [min(a.fine, o * a.stride) for a, o in zip(geometry.axes, cells, strict=True)]
    data_bytes = 4 * max(sizes(made.batch)) * groups * (c * cell_count + f * below[1] * below[2])
    window_channels = max(sizes(made.window_channels))
    multiply_adds = max(sizes(made.batch)) * max(sizes(made.coarse_channels)) * window_channels * cell_count * 9
    indivisible = (max(sizes(made.batch)), groups, cell_count) == (1, 1, 1)
    assert indivisible or (data_bytes <= data and multiply_adds <= work)
    weight_block = max(sizes(made.coarse_channels)) * max(sizes(made.window_channels)) * 9 * 4
    assert weight_block <= max(weight, 36)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 3), st.integers(4, 20), st.integers(40, 40000),
       st.integers(10, 400), st.integers(10, 40000))  # fmt: skip
def test_level_3_is_cut_at_nodes_of_the_tree_only(n, c, g, size, data, weight, work):
    """Whole samples: 2^k to a block, the last may be shorter, or one block; the limits hold where a sample fits, and no
    block of twice as many samples would have."""
    made = partition(plan(Request.parse(f"conv n{n} c{c * g}>{c * g} i{size}x{size} k3x3 p1 g{g} det=3")),
                     Limits(data, weight, work))  # fmt: skip
    assert {len(cuts) - 1 for cuts in (*made.coarse, *made.fine, *made.weight_cuts, made.groups)} == {1}
    run = made.batch[1]
    assert run == n or (run & (run - 1) == 0 and made.batch == (*range(0, n, run), n))
    sample_bytes, sample_work = 4 * 2 * c * g * size**2, g * c * c * size**2 * 9
    most = min(data // sample_bytes, work // sample_work)
    assert run == max(1, min(n, most)) if run == n else run <= max(1, most) < 2 * run


def test_limits_are_part_of_the_promise():
    """Changing a limit changes the summation tree, and so the last bits of every large gradient: a deliberate act."""
    assert Limits(64 << 20, 16 << 20, 1 << 34) == LIMITS


def test_the_depth_of_the_summation_tree():
    """A tree of n leaves has as many levels as n - 1 has binary digits."""
    depth = Partition.depth.fget
    assert [depth(SimpleNamespace(leaves=n)) for n in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]
