"""Host classes of the kernel headers: GetTiling, records, platforms, as a C++ program sees them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import numpy as np

from convgrad.ascendc import (
    Conv3DBackpropFilterTilingData,
    Conv3DBackpropInputTilingData,
    ConvDtype,
    PlatformInfo,
    tiling_to_bytes,
)
from convgrad.ascendc.filter.tiling import tiling_object as filter_object
from convgrad.ascendc.input.tiling import tiling_object as input_object
from convgrad.ascendc.shared.arguments import TileArguments
from kernel_programs import STRICT_WARNINGS, compiled, program
from tile_problems import random_problem

HOST_CLASSES = """\
weight 1
the same 1
another cin 0
another cout 0
output padding 1
gradOutput 1
another cout 0
input 1
another batch 0
another cin 0
output padding after the input shape 0
GetTiling 1
into the plain record 1
equal bytes 1
refused -1: H: gradOutput must be (size 6 + pads 1 + 1 - reach 3) / stride 64 + 1 = 1, got 6
left alone 1
own record: 320 bytes, scale 0.5, baseM the same, kernel 534.5 6
unknown 1
platform 1 cores 24 48, the same 1, stores 65536 131072 524288 196608 1024
filter 1
cout 24, bytes 240
"""


def host_problem(seed: int) -> tuple[TileArguments, TileArguments]:
    """A problem for either object: small or large, now and then one it refuses, on stores of any size."""
    rng, problem = np.random.default_rng(seed), random_problem(seed, transposed=seed % 4 == 3)
    grad_output, weight, input = map(list, (problem.output_shape, problem.weight_shape, problem.input_shape))
    if seed % 2:
        grad_output[1] = weight[0] = int(rng.integers(1, 600))
        weight[1] = input[1] = int(rng.integers(1, 600))
        grad_output[2:] = (int(rng.integers(1, 9)), *map(int, rng.integers(1, 130, 2)))
        for axis in range(3):
            pads = sum(problem.padding[2 * axis : 2 * axis + 2])
            reach = (problem.window[axis] - 1) * problem.dilation[axis] + 1
            slack = int(rng.integers(0, problem.stride[axis]))
            input[2 + axis] = (grad_output[2 + axis] - 1) * problem.stride[axis] + reach - pads + slack
    if seed % 8 == 0:
        grad_output[2 + int(rng.integers(0, 3))] += int(rng.integers(-1, 2))
    cores, dtype = int(rng.integers(1, 33)), ConvDtype(int(rng.choice([0, 2, 1])))
    platform = PlatformInfo(ubSize=0, cores=cores)
    if seed % 3 == 0:
        l1, l0a, l0b, l0c = (1024 * int(rng.integers(1, most)) for most in (300, 65, 65, 129))
        platform = replace(platform, l1Size=l1, l0ASize=l0a, l0BSize=l0b, l0CSize=l0c)
    shapes = grad_output, weight, input
    attributes = problem.stride, problem.padding, problem.dilation, dtype, cores
    extra = problem.output_padding
    transposed = TileArguments(grad_output, weight, None, *attributes, extra, platform) if extra else None
    plain = TileArguments(*shapes, *attributes, (0, 0, 0), platform)
    return transposed or plain, plain


def request(kind: str, given: TileArguments, input_shape: object) -> str:
    """A line for the C++ program."""
    p = given.platform
    numbers = [
        given.cores, p.l1Size, p.l0ASize, p.l0BSize, p.l0CSize, int(given.dtype), int(given.input_shape is None),
        *given.weight_shape, *input_shape, *given.grad_output_shape, *given.padding, *given.stride, *given.dilation,
        *given.output_padding,
    ]  # fmt: skip
    return " ".join([kind, *map(str, numbers)])


def test_get_tiling_equals_the_python_model() -> None:
    """Every byte of both records, and every reason of a refusal, for problems of any size on stores of any size."""
    lines, expected = [], []
    for seed in range(int(os.environ.get("CONVGRAD_HOST_PROBLEMS", "160"))):
        either, plain = host_problem(seed)
        for kind, given in (("input", either), ("filter", plain)):
            host = input_object(given) if kind == "input" else filter_object(given)
            data = Conv3DBackpropInputTilingData() if kind == "input" else Conv3DBackpropFilterTilingData()
            code = host.GetTiling(data)
            expected.append(f"{code} {host.reason if code else tiling_to_bytes(data).hex()}")
            lines.append(request(kind, given, plain.input_shape))
    done = subprocess.run(
        [str(program("host_tiling.cpp"))], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == expected
    assert 20 < sum(line.startswith("-1") for line in expected) < len(expected) // 2


def test_host_classes() -> None:
    """Setters refuse as documented, a refused GetTiling leaves the record alone, own records are plain."""
    done = subprocess.run([str(program("host_classes.cpp"))], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (HOST_CLASSES, "", 0)


def test_platform_and_log_come_from_the_environment() -> None:
    """CONVGRAD_TILE_LOG=1 prints why GetTiling was refused."""
    environment = {"CONVGRAD_TILE_LOG": "1", "CONVGRAD_PRODUCT": "A2"}
    done = subprocess.run(
        [str(program("host_classes.cpp"))], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout == HOST_CLASSES
    assert done.stderr.startswith("GetTiling: H: gradOutput must be (size 6 + pads 1 + 1 - reach 3) / stride 64")


def test_host_classes_compile_silently() -> None:
    """Kernel and host tiling in one file, as C++17 and C++20, all warnings as errors, with private made public."""
    for standard in ("c++17", "c++20"):
        done = compiled(
            "host_classes.cpp", f"-std={standard}", *STRICT_WARNINGS, "-Dprivate=public", "-Dprotected=public"
        )
        assert (done.returncode, done.stderr) == (0, "")
