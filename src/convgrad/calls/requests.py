"""The one builder of requests: numbers, pads and names as callers write them, and specs of their tensors.

Doors that pass the vendor's own arguments through (`aclnn`, `golden_functions`) make a `Request` of them as they are:
there a null is a null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from convgrad import engines
from convgrad.core import arguments, products
from convgrad.core.arguments import number, numbers, told
from convgrad.core.determinism import read_level
from convgrad.core.request import (
    CONFORMANCES,
    DEFAULT_ALGORITHM,
    DEFAULT_CONFORMANCE,
    MATH_NAMES,
    Operator,
    PadEntry,
    Request,
    TensorSpec,
    pad_pairs,
    read_algorithm,
    read_revision,
    with_output,
)
from convgrad.core.status import ConvGradError
from convgrad.text.terminal import did_you_mean

Padding = int | Sequence[int] | Sequence[tuple[int, int]]
Numbers = int | Sequence[int]
Specs = tuple[TensorSpec | None, TensorSpec | None, TensorSpec | None]
"""grad_input, grad_weight, grad_bias, where the caller gives buffers for them."""
NOTHING_GIVEN: Specs = (None, None, None)


class Rules(NamedTuple):
    """Under which rules and numerics a call is made, as its caller writes it."""

    math: object = "keep"
    product: object = "cpu"
    conformance: object = DEFAULT_CONFORMANCE
    algorithm: object = DEFAULT_ALGORITHM
    revision: object = ""
    deterministic: object = 0

    def read(self) -> dict[str, Any]:
        """As fields of a request."""
        return {
            "math": read_math(self.math), "product": read_product(self.product),
            "conformance": read_conformance(self.conformance),
            "algorithm": read_algorithm("algorithm", self.algorithm),
            "revision": read_revision("revision", self.revision),
            "deterministic": read_level("deterministic", self.deterministic),
        }


class Attributes(NamedTuple):
    """The attributes of a convolution as its caller writes them."""

    bias_sizes: object = None
    stride: object = 1
    padding: object = 0
    dilation: object = 1
    transposed: object = False
    output_padding: object = 0
    groups: object = 1
    output_mask: object = (True, True, True)

    @classmethod
    def of(cls, values: Sequence[object]) -> Attributes:
        """Lists, as a dispatcher passes them, as tuples: attributes can be part of a key."""
        return cls(*(tuple(v) if isinstance(v, (list, tuple)) else v for v in values))

    def read(self, rank: int) -> dict[str, Any]:
        """As fields of a request, but for bias_sizes and the mask."""
        return {
            "stride": numbers("stride", self.stride, rank), "padding": pads("padding", self.padding, rank),
            "dilation": numbers("dilation", self.dilation, rank),
            "transposed": arguments.flag("transposed", self.transposed),
            "output_padding": numbers("output_padding", self.output_padding, rank),
            "groups": number("groups", self.groups),
        }


def conv_backward_request(
    grad_output: TensorSpec, input: TensorSpec, weight: TensorSpec, attributes: Attributes, rules: Rules,
    given: Specs = NOTHING_GIVEN,
) -> Request:
    """Gradients of a convolution; results are as their tensors are, or as the buffers that are given."""
    channels = grad_output.shape[1] if len(grad_output.shape) > 1 else 0
    sizes = (channels,) if attributes.bias_sizes is None else numbers("bias_sizes", attributes.bias_sizes, 1)
    wanted = arguments.flags("output_mask", attributes.output_mask)
    ordinary = (input, weight, TensorSpec((channels,), grad_output.dtype, "ND"))
    results = [
        (buffer or spec) if i < len(wanted) and wanted[i] else None
        for i, (buffer, spec) in enumerate(zip(given, ordinary, strict=True))
    ]
    request = Request(
        Operator.CONV, grad_output, input, weight, None, sizes, output_mask=wanted, grad_input=results[0],
        grad_weight=results[1], grad_bias=results[2], **attributes.read(_rank(input)), **rules.read(),
    )
    return _refuse_other_dtypes(request, ordinary, given)


def tbc_backward_request(
    grad_output: TensorSpec, input: TensorSpec, weight: TensorSpec, bias: TensorSpec | None, pad: object, rules: Rules,
    given: Specs = NOTHING_GIVEN,
) -> Request:
    """Gradients of the time-batch-channel convolution."""
    channels = grad_output.shape[2] if len(grad_output.shape) > 2 else 0
    ordinary = (input, weight, bias or TensorSpec((channels,), grad_output.dtype, "ND"))
    grad_input, grad_weight, grad_bias = (buffer or spec for buffer, spec in zip(given, ordinary, strict=True))
    request = Request(
        Operator.TBC, grad_output, input, weight, ordinary[2], grad_input=grad_input, grad_weight=grad_weight,
        grad_bias=grad_bias, pad=number("pad", pad), **rules.read(),
    )
    return _refuse_other_dtypes(request, ordinary, given)


def forward_request(
    input: TensorSpec, weight: TensorSpec, attributes: Attributes | None, rules: Rules, pad: object = 0
) -> Request:
    """The forward pass; without attributes that of the time-batch-channel operator. The output follows from them."""
    asked: dict[str, Any] = {"pad": number("pad", pad)} if attributes is None else attributes.read(_rank(input))
    asked |= {"output_mask": (False, False, False), "forward": True}
    operator = Operator.TBC if attributes is None else Operator.CONV
    return _refuse_wide_windows(with_output(Request(operator, None, input, weight, **asked, **rules.read())))


def _refuse_wide_windows(request: Request) -> Request:
    """A window beyond its padded input has no output; the law alone would round its size up to zero."""
    x, w = request.input, request.weight
    assert x is not None and w is not None
    if request.transposed or x.empty or w.empty or x.rank != w.rank or not x.rank:
        return request
    axes: Any
    if request.operator is Operator.TBC:
        axes = ((x.shape[0], w.shape[0], 1, (request.pad, request.pad)),)
    else:
        pairs = pad_pairs(request.padding or (), x.rank - 2) or ()
        axes = zip(x.shape[2:], w.shape[2:], request.dilation or (), pairs, strict=False)
    for size, window, step, (low, high) in axes:
        extent, padded = (window - 1) * step + 1, size + low + high
        if extent > padded:
            raise ConvGradError(
                f"input must be at least as large as the window: {padded} with its padding, the window covers {extent}",
                rule="input.window", value=x.shape, line=str(request),
            )
    return request


def _rank(input: TensorSpec) -> int:
    return max(len(input.shape) - 2, 1)


def _refuse_other_dtypes(request: Request, own: Sequence[TensorSpec], given: Specs) -> Request:
    """On `cpu` a gradient has the dtype of its tensor. (Vendor products have rows of their own about this.)"""
    for i, (buffer, spec) in enumerate(zip(given, own, strict=True)):
        if request.product == "cpu" and buffer is not None and buffer.dtype != spec.dtype:
            raise ConvGradError(
                f"out[{i}] must be {spec.dtype}, got {buffer.dtype}", rule="out.dtype", value=buffer.dtype,
                line=str(request),
            )
    return request


def pads(name: str, value: object, rank: int) -> tuple[PadEntry, ...]:
    def entry(v: object) -> PadEntry:
        pair = arguments.entries(name, v)
        if pair is None:
            return number(name, v)
        if len(pair) != 2:
            raise ConvGradError(f"{name}: a pair is (low, high), got {told(v)}", rule=f"{name}.type", value=v)
        return number(name, pair[0]), number(name, pair[1])

    found = arguments.entries(name, value)
    given = (number(name, value),) if found is None else tuple(entry(v) for v in found)
    return given * rank if len(given) == 1 and isinstance(given[0], int) else _plainest(given, rank)


def _plainest(padding: tuple[PadEntry, ...], rank: int) -> tuple[PadEntry, ...]:
    """The vendor's own form where it has one: pairs of equals are one number, 2-D pairs are four numbers."""
    if not any(isinstance(p, tuple) for p in padding):
        return padding
    pairs = tuple(p if isinstance(p, tuple) else (p, p) for p in padding)
    if all(low == high for low, high in pairs):
        return tuple(low for low, _ in pairs)
    if rank == 2 and len(pairs) == 2:
        return (*pairs[0], *pairs[1])
    return padding


