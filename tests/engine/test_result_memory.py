"""Memory of large results is used again when they are dead, and never before; gradients lie as their tensors do."""

import gc
import threading

import ml_dtypes
import numpy as np
import pytest

import convgrad
from convgrad.core.arrays import is_channels_last
from convgrad.engines import result_memory

FLOAT = np.dtype(np.float32)
LARGE = "conv n1 c1>1 i3000x3000 k1x1 fp32"
SIZE = 10 << 20  # float32 elements: 40 MiB


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture(autouse=True)
def nothing_kept():
    """Every test begins and ends without dead results."""
    gc.collect()
    result_memory._kept.clear()
    yield
    gc.collect()
    result_memory._kept.clear()


needs_lazy_free = pytest.mark.skipif(
    not hasattr(result_memory.mmap, "MADV_FREE"), reason="this system does not free memory lazily"
)


@needs_lazy_free
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.uint8])
def test_a_dead_result_gives_its_memory_to_the_next(dtype):
    """The same addresses again, whatever the dtype, and all of them can be written."""
    dtype = np.dtype(dtype)
    first = result_memory.empty((SIZE * 4 // dtype.itemsize,), dtype)
    assert first.dtype == dtype
    first[...] = 1
    place = address(first)
    del first
    second = result_memory.empty((2, SIZE * 2 // dtype.itemsize), dtype)
    assert address(second) == place and second.flags.c_contiguous and second.flags.writeable
    second[...] = 2
    assert (second == 2).all()


@needs_lazy_free
def test_a_view_keeps_the_memory_of_its_result():
    """Nothing is given away while a part of it can still be read."""
    first = result_memory.empty((SIZE,), FLOAT)
    first[...] = 7
    part = first[5:9]
    del first
    second = result_memory.empty((SIZE,), FLOAT)
    second[...] = 9
    assert not np.shares_memory(part, second) and (part == 7).all()


@needs_lazy_free
def test_memory_much_larger_than_a_result_waits_for_another():
    """At most an eighth is wasted."""
    first = result_memory.empty((SIZE * 5 // 4,), FLOAT)
    place = address(first)
    del first
    second = result_memory.empty((SIZE,), FLOAT)
    assert address(second) != place and len(result_memory._kept) == 1


@needs_lazy_free
def test_only_so_much_is_kept_and_the_longest_dead_goes_first(monkeypatch):
    """The variable bounds what waits, in MiB."""
    monkeypatch.setenv("CONVGRAD_RESULT_MEMORY_MIB", "100")
    results = [result_memory.empty((SIZE,), FLOAT) for _ in range(3)]
    places = [address(r) for r in results]
    while results:
        results.pop(0)
    assert [np.frombuffer(m, np.uint8).ctypes.data for m in result_memory._kept] == places[1:]


def test_nothing_is_kept_where_nothing_may_be(monkeypatch):
    """0 MiB: an ordinary array, and no memory of it is left."""
    monkeypatch.setenv("CONVGRAD_RESULT_MEMORY_MIB", "0")
    assert result_memory.empty((SIZE,), FLOAT).flags.owndata
    assert not result_memory._kept


@needs_lazy_free
@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_a_limit_that_is_no_number_is_refused_in_words(monkeypatch, text):
    """Which variable, which text, what it should be."""
    monkeypatch.setenv("CONVGRAD_RESULT_MEMORY_MIB", text)
    with pytest.raises(ValueError, match=f"CONVGRAD_RESULT_MEMORY_MIB='{text}': a whole number of MiB"):
        result_memory.empty((SIZE,), FLOAT)


def test_small_results_are_ordinary_arrays():
    """The C library recycles those by itself."""
    assert result_memory.empty((result_memory.RECYCLED_ANYWAY // 4,), FLOAT).flags.owndata


def test_threads_never_hold_the_same_memory():
    """Results made and dropped on four threads at once keep what was written into them."""
    wrong = []

    def work(number):
        for round_ in range(20):
            mine = result_memory.empty((SIZE,), FLOAT)
            mine[:: 1 << 10] = number * 100 + round_
            if not (mine[:: 1 << 10] == number * 100 + round_).all():
                wrong.append((number, round_))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@needs_lazy_free
@pytest.mark.parametrize("threads", [None, 1], ids=["short way", "long way"])
def test_large_gradients_are_made_there(threads):
    """A gradient over 32 MiB takes the place of the dead one before it, and is right."""
    made = convgrad.plan(convgrad.Request.parse(LARGE))
    ones = np.ones((1, 1, 3000, 3000), np.float32)
    weight = np.full((1, 1, 1, 1), 3, np.float32)
    first = made.run(ones, ones, weight, threads=threads)
    place = address(first.input)
    del first
    second = made.run(ones * 2, ones, weight, threads=threads)
    assert address(second.input) == place and (second.input == 6).all()


def channels_last(array):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


@pytest.mark.parametrize("threads", [None, 1], ids=["short way", "long way"])
@pytest.mark.parametrize("last", [(True, False), (False, True), (True, True)])
def test_gradients_lie_as_their_tensors_do(last, threads):
    """Channels last for a tensor that is, plain order for one that is not; the numbers are the same."""
    rng = np.random.default_rng(0)
    x, w, g = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 4, 6, 5), (3, 4, 3, 2), (2, 3, 4, 4)))
    want = convgrad.conv_backward(g, x, w)
    given = [channels_last(t) if is_last else t for t, is_last in zip((x, w), last, strict=True)]
    for _ in range(2):
        got = convgrad.conv_backward(g, *given, threads=threads)
        assert [is_channels_last(t) for t in got[:2]] == list(last)
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    output = convgrad.convolution(given[0], w)
    assert is_channels_last(output) == last[0]
    assert np.array_equal(output, convgrad.convolution(x, w))


@pytest.mark.parametrize("strange", [
    lambda a: a[::-1], lambda a: a[..., ::2], np.asfortranarray, lambda a: np.broadcast_to(a[:1], a.shape),
], ids=["reversed", "every second", "fortran", "broadcast"])  # fmt: skip
def test_other_strides_give_plain_gradients(strange):
    """Only channels last is an order that a gradient takes over."""
    x = strange(np.ones((2, 4, 6, 6), np.float32))
    g = np.ones((2, 3, x.shape[2] - 2, x.shape[3] - 2), np.float32)
    got = convgrad.conv_backward(g, x, np.ones((3, 4, 3, 3), np.float32))
    assert got.input.flags.c_contiguous and got.weight.flags.c_contiguous


@needs_lazy_free
def test_large_results_can_be_channels_last():
    """The order and the memory of a dead result together."""
    first = result_memory.empty((1, 8, 1200, 1200), FLOAT, channels_last=True)
    assert first.shape == (1, 8, 1200, 1200) and is_channels_last(first)
    place = address(first)
    del first
    assert address(result_memory.empty((1, 8, 1200, 1200), FLOAT, channels_last=True)) == place
