"""Fewer multiplications: the Winograd paths of the engine and the attribute `algorithm` that chooses them."""

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convgrad
import native_problems as problems
from convgrad.core.plan import Result
from convgrad.core.request import Request
from convgrad.engines import library, problem_struct

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")
SUPPORT = str(Path(__file__).parents[1] / "support")
NAMES = library.path_names() if library.available() else ()
PATHS = {name: path for path, name in enumerate(NAMES) if name.startswith("winograd")}
UNIT = 2.0**-24
# Every mode of either gradient, with several blocks, items and groups in each.
LINES = (
    "conv n4 c48>40 i28x28 k3x3 s1 p1 d1 g1 fp32",  # weights stay; runs of blocks
    "conv n2 c256>300 i7x7 k3x3 s1 p1 d1 g1 fp32",  # tiles stay; shared tiles
    "conv n3 c70>130 i30x19 k3x3 s1 p1 d1 g1 fp32",
    "conv n2 c90>40 i14x15 k3x3 s1 p1 d1 g1 fp32",  # chunks of coarse channels that are no power of two
    "conv n1 c64>96 i33x40 k3x3 s1 p2 d2 g2 fp32",
    "conv n1 c20>24 i6x20x21 k3x3x3 s1 p1 d1 g1 fp32",
    "conv n1 c80>70 i7x9x10 k3x3x3 s1 p1 d1 g1 fp32",
    "tconv n2 c40>24 i16x17 k3x3 s1 p1 d1 g1 fp32",
    "conv n2 c40>30 i21x22 k5x5 s1 p2 d1 g1 fp32",
    "conv n2 c170>180 i8x9 k5x5 s1 p2 d1 g1 fp32",
    "conv n2 c40>56 i150 k3 s1 p1 d1 g1 fp32",  # lines: the same four modes
    "conv n3 c300>280 i70 k9 s1 p4 d1 g1 fp32",
    "conv n2 c90>70 i9x31 k1x7 s1 p0x3 d1 g1 fp32",
    "conv n1 c48>40 i33x6x7 k3x1x1 s1 p1x0x0 d1 g1 fp32",  # ... along the depth
    "conv n1 c40>72 i20x21 k7x7 s1 p3 d1 g1 fp32",  # ... summed over the taps of the height
)


def paths_of(line):
    """The paths that take a line, by name."""
    windows = [int(n) for n in line.split(" k")[1].split()[0].split("x")]
    is_square = windows[-2:] in ([3, 3], [5, 5])
    taps = next(w for w in reversed(windows) if w > 1)
    return [name for name in PATHS
            if ("line" in name) != is_square and (name != "winograd line 4" or taps <= 5)]


EVERY = [(line, name) for line in LINES for name in paths_of(line)]


def normal(seed):
    rng = np.random.default_rng(seed)
    return lambda shape: rng.standard_normal(shape)


def steps_of(line, dtype="float32"):
    """Each contraction of a line as a plan of its own."""
    made = problems.problem(line, dtype)
    return [problems.only(made, step) for step in made.steps if step.contraction is not None]


def forced(one, arrays, path, layout="contiguous", **options):
    (result,) = problems.native_results(one, arrays, layout, path=path, **options).values()
    return result


@pytest.mark.parametrize(("line", "name"), EVERY)
def test_same_bits_for_any_number_of_threads(line, name):
    """What orders a sum follows from the problem: 1, 2, 3 and 9 threads give identical bits in every mode."""
    for one in steps_of(line):
        arrays = problems.operands(one, normal(1))
        first = forced(one, arrays, PATHS[name], threads=1)
        for threads in (2, 3, 9):
            assert np.array_equal(first, forced(one, arrays, PATHS[name], threads=threads)), threads


