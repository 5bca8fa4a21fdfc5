"""The engine on PyTorch's threads: the same bits, and a forked child falls back to threads of its own."""

import ctypes
import multiprocessing

import numpy as np
import pytest

import convgrad
from convgrad.engines import library

pytest.importorskip("torch")
from convgrad.torch.threads import share_threads

pytestmark = pytest.mark.skipif(not library.available(), reason="the native engine is not built")


def gradients(threads):
    rng = np.random.default_rng(3)
    x, w, g = (rng.standard_normal(s, np.float32) for s in ((4, 16, 20, 20), (24, 16, 3, 3), (4, 24, 20, 20)))
    return [a.tobytes() for a in convgrad.conv_backward(g, x, w, padding=1, threads=threads)]


def test_lent_threads_give_the_same_bits():
    """Any number of PyTorch's threads and of the engine's own compute the same bytes."""
    assert share_threads()
    lent = [gradients(threads) for threads in (1, 2, 3)]
    library.borrow_threads(None)
    own = [gradients(threads) for threads in (1, 2, 3)]
    share_threads()
    assert all(one == lent[0] for one in lent + own)


def test_the_engine_asks_the_lender_for_every_thread():
    """A lender of threads is called with all members, and what its members compute is the whole result."""
    asked = []

    @ctypes.CFUNCTYPE(None, ctypes.CFUNCTYPE(None, ctypes.c_void_p), ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
    def team(member, context, members, flags):
        asked.append(members)
        member(context)  # one member does the work of all

    expected = gradients(1)
    library.borrow_threads(ctypes.cast(team, ctypes.c_void_p).value)
    try:
        assert gradients(3) == expected
    finally:
        share_threads()
    assert asked and set(asked) == {3}


def _in_child(queue):
    queue.put(gradients(2))


def test_a_forked_child_does_not_wait_for_threads_it_has_not_got():
    """After fork() the child computes on threads of its own: the same bytes, and it ends."""
    assert share_threads()
    expected = gradients(2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == expected
    finally:
        child.join(10)
        child.kill()
