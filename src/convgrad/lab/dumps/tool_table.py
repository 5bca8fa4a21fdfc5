"""The dump tool's own comparison: its columns in its order, its formulas, its verdict on statistics.

N is the tensor under test, B the other: relative error |N - B| / |B|, shares of elements below 0.001 and 0.005, EucDist
the 2-norm of N - B. Dumps of statistics hold four numbers per tensor, which are compared instead, relative ones in per
cent; dumps of checksums hold a CRC-32, called MD5 by the tool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convgrad.core.arrays import AnyArray
from convgrad.core.metrics import cosine
from convgrad.lab.dumps.reading import DumpedTensor

_NAMES = (
    "NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape",
    "NPU Requires_grad", "Bench Requires_grad",
)
_STATISTICS = (
    "NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm",
)
_VERDICT = ("Requires_grad Consistent", "Result", "Err_message", "NPU_Stack_Info")
COLUMNS = {
    "tensor": (
        *_NAMES, "Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio",
        "Five Thousandths Err Ratio", *_STATISTICS, *_VERDICT, "Data_name",
    ),
    "statistics": (
        *_NAMES, "Max diff", "Min diff", "Mean diff", "L2norm diff", "MaxRelativeErr", "MinRelativeErr",
        "MeanRelativeErr", "NormRelativeErr", *_STATISTICS, *_VERDICT,
    ),
    "md5": (*_NAMES, "NPU MD5", "BENCH MD5", *_VERDICT),
}
"""By what was dumped: the tool's columns, in its order."""
PASS, WARNING, ERROR = "pass", "warning", "error"
Numbers = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Differences:
    """Two tensors in the tool's numbers; the tensors themselves are not kept."""

    cells: Numbers
    """Cosine to the statistics of both sides."""
    broken: bool
    """Infinities or NaNs in the first only."""


def differences(npu: AnyArray, bench: AnyArray) -> Differences:
    """The tool's numbers of two tensors."""
    n, b = (np.asarray(v, np.float64).reshape(-1) for v in (npu, bench))
    with np.errstate(all="ignore"):
        size = np.abs(n - b)
        relative = np.where(size == 0, 0.0, size / np.abs(b))
        shares = (float(np.mean(relative < limit)) if size.size else 1.0 for limit in (1e-3, 5e-3))
        cells = (
            _cosine(n, b), float(np.sqrt(np.sum(np.square(size)))), _largest(size), _largest(relative), *shares,
            *_statistics(n), *_statistics(b),
        )
    return Differences(cells, not np.isfinite(n).all() and bool(np.isfinite(b).all()))


def _cosine(a: AnyArray, b: AnyArray) -> float:
    finite = np.isfinite(a) & np.isfinite(b)
    return cosine(a[finite], b[finite])


def _largest(values: AnyArray) -> float:
    return float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0


def _statistics(values: AnyArray) -> Numbers:
    if not values.size:
        return ("N/A",) * 4
    return float(values.max()), float(values.min()), float(values.mean()), float(np.sqrt(np.sum(values**2)))


# ---- dumps without tensors -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatisticsRow:
    """One tensor of two dumps that hold statistics or checksums only."""

    name: str
    place: int
    tensor: DumpedTensor
    other: DumpedTensor
    cells: Numbers
    result: str
    message: tuple[str, ...]


def statistics_row(
    name: str, place: int, tensor: DumpedTensor, other: DumpedTensor,
    inputs: Sequence[tuple[DumpedTensor, DumpedTensor]],
) -> StatisticsRow:
    """The tool's verdict on an output, given the same call's inputs in both dumps."""
    faults = [
        f"{what} differs" for what, a, b in (
            ("shape", tensor.shape, other.shape), ("dtype", tensor.dtype, other.dtype),
            ("requires_grad", tensor.requires_grad, other.requires_grad), ("CRC-32", tensor.crc, other.crc),
        ) if a != b
    ]  # fmt: skip
    mine, theirs = (tuple(map(_number, t.statistics)) for t in (tensor, other))
    if not all(map(math.isfinite, mine[:2])) and all(map(math.isfinite, theirs[:2])) and not tensor.crc:
        faults.append("infinities or NaNs in the dumped tensor only")
    output = norm_error(tensor, other)
    given = max((norm_error(a, b) for a, b in inputs), default=0.0)
    if given < 0.1 and output > 0.5:
        faults.append(f"the norm is off by {output:.3g} of it, that of the inputs by {given:.3g}")
    differs = tuple(a - b for a, b in zip(mine, theirs, strict=True))
    relative = tuple(f"{100 * abs(d / b):.4f}%" if b else "N/A" for d, b in zip(differs, theirs, strict=True))
    cells = (tensor.crc, other.crc) if tensor.crc or other.crc else (*differs, *relative, *mine, *theirs)
    grown = output > 10 * given > 0
    result = ERROR if faults else WARNING if grown else PASS
    warned = [f"the norm's error is {output / given:.3g} times that of the inputs"] if grown and not faults else []
    return StatisticsRow(name, place, tensor, other, cells, result, (*faults, *warned))


def norm_error(a: DumpedTensor, b: DumpedTensor) -> float:
    """How far the 2-norms of two dumped tensors are apart, as a share of the second."""
    mine, theirs = _number(a.statistics[3]), _number(b.statistics[3])
    if mine == theirs or not (math.isfinite(mine) and math.isfinite(theirs)):
        return 0.0
    return abs(mine - theirs) / abs(theirs) if theirs else math.inf


def _number(value: Any) -> float:
    """A statistic; tensors without elements have none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    try:
        return float(value) if isinstance(value, str) else 0.0
    except ValueError:
        return 0.0
