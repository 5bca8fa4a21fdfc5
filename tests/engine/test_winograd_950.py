"""The 950's Winograd in every call under conformance runtime: exact on integers, its NaN law, a date that ends it."""

from dataclasses import replace

import numpy as np
import pytest

import convgrad
import winograd_by_tiles
from convgrad.core.operands import Operands
from convgrad.core.plan import Result
from convgrad.core.request import Request
from convgrad.engines import winograd_950
from convgrad.lab.judging import runs

ON = {"product": "950", "conformance": "runtime", "padding": 1}
LINE = "conv n1 c256>256 i8x8 k3x3 p1 fp32 on=950 as=runtime"


def drawn(n=1, inner=256, outer=256, size=8, seed=0, integers=False):
    rng = np.random.default_rng(seed)
    shapes = (n, outer, size, size), (n, inner, size, size), (outer, inner, 3, 3)
    make = (lambda s: rng.integers(-3, 4, s)) if integers else rng.standard_normal
    return tuple(make(s).astype(np.float32) for s in shapes)


@pytest.mark.parametrize("products", [winograd_950.by_numpy, winograd_950.by_engine(None), winograd_950.by_engine(2)])
@pytest.mark.parametrize("case", [(1, 16, 8, (16, 16), (1, 1)), (2, 3, 5, (7, 6), (0, 2)), (3, 2, 2, (3, 9), (8, 1))])
@pytest.mark.parametrize("segment", [winograd_950.SEGMENT, 7, 1])
def test_bands_and_segments_are_the_tiles_one_by_one(case, products, segment, monkeypatch):
    """Integers are the second hand's sums exactly, whatever is cut: bands of one row, segments of some tiles."""
    n, inner, outer, (h, w), pads = case
    monkeypatch.setattr(winograd_950, "SEGMENT", segment)
    monkeypatch.setattr(winograd_950, "_BAND_NUMBERS", 2**24 if segment > 7 else 1)
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (n, inner, h, w)).astype("f4")
    g = rng.integers(-3, 4, (n, outer, h + 2 * pads[0] - 2, w + 2 * pads[1] - 2)).astype("f4")
    assert np.array_equal(
        winograd_950.grad_weight(x, g, pads, products), winograd_by_tiles.grad_weight(x, g, pads)
    )


def test_integers_are_the_direct_sums():
    """The specification's case: +-3 on 256 channels, every gradient bit for bit that of the document's conformance."""
    g, x, w = drawn(size=16, integers=True)
    found = convgrad.conv_backward(g, x, w, **ON)
    direct = convgrad.conv_backward(g, x, w, product="950", padding=1)
    assert all(np.array_equal(a, b) for a, b in zip(found, direct, strict=True))


def test_numbers_follow_the_date_and_the_conformance():
    """Winograd rounds otherwise: only under runtime, and not before the revision that brought it."""
    g, x, w = drawn()
    direct = convgrad.conv_backward(g, x, w, product="950", padding=1)
    found = convgrad.conv_backward(g, x, w, **ON)
    assert not np.array_equal(found.weight, direct.weight) and np.array_equal(found.input, direct.input)
    assert np.allclose(found.weight, direct.weight, atol=1e-4)
    before = convgrad.conv_backward(g, x, w, **ON, revision="2026-07-24")
    assert np.array_equal(before.weight, direct.weight)
    assert np.array_equal(convgrad.conv_backward(g, x, w, **ON, revision="2026-08-20").weight, found.weight)
    with pytest.raises(convgrad.ConvGradError, match="revision must be a date"):
        convgrad.conv_backward(g, x, w, **ON, revision="soon")


def test_the_same_bits_on_any_threads_and_strides():
    """Threads, channels last, reversed axes and a buffer of the caller's change no bit."""
    g, x, w = drawn(n=2)
    found = convgrad.conv_backward(g, x, w, **ON).weight
    last = [np.moveaxis(np.ascontiguousarray(np.moveaxis(t, 1, -1)), -1, 1) for t in (g, x)]
    back = [np.ascontiguousarray(t[:, ::-1])[:, ::-1] for t in (g, x)]
    out = np.full(w.shape[::-1], np.nan, np.float32).T
    for given, how in ((last, {"threads": 1}), (back, {"threads": 2}), ((g, x), {"out": (None, out, None)})):
        assert np.array_equal(convgrad.conv_backward(*given, w, **ON, **how).weight, found)
    assert np.array_equal(out, found)


@pytest.mark.parametrize(("tensor", "place", "law"), [("x", (0, 0), 4), ("x", (0, 4), 6), ("x", (4, 4), 9),
                                                      ("g", (0, 0), 4)])  # fmt: skip
