"""Problems of dask arrays, and blocks small enough to cut them."""

from contextlib import contextmanager

import dask.array as da
import numpy as np

import convgrad
import convgrad.dask
from convgrad import Tensor
from convgrad.core import partition
from convgrad.core.partition import Limits


@contextmanager
def limits(chosen: Limits):
    """Blocks as small as the test's arrays."""
    before, partition.LIMITS = partition.LIMITS, chosen
    try:
        yield
    finally:
        partition.LIMITS = before


def stored(value):
    """The bytes of a result."""
    return value if value is None else (value.data if isinstance(value, Tensor) else value).tobytes()


def random_problem(chunks: int):
    """Random float32 operands whose sums are inexact: their last bits tell the order of summation."""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((6, 4, 12, 10), "f4"), rng.standard_normal((6, 2, 3, 3), "f4")
    go = rng.standard_normal((6, 6, 6, 5), "f4")
    lazy = (da.from_array(t, chunks=chunks) for t in (go, x, w))
    with limits(Limits(1500, 200, 4000)):
        return convgrad.dask.conv_backward(*lazy, stride=2, padding=1, groups=2)
