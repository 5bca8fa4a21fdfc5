"""Rows below and above the operator: the kernels' own cases, and calls of the framework's function.

A kernel's case has three inputs, one of them a size tensor, and one output. Storage formats are told beside the
original ones; a request has the five original axes, N, C, D, H, W. Kernels know no contract of an operator: their cases
are read on `cpu`, those in HF32 on a product of the series, whose HF32 it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from convgrad.calls.requests import Attributes, Rules, conv_backward_request, pads
from convgrad.core.request import FORMAT_BY_RANK, Request, TensorSpec
from convgrad.core.status import ConvGradError
from convgrad.lab.cases import ttk_cells as cells
from convgrad.lab.cases.reading import Unreadable, shown, text, truth, wholes
from convgrad.lab.cases.ttk_cells import Row
from convgrad.lab.cases.values import Values

END_TO_END = "torch.ops.aten.convolution_backward"
KERNELS = ("conv3d_backprop_input_v2", "conv3d_backprop_filter_v2")
_AXES = ("NCDHW", "NDHWC", "DHWCN")
_PACKED = {6: "NDC1HWC0", 4: "FRACTAL_Z_3D"}
_HF32_MODE = 64
"""Of the attribute `@_op_impl_mode_enum`: HF32 is allowed."""


def is_kernel(row: Row) -> bool:
    """Whether a row is a kernel's."""
    return not row.get("api_name", "").strip()


# ---- kernels -----------------------------------------------------------------------------------------------


def kernel_meaning(row: Row) -> tuple[Request, tuple[Values, ...]]:
    """The request and the fillings of a kernel's row."""
    name = row.get("op_name", "").strip()
    if name not in KERNELS:
        raise Unreadable("column 'op_name'", f"must be {' or '.join(KERNELS)}, not {shown(name)}{_why(name)}")
    to_input = name == KERNELS[0]
    a = cells.attributes(row)
    order = _data_format(a)
    original = _original(row, "input", cells.shapes(row, "input_shapes", 3), order)
    output = _original(row, "output", cells.shapes(row, "output_shapes", 1), order)[0]
    size = a.get("input_size" if to_input else "filter_size")
    told = wholes(size, "column 'attributes', size") if size is not None else ()
    result = _canonical(told, order, "size") if len(told) == 5 and any(told) else output
    if result is None:
        raise Unreadable("column 'output_shapes'", "must tell the five sizes of the output")
    x, w = (result, original[1]) if to_input else (original[0], result)
    go = original[2]
    if go is None or x is None or w is None:
        raise Unreadable("column 'input_shapes'", "must tell the five sizes of both tensors")
    dtypes = [cells.dtype(d, "input_dtypes") for d in cells.per_slot(row, "input_dtypes", 3)]
    other = dtypes[1] if to_input else dtypes[0]
    made = cells.dtype(cells.per_slot(row, "output_dtypes", 1)[0], "output_dtypes")
    hf32 = a.get("@_op_impl_mode_enum") == _HF32_MODE or a.get("enable_hf32") is True
    attributes = Attributes(
        None, _spatial(a, "strides", order), _pads(a), _spatial(a, "dilations", order), False, 0,
        cells.whole_at(a, "groups", 1), (to_input, not to_input, False),
    )
    rules = Rules(3 if hf32 else 0, cells.product(row) if hf32 else "cpu")
    specs = [TensorSpec(s, d, "NCDHW") for s, d in ((go, dtypes[2]), (x, other), (w, other))]
    request = _refused_as_cell(lambda: conv_backward_request(specs[0], specs[1], specs[2], attributes, rules))
    gradient = TensorSpec(result, made, "NCDHW")
    request = replace(request, grad_input=gradient) if to_input else replace(request, grad_weight=gradient)
    places = (2, None, 1) if to_input else (2, 0, None)
    return request, cells.fill(row, places, 3)


def _data_format(a: Mapping[str, Any]) -> str:
    order = text(a.get("data_format", "NDHWC"), "column 'attributes', data_format")
    if order not in _AXES:
        raise Unreadable("column 'attributes', data_format", f"must be one of {', '.join(_AXES)}, not {shown(order)}")
    return order


def stored_formats(row: Row) -> list[tuple[tuple[int, ...], str]]:
    """Shape and format of what a kernel's files hold: the three inputs, then the output.

    By rank: six axes are channel blocks, four a packed weight, whatever name they go by; five are in the order that
    formats, else original formats, else data_format tell.
    """
    order = _data_format(cells.attributes(row))
    found = []
    for role, count in (("input", 3), ("output", 1)):
        shapes = cells.shapes(row, f"{role}_shapes", count)
        for shape, named in zip(shapes, _orders(row, role, count, order, "formats", "ori_formats"), strict=True):
            sizes = () if shape is None else wholes(shape, f"column '{role}_shapes'")
            found.append((sizes, _PACKED.get(len(sizes), named)))
    return found


def size_tensor(row: Row, request: Request) -> tuple[int, str, tuple[int, ...]]:
    """Place, dtype and values of the size tensor among a kernel's inputs."""
    to_input = row.get("op_name", "").strip() == KERNELS[0]
    place = 0 if to_input else 1
    spec = request.input if to_input else request.weight
    assert spec is not None
    order = _data_format(cells.attributes(row))
    word = cells.per_slot(row, "input_dtypes", 3)[place]
    return place, "int64" if word in ("int64", "s64") else "int32", tuple(spec.shape["NCDHW".index(a)] for a in order)


