"""C++ kernels built with `convgrad-cxx` against an installed prefix, and run on the problems of the Python model."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from c_programs import ROOT, made_once, prefix
from convgrad.ascendc import (
    Conv3DBackpropFilterTilingData,
    Conv3DBackpropInputTilingData,
    GlobalTensor,
    TConv3DBackpropInputTiling,
    TConv3DBpFilterTiling,
    from_ndc1hwc0,
    simulate,
    simulate_filter,
    tiling_to_bytes,
    to_fractal_z_3d,
    to_ndc1hwc0,
)
from convgrad.ascendc.device.conv_type import find_dtype
from convgrad.ascendc.filter.kernel import Conv3DBackpropFilter
from convgrad.ascendc.filter.simulate import filter_types
from convgrad.core import rounding
from convgrad.text import language
from tile_problems import TileProblem, plain_grad_input, plain_grad_weight

KERNELS = ROOT / "tests" / "kernels"
STRICT_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
PROBLEMS = int(os.environ.get("CONVGRAD_KERNEL_PROBLEMS", "12"))
"""How many random problems a whole kernel is run on: `make parity` takes 200."""
C_NAMES = {"float16": "half", "bfloat16": "bfloat16_t"}


def compiled(source: str | Path, *flags: str, compiler: str = "g++") -> subprocess.CompletedProcess[str]:
    """What the compiler says of a kernel, without a program."""
    return wrapper([str(KERNELS / source), "-fsyntax-only", *flags], compiler)


def wrapper(arguments: Sequence[str], compiler: str = "g++") -> subprocess.CompletedProcess[str]:
    """convgrad-cxx with these arguments."""
    command = [str(prefix() / "bin/convgrad-cxx"), *arguments]
    environment = {**os.environ, "CXX": compiler}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def program(source: str | Path, *flags: str, compiler: str = "g++") -> Path:
    """A kernel's program, built once."""

    def make(directory: Path) -> None:
        arguments = [str(KERNELS / source), *STRICT_WARNINGS, "-Wno-unused-but-set-variable", *flags]
        done = wrapper([*arguments, "-o", str(directory / "program")], compiler)
        assert done.returncode == 0, done.stderr

    parts = [KERNELS / source, *sorted(KERNELS.glob("*.h")), prefix().name, compiler, *flags]
    return made_once(f"kernel-{Path(source).stem}", parts, make) / "program"


def has_chinese(finding: str) -> bool:
    """Whether a finding, as `file:line: rule: core 0: words`, has its Chinese, no three English words in a row."""
    words = re.sub(r"^(?:\S+:\d+: )?[\w.]+: (?:core \d+: )?", "", finding)
    told = language.chinese(words)
    return told is not None and not re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", told)


@dataclass(frozen=True)
class Ran:
    """How a program ended: what it left in memory, what it printed, its exit code."""

    result: np.ndarray
    stderr: str
    code: int


