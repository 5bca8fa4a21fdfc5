"""The second test kit's case file: CSV whose cells are Python literals, read as data only (`ast.literal_eval`).

Tensors are told in order, outputs included: gradOutput, input, weight, gradInput, gradWeight, gradBias for the
convolution; self, input, weight, bias, gradInput, gradWeight, gradBias for TBC. A null tensor is `None`.
A row is kept whole in the case's `kit` and written back while it still says what the case says.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, TensorSpec
from convgrad.lab.cases import ttk_cells as cells
from convgrad.lab.cases import ttk_levels
from convgrad.lab.cases.case import Case, CaseFileError
from convgrad.lab.cases.reading import Unreadable, read_each, shown, text, truth, whole, wholes
from convgrad.lab.cases.values import Values
from convgrad.text.spreadsheet import quoted, unquoted
from convgrad.text.terminal import counted, tell

_CONV, _TBC = "aclnnConvolutionBackward", "aclnnConvTbcBackward"
COLUMNS = (
    "testcase_name", "network_name", "api_name", "tensor_view_shapes", "tensor_formats", "tensor_dtypes",
    "tensor_storage_shapes", "tensor_view_offsets", "tensor_view_strides", "output_tensor_indexes",
    "output_inplace_indexes", "attributes", "scalar_dtypes", "input_data_ranges", "precision_tolerances",
    "absolute_precision", "scalar_data_ranges", "is_enabled", "remark", "soc_series", "priority", "dump_file_prefix",
    "manual_tensor_binaries", "manual_golden_binaries",
)
_READ_TOO = frozenset((
    *(f"attributes{i}" for i in range(1, 10)), "batch_axis", "batch_slice_info", "batch_seed", "device_ids", "my_rank",
    "golden_api", "inplace_input_indexes", "op_name", "input_shapes", "input_dtypes", "input_formats",
    "input_ori_shapes", "input_ori_formats", "output_shapes", "output_dtypes", "output_formats", "output_ori_shapes",
    "output_ori_formats", "output_shape_unknown_indexes", "manual_input_binaries", "manual_xpu_binaries",
))  # fmt: skip
"""Columns of the kit's other levels, and those that few rows need."""
_MOST_NAMED = 3
_REQUIRED = ("api_name", "tensor_view_shapes", "tensor_dtypes")
_KERNEL_REQUIRED = ("op_name", "input_shapes", "input_dtypes", "output_shapes", "output_dtypes")


# ---- reading -----------------------------------------------------------------------------------------------


def read(path: str, content: str) -> list[Case]:
    """Cases of a CSV file with a header row."""
    rows = _rows(path, content)
    _, head = next(rows, (0, []))
    needed = _KERNEL_REQUIRED if "op_name" in head and "api_name" not in head else _REQUIRED
    missing = [name for name in needed if name not in head]
    if missing:
        raise CaseFileError(path, f"row 1: column {missing[0]!r} is missing")
    if len(set(head)) != len(head):
        raise CaseFileError(path, "row 1: a column is named twice")
    _tell_of_others(path, [name for name in head if name and name not in COLUMNS and name not in _READ_TOO])
    filled = ((i, given) for i, given in rows if any(given))
    records = ((f"row {i}", (head, given, place)) for place, (i, given) in enumerate(filled))
    return _first_of_each_name(path, read_each(path, records, lambda record: _read_row(*record)))


def _tell_of_others(path: str, names: list[str]) -> None:
    """A misspelt column counts for nothing, which nobody would see in the cases."""
    if names:
        shown_names = ", ".join(shown(name) for name in names[:_MOST_NAMED]) + (", ..." if names[_MOST_NAMED:] else "")
        tell(f"{path}: {counted(len(names), 'column')} that the kit does not have: {shown_names}", file=sys.stderr)


def _first_of_each_name(path: str, cases: list[Case]) -> list[Case]:
    """The kit finds everything by a case's name, and drops what follows under a name it runs already."""
    seen: set[str] = set()
    kept = []
    for case in cases:
        if case.name not in seen:
            kept.append(case)
        if case.enabled:
            seen.add(case.name)
    if len(kept) < len(cases):
        dropped = counted(len(cases) - len(kept), "case")
        tell(f"{path}: {dropped} under a name met before, dropped as the kit drops them", file=sys.stderr)
    return kept


