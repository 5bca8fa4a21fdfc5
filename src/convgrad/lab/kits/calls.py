"""Golden functions of the operators: the header's parameters in order, outputs included, and a kit's keywords."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from convgrad.calls import requests
from convgrad.core import arguments
from convgrad.core.arguments import number
from convgrad.core.request import DEFAULT_CONFORMANCE, FORMAT_BY_RANK, Operator, Request, TensorSpec
from convgrad.core.tensor import Tensor
from convgrad.lab.kits.expected import Triple, gradients
from convgrad.lab.kits.soc import product_of
from convgrad.lab.kits.tensors import entry_at, format_at, read

HF32_VARIABLE = "CONVGRAD_KIT_HF32"
"""Set to 1, `convolution_backward` computes float32 in HF32, as torch_npu does by default."""


CONFORMANCE_VARIABLE = "CONVGRAD_CONFORMANCE"
"""`runtime` for a device whose runtime takes what documents refuse; counts where no `conformance` is given."""


def _conformance(asked: str | None) -> str:
    given = asked if asked is not None else os.environ.get(CONFORMANCE_VARIABLE, "").strip() or DEFAULT_CONFORMANCE
    return requests.read_conformance(given)


class _Tensors:
    """Reads the tensors of one call, inputs then outputs, with what the kit tells about each."""

    def __init__(self, kit: dict[str, Any], layout: str = "") -> None:
        self.formats, self.dtypes, self.layout = kit.get("tensor_formats"), kit.get("tensor_dtypes"), layout

    def read(self, name: str, given: object, place: int) -> Tensor:
        return read(name, given, entry_at(self.dtypes, place))

    def spec(self, tensor: Tensor, place: int, dtype: str = "") -> TensorSpec:
        own = "" if tensor.format == "ND" else tensor.format
        layout = self.layout or own or format_at(self.formats, place) or FORMAT_BY_RANK.get(tensor.ndim, "ND")
        return TensorSpec(tensor.shape, dtype or tensor.dtype.name, layout)

    def outputs(self, names: Sequence[str], given: Sequence[object], first: int) -> list[Tensor | None]:
        return [
            None if g is None else self.read(n, g, first + i) for i, (n, g) in enumerate(zip(names, given, strict=True))
        ]

    def result(self, output: Tensor | None, ordinary: TensorSpec, place: int) -> TensorSpec:
        """What a gradient is stored as: its buffer, in the narrow dtype if the kit widened it with the operands."""
        if output is None:
            return ordinary
        wide = output.dtype.name == "float64" and ordinary.dtype != "float64"
        return self.spec(output, place, ordinary.dtype if wide else "")


def _ints(name: str, values: object) -> tuple[int, ...]:
    return tuple(number(name, v) for v in arguments.listed(name, values))


class _Names(NamedTuple):
    """What a level calls the parameters of a convolution's backward pass."""

    grad_output: str = "gradOutput"
    bias_sizes: str = "biasSizes"
    output_padding: str = "outputPadding"
    output_mask: str = "outputMask"


def aclnnConvolutionBackward(
    gradOutput: Any, input: Any, weight: Any, biasSizes: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool | None = False,
    outputPadding: Sequence[int] | None = None, groups: int | None = 1,
    outputMask: Sequence[bool] | None = (True, True, True), cubeMathType: int | None = 0, gradInput: Any = None,
    gradWeight: Any = None, gradBias: Any = None, *, product: str | None = None,
    conformance: str | None = None, wide: bool = False, **kit: Any,
) -> list[Any]:
    """Expected gradInput, gradWeight, gradBias. A call the contract refuses raises `ConvGradError`."""
    attributes = (
        biasSizes, stride, padding, dilation, transposed, outputPadding, groups, outputMask, cubeMathType,
    )
    rules = (product, conformance, wide)
    return _convolution(
        _Names(), (gradOutput, input, weight), attributes, (gradInput, gradWeight, gradBias), rules, kit
    )


def convolution_backward(
    grad_output: Any, input: Any, weight: Any, bias_sizes: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    output_mask: Sequence[bool], *, product: str | None = None, conformance: str | None = None,
    wide: bool = False, **kit: Any,
) -> list[Any]:
    """Expected results of `torch.ops.aten.convolution_backward` on the device: the same operator, HF32 by variable."""
    math = 1 if os.environ.get(HF32_VARIABLE, "0") == "1" else 0
    if bias_sizes is None:  # optional here: the framework hands the operator the gradient's channels
        bias_sizes = read("grad_output", grad_output).shape[1:2]
    attributes = (bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask, math)
    names = _Names("grad_output", "bias_sizes", "output_padding", "output_mask")
    rules = (product, conformance, wide)
    return _convolution(names, (grad_output, input, weight), attributes, (None, None, None), rules, kit)