def test_a_nan_reaches_nine_taps(tensor, place, law):
    """In gradients and golden sums: nine taps where the direct law has four, six or nine; other channels stay clean."""
    g, x, w = drawn()
    {"x": x, "g": g}[tensor][0, 5, place[0], place[1]] = np.nan
    plan = convgrad.plan(Request.parse(LINE))
    for found in (convgrad.conv_backward(g, x, w, **ON).weight,
                  runs.golden(plan, Operands(g, x, w))[Result.GRAD_WEIGHT]):  # fmt: skip
        mine = found[:, 5] if tensor == "x" else found[5]
        assert np.isnan(mine).all()
        assert not np.isnan(np.delete(found, 5, axis=1 if tensor == "x" else 0)).any()
    direct = convgrad.conv_backward(g, x, w, product="950", padding=1).weight
    assert np.isnan(direct[:, 5] if tensor == "x" else direct[5])[0].sum() == law


@pytest.mark.parametrize(("place", "taps"), [((0, 0), [(0, 0)]), ((9, 9), [(2, 2)]), ((0, 9), [(0, 2)]),
                                              ((0, 4), [(0, 0), (0, 1), (0, 2)])])  # fmt: skip
def test_an_outermost_element_without_padding_reaches_the_outer_tap_only(place, taps):
    """The first and the last of a padded row are in one window, at its end: one tap along that axis."""
    g, x, w = drawn()
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=1)
    x[0, 5, place[0], place[1]] = np.nan
    found = convgrad.conv_backward(g, x, w, **{**ON, "padding": 0}).weight
    assert {tuple(t) for t in np.argwhere(np.isnan(found[3, 5]))} == set(taps)
    assert not np.isnan(np.delete(found, 5, axis=1)).any()


def test_an_infinity_spoils_nine_taps_and_large_numbers_overflow():
    """+Inf leaves none of the nine finite, NaN or infinite as tile by tile; numbers above a quarter of the largest
    overflow in the transforms."""
    g, x, w = drawn()
    x[0, 5, 4, 4] = np.inf
    found = convgrad.conv_backward(g, x, w, **ON).weight
    assert np.array_equal(found[:, 5], winograd_by_tiles.grad_weight(x[:, 5:6], g, (1, 1))[:, 0], equal_nan=True)
    assert not np.isfinite(found[:, 5]).any() and np.isnan(found[:, 5]).mean() > 0.9
    assert np.isfinite(np.delete(found, 5, axis=1)).all()
    huge = np.full_like(x, np.float32(3e38))
    tiny = np.full_like(g, np.float32(1e-30))
    assert not np.isfinite(convgrad.conv_backward(tiny, huge, w, **ON).weight).all()
    assert np.isfinite(convgrad.conv_backward(tiny, huge, w, product="950", padding=1).weight).all()


def test_the_plan_says_which_way():
    """Each gradient's way with the condition that decided; none under the document's conformance."""
    shown = str(convgrad.plan(Request.parse(LINE)))
    assert "runtime       grad_weight: winograd: all 12 conditions hold" in shown
    assert "grad_input: direct" in shown and "grad_bias: reduce-sum" in shown
    assert "runtime  " not in str(convgrad.plan(Request.parse(LINE.replace(" as=runtime", ""))))
    turned = str(convgrad.plan(Request.parse(LINE.replace("conv", "tconv"))))
    assert "grad_weight: winograd (inferred)" in turned
    request = Request.parse(f"{LINE} rev=2026-07-24")
    assert Request.parse(str(request)) == request and "no winograd, since 2026-07-25" in str(convgrad.plan(request))


def test_three_axes_and_transposed_calls():
    """Depth 1 and exchanged roles give the sums of the plain call on the same numbers, exactly."""
    g, x, w = drawn(integers=True)
    wanted = convgrad.conv_backward(g, x, w, product="950", padding=1).weight
    deep = convgrad.conv_backward(*(t[:, :, None] for t in (g, x, w)), **{**ON, "padding": (0, 1, 1)})
    assert np.array_equal(deep.weight[:, :, 0], wanted)
    turned = convgrad.conv_backward(x, g, w, **ON, transposed=True)
    assert np.array_equal(turned.weight, wanted)


def test_the_error_is_that_of_tiles_one_by_one_or_less():
    """Random numbers: the engine's order errs no more than the second hand's, and more than float64 would."""
    g, x, _ = drawn(inner=16, outer=16, size=28)
    exact = winograd_950.grad_weight(x.astype("f8"), g.astype("f8"), (1, 1), winograd_950.by_numpy)
    assert np.allclose(exact, convgrad.conv_backward(g.astype("f8"), x.astype("f8"), np.ones((16, 16, 3, 3)),
                                                     padding=1).weight, rtol=0, atol=1e-11)  # fmt: skip
    sums = winograd_950.grad_weight(x, g, (1, 1), winograd_950.by_engine(None))
    tiles = winograd_by_tiles.grad_weight(x, g, (1, 1))
    rmse = [np.sqrt(np.mean(np.square(t - exact))) for t in (sums, tiles)]
    assert 0 < rmse[0] <= rmse[1]


def test_other_plans_have_no_way():
    """A compute dtype of one's own, another product and the forward pass stay as they are."""
    plan = convgrad.plan(Request.parse(LINE))
    assert plan.winograd and not replace(plan, ways=()).winograd
    assert not convgrad.plan(Request.parse(LINE.replace("950", "A2"))).ways
    assert not convgrad.plan(Request.parse(f"{LINE} want=y")).ways