def _rows(path: str, content: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    try:
        for given in reader:
            yield reader.line_num, given
    except csv.Error as error:
        raise CaseFileError(path, f"row {reader.line_num}: {error}") from None


def _read_row(head: list[str], given: list[str], place: int) -> Case:
    if len(given) != len(head):
        raise Unreadable("the row", f"has {len(given)} cells, the header {len(head)}")
    row = dict(zip(head, (unquoted(cell) for cell in given), strict=True))
    request, fill, enabled = _meaning(row)
    name = text(row.get("testcase_name", ""), "testcase_name") or f"auto_testcase_name_{place}"
    return Case(name, request, fill, enabled=enabled, kit={"ttk": row})


def _meaning(row: dict[str, str]) -> tuple[Request, tuple[Values, ...], bool]:
    if ttk_levels.is_kernel(row):
        request, fill = ttk_levels.kernel_meaning(row)
    elif row["api_name"].strip() == ttk_levels.END_TO_END:
        request, fill = ttk_levels.end_to_end_meaning(row)
    else:
        request, fill = _operator_meaning(row)
    return request, fill, cells.enabled(row)


def _operator_meaning(row: dict[str, str]) -> tuple[Request, tuple[Values, ...]]:
    api = row["api_name"].strip()
    if api not in (_CONV, _TBC):
        known = f"{_CONV}, {_TBC} or {ttk_levels.END_TO_END}"
        why = "; cases of a forward pass have no gradients to compute" if "conv" in api.lower() else ""
        raise Unreadable("column 'api_name'", f"must be {known}, not {shown(api)}{why}")
    tbc = api == _TBC
    count = 7 if tbc else 6
    shapes = cells.shapes(row, "tensor_view_shapes", count)
    formats = cells.per_slot(row, "tensor_formats", count)
    dtypes = cells.per_slot(row, "tensor_dtypes", count)
    for_all = len(set(map(str, formats))) == 1
    specs = [_spec(*parts, tbc, for_all) for parts in zip(shapes, formats, dtypes, strict=True)]
    make = _tbc_request if tbc else _conv_request
    request = replace(make(specs, cells.attributes(row)), product=cells.product(row))
    return request, cells.fill(row, (0, 1, 2), count)


def _spec(shape: Any, layout: Any, dtype: Any, tbc: bool, for_all: bool) -> TensorSpec | None:
    if shape is None:
        return None
    sizes = wholes(shape, "column 'tensor_view_shapes'")
    usual = "ND" if tbc else FORMAT_BY_RANK.get(len(sizes), "ND")
    named = cells.layout(layout, "tensor_formats")
    if for_all and named in FORMAT_BY_RANK.values() and len(sizes) == 1:
        named = "ND"  # one name for all tensors is none for a bias
    return TensorSpec(sizes, cells.dtype(dtype, "tensor_dtypes"), named or usual)


def _attribute(attributes: dict[Any, Any], name: str) -> tuple[int, ...] | None:
    value = attributes.get(name)
    return None if value is None else wholes(value, f"column 'attributes', {name}")


def _conv_request(specs: list[TensorSpec | None], a: dict[Any, Any]) -> Request:
    go, x, w, gx, gw, gb = specs
    mask = a.get("outputMask", [True] * 3)
    if not isinstance(mask, (list, tuple, type(None))):
        raise Unreadable("column 'attributes', outputMask", f"must be a list, not {shown(mask)}")
    place = "column 'attributes', "
    return Request(
        Operator.CONV, go, x, w, None, _attribute(a, "biasSizes"), _attribute(a, "stride"), _attribute(a, "padding"),
        _attribute(a, "dilation"), truth(a.get("transposed", False), place + "transposed"),
        _attribute(a, "outputPadding"), whole(a.get("groups", 1), place + "groups"),
        None if mask is None else tuple(truth(m, place + "outputMask") for m in mask),
        whole(a.get("cubeMathType", 0), place + "cubeMathType"), gx, gw, gb,
    )


def _tbc_request(specs: list[TensorSpec | None], a: dict[Any, Any]) -> Request:
    go, x, w, b, gx, gw, gb = specs
    place = "column 'attributes', "
    return Request(
        Operator.TBC, go, x, w, b, math=whole(a.get("cubeMathType", 0), place + "cubeMathType"), grad_input=gx,
        grad_weight=gw, grad_bias=gb, pad=whole(a.get("pad", 0), place + "pad"),
    )


# ---- writing -----------------------------------------------------------------------------------------------


def write(path: str, cases: Sequence[Case]) -> str:
    """The kit's CSV; an error names the first case it cannot say."""
    # Columns a kept row has beyond the usual ones stay, in their order.
    head = list(dict.fromkeys([*COLUMNS, *(name for case in cases for name in case.kit.get("ttk", {}))]))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for i, case in enumerate(cases):
        row = _row(path, i, case)
        writer.writerow([quoted(row.get(name, "")) for name in head])
    return out.getvalue()


def _row(path: str, i: int, case: Case) -> dict[str, str]:
    meant = (replace(case.request, conformance="document"), case.fill, case.enabled)
    kept = case.kit.get("ttk")
    if isinstance(kept, dict) and all(isinstance(v, str) for v in kept.values()) and _says(kept, meant):
        return kept
    row = {**dict.fromkeys(COLUMNS, ""), **(kept if isinstance(kept, dict) else {}), **_generated(case)}
    if not _says(row, meant):
        raise CaseFileError(path, f"case {i} ({case.name}): this form cannot say `{case.request}`")
    return row


def _says(row: dict[str, str], meant: tuple[Request, tuple[Values, ...], bool]) -> bool:
    try:
        request, fill, enabled = _meaning(row)
    except (ValueError, KeyError):
        return False
    uniform = all(v.kind in ("uniform", "constant") for v in meant[1])
    same = list(map(str, fill)) == list(map(str, meant[1]))  # in words: a NaN is no NaN's equal
    return (request, enabled) == (meant[0], meant[2]) and (same or not uniform)


def _generated(case: Case) -> dict[str, str]:
    r = case.request
    tbc = r.operator is Operator.TBC
    first = (r.grad_output, r.input, r.weight, *((r.bias,) if tbc else ()))
    specs = (*first, r.grad_input, r.grad_weight, r.grad_bias)
    attributes: dict[str, Any] = {"pad": r.pad, "cubeMathType": r.math} if tbc else {
        "biasSizes": _listed(r.bias_sizes), "stride": _listed(r.stride), "dilation": _listed(r.dilation),
        "padding": _listed(r.padding), "transposed": r.transposed, "outputPadding": _listed(r.output_padding),
        "groups": r.groups, "outputMask": _listed(r.output_mask), "cubeMathType": r.math,
    }
    ranges = [_pair(case.filling(i)) for i in range(3)] + [(None, None)] * (len(specs) - 3)
    values = {
        "tensor_view_shapes": tuple(None if s is None else s.shape for s in specs),
        "tensor_formats": tuple("ND" if s is None else s.format for s in specs),
        "tensor_dtypes": tuple("float32" if s is None else s.dtype for s in specs),
        "tensor_storage_shapes": (), "tensor_view_offsets": (), "tensor_view_strides": (),
        "output_tensor_indexes": tuple(range(len(first), len(specs))), "output_inplace_indexes": (),
        "attributes": attributes, "scalar_dtypes": (), "input_data_ranges": tuple(ranges),
        "scalar_data_ranges": ((None, None),), "is_enabled": case.enabled, "priority": 0,
        "manual_tensor_binaries": (), "manual_golden_binaries": (),
    }
    series = "" if r.product == cells.PRODUCT else r.product
    return {
        "testcase_name": case.name, "api_name": _TBC if tbc else _CONV, "soc_series": series,
        **{name: repr(value) for name, value in values.items()},
    }


def _listed(value: tuple[Any, ...] | None) -> list[Any] | None:
    return None if value is None else list(value)


def _pair(fill: Values) -> Any:
    """Only a uniform range and a constant have a place in the kit's file."""
    if fill.kind == "constant":
        return fill.numbers[0]
    return fill.numbers if fill.kind == "uniform" else (None, None)
