"""Level 3: gradients of weight and bias are a fixed tree over the samples' own gradients."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import convgrad
import native_problems as problems
from convgrad.core import dtypes, rounding
from convgrad.core.determinism import sum_by_tree
from convgrad.core.partition import tree
from convgrad.core.plan import Result
from convgrad.core.request import Request
from convgrad.engines import library

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")

SUMMED = (Result.GRAD_WEIGHT, Result.GRAD_BIAS)
LINES = (
    "conv n1 c3>4 i5x5 k3x3 p1", "conv n2 c3>4 i5x5 k3x3 p1", "conv n13 c16>32 i14x14 k3x3 p1",
    "conv n37 c24>20 i9x9 k3x3 s2 p1", "conv n9 c8>8 i14x14 k3x3 p1 g8", "conv n6 c64>72 i14x14 k3x3 p1",
    "conv n5 c3>4 i30x30 k5x5 p2", "conv n7 c32>64 i20 k5 p2 d2", "conv n11 c6>4 i3x6x6 k3x3x3 p1 g2",
    "conv n19 c12>40 i2x4x4 k2x4x4 s2x4x4", "tconv n21 c8>12 i7x9 k3x3 s2 p1 g4", "tconv n3 c16>16 i12x12 k3x3 p1",
    "tbc n11 c8>12 i17 k3 p1", "tbc n4 c40>24 i33 k5 p2", "conv n70 c2>2 i4x4 k1x1", "conv n4 c128>128 i16x16 k3x3 p1",
)  # fmt: skip


def by_numpy(leaves):
    """The documented sum, as one writes it in NumPy."""
    while len(leaves) > 1:
        even = len(leaves) // 2 * 2
        leaves = np.concatenate([leaves[0:even:2] + leaves[1::2], leaves[even:]])
    return leaves[0]


def operands(line, dtype, seed=0, layout=None):
    made = convgrad.plan(Request.parse(f"{line} {dtypes.find(dtype).word} det=3"))
    numbers = np.random.default_rng(seed)
    r = made.problem.request
    arrays = [rounding.store(dtypes.find(dtype), numbers.standard_normal(s.shape)) for s in
              (r.grad_output, r.input, r.weight)]  # fmt: skip
    arrays = [a if layout is None else problems.spread(a, layout) for a in arrays]
    return made, [convgrad.Tensor(a, dtype) for a in arrays] if dtype == "hifloat8" else arrays


def samples_of(made, arrays, picked):
    """These samples as a batch of their own."""
    g, x, w = arrays
    axis = made.problem.data_order[0]
    index = (slice(None),) * axis + (picked,)
    count = len(range(*picked.indices(x.shape[axis])))
    words = str(made.problem.request).split()
    words[1] = f"n{count}"
    return convgrad.plan(Request.parse(" ".join(words))), (g[index], x[index], w)


def rounded(made, result, total):
    """The one rounding of the whole sum."""
    step = next(s for s in made.steps if s.result is result)
    return rounding.store(dtypes.find(step.stored_as), rounding.round_to(dtypes.find(step.rounded_to), total))


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def check(made, arrays, threads=None):
    leaves = made.sample_gradients(*arrays)
    got = made.run(*arrays, threads=threads)
    for result, of_samples, found in ((SUMMED[0], leaves.weight, got.weight), (SUMMED[1], leaves.bias, got.bias)):
        want = rounded(made, result, by_numpy(of_samples))
        found = getattr(found, "data", found) if not isinstance(found, np.ndarray) else found
        assert np.array_equal(bits(found), bits(want)), (str(made.problem.request), result, threads)
    return leaves, got


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e5m2", "hifloat8"])
@pytest.mark.parametrize("line", LINES)
def test_the_gradient_of_a_batch_is_the_tree_of_its_samples(line, dtype):
    """Leaves of sample_gradients, summed by NumPy and rounded once: the very bits, on any number of threads."""
    made, arrays = operands(line, dtype)
    for threads in (None, 1, 2, 3, 8):
        check(made, arrays, threads)


@pytest.mark.parametrize("line", LINES)
def test_singles_computed_as_calls_of_their_own(line):
    """In float32 the gradients of batches of one, summed by tree_sum, are that of the batch; so are those of parts cut
    at nodes of the tree."""
    made, arrays = operands(line, "float32", seed=1)
    batch = made.problem.geometry.batch
    whole = made.run(*arrays)
    for run in (1, 2, 4, 8):
        parts = []
        for first in range(0, batch, run):
            plan, part = samples_of(made, arrays, slice(first, first + run))
            parts.append(plan.run(*(np.ascontiguousarray(a) for a in part)))
        for name in ("weight", "bias"):
            total = convgrad.tree_sum([getattr(part, name) for part in parts])
            assert np.array_equal(total, getattr(whole, name)), (run, name)


@pytest.mark.parametrize("layout", problems.LAYOUTS)
@pytest.mark.parametrize("line", [LINES[2], LINES[4], LINES[6], LINES[8], LINES[10]])
def test_any_strides(line, layout):
    """Operands of other strides, and results written into memory of other strides: the tree of that layout's leaves."""
    for dtype in ("float32", "bfloat16"):
        made, arrays = operands(line, dtype, seed=2, layout=layout)
        _, got = check(made, arrays)
        out = [problems.spread(np.full_like(a, -7), layout) for a in (got.input, got.weight)]
        again = made.run(*arrays, out=(*out, np.full_like(got.bias, -7)))
        assert np.array_equal(bits(again.weight), bits(got.weight)) and np.array_equal(bits(again.bias), bits(got.bias))


