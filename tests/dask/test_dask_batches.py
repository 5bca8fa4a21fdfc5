"""Blocks cut along the batch: input gradients have the bits of one call; at level 3 all gradients do."""

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

da = pytest.importorskip("dask.array")

import dask  # noqa: E402

import convgrad  # noqa: E402
import convgrad.dask  # noqa: E402
import native_problems as problems  # noqa: E402
from convgrad.core import dtypes, partition, rounding  # noqa: E402
from convgrad.core.request import Request  # noqa: E402
from dask_problems import limits, stored  # noqa: E402

LINES = (
    "conv n9 c16>24 i40 k5 p2", "conv n7 c16>24 i14x14 k3x3 p1", "conv n7 c16>24 i14x14 k3x3 p1 alg=fast",
    "conv n5 c8>8 i14x14 k3x3 s2 p1 g8", "conv n5 c4>6 i4x8x8 k3x3x3 p1 g2", "tconv n6 c8>12 i7x9 k3x3 s2 p1 g4",
    "conv n6 c3>32 i2x8x8 k2x8x8 s2x8x8", "tbc n8 c8>12 i17 k3 p1",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("line", LINES)
def test_input_gradients_of_blocks_are_those_of_the_whole(line, dtype, monkeypatch):
    """Blocks of one, two and three samples, arrays chunked otherwise: the bits of one call on all of them."""
    r = Request.parse(f"{line} {dtypes.find(dtype).word}")
    made = convgrad.plan(r)
    g = made.problem.geometry
    numbers = np.random.default_rng(0)
    arrays = [rounding.store(dtypes.find(dtype), numbers.standard_normal(s.shape)) for s in
              (r.grad_output, r.input, r.weight)]  # fmt: skip
    whole = made.run(*arrays)
    coarse, fine = (np.prod([getattr(a, name) for a in g.axes]) for name in ("coarse", "fine"))
    cells = g.coarse_channels * coarse + g.fine_channels * fine
    item = 8 if dtype == "float64" else 4
    met = set()
    for samples in (1, 2, 3):
        monkeypatch.setattr(partition, "LIMITS", partition.Limits(data_bytes=int(cells) * item * samples))
        met.add(partition.blocks(partition.partition(made).batch))
        lazy = [da.from_array(a, chunks=tuple(max(1, -(-n // 2)) for n in a.shape)) for a in arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", convgrad.dask.Rechunked)
            if line.startswith("tbc"):
                found = convgrad.dask.conv_tbc_backward(*lazy, pad=r.pad)
            else:
                found = convgrad.dask.conv_backward(
                    *lazy, stride=r.stride, padding=r.padding, dilation=r.dilation, transposed=r.transposed,
                    output_padding=r.output_padding, groups=r.groups, algorithm=r.algorithm,
                )  # fmt: skip
        got = found.input.compute(scheduler="synchronous")
        assert np.array_equal(got.view(np.uint8), whole.input.view(np.uint8)), (samples, line)
    assert len(met) > 1


# ---- level 3 ---------------------------------------------------------------------------------------------------


def at_level_3(line, dtype, layout=None, seed=1):
    """The plan, its operands, and all gradients in one call."""
    r = Request.parse(f"{line} {dtypes.find(dtype).word} det=3")
    made, numbers = convgrad.plan(r), np.random.default_rng(seed)
    arrays = [rounding.store(dtypes.find(dtype), numbers.standard_normal(s.shape)) for s in
              (r.grad_output, r.input, r.weight)]  # fmt: skip
    if layout is not None:
        arrays = [problems.spread(a, layout) for a in arrays]
    whole = made.run(*([convgrad.Tensor(a, dtype) for a in arrays] if dtype == "hifloat8" else arrays))
    return made, arrays, whole


def lazily(made, arrays, chunks, **options):
    """The lazy gradients of arrays in such chunks; `chunks` tells those of a shape."""
    r = made.problem.request
    lazy = [da.from_array(a, chunks=chunks(a.shape)) for a in arrays]
    if r.input.dtype == "hifloat8":
        lazy = [convgrad.dask.Tensor(a, "hifloat8") for a in lazy]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", convgrad.dask.Rechunked)
        if made.problem.line.startswith("tbc"):
            return convgrad.dask.conv_tbc_backward(*lazy, pad=r.pad, deterministic=3, **options)
        return convgrad.dask.conv_backward(
            *lazy, stride=r.stride, padding=r.padding, dilation=r.dilation, transposed=r.transposed,
            output_padding=r.output_padding, groups=r.groups, product=r.product, conformance=r.conformance,
            algorithm=r.algorithm, output_mask=r.output_mask, deterministic=3, **options,
        )  # fmt: skip


def bytes_of_all(gradients, **how):
    found = dask.compute(*gradients, **how) if how else gradients
    return [None if a is None else stored(a) for a in found]


def sample_bytes(made):
    """Operands of one sample as the limits count them."""
    g = made.problem.geometry
    coarse, fine = (math.prod(getattr(a, name) for a in g.axes) for name in ("coarse", "fine"))
    return (g.coarse_channels * coarse + g.fine_channels * fine) * partition.item_bytes(made)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "hifloat8"])
@pytest.mark.parametrize("line", LINES)
def test_level_3_has_the_bits_of_one_call(line, dtype):
    """Blocks of any number of samples, limits below one sample and below the weight, arrays chunked along any axis: all
    three gradients of `convgrad.conv_backward` at level 3, bit for bit."""
    made, arrays, whole = at_level_3(line, dtype)
    wanted, batch = bytes_of_all(whole), made.problem.geometry.batch
    if dtype == "float32":
        usual = convgrad.plan(replace(made.problem.request, deterministic=0)).run(*arrays)
        assert not np.array_equal(usual.weight, whole.weight)
    numbers, met = np.random.default_rng(2), set()

    def uneven(shape):
        cuts = [sorted({0, n, *numbers.integers(0, n + 1, 2)}) for n in shape]
        return tuple(tuple(b - a for a, b in pairwise(c)) for c in cuts)

    for samples in (0.25, 1, 2, 3, 4, 5, batch):
        with limits(partition.Limits(int(sample_bytes(made) * samples), 64)):
            met.add(partition.partition(made).batch)
            for chunks in (uneven, lambda shape: shape):
                assert bytes_of_all(lazily(made, arrays, chunks), scheduler="sync") == wanted, (samples, line)
    assert met == {(*range(0, batch, run), batch) for run in (1, 2, 4, batch)}


@pytest.mark.parametrize("layout", problems.LAYOUTS)
def test_level_3_keeps_the_layout_of_a_sample(layout):
    """Chunks are computed where they lie: arrays of other strides have the bits of one call on them."""
    made, arrays, whole = at_level_3(LINES[1], "float32", layout)
    with limits(partition.Limits(2 * sample_bytes(made))):
        found = lazily(made, arrays, lambda shape: (1, *shape[1:]))
        assert bytes_of_all(found, scheduler="sync") == bytes_of_all(whole)


@pytest.mark.filterwarnings("ignore::convgrad.dask.Rechunked")
def test_level_3_on_any_scheduler():
    """Tasks side by side, engine threads of their own, parts computed elsewhere and summed by tree_sum: the same."""
    made, arrays, whole = at_level_3(LINES[1], "float32")
    wanted = bytes_of_all(whole)
    with limits(partition.Limits(2 * sample_bytes(made))):
        for chunks in (1, 3):
            found = lazily(made, arrays, lambda shape, n=chunks: (n, *shape[1:]), threads=2)
            assert bytes_of_all(found, scheduler="threads", num_workers=3) == wanted
        parts = []
        for part in (slice(0, 4), slice(4, 7)):
            g, x, w = (da.from_array(a) for a in (arrays[0][part], arrays[1][part], arrays[2]))
            parts.append(convgrad.dask.conv_backward(g, x, w, padding=1, deterministic=3).weight.compute())
    assert stored(convgrad.tree_sum(parts)) == wanted[1]


def test_level_3_of_winograd_sums():
    """A block goes about its samples as the whole problem does: the 950's own weight sums are its leaves."""
    made, arrays, whole = at_level_3("conv n3 c256>256 i12x12 k3x3 p1 on=950 as=runtime want=wb", "float32")
    assert made.winograd
    for samples in (1, 2):
        with limits(partition.Limits(samples * sample_bytes(made))):
            assert bytes_of_all(lazily(made, arrays, lambda s: s), scheduler="sync") == bytes_of_all(whole)


@pytest.mark.filterwarnings("error::convgrad.dask.Rechunked")
def test_chunks_of_level_3():
    """`chunks` of a line with det=3 gives nodes of the tree, whole samples; such arrays are not rechunked."""
    line = "conv n7 c16>24 i14x14 k3x3 p1 fp32 det=3"
    made, arrays, whole = at_level_3("conv n7 c16>24 i14x14 k3x3 p1", "float32")
    with limits(partition.Limits(3 * sample_bytes(made), 64)):
        chunks = convgrad.dask.chunks(line)
        assert chunks["input"] == ((2, 2, 2, 1), (16,), (14,), (14,)) and chunks["weight"] == ((24,), (16,), (3,), (3,))
        lazy = [da.from_array(a, chunks=chunks[n])
                for a, n in zip(arrays, ("grad_output", "input", "weight"), strict=True)]  # fmt: skip
        found = convgrad.dask.conv_backward(*lazy, padding=1, deterministic=3)
        assert bytes_of_all(found, scheduler="sync") == bytes_of_all(whole)


@pytest.mark.filterwarnings("ignore::convgrad.dask.Rechunked")
def test_level_3_without_elements():
    """No samples: zeros; no input channels: the bias is the tree of the samples' own."""
    numbers = np.random.default_rng(3)
    for shapes in (((5, 2, 9, 9), (5, 0, 9, 9), (2, 0, 1, 1)), ((0, 2, 3, 3), (0, 2, 3, 3), (2, 2, 1, 1))):
        arrays = [numbers.standard_normal(s).astype("f4") for s in shapes]
        found = convgrad.dask.conv_backward(*map(da.from_array, arrays), deterministic=3)
        assert bytes_of_all(found, scheduler="sync") == bytes_of_all(convgrad.conv_backward(*arrays, deterministic=3))


@pytest.mark.parametrize("value", [4, -1, 1.5, "3", None])
def test_other_levels_are_refused_by_name(value):
    """By both functions, before there is a graph; levels below 3 are level 0."""
    ones = da.ones((2, 2, 2), dtype="f4")
    for call in (convgrad.dask.conv_backward, convgrad.dask.conv_tbc_backward):
        with pytest.raises((convgrad.ConvGradError, TypeError), match="deterministic"):
            call(ones, ones, ones[:1], deterministic=value)
    assert convgrad.dask.conv_backward(ones, ones, ones[:2, :, :1], deterministic=2).weight.compute().tolist() == [
        [[4.0], [4.0]], [[4.0], [4.0]]]  # fmt: skip
