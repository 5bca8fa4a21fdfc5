"""Every path of the native engine on every problem it accepts, against the reference engine."""

import ctypes

import numpy as np
import pytest

import convgrad
import native_problems as problems
from convgrad.core import dtypes, rounding
from convgrad.core.plan import Result
from convgrad.core.request import MATH_NAMES
from convgrad.engines import library, native, paths_of, problem_struct

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")


def values(result, made, step):
    return rounding.load(dtypes.find(step.stored_as), result)


def forced_runs(line, dtype, fill, layout="contiguous", threads=2):
    """Each gradient of a line on each exact path that accepts it: (path, step, native values, reference values)."""
    made = problems.problem(line, dtype)
    arrays = problems.operands(made, fill, layout)
    for step in made.steps:
        one = problems.only(made, step)
        want = values(problems.reference_results(one, arrays)[step.result], one, step)
        for path in problems.EXACT_PATHS:
            if step.contraction is None and path > 1:
                continue
            results = problems.empty_results(one, layout)
            if step.contraction is not None and not problems.accepted(one, arrays, results, path):
                continue
            native.run(one, *arrays, results, threads=threads, path=path)
            yield path, step, values(results[step.result], one, step), want


def integers(seed):
    rng = np.random.default_rng(seed)
    return lambda shape: rng.integers(-3, 4, shape).astype(np.float64)


@pytest.mark.parametrize("line", problems.LINES)
def test_integers_agree_exactly_on_every_path(line):
    """Small integers leave no rounding: each path gives the reference's very numbers, whatever the strides."""
    for layout in ("contiguous", "channels last", "any"):
        for path, step, got, want in forced_runs(line, "float32", integers(1), layout):
            assert np.array_equal(got, want), (layout, library.path_names()[path], step.result)


@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
def test_a_window_in_parts_over_runs_of_pixels(layout):
    """A depthwise window too large for one task, summed over pixels in several: every part finds its place."""
    made = problems.problem("conv n1 c3>3 i70x70 k130x130 s1 p65 d1 g3 fp32")
    (one,) = (problems.only(made, step) for step in made.steps if step.result is Result.GRAD_WEIGHT)
    arrays = problems.operands(one, integers(7), layout)
    results = problems.empty_results(one, layout)
    native.run(one, *arrays, results, path=library.path_names().index("depthwise rows"))
    want = problems.reference_results(one, arrays)[Result.GRAD_WEIGHT]
    assert np.array_equal(results[Result.GRAD_WEIGHT], want)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "line",
    [
        "conv n3 c9>21 i17x19 k3x3 s1 p1 d1 g1 fp32",  # runs of pixels, several panels
        "conv n2 c12>8 i24x15 k3x2 s2x3 p2x1 d2x1 g4 fp32",  # groups
        "conv n40 c40>40 i9x10 k3x3 s1 p1 d1 g40 fp32",  # depthwise: whole planes, in more runs than one
        "conv n2 c40>40 i70x90 k3x3 s1 p1 d1 g40 fp32",  # ... in parts
        "tconv n3 c9>21 i17x19 k3x3 s1 p1 d1 g1 fp32",
    ],
)
def test_the_bias_beside_the_weights(line, dtype):
    """Asked for together with the weights, the bias is what it is alone, in two layouts."""
    made = problems.problem(line, dtype)
    (alone,) = (problems.only(made, step) for step in made.steps if step.result is Result.GRAD_BIAS)
    for layout in ("contiguous", "channels last"):
        arrays = problems.operands(made, integers(4), layout)
        together = problems.native_results(made, arrays, layout)[Result.GRAD_BIAS]
        assert np.array_equal(together, problems.native_results(alone, arrays, layout)[Result.GRAD_BIAS])
        assert np.array_equal(together, problems.reference_results(alone, arrays)[Result.GRAD_BIAS])


@pytest.mark.parametrize("layout", problems.LAYOUTS[2:])
@pytest.mark.parametrize("line", problems.LINES[::3])
def test_any_strides(line, layout):
    """Strided, permuted and reversed tensors are read and written in place."""
    for path, step, got, want in forced_runs(line, "float32", integers(2), layout):
        assert np.array_equal(got, want), (library.path_names()[path], step.result)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8"])
