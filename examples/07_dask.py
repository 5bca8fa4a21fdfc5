"""Gradients of arrays that need not fit in memory: lazy, in blocks, with the same bits on any number of workers."""

import sys

import dask
import dask.array as da
import numpy as np
from dask.diagnostics import ProgressBar

import convgrad
import convgrad.dask

# The problem in one line: its blocks follow from it alone.
line = "conv n16 c16>16 i256x256 k3x3 p1"
chunks = convgrad.dask.chunks(line)


def chunk_of(kind):
    """Stands for a read from disk: one chunk of small integers, made where it is needed."""

    def read(block, block_info=None):
        place = block_info[None]["chunk-location"]
        return np.random.default_rng([kind, *place]).integers(-2, 3, block.shape).astype("float32")

    return read


shape = (16, 16, 256, 256)
grad_output, images = (
    da.empty(shape, chunks=chunks[name], dtype="float32").map_blocks(chunk_of(kind), dtype="float32")
    for kind, name in enumerate(("grad_output", "input"))
)
weight = np.random.default_rng(9).integers(-2, 3, (16, 16, 3, 3)).astype("float32")

gradients = convgrad.dask.conv_backward(grad_output, images, weight, padding=1)
print("grad_input ", gradients.input.shape, "in", gradients.input.npartitions, "blocks")
print("grad_weight", gradients.weight.shape, "summed over", len(chunks["input"][0]), "leaves")

with ProgressBar(out=sys.stderr):
    wanted = gradients.weight, gradients.bias, gradients.input.sum(dtype="float64")
    grad_weight, grad_bias, total = dask.compute(*wanted)

whole = convgrad.conv_backward(grad_output.compute(), images.compute(), weight, padding=1)
print("equal to one call:", np.array_equal(grad_weight, whole.weight), np.array_equal(grad_bias, whole.bias),
      total == whole.input.sum(dtype="float64"))  # fmt: skip
