"""Which way the 950's runtime goes: every step of the predicates on both sides, and the numbers of its Winograd."""

import json
import random
from datetime import date

import numpy as np
import pytest
import torch

import convgrad
import winograd_by_tiles as winograd_950
from convgrad.cli.command_line import main
from convgrad.core.metrics import errors, measure
from convgrad.core.request import Request
from convgrad.rules.algorithms_950 import ways

EVEN = "stride, dilation, groups 1; even padding"


def path(line, result="grad_weight", **revision):
    request = Request.parse(f"{line} on=950 as=runtime")
    return next(w.path for w in ways(request, *revision.values()) if w.result == result)


@pytest.mark.parametrize(("line", "expected"), [
    ("n1 c256>256 i16x16 k3x3 p1", "winograd"), ("n1 c255>256 i16x16 k3x3 p1", "direct"),
    ("n1 c64>1024 i16x16 k3x3 p1", "winograd"), ("n1 c1024>64 i16x16 k3x3 p1", "winograd"),
    ("n1 c128>512 i16x16 k3x3 p1", "winograd"), ("n1 c1000>64 i16x16 k3x3 p1", "direct"),
    ("n1 c256>256 i16x16 k3x3 p1 math=allow_down", "direct"), ("n1 c256>256 i16x16 k3x3 p1 math=hf32", "direct"),
    ("n1 c256>256 i16x16 k3x3 p1 math=fp16", "direct"),
    ("n1 c256>256 i16x16 k3x3 p1 fp16", "direct"), ("n1 c256>256 i16x16 k3x3 p1 bf16", "direct"),
    ("n1 c256>256 i16x16 k3x3 p1 s2", "direct"), ("n1 c256>256 i16x16 k3x3 p1 d2", "direct"),
    ("n1 c512>512 i16x16 k3x3 p1 g2", "direct"), ("n1 c256>256 i16x16 k3x1 p1x0", "direct"),
    ("n1 c256>256 i16x16 k3x3 p1x0x1x1", "direct"), ("n1 c256>256 i7x7 k3x3 p1", "winograd"),
    ("n1 c256>256 i5x5 k3x3 p1", "direct"), ("n1 c256>256 i2x2 k3x3 p1", "direct"),
    ("n1 c256>256 i40x40 k3x3 p8", "direct"), ("n1 c256>256 i40x40 k3x3 p9", "direct"),
    ("n1 c256>256 i44x44 k3x3 p8", "winograd"), ("n640 c256>256 i56x56 k3x3 p1", "winograd"),
    ("n653 c256>256 i56x56 k3x3 p1", "winograd"), ("n654 c256>256 i56x56 k3x3 p1", "direct"),
    ("n2 c256>256 i1x16x16 k1x3x3 p0x1x1", "winograd"), ("n2 c256>256 i2x16x16 k1x3x3 p0x1x1", "direct"),
    ("n1 c64>64 i8x8 k1x1", "matmul-1x1"), ("n2 c64>64 i8x8 k1x1", "direct"), ("n3 c8>8 i5 k5", "matmul-1d"),
    ("n2 c8>8 i4x4 k4x4", "matmul-kernel"), ("n2 c8>8 i16x16 k8x8 s8", "dw-as-1x1"),
    ("n2 c8>8 i14x14 k7x7 s7", "direct"), ("n3 c8>8 i5 k5 go=//ND", "direct"), ("n3 c8>8 i5 k5 w=//ND", "direct"),
])  # fmt: skip
def test_the_way_of_the_weight_gradient(line, expected):
    """The table of the published predicate: each step met and missed by the least there is."""
    dtype = "" if "16 " in f"{line} " and ("fp16" in line or "bf16" in line) else " fp32"
    assert path(f"conv {line}{dtype}") == expected


