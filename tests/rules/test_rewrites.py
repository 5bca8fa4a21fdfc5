"""The ways out that refusals propose are true: each gives, on integers, exactly the gradients of the refused call."""

import numpy as np

import convgrad


def integers(shape, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def test_a_window_beyond_255_can_be_split():
    """Pieces of the weight on the part of the padded input they see: grad_inputs add up, grad_weights line up."""
    window, stride, dilation, pad, length = 300, 3, 2, 7, 900
    x, w = integers((2, 3, length), 1), integers((4, 3, window), 2)
    coarse = (length + 2 * pad - dilation * (window - 1) - 1) // stride + 1
    g = integers((2, 4, coarse), 3)
    options = {"stride": stride, "dilation": dilation, "product": "A2"}
    refused = convgrad.check(convgrad.Request.parse(f"conv n2 c3>4 i{length} k{window} s3 d2 p7 fp32 on=A2"))
    assert refused.rule_id == "limit.window.a2"
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    grad_padded, grad_weight = np.zeros_like(padded), np.zeros_like(w)
    for first in range(0, window, 255):
        last = min(first + 255, window)
        seen = slice(first * dilation, first * dilation + (coarse - 1) * stride + dilation * (last - first - 1) + 1)
        piece = convgrad.conv_backward(g, padded[..., seen], w[..., first:last], **options)
        grad_padded[..., seen] += piece.input
        grad_weight[..., first:last] = piece.weight
    whole = convgrad.conv_backward(g, x, w, stride=stride, dilation=dilation, padding=pad)
    np.testing.assert_array_equal(grad_padded[..., pad:-pad], whole.input)
    np.testing.assert_array_equal(grad_weight, whole.weight)


def test_a_depth_of_one_tap_folds_into_the_batch():
    """3-D on 910: where the window has no depth, the depth is batch."""
    x, w, g = integers((2, 3, 4, 6, 6), 1), integers((5, 3, 1, 3, 3), 2), integers((2, 5, 4, 4, 4), 3)
    line = "conv n2 c3>5 i4x6x6 k1x3x3 fp32 math=fp16 on=910"
    assert convgrad.check(convgrad.Request.parse(line)).rule_id == "dims.910"

    def folded(t):
        return t.transpose(0, 2, 1, 3, 4).reshape(-1, t.shape[1], *t.shape[3:])

    got = convgrad.conv_backward(folded(g), folded(x), w[:, :, 0], math="fp16", product="910")
    whole = convgrad.conv_backward(g, x, w)
    np.testing.assert_array_equal(got.input.reshape(2, 4, 3, 6, 6).transpose(0, 2, 1, 3, 4), whole.input)
    np.testing.assert_array_equal(got.weight[:, :, None], whole.weight)
    np.testing.assert_array_equal(got.bias, whole.bias)


def test_uneven_padding_can_be_done_by_hand():
    """Outside 2-D: pad the tensor, call with padding 0, cut the borders off grad_input."""
    x, w, g = integers((2, 3, 9), 1), integers((4, 3, 3), 2), integers((2, 4, 10), 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2)))
    got = convgrad.conv_backward(g, padded, w, product="A2")
    whole = convgrad.conv_backward(g, x, w, padding=((1, 2),))
    np.testing.assert_array_equal(got.input[..., 1:-2], whole.input)
    np.testing.assert_array_equal(got.weight, whole.weight)


def test_a_tbc_pad_beyond_255_can_be_done_by_hand():
    """Pad along T, pass pad 0, cut the borders off grad_input."""
    x, w = integers((5, 2, 3), 1), integers((4, 3, 4), 2)
    g = integers((5 + 600 - 3, 2, 4), 3)
    got = convgrad.conv_tbc_backward(g, np.pad(x, ((300, 300), (0, 0), (0, 0))), w, product="A2")
    whole = convgrad.conv_tbc_backward(g, x, w, pad=300)
    np.testing.assert_array_equal(got.input[300:-300], whole.input)
    np.testing.assert_array_equal(got.weight, whole.weight)


def test_groups_beyond_65535_can_be_called_in_blocks_of_channels():
    """Groups are independent: blocks of them side by side are the whole."""
    groups, block = 65_540, 32_770
    x, w, g = integers((1, groups, 2), 1), integers((groups, 1, 1), 2), integers((1, groups, 2), 3)
    parts = [slice(0, block), slice(block, groups)]
    got = [convgrad.conv_backward(g[:, p], x[:, p], w[p], groups=block, product="A2") for p in parts]
    whole = convgrad.conv_backward(g, x, w, groups=groups)
    np.testing.assert_array_equal(np.concatenate([p.input for p in got], axis=1), whole.input)
    np.testing.assert_array_equal(np.concatenate([p.weight for p in got]), whole.weight)
