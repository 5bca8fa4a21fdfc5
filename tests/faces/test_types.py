"""What a type checker tells users: wrong operands are errors, gradients are arrays of their tensors' types."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import numpy as np
import convgrad
from numpy.typing import NDArray

x: NDArray[np.float16]
w: NDArray[np.float32]
g: NDArray[np.float64]
x, w, g = np.ones((1, 1, 4), np.float16), np.ones((1, 1, 1), np.float32), np.ones((1, 1, 4))
found = convgrad.conv_backward(g, x, w)
reveal_type(found.input)  # NDArray[np.float16]
reveal_type(found.weight)  # NDArray[np.float32]
reveal_type(found.bias)  # NDArray[np.float64]
first, second, third = found
reveal_type(second)  # NDArray[np.float32]
reveal_type(convgrad.conv_backward(g, x, w, output_mask=(True, False, False)).weight)  # NDArray[Any] | Any
reveal_type(convgrad.convolution(x, w))  # NDArray[np.float16]
reveal_type(convgrad.conv_tbc_backward(g, x, w).weight)  # NDArray[np.float32]
reveal_type(convgrad.conv_tbc(x, w))  # NDArray[np.float16]
found.weight.sum() + convgrad.conv_backward([[[1.0]]], convgrad.Tensor([[[1.0]]], "hifloat8"), w).weight.sum()
convgrad.plan(convgrad.Request.parse("conv n1 c1>1 i4 k1")).run(g, x, w).input.sum()
convgrad.conv_backward(1, "no", None)  # error
convgrad.conv_backward(g, x, w, stride="1")  # error
convgrad.conv_backward(g, x, w, output_mask=3)  # error
convgrad.convolution("no", w)  # error
convgrad.conv_tbc(x, 3.0)  # error
convgrad.check("conv n1 c1>1 i4 k1")  # error
found.wieght  # error
"""


def test_mypy_refuses_wrong_operands_and_knows_the_gradients(tmp_path: Path) -> None:
    """Under mypy --strict: an error on every line marked so and on no other, and the types as revealed."""
    pytest.importorskip("mypy")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    cache = Path(__file__).parents[2] / ".mypy_cache" / "users"
    options = ["--strict", "--python-version", "3.10", "--cache-dir", str(cache)]
    done = subprocess.run([sys.executable, "-m", "mypy", *options, str(path)], capture_output=True, text=True,
                          check=False, cwd=tmp_path)
    lines = PROGRAM.splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
    errors = {int(number) for number in re.findall(r"^program\.py:(\d+): error", done.stdout, re.MULTILINE)}
    assert errors == marked, done.stdout + done.stderr
    revealed = re.findall(r'^program\.py:(\d+): note: Revealed type is "(.*)"$', done.stdout, re.MULTILINE)
    assert len(revealed) == PROGRAM.count("reveal_type")
    for number, told in revealed:
        wanted = lines[int(number) - 1].partition("# ")[2]
        element = wanted.removeprefix("NDArray[").partition("]")[0].removeprefix("np.")
        bits = {"float16": "_16Bit", "float32": "_32Bit", "float64": "float64", "Any": "Any"}[element]
        assert "numpy.ndarray" in told and bits in told, (lines[int(number) - 1], told)
