"""One route: calls are decided once, whatever the door, and what is kept is bounded."""

import numpy as np
import pytest

import convgrad
from convgrad.calls import decide
from convgrad.core.bounded import Bounded

ONES = np.ones((1, 2, 4, 4), np.float32)


@pytest.fixture
def counted(monkeypatch):
    """The requests that are decided anew, with nothing kept from before."""
    seen = []
    decided = decide.decide

    def counting(request, compute=None):
        seen.append(str(request))
        return decided(request, compute)

    monkeypatch.setattr(decide, "decide", counting)
    monkeypatch.setattr(decide, "_decisions", Bounded(64))
    return seen


@pytest.mark.parametrize(
    "call",
    [
        lambda: convgrad.conv_backward(ONES, ONES, np.ones((2, 2, 1, 1), np.float32)),
        lambda: convgrad.conv_backward(ONES, ONES, np.ones((2, 2, 1, 1), np.float32), threads=1),
        lambda: convgrad.convolution(ONES, np.ones((2, 2, 3, 3), np.float32), padding=[1, 1]),
        lambda: convgrad.conv_tbc(np.ones((5, 2, 3), np.float32), np.ones((3, 3, 4), np.float32), pad=1),
        lambda: convgrad.conv_tbc_backward(*(np.ones(s, np.float32) for s in ((5, 2, 4), (5, 2, 3), (3, 3, 4))), pad=1),
    ],
)
def test_a_call_is_decided_once(call, counted):
    """The second call of any kind, forward passes too, finds the decision of the first."""
    first, second = call(), call()
    assert len(counted) == 1
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("name", "number", "equal"),
    [
        ("stride", 1, 1.0), ("stride", (1, 1), (1, 1.0)), ("stride", [1, 1], [1, 1.0]),
        ("stride", np.int32(1), np.float32(1)), ("padding", np.int32(0), np.float32(0)),
        ("padding", [np.int64(0), 0], [np.float64(0), 0]), ("groups", 1, 1.0),
    ],
)  # fmt: skip
def test_a_true_stride_is_not_a_stride_of_one(name, number, equal, counted):
    """Keys hold the types of the attributes: a refusal is not answered by the plan of a number that equals it."""
    w = np.ones((2, 2, 1, 1), np.float32)
    convgrad.conv_backward(ONES, ONES, w, **{name: number})
    assert len(counted) == 1
    with pytest.raises(convgrad.ConvGradError, match=name):
        convgrad.conv_backward(ONES, ONES, w, **{name: equal})


def test_what_is_kept_is_bounded(counted):
    """More calls than are kept: the oldest are forgotten, the newest are found."""
    for size in range(1, 200):
        convgrad.conv_backward(*(np.ones(s, np.float32) for s in ((1, 1, size), (1, 1, size), (1, 1, 1))))
    assert len(decide._decisions) <= 64
    before = len(counted)
    convgrad.conv_backward(*(np.ones(s, np.float32) for s in ((1, 1, 199), (1, 1, 199), (1, 1, 1))))
    assert len(counted) == before
    convgrad.conv_backward(*(np.ones(s, np.float32) for s in ((1, 1, 1), (1, 1, 1), (1, 1, 1))))
    assert len(counted) == before + 1


def test_bounded_keeps_the_newest():
    """Room is made by dropping the oldest entries."""
    kept = Bounded(8)
    for i in range(20):
        assert kept.keep(i, -i) == -i
        assert len(kept) <= 8
    assert 19 in kept and 0 not in kept