@pytest.mark.parametrize("line", problems.LINES[::4])
def test_every_dtype(line, dtype):
    """Operands are converted on the way in and results rounded once on the way out, whatever the strides."""
    for layout in ("contiguous", "any"):
        for path, step, got, want in forced_runs(line, dtype, integers(3), layout):
            assert np.array_equal(got, want, equal_nan=True), (layout, library.path_names()[path], step.result)


@pytest.mark.parametrize("line", problems.LINES)
def test_sums_are_as_close_as_float32_allows(line):
    """Random numbers: an error of a few float32 roundings of the summed magnitudes, never more."""
    rng = np.random.default_rng(5)
    made = problems.problem(line)
    arrays = problems.operands(made, lambda shape: rng.standard_normal(shape))
    sizes = [np.abs(a) for a in arrays]
    for step in made.steps:
        one = problems.only(made, step)
        exact, size = (problems.reference_results(one, a)[step.result] for a in (arrays, sizes))
        got = problems.native_results(one, arrays)[step.result]
        assert np.all(np.abs(got - exact) <= 1e-6 * size), step.result


@pytest.mark.parametrize(
    "line",
    [
        "conv n2 c64>64 i18x18 k3x3 s1 p1 d1 g1 fp32",  # tiles of four rows, read directly
        "conv n4 c96>90 i7x7 k3x3 s1 p1 d1 g1 fp32",  # images side by side; few pixels
        "conv n3 c230>250 i12x12 k1x1 s1 p0 d1 g1 fp32",  # packed panels
        "conv n4 c24>6 i64x61 k3x3 s1 p1 d1 g1 fp32",  # few output channels
        "conv n2 c8>8 i28x28 k31x31 s1 p15 d1 g8 fp32",  # a wide depthwise window
    ],
)
@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
def test_no_sum_is_one_long_chain(line, layout):
    """A chain of L multiply-adds errs by about sqrt(L/2) roundings of 2.5e-8: chains of 72, a few dozen of them, stay
    below 2.1e-7 where one of 240 would not."""
    rng = np.random.default_rng(8)
    made = problems.problem(line)
    arrays = problems.operands(made, lambda shape: rng.standard_normal(shape), layout)
    for step in made.steps:
        if step.contraction is None or ("g8" in line and step.result is Result.GRAD_INPUT):
            continue  # the wide window of a data gradient is summed row after row
        one = problems.only(made, step)
        exact = problems.reference_results(one, arrays)[step.result].astype(np.float64)
        error = problems.native_results(one, arrays, layout)[step.result] - exact
        assert np.linalg.norm(error) < 2.1e-7 * np.linalg.norm(exact), step.result


def assert_holes_spread_as_in_the_reference(made, hole, layout="contiguous"):
    rng = np.random.default_rng(6)
    for spoiled in range(3):
        fill = problems.operands(made, lambda shape: rng.integers(1, 4, shape).astype(float), layout)
        arrays = [a.copy(order="K") for a in fill]
        arrays[spoiled].flat[rng.integers(arrays[spoiled].size)] = hole
        for step in made.steps:
            one = problems.only(made, step)
            want = problems.reference_results(one, arrays)[step.result]
            for path in problems.PATHS:
                results = problems.empty_results(one, layout)
                if step.contraction is None or not problems.accepted(one, arrays, results, path):
                    continue
                native.run(one, *arrays, results, path=path)
                got = results[step.result]
                assert np.array_equal(np.isnan(got), np.isnan(want)), (library.path_names()[path], step.result)
                finite = np.isfinite(want)
                if path in problems.EXACT_PATHS:
                    assert np.array_equal(got[finite], want[finite])
                else:  # a rounding away, then rounded to the operands' format
                    apart = 1e-5 if step.rounded_to == "float32" else 1e-3
                    assert np.allclose(got[finite], want[finite], rtol=apart, atol=1e-3)


