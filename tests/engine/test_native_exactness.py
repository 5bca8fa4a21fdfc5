"""The library as Python loads it, driven by the exactness program on every instruction set."""

import os
import subprocess

import numpy as np
import pytest

import convgrad
import exactness_program
import native_problems
from convgrad.engines import library

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")

SETS = ("baseline", "avx2", "avx512", "avx512bf16", "neon")


def run(isa, *arguments):
    words, environment = [str(exactness_program.program()), *arguments], {**os.environ, "CONVGRAD_ISA": isa}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    if f"{isa}:" not in done.stdout:
        pytest.skip(f"this machine has no {isa}")


@pytest.mark.parametrize("isa", SETS)
def test_random_problems_of_every_size_and_stride(isa):
    """Log-uniform sizes, strides of either sign and zero, NaN in scratch memory: every path exact."""
    run(isa, "1500", "11")


@pytest.mark.parametrize("isa", SETS)
def test_every_path_where_it_cuts_a_loop(isa):
    """On each cut of each axis and next to it, a vector away, and at three parts and a bit: every path exact."""
    run(isa, "cuts", "2e4")


@pytest.mark.parametrize("length", [1543, 1544, 1545, 1552, 1600, 1608, 3 * 1544 + 8, 40000, 40008])
def test_long_lines_of_few_channels(length):
    """A long line is cut into whole vectors: every pixel is counted once."""
    ones = np.ones((1, 2, length), np.float32)
    weight = convgrad.conv_backward(ones, ones, np.ones((2, 2, 1), np.float32)).weight
    assert np.array_equal(weight, np.full((2, 2, 1), length))


def test_long_lines_of_groups_with_a_window():
    """The same with a window, padding and groups: ones under ones count the cells each tap meets."""
    ones = np.ones((1, 132, 846), np.float32)
    weight = convgrad.conv_backward(np.ones((1, 48, 846), np.float32), ones, np.ones((48, 33, 7), np.float32),
                                    padding=3, groups=4).weight  # fmt: skip
    assert np.array_equal(weight, np.broadcast_to(846 - np.abs(np.arange(7) - 3), (48, 33, 7)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, 4])
def test_weights_with_a_negative_stride(axis, dtype):
    """Weights stored backwards along any axis are the same weights, in three dimensions at stride two."""
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(0)
    shapes = ((1, 8, 6, 6, 6), (1, 4, 11, 11, 11), (8, 4, 7, 7, 7))
    g, x, w = (rng.integers(-3, 4, shape).astype(kind) for shape in shapes)
    flipped = np.flip(np.ascontiguousarray(np.flip(w, axis)), axis)
    got, want = (convgrad.conv_backward(g, x, weight, stride=2, padding=3) for weight in (flipped, w))
    assert np.array_equal(got.input, want.input) and np.array_equal(got.weight, want.weight)


@pytest.mark.parametrize("line", native_problems.LINES)
def test_bits_do_not_depend_on_what_scratch_memory_held(line):
    """NaN in memory that a task reads without having written it would send the call to the plain path: other bits."""
    made = native_problems.problem(line)
    numbers = np.random.default_rng(3)
    arrays = native_problems.operands(made, numbers.standard_normal)
    clean = native_problems.native_results(made, arrays)
    library.library().cg_check_scratch(1)
    try:
        spoiled = native_problems.native_results(made, arrays)
    finally:
        library.library().cg_check_scratch(0)
    assert all(np.array_equal(spoiled[result], clean[result]) for result in clean)