@pytest.mark.parametrize(("line", "expected"), [
    ("n1 c64>64 i8x8 k1x1", "matmul-1x1"), ("n2 c64>64 i8x8 k1x1", "direct"), ("n1 c64>64 i1x1 k1x1", "matmul-kernel"),
    ("n3 c8>8 i5 k5", "matmul-1d"), ("n2 c8>8 i9x9 k3x3 s3", "matmul-stride"), ("n2 c8>8 i4x4 k2x2 s2", "direct"),
    ("n2 c8>8 i4x6 k2x3 s2x3", "matmul-stride"), ("n1 c256>256 i16x16 k3x3 p1", "direct"),
])  # fmt: skip
def test_the_way_of_the_input_gradient(line, expected):
    """Matmul for 1x1 of one sample, for windows as large as the image, for windows as large as their stride."""
    assert path(f"conv {line} fp32", "grad_input") == expected


def test_revisions():
    """Before 2026-07-25 there is no Winograd, before 08-06 no test of valid tiles, before 08-14 no 1x1 matmul."""
    line = "conv n1 c256>256 i5x5 k3x3 p1 fp32"
    assert path(line, revision=date(2026, 8, 5)) == "winograd" and path(line, revision=date(2026, 8, 6)) == "direct"
    wide = "conv n1 c256>256 i16x16 k3x3 p1 fp32"
    assert path(wide, revision=date(2026, 7, 24)) == "direct" and path(wide, revision=date(2026, 7, 25)) == "winograd"
    small = "conv n1 c64>64 i8x8 k1x1 fp32"
    assert path(small, revision=date(2026, 8, 13)) == "direct"
    assert path(small, revision=date(2026, 8, 14)) == "matmul-1x1"


def test_steps_are_told_and_the_first_no_ends_them():
    """The numbers of the failing step; documents know nothing of ways; a transposed Winograd is marked as inferred."""
    request = Request.parse("conv n1 c255>256 i16x16 k3x3 p1 fp32 on=950 as=runtime")
    (weight,) = [w for w in ways(request) if w.result == "grad_weight"]
    asked = dict(weight.asked)["winograd"]
    assert (asked[-1].step, asked[-1].found) == ("at least 16 blocks of 64x64 channels", "12") and not asked[-1].holds
    with pytest.raises(ValueError, match="runtime only"):
        ways(Request.parse("conv n1 c256>256 i16x16 k3x3 p1 fp32 on=950"))
    last = "go=1x16x16x256//NHWC x=1x16x16x256//NHWC w=256x3x3x256//NHWC gx=1x16x16x256//NHWC gw=256x3x3x256//NHWC"
    with pytest.raises(ValueError, match="format of grad_output must be NCHW"):  # no way at all, not even direct
        ways(Request.parse(f"conv n1 c256>256 i16x16 k3x3 p1 fp32 on=950 as=runtime {last}"))
    turned = Request.parse("tconv n1 c256>256 i16x16 k3x3 p1 fp32 on=950 as=runtime")
    assert [(w.path, w.inferred) for w in ways(turned)][1] == ("winograd", True)
    patches = "conv n2 c8>8 i2x2 k8x8 s8 fp32 on=950 as=runtime"
    assert [w.path for w in ways(Request.parse("t" + patches))][1] == "direct", "rewritten in plain calls only"
    odd = Request.parse("conv n1 c260>258 i16x16 k3x3 p1 fp32 on=950 as=runtime")
    assert "multiple of 8" in ways(odd, date(2026, 8, 19))[1].note and not ways(odd)[1].note


