"""Gradients on small integers, compared with == against an independent definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convgrad
import textbook
from strategies import layers

seeds = st.integers(0, 2**32 - 1)


def textbook_gradients(layer, g, x, w):
    return textbook.conv_backward(g, x, w, layer.stride, layer.padding, layer.dilation, layer.transposed, layer.groups)


def assert_equal(got, want, dtype=None):
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(np.asarray(a, np.float64), b)
        assert dtype is None or a.dtype == dtype


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_every_rank_and_both_directions(rank, transposed):
    """Strides, dilations, one-sided pads, groups and slack, in float64 and float32, bit for bit."""

    @given(layers((rank,), transposed), seeds, st.sampled_from(("float64", "float32")))
    @settings(max_examples=250, deadline=None)
    def exact(layer, seed, dtype):
        g, x, w = layer.integers(seed, dtype=dtype)
        assert_equal(convgrad.conv_backward(g, x, w, **layer.options), textbook_gradients(layer, g, x, w), dtype)

    exact()


@given(layers(), seeds, st.sampled_from(("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "hifloat8")))
@settings(max_examples=300, deadline=None)
def test_short_dtypes_round_the_exact_sum_once(layer, seed, dtype):
    """Small integers fit every dtype, so a gradient is the exact sum rounded once to the dtype it is stored in."""
    tensors = [convgrad.Tensor(t, dtype) for t in layer.integers(seed, -1, 2)]
    got = convgrad.conv_backward(*tensors, **layer.options)
    for a, b in zip(got, textbook_gradients(layer, *(t.values() for t in tensors)), strict=True):
        assert np.array_equal(convgrad.Tensor(a).values(), convgrad.Tensor(b, dtype).values())


small = st.integers(1, 3)


@given(small, st.integers(1, 8), small, small, st.integers(1, 4), st.integers(0, 3), seeds)
@settings(max_examples=300, deadline=None)
def test_tbc(batch, length, cin, cout, window, pad, seed):
    """Time-batch-channel tensors, read and written in their own order."""
    out = length + 2 * pad - window + 1
    if out < 1:
        return
    rng = np.random.default_rng(seed)
    shapes = (out, batch, cout), (length, batch, cin), (window, cin, cout)
    g, x, w = (rng.integers(-3, 4, s).astype("float32") for s in shapes)
    assert_equal(convgrad.conv_tbc_backward(g, x, w, pad=pad), textbook.tbc_backward(g, x, w, pad), "float32")


def _strided(array, how):
    """The same values behind other strides."""
    if how == "reversed":
        return array[::-1, ::-1, ..., ::-1].copy()[::-1, ::-1, ..., ::-1]
    if how == "channels last":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if how == "gaps":
        holder = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
        holder[..., ::2] = array
        return holder[..., ::2]
    if how == "fortran":
        return np.asfortranarray(array)
    return array.astype(">f4")  # another byte order


STRIDES = ("reversed", "channels last", "gaps", "fortran", "bytes swapped")


@given(layers(), seeds, st.tuples(*(st.sampled_from(STRIDES),) * 3))
@settings(max_examples=200, deadline=None)
def test_any_strides_read_the_same_and_operands_are_untouched(layer, seed, hows):
    """Views, negative strides, other layouts and byte orders give the gradients of the plain arrays."""
    plain = layer.integers(seed, dtype="float32")
    views = [_strided(t, how) for t, how in zip(plain, hows, strict=True)]
    kept = [v.copy() for v in views]
    assert_equal(convgrad.conv_backward(*views, **layer.options), textbook_gradients(layer, *plain))
    assert all(np.array_equal(v, k) for v, k in zip(views, kept, strict=True))


def test_broadcast_operands():
    """A zero-stride operand is read as the array it stands for."""
    g = np.broadcast_to(np.float32(2), (2, 3, 4, 4))
    x = np.broadcast_to(np.arange(4, dtype=np.float32), (2, 2, 4, 4))
    w = np.ones((3, 2, 1, 1), np.float32)
    want = textbook.conv_backward(g, x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), False, 1)
    assert_equal(convgrad.conv_backward(g, x, w), want)


@given(layers(), seeds, st.tuples(st.booleans(), st.booleans(), st.booleans()), st.sampled_from(STRIDES[:4]))
@settings(max_examples=150, deadline=None)
def test_masks_and_output_buffers(layer, seed, mask, how):
    """Only what the mask names is computed; buffers, strided ones too, are written in place and returned."""
    g, x, w = layer.integers(seed, dtype="float32")
    want = textbook_gradients(layer, g, x, w)
    out = [_strided(np.full(t.shape, np.nan, np.float32), how) if t.ndim > 1 else np.full(t.shape, np.nan, np.float32)
           for t in (x, w, want[2])]
    got = convgrad.conv_backward(g, x, w, output_mask=mask, out=out, **layer.options)
    for wanted, a, b, buffer in zip(mask, got, want, out, strict=True):
        assert (a is buffer and np.array_equal(buffer, b)) if wanted else (a is None and np.isnan(buffer).all())


@given(layers(), seeds)
@settings(max_examples=200, deadline=None)
def test_trilinear_identity(layer, seed):
    """T = <input, dT/dinput> = <weight, dT/dweight> = <grad_output, forward>, exactly."""
    g, x, w = layer.integers(seed)
    grads = convgrad.conv_backward(g, x, w, **layer.options)
    t = (g * convgrad.convolution(x, w, **layer.options)).sum()
    assert t == (x * grads.input).sum() == (w * grads.weight).sum()


@given(layers(), seeds)
@settings(max_examples=100, deadline=None)
def test_forward_with_bias(layer, seed):
    """The forward pass is the textbook's correlation (or its adjoint), plus one number per channel."""
    g, x, w = layer.integers(seed)
    bias = np.arange(g.shape[1], dtype=np.float64)
    got = convgrad.convolution(x, w, bias, **layer.options)
    if layer.transposed:
        want = textbook.spread(x, w, g.shape[2:], layer.stride, layer.dilation, layer.padding, layer.groups)
    else:
        want = textbook.correlate(textbook.padded(x, layer.padding), w, layer.stride, layer.dilation, layer.groups)
    assert np.array_equal(got, want + bias.reshape(1, -1, *(1,) * layer.rank))


