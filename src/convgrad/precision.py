"""Rows: in which dtype the operands are multiplied, by product, promoted dtype and cubeMathType.

Refusals are not repeated here: a cell of the grid is refused when a rule refuses its smallest call.
"""

from __future__ import annotations

from dataclasses import dataclass

from convgrad import dtypes, products
from convgrad.request import Operator, Request
from convgrad.rules.check import check
from convgrad.rules.facts import Facts, promote
from convgrad.rules.vocabulary import CONV_VENDOR, OLDER, Rule
from convgrad.status import Status

__all__ = ["ROWS", "Cell", "Precision", "compute", "compute_dtype", "grid_cell", "promote"]

KEEP, ALLOW_DOWN, USE_FP16, USE_HF32 = range(4)
_RECENT = ("cpu", "950", "A3", "A2")
_EVERY = ("cpu", *CONV_VENDOR)


@dataclass(frozen=True, slots=True)
class Precision:
    """One row: on these products, this promoted dtype with these math types is computed in `compute`."""

    promoted: str
    math: tuple[int, ...]
    products: tuple[str, ...]
    compute: str
    """Operands are rounded to it once; `hf32` stands for the product's own HF32."""
    source: str


ROWS: tuple[Precision, ...] = (
    Precision("float64", (0, 1, 2, 3), ("cpu",), "float64", "here: math types are about float32"),
    Precision("float32", (KEEP,), _RECENT, "float32", "S2, cubeMathType 0"),
    Precision("float32", (ALLOW_DOWN, USE_HF32), _RECENT, "hf32", "S3, cubeMathType 1 and 3"),
    Precision("float32", (USE_FP16,), _EVERY, "float16", "S3, cubeMathType 2"),
    Precision("float32", (ALLOW_DOWN,), OLDER, "float16", "S3, cubeMathType 1"),
    Precision("float16", (0, 1, 2, 3), _EVERY, "float16", "S3, cubeMathType 3: float16 stays"),
    Precision("bfloat16", (KEEP, ALLOW_DOWN, USE_HF32), _RECENT, "bfloat16", "S3, cubeMathType 1: others unchanged"),
    Precision("bfloat16", (USE_FP16,), _RECENT, "float16", "host, with a warning"),
    Precision("hifloat8", (0, 1, 2, 3), ("cpu", "950"), "hifloat8", "host, with a warning"),
    Precision("float8_e4m3fn", (0, 1, 2, 3), ("cpu", "950"), "float8_e4m3fn", "host, with a warning"),
    Precision("float8_e5m2", (0, 1, 2, 3), ("cpu",), "float8_e5m2", "here"),
)  # fmt: skip

_BY_KEY = {(p, row.promoted, m): row for row in ROWS for p in row.products for m in row.math}


def hf32_of(product: str) -> str:
    """HF32 of a product: 11 fraction bits (`hf32`), on 950 10 (`hf32_10`)."""
    return "hf32_10" if products.find(product).hf32_fraction_bits == 10 else "hf32"


def compute_dtype(product: str, promoted: str, math: int, conformance: str = "document") -> str:
    """The compute dtype of an accepted request; a pair the product does not know is computed as on `cpu`."""
    row = _BY_KEY.get((product, promoted, math)) or _BY_KEY.get(("cpu", promoted, math))
    if row is None:
        raise ValueError(f"no precision for {promoted} with math {math} on {product} ({conformance})")
    return hf32_of(product) if row.compute == "hf32" else row.compute


def compute(request: Request) -> str:
    """The compute dtype of an accepted request."""
    promoted = Facts(request)["promoted"]
    assert isinstance(promoted, str), "a request without operands has no precision"
    return compute_dtype(request.product, promoted, request.math, request.conformance)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid: a compute dtype, or the row that refuses it."""

    compute: str | None
    status: Status = Status.SUCCESS
    rule: Rule | None = None
    transposed_only: bool = False


def grid_cell(product: str, dtype: str, math: int, conformance: str = "document",
              operator: Operator = Operator.CONV) -> Cell:  # fmt: skip
    """What the contract says to a smallest call whose tensors all have one dtype; transposed if plain is refused."""
    kinds = ("conv", "tconv") if operator is Operator.CONV else ("tbc",)
    tail = f"math={math} on={product} as={conformance}" + (" want=x" if operator is Operator.CONV else "")
    verdicts = [check(Request.parse(f"{kind} n1 c1>1 i1 k1 {dtypes.find(dtype).word} {tail}")) for kind in kinds]
    for verdict, kind in zip(verdicts, kinds, strict=True):
        if verdict.ok:
            return Cell(compute(verdict.request), transposed_only=kind == "tconv")
    return Cell(None, verdicts[0].status, verdicts[0].rule)


_INCLUDE_HEAD = """\
 *
 * C++17. The compute dtype of an accepted call: the row whose product bit (1 << product index) and math bit
 * (1 << cubeMathType) are set and whose `promoted` is the promoted dtype (an aclDataType). Refusals are rows of
 * rules.inc. `compute` is an enum cg_dtype of convgrad.h: operands are rounded to it once. Promoted dtype: the
 * one grad_output, input and weight share; else float64 if one of them is; else float32. */
struct cg_precision_row { unsigned products, math; int promoted, compute; };
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
            code = dtypes.find(name).engine_code
            rows.append(f"    {{0x{mask:02x}, 0x{math:x}, {promoted}, {code}}}, /* {row.promoted} -> {name} */")
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