def _why(name: str) -> str:
    """Why a name that is not ours cannot be run."""
    if "conv" not in name.lower():
        return ""
    return "; this is another convolution operator: of a forward pass, or of a kernel not modelled here"


def _orders(row: Row, role: str, count: int, order: str, *columns: str) -> list[str]:
    """The order of each tensor's axes: the first of these columns that names one, else `order`."""
    named = [[cells.layout(f, f"{role}_{c}") for f in cells.per_slot(row, f"{role}_{c}", count)] for c in columns]
    return [next((f for f in told if f in _AXES), order) for told in zip(*named, strict=True)]


def _original(row: Row, role: str, stored: list[Any], order: str) -> list[tuple[int, ...] | None]:
    """N, C, D, H, W of each tensor with five original axes, else `None`."""
    column = f"{role}_ori_shapes"
    shapes = cells.shapes(row, column, len(stored)) if row.get(column, "").strip() else stored
    orders = _orders(row, role, len(stored), order, "ori_formats", "formats")
    found: list[tuple[int, ...] | None] = []
    for shape, named in zip(shapes, orders, strict=True):
        sizes = () if shape is None else wholes(shape, f"column {column!r}")
        found.append(_canonical(sizes, named, column) if len(sizes) == 5 else None)
    return found


def _canonical(shape: tuple[int, ...], order: str, place: str) -> tuple[int, ...]:
    if len(shape) != 5:
        raise Unreadable(place, f"must have five sizes, not {shown(shape)}")
    return tuple(shape[order.index(axis)] for axis in "NCDHW")


def _spatial(a: Mapping[str, Any], name: str, order: str) -> tuple[int, ...]:
    value = a.get(name)
    if value is None:
        return (1, 1, 1)
    found = wholes(value, f"column 'attributes', {name}")
    if len(found) == 5:
        return tuple(found[order.index(axis)] for axis in "DHW")
    if len(found) != 3:
        raise Unreadable(f"column 'attributes', {name}", f"must have 5 or 3 entries, not {len(found)}")
    return found


def _pads(a: Mapping[str, Any]) -> object:
    found = wholes(a.get("pads") or (0, 0, 0), "column 'attributes', pads")
    if len(found) == 6:
        return pads("pads", ((found[0], found[1]), (found[2], found[3]), (found[4], found[5])), 3)
    if len(found) != 3:
        raise Unreadable("column 'attributes', pads", f"must have 6 or 3 entries, not {len(found)}")
    return found


# ---- the framework's function --------------------------------------------------------------------------------


def end_to_end_meaning(row: Row) -> tuple[Request, tuple[Values, ...]]:
    """The request and the fillings of a call of `torch.ops.aten.convolution_backward`."""
    shapes = end_to_end_shapes(row)
    dtypes = cells.per_slot(row, "tensor_dtypes", len(shapes))
    formats = cells.per_slot(row, "tensor_formats", len(shapes))
    specs = [_spec(*parts) for parts in zip(shapes[:3], dtypes[:3], formats[:3], strict=True)]
    a = cells.attributes(row)
    rank = max(len(specs[1].shape) - 2, 1)
    mask = a.get("output_mask", [True] * 3)
    if not isinstance(mask, (list, tuple)):
        raise Unreadable("column 'attributes', output_mask", f"must be a list, not {shown(mask)}")
    place = "column 'attributes', "
    attributes = Attributes(
        None if a.get("bias_sizes") is None else wholes(a["bias_sizes"], place + "bias_sizes"),
        _per_axis(a, "stride", rank, 1), _per_axis(a, "padding", rank, 0), _per_axis(a, "dilation", rank, 1),
        truth(a.get("transposed", False), place + "transposed"), _per_axis(a, "output_padding", rank, 0),
        cells.whole_at(a, "groups", 1), tuple(truth(m, place + "output_mask") for m in mask),
    )
    rules = Rules(0, cells.product(row))
    request = _refused_as_cell(lambda: conv_backward_request(specs[0], specs[1], specs[2], attributes, rules))
    return request, cells.fill(row, (0, 1, 2), len(shapes))


def end_to_end_shapes(row: Row) -> list[Any]:
    """The shapes of a row: the function's three tensors, behind them outputs if the row lists those as well."""
    shapes = cells.shapes(row, "tensor_view_shapes")
    if not 3 <= len(shapes) <= 6:
        reason = f"must hold the three tensors, and at most three outputs behind them, not {shown(shapes)}"
        raise Unreadable("column 'tensor_view_shapes'", reason)
    return shapes


def _spec(shape: Any, dtype: Any, layout: Any) -> TensorSpec:
    if shape is None:
        raise Unreadable("column 'tensor_view_shapes'", "a tensor of this function is never null")
    sizes = wholes(shape, "column 'tensor_view_shapes'")
    named = cells.layout(layout, "tensor_formats")
    usual = FORMAT_BY_RANK.get(len(sizes), "ND")
    return TensorSpec(sizes, cells.dtype(dtype, "tensor_dtypes"), usual if named in ("", "ND") else named)


def _per_axis(a: Mapping[str, Any], name: str, rank: int, default: int) -> tuple[int, ...]:
    value = a.get(name)
    return (default,) * rank if value is None else wholes(value, f"column 'attributes', {name}")


def _refused_as_cell(make: Any) -> Request:
    try:
        made: Request = make()
    except ConvGradError as error:
        raise Unreadable("column 'attributes'", error.message) from None
    return made
