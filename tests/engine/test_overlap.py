"""Results are never written over each other: one test for both languages, and every door asks it."""

import ctypes
import random
from itertools import product

import numpy as np
import pytest

import convgrad
from convgrad import ConvGradError, Request, Tensor, aclnn
from convgrad.core.arrays import may_overlap_itself
from convgrad.engines import library

as_strided = np.lib.stride_tricks.as_strided


def asked_of_the_engine(shape, strides, item):
    numbers = ctypes.c_int64 * len(shape)
    return bool(library.library().cg_may_overlap_itself(len(shape), numbers(*shape), numbers(*strides), item))


def overlaps(shape, strides, item):
    """By looking at every byte."""
    seen = set()
    for place in product(*map(range, shape)):
        first = sum(i * s for i, s in zip(place, strides, strict=True))
        held = set(range(first, first + item))
        if seen & held:
            return True
        seen |= held
    return False


@pytest.mark.skipif(not library.available(), reason="the native library is not built")
def test_both_languages_answer_alike():
    """Random shapes and strides, limits of 64 bits among them: the engine and Python never differ."""
    rng = random.Random(7)
    edges = (0, 1, -1, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
    for _ in range(20_000):
        axes, item = rng.randrange(8), rng.choice((1, 2, 4, 8))
        shape = tuple(rng.choice((0, 1, 2, 3, 5, 2**40, 2**63 - 1) if rng.random() < 0.1 else (1, 2, 3, 4))
                      for _ in range(axes))  # fmt: skip
        strides = tuple(rng.choice(edges) if rng.random() < 0.1 else rng.randrange(-40, 41) for _ in range(axes))
        assert asked_of_the_engine(shape, strides, item) == may_overlap_itself(shape, strides, item), (shape, strides)
    assert asked_of_the_engine((2,) * 65, (*(2**i for i in range(63)), 2**62, 2**62), 1)
    assert not asked_of_the_engine((1,) * 70, (0,) * 70, 1) and not may_overlap_itself((1,) * 70, (0,) * 70, 1)


@pytest.mark.skipif(not library.available(), reason="the native library is not built")
def test_the_most_axes_and_what_is_too_hard():
    """64 axes that are apart are apart; one more, or strides no order can tell apart, counts as overlapping."""
    apart = tuple(2**i for i in range(63))
    assert not asked_of_the_engine((2,) * 62, apart[:62], 1) and not may_overlap_itself((2,) * 62, apart[:62], 1)
    sixty_four = (*(2**i for i in range(62)), 2**62, 2**63 - 1)
    assert asked_of_the_engine((2,) * 64, sixty_four, 1) == may_overlap_itself((2,) * 64, sixty_four, 1) is True
    many = (1,) * 10 + (2,) * 60
    steps = (7,) * 10 + apart[:60]
    assert not asked_of_the_engine(many, steps, 1), "axes of one element do not count"
    assert asked_of_the_engine((2,) * 65, (*apart, 2**62, 2**62), 1)
    # Elements 2 and 3 apart never meet at these sizes, but no stride steps over the other's reach: yes.
    assert may_overlap_itself((2, 2), (2, 3), 2) and asked_of_the_engine((2, 2), (2, 3), 2)
    assert not may_overlap_itself((2, 2), (2, 4), 2) and not asked_of_the_engine((2, 2), (2, 4), 2)


def test_an_overlap_is_never_missed():
    """Whatever shares a byte, looked at byte by byte, is found."""
    rng = random.Random(8)
    met = {True: 0, False: 0}
    for _ in range(4000):
        axes, item = rng.randrange(1, 5), rng.choice((1, 2, 4))
        shape = tuple(rng.randrange(1, 4) for _ in range(axes))
        strides = tuple(rng.choice((-1, 1)) * rng.randrange(24) for _ in range(axes))
        truth = overlaps(shape, strides, item)
        met[truth] += 1
        assert may_overlap_itself(shape, strides, item) or not truth, (shape, strides, item)
    assert min(met.values()) > 500


def test_slices_and_transposes_are_apart():
    """Every view that indexing gives of a contiguous array can be written."""
    rng = random.Random(9)
    for _ in range(2000):
        whole = np.empty([rng.randrange(1, 7) for _ in range(4)], np.float16)
        steps = [rng.choice((1, 1, 2, 3, -1, -2)) for _ in range(4)]
        view = whole[tuple(slice(None, None, s) for s in steps)].transpose(rng.sample(range(4), 4))
        assert not may_overlap_itself(view.shape, view.strides, view.itemsize)


X, W, G = (np.ones(s, np.float32) for s in ((8, 16, 32, 32), (16, 16, 1, 1), (8, 16, 32, 32)))


def woven():
    """A buffer for grad_input whose elements lie on each other although no stride is zero."""
    buffer = np.full(16 * 1024, 7, np.float32)
    return buffer, as_strided(buffer, X.shape, (4, 4, 128, 4))


def test_a_buffer_that_overlaps_itself_is_refused_everywhere():
    """Arrays, Tensors, plans, forward passes, torch; also after calls that made the short way known."""
    torch = pytest.importorskip("torch")
    from convgrad import torch as on_torch

    buffer, view = woven()
    plan = convgrad.plan(Request.parse("conv n8 c16>16 i32x32 k1x1"))
    convgrad.conv_backward(G, X, W), plan.run(G, X, W)
    g, x, w = map(torch.from_numpy, (G, X, W))
    calls = (
        lambda: convgrad.conv_backward(G, X, W, out=(view, None, None)),
        lambda: convgrad.conv_backward(G, X, W, out=(Tensor(view), None, None)),
        lambda: plan.run(G, X, W, out=(view, None, None)),
        lambda: convgrad.convolution(X, W, out=view),
        lambda: on_torch.conv_backward(g, x, w, out=(torch.from_numpy(buffer).as_strided(X.shape, (1, 1, 32, 1)),
                                                     None, None)),
    )  # fmt: skip
    for call in calls:
        for _ in range(2):
            with pytest.raises(ConvGradError) as caught:
                call()
            assert caught.value.rule == "out.overlap" and caught.value.value == "itself" and (buffer == 7).all()


def test_the_two_phase_call_writes_such_an_output_at_the_end():
    """As the C library: the result is computed elsewhere, then stored; the bits are the same in every run."""
    found = set()
    x = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32)
    for _ in range(4):
        buffer, view = woven()
        size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
            x, X, W, [16], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False], 0, view, None, None
        )
        assert status == 0
        assert aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == 0
        found.add(buffer.tobytes())
    expected, view = woven()
    view[...] = convgrad.conv_backward(x, X, W, output_mask=(True, False, False)).input
    assert found == {expected.tobytes()}