def test_explain_shows_the_way(capsys):
    """The path, the step that failed, and the error of Winograd beside the direct sum's; a bad date is one sentence."""
    line = "conv n1 c256>256 i16x16 k3x3 p1 fp32 on=950 as=runtime want=wb"
    assert main(["explain", line, "--path"]) == 0
    shown = capsys.readouterr().out
    assert "grad_weight  winograd" in shown and "grad_bias    reduce-sum" in shown and "RMSE" in shown
    assert main(["explain", line.replace("c256", "c255"), "--path", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ways"][0]["path"] == "direct"
    assert main(["explain", line, "--path", "--revision", "soon"]) == 2
    assert main(["explain", line.replace("on=950", "on=A2"), "--path"]) == 2


# ---- numbers -------------------------------------------------------------------------------------------------


def direct(x, g, padding):
    weight = torch.zeros(g.shape[1], x.shape[1], 3, 3, dtype=torch.float64)
    x, g = torch.from_numpy(x).double(), torch.from_numpy(g).double()
    rest = ([g.shape[1]], [1, 1], list(padding), [1, 1], False, [0, 0], 1, [False, True, False])
    return torch.ops.aten.convolution_backward(g, x, weight, *rest)[1].numpy()


def drawn(rng, n, ci, co, h, w, padding, integers=False):
    shapes = (n, ci, h, w), (n, co, h + 2 * padding[0] - 2, w + 2 * padding[1] - 2)
    make = (lambda s: rng.integers(-3, 4, s)) if integers else rng.standard_normal
    return tuple(make(s).astype(np.float32) for s in shapes)


@pytest.mark.parametrize("case", [(1, 16, 8, 16, 16, (1, 1)), (2, 3, 5, 7, 6, (0, 2)), (3, 2, 2, 3, 9, (8, 1))])
def test_integers_are_exact(case):
    """Transforms of integers are integers and the halves are even: the direct sum bit for bit, odd sizes included."""
    x, g = drawn(np.random.default_rng(0), *case, integers=True)
    assert np.array_equal(winograd_950.grad_weight(x, g, case[-1]), direct(x, g, case[-1]))


def test_the_example_by_hand():
    """A window 1, 2, 3, 4 and gradients 5, 6 along one axis: taps 17, 28, 39."""
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 1] = [1, 2, 3, 4]
    g = np.zeros((1, 1, 2, 2), np.float32)
    g[0, 0, 0] = [5, 6]
    assert winograd_950.grad_weight(x, g, (0, 0))[0, 0].tolist() == [[0, 0, 0], [17, 28, 39], [0, 0, 0]]


@pytest.mark.parametrize(("tensor", "place", "taps"), [
    ("x", (0, 0), 4), ("x", (0, 3), 6), ("x", (3, 3), 9), ("g", (0, 0), 4),
])  # fmt: skip
def test_a_nan_reaches_nine_taps_of_its_channel(tensor, place, taps):
    """Where the direct law reaches four, six or nine; other channels stay clean; an infinity spoils as many."""
    x, g = drawn(np.random.default_rng(1), 1, 3, 2, 8, 8, (1, 1))
    spoilt = {"x": x, "g": g}[tensor]
    spoilt[0, 1, place[0], place[1]] = np.nan
    got = winograd_950.grad_weight(x, g, (1, 1))
    mine = got[:, 1] if tensor == "x" else got[1]
    others = np.delete(got, 1, axis=1 if tensor == "x" else 0)
    assert np.isnan(mine).all() and not np.isnan(others).any()
    whole = convgrad.conv_backward(g, x, np.zeros((2, 3, 3, 3), np.float32), padding=1).weight
    law = whole[:, 1] if tensor == "x" else whole[1]
    assert np.isnan(law[0]).sum() == taps
    if tensor == "x":
        x[0, 1, place[0], place[1]] = np.inf
        assert not np.isfinite(winograd_950.grad_weight(x, g, (1, 1))[:, 1]).any()


@pytest.mark.parametrize(("gradients", "taps"), [
    ((1, 2), (np.inf, np.nan, np.nan)), ((2, 1), (np.nan, np.inf, np.nan)), ((-1, -2), (-np.inf, np.nan, np.nan)),
    ((1, 0), (np.nan, np.inf, np.nan)), ((1, 1), (np.nan,) * 3), ((0, 0), (np.nan,) * 3),
])  # fmt: skip
def test_an_infinity_is_nan_where_its_points_disagree(gradients, taps):
    """One axis, a window 1, +Inf, 3, 4: the points 1 and -1 are +Inf of g0+g1 and -Inf of g0-g1. Their half sum, half
    difference and what the last point adds are NaN where they cancel or a zero meets the infinity; none is finite."""
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 0] = [1, np.inf, 3, 4]  # the first row of a window: it reaches the first row of taps alone
    g = np.zeros((1, 1, 2, 2), np.float32)
    g[0, 0, 0] = gradients
    assert np.array_equal(winograd_950.grad_weight(x, g, (0, 0))[0, 0, 0], taps, equal_nan=True)


