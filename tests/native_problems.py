"""Problems for the tests of the native engine: one line each, and why it is there; tensors; every path."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np

from convgrad.core import dtypes, rounding
from convgrad.core.geometry import Contraction
from convgrad.core.plan import Result
from convgrad.core.request import Request
from convgrad.engines import native, reference
from convgrad.functional import plan

# Sizes that leave tails in every blocking: rows, columns, channels, panels, bands.
LINES = (
    "conv n2 c5>7 i9x11 k3x3 s1 p1 d1 g1 fp32",  # odd everything
    "conv n1 c16>24 i20x20 k3x3 s1 p1 d1 g1 fp32",  # whole panels
    "conv n2 c3>8 i21x19 k7x7 s2 p3 d1 g1 fp32",  # a stem: three channels, stride residues
    "conv n3 c20>33 i6x6 k1x1 s1 p0 d1 g1 fp32",  # a plain matrix product
    "conv n2 c8>8 i13x12 k1x1 s3 p0 d1 g1 fp32",  # cells no tap reaches
    "conv n2 c12>8 i14x15 k3x2 s2x3 p2x1 d2x1 g4 fp32",  # few channels per group
    "conv n4 c32>32 i24x24 k3x3 s1 p1 d1 g8 fp32",  # ... enough blocks for several groups at once
    "conv n8 c24>40 i21x24 k3x2 s2x1 p1 d1 g8 fp32",  # ... with odd channels and residues
    "conv n6 c22>22 i24x24 k3x3 s1 p1 d1 g11 fp32",  # ... of which a last task has fewer
    "conv n2 c24>24 i9x29 k5x4 s1 p2 d1 g6 fp32",  # four channels per group: more than three taps, cells that overlap
    "conv n2 c40>40 i11x37 k3x3 s2 p1 d1 g10 fp32",  # ... with residues
    "conv n1 c68>68 i5x26 k3x3 s1 p1 d1 g17 fp32",  # ... with several vectors of channels at an edge
    "tconv n2 c16>16 i8x27 k3x5 s1x2 p1x2 d2x1 g8 fp32",  # two channels per group: taps that do not slide
    "conv n2 c20>20 i140 k7 s1 p12 d4 g10 fp32",
    "conv n3 c10>7 i19x24 k3x3 s1 p1 d1 g1 fp32",  # few output channels, lines of whole vectors
    "conv n2 c20>22 i12x29 k3x3 s1 p1 d1 g2 fp32",  # ... in three parts
    "conv n2 c3>5 i2x1701 k2x3 s1 p1 d1 g1 fp32",  # ... and lines longer than a block
    "conv n1 c4>4 i5x6x7 k2x3x2 s2x1x3 p1 d1x2x1 g2 fp32",  # three axes, all different
    "conv n9 c18>20 i4x3 k3x3 s1 p1 d1 g1 fp32",  # small planes: images side by side, weights read in place
    "conv n16 c20>26 i7x7 k3x3 s1 p1 d1 g1 fp32",  # the same with packed weights
    "conv n8 c21>18 i9x8 k3x3 s2 p1 d1 g1 fp32",  # small planes with residues
    "conv n10 c16>5 i3x4x4 k2x3x3 s1 p1 d1x1x2 g1 fp32",
    "conv n2 c6>10 i300 k9 s1 p4 d1 g2 fp32",  # one axis
    "conv n1 c3>5 i900 k2 s1 p0 d512 g1 fp32",  # wide dilation
    "conv n1 c2>2 i3x3 k3x3 s7x5 p2 d1 g1 fp32",  # strides beyond the extent
    "tconv n2 c6>5 i7x6 k4x4 s2 p1 d1 g1 fp32",  # transposed: fine and coarse change places
    "tconv n2 c40>24 i8x16 k2x2 s2 p0 d1 g1 fp32",  # planes that are whole pairs of cache lines
    "conv n2 c50>50 i11x12 k4x4 s2 p1 d1 g1 fp32",  # weights of four residues, packed by several tasks
    "tconv n1 c8>8 i9x5 k3x3 s3x1 p1x0 d1x2 g4 fp32",
    "conv n2 c19>19 i17x23 k3x3 s1 p1 d1 g19 fp32",  # depthwise, square window
    "conv n2 c16>16 i18x20 k5x5 s1 p2 d1 g16 fp32",
    "conv n1 c24>24 i21x9 k7x7 s1 p3 d1 g24 fp32",
    "conv n11 c33>33 i21x22 k5x5 s1 p2 d1 g33 fp32",  # depthwise: blocks of unequal numbers of images
    "conv n2 c16>16 i19x21 k3x3 s2 p1 d1 g16 fp32",  # depthwise with residues
    "conv n1 c8>8 i16x33 k4x3 s1 p2 d2x3 g8 fp32",  # depthwise, dilated: no neighbouring rows
    "conv n1 c9>9 i20x24 k31x31 s1 p15 d1 g9 fp32",  # depthwise, wide window
    "conv n1 c16>16 i6x40 k3x17 s1 p1x8 d1 g16 fp32",  # ... that whole cells of a row see all of
    "conv n1 c8>8 i6x7x8 k3x3x3 s1 p1 d1 g8 fp32",
    "tconv n1 c16>16 i8x9 k3x3 s2 p1 d1 g16 fp32",
    "tbc n3 c10>12 i40 k5 p2 fp32",
    "conv n2 c2>3 i3x4x5 k1x1x1 s1 p0 d1 g1 fp32",  # a window of one: the lines of a volume are one line
    "conv n2 c4>6 i3x1x5 k1x1x1 s1 p0 d1 g2 fp32",
    "conv n1 c2>3 i6x4x5 k3x1x1 s1 p1x0x0 d1 g1 fp32",  # ... of a plane only
    "conv n1 c1>2 i33x67 k1x1 s1 p0 d1 g1 fp32",  # ... and longer than the plain path sums at once
    "conv n11 c1>9 i7x7 k1x1 s1 p0 d1 g1 fp32",  # ... with one channel: images follow each other in its tile
    "conv n11 c199>9 i7x7 k1x1 s1 p0 d1 g1 fp32",  # ... with many: planes in one run, tiles of unequal size
)
LAYOUTS = ("contiguous", "channels last", "batch inside", "every second", "reversed", "any")
PATHS = range(1, len(native.path_names()) if native.available() else 1)


def problem(line: str, dtype: str = "float32", **changes):
    """The plan of a line, all gradients wanted, in a dtype."""
    word = dtypes.find(dtype).word
    return plan(replace(Request.parse(line.replace("fp32", word)), **changes))


def spread(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values with other strides."""
    if layout == "channels last":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if layout == "batch inside":
        order = (*range(2, array.ndim), 0, 1)
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    if layout == "every second":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if layout == "any":
        return _any_strides(array)
    return array


