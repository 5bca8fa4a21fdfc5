"""The precision rows as a page and as a C table."""

from __future__ import annotations

from convgrad.core import dtypes, products
from convgrad.core.precision import NUMERICS, ROWS, hf32_of
from convgrad.rules.precision_grid import grid_cell

_INCLUDE_HEAD = """\
 *
 * C++17. The compute dtype of an accepted call: the row whose product bit (1 << product index) and math bit
 * (1 << cubeMathType) are set and whose `promoted` is the promoted dtype (an aclDataType). Refusals are rows of
 * rules.inc. `compute`, `accumulate` and `result` are an enum cg_dtype of convgrad.h: operands are rounded once to
 * the first, sums are kept in the second, grad_input is rounded to the third before it is stored. Promoted dtype: the
 * one grad_output, input and weight share; else float64 if one of them is; else float32. */
struct cg_precision_row { unsigned products, math; int promoted, compute, accumulate, result; };
"""


def precision_include(notice: str) -> str:
    """The whole text of native/generated/precision.inc."""
    rows = []
    for row in ROWS:
        by_compute: dict[str, int] = {}
        for product in row.products:
            name = hf32_of(product) if row.compute == "hf32" else row.compute
            by_compute[name] = by_compute.get(name, 0) | 1 << products.KEYS.index(product)
        math = sum(1 << m for m in row.math)
        promoted = dtypes.find(row.promoted).acl_code
        for name, mask in by_compute.items():
            numerics = NUMERICS[name]
            codes = (dtypes.find(n).engine_code for n in (name, numerics.accumulate, numerics.result))
            cells = ", ".join(map(str, (promoted, *codes)))
            rows.append(f"    {{0x{mask:02x}, 0x{math:x}, {cells}}}, /* {row.promoted} -> {name} */")
    head = [f"/* {notice}", *_INCLUDE_HEAD.splitlines()]
    return "\n".join([*head, f"static constexpr cg_precision_row CG_PRECISION[{len(rows)}] = {{", *rows, "};", ""])


def precision_page() -> str:
    """docs/generated/precision.md: one grid per product, refusals included."""
    lines = [
        "# Precision", "",
        "What operands are rounded to, once, before they are multiplied. P is the promoted dtype: the one that "
        "grad_output, input and weight share, else float64 if one of them is, else float32.", "",
        "Sums are kept in float32 (float64 for float64). grad_input is stored once in the compute dtype (HF32: "
        "float32), then cast to its own dtype; grad_weight is cast once from the sum; grad_bias is the sum of the "
        "original grad_output, rounded to its dtype, whatever cubeMathType says.", "",
        "hf32 has 11 fraction bits, hf32_10 has 10; both round ties away from zero. A number instead of a dtype is "
        "the status of the refusal; *document / runtime* where the two differ; \\* for transposed convolutions "
        "that want grad_input alone.", "",
    ]  # fmt: skip
    dtypes_of_tensors = [row.name for row in dtypes.ALL if row.is_tensor_dtype]
    for product in products.PRODUCTS:
        if not product.convolution_backward:
            continue
        head = "| P | 0 KEEP_DTYPE | 1 ALLOW_FP32_DOWN_PRECISION | 2 USE_FP16 | 3 USE_HF32 |"
        lines += [f"## {product.key}", "", head, "|---|---|---|---|---|"]
        for name in dtypes_of_tensors:
            lines.append(f"| {name} | " + " | ".join(_cell_words(product.key, name, math) for math in range(4)) + " |")
        lines.append("")
    return "\n".join(lines)


def _cell_words(product: str, promoted: str, math: int) -> str:
    document, runtime = (grid_cell(product, promoted, math, c) for c in ("document", "runtime"))
    stars = ["\\*" if cell.transposed_only else "" for cell in (document, runtime)]
    words = [(cell.compute or str(int(cell.status))) + s for cell, s in zip((document, runtime), stars, strict=True)]
    return words[0] if words[0] == words[1] else " / ".join(words)