def _convolution(
    names: _Names, given: tuple[Any, Any, Any], attributes: tuple[Any, ...], buffers: tuple[Any, Any, Any],
    rules: tuple[Any, Any, Any], kit: dict[str, Any],
) -> list[Any]:
    bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask, math = attributes
    product, conformance, wide = rules
    key = product_of(product, kit.get("full_soc_version"), kit.get("short_soc_version"))
    tensors = _Tensors(kit)
    g = tensors.read(names.grad_output, given[0], 0)
    x, w = tensors.read("input", given[1], 1), tensors.read("weight", given[2], 2)
    outputs = tensors.outputs(("gradInput", "gradWeight", "gradBias"), buffers, 3)
    mask = (True,) * 3 if output_mask is None else arguments.flags(names.output_mask, output_mask)
    strides = _ints("stride", stride)
    sizes = None if bias_sizes is None else _ints(names.bias_sizes, bias_sizes)
    slack = (0,) * len(strides) if output_padding is None else _ints(names.output_padding, output_padding)
    asked: dict[str, Any] = {
        "stride": strides, "padding": _ints("padding", padding), "dilation": _ints("dilation", dilation),
        "transposed": transposed is not None and arguments.flag("transposed", transposed), "output_padding": slack,
        "groups": 1 if groups is None else number("groups", groups), "output_mask": mask,
        "math": 0 if math is None else number("cubeMathType", math), "product": key,
        "conformance": _conformance(conformance),
    }

    def request_of(operands: Triple) -> Request:
        go, fine, window = (tensors.spec(t, i) for i, t in enumerate(operands))
        channels = go.shape[1] if go.rank > 1 else 0
        ordinary = (fine, window, TensorSpec((channels,), go.dtype, "ND"))
        dx, dw, db = (
            tensors.result(o, s, 3 + i) if i < len(mask) and mask[i] else None
            for i, (o, s) in enumerate(zip(outputs, ordinary, strict=True))
        )
        bias = db if db is None else TensorSpec(db.shape, db.dtype, "ND")
        return Request(
            Operator.CONV, go, fine, window, None, sizes, grad_input=dx, grad_weight=dw, grad_bias=bias, **asked
        )

    wanted_as = [(o or t).dtype.name for o, t in zip(outputs, (x, w, g), strict=True)]
    return gradients((g, x, w), request_of, wanted_as, given[0], arguments.flag("wide", wide))


def aclnnConvTbcBackward(
    self: Any, input: Any, weight: Any, bias: Any, pad: int, cubeMathType: int | None = 0, gradInput: Any = None,
    gradWeight: Any = None, gradBias: Any = None, *, product: str | None = None,
    conformance: str | None = None, wide: bool = False, **kit: Any,
) -> list[Any]:
    """Expected gradInput, gradWeight, gradBias of the time-batch-channel convolution."""
    key = product_of(product, kit.get("full_soc_version"), kit.get("short_soc_version"))
    tensors = _Tensors(kit, "ND")
    g, x, w, b = (
        tensors.read(n, t, i)
        for i, (n, t) in enumerate((("self", self), ("input", input), ("weight", weight), ("bias", bias)))
    )
    outputs = tensors.outputs(("gradInput", "gradWeight", "gradBias"), (gradInput, gradWeight, gradBias), 4)
    asked: dict[str, Any] = {
        "math": number("cubeMathType", 0 if cubeMathType is None else cubeMathType), "pad": number("pad", pad),
        "product": key, "conformance": _conformance(conformance),
    }

    def request_of(operands: Triple) -> Request:
        go, fine, window = (tensors.spec(t, i) for i, t in enumerate(operands))
        narrow = g.dtype != operands[0].dtype and b.dtype == g.dtype
        length = tensors.spec(b, 3, go.dtype if narrow else "")
        dx, dw, db = (
            tensors.result(o, s, 4 + i) for i, (o, s) in enumerate(zip(outputs, (fine, window, length), strict=True))
        )
        return Request(
            Operator.TBC, go, fine, window, length, grad_input=dx, grad_weight=dw, grad_bias=db, **asked
        )

    wanted_as = [(o or t).dtype.name for o, t in zip(outputs, (x, w, b), strict=True)]
    return gradients((g, x, w), request_of, wanted_as, self, arguments.flag("wide", wide))
