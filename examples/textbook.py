"""Convolution gradients by the textbook, in float64: an independent definition to check convgrad against.

It shares nothing with the library. Where the library walks taps, this pads, slides windows, stuffs zeros and flips:

    forward       correlate the padded input with the weight
    grad_weight   correlate the padded input with the output gradient
    grad_input    stuff zeros between the output gradients, pad by a window, correlate with the flipped weight
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def windows(data, window, stride, dilation):
    """[n, c, out..., window...]: every window of padded data."""
    rank = len(window)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, window, strict=True)]
    view = sliding_window_view(data, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in stride] + [slice(None, None, d) for d in dilation]
    return view[(slice(None), slice(None), *steps)]


def correlate(data, weight, stride, dilation, groups):
    """[n, coarse, out...] from padded [n, fine, in...] and weight [coarse, fine/groups, window...]."""
    rank = weight.ndim - 2
    views = np.split(windows(data, weight.shape[2:], stride, dilation), groups, axis=1)
    axes = (1, *range(2 + rank, 2 + 2 * rank)), (1, *range(2, 2 + rank))
    parts = [np.tensordot(v, w, axes) for v, w in zip(views, np.split(weight, groups), strict=True)]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def padded(data, pads):
    return np.pad(data, [(0, 0), (0, 0), *pads])


def spread(coarse, weight, fine_size, stride, dilation, pads, groups):
    """[n, fine, fine_size...]: the adjoint of `correlate` on data padded by `pads`."""
    rank = weight.ndim - 2
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    stuffed = np.zeros((*coarse.shape[:2], *((n - 1) * s + 1 for n, s in zip(coarse.shape[2:], stride, strict=True))))
    stuffed[(slice(None), slice(None), *(slice(None, None, s) for s in stride))] = coarse
    # Slack behind the last window, so that the correlation reaches every padded cell.
    full = [f + p[0] + p[1] for f, p in zip(fine_size, pads, strict=True)]
    behind = [n - (stuffed.shape[2 + i] + reach[i]) for i, n in enumerate(full)]
    stuffed = padded(stuffed, [(r, r + b) for r, b in zip(reach, behind, strict=True)])
    flipped = np.flip(weight, tuple(range(2, 2 + rank)))
    swapped = np.concatenate([part.swapaxes(0, 1) for part in np.split(flipped, groups)])
    whole = correlate(stuffed, swapped, (1,) * rank, dilation, groups)
    return whole[(slice(None), slice(None), *(slice(p[0], p[0] + f) for p, f in zip(pads, fine_size, strict=True)))]


def weight_gradient(fine, coarse, window, stride, dilation, pads, groups):
    """[coarse, fine/groups, window...]."""
    rank = len(window)
    views = np.split(windows(padded(fine, pads), window, stride, dilation), groups, axis=1)
    axes = (0, *range(2, 2 + rank)), (0, *range(2, 2 + rank))
    return np.concatenate([np.tensordot(c, v, axes) for c, v in zip(np.split(coarse, groups, 1), views, strict=True)])


def conv_backward(grad_output, input, weight, stride, padding, dilation, transposed, groups):
    """(grad_input, grad_weight, grad_bias); padding as (low, high) pairs."""
    g, x, w = (np.asarray(t, np.float64) for t in (grad_output, input, weight))
    bias = g.sum(axis=(0, *range(2, g.ndim)))
    if transposed:
        # Slack of fine cells behind the last window makes no further position: it is below the stride.
        grad_input = correlate(padded(g, padding), w, stride, dilation, groups)
        return grad_input, weight_gradient(g, x, w.shape[2:], stride, dilation, padding, groups), bias
    grad_input = spread(g, w, x.shape[2:], stride, dilation, padding, groups)
    return grad_input, weight_gradient(x, g, w.shape[2:], stride, dilation, padding, groups), bias


def tbc_backward(grad_output, input, weight, pad):
    """The same for (T, B, C) tensors and a (K, Cin, Cout) weight."""
    g, x, w = (np.asarray(t, np.float64) for t in (grad_output, input, weight))
    to_ncl, to_oik = (1, 2, 0), (2, 1, 0)
    grad_input, grad_weight, bias = conv_backward(
        g.transpose(to_ncl), x.transpose(to_ncl), w.transpose(to_oik), (1,), ((pad, pad),), (1,), False, 1
    )
    return grad_input.transpose(2, 0, 1), grad_weight.transpose(to_oik), bias
