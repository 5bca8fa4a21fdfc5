"""Gradients of dask arrays: equal to one call, the same bits however they are chunked and scheduled."""

import subprocess
import sys
import threading

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import convgrad
import convgrad.dask
from convgrad import ConvGradError, Tensor
from convgrad.core import rounding
from convgrad.core.partition import Limits
from convgrad.dask import blocks
from dask_problems import limits, random_problem, stored
from strategies import layers

pytestmark = pytest.mark.filterwarnings("ignore::convgrad.dask.Rechunked")
SMALL = Limits(data_bytes=400, weight_bytes=150, multiply_adds=600)


@st.composite
def chunkings(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Any chunks of a shape: uneven ones too."""
    cuts = [sorted(draw(st.sets(st.integers(1, max(1, n - 1)), max_size=2))) for n in shape]
    return tuple(
        tuple(b - a for a, b in zip([0, *(c for c in at if c < n)], [*(c for c in at if c < n), n], strict=True))
        for at, n in zip(cuts, shape, strict=True)
    )


def computed(gradients):
    """Every gradient, computed together in this thread."""
    return dask.compute(*gradients, scheduler="sync")


def assert_same(lazy, eager):
    """Equal, and of the same shape and dtype."""
    for one, other in zip(lazy, eager, strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(layers(), st.data())
def test_every_chunking_equals_one_call(layer, data):
    """Any chunks, any size of blocks, any option of the law, any mask: on integers the gradients are equal."""
    tensors = layer.integers(data.draw(st.integers(0, 99)), dtype="float32")
    mask = data.draw(st.sampled_from([(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)]))
    lazy = [da.from_array(t, chunks=data.draw(chunkings(t.shape))) for t in tensors]
    eager = convgrad.conv_backward(*tensors, **layer.options, output_mask=mask)
    size = st.integers(20, 2000)
    with limits(Limits(data.draw(size), data.draw(size), data.draw(size))):
        assert_same(computed(convgrad.dask.conv_backward(*lazy, **layer.options, output_mask=mask)), eager)


@pytest.mark.parametrize("pad", [0, 2])
def test_time_batch_channel(pad):
    """TBC is cut along time, batch and channels in its own order of axes."""
    rng = np.random.default_rng(pad)
    x, w = rng.integers(-3, 4, (11, 3, 4)).astype("f4"), rng.integers(-3, 4, (3, 4, 5)).astype("f4")
    go = rng.integers(-3, 4, (11 - 2 + 2 * pad, 3, 5)).astype("f4")
    with limits(Limits(200, 150, 600)):
        lazy = convgrad.dask.conv_tbc_backward(da.from_array(go, chunks=2), da.from_array(x, chunks=3), w, pad=pad)
        assert lazy.input.npartitions > 3
        assert_same(computed(lazy), convgrad.conv_tbc_backward(go, x, w, pad=pad))


@pytest.mark.parametrize(
    ("dtype", "math", "product"),
    [
        ("float64", "keep", "cpu"), ("float32", "keep", "A2"), ("float32", "hf32", "A2"), ("float32", "hf32", "950"),
        ("float32", "fp16", "910"), ("float16", "keep", "310P"), ("bfloat16", "keep", "A3"),
        ("bfloat16", "fp16", "cpu"), ("float8_e4m3fn", "keep", "cpu"), ("float8_e5m2", "keep", "cpu"),
        ("hifloat8", "keep", "cpu"), ("hifloat8", "keep", "950"),
    ],
)  # fmt: skip
def test_every_dtype_and_product(dtype, math, product):
    """Operands are rounded as in one call, sums stay in the accumulator across blocks, results are rounded once."""
    rng = np.random.default_rng(5)
    shapes = [(6, 4, 6, 6), (6, 4, 6, 6), (4, 4, 3, 3)]
    # Eighths: exact in float32 and in every sum; most are rounded by the 8-bit dtypes, and sums by all short ones.
    eager = [Tensor(rng.integers(-16, 17, s) / 8, dtype) for s in shapes]
    lazy = [convgrad.dask.Tensor(da.from_array(t.data, chunks=3), dtype) for t in eager]
    options = {"padding": 1, "math": math, "product": product}
    if (dtype, product) == ("hifloat8", "950"):  # that product takes it in no other way
        options |= {"transposed": True, "output_mask": (True, False, False)}
    expected = convgrad.conv_backward(*eager, **options)
    with limits(SMALL):
        gradients = convgrad.dask.conv_backward(*lazy, **options)
        assert gradients.input.shape == (6, 4, 6, 6)
        assert [stored(g) for g in computed(gradients)] == [stored(g) for g in expected]


def test_partial_sums_are_not_rounded_to_the_dtype():
    """1000 ones in bfloat16: partial sums rounded to 8 bits on the way would stick below 512 or drift."""
    go = da.ones((1000, 1, 1), chunks=7, dtype=rounding.storage("bfloat16"))
    with limits(Limits(40, 40, 40)):
        gradients = computed(convgrad.dask.conv_backward(go, go, go[:1]))
    assert [float(g.ravel()[0]) for g in gradients] == [1.0, 1000.0, 1000.0]


def test_one_block_has_the_bits_of_one_call():
    """A problem that is not cut runs exactly as the functional call does."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((4, 8, 13, 13), "f4"), rng.standard_normal((6, 8, 3, 3), "f4")
    go = rng.standard_normal((4, 6, 6, 6), "f4")
    eager = convgrad.conv_backward(go, x, w, stride=2)
    lazy = convgrad.dask.conv_backward(*(da.from_array(t, chunks=4) for t in (go, x, w)), stride=2)
    assert [stored(g) for g in computed(lazy)] == [stored(g) for g in eager]


def test_same_bits_for_any_chunking_scheduler_and_order(monkeypatch):
    """Chunks of 2 or 5, one thread or four, tasks in a shuffled order, twice: the same bytes."""
    expected = [stored(g) for g in computed(random_problem(2))]
    assert [stored(g) for g in computed(random_problem(5))] == expected
    threaded = dask.compute(*random_problem(3), scheduler="threads", num_workers=4)
    assert [stored(g) for g in threaded] == expected
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        seen: list[object] = []

        def shuffled(graph, *args, rng=rng, seen=seen, **kwargs):
            places = rng.permutation(len(graph))
            seen.append(tuple(places[:4]))
            return {key: int(place) for key, place in zip(graph, places, strict=True)}

        monkeypatch.setattr("dask.local.order", shuffled)
        again = dask.compute(*random_problem(2), scheduler="threads", num_workers=2)
        assert seen and [stored(g) for g in again] == expected


def test_nan_spreads_as_in_one_call():
    """Blocks and halos add no ties: a NaN reaches the same cells."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(-3, 4, (2, 2, 9, 9)).astype("f4"), rng.integers(-3, 4, (2, 2, 3, 3)).astype("f4")
    go = rng.integers(-3, 4, (2, 2, 5, 5)).astype("f4")
    x[1, 0, 4, 4] = go[0, 1, 2, 2] = np.nan
    with limits(SMALL):
        lazy = convgrad.dask.conv_backward(da.from_array(go, chunks=2), da.from_array(x, chunks=3), w,
                                           stride=2, padding=1)  # fmt: skip
        assert_same(computed(lazy), convgrad.conv_backward(go, x, w, stride=2, padding=1))


@pytest.mark.parametrize("shapes", [((0, 3, 4), (0, 2, 4), (3, 2, 1)), ((2, 0, 4), (2, 2, 4), (0, 2, 1)),
                                    ((2, 3, 4), (2, 0, 4), (3, 0, 1)), ((2, 3, 5), (2, 2, 4), (3, 2, 0))])
def test_empty_operands(shapes):
    """As in one call: zeros, and the sum of a grad_output that has elements."""
    eager = [np.ones(s, "f4") for s in shapes]
    assert_same(computed(convgrad.dask.conv_backward(*map(da.from_array, eager))), convgrad.conv_backward(*eager))


def test_empty_channels_of_tbc_still_sum_the_bias():
    """TBC sums grad_output even where there are no input channels."""
    eager = [np.ones((4, 2, 3), "f4"), np.ones((4, 2, 0), "f4"), np.ones((1, 0, 3), "f4")]
    expected = convgrad.conv_tbc_backward(*eager)
    assert expected.bias.tolist() == [8, 8, 8]
    assert_same(computed(convgrad.dask.conv_tbc_backward(*map(da.from_array, eager))), expected)


# ---- before anything runs ------------------------------------------------------------------------------------


def untouchable(shape, dtype="f4", chunks=2):
    """An array none of whose chunks may ever be computed."""
    def fail(*args, **kwargs):
        raise AssertionError("a task ran")

    return da.map_blocks(fail, da.zeros(shape, chunks=chunks, dtype=dtype), dtype=dtype, meta=np.empty((), dtype))


def test_shapes_and_dtypes_are_known_without_computing():
    """A call builds a graph and touches no data."""
    go, x, w = untouchable((4, 6, 5)), untouchable((4, 2, 7)), untouchable((6, 2, 3))
    g = convgrad.dask.conv_backward(go, x, w)
    assert [(a.shape, a.dtype) for a in g] == [((4, 2, 7), "f4"), ((6, 2, 3), "f4"), ((6,), "f4")]


@pytest.mark.parametrize(
    ("go", "x", "w", "options"),
    [
        ((4, 6, 5), (4, 2, 8), (6, 2, 3), {}),
        ((3, 6, 5), (4, 2, 7), (6, 2, 3), {}),
        ((4, 6, 5), (4, 2, 7), (6, 3, 3), {}),
        ((4, 6, 5), (4, 2, 7), (6, 2, 3), {"groups": 4}),
        ((4, 6, 5), (4, 2, 7), (6, 2, 3), {"math": "fp16", "product": "A2", "stride": 0}),
        ((4, 6, 5), (4, 2, 7), (6, 2, 3), {"product": "atari"}),
    ],
)
def test_refusals_are_those_of_the_functional_call(go, x, w, options):
    """Mismatched arrays and broken rules raise at once, with the same rule, status and words."""
    with pytest.raises(ConvGradError) as eager:
        convgrad.conv_backward(*(np.zeros(s, "f4") for s in (go, x, w)), **options)
    with pytest.raises(ConvGradError) as lazy:
        convgrad.dask.conv_backward(*map(untouchable, (go, x, w)), **options)
    assert (str(lazy.value), lazy.value.rule, lazy.value.status) == (
        str(eager.value), eager.value.rule, eager.value.status)  # fmt: skip


def test_unknown_chunk_sizes_are_refused():
    """nan in the chunks: no blocks can be cut; the error names the operand, the axis and the way out."""
    x = da.ones((4, 2, 7), chunks=2, dtype="f4")
    unknown = x[da.ones(4, chunks=2) > 0]
    with pytest.raises(ConvGradError, match=r"input has unknown chunk sizes \(nan\) along axis 0.*compute_chunk_sizes"):
        convgrad.dask.conv_backward(untouchable((4, 6, 5)), unknown, untouchable((6, 2, 3)))


def test_chunks_that_lie_are_refused_by_name():
    """A chunk of another shape than its array promised is an error that names both, not a wrong gradient."""
    x = da.map_blocks(lambda b: b[:1], da.ones((4, 2, 7), chunks=(2, 2, 7), dtype="f4"), dtype="f4")
    ones = da.ones((4, 6, 5), dtype="f4"), x, da.ones((6, 2, 3), dtype="f4")
    with limits(Limits(400, 4000, 4000)):
        gradients = convgrad.dask.conv_backward(*ones)
    told = r"input: a chunk of \(1, 2, 7\) float32 came where .* promised \(2, 2, 7\)"
    with pytest.raises(ConvGradError, match=told):
        gradients.weight.compute(scheduler="sync")


@pytest.mark.parametrize("options", [{"out": (None, None, None)}, {"threads": 0}, {"threads": "two"}])
def test_what_lazy_gradients_cannot_do(options):
    """Buffers cannot be written lazily; threads are counted from one."""
    with pytest.raises(ConvGradError, match=next(iter(options))):
        convgrad.dask.conv_backward(
            untouchable((4, 6, 5)), untouchable((4, 2, 7)), untouchable((6, 2, 3)), **options)


@pytest.mark.filterwarnings("error::convgrad.dask.Rechunked")
def test_rechunking_is_told_and_avoidable():
    """Other chunks than the blocks' warn with the axis and the reason; `chunks` gives those that do not."""
    line = "conv n6 c4>6 i12x10 k3x3 s2 p1 g2"
    rng = np.random.default_rng(7)
    arrays = {"grad_output": (6, 6, 6, 5), "input": (6, 4, 12, 10), "weight": (6, 2, 3, 3)}
    options = {"stride": 2, "padding": 1, "groups": 2}
    with limits(Limits(1500, 200, 4000)):
        chunks = convgrad.dask.chunks(line)
        fitting = [da.from_array(rng.standard_normal(s), chunks=chunks[n]).astype("f4") for n, s in arrays.items()]
        convgrad.dask.conv_backward(*fitting, **options)
        with pytest.warns(convgrad.dask.Rechunked, match=r"input is rechunked \(axis 0: .* -> .*same bits") as told:
            convgrad.dask.conv_backward(fitting[0], fitting[1].rechunk((2, 4, 12, 10)), fitting[2], **options)
    assert told[0].filename == __file__


# ---- neighbours ----------------------------------------------------------------------------------------------


def test_importing_convgrad_does_not_import_dask():
    """dask is an extra: only `convgrad.dask` needs it; the partition and the planning page do not."""
    code = "import sys, convgrad, convgrad.core.partition, convgrad.lab.scaleout; print('dask' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_task_has_its_share_of_the_cores(monkeypatch):
    """Alone in the main thread: all cores. In a pool, where every core has a task: one."""
    monkeypatch.setattr(blocks, "available_cores", lambda: 8)
    assert blocks.cores() == 8
    seen = []
    thread = threading.Thread(target=lambda: seen.append(blocks.cores()))
    thread.start()
    thread.join()
    assert seen == [1]
    assert dask.delayed(blocks.cores)().compute(scheduler="threads") == 1


def test_threads_reach_the_engine(monkeypatch):
    """`threads=` is the number of engine threads of every task."""
    seen = []
    monkeypatch.setattr(blocks.engines, "run", lambda *args, threads: seen.append(threads))
    ones = da.ones((2, 2, 4), dtype="f4")
    convgrad.dask.conv_backward(ones, ones, da.ones((2, 2, 1), dtype="f4"), threads=3).weight.compute()
    assert seen == [3]


def test_hifloat8_comes_back_as_a_tensor():
    """Codes NumPy has no dtype for stay a Tensor: lazily, computed, persisted."""
    ones = convgrad.dask.Tensor(da.from_array(Tensor(np.ones((2, 2, 4)), "hifloat8").data), "hifloat8")
    weight = Tensor(np.ones((2, 2, 1)), "hifloat8")
    lazy = convgrad.dask.conv_backward(ones, ones, weight).input
    (kept,) = dask.persist(lazy, scheduler="sync")
    for value in (lazy.compute(scheduler="sync"), kept.compute(scheduler="sync")):
        assert isinstance(value, Tensor) and value.dtype.name == "hifloat8"
        assert (value.values() == 2).all()
    with pytest.raises(ValueError, match="a lazy hifloat8 tensor holds uint8, not float32"):
        convgrad.dask.Tensor(da.ones(3, dtype="f4"), "hifloat8")


def test_the_algorithm_reaches_every_block():
    """Blocks are computed by the algorithm asked for: a plain problem in one block has the bits of one call."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 48, 28, 28), (48, 48, 3, 3)))
    for name in ("direct", "fast"):
        want = convgrad.conv_backward(x, x, w, padding=1, algorithm=name)
        got = convgrad.dask.conv_backward(da.from_array(x), x, w, padding=1, algorithm=name)
        assert np.array_equal(got.input.compute(), want.input), name