def read_math(value: object) -> int:
    """cubeMathType by name or number."""
    if isinstance(value, str):
        if value not in MATH_NAMES:
            message = f"math must be one of {', '.join(MATH_NAMES)}, got {told(value)}"
            raise ConvGradError(message, rule="math.name", value=value)
        return MATH_NAMES.index(value)
    return number("math", value)


def read_product(value: object) -> str:
    """The key of a product, by any of its names."""
    try:
        return products.find(cast(Any, value)).key
    except MemoryError:
        raise
    except Exception:  # no name, or an object that does not tell its own
        names, meant = ", ".join(products.KEYS), did_you_mean(value, products.KEYS) if type(value) is str else ""
        message = f"unknown product {told(value)}{meant}: use one of {names}, or a name such as Ascend910B3"
        raise ConvGradError(message, rule="product.name", value=value) from None


def read_conformance(value: object) -> str:
    """`document` or `runtime`."""
    if not isinstance(value, str) or value not in CONFORMANCES:
        raise ConvGradError(
            f"conformance must be document or runtime, got {told(value)}", rule="conformance.name", value=value
        )
    return value


def default_algorithm(product: object) -> str:
    """The algorithm of a call that names none: `CONVGRAD_ALGORITHM` on the product `cpu`, else direct."""
    asked = engines.getenv(b"CONVGRAD_ALGORITHM")
    if not asked or read_product(product) != "cpu":
        return DEFAULT_ALGORITHM
    return read_algorithm("CONVGRAD_ALGORITHM", asked.decode(errors="replace"))
