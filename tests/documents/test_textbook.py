"""The independent definition itself, against PyTorch in float64."""

import numpy as np
import pytest
from hypothesis import given, settings

import textbook
from strategies import layers

torch = pytest.importorskip("torch")


@given(layers())
@settings(max_examples=60, deadline=None)
def test_textbook_is_pytorch(layer):
    """Two definitions written apart agree on integers, wherever PyTorch has the option (equal pads)."""
    g, x, w = layer.integers(1)
    got = textbook.conv_backward(g, x, w, layer.stride, layer.padding, layer.dilation, layer.transposed, layer.groups)
    if any(low != high for low, high in layer.padding):
        return
    want = torch.ops.aten.convolution_backward(
        *(torch.from_numpy(t) for t in (g, x, w)), [g.shape[1]], layer.stride, [p[0] for p in layer.padding],
        layer.dilation, layer.transposed, layer.slack, layer.groups, [True] * 3,
    )
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(a, b.numpy())
