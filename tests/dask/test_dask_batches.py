"""Blocks cut along the batch: a sample's input gradient has the bits it has in one call."""

import warnings

import numpy as np
import pytest

da = pytest.importorskip("dask.array")

import convgrad  # noqa: E402
import convgrad.dask  # noqa: E402
from convgrad.core import dtypes, partition, rounding  # noqa: E402
from convgrad.core.request import Request  # noqa: E402

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