def test_the_error_beside_the_direct_sum():
    """N4 C16 28x28 of three seeds: a running sum of tiles per point beside a float32 einsum, as published, half off."""
    ratios = []
    for seed in range(3):
        x, g = drawn(np.random.default_rng(seed), 4, 16, 16, 28, 28, (1, 1))
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        taps = np.stack([padded[:, :, a : a + 28, b : b + 28] for a in range(3) for b in range(3)], 2)
        plain = np.einsum("nohw,nckhw->ock", g, taps).reshape(16, 16, 3, 3)
        found = [measure(errors(v, direct(x, g, (1, 1)), "float32"))
                 for v in (winograd_950.grad_weight(x, g, (1, 1)), plain)]  # fmt: skip
        ratios.append([getattr(found[0], m) / getattr(found[1], m) for m in ("rmse", "mere", "mare")])
    for ratio, (least, most) in zip(np.transpose(ratios), ((3.3, 3.5), (3.6, 4.3), (3.1, 5.4)), strict=True):
        assert (0.5 * least < ratio).all() and (ratio < 1.5 * most).all(), ratio


@pytest.mark.parametrize(("met", "missed", "step"), [
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x3 p1 fp16", "all float32"),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x3 p1 fp32 math=hf32", "not HF32"),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x3 p1 fp32 math=fp16", "all float32"),
    ("n2 c256>256 i1x16x16 k1x3x3 p0x1x1 fp32", "n2 c256>256 i2x16x16 k1x3x3 p0x1x1 fp32", "depth 1"),
    ("n2 c256>256 i1x16x16 k1x3x3 p0x1x1 fp32", "n2 c256>256 i1x16x16 k1x3x3 p1x1x1 fp32", "depth 1"),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x3 p1 s1x2 fp32", EVEN),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x3 p1 d2x1 fp32", EVEN),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c512>512 i16x16 k3x3 p1 g2 fp32", EVEN),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x3 p1x1x1x2 fp32", EVEN),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k3x2 p1 fp32", "window 3x3"),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>256 i16x16 k4x3 p1 fp32", "window 3x3"),
    ("n1 c256>256 i64x64 k3x3 p8 fp32", "n1 c256>256 i64x64 k3x3 p9x8 fp32", "padding at most 8"),
    ("n1 c256>256 i64x64 k3x3 p8 fp32", "n1 c256>256 i64x64 k3x3 p8x9 fp32", "padding at most 8"),
    ("n512000 c256>256 i4x4 k3x3 p0 fp32", "n512001 c256>256 i4x4 k3x3 p0 fp32", "at most 512000 tiles"),
    ("n1 c256>256 i16x16 k3x3 p1 fp32", "n1 c256>255 i16x16 k3x3 p1 fp32", "at least 16 blocks of 64x64 channels"),
    ("n1 c64>1024 i16x16 k3x3 p1 fp32", "n1 c64>1023 i16x16 k3x3 p1 fp32", "at least 16 blocks of 64x64 channels"),
    ("n1 c256>256 i3x8 k3x3 p0 fp32", "n1 c256>256 i2x8 k3x3 p1x0 fp32", "input of at least 3x3"),
    ("n1 c256>256 i7x7 k3x3 p1 fp32", "n1 c256>256 i6x5 k3x3 p1 fp32", "half of the tiles valid"),
])  # fmt: skip
def test_each_step_is_met_and_missed_by_the_least(met, missed, step):
    """The nearest call on either side of every step; the one beyond it ends at that very step."""
    assert path(f"conv {met}") == "winograd"
    (weight,) = [w for w in ways(Request.parse(f"conv {missed} on=950 as=runtime")) if w.result == "grad_weight"]
    assert weight.path == "direct" and dict(weight.asked)["winograd"][-1].step == step


