"""Kernels in the spelling of public operators: planes of a walk, IterateAll, queues, copies, flags, mixed roles."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from convgrad.ascendc import Conv3DBackpropInputTilingData, tiling_to_bytes, to_fractal_z_3d, to_ndc1hwc0
from convgrad.core import rounding
from kernel_programs import (
    C_NAMES,
    PROBLEMS,
    check_grad_input,
    check_grad_weight,
    compiled,
    filter_record,
    has_chinese,
    input_record,
    program,
    run_files,
    run_filter,
)
from tile_problems import (
    forced_small_filter_tiles,
    forced_small_tiles,
    plain_grad_input,
    random_problem,
)

CORES = (1, 3, 8)


@pytest.mark.parametrize("dtype", C_NAMES)
def test_several_planes_a_walk(dtype: str, tmp_path: Path) -> None:
    """A grid kernel with IterateAll and two planes a walk gives gradInput, zeroing by vector cores included."""
    binary = program("operator_input.cpp", f"-DNUMBER={C_NAMES[dtype]}")
    planes = 0
    for seed in range(PROBLEMS):
        problem = random_problem(seed, transposed=seed % 4 == 3)
        record = input_record(problem, dtype)
        record = forced_small_tiles(record, seed) if seed % 2 else record
        planes += record.di > 2
        check_grad_input(binary, problem, record, CORES[seed % 3], tmp_path, dtype)
    assert planes > 3


@pytest.mark.parametrize(("way", "dtype"), [(1, "float16"), (2, "bfloat16")])
def test_zeroing_by_cube_cores(way: int, dtype: str, tmp_path: Path) -> None:
    """Zeros copied from L1, or stored as a product of zeros, then a flag of all cube cores: right, nothing found."""
    binary = program("operator_input.cpp", f"-DNUMBER={C_NAMES[dtype]}", f"-DZEROS_BY={way}")
    zeroed = 0
    for seed in range(PROBLEMS):
        problem = random_problem(seed, transposed=seed % 4 == 3)
        record = forced_small_tiles(input_record(problem, dtype), seed)
        zeroed += record.initOutputFlag
        check_grad_input(binary, problem, record, CORES[seed % 3], tmp_path, dtype)
    assert zeroed > 2


@pytest.mark.parametrize("dtype", C_NAMES)
def test_columns_run_on_into_the_next_window_planes(dtype: str, tmp_path: Path) -> None:
    """N of several window planes, zeros copied from a buffer of the vector core: gradWeight."""
    binary = program("operator_filter.cpp", f"-DNUMBER={C_NAMES[dtype]}")
    spans = 0
    for seed in range(PROBLEMS):
        problem = random_problem(seed)
        record = filter_record(problem, dtype)
        record = forced_small_filter_tiles(record, seed)[0] if seed % 2 else record
        spans += record.dk > 1 and record.dilationD == 1
        check_grad_weight(binary, problem, record, CORES[seed % 3], tmp_path, dtype)
    assert spans > 2


def test_tiles_left_in_a_workspace_are_added_in_order(tmp_path: Path) -> None:
    """enSequentialWrite, flags, a queue and atomic copies of vector cores: gradWeight, the same bits on any cores."""
    binary = program("ordered_filter.cpp")
    for seed in range(PROBLEMS):
        problem = random_problem(seed)
        record = filter_record(problem)
        record = forced_small_filter_tiles(record, seed)[0] if seed % 2 else record
        check_grad_weight(binary, problem, record, CORES[seed % 3], tmp_path, "float16")
    problem, rng = random_problem(5), np.random.default_rng(5)
    operands = rng.normal(size=problem.input_shape), rng.normal(size=problem.output_shape)
    record = filter_record(problem)
    ran = [run_filter(binary, problem, record, cores, tmp_path, operands=operands) for cores in (1, 3, 8)]
    assert len({one.result.tobytes() for one in ran}) == 1 and {one.code for one in ran} == {0}


@pytest.mark.parametrize("dtype", C_NAMES)
def test_ncdhw_through_vector_cores(dtype: str, tmp_path: Path) -> None:
    """Raw tiles in a workspace, turned and stored by two vector cores per block: gradInput in NCDHW exactly."""
    binary = program("operator_ncdhw.cpp", f"-DNUMBER={C_NAMES[dtype]}")
    for seed in range(8):
        problem = random_problem(seed, transposed=seed % 4 == 3)
        storage = rounding.storage(dtype)
        grad_output, weight = (array.astype(storage) for array in problem.arrays()[:2])
        record = input_record(problem, dtype)
        record = forced_small_tiles(record, seed) if seed % 2 else record
        files = [
            tiling_to_bytes(Conv3DBackpropInputTilingData(record)), to_fractal_z_3d(weight, 16).tobytes(),
            to_ndc1hwc0(grad_output, 16).tobytes(),
        ]  # fmt: skip
        result = np.zeros((record.batch, record.cin, record.di, record.hi, record.wi), storage)
        ran = run_files(binary, CORES[seed % 3], files, result, tmp_path)
        assert (ran.stderr, ran.code) == ("", 0), seed
        exact = plain_grad_input(problem, *problem.arrays()[:2]).astype(storage)
        assert np.array_equal(ran.result.astype(np.float64), exact.astype(np.float64)), seed


def test_local_memory() -> None:
    """Copies with gaps and pads, transposes, constants, products of zeros and stores that add, element by element."""
    done = subprocess.run([str(program("local_memory.cpp"))], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("all as expected\n", "", 0)


LOCAL_MISTAKES = {
    "alloc": "queue.full: core 0: AllocTensor: every buffer of the queue is in use",
    "deque": "queue.empty: core 0: DeQue: nothing is in the queue; EnQue comes first",
    "free": "queue.free: core 0: FreeTensor: the tensor is not one that AllocTensor of this queue gave",
    "range": "local.range: core 0: SetValue: bytes 4096...4099 of a local tensor of 256 bytes",
    "length": "copy.length: core 0: DataCopy: copies whole blocks of 32 bytes; DataCopyPad takes any length",
    "capacity": "capacity.UB: core 0: InitBuffer: the buffers in UB must fit, got 200256 bytes of 196608",
    "event": "sync.event: core 0: WaitFlag: the event was not set; SetFlag of the same event and number comes first",
    "past": "gm.range: core 0: DataCopy: elements 60...67 of reinterpret_cast<uint8_t *>(numbers) (size 64) lie 4 "
    "elements past its end",
}


@pytest.mark.parametrize("mistake", LOCAL_MISTAKES)
def test_mistakes_with_local_memory_are_told(mistake: str) -> None:
    """Each is a finding at its line, and the program ends with 1."""
    binary = str(program("local_memory.cpp"))
    done = subprocess.run([binary, mistake], capture_output=True, text=True, check=False, timeout=60)
    told = [line for line in done.stderr.splitlines() if LOCAL_MISTAKES[mistake] in line]
    assert len(told) == 1 and "local_memory.cpp:" in told[0] and done.returncode == 1, done.stderr
    assert has_chinese(told[0]), told


def test_a_vector_instruction_that_is_not_here_is_a_compile_error(tmp_path: Path) -> None:
    """It names the instruction, the tier and the page; a function of the program's own with that name is none."""
    head = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
    (tmp_path / "vector.cpp").write_text(f"{head}void f(LocalTensor<half> &a) {{ Add(a, a, a, 16); }}\n")
    done = compiled(tmp_path / "vector.cpp")
    assert done.returncode != 0 and "Add is a vector instruction beyond tier 3" in done.stderr, done.stderr
    assert "docs/ascendc_cpp.md" in done.stderr and "vector.cpp:3" in done.stderr
    own = "template <class T> T Max(T a, T b) { return a < b ? b : a; }\nint f(int a) { return Max(a, 2); }\n"
    (tmp_path / "own.cpp").write_text(head + own)
    assert compiled(tmp_path / "own.cpp").returncode == 0