@pytest.mark.parametrize("algorithm", ["fast", "exact-fast"])
@pytest.mark.parametrize("line", [LINES[5], LINES[11], LINES[15]])
def test_with_fewer_multiplications(line, algorithm):
    """The paths of other algorithms give leaves as well."""
    check(*operands(f"{line} alg={algorithm}", "float32", seed=3))


PATHS_OF_WEIGHTS = [
    name for number, name in enumerate(library.path_names() if library.available() else ())
    if number and name not in ("gemm images", "gemm direct")
]  # fmt: skip


@pytest.mark.parametrize("name", PATHS_OF_WEIGHTS)
def test_every_path_gives_leaves(name):
    """A forced path computes each sample, exactly on small integers."""
    path = library.path_names().index(name)
    met = 0
    lines = (LINES[2], LINES[4], "conv n5 c8>8 i9x9 k3x3 p1 g2", LINES[5], "conv n4 c18>20 i16 k5 p2", LINES[14])
    for line, layout in itertools.product(lines, ("contiguous", "channels last")):
        made = problems.problem(f"{line} want=w det=3", algorithm="fast")
        numbers = np.random.default_rng(4)
        arrays = problems.operands(made, lambda shape, numbers=numbers: numbers.integers(-2, 3, shape), layout)
        out = problems.empty_results(made)
        if not problems.accepted(made, arrays, out, path):
            continue
        met += 1
        found = problems.native_results(made, arrays, path=path, threads=3)[Result.GRAD_WEIGHT]
        want = problems.reference_results(made, arrays)[Result.GRAD_WEIGHT]
        apart = 0 if library.library().cg_path_is_exact(path) else 1e-2
        assert np.abs(found - want).max() <= apart, (line, layout)
    assert met


def test_masks_do_not_show():
    """Gradients asked for alone have the bits of those asked for together."""
    made, (g, x, w) = operands(LINES[2], "float16", seed=5)
    whole = made.run(g, x, w)
    for place, name in enumerate(("input", "weight", "bias")):
        mask = [i == place for i in range(3)]
        one = convgrad.conv_backward(g, x, w, padding=1, output_mask=mask, deterministic=3)
        assert np.array_equal(bits(getattr(one, name)), bits(getattr(whole, name)))


def test_a_sample_that_is_not_finite_stays_in_its_leaf():
    """Inf and NaN of one sample reach what the law ties them to, and no other leaf."""
    made, (g, x, w) = operands(LINES[2], "float32", seed=6)
    g[3, 5, 0, 0], x[4, 2, 1, 1] = np.inf, np.nan
    leaves, got = check(made, (g, x, w))
    clean = made.sample_gradients(*operands(LINES[2], "float32", seed=6)[1])
    untouched = [i for i in range(len(leaves.weight)) if i not in (3, 4)]
    assert np.array_equal(leaves.weight[untouched], clean.weight[untouched])
    assert np.isinf(got.bias[5]) and np.isfinite(np.delete(got.bias, 5)).all()
    assert np.isnan(got.weight[:, 2]).any() and not np.isnan(got.weight[:5, 3]).any()


