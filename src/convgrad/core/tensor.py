"""`Tensor`: an array together with a dtype NumPy does not know (hifloat8) or a vendor format."""

from __future__ import annotations

import math
from html import escape
from typing import Any, cast

import numpy as np

from convgrad.core import arguments, dtypes, rounding
from convgrad.core.arrays import AnyArray, as_array
from convgrad.core.dtypes import Dtype
from convgrad.core.status import ConvGradError, ConvGradTypeError
from convgrad.text.fragment import fragment


class UnsaidFormat(str):
    """A format nobody named: it reads as ND, and doors may take the one the rank gives."""


UNSAID = UnsaidFormat("ND")
_ENDS = 3
"""Values that `repr` shows of either end."""
_PLANES, _SIDE = 2, 8
"""What a notebook shows: so many planes, so many of their rows and columns."""


class Tensor:
    """An array with a dtype and a format; any array is accepted where a Tensor is.

    `data` already stored in `dtype` is shared, not copied. Unsigned integers of the dtype's width are taken
    as its codes. Other numbers are values: they are rounded to `dtype` once.

    >>> Tensor([1.0, 3.3], dtype="hifloat8").values()
    array([1.  , 3.25], dtype=float32)
    """

    __slots__ = ("data", "dtype", "format")

    data: AnyArray
    dtype: Dtype
    format: str

    def __init__(self, data: object, dtype: str | Dtype | None = None, format: str = UNSAID) -> None:
        row = None if dtype is None else read_dtype("dtype", dtype)
        if isinstance(data, Tensor):
            row = row or data.dtype
            data = data.data if row == data.dtype else data.values()
        array = as_array(data, "data")
        self.format = arguments.word("format", format)
        self.dtype = read_dtype("data", array.dtype.name) if row is None else row
        if not self.dtype.is_tensor_dtype:
            message = f"{self.dtype.name} is a compute dtype: no tensor is stored in it"
            raise ConvGradError(message, rule="dtype.compute", value=self.dtype.name)
        self.data = array if row is None else _stored(array, self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def values(self) -> AnyArray:
        """The exact values: float64 for float64, else float32."""
        return rounding.load(self.dtype, self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        values = self.values()
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        few = self.data.size <= 2 * _ENDS
        ends = self.data.ravel() if few else np.concatenate([self.data.flat[:_ENDS], self.data.flat[-_ENDS:]])
        said = [f"{value:g}" for value in rounding.load(self.dtype, ends).tolist()]
        values = ", ".join(said if few else [*said[:_ENDS], "...", *said[_ENDS:]])
        return f"Tensor([{values}], shape={self.shape}, dtype={self.dtype.name!r}, format={str(self.format)!r})"

    def __str__(self) -> str:
        """The values, as NumPy prints them."""
        return str(self.values())

    def _repr_html_(self) -> str:
        """What a notebook shows: the first planes, their corner."""
        planes = [place for place, _ in zip(np.ndindex(self.shape[:-2]), range(_PLANES), strict=False)]
        shown = "".join(self._plane(place) for place in planes if self.data.size)
        left = math.prod(self.shape[:-2]) - len(planes)
        more = f"<p>and {left:,} more</p>" if left > 0 and self.data.size else ""
        size = "x".join(map(str, self.shape)) or "a number"
        head = f"<p><b>Tensor {size}</b> {escape(self.dtype.name)}, {escape(self.format)}</p>"
        return fragment(head, shown, more)

    def _plane(self, place: tuple[int, ...]) -> str:
        plane = np.atleast_2d(self.data[place])
        rows, columns = plane.shape
        values = rounding.load(self.dtype, plane[:_SIDE, :_SIDE])
        beyond = "<td>…</td>" * (columns > _SIDE)
        lines = ["".join(f"<td class=num>{v:g}</td>" for v in row) + beyond for row in values.tolist()]
        lines += ["<td class=num>…</td>" * min(columns, _SIDE)] * (rows > _SIDE)
        caption = f"<caption>[{', '.join(map(str, place))}]</caption>" if place else ""
        return f"<table class=plane>{caption}<tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def read_tensor(name: str, given: object) -> Tensor:
    """The argument `name` as a Tensor of its own dtype."""
    if isinstance(given, Tensor):
        return given
    array = as_array(given, name)
    return Tensor(array, read_dtype(name, array.dtype.name))


def read_dtype(name: str, value: object) -> Dtype:
    """The number format that the argument `name` tells."""
    try:
        return dtypes.find(cast(Any, value))
    except (TypeError, ValueError) as error:
        raise ConvGradError(f"{name}: {error}", rule=f"{name}.dtype", value=value) from None


def _stored(array: AnyArray, dtype: Dtype) -> AnyArray:
    storage = rounding.storage(dtype)
    if array.dtype == storage:
        return array
    if array.dtype.kind == "u" and array.dtype.itemsize * 8 == dtype.bits and dtype.bits <= 16:
        return array.view(storage)
    try:
        return rounding.store(dtype, array)
    except (TypeError, ValueError) as error:
        raise ConvGradTypeError(f"data: {error}", rule="data.dtype", value=array.dtype.name) from None