@pytest.mark.parametrize(("result", "met", "missed", "way"), [
    ("grad_input", "n3 c8>8 i5 k5 fp32", "n3 c8>8 i6 k5 fp32", "matmul-1d"),
    ("grad_weight", "n3 c8>8 i5 k5 fp32", "n3 c8>8 i5 k5 p1 fp32", "matmul-1d"),
    ("grad_weight", "n3 c8>8 i5 k5 fp32", "n3 c8>8 i5 k5 g2 fp32", "matmul-1d"),
    ("grad_weight", "n2 c8>8 i4x4 k4x4 fp32", "n2 c8>8 i5x4 k4x4 fp32", "matmul-kernel"),
    ("grad_input", "n2 c8>8 i3x4x4 k3x4x4 fp16", "n2 c8>8 i3x4x4 k2x4x4 fp16", "matmul-kernel"),
    ("grad_input", "n2 c8>8 i9x9 k3x3 s3 fp32", "n2 c8>8 i10x9 k3x3 s3 fp32", "matmul-stride"),
    ("grad_input", "n2 c8>8 i9x9 k3x3 s3 fp32", "n2 c8>8 i4x4 k2x2 s2 fp32", "matmul-stride"),
    ("grad_input", "n2 c8>8 i4x6 k2x3 s2x3 fp32", "n2 c8>8 i4x6 k2x3 s2x2 fp32", "matmul-stride"),
    ("grad_input", "n2 c8>8 i9x9 k3x3 s3 fp32", "n2 c8>8 i9x9 k3x3 s3 g2 fp32", "matmul-stride"),
    ("grad_input", "n1 c8>8 i8x8 k1x1 fp32", "n2 c8>8 i8x8 k1x1 fp32", "matmul-1x1"),
    ("grad_input", "n1 c8>8 i8x8 k1x1 fp32", "n1 c8>8 i8x8 k1x1 s2 fp32", "matmul-1x1"),
    ("grad_input", "n1 c8>8 i8x8 k1x1 fp32", "n1 c8>8 i8x8 k1x2 fp32", "matmul-1x1"),
    ("grad_input", "n1 c1>1 i1x16777215 k1x1 fp32", "n1 c1>1 i1x16777216 k1x1 fp32", "matmul-1x1"),
    ("grad_weight", "n1 c1>1 i1x16777215 k1x1 fp32", "n1 c1>1 i1x16777216 k1x1 fp32", "matmul-1x1"),
    ("grad_weight", "n1 c1>1 i1x33554431 k1x1 fp16", "n1 c1>1 i1x33554432 k1x1 fp16", "matmul-1x1"),
    ("grad_weight", "n1 c8>8 i8x8 k1x1 fp32", "n1 c8>8 i8x8 k1x1 p1 fp32", "matmul-1x1"),
    ("grad_weight", "n2 c8>8 i16x16 k8x8 s8 fp32", "n2 c8>8 i16x14 k8x7 s8x7 fp32", "dw-as-1x1"),
    ("grad_weight", "n2 c8>8 i16x16 k8x8 s8 fp32", "n2 c8>8 i17x16 k8x8 s8 fp32", "dw-as-1x1"),
    ("grad_weight", "n2 c8>8 i16x16 k8x8 s8 fp32", "n2 c8>8 i16x18 k8x9 s8 fp32", "dw-as-1x1"),
])  # fmt: skip
def test_each_step_of_a_matmul_is_met_and_missed_by_the_least(result, met, missed, way):
    """One more cell, one step, one group, one byte over 128 MiB: the direct kernel."""
    assert (path(f"conv {met}", result), path(f"conv {missed}", result)) == (way, "direct")


