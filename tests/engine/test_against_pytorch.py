"""Every option PyTorch has too, in float64, against PyTorch's own convolution_backward."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convgrad
from strategies import layers

torch = pytest.importorskip("torch")


@given(layers(), st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_float64_gradients(layer, seed):
    """Equal to 1e-12 of the largest magnitude, for every rank, both directions, groups, dilation and slack."""
    if any(low != high for low, high in layer.padding):
        return
    rng = np.random.default_rng(seed)
    g, x, w = (rng.normal(size=s) for s in layer.shapes)
    got = convgrad.conv_backward(g, x, w, **layer.options)
    want = torch.ops.aten.convolution_backward(
        *(torch.from_numpy(t) for t in (g, x, w)), [g.shape[1]], layer.stride, [p[0] for p in layer.padding],
        layer.dilation, layer.transposed, layer.slack, layer.groups, [True] * 3,
    )
    for a, b in zip(got, want, strict=True):
        assert np.abs(a - b.numpy()).max(initial=0) <= 1e-12 * max(1, np.abs(b.numpy()).max(initial=0))


def test_conv_tbc():
    """The time-batch-channel operator against torch.conv_tbc's autograd."""
    rng = np.random.default_rng(5)
    x, w, b = (torch.from_numpy(rng.normal(size=s)).requires_grad_() for s in ((9, 2, 3), (4, 3, 5), (5,)))
    y = torch.conv_tbc(x, w, b, 2)
    g = torch.from_numpy(rng.normal(size=tuple(y.shape)))
    y.backward(g)
    got = convgrad.conv_tbc_backward(g, x, w, b, pad=2)
    for a, t in zip(got, (x, w, b), strict=True):
        np.testing.assert_allclose(a, t.grad.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_torch_tensors_are_read_in_place(dtype):
    """CPU tensors of every dtype both know are accepted through DLPack; gradients come back as NumPy arrays."""
    g, x, w = (torch.ones(s, dtype=getattr(torch, dtype)) for s in ((1, 2, 4), (1, 3, 4), (2, 3, 1)))
    got = convgrad.conv_backward(g, x, w.requires_grad_())
    assert got.weight.dtype.name == dtype and np.array_equal(got.weight.astype("f4"), np.full((2, 3, 1), 4))


def test_other_protocols():
    """The buffer protocol, __array__ and nested lists are arrays too."""
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return np.ones((1, 1, 3), np.float32)

    view = memoryview(np.ones((1, 1, 3), np.float32))
    got = convgrad.conv_backward(view, Wrapped(), np.ones((1, 1, 1), np.float32))
    assert got.weight.item() == 3 and convgrad.conv_backward([[[1.0]]], [[[2.0]]], [[[3.0]]]).weight.item() == 2


def test_device_tensors_are_refused():
    """Memory the CPU cannot read is named, not dereferenced."""
    with pytest.raises(convgrad.ConvGradError, match="no memory"):
        convgrad.conv_backward(torch.ones(1, 1, 3, device="meta"), np.ones((1, 1, 3), "f4"), np.ones((1, 1, 1), "f4"))