@pytest.mark.skipif(not library.available() or not library.isa().startswith("avx512"), reason="needs AVX-512")
def test_avx2_and_avx512_agree_bit_for_bit():
    """No bit depends on the width of vectors, in any dtype and layout."""
    code = """
import hashlib, numpy as np, native_problems as problems
from convgrad.engines import library
print(library.isa())
lines = [line for line in problems.LINES if "s1 " in line]
for line in lines + ["conv n2 c100>90 i15x22 k3x3 s1 p1 d1 g1 fp32", "conv n4 c48>40 i28x28 k3x3 s1 p1 d1 g1 fp32",
                     "conv n2 c100>90 i77 k9 s1 p4 d1 g1 fp32", "conv n4 c48>40 i28x9x5 k3x1x1 s1 p1x0x0 d1 g1 fp32"]:
    for dtype in ("float32", "bfloat16"):
        made, rng = problems.problem(line, dtype), np.random.default_rng(7)
        for layout in ("contiguous", "channels last"):
            arrays = problems.operands(made, lambda shape: rng.standard_normal(shape), layout)
            for step in made.steps:
                one = problems.only(made, step)
                for path, name in enumerate(library.path_names()):
                    results = problems.empty_results(one, layout)
                    if "winograd" in name and step.contraction and problems.accepted(one, arrays, results, path):
                        (got,) = problems.native_results(one, arrays, layout, path=path).values()
                        print(line, dtype, layout, step.result, name, hashlib.sha256(got.tobytes()).hexdigest())
"""
    def run(isa):
        environment = {**os.environ, "CONVGRAD_ISA": isa, "PYTHONPATH": SUPPORT}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)

    runs = [run(isa) for isa in ("avx2", "avx512")]
    lines = [done.stdout.splitlines() for done in runs]
    assert [each[:1] for each in lines] == [["avx2"], ["avx512"]], [done.stderr for done in runs]
    assert len(lines[0]) > 100 and lines[0][1:] == lines[1][1:]


@pytest.mark.parametrize("line", [
    "conv n9 c512>512 i7x7 k3x3 p1 alg=fast", "conv n9 c64>64 i12x12 k3x3 p1 alg=fast",
    "conv n9 c96>80 i20x21 k3x3 p1 alg=fast", "conv n9 c256>256 i14x14 k3x3 p1 alg=fast",
    "conv n9 c40>48 i6x10x11 k3x3x3 p1 alg=fast", "conv n9 c128>128 i400 k9 p4 alg=fast",
])  # fmt: skip
def test_an_image_has_the_bits_it_has_alone(line):
    """Data gradients and forward passes: path and bits of an image are those of a batch of one, wherever it stands."""
    many, alone = (convgrad.plan(Request.parse(each)) for each in (line, line.replace("n9", "n1")))
    assert many.paths[0] == alone.paths[0] and "winograd" in many.paths[0]
    rng = np.random.default_rng(11)
    x, g, w = problems.operands(many, lambda shape: rng.standard_normal(shape, np.float32))
    pad = many.problem.geometry.axes[2].pad_low
    runs = (
        lambda part: convgrad.conv_backward(g[part], x[part], w, padding=pad, algorithm="fast").input,
        lambda part: convgrad.convolution(x[part], w, padding=pad, algorithm="fast"),
    )
    for run in runs:
        whole = run(slice(None))
        for image in (0, 4, 8):
            part = slice(image, image + 1)
            assert np.array_equal(run(part), whole[part]), image


# ---- errors --------------------------------------------------------------------------------------------------------


