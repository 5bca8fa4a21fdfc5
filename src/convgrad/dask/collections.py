"""Operands and results as dask collections: reading what the caller holds, and cutting it where the blocks are."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from convgrad.core import arguments, dtypes, rounding
from convgrad.core import tensor as eager
from convgrad.core.arrays import as_array
from convgrad.core.partition import Cuts, Partition, natural, sizes
from convgrad.core.problem import AxisOrder
from convgrad.core.status import ConvGradError
from convgrad.functional import Operand

Chunks = tuple[tuple[int, ...], ...]


class Rechunked(UserWarning):
    """An operand's chunks are not the blocks of its problem; it is rechunked, which may move data between workers."""


class Tensor:
    """A dask array with a dtype NumPy does not know (hifloat8, as its uint8 codes) or a vendor format.

    `compute()` gives a `convgrad.Tensor`.
    """

    __slots__ = ("data", "dtype", "format")

    def __init__(self, data: Any, dtype: str | dtypes.Dtype | None = None, format: str = "ND") -> None:
        held = data if isinstance(data, da.Array) else as_array(data, "data")
        self.dtype = eager.read_dtype("data", held.dtype.name) if dtype is None else eager.read_dtype("dtype", dtype)
        self.format = arguments.word("format", format)
        stored = rounding.storage(self.dtype)
        if held.dtype != stored:
            message = f"data: a lazy {self.dtype.name} tensor holds {stored}, not {held.dtype}"
            raise ConvGradError(message, rule="data.dtype", value=str(held.dtype))
        self.data: da.Array = da.asarray(held)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    def compute(self, **options: Any) -> eager.Tensor:
        """The tensor itself."""
        return self._wrapped(self.data.compute(**options))

    def _wrapped(self, data: Any) -> eager.Tensor:
        return eager.Tensor(data, self.dtype, self.format)

    # The protocol of dask collections, so that dask.compute(*gradients) takes tensors and arrays alike.

    def __dask_graph__(self) -> Any:
        return self.data.__dask_graph__()

    def __dask_keys__(self) -> Any:
        return self.data.__dask_keys__()

    def __dask_layers__(self) -> Any:
        return self.data.__dask_layers__()

    def __dask_tokenize__(self) -> Any:
        return (self.data.name, self.dtype.name, self.format)

    @property
    def __dask_optimize__(self) -> Any:
        return self.data.__dask_optimize__

    @property
    def __dask_scheduler__(self) -> Any:
        return self.data.__dask_scheduler__

    def __dask_postcompute__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        finish, arguments = self.data.__dask_postcompute__()
        return _finish, (finish, arguments, self.dtype, self.format)

    def __dask_postpersist__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rebuild, arguments = self.data.__dask_postpersist__()
        return _rebuild, (rebuild, arguments, self.dtype, self.format)

    def __repr__(self) -> str:
        return f"dask.Tensor(shape={self.shape}, dtype={self.dtype.name!r}, format={self.format!r})"


def _finish(results: Any, finish: Any, arguments: Any, dtype: dtypes.Dtype, layout: str) -> eager.Tensor:
    return eager.Tensor(finish(results, *arguments), dtype, layout)


def _rebuild(graph: Any, rebuild: Any, arguments: Any, dtype: dtypes.Dtype, layout: str, **renamed: Any) -> Tensor:
    return Tensor(rebuild(graph, *arguments, **renamed), dtype, layout)


# ---- operands --------------------------------------------------------------------------------------------------


def operand(source: object, name: str) -> Operand:
    """An operand whose array is a dask array or a NumPy one; its shape must be known."""
    if isinstance(source, (Tensor, eager.Tensor)):
        data, dtype, layout = source.data, source.dtype.name, source.format if source.format != "ND" else ""
    else:
        data = source if isinstance(source, da.Array) else np.asarray(as_array(source, name))
        dtype, layout = data.dtype.name, ""
    unknown = [axis for axis, size in enumerate(data.shape) if np.isnan(size)]
    if unknown:
        raise ConvGradError(
            f"{name} has unknown chunk sizes (nan) along axis {unknown[0]}; call its compute_chunk_sizes() first",
            rule=f"{name}.chunks", value="nan",
        )
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    return Operand(data, dtype, layout)


def cut(source: Operand, name: str, cuts: tuple[Cuts, ...], order: AxisOrder) -> da.Array:
    """The operand chunked exactly where the blocks are; a `Rechunked` warning says what had to change and why."""
    wanted: Chunks = natural(tuple(map(sizes, cuts)), order)
    array = source.array
    if not isinstance(array, da.Array):
        return da.from_array(array, chunks=wanted, inline_array=False)
    if array.chunks == wanted:
        return array
    axes = [i for i, (had, want) in enumerate(zip(array.chunks, wanted, strict=True)) if had != want]
    changed = "; ".join(f"axis {i}: {_told(array.chunks[i])} -> {_told(wanted[i])}" for i in axes)
    warnings.warn(
        f"{name} is rechunked ({changed}): blocks follow from the problem alone, so that sums have the same bits "
        "for any chunking; convgrad.dask.chunks(line) tells them",
        Rechunked, stacklevel=_level_of_caller(),
    )
    # Tasks, not the shuffle through disk: a block can be computed as soon as its own pieces are there.
    return array.rechunk(wanted, method="tasks")


def _level_of_caller() -> int:
    """The frame that called into this package: the line a warning should point at."""
    frame, level, ours = sys._getframe(1), 1, 1
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("convgrad.dask"):
            ours = level
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return ours + 1


def _told(chunks: tuple[int, ...]) -> str:
    largest = max(chunks, default=0)
    return f"{largest}" if len(chunks) == 1 else f"{len(chunks)} x {largest}"


def partitioned(made: Partition) -> dict[str, Chunks]:
    """Chunks of every tensor of a partition, by name."""
    problem = made.plan.problem
    fine, coarse = (
        natural(tuple(map(sizes, cuts)), problem.data_order) for cuts in (made.fine_cuts, made.coarse_cuts)
    )
    x, go = (coarse, fine) if problem.transposed else (fine, coarse)
    return {
        "grad_output": go, "input": x, "weight": natural(tuple(map(sizes, made.weight_cuts)), problem.weight_order)
    }
