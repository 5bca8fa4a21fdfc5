"""The short way through the native engine gives what the long way gives, or leaves the call to it."""

import threading

import numpy as np
import pytest

import convgrad
import native_problems as problems
from convgrad import ConvGradError, dtypes, engines, rounding
from convgrad.engines import native, reference

pytestmark = pytest.mark.skipif(not native.available(), reason="the native library is not built")
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


@pytest.mark.parametrize("change", [
    np.asfortranarray, lambda a: np.ascontiguousarray(a[::-1])[::-1], misaligned, lambda a: a.astype(">f4"),
    lambda a: a.view(Named), memoryview, convgrad.Tensor,
], ids=["fortran", "reversed", "misaligned", "swapped", "subclass", "buffer", "tensor"])  # fmt: skip
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_the_short_way_cannot_read_takes_the_long_way(change, place):
    """Other strides, places, byte orders and types of operand are left to the long way and give the same."""
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
