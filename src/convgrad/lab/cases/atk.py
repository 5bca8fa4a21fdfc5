"""The first test kit's case file: a JSON list of calls, each with `inputs[]` of tensors and attributes.

An attribute that is a list is a list of entries, one per element, all under the attribute's name. The outputs are
not told: each wanted gradient has the shape and dtype of its tensor. Neither is the product: cases are read on A2.
What a record says beyond the request is kept in the case's `kit` and written back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from convgrad.core.dtypes import find as find_dtype
from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, TensorSpec, dtype_name
from convgrad.lab.cases import values
from convgrad.lab.cases.case import Case, CaseFileError
from convgrad.lab.cases.reading import Unreadable, number, read_each, shown, text, truth, whole, wholes
from convgrad.lab.cases.values import Values

PRODUCT = "A2"
_CONV, _TBC = "ConvolutionBackward", "ConvTbcBackward"
_CONV_TENSORS = ("gradOutput", "input", "weight")
_TBC_TENSORS = ("self", "input", "weight", "bias")
# Attributes in order: name, number kind, whether it is a list, whether the kit calls it required.
_CONV_ATTRIBUTES = (
    ("biasSizes", "int", True, True), ("stride", "int", True, True), ("padding", "int", True, True),
    ("dilation", "int", True, False), ("transposed", "bool", False, False), ("outputPadding", "int", True, False),
    ("groups", "int", False, False), ("outputMask", "bool", True, False), ("cubeMathType", "int", False, False),
    ("format", "non_param", False, False),
)
_TBC_ATTRIBUTES = (
    ("pad", "int", False, True), ("cubeMathType", "int", False, True), ("format", "non_param", False, False),
)
_BIAS_RANGE = [-5, 5]


# ---- reading -----------------------------------------------------------------------------------------------


def read(path: str, document: list[Any]) -> list[Case]:
    """Cases of a list of records."""
    return read_each(path, ((_where(i, record), record) for i, record in enumerate(document)), _read_record)


def _where(i: int, record: Any) -> str:
    identity = record.get("id") if isinstance(record, dict) else None
    return f"case {i}" + (f" (id {shown(identity)})" if identity is not None else "")


def _read_record(record: Any) -> Case:
    if not isinstance(record, dict):
        raise Unreadable("the case", f"must be an object, not {shown(record)}")
    name = text(record.get("aclnn_name"), "aclnn_name").removeprefix("aclnn")
    if name not in (_CONV, _TBC):
        raise Unreadable("aclnn_name", f"must be {_CONV} or {_TBC}, not {shown(name)}")
    request, fill = _read_inputs(record.get("inputs"), name == _TBC)
    rest = {key: value for key, value in record.items() if key != "inputs"}
    case = Case(f"{name}_{record.get('id', 0)}", request, fill, kit={"atk": rest})
    if _inputs(case) != record["inputs"]:
        rest["inputs"] = record["inputs"]
    return case


def _read_inputs(inputs: Any, tbc: bool) -> tuple[Request, tuple[Values, ...]]:
    if not isinstance(inputs, list):
        raise Unreadable("inputs", f"must be a list, not {shown(inputs)}")
    tensor_names = _TBC_TENSORS if tbc else _CONV_TENSORS
    names = [*tensor_names, *(a[0] for a in (_TBC_ATTRIBUTES if tbc else _CONV_ATTRIBUTES))]
    found: dict[str, Any] = {}
    for i, entry in enumerate(inputs):
        name, value = _entry(entry, f"inputs[{i}]", names[i] if i < len(names) else "")
        if name in found:
            raise Unreadable(f"inputs[{i}] {name!r}", "is given twice")
        if name not in names:
            raise Unreadable(f"inputs[{i}] {shown(name)}", f"is none of {', '.join(names)}")
        found[name] = value
    layout = found.get("format")
    tensors = {n: _tensor(found.get(n), n, layout) for n in tensor_names}
    fill = tuple(_range(found.get(n), n) for n in tensor_names[:3])
    request = _tbc_request(tensors, found) if tbc else _conv_request(tensors, found)
    return request, (fill[0],) if len(set(fill)) == 1 else fill


def _entry(entry: Any, place: str, expected: str) -> tuple[str, Any]:
    """A name with a tensor's record, an attribute's value, or a list attribute's values."""
    if isinstance(entry, list):
        if not entry:
            return expected, []
        pairs = [_entry(e, f"{place}[{i}]", expected) for i, e in enumerate(entry)]
        if len({name for name, _ in pairs}) != 1:
            raise Unreadable(place, "its entries have different names")
        return pairs[0][0], [value for _, value in pairs]
    if not isinstance(entry, dict):
        raise Unreadable(place, f"must be an object or a list of them, not {shown(entry)}")
    name = text(entry.get("name"), f"{place}.name")
    if entry.get("type") in ("tensor", "tensors"):
        return name, entry
    return name, entry.get("range_values")


def _tensor(entry: Any, name: str, layout: Any) -> TensorSpec | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise Unreadable(name, f"must be a tensor, not {shown(entry)}")
    shape = wholes(entry.get("shape"), f"{name}.shape")
    usual = FORMAT_BY_RANK.get(len(shape), "ND")
    chosen = "ND" if name == "bias" else usual if layout is None else text(layout, "format")
    return TensorSpec(shape, dtype_name(text(entry.get("dtype"), f"{name}.dtype")), chosen)


def _range(entry: Any, name: str) -> Values:
    given = entry.get("range_values") if isinstance(entry, dict) else None
    if given is None:
        return values.DEFAULT
    place = f"{name}.range_values"
    if not isinstance(given, list) or len(given) != 2:
        raise Unreadable(place, f"must be two numbers, not {shown(given)}")
    low, high = (number(v, place) for v in given)
    if low > high:
        raise Unreadable(place, f"low is above high in {shown(given)}")
    return Values("uniform", (low, high))


