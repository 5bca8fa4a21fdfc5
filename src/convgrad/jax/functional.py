"""The functional API on JAX arrays: the same calls as `convgrad`'s own, to be compiled, differentiated and batched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from convgrad.calls import requests
from convgrad.calls.decide import decide
from convgrad.calls.requests import Attributes, Numbers, Padding, Rules
from convgrad.core import arguments
from convgrad.core.request import DEFAULT_CONFORMANCE, FORMAT_BY_RANK, MATH_NAMES, Operator, TensorSpec
from convgrad.core.status import ConvGradError
from convgrad.functional import Gradients
from convgrad.jax import operators
from convgrad.jax.calls import Call, request_of

_MOST_AXES = 64
"""Of NumPy's arrays, which JAX makes first of a list."""


def convolution(
    input: Any, weight: Any, bias: Any = None, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
    transposed: bool = False, output_padding: Numbers = 0, groups: int = 1, math: str | int = "keep",
    product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None,
    threads: int | None = None, deterministic: int = 0,
) -> Any:
    """The forward pass; its derivatives are `conv_backward`'s, with the same math, product and level."""
    x, w = _array(input, "input"), _array(weight, "weight")
    attributes = _attributes(x, stride, padding, dilation, transposed, output_padding, groups)
    rules = _rules(math, product, conformance, algorithm, deterministic)
    call = _call(Operator.CONV, x, w, attributes, 0, rules, threads)
    return _forward(call, x, w, bias)


def conv_tbc(
    input: Any, weight: Any, bias: Any = None, *, pad: int = 0, math: str | int = "keep", product: str = "cpu",
    conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Any:
    """The forward pass of the time-batch-channel convolution."""
    x, w = _array(input, "input"), _array(weight, "weight")
    rules = _rules(math, product, conformance, algorithm, deterministic)
    return _forward(_call(Operator.TBC, x, w, Attributes(), arguments.number("pad", pad), rules, threads), x, w, bias)


def conv_backward(
    grad_output: Any, input: Any, weight: Any, *, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
    transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    output_mask: Sequence[bool] = (True, True, True), math: str | int = "keep", product: str = "cpu",
    conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[Any, Any, Any]:
    """The gradients of a 1-D, 2-D or 3-D convolution, plain or transposed; `None` where the mask says no."""
    g, x, w = _array(grad_output, "grad_output"), _array(input, "input"), _array(weight, "weight")
    mask = arguments.flags("output_mask", output_mask)
    attributes = _attributes(x, stride, padding, dilation, transposed, output_padding, groups)
    rules = _rules(math, product, conformance, algorithm, deterministic)
    return _gradients(_call(Operator.CONV, x, w, attributes, 0, rules, threads, g), g, x, w, mask)


def conv_tbc_backward(
    grad_output: Any, input: Any, weight: Any, *, pad: int = 0, math: str | int = "keep", product: str = "cpu",
    conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[Any, Any, Any]:
    """The gradients of the time-batch-channel convolution."""
    g, x, w = _array(grad_output, "grad_output"), _array(input, "input"), _array(weight, "weight")
    rules = _rules(math, product, conformance, algorithm, deterministic)
    call = _call(Operator.TBC, x, w, Attributes(), arguments.number("pad", pad), rules, threads, g)
    return _gradients(call, g, x, w, (True, True, True))


# ---- running -----------------------------------------------------------------------------------------------------


def _forward(call: Call, x: Any, w: Any, bias: Any) -> Any:
    if bias is None:
        return operators.output_p.bind(x, w, call=call)
    b = _array(bias, "bias")
    channels = call.output.shape[call.channel]
    if b.shape != (channels,):
        message = f"bias must have shape ({channels},), got {b.shape}"
        raise ConvGradError(message, rule="bias.shape", value=b.shape, line=str(request_of(call, (False,) * 3)))
    if not jnp.issubdtype(b.dtype, jnp.floating):
        message = f"dtype of bias must be floating; got {b.dtype}"
        raise ConvGradError(message, rule="bias.dtype", value=b.dtype.name)
    return operators.biased_p.bind(x, w, b, call=call)


def _gradients(call: Call, g: Any, x: Any, w: Any, mask: tuple[bool, ...]) -> Gradients[Any, Any, Any]:
    decide(request_of(call, mask)).accepted()  # type: ignore[arg-type]  # the rules see the call as it was made
    wants = (*mask, False, False, False)
    return Gradients(
        operators.input_p.bind(g, w, call=call) if wants[0] else None,
        operators.weight_p.bind(g, x, call=call) if wants[1] else None,
        operators.bias_p.bind(g, call=call) if wants[2] else None,
    )


# ---- reading arguments -------------------------------------------------------------------------------------------


def _array(value: object, name: str) -> Any:
    """An array or a tracer; what JAX takes for neither is refused by name."""
    try:
        if isinstance(value, jax.Array):
            return value
        if isinstance(value, list | tuple) and _nests_without_end(value):
            raise arguments.wrong_type(name, "an array", value)
        return jnp.asarray(value)
    except (MemoryError, ConvGradError):
        raise
    except Exception as error:
        raise arguments.wrong_type(name, "an array", value) from error


def _nests_without_end(value: Sequence[Any]) -> bool:
    """Whether lists lie in each other deeper than an array has axes, as in one that holds itself. JAX follows those
    to the end of the interpreter's stack and does not give back what it took of it: every later call is in want."""
    level: list[Any] = [value]
    for _ in range(_MOST_AXES):
        level = list({id(one): one for held in level for one in held if isinstance(one, list | tuple)}.values())
        if not level:
            return False
    return True


def _attributes(
    x: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, output_padding: Any, groups: Any
) -> Attributes:
    """As plain tuples: what was asked is a key."""
    rank = max(x.ndim - 2, 1)
    return Attributes(
        None, arguments.numbers("stride", stride, rank), requests.pads("padding", padding, rank),
        arguments.numbers("dilation", dilation, rank), arguments.flag("transposed", transposed),
        arguments.numbers("output_padding", output_padding, rank), arguments.number("groups", groups),
    )


def _rules(math: Any, product: Any, conformance: Any, algorithm: Any, deterministic: Any) -> Rules:
    key = requests.read_product(product)
    name = requests.default_algorithm(key) if algorithm is None else algorithm
    number = requests.read_math(math)
    word = MATH_NAMES[number] if 0 <= number < len(MATH_NAMES) else number
    return Rules(**Rules(word, key, conformance, name, deterministic=deterministic).read())


def _call(
    operator: Operator, x: Any, w: Any, attributes: Attributes, pad: int, rules: Rules, threads: object, g: Any = None
) -> Call:
    """The call of these tensors; without a grad_output that of the forward pass, whose output follows from them."""
    def spec(a: Any) -> TensorSpec:
        layout = "ND" if operator is Operator.TBC else FORMAT_BY_RANK.get(a.ndim, "ND")
        return TensorSpec(a.shape, a.dtype.name, layout)

    count = arguments.threads(threads)
    if g is not None:
        return Call(operator, spec(x), spec(w), spec(g), attributes, pad, rules, count)
    call = Call(operator, spec(x), spec(w), spec(x), attributes, pad, rules, count)
    request = request_of(call, (False, False, False))
    decide(request).accepted()
    assert request.grad_output is not None
    return Call(operator, call.input, call.weight, request.grad_output, attributes, pad, rules, count)
