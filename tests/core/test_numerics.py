"""Numerics of a plan: operand cast, float32 accumulation, one result cast; the bias from the original grad_output."""

import numpy as np
import pytest

import convgrad
import textbook
from convgrad.core import rounding

LAYER = {"stride": (2, 1), "padding": ((1, 1), (0, 2)), "dilation": (1, 1)}
OPTIONS = {**LAYER, "transposed": False, "groups": 1}


def tensors(seed, big, dtype=np.float32):
    """One operand of integers too long for a short dtype, the others -1, 0, 1: every sum stays exact in float32."""
    rng = np.random.default_rng(seed)
    shapes = {"g": (2, 3, 3, 7), "x": (2, 2, 5, 7), "w": (3, 2, 3, 3)}
    limit = {name: 2**15 if name == big else 2 for name in shapes}
    return [rng.integers(1 - limit[n], limit[n], s).astype(dtype) for n, s in shapes.items()]


@pytest.mark.parametrize("math, product, dtype", [
    ("keep", "cpu", "float32"), ("allow_down", "cpu", "hf32"), ("hf32", "cpu", "hf32"), ("fp16", "cpu", "float16"),
    ("hf32", "A2", "hf32"), ("hf32", "A3", "hf32"), ("hf32", "950", "hf32_10"), ("allow_down", "950", "hf32_10"),
    ("allow_down", "910", "float16"), ("fp16", "310P", "float16"), ("fp16", "A2", "float16"),
])
@pytest.mark.parametrize("big", ["g", "x", "w"])
def test_operands_are_rounded_once_to_the_compute_dtype(math, product, dtype, big):
    """float32 tensors give the exact gradients of their rounded values; bias sums the unrounded ones."""
    g, x, w = tensors(1, big)
    rounded = [rounding.round_to(dtype, t) for t in (g, x, w)]
    want = textbook.conv_backward(*rounded, (2, 1), ((1, 1), (0, 2)), (1, 1), False, 1)
    got = convgrad.conv_backward(g, x, w, stride=(2, 1), padding=(1, 1, 0, 2), math=math, product=product)
    # float16 compute stores grad_input once in float16; HF32 results are float32. grad_weight never leaves float32.
    result = "float16" if dtype == "float16" else "float32"
    assert np.array_equal(got.input, rounding.round_to(result, want[0]))
    assert np.array_equal(got.weight, want[1])
    assert np.array_equal(got.bias, g.sum(axis=(0, 2, 3), dtype=np.float64))


def test_fp16_math_overflows_to_infinity():
    """A float32 grad_input computed in float16 is stored once in float16: 70000 becomes inf, then stays inf."""
    g, x = np.full((1, 1, 1), 35000, np.float32), np.ones((1, 2, 1), np.float32)
    w = np.full((1, 2, 1), 2, np.float32)
    got = convgrad.conv_backward(g, x, w, math="fp16")
    assert np.isinf(got.input).all()
    assert np.array_equal(got.weight, np.full((1, 2, 1), 35008, np.float32))  # 35000 in float16 is 35008
    assert got.bias[0] == 35000


@pytest.mark.parametrize("dtypes, compute", [
    (("float16", "float16", "float16"), "float16"), (("bfloat16", "bfloat16", "bfloat16"), "bfloat16"),
    (("float16", "bfloat16", "float16"), "float32"), (("float32", "float16", "bfloat16"), "float32"),
    (("float64", "float32", "float16"), "float64"), (("float8_e5m2",) * 3, "float8_e5m2"),
    (("hifloat8", "hifloat8", "float32"), "float32"),
])
def test_promotion(dtypes, compute):
    """Mixed operands compute in the promoted dtype; each gradient has the dtype of its own tensor."""
    shapes = (1, 2, 3), (1, 2, 3), (2, 2, 1)
    operands = [convgrad.Tensor(np.ones(s), d) for s, d in zip(shapes, dtypes, strict=True)]
    g, x, w = dtypes
    line = f"conv n1 c2 i3 k1 go=/{g} x=/{x} w=/{w} gx=/{x} gw=/{w} gb=/{g}"
    assert convgrad.plan(convgrad.Request.parse(line)).operand == compute
    got = convgrad.conv_backward(*operands)
    assert [convgrad.Tensor(t).dtype.name for t in got] == [x, w, g]
    assert np.array_equal(convgrad.Tensor(got.input).values(), np.full((1, 2, 3), 2))


def test_hf32_special_values():
    """Ties go away from zero, infinities stay, a NaN stays a NaN, the largest finite values become infinite."""
    tie = np.float32(1 + 2**-12)
    x = np.array([tie, -tie, np.inf, np.nan, np.finfo(np.float32).max, 1 + 2**-13], np.float32).reshape(1, 1, 6)
    one = np.ones((1, 1, 1), np.float32)
    got = convgrad.convolution(x, one, math="hf32")[0, 0]
    up = np.float32(1 + 2**-11)
    assert np.array_equal(got, np.array([up, -up, np.inf, np.nan, np.inf, 1], np.float32), equal_nan=True)


def test_a_plan_prints_its_numerics():
    """The printed plan names the compute dtype, the accumulation and every cast."""
    text = str(convgrad.plan(convgrad.Request.parse("conv n2 c8>16 i14x14 k3x3 p1 fp32 math=hf32 on=A2")))
    for part in ("hf32", "ties away", "float32", "grad_input", "grad_weight",
                 "sum of the original grad_output", "workspace"):
        assert part in text


def test_a_plan_runs_again_and_again():
    """plan.run gives the gradients of whatever tensors it is handed, and refuses others than planned."""
    p = convgrad.plan(convgrad.Request.parse("conv n1 c2>3 i4 k3 p1 fp32"))
    rng = np.random.default_rng(0)
    for _ in range(2):
        g, x, w = (rng.integers(-3, 4, s).astype("f4") for s in ((1, 3, 4), (1, 2, 4), (3, 2, 3)))
        want = textbook.conv_backward(g, x, w, (1,), ((1, 1),), (1,), False, 1)
        assert all(np.array_equal(a, b) for a, b in zip(p.run(g, x, w), want, strict=True))
    with pytest.raises(convgrad.ConvGradError, match="made for"):
        p.run(g, x.astype("f8"), w)