def test_forward_tbc():
    """conv_tbc is the sum over taps and channels, padded at both ends."""
    rng = np.random.default_rng(3)
    x, w, b = (rng.integers(-3, 4, s).astype("float32") for s in ((6, 2, 3), (3, 3, 4), (4,)))
    padded = np.pad(x, [(1, 1), (0, 0), (0, 0)])
    want = sum(padded[k : k + 6] @ w[k] for k in range(3)) + b
    assert np.array_equal(convgrad.conv_tbc(x, w, b, pad=1), want)


def test_finite_differences():
    """Gradients are slopes of the loss: central differences of sum(grad_output * forward), exact for a bilinear map."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 2, 5, 4)), rng.normal(size=(4, 1, 3, 2))
    options = {"stride": (2, 1), "padding": ((1, 0), (1, 2)), "groups": 2}
    g = rng.normal(size=convgrad.convolution(x, w, **options).shape)
    grads = convgrad.conv_backward(g, x, w, **options)
    for tensor, grad in ((x, grads.input), (w, grads.weight)):
        for i in np.ndindex(tensor.shape):
            tensor[i] += 0.5
            above = (g * convgrad.convolution(x, w, **options)).sum()
            tensor[i] -= 1.0
            below = (g * convgrad.convolution(x, w, **options)).sum()
            tensor[i] += 0.5
            assert above - below == pytest.approx(grad[i], rel=1e-11, abs=1e-11)


def test_four_element_padding_is_top_bottom_left_right():
    """The 2-D four-number form means the same as pairs."""
    rng = np.random.default_rng(1)
    x, w = rng.integers(-3, 4, (1, 1, 4, 5)).astype("f4"), rng.integers(-3, 4, (1, 1, 2, 2)).astype("f4")
    g = rng.integers(-3, 4, (1, 1, 6, 11)).astype("f4")
    got = convgrad.conv_backward(g, x, w, padding=(1, 2, 3, 4))
    assert_equal(got, convgrad.conv_backward(g, x, w, padding=((1, 2), (3, 4))))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("empty", ["batch", "input channels", "output channels"])
def test_empty_tensors(empty, transposed):
    """Nothing to sum gives zeros of the right shape; grad_bias sums grad_output also where input has no channels."""
    batch = 0 if empty == "batch" else 2
    cin, cout = (0 if empty == "input channels" else 4), (0 if empty == "output channels" else 6)
    weight_shape = (cin, cout, 3, 3) if transposed else (cout, cin, 3, 3)
    g, x, w = np.ones((batch, cout, 5, 5)), np.ones((batch, cin, 5, 5)), np.ones(weight_shape)
    got = convgrad.conv_backward(g, x, w, padding=1, transposed=transposed)
    assert (got.input.shape, got.weight.shape, got.bias.shape) == (x.shape, w.shape, (cout,))
    assert not got.input.any() and not got.weight.any()
    assert (got.bias == batch * 25).all()


def test_a_nan_reaches_only_what_the_law_ties_to_it():
    """Padding has no cells: a NaN in a corner of grad_output touches its own window and nothing else."""
    g = np.zeros((1, 1, 4, 4), np.float32)
    g[0, 0, 0, 0] = np.nan
    x, w = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)
    got = convgrad.conv_backward(g, x, w, padding=1)
    assert np.isnan(got.input[0, 0]).sum() == 4 and np.isnan(got.input[0, 0, :2, :2]).all()
    assert np.isnan(got.weight[0, 0]).sum() == 4 and np.isnan(got.weight[0, 0, 1:, 1:]).all()