def run_files(
    binary: Path, cores: int, files: Sequence[bytes], result: np.ndarray, scratch: Path, **environment: str
) -> Ran:
    """Run a program on files of global memory; `result` gives shape and dtype of what it writes."""
    paths = [scratch / f"operand{number}.bin" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    out = scratch / "result.bin"
    out.write_bytes(result.tobytes())
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CONVGRAD_", "ASCEND_"))}
    done = subprocess.run(
        [str(binary), str(cores), *map(str, paths), str(out)], capture_output=True, text=True, check=False, timeout=120,
        env={**clean, **environment},
    )  # fmt: skip
    return Ran(np.frombuffer(out.read_bytes(), result.dtype).reshape(result.shape), done.stderr, done.returncode)


def input_record(problem: TileProblem, dtype: str = "float16") -> TConv3DBackpropInputTiling:
    """The record our own tiling makes for a problem."""
    grad_output, weight, _ = (array.astype(rounding.storage(dtype)) for array in problem.arrays())
    shape = problem.input_shape if problem.output_padding is None else None
    extra = {} if problem.output_padding is None else {"output_padding": problem.output_padding}
    return simulate(grad_output, weight, input_shape=shape, cores=problem.cores, **problem.attributes(), **extra).tiling


def run_input(
    binary: Path, problem: TileProblem, record: TConv3DBackpropInputTiling, cores: int, scratch: Path, *,
    dtype: str = "float16", operands: tuple[np.ndarray, np.ndarray] | None = None, **environment: str,
) -> Ran:  # fmt: skip
    """gradInput (NDC1HWC0) of a program, NaN where it writes nothing."""
    storage = rounding.storage(dtype)
    grad_output, weight = (one.astype(storage) for one in operands or problem.arrays()[:2])
    files = [
        tiling_to_bytes(Conv3DBackpropInputTilingData(record)), to_fractal_z_3d(weight, 16).tobytes(),
        to_ndc1hwc0(grad_output, 16).tobytes(),
    ]  # fmt: skip
    result = np.zeros((record.batch, record.di, record.cin1, record.hi, record.wi, 16), storage)
    return run_files(binary, cores, files, result, scratch, **environment)


def check_grad_input(
    binary: Path, problem: TileProblem, record: TConv3DBackpropInputTiling, cores: int, scratch: Path, dtype: str,
    **environment: str,
) -> None:  # fmt: skip
    """Small integers exactly; real numbers within one rounding of the exact gradient, and the bits of the model."""
    storage, rng = rounding.storage(dtype), np.random.default_rng(problem.seed)
    shape = problem.input_shape if problem.output_padding is None else None
    extra = {} if problem.output_padding is None else {"output_padding": problem.output_padding}
    for operands in (problem.arrays()[:2], [rng.normal(size=one.shape) for one in problem.arrays()[:2]]):
        grad_output, weight = (one.astype(storage) for one in operands)
        ran = run_input(binary, problem, record, cores, scratch, dtype=dtype, operands=(grad_output, weight),
                        **environment)  # fmt: skip
        assert (ran.stderr, ran.code) == ("", 0), problem
        got = from_ndc1hwc0(ran.result, problem.cin)
        values = [one.astype(np.float64) for one in (grad_output, weight)]
        exact = plain_grad_input(problem, *values)
        if np.array_equal(values[0], problem.arrays()[0]):
            assert np.array_equal(got.astype(np.float64), exact.astype(storage).astype(np.float64)), problem
            continue
        # float32 sums: at most a unit of float32 for each term of sizes that add up to this
        terms = problem.cout * int(np.prod(problem.window))
        slack = terms * 2.0**-24 * plain_grad_input(problem, *map(np.abs, values))
        unit = 2.0 ** (-11 if dtype == "float16" else -8) * np.maximum(np.abs(exact) + slack, 2.0**-14)
        assert (np.abs(got.astype(np.float64) - exact) <= unit + slack).all(), problem
        model = simulate(grad_output, weight, input_shape=shape, cores=cores, tiling=record, dtype=dtype,
                         **problem.attributes(), **extra)  # fmt: skip
        assert model.grad_input_gm.tobytes() == ran.result.tobytes(), problem


def rows_in_threes(
    t: TConv3DBpFilterTiling, cores: int, dtype: str, input_gm: np.ndarray, grad_output_gm: np.ndarray
) -> np.ndarray:
    """gradWeight as the Python model sums it in the walks of documented_filter.cpp, one core after the other."""
    summed = np.zeros(t.grad_weight_size, np.float32)
    input, grad_output, grad_weight = (GlobalTensor(one.reshape(-1)) for one in (input_gm, grad_output_gm, summed))
    cout, cin, per_kd = t.weight_cout, t.cin1 * 16, t.grad_weight_size // t.dk
    places = itertools.product(range(t.batch), range(t.dout), range(t.dk), range(0, t.ho, 3))
    work = list(enumerate(places))
    for core in range(cores):
        kernel = Conv3DBackpropFilter(*filter_types(find_dtype(dtype)))
        kernel.Init(t)
        for index, (n, d, kd, row) in work:
            din = d * t.strideD + kd * t.dilationD - t.padFront
            if index % cores != core or not 0 <= din < t.di:
                continue
            top = max(row * t.strideH - t.padUp, 0)
            kernel.SetGradOutput(grad_output[((n * t.dout + d) * cout // 16 * t.ho + row) * t.wo * 16])
            kernel.SetInput(input[((n * t.di + din) * cin // 16 * t.hi + top) * t.wi * 16])
            kernel.SetSingleShape(cout, cin * t.hk * t.wk, min(3, t.ho - row) * t.wo)
            kernel.SetStartPosition(row)
            while kernel.Iterate():
                kernel.GetTensorC(grad_weight[kd * per_kd])
            kernel.ctx.isFirstIter_ = True
        kernel.End()
    return summed


def check_grad_weight(
    binary: Path, problem: TileProblem, record: TConv3DBpFilterTiling, cores: int, scratch: Path, dtype: str,
    **environment: str,
) -> None:  # fmt: skip
    """Small integers exactly; real numbers within what float32 sums may err, and the bits of the model's same walks."""
    storage, rng = rounding.storage(dtype), np.random.default_rng(problem.seed)
    grad_output, _, input = problem.arrays()
    for operands in ((input, grad_output), [rng.normal(size=one.shape) for one in (input, grad_output)]):
        x, go = (one.astype(storage) for one in operands)
        ran = run_filter(binary, problem, record, cores, scratch, dtype=dtype, operands=(x, go), **environment)
        assert (ran.stderr, ran.code) == ("", 0), problem
        values = go.astype(np.float64), x.astype(np.float64)
        exact = plain_grad_weight(problem, *values)
        if np.array_equal(values[1], input):
            assert np.array_equal(ran.result, to_fractal_z_3d(exact.astype(np.float32), 16)), problem
            continue
        terms = problem.batch * int(np.prod(problem.out))
        slack = terms * 2.0**-23 * to_fractal_z_3d(plain_grad_weight(problem, *map(np.abs, values)), 16)
        assert (np.abs(ran.result - to_fractal_z_3d(exact, 16)) <= slack).all(), problem
        if "documented" in str(binary):
            model = rows_in_threes(record, cores, dtype, to_ndc1hwc0(x, 16), to_ndc1hwc0(go, 16))
            assert model.tobytes() == ran.result.tobytes(), problem


def filter_record(problem: TileProblem, dtype: str = "float16") -> TConv3DBpFilterTiling:
    """The filter record our own tiling makes for a problem."""
    grad_output, _, input = (array.astype(rounding.storage(dtype)) for array in problem.arrays())
    attributes = {**problem.attributes(), "weight_shape": problem.weight_shape, "cores": problem.cores}
    return simulate_filter(input, grad_output, **attributes).tiling


def run_filter(
    binary: Path, problem: TileProblem, record: TConv3DBpFilterTiling, cores: int, scratch: Path, *,
    dtype: str = "float16", operands: tuple[np.ndarray, np.ndarray] | None = None, **environment: str,
) -> Ran:  # fmt: skip
    """gradWeight (FRACTAL_Z_3D) of a program."""
    storage = rounding.storage(dtype)
    grad_output, _, input = problem.arrays()
    input, grad_output = (one.astype(storage) for one in operands or (input, grad_output))
    data = replace(Conv3DBackpropFilterTilingData(), dwTiling=record)
    files = [tiling_to_bytes(data), to_ndc1hwc0(input, 16).tobytes(), to_ndc1hwc0(grad_output, 16).tobytes()]
    shape = (record.dk * record.cin1 * record.hk * record.wk, record.weight_cout // 16, 16, 16)
    return run_files(binary, cores, files, np.zeros(shape, np.float32), scratch, **environment)
