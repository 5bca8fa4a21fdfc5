"""Problems for the tests of the native engine: one line each, and why it is there; tensors; every path."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np

from convgrad.core import dtypes, rounding
from convgrad.core.geometry import Contraction
from convgrad.core.plan import Result
from convgrad.core.request import Request
from convgrad.engines import library, native, problem_struct, reference
from convgrad.functional import plan

# Sizes that leave tails in every blocking: rows, columns, channels, panels, bands. Each line is kept in the folder of
# the path it was written for, with its reason; tests try every line on every path that accepts it.
PATH_FOLDERS = Path(__file__).parents[2] / "native/engine/paths"
LINES = tuple(
    line.split("#")[0].strip()
    for file in sorted(PATH_FOLDERS.glob("*/problems.txt"))
    for line in file.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)
LAYOUTS = ("contiguous", "channels last", "batch inside", "every second", "reversed", "any")
PATHS = range(1, len(library.path_names()) if library.available() else 1)
EXACT_PATHS = tuple(path for path in PATHS if library.library().cg_path_is_exact(path))
"""Small integers leave no rounding there; the transforms of others round."""


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
    tensors = [*arrays, results[step.result]]
    image = problem_struct.fill(problem_struct.pack(made, tensors), [64] * len(tensors))
    memory = (ctypes.c_char * len(image)).from_buffer(image)
    return bool(library.library().cg_path_accepts(ctypes.addressof(memory), number, path))


def native_results(made, arrays, layout="contiguous", **options):
    results = empty_results(made, layout)
    native.run(made, *arrays, results, **options)
    return results


def reference_results(made, arrays):
    results = empty_results(made)
    reference.run(made, *arrays, results)
    return results