def _conv_request(tensors: dict[str, TensorSpec | None], found: dict[str, Any]) -> Request:
    go, x, w = (tensors[n] for n in _CONV_TENSORS)
    rank = max((x.rank if x else 3) - 2, 1)
    usual: dict[str, Any] = {"dilation": [1] * rank, "outputPadding": [0] * rank}

    def numbers(name: str) -> tuple[int, ...] | None:
        value = found.get(name, usual.get(name))
        return None if value is None else wholes(value, name)

    given = found.get("outputMask", [True] * 3)
    if not isinstance(given, (list, type(None))):
        raise Unreadable("outputMask", f"must be a list, not {shown(given)}")
    mask = None if given is None else tuple(truth(v, "outputMask") for v in given)
    channels = go.shape[1] if go and go.rank > 1 else 0
    own = (x, w, TensorSpec((channels,), go.dtype, "ND") if go else None)
    gx, gw, gb = (spec if mask and i < len(mask) and mask[i] else None for i, spec in enumerate(own))
    return Request(
        Operator.CONV, go, x, w, None, numbers("biasSizes"), numbers("stride"), numbers("padding"),
        numbers("dilation"), truth(found.get("transposed", False), "transposed"), numbers("outputPadding"),
        whole(found.get("groups", 1), "groups"), mask, whole(found.get("cubeMathType", 0), "cubeMathType"),
        gx, gw, gb, product=PRODUCT,
    )


def _tbc_request(tensors: dict[str, TensorSpec | None], found: dict[str, Any]) -> Request:
    go, x, w, b = (tensors[n] for n in _TBC_TENSORS)
    return Request(
        Operator.TBC, go, x, w, b, math=whole(found.get("cubeMathType", 0), "cubeMathType"), grad_input=x,
        grad_weight=w, grad_bias=b, pad=whole(found.get("pad", 0), "pad"), product=PRODUCT,
    )


# ---- writing -----------------------------------------------------------------------------------------------


def write(path: str, cases: Sequence[Case]) -> str:
    """The kit's JSON; an error names the first case it cannot say."""
    return json.dumps([_record(path, i, case) for i, case in enumerate(cases)], indent=1, ensure_ascii=False)


def _record(path: str, i: int, case: Case) -> dict[str, Any]:
    tbc = case.request.operator is Operator.TBC
    kept = dict(case.kit.get("atk", {}))
    raw = kept.pop("inputs", None)
    inputs = _inputs(case)
    meant = replace(case.request, product=PRODUCT, conformance="document")
    if raw is not None and _meaning(raw, tbc) == (meant, case.fill):
        inputs = raw
    said = _meaning(inputs, tbc)
    if said is None or said[0] != meant:
        raise CaseFileError(path, f"case {i} ({case.name}): this form cannot say `{case.request}`")
    short = "convtbc" if tbc else "conv"
    usual = {
        "id": i, "name": case.name, "aclnn_name": _TBC if tbc else _CONV, "api_type": f"golden_{short}_backward",
        "standard": {"acc": "default", "perf": "not_key"},
    }
    return {**(kept or usual), "inputs": inputs}


def _meaning(inputs: Any, tbc: bool) -> tuple[Request, tuple[Values, ...]] | None:
    """What the kit would read in these entries, if anything."""
    try:
        return _read_inputs(inputs, tbc)
    except ValueError:
        return None


def _inputs(case: Case) -> list[Any]:
    """The entries the kit would have written for this request."""
    r = case.request
    tbc = r.operator is Operator.TBC
    tensors = (r.grad_output, r.input, r.weight, r.bias)[: 4 if tbc else 3]
    inputs: list[Any] = []
    for i, (name, spec) in enumerate(zip(_TBC_TENSORS if tbc else _CONV_TENSORS, tensors, strict=True)):
        if spec is not None:
            reach = _BIAS_RANGE if name == "bias" else _range_values(case.filling(i))
            inputs.append(_written(name, "tensor", True, _word(spec.dtype), list(spec.shape), reach, backward=True))
    layout = r.input.format if r.input else "ND"
    attributes: dict[str, Any] = {
        "biasSizes": r.bias_sizes, "stride": r.stride, "padding": r.padding, "dilation": r.dilation,
        "transposed": r.transposed, "outputPadding": r.output_padding, "groups": r.groups,
        "outputMask": r.output_mask, "cubeMathType": r.math, "format": layout, "pad": r.pad,
    }
    for name, dtype, is_list, required in _TBC_ATTRIBUTES if tbc else _CONV_ATTRIBUTES:
        value = attributes[name]
        if is_list and value is not None:
            inputs.append([_written(name, "attrs", required, dtype, None, v) for v in value])
        else:
            inputs.append(_written(name, "attr", required, dtype, None, value))
    return inputs


def _written(
    name: str, kind: str, required: bool, dtype: str, shape: list[int] | None, range_values: Any, *,
    backward: bool = False,
) -> dict[str, Any]:
    return {
        "name": name, "type": kind, "required": required, "dtype": dtype, "shape": shape,
        "range_values": range_values, "backward": backward, "align_32B": None, "outlier_values": None,
    }


def _word(dtype: str) -> str:
    try:
        return find_dtype(dtype).word
    except ValueError:
        return dtype


def _range_values(fill: Values) -> list[float] | None:
    """Only a uniform range has a place in the kit's file."""
    if fill.kind != "uniform":
        return None
    return [int(n) if n.is_integer() else n for n in fill.numbers]
