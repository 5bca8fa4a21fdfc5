"""The native engine's promises about threads, processes and memory."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import convgrad
import native_problems as problems
from convgrad.engines import library

SUPPORT = os.pathsep.join(str(Path(__file__).parents[1] / folder) for folder in ("support", "engine"))
pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")
LARGER = (
    "conv n4 c48>40 i28x28 k3x3 s1 p1 d1 g1 fp32",
    "conv n2 c3>64 i56x56 k7x7 s2 p3 d1 g1 fp32",
    "conv n4 c40>40 i33x33 k3x3 s1 p1 d1 g40 fp32",
    "conv n1 c6>6 i40x40 k31x31 s1 p15 d1 g6 fp32",
    "tconv n2 c24>20 i16x16 k4x4 s2 p1 d1 g1 fp32",
    "conv n4 c64>64 i33x33 k3x3 s1 p1 d1 g16 fp32",  # groups copied together: fewer for more threads
    "conv n1 c16>16 i8x20x20 k3x3x3 s1 p1 d1 g2 fp32",
    "conv n2 c256>300 i7x7 k3x3 s1 p1 d1 g1 fp32",
)


def normal(seed):
    rng = np.random.default_rng(seed)
    return lambda shape: rng.standard_normal(shape)


@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
@pytest.mark.parametrize("line", LARGER)
def test_same_bits_for_any_number_of_threads(line, layout):
    """threads = 1, 2, 3, 4, 7, and more than the pool has shares of tasks, give identical bits."""
    made = problems.problem(line)
    arrays = problems.operands(made, normal(1), layout)
    first = problems.native_results(made, arrays, layout, threads=1)
    for threads in (2, 3, 4, 7, 70, 2):
        again = problems.native_results(made, arrays, layout, threads=threads)
        for result, array in first.items():
            assert np.array_equal(array.view(np.uint32), again[result].view(np.uint32)), (result, threads)


@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
@pytest.mark.parametrize("line", (*problems.LINES, "conv n4 c8>6 i13x13 k3x3 s2 p0 d1 g1 fp32"))
def test_what_was_in_memory_does_not_show(line, layout):
    """Scratch memory full of NaN from another call changes no bit: nothing but the operands is looked at."""
    filler = problems.problem("conv n4 c48>40 i28x28 k3x3 s1 p1 d1 g1 fp32")
    made = problems.problem(line)
    arrays = problems.operands(made, normal(11), layout)
    for step in made.steps:  # alone: a gradient computed before it would leave its own numbers there
        seen = []
        for left in (0.0, np.nan):
            full = problems.operands(filler, lambda shape, v=left: np.full(shape, v))
            problems.native_results(filler, full, threads=1)
            seen.append(problems.native_results(problems.only(made, step), arrays, layout, threads=1)[step.result])
        assert np.array_equal(seen[0].view(np.uint32), seen[1].view(np.uint32)), step.result


def test_several_python_threads_at_once():
    """Concurrent calls share the pool or work alone; each gets its own right answer."""
    jobs = []
    for i, line in enumerate(LARGER * 2):
        made = problems.problem(line)
        arrays = problems.operands(made, normal(i))
        jobs.append((made, arrays, problems.native_results(made, arrays, threads=2)))
    wrong = []

    def work(made, arrays, want):
        for _ in range(3):
            got = problems.native_results(made, arrays, threads=2)
            wrong.extend(r for r in want if not np.array_equal(got[r], want[r]))

    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def _child(queue):
    made = problems.problem(LARGER[0])
    results = problems.native_results(made, problems.operands(made, normal(3)), threads=2)
    queue.put({r.value: a for r, a in results.items()})


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_computes_the_same():
    """The parent's pool has run; the child of a fork starts its own and does not hang."""
    made = problems.problem(LARGER[0])
    want = problems.native_results(made, problems.operands(made, normal(3)), threads=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    got = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert all(np.array_equal(got[r.value], a) for r, a in want.items())


def run_python(code, **environment):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_thread_count_from_the_environment():
    """CONVGRAD_NUM_THREADS counts before OMP_NUM_THREADS."""
    code = "import convgrad; print(convgrad.engine_info().threads)"
    assert run_python(code, CONVGRAD_NUM_THREADS="3", OMP_NUM_THREADS="5").stdout.strip() == "3"
    assert run_python(code, CONVGRAD_NUM_THREADS="", OMP_NUM_THREADS="5").stdout.strip() == "5"


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512", "avx512bf16"])
def test_a_forced_instruction_set_computes_integers_exactly(isa):
    """CONVGRAD_ISA chooses the kernels; every set gives the reference's numbers on integers, whatever the path."""
    code = """
import numpy as np, native_problems as problems, test_native_paths as paths
from convgrad.engines import library, native
print(library.isa())
for line in problems.LINES[::2]:
    for layout in ("contiguous", "channels last"):
        for path, step, got, want in paths.forced_runs(line, "float32", paths.integers(1), layout):
            assert np.array_equal(got, want), (line, layout, path, step)
    for dtype in ("float16", "bfloat16", "hifloat8"):
        for path, step, got, want in paths.forced_runs(line, dtype, paths.integers(2)):
            assert np.array_equal(got, want, equal_nan=True), (line, dtype, path, step)
"""
    known = ["baseline", "avx2", "avx512", "avx512bf16"]
    if library.isa() not in known or isa not in known[: known.index(library.isa()) + 1]:
        pytest.skip(f"this machine has no {isa}")
    done = run_python(code, CONVGRAD_ISA=isa, PYTHONPATH=SUPPORT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == isa


@pytest.mark.skipif(not library.available() or not library.isa().startswith("avx512"), reason="needs AVX-512")
def test_avx2_and_avx512_agree_bit_for_bit():
    """Random numbers, also in pairs of bfloat16, also subnormal or with an inf: no bit depends on the width of vectors
    or on two channels being one word."""
    code = """
import hashlib, numpy as np, native_problems as problems
from convgrad.engines import library, native
print(library.isa())
more = ("conv n2 c12>12 i20x20 k3x3 s1 p1 d1 g1 fp32", "conv n20 c9>16 i7x7 k3x3 s1 p1 d1 g1 fp32",
        "conv n3 c40>48 i14x14 k3x3 s1 p2 d2 g1 fp32", "conv n2 c33>70 i30x56 k3x3 s1 p1 d1 g1 fp32",
        "conv n1 c27>11 i5x13x12 k3x3x3 s2x1x1 p1 d2x1x1 g1 fp32", "conv n2 c8>12 i20x21 k3x3 s1 p0 d1 g1 fp32")
def inf_at_the_end_of_lines(shape):
    factor = np.ones(shape)
    factor[0, ..., -1] = np.inf
    return factor
ordinary = [np.ones] * 3
spreads = {"ordinary": ordinary, "subnormal": [lambda shape: 2.0**-66] * 3, "inf": [inf_at_the_end_of_lines, *ordinary]}
for line in problems.LINES + more:
    for dtype in ("float32", "bfloat16", "hifloat8"):
        for spread, factors in spreads.items():
            made, rng = problems.problem(line, dtype), np.random.default_rng(7)
            for layout in ("contiguous", "channels last") if spread == "ordinary" else ("contiguous",):
                factor = iter(factors)
                fill = lambda shape: rng.standard_normal(shape) * next(factor)(shape)
                arrays = problems.operands(made, fill, layout)
                for result, got in problems.native_results(made, arrays, layout).items():
                    bits = np.ascontiguousarray(np.where(np.isnan(got), 77, got) if dtype != "hifloat8" else got)
                    print(line, dtype, spread, layout, result, hashlib.sha256(bits.view(np.uint8)).hexdigest())
"""
    tests = SUPPORT
    names = ["avx2", "avx512", *(["avx512bf16"] if library.isa() == "avx512bf16" else [])]
    runs = [run_python(code, CONVGRAD_ISA=isa, PYTHONPATH=tests) for isa in names]
    lines = [done.stdout.splitlines() for done in runs]
    assert [each[:1] for each in lines] == [[name] for name in names], [done.stderr for done in runs]
    for each in lines[1:]:
        assert each[1:] == lines[0][1:]


def test_running_out_of_memory_is_an_error_not_an_abort():
    """With no address space left the call raises MemoryError naming the workspace, and the process lives on."""
    code = """
import resource, numpy as np, native_problems as problems
from convgrad.engines import library, native
made = problems.problem("conv n1 c256>256 i14x14 k3x3 s1 p1 d1 g1 fp32")
arrays = problems.operands(made, lambda shape: np.ones(shape))
results = problems.empty_results(made)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
try:
    native.run(made, *arrays, results, threads=1)
except MemoryError as error:
    print("refused:", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
native.run(made, *arrays, results, threads=1)
print("then", results[made.steps[2].result][0])
"""
    done = run_python(code, PYTHONPATH=SUPPORT)
    assert "refused: not enough memory for the workspace" in done.stdout, done.stdout + done.stderr
    assert "then 196.0" in done.stdout


def test_unaligned_and_swapped_arrays_are_copied():
    """Elements off their alignment or of the other byte order give the same gradients."""
    rng = np.random.default_rng(2)
    x = rng.integers(-3, 4, (1, 2, 5, 5)).astype(np.float32)
    w = rng.integers(-3, 4, (3, 2, 3, 3)).astype(np.float32)
    g = rng.integers(-3, 4, (1, 3, 3, 3)).astype(np.float32)
    want = convgrad.conv_backward(g, x, w)
    odd = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    for given in (odd, x.astype(">f4")):
        got = convgrad.conv_backward(g, given, w)
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.memory
@pytest.mark.skipif(not os.environ.get("CONVGRAD_TEST_MEMORY"), reason="needs 12 GB: set CONVGRAD_TEST_MEMORY=1")
def test_more_than_two_to_the_31_elements():
    """Indices are 64-bit: the last row of a huge tensor gets its own gradient."""
    n = (1 << 31) // (64 * 1024) + 3
    x = np.zeros((n, 1, 64, 1024), np.float16)
    g = np.zeros_like(x)
    x[-1, 0, -1, -1] = 2
    g[-1, 0, -1, -1] = 3
    grads = convgrad.conv_backward(g, x, np.full((1, 1, 1, 1), 5, np.float16), output_mask=(True, True, True))
    assert grads.input[-1, 0, -1, -1] == 15 and grads.weight[0, 0, 0, 0] == 6 and grads.bias[0] == 3