def by_the_text(r, revision):
    """The ways of a plain call, channels first and no 8-bit operand, written down a second time."""
    n, inner, outer, rank = *r.input.shape[:2], r.grad_output.shape[1], len(r.input.shape) - 2
    x, y, k, s, d = ((1,) * (3 - rank) + tuple(t) for t in (
        r.input.shape[2:], r.grad_output.shape[2:], r.weight.shape[2:], r.stride, r.dilation))  # fmt: skip
    p = (0,) * (3 - rank) + tuple(r.padding)
    plain = not any(p) and set(d) == {1} and r.groups == 1
    cells = x[0] * x[1] * x[2]
    size = (outer * inner + inner * cells + cells * outer) * (4 if r.input.dtype == "float32" else 2)
    dot = plain and set(s) == set(k) == {1} and n == 1 and size <= 2**27
    both = "matmul-1d" if rank == 1 and plain and x == k else "matmul-kernel" if plain and x == k else ""
    patches = plain and k == s and all(a == b * c for a, b, c in zip(x, k, y, strict=True))
    strided = patches and (s[1] != s[2] or s[1] > 2)
    wide = "matmul-stride" if strided else "matmul-1x1" if dot and cells > 1 else "direct"
    tiles = -(-y[1] // 2) * -(-y[2] // 2)
    valid = -(-(x[1] - 2) // 2) * -(-(x[2] - 2) // 2) if min(x[1:]) > 2 else 0
    minimal = (
        revision >= date(2026, 7, 25) and r.input.dtype == "float32" and r.math == 0 and r.groups == 1
        and k == (1, 3, 3) and x[0] == 1 and p[0] == 0 and set(s) == set(d) == {1} and max(p) <= 8
        and tiles * n <= 512_000 and (outer // 64) * (inner // 64) >= 16
        and (revision < date(2026, 8, 6) or 2 * valid >= tiles)
    )  # fmt: skip
    other = "dw-as-1x1" if patches and k[1] >= 8 and k[2] >= 8 else "winograd" if minimal else "direct"
    return both or wide, both or ("matmul-1x1" if dot and revision >= date(2026, 8, 14) else other)


def test_random_calls_go_where_the_text_says():
    """A second hand's reading of the published predicates, 400 calls of every revision: the same two ways."""
    rng, seen = random.Random(11), set()
    revisions = [date(2026, *day) for day in ((7, 24), (7, 25), (8, 5), (8, 6), (8, 13), (8, 14), (8, 22))]
    while len(seen) < 400:
        rank = rng.choice((1, 2, 2, 2, 3))
        k = [rng.choice((1, 2, 3, 8, 9)) for _ in range(rank)]
        s, p, i = [1] * rank, [0] * rank, [rng.choice((8, 9, 16)) for _ in range(rank)]
        kind = rng.randrange(5)
        if kind == 0:
            s, i = list(k), [a * rng.randint(1, 3) for a in k]
        elif kind == 1:
            i = list(k)
        elif kind == 2:
            k = [1] * rank
        elif kind == 3:
            k, p = ([1, 3, 3])[-rank:], ([0] + [rng.choice((0, 1, 8, 9))] * 2)[-rank:]
            i = ([1] + [rng.choice((2, 3, 5, 6, 7, 16, 40, 44))] * 2)[-rank:]
        if rng.random() < 0.15:
            s[-1] += 1
        inner, outer = rng.choice(((256, 256), (255, 256), (64, 1024), (1000, 64), (8, 8)))
        sizes = " ".join(f"{c}{'x'.join(map(str, t))}" for c, t in (("i", i), ("k", k), ("s", s), ("p", p)))
        dtype, math = rng.choice(("fp32", "fp32", "fp16")), rng.choice(("keep", "keep", "hf32", "fp16"))
        line = f"conv n{rng.choice((1, 1, 2))} c{inner}>{outer} {sizes} {dtype} math={math} want=xw on=950 as=runtime"
        try:
            request = Request.parse(line)
            revision = rng.choice(revisions)
            found = tuple(w.path for w in ways(request, revision))
        except ValueError:
            continue
        assert found == by_the_text(request, revision), f"{line} {revision}"
        seen.add(line)