@pytest.mark.parametrize("hole", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("line", problems.LINES)
def test_not_a_number_reaches_only_what_the_law_ties(line, hole):
    """One NaN or inf in each operand in turn: on each path the same results are spoiled as in the reference."""
    assert_holes_spread_as_in_the_reference(problems.problem(line), hole)


@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
@pytest.mark.parametrize("line", problems.LINES)
def test_hf32_keeps_a_nan_that_rounding_would_make_zero(line, layout):
    """A NaN with every bit set, plus half a unit, is zero: in HF32 too it spoils what the law says."""
    all_ones = np.array(0x7FFFFFFF, np.uint32).view(np.float32)
    made = problems.problem(line, math=MATH_NAMES.index("hf32"))
    assert_holes_spread_as_in_the_reference(made, all_ones, layout)


@pytest.mark.parametrize("math, number", [("hf32", np.finfo(np.float32).max), ("fp16", 65520.0), ("fp16", -65520.0)])
@pytest.mark.parametrize("line", problems.LINES)
def test_a_number_that_rounding_makes_infinite_is_infinite(line, math, number):
    """Finite as stored, inf as operand: it spoils what inf would, padding included."""
    assert_holes_spread_as_in_the_reference(problems.problem(line, math=MATH_NAMES.index(math)), number)


def test_a_path_that_cannot_take_a_problem_says_so():
    """Forcing the depthwise path on a dense problem is refused in words, nothing is written, nothing planned."""
    made = problems.problem("conv n2 c5>7 i9x11 k3x3 s1 p1 d1 g1 fp32")
    results = problems.empty_results(made)
    arrays = problems.operands(made, integers(4))
    with pytest.raises(AssertionError, match="does not accept"):
        native.run(made, *arrays, results, path=library.path_names().index("depthwise rows"))
    assert all(np.all(r == -13) for r in results.values())
    tensors = [*arrays, *results.values()]
    forced = problem_struct.pack(made, tensors, library.path_names().index("depthwise rows"))
    image = problem_struct.fill(forced, [64] * len(tensors))
    memory = (ctypes.c_char * len(image)).from_buffer(image)
    assert library.library().cg_workspace_bytes(ctypes.addressof(memory)) == -1


@pytest.mark.parametrize(
    ("line", "contiguous", "channels_last"),
    [
        ("conv n2 c16>16 i30x30 k3x3 s1 p1 d1 g16 fp32", "depthwise rows", "depthwise channels"),
        ("conv n2 c32>32 i30x30 k3x3 s1 p1 d1 g8 fp32", "gemm direct", "grouped channels"),
    ],
)
def test_the_path_that_really_runs(line, contiguous, channels_last):
    """A plan names the paths of contiguous tensors; paths_of tells those of the tensors at hand."""
    made = problems.problem(line)
    for layout, name in (("contiguous", contiguous), ("channels last", channels_last)):
        arrays, results = problems.operands(made, integers(1), layout), problems.empty_results(made, layout)
        assert paths_of(made, *arrays, results)[0] == name
    assert made.paths[0] == contiguous


def test_plans_name_their_paths():
    """A plan prints the path of each gradient and the workspace the engine will hold."""
    made = problems.problem("conv n2 c16>16 i56x56 k3x3 s1 p1 d1 g16 fp32")
    assert made.paths == ("depthwise rows", "depthwise rows", "line sums")
    assert "path: depthwise rows" in str(made) and made.workspace_bytes > 0


@pytest.mark.parametrize(
    "line",
    [
        "conv n64 c512>512 i56x56 k3x3 s1 p1 d1 g1 fp32",
        "conv n1 c1>1 i2000x2000 k511x511 s1 p255 d1 g1 fp32",
        "conv n1 c65536>64 i7x7 k3x3 s1 p1 d1 g1 fp32",
        "conv n1 c64>65536 i7x7 k3x3 s1 p1 d1 g1 fp32",
        "conv n1 c3>8 i4000x4000 k3x3 s63 p1 d1000 g1 fp32",
        "conv n1 c8>8 i1000000 k3 s1 p0 d100000 g8 fp32",
        "conv n8 c4096>4096 i14x14 k31x31 s1 p15 d1 g4096 fp16",
        "conv n1 c2>2 i4194304 k4194305 s1 p2097152 d1 g2 fp32",
        "tconv n22 c774>206 i4x93 k4x3 s1 p2x3 d7x32 want=x",  # images whose halo is most of a tile
        "tconv n29 c7856>3888 i28x174 k6x1 s1x2 p27x21 d9x31 g8 fp16 want=x",
        "conv n115 c1003>17 i32x12x1 k1x6x6 s32x21x1 p3x4x67 d5x1x21 want=x",  # planes of a few cells, all padded
        "conv n81 c242>757 i4x3x2 k2x3x3 s1x27x3 p4x2x6 d3x1x2 want=x",
    ],
)
def test_workspace_is_bounded(line):
    """Whatever the problem: 5 MiB shared and 4 MiB per thread hold every plan's workspace."""
    threads = library.default_threads()
    assert problems.problem(line).workspace_bytes <= (5 + 4 * threads) << 20


def test_bias_is_summed_before_the_operand_cast():
    """HF32 shortens operands; the bias gradient still sums the original grad_output."""
    made = problems.problem("conv n1 c2>2 i4x4 k1x1 s1 p0 d1 g1 fp32", math=3, product="A2")
    assert made.operand == "hf32"
    arrays = problems.operands(made, lambda shape: np.full(shape, 1 + 2.0**-20))
    assert np.all(problems.native_results(made, arrays)[Result.GRAD_BIAS] == np.float32(16 + 2.0**-16))


def wide_windows(seed, count):
    """Problems about the sizes and shares from which rows lie along another axis than the width."""
    rng = np.random.default_rng(seed)
    pick = lambda *choices: int(rng.choice(choices))  # noqa: E731
    for _ in range(count):
        rows, width = pick(31, 32, 33, 47, 63, 64, 65, 81, 129), pick(1, 2, 5, 7, 9, 12, 17)
        taps, stride, dilation = pick(1, 2, 3, 5), pick(1, 1, 1, 2), pick(1, 1, 2)
        wide = pick(2, 3, width, width + 2)
        pad = max(pick(0, 1, wide // 2), ((wide - 1) * dilation + 2 - width) // 2)  # at least one cell comes out
        word, g = ("conv", "tconv")[pick(0, 0, 1)], pick(1, 1, 2)
        axes = (f"i{rows}x{width} k{taps}x{wide} s1x{stride} p{taps // 2}x{pad} d1x{dilation}",
                f"i{rows}x2x{width} k{taps}x1x{wide} s1x1x{stride} p{taps // 2}x0x{pad} d1")[pick(0, 0, 1)]  # fmt: skip
        yield f"{word} n{pick(1, 2, 5)} c{g * pick(8, 9, 17)}>{g * pick(8, 11, 20)} {axes} g{g} fp32"


def test_windows_nearly_as_wide_as_the_plane():
    """Integers are exact where rows lie along the height or the depth, whatever the strides, after a large call."""
    large = problems.problem("conv n2 c64>64 i56x56 k3x3 s1 p1 d1 g1 fp32")
    problems.native_results(large, problems.operands(large, integers(3)))
    for number, line in enumerate(wide_windows(5, 60)):
        made = problems.problem(line, ("float32", "float16", "bfloat16")[number % 3])
        layout = ("contiguous", "channels last", "any")[number // 3 % 3]
        arrays = problems.operands(made, integers(number), layout)
        want, got = problems.reference_results(made, arrays), problems.native_results(made, arrays, layout, threads=2)
        for step in made.steps:
            assert np.array_equal(values(got[step.result], made, step), values(want[step.result], made, step)), line


def test_rows_lie_along_the_height_of_wide_windows():
    """A window wider than its plane has the very bits of the call with height and width exchanged."""
    rng = np.random.default_rng(1)
    g, x, w = (rng.standard_normal(s, np.float32) for s in ((2, 24, 40, 9), (2, 24, 40, 9), (24, 24, 5, 17)))
    turned = [np.ascontiguousarray(a.swapaxes(2, 3)) for a in (g, x, w)]
    one = convgrad.conv_backward(g, x, w, padding=(2, 8), output_mask=(True, False, False)).input
    other = convgrad.conv_backward(*turned, padding=(8, 2), output_mask=(True, False, False)).input
    assert np.array_equal(one, other.swapaxes(2, 3))
