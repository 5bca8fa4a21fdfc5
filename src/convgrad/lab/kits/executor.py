"""What the executor file of the second kit calls: results by the kit's own keywords, zeros where the mask says no.

Every result comes in gradOutput's dtype, as the kit compares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convgrad.core import rounding
from convgrad.core.arguments import told
from convgrad.core.request import FORMAT_BY_RANK
from convgrad.core.status import ConvGradError
from convgrad.lab.kits import calls
from convgrad.lab.kits.tensors import given_back, read

_CHANNELS_LAST = ("NHWC", "NDHWC")
_WEIGHT = 2
_CONV = (
    "gradOutput", "input", "weight", "biasSizes", "stride", "padding", "dilation", "transposed", "outputPadding",
    "groups", "outputMask", "cubeMathType",
)
_TBC = ("self", "input", "weight", "bias", "pad", "cubeMathType")


def convolution_backward(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """gradInput, gradWeight, gradBias of a case's keywords."""
    named = {name: given[name] for name in _CONV if name in given}
    _refuse_missing(named, _CONV[:7])
    layout = given.get("format")
    formats = (layout, layout, None) if isinstance(layout, str) and layout != "ND" else None
    results = calls.aclnnConvolutionBackward(**named, tensor_formats=formats)
    g = read("gradOutput", given["gradOutput"])
    axis = g.ndim - 1 if layout in _CHANNELS_LAST else 1
    shapes = (_shape(given["input"]), _shape(given["weight"]), (g.shape[axis],))
    return _in_dtype_of(given["gradOutput"], results, shapes)


def conv_tbc_backward(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """gradInput, gradWeight, gradBias of a case's keywords."""
    named = {name: given[name] for name in _TBC if name in given}
    _refuse_missing(named, _TBC[:5])
    shapes = tuple(_shape(given[name]) for name in ("input", "weight", "bias"))
    return _in_dtype_of(given["self"], calls.aclnnConvTbcBackward(**named), shapes)


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in tensor.shape)


def _refuse_missing(named: Mapping[str, Any], needed: tuple[str, ...]) -> None:
    missing = [name for name in needed if name not in named]
    if missing:
        raise ConvGradError(f"the case has no {missing[0]}", rule="case.inputs", value=missing[0])


def _in_dtype_of(like: Any, results: list[Any], shapes: tuple[tuple[int, ...], ...]) -> tuple[Any, ...]:
    row = read("gradOutput", like).dtype
    stored = (
        np.zeros(shape, rounding.storage(row)) if r is None else rounding.store(row, read("result", r).values())
        for r, shape in zip(results, shapes, strict=True)
    )
    return tuple(given_back(array, row.name, like) for array in stored)


def format_of(given: Mapping[str, Any], index: int | None = None, name: str | None = None) -> str:
    """The format of a case's tensor, by its place or its name; a weight is always ND."""
    if index == _WEIGHT or name == "weight" or "self" in given:
        return "ND"
    layout = given.get("format")
    if layout is None:
        return FORMAT_BY_RANK.get(len(_shape(given["input"])), "ND")
    if not isinstance(layout, str):
        raise ConvGradError(f"format must be a name, got {told(layout)}", rule="format.type", value=layout)
    return layout