def _any_strides(array: np.ndarray) -> np.ndarray:
    """Axes in any order, some backwards, some with gaps: chosen by the shape, so that a failure repeats."""
    rng = np.random.default_rng(array.shape)
    order = rng.permutation(array.ndim)
    gaps = rng.integers(1, 4, array.ndim)
    room = np.zeros([array.shape[a] * gaps[a] for a in order], array.dtype).transpose(np.argsort(order))
    starts = rng.integers(0, gaps)
    view = room[tuple(slice(int(start), None, int(gap)) for start, gap in zip(starts, gaps, strict=True))]
    view = view[tuple(slice(None, None, int(sign)) for sign in rng.choice([1, -1], array.ndim))]
    view[...] = array
    return view


def operands(made, fill, layout: str = "contiguous"):
    """fine, coarse and weight of a plan; `fill(shape)` gives numbers."""
    r = made.problem.request
    fine, coarse = (r.grad_output, r.input) if made.problem.transposed else (r.input, r.grad_output)
    stored = [rounding.store(dtypes.find(spec.dtype), fill(spec.shape)) for spec in (fine, coarse, r.weight)]
    return [spread(array, layout) for array in stored]


def empty_results(made, layout: str = "contiguous"):
    """Buffers full of a value no gradient here has."""
    r = made.problem.request
    specs = {Result.GRAD_INPUT: r.grad_input, Result.GRAD_WEIGHT: r.grad_weight, Result.GRAD_BIAS: r.grad_bias}
    buffers = {}
    for step in made.steps:
        shape = specs[step.result].shape
        array = rounding.store(dtypes.find(step.stored_as), np.full(shape, -13.0))
        buffers[step.result] = spread(array, layout) if array.ndim > 1 else array
    return buffers


def only(made, step):
    """The plan with one step alone: paths are forced per contraction."""
    return replace(made, steps=(step,), paths=(), workspace_bytes=0)


def accepted(made, arrays, results, path: int) -> bool:
    """Whether the engine's path takes this one-step plan for tensors of these strides."""
    (step,) = made.steps
    number = {Contraction.TO_FINE: 0, Contraction.TO_COARSE: 1, Contraction.TO_WEIGHT: 2}[step.contraction]
    image = bytearray(native._template(made, [*arrays, results[step.result]], 0).image)
    for place in native._template(made, [*arrays, results[step.result]], 0).places:
        native._ADDRESS.pack_into(image, place, 64)
    memory = (ctypes.c_char * len(image)).from_buffer(image)
    return bool(native.library().cg_path_accepts(ctypes.addressof(memory), number, path))


def native_results(made, arrays, layout="contiguous", **options):
    results = empty_results(made, layout)
    native.run(made, *arrays, results, **options)
    return results


def reference_results(made, arrays):
    results = empty_results(made)
    reference.run(made, *arrays, results)
    return results
