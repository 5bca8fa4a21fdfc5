"""Reference functions a test kit can load: the operators under their own names, with the header's parameter names.

    from convgrad.golden_functions import aclnnConvolutionBackward, aclnnConvTbcBackward

They return the expected gradients (`None` where the mask says no) as float64 sums of operands rounded as the product
rounds them, with the planned result casts. Further keyword arguments that kits pass along are ignored, except
`product`, `conformance` and `wide` (float64 sums without the result casts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convgrad.calls import requests
from convgrad.calls.decide import decide
from convgrad.core import arguments
from convgrad.core.arguments import number
from convgrad.core.operands import Operands
from convgrad.core.request import DEFAULT_CONFORMANCE, FORMAT_BY_RANK, Operator, Request, TensorSpec
from convgrad.core.tensor import Tensor, read_tensor
from convgrad.lab.golden.writing import expected

__all__ = ["aclnnConvTbcBackward", "aclnnConvolutionBackward", "golden_conv_backward", "golden_convtbc_backward"]

_NAMES = ("grad_input", "grad_weight", "grad_bias")
PRODUCT = "A2"


def _spec(tensor: Tensor, layout: str = "") -> TensorSpec:
    given = "" if tensor.format == "ND" else tensor.format
    return TensorSpec(tensor.shape, tensor.dtype.name, layout or given or FORMAT_BY_RANK.get(tensor.ndim, "ND"))


def _ints(name: str, values: object) -> tuple[int, ...]:
    return tuple(number(name, v) for v in arguments.listed(name, values))


def _results(request: Request, g: Tensor, x: Tensor, w: Tensor, wide: bool) -> list[Any]:
    plan = decide(request).accepted()
    found = expected(plan, Operands(g.data, x.data, w.data), wide)
    stored = {step.result.value: step.stored_as for step in plan.steps}
    return [
        None if name not in found else found[name] if wide or stored[name] != "hifloat8"
        else Tensor(found[name], "hifloat8")
        for name in _NAMES
    ]


def aclnnConvolutionBackward(
    gradOutput: Any, input: Any, weight: Any, biasSizes: Sequence[int] | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool = False,
    outputPadding: Sequence[int] | None = None, groups: int = 1, outputMask: Sequence[bool] = (True, True, True),
    cubeMathType: int = 0, *, product: str = PRODUCT, conformance: str = DEFAULT_CONFORMANCE, wide: bool = False,
    **_: Any,
) -> list[Any]:
    """Expected gradInput, gradWeight, gradBias. A call the contract refuses raises `ConvGradError`."""
    g, x, w = read_tensor("gradOutput", gradOutput), read_tensor("input", input), read_tensor("weight", weight)
    mask = arguments.flags("outputMask", outputMask)
    strides = _ints("stride", stride)
    bias = TensorSpec((g.shape[1] if g.ndim > 1 else 0,), g.dtype.name, "ND")
    outputs = [s if i < len(mask) and mask[i] else None for i, s in enumerate((_spec(x), _spec(w), bias))]
    request = Request(
        Operator.CONV, _spec(g), _spec(x), _spec(w), None, None if biasSizes is None else _ints("biasSizes", biasSizes),
        strides, _ints("padding", padding), _ints("dilation", dilation), arguments.flag("transposed", transposed),
        (0,) * len(strides) if outputPadding is None else _ints("outputPadding", outputPadding),
        number("groups", groups), mask, number("cubeMathType", cubeMathType), outputs[0], outputs[1], outputs[2],
        product=requests.read_product(product), conformance=requests.read_conformance(conformance),
    )
    return _results(request, g, x, w, arguments.flag("wide", wide))


def aclnnConvTbcBackward(
    self: Any, input: Any, weight: Any, bias: Any, pad: int, cubeMathType: int = 0, *, product: str = PRODUCT,
    conformance: str = DEFAULT_CONFORMANCE, wide: bool = False, **_: Any,
) -> list[Any]:
    """Expected gradInput, gradWeight, gradBias of the time-batch-channel convolution."""
    g, x, w = read_tensor("self", self), read_tensor("input", input), read_tensor("weight", weight)
    b = read_tensor("bias", bias)
    request = Request(
        Operator.TBC, _spec(g, "ND"), _spec(x, "ND"), _spec(w, "ND"), _spec(b, "ND"),
        math=number("cubeMathType", cubeMathType),
        grad_input=_spec(x, "ND"), grad_weight=_spec(w, "ND"), grad_bias=_spec(b, "ND"), pad=number("pad", pad),
        product=requests.read_product(product), conformance=requests.read_conformance(conformance),
    )
    return _results(request, g, x, w, arguments.flag("wide", wide))


# The names the kits' own case files use for their references.
golden_conv_backward = aclnnConvolutionBackward
golden_convtbc_backward = aclnnConvTbcBackward
