"""Cells of the second test kit's files: Python literals read as data, bare words, lists that one entry fills.

The kit evaluates its cells; here nothing is ever executed. `inf` and `nan` are numbers, other bare words are text.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from math import prod
from typing import Any

from convgrad.core import layouts, products
from convgrad.core.request import dtype_name
from convgrad.lab.cases.reading import Unreadable, number, shown, text, whole, wholes
from convgrad.lab.cases.values import Values

Row = Mapping[str, str]
LONGEST_CELL = 100_000
PRODUCT = "A2"
DEFAULT_RANGE = Values("uniform", (-2.0, 2.0))
"""What a tensor without a range is filled with."""
_WORDS: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "TRUE": True, "FALSE": False, "true": True, "false": False}
_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "fp64": "float64", "bfp16": "bfloat16", "hif8": "hifloat8",
    "hifp8": "hifloat8", "fp8_e4m3fn": "float8_e4m3fn", "f8_e4m3fn": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2",
    "f8_e5m2": "float8_e5m2",
}

_FORMATS = frozenset(row.name for row in layouts.ALL)


class _BareWords(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Constant:
        return ast.Constant(_WORDS.get(node.id, node.id))


def literal(cell: str, column: str) -> Any:
    """The Python literal a cell holds; an empty cell is `None`. Nothing is ever executed."""
    if not cell.strip():
        return None
    if len(cell) > LONGEST_CELL:
        raise Unreadable(f"column {column!r}", f"has {len(cell):,} characters; at most {LONGEST_CELL:,} are read")
    try:
        tree = ast.parse(cell.strip(), mode="eval")
        return ast.literal_eval(_BareWords().visit(tree).body)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Unreadable(f"column {column!r}", f"is no Python literal: {shown(cell)}") from None


def cell(row: Row, column: str) -> Any:
    """The value of a cell; `None` where it is empty or the file has no such column."""
    return literal(row.get(column, ""), column)


def per_slot(row: Row, column: str, count: int, default: Any = None) -> list[Any]:
    """An entry per tensor: one entry is for all, what is missing at the end is the default."""
    value = cell(row, column)
    entries = [] if value is None else list(value) if isinstance(value, (tuple, list)) else [value]
    if len(entries) > count:
        raise Unreadable(f"column {column!r}", f"must hold {count} entries, one per tensor, not {shown(value)}")
    if len(entries) == 1:
        return entries * count
    return entries + [default] * (count - len(entries))


def shapes(row: Row, column: str, count: int | None = None) -> list[Any]:
    """A shape per tensor, `None` for a null one; a flat tuple of numbers is one shape."""
    value = cell(row, column)
    if isinstance(value, (tuple, list)) and value and all(isinstance(n, int) for n in value):
        value = (value,)
    if not isinstance(value, (tuple, list)) or (count is not None and len(value) != count):
        wanted = "a shape per tensor" if count is None else f"{count} entries, one per tensor"
        raise Unreadable(f"column {column!r}", f"must hold {wanted}, not {shown(value)}")
    return list(value)


def dtype(value: Any, column: str) -> str:
    """A dtype by any of the kit's words; `float32` where none is given."""
    word = "float32" if value is None else text(value, f"column {column!r}")
    return _DTYPES.get(word, dtype_name(word))


def layout(value: Any, column: str) -> str:
    """A format by name or by the vendor's number; "" where none is given."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return layouts.from_acl(value).name
        except ValueError as error:
            raise Unreadable(f"column {column!r}", str(error)) from None
    name = text(value, f"column {column!r}")
    return name.upper() if name.upper() in _FORMATS else name


def storages(row: Row) -> list[tuple[tuple[int, ...], str, tuple[int, ...], int] | None]:
    """Per tensor of an operator's row: storage shape, no format, strides, offset; `None` where a file is the view."""
    kept = cell(row, "tensor_storage_shapes")
    if not kept:
        return []
    count = len(shapes(row, "tensor_view_shapes"))
    views, stored = shapes(row, "tensor_view_shapes"), per_slot(row, "tensor_storage_shapes", count)
    strides, offsets = per_slot(row, "tensor_view_strides", count), per_slot(row, "tensor_view_offsets", count)
    found: list[tuple[tuple[int, ...], str, tuple[int, ...], int] | None] = []
    for view, shape, stride, offset in zip(views, stored, strides, offsets, strict=True):
        if view is None or not shape:
            found.append(None)
            continue
        sizes, seen = wholes(shape, "column 'tensor_storage_shapes'"), wholes(view, "column 'tensor_view_shapes'")
        dense = tuple(prod(seen[i + 1 :]) for i in range(len(seen)))
        steps = wholes(stride, "column 'tensor_view_strides'") if stride else dense
        first = 0 if offset is None else whole(offset, "column 'tensor_view_offsets'")
        found.append(None if (sizes, steps, first) == (seen, dense, 0) else (sizes, "", steps, first))
    return found


