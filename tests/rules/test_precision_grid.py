"""cubeMathType: what is computed in what, cell by cell, and the numerics that follow."""

import numpy as np
import pytest

from convgrad import aclnn
from convgrad.core.precision import compute_dtype, promote
from convgrad.core.request import Operator, Request
from convgrad.rules.check import check
from convgrad.rules.precision_grid import grid_cell

NO = "161002"
# product: {promoted dtype: compute dtype for cubeMathType 0, 1, 2, 3}, typed a second time; document conformance.
F16, BF16, F32, H11, H10 = "float16", "bfloat16", "float32", "hf32", "hf32_10"
RECENT = {"float32": (F32, H11, F16, H11), "float16": (F16,) * 4, "bfloat16": (BF16, BF16, NO, BF16)}
OLDER = {"float32": (NO, F16, F16, NO), "float16": (F16,) * 4, "bfloat16": (NO,) * 4}
GRID = {
    "A2": RECENT, "A3": RECENT, "910": OLDER, "310P": OLDER,
    "950": RECENT | {"float32": (F32, H10, F16, H10), "hifloat8": ("hifloat8",) * 4,
                     "float8_e4m3fn": ("float8_e4m3fn",) * 4},
    "cpu": RECENT | {"bfloat16": (BF16, BF16, F16, BF16), "float64": ("float64",) * 4, "hifloat8": ("hifloat8",) * 4,
                     "float8_e4m3fn": ("float8_e4m3fn",) * 4, "float8_e5m2": ("float8_e5m2",) * 4},
    "310B": {}, "310": {},
}  # fmt: skip
DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8")


@pytest.mark.parametrize("product", GRID)
def test_every_cell_of_the_grid(product: str) -> None:
    """Product by dtype by math type: the compute dtype, or 161002."""
    for dtype in DTYPES:
        for math in range(4):
            cell = grid_cell(product, dtype, math)
            expected = GRID[product].get(dtype, (NO,) * 4)[math]
            assert (cell.compute or str(int(cell.status))) == expected, (dtype, math)


@pytest.mark.parametrize("product", ("A2", "A3", "950"))
def test_the_runtime_computes_bfloat16_with_math_2_on_float16(product: str) -> None:
    """The one cell where the conformances differ for 16-bit tensors; the call is warned about."""
    assert grid_cell(product, BF16, 2, "runtime").compute == F16
    verdict = check(Request.parse(f"conv n1 c1>1 i1 k1 bf16 math=fp16 on={product} as=runtime"))
    assert verdict.ok and "float16" in verdict.advice[0]


@pytest.mark.parametrize("product", ("A2", "A3", "950", "910"))
def test_tbc_uses_the_same_grid(product: str) -> None:
    """The second operator has no precision of its own; on 910 its document refuses math 3 whatever the dtype."""
    for dtype in ("float32", "float16", "bfloat16"):
        for math in range(4):
            for conformance in ("document", "runtime"):
                cell = grid_cell(product, dtype, math, conformance, Operator.TBC)
                refused = product == "910" and math == 3 and conformance == "document"
                expected = NO if refused else GRID[product][dtype][math]
                if (dtype, math, conformance) == (BF16, 2, "runtime"):
                    expected = F16 if product != "910" else NO
                assert (cell.compute or str(int(cell.status))) == expected, (dtype, math, conformance)


def test_math_types_outside_the_list_are_refused_everywhere() -> None:
    """-1 and 4 (a matmul's) are 161002 on every product."""
    for product in GRID:
        for math in (-1, 4):
            assert check(Request.parse(f"conv n1 c1>1 i1 k1 fp16 math={math} on={product}")).status == 161002


def test_promotion() -> None:
    """Equal dtypes stay; any mix is float32, with float64 float64."""
    for a in ("float32", "float16", "bfloat16"):
        for b in ("float32", "float16", "bfloat16"):
            for c in ("float32", "float16", "bfloat16"):
                assert promote(a, b, c) == (a if a == b == c else "float32")
    assert promote("float64", "float16", "hifloat8") == "float64"
    assert promote("hifloat8", "hifloat8", "hifloat8") == "hifloat8"
    assert compute_dtype("A2", promote("float16", "bfloat16", "float16"), 1) == H11


# ---- numerics, through the two-phase calls ----------------------------------------------------------------


def gradients(product, math, grad_output, weight, input_, dtype=np.float32, conformance="document"):
    """(grad_input, grad_weight, grad_bias) of a convolution of single numbers."""
    go, x, w = (np.full((1, 1, 1), v, dtype) for v in (grad_output, input_, weight))
    gx, gw, gb = np.zeros_like(x), np.zeros_like(w), np.zeros(1, dtype)
    aclnn.set_product(product)
    aclnn.set_conformance(conformance)
    try:
        size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
            go, x, w, [1], [1], [0], [1], False, [0], 1, [True] * 3, math, gx, gw, gb
        )
        assert status == 0, aclnn.aclGetRecentErrMsg()
        assert aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == 0
    finally:
        aclnn.set_product(None)
        aclnn.set_conformance(None)
    return float(gx[0, 0, 0]), float(gw[0, 0, 0]), float(gb[0])


@pytest.mark.parametrize(("product", "bits"), (("A2", 11), ("A3", 11), ("950", 10)))
def test_hf32_has_11_bits_and_on_950_10(product: str, bits: int) -> None:
    """A tie of the shorter operand goes away from zero; math 0 keeps the float32 value."""
    tie = 1 + 2.0 ** -(bits + 1)
    for math in (1, 3):
        assert gradients(product, math, tie, 1.0, 1.0)[:2] == (1 + 2.0**-bits, 1 + 2.0**-bits)
        assert gradients(product, math, 1 + 2.0**-bits, 1.0, 1.0)[0] == 1 + 2.0**-bits
    assert gradients(product, 0, tie, 1.0, 1.0)[0] == tie


@pytest.mark.parametrize("product", ("910", "310P"))
@pytest.mark.parametrize("math", (1, 2))
def test_older_products_multiply_float16(product: str, math: int) -> None:
    """float32 operands are rounded to float16, to nearest even, overflow to infinity."""
    assert gradients(product, math, 1 + 2.0**-11, 1.0, 1.0)[:2] == (1.0, 1.0)
    assert gradients(product, math, 1e6, 1.0, 1.0)[0] == np.inf


def test_grad_input_is_stored_in_the_compute_dtype_and_grad_weight_is_not() -> None:
    """300 * 300 overflows a float16 grad_input, while grad_weight keeps its float32 sum."""
    assert gradients("A2", 2, 300.0, 300.0, 300.0)[:2] == (np.inf, 90000.0)
    assert gradients("A2", 0, 300.0, 300.0, 300.0)[:2] == (90000.0, 90000.0)


@pytest.mark.parametrize(("product", "math"), (("A2", 1), ("A2", 2), ("950", 3), ("910", 1)))
def test_grad_bias_sums_the_original_grad_output(product: str, math: int) -> None:
    """cubeMathType does not reach grad_bias."""
    value = float(np.float32(1e6 + 0.0625))
    assert gradients(product, math, value, 1.0, 1.0)[2] == value


def test_bfloat16_with_math_2_runs_on_float16_in_the_runtime() -> None:
    """2^-30 is a bfloat16 but no float16: it becomes 0; grad_bias keeps it."""
    import ml_dtypes

    got = gradients("A2", 2, 2.0**-30, 1.0, 1.0, ml_dtypes.bfloat16, "runtime")
    assert got == (0.0, 0.0, 2.0**-30)
