"""Rows: in which dtype the operands are multiplied, by product, promoted dtype and cubeMathType; what that computes in.

Refusals are not repeated here: a cell of the grid is refused when a rule refuses its smallest call.
"""

from __future__ import annotations

from dataclasses import dataclass

from convgrad.core import products
from convgrad.core.products import A2_A3_950, CONV_VENDOR, OLDER
from convgrad.core.request import DEFAULT_CONFORMANCE

KEEP, ALLOW_DOWN, USE_FP16, USE_HF32 = range(4)
_RECENT = ("cpu", *A2_A3_950)
_EVERY = ("cpu", *CONV_VENDOR)


@dataclass(frozen=True, slots=True)
class Numerics:
    """One row: operands rounded to `compute` are summed in `accumulate`, and grad_input is rounded to `result`."""

    compute: str
    accumulate: str
    result: str


NUMERICS: dict[str, Numerics] = {row.compute: row for row in (
    Numerics("float64", "float64", "float64"),
    Numerics("float32", "float32", "float32"),
    Numerics("hf32", "float32", "float32"),  # HF32 only shortens operands: its results are float32
    Numerics("hf32_10", "float32", "float32"),
    Numerics("float16", "float32", "float16"),
    Numerics("bfloat16", "float32", "bfloat16"),
    Numerics("hifloat8", "float32", "hifloat8"),
    Numerics("float8_e4m3fn", "float32", "float8_e4m3fn"),
    Numerics("float8_e5m2", "float32", "float8_e5m2"),
)}  # fmt: skip


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
    return products.find(product).hf32


def compute_dtype(product: str, promoted: str, math: int, conformance: str = DEFAULT_CONFORMANCE) -> str:
    """The compute dtype of an accepted request; a pair the product does not know is computed as on `cpu`."""
    row = _BY_KEY.get((product, promoted, math)) or _BY_KEY.get(("cpu", promoted, math))
    if row is None:
        raise ValueError(f"no precision for {promoted} with math {math} on {product} ({conformance})")
    return hf32_of(product) if row.compute == "hf32" else row.compute


def promote(*names: str) -> str:
    """The dtype several operands are computed in: the same one, else float64 if any, else float32."""
    distinct = set(names)
    if len(distinct) == 1:
        return names[0]
    return "float64" if "float64" in distinct else "float32"