def attributes(row: Row) -> dict[str, Any]:
    """The attributes of a row, those of attributes1 to attributes9 added."""
    merged: dict[str, Any] = {}
    for column in ("attributes", *(f"attributes{i}" for i in range(1, 10))):
        value = cell(row, column)
        if value is None and (column != "attributes" or merged):
            continue
        if not isinstance(value, dict) and value is not None:
            raise Unreadable(f"column {column!r}", f"must be a dict, not {shown(value)}")
        merged |= value or {}
    return {str(key): value for key, value in merged.items()}


def fill(row: Row, places: tuple[int | None, ...], count: int) -> tuple[Values, ...]:
    """The fillings of grad_output, input and weight, which are the slots at `places`."""
    column = "input_data_ranges"
    value = cell(row, column)
    if isinstance(value, (tuple, list)) and len(value) > 1 and all(isinstance(v, (int, float)) for v in value):
        row = {**row, column: repr((tuple(value),))}  # one range, for all
    ranges = per_slot(row, column, count)
    found = tuple(DEFAULT_RANGE if p is None else _range(ranges[p], f"column {column!r}") for p in places)
    return (found[0],) if len(set(map(str, found))) == 1 else found


def _range(value: Any, place: str) -> Values:
    """(low, high), behind them values that must occur; None is the default's end. One number is a constant, and so is
    (inf, inf)."""
    if value is None:
        return DEFAULT_RANGE
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        special = isinstance(value, float) and not math.isfinite(value)
        return Values("constant", (value if special else number(value, place),))
    if not isinstance(value, (tuple, list)) or len(value) < 2:
        raise Unreadable(place, f"must hold pairs (low, high), not {shown(value)}")
    pair = [end if v is None else v for v, end in zip(value, DEFAULT_RANGE.numbers, strict=False)]
    ends = [v for v in pair if isinstance(v, float) and not math.isfinite(v)]
    if len(ends) == 2 and str(ends[0]) == str(ends[1]):
        return Values("constant", (math.nan if math.isnan(ends[0]) else ends[0],))
    low, high = (number(v, place) for v in pair)
    if low > high:
        raise Unreadable(place, f"low is above high in {shown(value)}")
    return Values("uniform", (low, high, *(_occurring(v, place) for v in value[2:])))


def _occurring(value: Any, place: str) -> float:
    """A value that must occur: any number, also an infinity or NaN."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # the one NaN: fillings are compared
    return value if isinstance(value, float) and math.isinf(value) else number(value, place)


def enabled(row: Row) -> bool:
    """Whether a case is to be run."""
    value = cell(row, "is_enabled")
    if value is None:
        return True
    if isinstance(value, bool) or value in (0, 1):
        return bool(value)
    raise Unreadable("column 'is_enabled'", f"must be true or false, not {shown(value)}")


def product(row: Row) -> str:
    """A product that the series of SoCs admits: A2 if it does, else the first that does.

    A series is a filter: names, and `-name` for those left out.
    """
    written = row.get("soc_series", "").strip()
    if not written:
        return PRODUCT
    value = literal(written, "soc_series") if written.startswith(("(", "[", "'", '"')) else written.split(",")
    names = [text(v, "column 'soc_series'") for v in (value if isinstance(value, (tuple, list)) else [value])]
    asked = [_key(n) for n in names if not n.startswith("-")]
    left_out = {_key(n[1:]) for n in names if n.startswith("-")}
    admitted = [k for k in (asked or products.CONV_VENDOR) if k not in left_out]
    if not admitted:
        raise Unreadable("column 'soc_series'", f"admits no product: {shown(written)}")
    return PRODUCT if PRODUCT in admitted else admitted[0]


def _key(name: str) -> str:
    try:
        return products.find(name.strip()).key
    except ValueError as error:
        raise Unreadable("column 'soc_series'", str(error)) from None


def whole_at(a: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number among the attributes."""
    value = a.get(name)
    return default if value is None else whole(value, f"column 'attributes', {name}")
