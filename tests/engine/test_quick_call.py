"""The short way through the native engine gives what the long way gives, or leaves the call to it."""

import threading

import numpy as np
import pytest

import convgrad
import native_problems as problems
from convgrad import ConvGradError, engines
from convgrad.calls import decide
from convgrad.core import dtypes, rounding
from convgrad.core.bounded import Bounded
from convgrad.engines import library, reference

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")
LINES = (
    "conv n2 c2>2 i7x7 k1x1 fp32", "conv n2 c4>6 i5x6 k3x3 s2 p1 g2 fp32", "tconv n1 c4>3 i4x5 k3x3 s2 p1 fp32",
    "conv n1 c3>2 i9 k3 fp32", "conv n1 c2>2 i3x4x5 k2x1x3 fp32", "tbc n3 c4>5 i8 k3 p1 fp32",
)
MASKS = ("want=x", "want=w", "want=b", "want=xw", "want=xwb")


def tensors(made, seed=0):
    """grad_output, input and weight of a plan: small integers."""
    rng = np.random.default_rng(seed)
    r = made.problem.request
    return [
        rounding.store(dtypes.find(spec.dtype), rng.integers(-3, 4, spec.shape).astype(np.float64))
        for spec in (r.grad_output, r.input, r.weight)
    ]


def long_way(made, given):
    """The same call with a number of threads, which the short way does not take."""
    return made.run(*given, threads=1)