def tile_sizes(values, tile, before, cells, halo):
    """The largest magnitude under each tile of `cells`: (batch, channels, tile rows, tile columns)."""
    rows, columns = (-(-n // side) for n, side in zip(cells, tile, strict=True))
    out = np.zeros((*values.shape[:2], rows, columns))
    for i in range(rows):
        for j in range(columns):
            top, left, (high, wide) = i * tile[0] - before[0], j * tile[1] - before[1], values.shape[2:]
            bottom, right = top + tile[0] + halo[0], left + tile[1] + halo[1]
            part = values[:, :, max(0, top) : min(high, bottom), max(0, left) : min(wide, right)]
            out[:, :, i, j] = np.abs(part).max(axis=(2, 3), initial=0)
    return out


def bounds(one, arrays, name):
    """So many roundings of the sum over channels (or tiles) of the largest values of a tile, per result: 16, of 3x3
    weight gradients 32, of 25 taps 44."""
    x, g, w = (np.abs(a.astype(np.float64)).reshape(*a.shape[:2], *[1] * (4 - a.ndim), *a.shape[2:]) for a in arrays)
    halo = [taps - 1 for taps in w.shape[2:]]
    tile = [int(name.split()[-1]) + 2 - more if more else 1 for more in halo]
    (step,) = one.steps
    of_weight = 32 if min(halo) == 2 else 16
    roundings = 44 if min(halo) == 4 else of_weight if step.result is Result.GRAD_WEIGHT else 16
    pad = [axis.pad_low for axis in one.problem.geometry.axes[1:]]
    if step.result is Result.GRAD_WEIGHT:
        fine = tile_sizes(x, tile, pad, g.shape[2:], halo)
        coarse = tile_sizes(g, tile, (0, 0), g.shape[2:], (0, 0))
        sums = roundings * UNIT * np.einsum("nfij,nkij->kf", fine, coarse)[:, :, None, None]
        return sums.reshape(*sums.shape[:2], *[1] * (arrays[2].ndim - 2))
    sizes = tile_sizes(g, tile, [more - p for more, p in zip(halo, pad, strict=True)], x.shape[2:], halo)
    sums = roundings * UNIT * np.einsum("nkij,kf->nfij", sizes, w.max(axis=(2, 3)))
    return sums.repeat(tile[0], axis=2).repeat(tile[1], axis=3)[:, :, : x.shape[2], : x.shape[3]].reshape(
        arrays[0].shape)


def any_line(rng):
    """A square window, or taps along a line: of one axis, of the width, of the height."""
    n, c, k = (int(np.exp(rng.uniform(0, np.log(most)))) for most in (4, 40, 40))
    h, w = (int(v) for v in rng.integers(5, 24, 2))
    taps, pads = int(rng.integers(3, 10)), [int(p) for p in rng.integers(0, 3, 2)]
    side = int(rng.choice([3, 3, 5]))
    size, window, padding = [
        (f"{h}x{w}", f"{side}x{side}", f"{pads[0]}x{pads[1]}"),
        (f"{h + 4 * w}", f"{taps}", f"{pads[0]}"),
        (f"{h}x{w + 5}", f"1x{taps}", f"0x{pads[1]}"),
        (f"{h + 5}x{w}", f"{taps}x1", f"{pads[0]}x0"),
    ][int(rng.choice([0, 0, 0, 1, 2, 3]))]
    return f"conv n{n} c{c}>{k} i{size} k{window} s1 p{padding} d1 g1 fp32 want=xw"


def assert_bounds_hold(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        line, kind = any_line(rng), rng.integers(3)

        def fill(shape, kind=kind):
            values = rng.standard_normal(shape)
            if kind == 1:
                return np.maximum(values, 0)
            return values * np.exp2(rng.integers(-10, 11, shape)) if kind == 2 else values

        for one, wide in zip(steps_of(line), steps_of(line, "float64"), strict=True):
            arrays = problems.operands(one, fill)
            exact = forced(wide, [a.astype(np.float64) for a in arrays], 0)
            for name in paths_of(line):
                error = np.abs(forced(one, arrays, PATHS[name]) - exact)
                assert np.all(error <= bounds(one, arrays, name)), (line, kind, name, one.steps[0].result)


def test_errors_stay_within_the_stated_bound():
    """16 (grad_weight of 3x3: 32; 5x5: 44) * 2^-24 * sum of (largest of a tile x largest of a window): normal,
    one-sided and wide data."""
    assert_bounds_hold(int(os.environ.get("CONVGRAD_BOUND_PROBLEMS", "150")), 1)  # `make campaign-bounds`: 10,000


@pytest.mark.parametrize("line", [*LINES[:3], *LINES[10:13]])
def test_mean_errors_are_near_the_direct_ones(line):
    """Points on the unit circle: the mean error is at most 2.5 times that of the direct path, for every tile."""
    for one, wide in zip(steps_of(line), steps_of(line, "float64"), strict=True):
        arrays = problems.operands(one, normal(8))
        exact = forced(wide, [a.astype(np.float64) for a in arrays], 0)
        direct = np.abs(forced(one, arrays, 0) - exact).mean()
        for name in paths_of(line):
            assert np.abs(forced(one, arrays, PATHS[name]) - exact).mean() <= 2.5 * direct + 1e-8, name


@pytest.mark.parametrize("line", [
    "conv n2 c64>64 i40x40 k3x3 s1 p1 d1 g1 fp32 want=x", "conv n2 c90>128 i28x28 k3x3 s1 p1 d1 g1 fp32 want=x",
])  # fmt: skip
def test_mean_errors_of_wide_data_are_at_most_twice_the_direct_ones(line):
    """Chains of 32 multiply-adds: from 64 channels on grad_input of numbers times 2^-10 to 2^10 errs at most 2.06 times
    as much as on the direct path."""
    rng = np.random.default_rng(12)

    def wide_numbers(shape):
        return rng.standard_normal(shape) * np.exp2(rng.integers(-10, 11, shape))

    for one, wide in zip(steps_of(line), steps_of(line, "float64"), strict=True):
        arrays = problems.operands(one, wide_numbers)
        exact = forced(wide, [a.astype(np.float64) for a in arrays], 0)
        direct = np.abs(forced(one, arrays, 0) - exact).mean()
        for name in ("winograd 4", "winograd 8"):
            assert np.abs(forced(one, arrays, PATHS[name]) - exact).mean() <= 2.06 * direct, name


@pytest.mark.parametrize(("line", "largest"), [
    ("conv n1 c16>56 i12x12 k3x3 s1 p1 d1 g1 fp32 want=x", (39, 40)),  # 56 channels * 39 * 40 < 87381
    ("conv n1 c16>16 i28x28 k3x3 s1 p1 d1 g1 fp32 want=w", (36, 37)),  # 49 tiles * 36 * 37 < 65536
    ("conv n1 c16>56 i12x12 k5x5 s1 p2 d1 g1 fp32 want=x", (24, 25)),  # 56 channels * 24 * 25 < 34952
    ("conv n1 c16>16 i14x14 k5x5 s1 p2 d1 g1 fp32 want=w", (36, 36)),  # 49 tiles * 36 * 36 < 65536
    ("conv n1 c16>100 i96 k3 s1 p1 d1 g1 fp32 want=x", (59, 59)),  # 100 channels * 59 * 59 < 349525
    ("conv n1 c16>16 i400 k3 s1 p1 d1 g1 fp32 want=w", (51, 51)),  # 100 tiles * 51 * 51 < 262144
])  # fmt: skip
def test_small_integers_are_exact_up_to_the_stated_bound(line, largest):
    """exact-fast: sums of (channels or tiles) x largest x largest below 2^24 / 192 (256) leave no rounding; beyond that
    the direct path still has none, and this one has."""
    (one,) = steps_of(line)
    rng = np.random.default_rng(3)
    for signs in (np.ones, lambda shape: np.sign(rng.standard_normal(shape))):
        x, g, w = problems.operands(one, signs)
        arrays = [x * largest[0], g * largest[1], w * largest[0]]
        (want,) = problems.reference_results(one, arrays).values()
        assert np.array_equal(forced(one, arrays, PATHS[paths_of(line)[0]]), want)
    if "line" in paths_of(line)[0] or "k5x5" in line:
        return  # the bound is no tight one there
    arrays = problems.operands(one, lambda shape: rng.integers(1, 146, shape).astype(float))
    want = forced(one, arrays, 0)
    (exact,) = problems.reference_results(one, arrays).values()
    assert np.array_equal(want, exact) and not np.array_equal(forced(one, arrays, PATHS["winograd 4"]), want)


@pytest.mark.parametrize(("line", "name"), [(line, name) for line in (LINES[0], LINES[10]) for name in paths_of(line)])
def test_a_transform_that_overflows_is_computed_directly(line, name):
    """Transforms grow values before they cancel: where a sum is inf only for that, the direct path's bits come out."""
    for one in steps_of(line):
        x, g, w = problems.operands(one, normal(4))
        huge = np.float32(1e36)
        arrays = [x, g * huge, w] if one.steps[0].result is Result.GRAD_INPUT else [x * huge, g, w]
        direct = forced(one, arrays, 0)
        assert np.isfinite(direct).all()
        got = forced(one, arrays, PATHS[name])
        assert np.isfinite(got).all() and np.abs(got - direct).max() <= 1e-5 * np.abs(direct).max()


@pytest.mark.parametrize("line", [
    "conv n1 c160>160 i28x28 k3x3 p1 want=x", "conv n1 c300>280 i20x20 k3x3 p1 want=x",
    "conv n1 c64>64 i56x56 k3x3 p1 want=w", "conv n1 c300>280 i20x20 k3x3 p1 want=w",
])  # fmt: skip
def test_running_out_of_memory_is_an_error(line):
    """The four modes: with no address space for the tiles the call raises MemoryError naming the workspace, and where
    there is space again it computes."""
    code = """
import resource, sys, numpy as np, native_problems as problems
from convgrad.engines import library, native
path, made = library.path_names().index("winograd 4"), problems.problem(sys.argv[1])
arrays = problems.operands(made, lambda shape: np.ones(shape))
results = problems.empty_results(made)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 18), resource.RLIM_INFINITY))
try:
    native.run(made, *arrays, results, threads=1, path=path)
except MemoryError as error:
    print("refused:", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
native.run(made, *arrays, results, threads=1, path=path)
(got,), (want,) = results.values(), problems.native_results(made, arrays, "contiguous", path=0).values()
print("then", np.array_equal(got, want))
"""
    done = subprocess.run([sys.executable, "-c", code, line], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": SUPPORT})  # fmt: skip
    assert done.stdout.startswith("refused: not enough memory for the workspace"), done.stdout + done.stderr
    assert "then True" in done.stdout


# ---- the attribute -------------------------------------------------------------------------------------------------

WIDE = "conv n8 c64>64 i56x56 k3x3 s1 p1 d1 g1 fp32"


def test_the_algorithm_chooses_the_paths():
    """direct never, exact-fast the exact tiles only, fast the cheapest; few channels or tiles stay direct."""
    def paths(line, algorithm):
        return convgrad.plan(replace(Request.parse(line), algorithm=algorithm)).paths[:2]

    assert not any("winograd" in path for path in paths(WIDE, "direct"))
    assert paths(WIDE, "exact-fast") == ("winograd 4",) * 2
    assert set(paths(WIDE, "fast")) <= {"winograd 7", "winograd 8"}
    for line in ("conv n8 c3>64 i56x56 k3x3 p1", "conv n1 c512>512 i7x7 k3x3 p1 want=w", "conv n8 c64>64 i56x56 k1x1",
                 "conv n8 c64>64 i56x56 k3x3 p1 s2", "conv n8 c64>64 i56x56 k3x3 p1 fp64"):
        assert not any("winograd" in path for path in paths(line, "fast")), line


def test_the_functions_take_an_algorithm(monkeypatch):
    """Gradients and forward pass: other bits than direct, close to them; the environment is the default on cpu only."""
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 48, 28, 28), (48, 48, 3, 3)))
    direct = convgrad.conv_backward(x, x, w, padding=1)
    fast = convgrad.conv_backward(x, x, w, padding=1, algorithm="fast")
    for a, b in zip(direct[:2], fast[:2], strict=True):
        assert not np.array_equal(a, b) and np.abs(a - b).max() < 1e-5 * np.abs(a).max()
    assert np.array_equal(direct.bias, fast.bias)
    y, quick = (convgrad.convolution(x, w, padding=1, algorithm=a) for a in ("direct", "exact-fast"))
    assert not np.array_equal(y, quick) and np.abs(y - quick).max() < 1e-5 * np.abs(y).max()
    monkeypatch.setenv("CONVGRAD_ALGORITHM", "fast")
    assert np.array_equal(convgrad.conv_backward(x, x, w, padding=1).input, fast.input)
    assert np.array_equal(convgrad.conv_backward(x, x, w, padding=1, algorithm="direct").input, direct.input)
    half = x.astype(np.float16), w.astype(np.float16)
    on_a2 = [convgrad.conv_backward(half[0], half[0], half[1], padding=1, product="A2", algorithm=a)
             for a in (None, "direct")]
    assert np.array_equal(on_a2[0].input, on_a2[1].input)
    monkeypatch.setenv("CONVGRAD_ALGORITHM", "quick")
    with pytest.raises(convgrad.ConvGradError, match="CONVGRAD_ALGORITHM must be one of direct, fast, exact-fast"):
        convgrad.conv_backward(x, x, w, padding=1)


@pytest.mark.parametrize("wrong", ["quick", "FAST", 1, None, b"fast"])
def test_no_other_algorithm(wrong):
    """A name that is none is refused where a request is made, and in a problem line."""
    with pytest.raises(convgrad.ConvGradError, match="algorithm must be one of"):
        replace(Request.parse(WIDE), algorithm=wrong)
    with pytest.raises(ValueError, match="use alg=direct, alg=fast, alg=exact-fast"):
        Request.parse(f"{WIDE} alg=quick")


def test_a_problem_line_tells_the_algorithm():
    """`alg=` is read and written; direct goes without saying."""
    assert Request.parse(f"{WIDE} alg=fast").algorithm == "fast"
    assert str(Request.parse(f"{WIDE} alg=exact-fast")).endswith("on=cpu alg=exact-fast")
    assert "alg" not in str(Request.parse(f"{WIDE} alg=direct"))


def test_a_plan_names_tile_products_and_error():
    """print(plan): the tile, how many products stand for how many, the bound of the error."""
    text = str(convgrad.plan(Request.parse(f"{WIDE} alg=fast want=x")))
    assert "winograd 8: tiles of 8x8, 142 products for 576, 4.06 times fewer" in text
    assert b"142 products for 576 (900)" in library.library().cg_path_condition(PATHS["winograd 8"])
    assert "tiles of 6x6, 142 products for 900" in str(
        convgrad.plan(Request.parse("conv n8 c64>64 i48x48 k5x5 p2 alg=fast want=x")))
    assert "16 * 2^-24 * sum of (largest of the tile * largest of the window)" in text
    both = str(convgrad.plan(Request.parse("conv n8 c64>64 i56x56 k3x3 p1 alg=exact-fast")))
    assert "an error is up to 16 (grad_weight: 32) * 2^-24" in both
    assert "winograd line 16: lines of 10, 25 products for 90, 3.60 times fewer" in str(
        convgrad.plan(Request.parse("conv n8 c256>256 i800 k9 p4 alg=fast want=x")))


@pytest.mark.parametrize("line", [
    "conv n64 c512>512 i56x56 k3x3 s1 p1 d1 g1 fp32", "conv n4 c64>64 i224x224 k3x3 s1 p1 d1 g1 fp32",
    "conv n2 c2000>2000 i30x30 k3x3 s1 p1 d1 g1 fp32", "conv n2 c16>4096 i30x30 k3x3 s1 p1 d1 g1 fp32",
    "conv n2 c4096>16 i30x30 k3x3 s1 p1 d1 g1 fp32", "conv n2 c64>64 i16x56x56 k3x3x3 s1 p1 d1 g1 fp32",
    "conv n2 c300>500 i16x28x28 k3x3x3 s1 p1 d1 g1 bf16", "conv n2 c64>64 i90x90 k3x3 s1 p13 d13 g1 fp16",
    "conv n8 c2000>2000 i800 k9 s1 p4 d1 g1 fp32", "conv n2 c600>500 i90x17x17 k3x1x1 s1 p1x0x0 d1 g1 bf16",
    "conv n2 c300>200 i60x60 k7x7 s1 p3 d1 g1 fp32", "conv n1 c1024>64 i5000 k3 s1 p8 d8 g1 fp32",
])  # fmt: skip
def test_workspace_is_bounded(line):
    """5 MiB shared and 4 MiB per thread hold every tile's workspace, as on every path."""
    for one in steps_of(line):
        for path in (PATHS[name] for name in paths_of(line)):
            assert 0 < workspace_of(one, path) <= (5 + 4 * 2) << 20, (path, one.steps[0].result)


def workspace_of(one, path):
    image = problem_struct.pack_shapes(one)
    tail = len(image) - 20  # threads, path, algorithm, deterministic, a gap
    image[tail : tail + 8] = np.array([2, path], np.int32).tobytes()
    memory = (ctypes.c_char * len(image)).from_buffer(image)
    return library.library().cg_workspace_bytes(ctypes.addressof(memory))
