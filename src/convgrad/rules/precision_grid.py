"""The grid of precisions: what the contract says to the smallest call of a product, a dtype and a cubeMathType."""

from __future__ import annotations

from dataclasses import dataclass

from convgrad.core import dtypes
from convgrad.core.precision import compute_dtype
from convgrad.core.request import DEFAULT_CONFORMANCE, Operator, Request
from convgrad.core.status import Status
from convgrad.rules.check import check
from convgrad.rules.facts import Facts
from convgrad.rules.vocabulary import Rule


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


def grid_cell(product: str, dtype: str, math: int, conformance: str = DEFAULT_CONFORMANCE,
              operator: Operator = Operator.CONV) -> Cell:  # fmt: skip
    """What the contract says to a smallest call whose tensors all have one dtype; transposed if plain is refused."""
    kinds = ("conv", "tconv") if operator is Operator.CONV else ("tbc",)
    tail = f"math={math} on={product} as={conformance}" + (" want=x" if operator is Operator.CONV else "")
    verdicts = [check(Request.parse(f"{kind} n1 c1>1 i1 k1 {dtypes.find(dtype).word} {tail}")) for kind in kinds]
    for verdict, kind in zip(verdicts, kinds, strict=True):
        if verdict.ok:
            return Cell(compute(verdict.request), transposed_only=kind == "tconv")
    return Cell(None, verdicts[0].status, verdicts[0].rule)