def test_small_integers_are_exact():
    """Every sum of integers is exact, whatever its order: all levels agree with the law."""
    for line in LINES:
        r = Request.parse(f"{line} fp32")
        numbers = np.random.default_rng(7)
        g, x, w = (numbers.integers(-3, 4, s.shape).astype(np.float32) for s in (r.grad_output, r.input, r.weight))
        results = [convgrad.plan(Request.parse(f"{line} fp32 det={level}")).run(g, x, w) for level in range(4)]
        for other in results[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_input_gradients_and_the_forward_pass_have_one_order():
    """Levels change gradients of weight and bias only."""
    _, (g, x, w) = operands(LINES[2], "float32", seed=8)
    by_level = [convgrad.conv_backward(g, x, w, padding=1, deterministic=level) for level in range(4)]
    assert all(np.array_equal(found.input, by_level[0].input) for found in by_level)
    assert all(np.array_equal(found.weight, by_level[0].weight) for found in by_level[:3])
    assert not np.array_equal(by_level[3].weight, by_level[0].weight)
    outputs = [convgrad.convolution(x, w, padding=1, deterministic=level) for level in range(4)]
    assert all(np.array_equal(found, outputs[0]) for found in outputs)


def test_empty_batches_and_operands():
    """No samples: zeros; no input channels: the bias is still the tree."""
    none = convgrad.conv_backward(
        np.ones((0, 2, 3, 3), np.float32), np.ones((0, 2, 3, 3), np.float32), np.ones((2, 2, 1, 1), np.float32),
        deterministic=3,
    )
    assert not none.weight.any() and not none.bias.any() and none.input.shape == (0, 2, 3, 3)
    no_leaves = convgrad.sample_gradients(*(np.ones(s, np.float32) for s in ((0, 2, 3, 3), (0, 2, 3, 3), (2, 2, 1, 1))))
    assert no_leaves.weight.shape == (0, 2, 2, 1, 1) and no_leaves.bias.shape == (0, 2)
    numbers = np.random.default_rng(9)
    g = numbers.standard_normal((5, 2, 3, 3)).astype(np.float32)
    found = convgrad.conv_backward(
        g, np.ones((5, 0, 3, 3), np.float32), np.ones((2, 0, 1, 1), np.float32), deterministic=3
    )
    assert np.array_equal(found.bias, convgrad.tree_sum(g.astype(np.float64).sum((2, 3)).astype(np.float32)))


def test_the_reference_engine_keeps_the_promise(monkeypatch):
    """The tree of the reference's own leaves."""
    made, arrays = operands(LINES[1], "float16", seed=10)
    monkeypatch.setenv("CONVGRAD_ENGINE", "reference")
    leaves, got = check(made, arrays)
    assert leaves.weight.dtype == np.float32 and got.weight.dtype == np.float16


def test_winograd_of_the_950_keeps_the_promise():
    """Its own sums of one sample are leaves too."""
    line = "conv n3 c256>256 i12x12 k3x3 p1 fp32 on=950 as=runtime det=3 want=wb"
    made = convgrad.plan(Request.parse(line))
    assert made.winograd
    numbers = np.random.default_rng(11)
    r = made.problem.request
    arrays = [numbers.standard_normal(s.shape).astype(np.float32) for s in (r.grad_output, r.input, r.weight)]
    _, got = check(made, arrays)
    usual = convgrad.plan(Request.parse(line.replace(" det=3", ""))).run(*arrays)
    assert not np.array_equal(got.weight, usual.weight)


def test_the_same_bits_on_every_instruction_set_that_promises_them():
    """AVX2, AVX-512 and its pairs of bfloat16 agree."""
    code = (
        "import hashlib, numpy as np, test_sample_tree as t\n"
        "from convgrad.engines import library\n"
        "found = hashlib.sha256()\n"
        "for line in t.LINES:\n"
        "    for dtype in ('float32', 'bfloat16'):\n"
        "        made, arrays = t.operands(line, dtype)\n"
        "        got = made.run(*arrays)\n"
        "        found.update(t.bits(got.weight)); found.update(t.bits(got.bias))\n"
        "print(library.isa(), found.hexdigest())\n"
    )
    digests = {}
    here = os.path.dirname(__file__)
    for isa in ("avx2", "avx512", "avx512bf16"):
        path = os.pathsep.join((here, os.path.join(here, "..", "support")))
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "CONVGRAD_ISA": isa, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        used, digest = done.stdout.split()
        digests[used] = digest
    if len(digests) < 2:
        pytest.skip("this machine has one such set")
    assert len(set(digests.values())) == 1, digests


def test_scratch_memory_is_written_before_it_is_read():
    """NaN in the memory of nodes and leaves would show."""
    made, arrays = operands(LINES[3], "float32", seed=12)
    clean = made.run(*arrays)
    library.library().cg_check_scratch(1)
    try:
        for threads in (1, 3):
            spoiled = made.run(*arrays, threads=threads)
            assert all(np.array_equal(a, b) for a, b in zip(spoiled, clean, strict=True))
    finally:
        library.library().cg_check_scratch(0)


# ---- the tree itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [*range(1, 40), 64, 65, 127, 300])
def test_one_tree_said_in_three_ways(count):
    """Pairs level by level, halves at powers of two, and the tree of dask's graphs are one: sums of strings show it."""
    leaves = np.array([f"{i}" for i in range(count)], object)
    joined = lambda a, b: f"({a}+{b})"  # noqa: E731
    nodes = list(leaves)
    for level in tree(count):
        nodes = [nodes[at[0]] if len(at) == 1 else joined(nodes[at[0]], nodes[at[1]]) for at in level]

    class Word(str):
        def __add__(self, other):
            return Word(joined(self, other))

    def leaf(i):
        made = np.empty(1, object)
        made[0] = Word(leaves[i])
        return made

    assert sum_by_tree(leaf, 0, count)[0] == nodes[0]
    assert by_numpy(np.array([Word(s) for s in leaves], object)) == nodes[0]


def test_a_serial_sum_is_not_the_tree():
    """What the tests above would see: samples added one after the other differ."""
    made, arrays = operands(LINES[2], "float32")
    leaves = made.sample_gradients(*arrays).weight
    serial = leaves[0]
    for leaf in leaves[1:]:
        serial = serial + leaf
    assert not np.array_equal(serial, convgrad.tree_sum(leaves))
    assert not np.array_equal(serial, made.run(*arrays).weight)


def test_tree_sum_refuses_what_has_no_sum():
    """Nothing, arrays that differ, and elements that are no numbers."""
    for parts, rule in (([], "parts.length"), (np.array([1, None]), "parts.dtype"),
                        ([np.zeros(2), np.zeros(3)], "parts.shape"),
                        ([np.zeros(2), np.zeros(2, np.float32)], "parts.shape")):  # fmt: skip
        with pytest.raises(convgrad.ConvGradError) as refused:
            convgrad.tree_sum(parts)
        assert refused.value.rule == rule


@pytest.mark.parametrize("value", [4, -1, 1.5, "3", None, [3]])
def test_other_levels_are_refused_by_name(value):
    """The error names the argument and the levels there are."""
    ones = np.ones((1, 1, 3, 3), np.float32)
    for call in (convgrad.conv_backward, lambda *a, **k: convgrad.convolution(ones, ones, **k)):
        with pytest.raises((convgrad.ConvGradError, TypeError), match="deterministic"):
            call(ones, ones, ones, deterministic=value)
    with pytest.raises(ValueError, match="det=0, det=1, det=2, det=3"):
        Request.parse("conv n1 c1 i3 k3 det=4")


def test_problem_lines_say_the_level():
    """And read it back; a truth value is level 0 or 1."""
    r = Request.parse("conv n2 c3>4 i5x5 k3x3 det=3")
    assert r.deterministic == 3 and Request.parse(str(r)) == r and " det=3" in str(r)
    assert Request.parse("conv n2 c3>4 i5x5 k3x3").deterministic == 0
    ones = np.ones((1, 1, 3, 3), np.float32)
    assert convgrad.conv_backward(ones, ones, ones, padding=1, deterministic=True).bias[0] == 9