def same(got, want):
    assert [g is None for g in got] == [w is None for w in want]
    return all(g is None or (g.dtype == w.dtype and np.array_equal(g, w)) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("line", LINES)
def test_the_short_way_gives_what_the_long_way_gives(line, dtype):
    """Every kind of problem, every set of wanted gradients: the same numbers in the same dtypes."""
    for mask in MASKS if not line.startswith("tbc") else ("",):
        made = problems.problem(f"{line} {mask}", dtype)
        given = tensors(made)
        quick = engines.run_quickly(made, *given)
        assert quick is not None and same(quick, long_way(made, given))


def test_results_are_fresh_and_their_own():
    """Two calls share no memory with each other or with the operands, and own what they return."""
    made = problems.problem(LINES[0])
    given = tensors(made)
    first, second = made.run(*given), made.run(*given)
    for array, other in zip(first, second, strict=True):
        assert array.flags.owndata and array.flags.writeable
        assert not any(np.shares_memory(array, a) for a in (other, *given))


class Named(np.ndarray):
    """A subclass: it may mean something else by its elements."""


def misaligned(array):
    """The same numbers one byte off their place."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    moved = memory[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def one_and_a_half_apart(array):
    """The same numbers as fields of records: from one to the next it is no whole number of elements."""
    moved = np.zeros(array.shape, [("number", array.dtype), ("else", np.uint16)])["number"]
    moved[...] = array
    return moved


def every_second(array):
    """The same numbers in every second place of a larger array."""
    larger = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    larger[..., ::2] = array
    return larger[..., ::2]


STRIDES = pytest.mark.parametrize(
    "change", [np.asfortranarray, lambda a: np.ascontiguousarray(a[::-1])[::-1], every_second],
    ids=["fortran", "reversed", "every second"],
)  # fmt: skip


@STRIDES
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("line", LINES)
def test_operands_of_any_strides_take_the_short_way(line, change, place):
    """Whole elements apart, forwards or backwards: the same gradients, the first time and when the form is known."""
    made = problems.problem(line)
    given = tensors(made)
    want = long_way(made, given)
    given[place] = change(given[place])
    for _ in range(2):
        quick = engines.run_quickly(made, *given)
        assert quick is not None and same(quick, want)


@STRIDES
@pytest.mark.parametrize("line", LINES)
def test_results_go_where_out_says(line, change):
    """Given buffers, contiguous or not, are written and returned, missing ones made, nothing beside them touched."""
    made = problems.problem(line)
    given = tensors(made)
    want = long_way(made, given)
    for strided in (False, True):
        for missing in (None, 0, 1, 2):
            out = [np.full_like(array, 99) for array in want]
            if strided:
                out = [change(array) for array in out]
            whole = [array if array.base is None else array.base for array in out]
            if missing is not None:
                out[missing] = None
            quick = engines.run_quickly(made, *given, out)
            assert quick is not None and same(quick, want)
            for got, buffer, memory in zip(quick, out, whole, strict=True):
                assert buffer is None or got is buffer
                if buffer is not None and memory.size > buffer.size:  # every second place
                    assert not memory.reshape(-1)[1::2].any()


def test_buffers_are_used_by_the_public_call(monkeypatch):
    """conv_backward(out=...) takes the short way from its second call on."""
    g, x, w = tensors(problems.problem("conv n2 c5>7 i6x8 k3x3 s1 p1 fp32"))
    want = convgrad.conv_backward(g, x, w, padding=1, threads=1)
    out = [np.zeros_like(array) for array in want]
    convgrad.conv_backward(g, x, w, padding=1, out=out)
    for array in out:
        array[...] = 0
    monkeypatch.setattr(engines, "run", None)  # the long way
    got = convgrad.conv_backward(g, x, w, padding=1, out=out)
    assert all(a is b for a, b in zip(got, out, strict=True)) and same(got, want)


def test_buffers_that_share_memory_are_refused():
    """A buffer over an operand or over another buffer is refused in words, and nothing is written."""
    made = problems.problem("conv n2 c4>4 i5x5 k5x5 p2 fp32")
    g, x, w = tensors(made)
    memory = np.zeros(1000, np.float32)
    cases = [(g, x, w, [x, None, None]), (g, x, w, [g, None, None]), (g, x, w, [None, w, None])]
    twice = [np.ndarray(a.shape, a.dtype, memory) for a in (x, w)]
    cases.append((g, x, w, [twice[0], twice[1], None]))
    # Its second image lies before its first, on the second image of the operand.
    both = np.concatenate([x, x])
    cases.append((g, both[:2], w, [both[1:3][::-1], None, None]))
    # One cell for all elements.
    cases.append((g, x, w, [np.lib.stride_tricks.as_strided(memory, x.shape, (0, 0, 0, 0)), None, None]))
    for *given, out in cases:
        before = [a.copy() for a in given]
        assert engines.run_quickly(made, *given, out) is None
        with pytest.raises(ConvGradError, match="shares memory"):
            made.run(*given, out=out)
        assert same(given, before) and not memory.any()
    # Side by side in one piece of memory is no sharing.
    beside = [np.ndarray(a.shape, a.dtype, memory, 4 * at) for a, at in ((x, 0), (w, x.size))]
    bias = np.zeros(4, np.float32)
    assert same(made.run(g, x, w, out=[*beside, bias]), long_way(made, (g, x, w)))
    # The same places again, and now the first buffer reaches into the second.
    wider = np.ndarray(x.shape, x.dtype, memory, strides=tuple(2 * s for s in x.strides))
    with pytest.raises(ConvGradError, match="shares memory"):
        made.run(g, x, w, out=[wider, beside[1], bias])


@pytest.mark.parametrize("wrong", [
    lambda a: a.reshape(-1)[:1].reshape((1,) * a.ndim), lambda a: np.zeros((*a.shape, 1), a.dtype),
    lambda a: a.astype(np.float64), lambda a: a.astype(np.float16), lambda a: np.zeros(0, a.dtype),
], ids=["smaller", "rank", "wider", "narrower", "empty"])  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_other_buffers_than_planned_are_refused(wrong, place):
    """A plan writes into no buffer of another shape or dtype: it says which, what it is, and what was planned."""
    made = problems.problem(LINES[1])
    given = tensors(made)
    out = [np.zeros_like(array) for array in long_way(made, given)]
    out[place] = wrong(out[place])
    for threads in (None, 1):
        with pytest.raises(ConvGradError, match=rf"out\[{place}\] is .* the plan was made for") as caught:
            made.run(*given, out=out, threads=threads)
        assert caught.value.rule == "plan.tensor" and not any(array.any() for array in out)


def test_out_that_is_no_three_arrays():
    """Too few buffers, a read-only one, something else: refused in words; a buffer for what is not wanted is let be."""
    made = problems.problem(LINES[0])
    given = tensors(made)
    fixed = np.zeros_like(given[1])
    fixed.flags.writeable = False
    for out in ([None, None], [fixed, None, None], ["text", None, None], 3, [[[0.0]], None, None]):
        with pytest.raises(ConvGradError, match="out"):
            made.run(*given, out=out)
    only = problems.problem(f"{LINES[0]} want=w")
    unwanted = np.full_like(given[1], 5)
    assert engines.run_quickly(only, *given, [unwanted, None, None]) is None
    assert only.run(*given, out=[unwanted, None, None]).input is None and np.all(unwanted == 5)


@pytest.mark.parametrize("change", [
    misaligned, one_and_a_half_apart, lambda a: a.astype(">f4"), lambda a: a.view(Named), memoryview, convgrad.Tensor,
], ids=["misaligned", "fractions", "swapped", "subclass", "buffer", "tensor"])  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_the_short_way_cannot_read_takes_the_long_way(change, place):
    """Other places, byte orders and types of operand are left to the long way and give the same."""
    made = problems.problem(LINES[1])
    given = tensors(made)
    want = long_way(made, given)
    given[place] = change(given[place])
    assert engines.run_quickly(made, *given) is None
    assert same(made.run(*given), want)


@pytest.mark.parametrize("change", [
    lambda a: a[:1], lambda a: a.reshape(-1), lambda a: a.astype(np.float64), lambda a: a.astype(np.float16),
    lambda a: np.zeros(0, np.float32),
], ids=["shape", "flat", "wider", "narrower", "empty"])  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_other_tensors_than_planned_are_refused(change, place):
    """A plan run on another shape or dtype names the tensor, what it is and what was planned."""
    made = problems.problem(LINES[1])
    given = tensors(made)
    given[place] = change(given[place])
    with pytest.raises(ConvGradError, match="the plan was made for") as caught:
        made.run(*given)
    assert caught.value.rule == "plan.tensor" and caught.value.line == made.problem.line


@pytest.mark.parametrize("nothing", [None, "text", 3, object()])
def test_what_is_no_tensor_is_refused(nothing):
    """Anything at all may be given: it is refused in words."""
    made = problems.problem(LINES[0])
    g, x, w = tensors(made)
    for given in ((nothing, x, w), (g, nothing, w), (g, x, nothing)):
        with pytest.raises(ConvGradError):
            made.run(*given)


def test_a_plan_of_the_forward_pass_gives_no_gradients():
    """Such a plan says what runs it."""
    made = problems.problem("conv n2 c3>4 i5x5 k3x3 p1 fp32 want=y")
    with pytest.raises(ConvGradError, match="forward pass") as caught:
        made.run(*tensors(made))
    assert caught.value.rule == "plan.forward" and "want=y" in caught.value.line


def test_read_only_operands_are_only_read():
    """Operands that must not be written take the short way too, and stay as they are."""
    made = problems.problem(LINES[0])
    given = tensors(made)
    before = [a.copy() for a in given]
    for array in given:
        array.flags.writeable = False
    assert engines.run_quickly(made, *given) is not None
    assert same(given, before)


def test_the_reference_engine_is_used_when_it_is_asked_for(monkeypatch):
    """CONVGRAD_ENGINE counts at each call, for plans made before as well."""
    made = problems.problem(LINES[0])
    given = tensors(made)
    calls = []
    monkeypatch.setattr(reference, "run", lambda *arguments: calls.append(arguments))
    made.run(*given)
    assert not calls
    monkeypatch.setenv("CONVGRAD_ENGINE", "reference")
    made.run(*given)
    assert len(calls) == 1
    monkeypatch.delenv("CONVGRAD_ENGINE")
    made.run(*given)
    assert len(calls) == 1


def test_small_calls_from_several_threads():
    """Threads that run different small plans at once each get their own gradients."""
    jobs = [(made, given, long_way(made, given)) for i, line in enumerate(LINES)
            for made in [problems.problem(line)] for given in [tensors(made, i)]]  # fmt: skip
    wrong = []

    def work(made, given, want):
        wrong.extend(made for _ in range(300) if not same(made.run(*given), want))

    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_attributes_in_lists_are_planned_once(monkeypatch):
    """Lists, also of pairs, find the plan of the call before; one changed in between is another call."""
    planned = []
    decided = decide.decide

    def planning(request, compute=None):
        planned.append(request)
        return decided(request, compute)

    monkeypatch.setattr(decide, "decide", planning)
    monkeypatch.setattr(decide, "_decisions", Bounded(8))  # nothing was planned before
    x, w = np.ones((1, 1, 9, 9), np.float32), np.ones((1, 1, 2, 3), np.float32)
    stride, padding = [3, 2], [[1, 0], [2, 0]]

    def run():
        g = np.ones((1, 1, (9 + padding[0][0] - 2) // 3 + 1, 5), np.float32)
        return convgrad.conv_backward(g, x, w, [1], stride=stride, padding=padding)

    first, again = run(), run()
    assert len(planned) == 1
    assert np.array_equal(first.input, again.input)
    padding[0][0] = 2
    changed = run()
    assert len(planned) == 2
    g = np.ones((1, 1, 4, 5), np.float32)
    expected = convgrad.conv_backward(g, x, w, stride=(3, 2), padding=((2, 0), (2, 0)))
    assert np.array_equal(changed.input, expected.input)
    assert not np.array_equal(changed.input, first.input)
