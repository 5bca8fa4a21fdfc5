"""Convolutions of an ONNX file, as a training step of that model would ask for their gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from convgrad.core.status import ConvGradError
from convgrad.torch.calls import Attributes
from convgrad.torch.convolutions import Seen

_DTYPES = {1: torch.float32, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}
"""ONNX element types."""


def convolutions_of(path: Path, inputs: object, dtype: torch.dtype | None) -> list[Seen]:
    """Every Conv and ConvTranspose, in file order. `inputs`: the first input's shape, or a dict of shapes by name."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("reading an ONNX file needs the package onnx: pip install onnx") from error
    if not path.is_file():
        raise ConvGradError(f"no such file: {path}", rule="scan.onnx", value=str(path))
    try:
        # Weights kept in files of their own are not needed: only their shapes are.
        model = onnx.load(str(path), load_external_data=False)
        graph = model.graph
        held = {tensor.name for tensor in graph.initializer}
        fed = [value for value in graph.input if value.name not in held]
        _give_shapes(fed, inputs)
        known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except ConvGradError:
        raise
    except Exception as error:
        message = f"{path.name} cannot be read as an ONNX model: {type(error).__name__}: {error}"
        raise ConvGradError(message, rule="scan.onnx", value=str(path)) from error
    shapes: dict[str, tuple[tuple[int, ...], int]] = {t.name: (tuple(t.dims), t.data_type) for t in known.initializer}
    for value in (*known.input, *known.value_info, *known.output):
        shape = value.type.tensor_type.shape
        sizes = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in shape.dim)
        shapes.setdefault(value.name, (sizes, value.type.tensor_type.elem_type))
    names = {value.name for value in fed}
    nodes = [node for node in known.node if node.op_type in ("Conv", "ConvTranspose")]
    return [_seen(node, shapes, names, dtype) for node in nodes]


def _give_shapes(fed: list[Any], inputs: object) -> None:
    """Writes the caller's shapes over the file's own."""
    if inputs is None:
        return
    if isinstance(inputs, (tuple, list)) and inputs and all(type(n) is int for n in inputs):
        inputs = {fed[0].name: inputs} if fed else {}
    if not isinstance(inputs, dict):
        raise ConvGradError("inputs of an ONNX file: a shape, or a dict of shapes by name", rule="scan.inputs")
    by_name = {value.name: value for value in fed}
    for name, sizes in inputs.items():
        if name not in by_name:
            message = f"the file has no input {name!r}: it has {', '.join(by_name) or 'none'}"
            raise ConvGradError(message, rule="scan.inputs", value=name)
        shape = by_name[name].type.tensor_type.shape
        shape.ClearField("dim")
        for size in sizes:
            shape.dim.add().dim_value = int(size)


def _seen(
    node: Any, shapes: dict[str, tuple[tuple[int, ...], int]], fed: set[str], dtype: torch.dtype | None
) -> Seen:
    layer = node.name or node.output[0]
    tensors = []
    for name in (node.output[0], node.input[0], node.input[1]):
        sizes, code = shapes.get(name, ((), 0))
        if not sizes or min(sizes) < 0:
            message = f"{layer}: the shape of {name} is not known; give the shapes of the model's inputs"
            raise ConvGradError(message, rule="scan.onnx", value=name)
        tensors.append(torch.empty(sizes, dtype=dtype or _DTYPES.get(code, torch.float32), device="meta"))
    output, x, w = tensors
    rank = x.dim() - 2
    transposed = node.op_type == "ConvTranspose"
    has_bias = len(node.input) > 2 and bool(node.input[2])
    numbers = {a.name: a for a in node.attribute}
    stride, dilation, slack = (
        tuple(numbers[n].ints) if n in numbers else (default,) * rank
        for n, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    groups = numbers["group"].i if "group" in numbers else 1
    padding = _padding(numbers, x.shape[2:], w.shape[2:], output.shape[2:], stride, dilation, slack, transposed)
    attributes = Attributes(
        (output.shape[1],), stride, padding, dilation, transposed, slack, groups,
        (node.input[0] not in fed, True, has_bias),
    )
    kind = f"conv{'_transpose' if transposed else ''}{rank}d"
    return Seen(layer, kind, x, w, tuple(output.shape), (output, x, w, attributes))


def _padding(
    numbers: dict[str, Any], x: Any, w: Any, y: Any, stride: Any, dilation: Any, slack: Any, transposed: bool
) -> tuple[int, ...]:
    """One number per axis where both sides agree, else (low, high) of every axis in a row."""
    rank = len(w)
    automatic = numbers["auto_pad"].s.decode() if "auto_pad" in numbers else "NOTSET"
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        fine, coarse = (y, x) if transposed else (x, y)
        totals = [
            max((c - 1) * s + d * (k - 1) + 1 + e - f, 0)
            for f, c, k, s, d, e in zip(fine, coarse, w, stride, dilation, slack, strict=True)
        ]
        halves = [(t // 2, t - t // 2) for t in totals]
        pairs = halves if automatic == "SAME_UPPER" else [(high, low) for low, high in halves]
    else:
        flat = tuple(numbers["pads"].ints) if "pads" in numbers and automatic == "NOTSET" else (0,) * 2 * rank
        pairs = list(zip(flat[:rank], flat[rank:], strict=True))
    if all(low == high for low, high in pairs):
        return tuple(low for low, _ in pairs)
    return tuple(n for pair in pairs for n in pair)
