"""Operations JAX can compile, differentiate and batch: the forward pass and one for each gradient.

Forward pass, grad_input and grad_weight are linear in each of their two operands, and each one's derivatives are the
other two: JAX makes derivatives of any order, forward and backward, from these rules alone. With X, W, Y the space of
input, weight and output:

    output      (x, w) -> Y      transposed: grad_input (g, w) -> X,  grad_weight (g, x) -> W
    grad_input  (g, w) -> X      transposed: output     (x, w) -> Y,  grad_weight (g, x) -> W
    grad_weight (g, x) -> W      transposed: output     (x, w) -> Y,  grad_input  (g, w) -> X
    grad_bias   (g)    -> bias   transposed: the bias on every position, and the other way round

A batch of `vmap` joins the samples where one weight serves all of them; otherwise there is a call per entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from convgrad.core.plan import Result
from convgrad.jax.calls import Call, compute, plan_of

output_p = Primitive("convgrad_output")
biased_p = Primitive("convgrad_output_with_bias")
input_p = Primitive("convgrad_grad_input")
weight_p = Primitive("convgrad_grad_weight")
bias_p = Primitive("convgrad_grad_bias")
spread_p = Primitive("convgrad_spread_bias")


def _spread(call: Call, bias: Any) -> Any:
    """The bias on every position of the output."""
    shape = [-1 if axis == call.channel else 1 for axis in range(len(call.output.shape))]
    return jnp.broadcast_to(bias.reshape(shape), call.output.shape)


@cache
def _compiled(primitive: Any, call: Call) -> Any:
    return jax.jit(partial(primitive.bind, call=call))


def _add(primitive: Any, result: Result, lower: Any, decided: bool = True) -> None:
    """What is common: shapes, compilation for the CPU and elsewhere, calls outside of compiled programs."""
    def shape(*operands: Any, call: Call) -> Any:
        if decided:
            plan_of(call, result)  # a refusal raises while the caller's line is on the stack
        made = call.shaped(result)
        return ShapedArray(made.shape, made.dtype)

    primitive.def_impl(lambda *operands, call: _compiled(primitive, call)(*operands))
    primitive.def_abstract_eval(shape)
    for platform in ("cpu", None):
        rule = mlir.lower_fun(partial(lower, inside=platform == "cpu"), multiple_results=False)
        mlir.register_lowering(primitive, rule, platform=platform)


def _lower(result: Result, *operands: Any, call: Call, inside: bool) -> Any:
    return compute(call, result, operands, inside=inside)


for _p, _result in ((output_p, Result.OUTPUT), (input_p, Result.GRAD_INPUT), (weight_p, Result.GRAD_WEIGHT),
                    (bias_p, Result.GRAD_BIAS)):  # fmt: skip
    _add(_p, _result, partial(_lower, _result))
_add(biased_p, Result.OUTPUT, lambda x, w, b, *, call, inside: compute(call, Result.OUTPUT, (x, w), b, inside=inside))
_add(spread_p, Result.OUTPUT, lambda b, *, call, inside: _spread(call, b), decided=False)


# ---- derivatives -------------------------------------------------------------------------------------------------

ad.defbilinear(
    output_p,
    lambda g, x, w, *, call: input_p.bind(g, w, call=call),
    lambda g, x, w, *, call: weight_p.bind(g, x, call=call),
)
ad.defbilinear(
    input_p,
    lambda x, g, w, *, call: output_p.bind(x, w, call=call),
    lambda x, g, w, *, call: weight_p.bind(g, x, call=call),
)
ad.defbilinear(
    weight_p,
    lambda w, g, x, *, call: output_p.bind(x, w, call=call),
    lambda w, g, x, *, call: input_p.bind(g, w, call=call),
)
ad.deflinear2(bias_p, lambda b, g, *, call: [spread_p.bind(b, call=call)])
ad.deflinear2(spread_p, lambda g, b, *, call: [bias_p.bind(g, call=call)])


def _biased_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: Call) -> tuple[Any, Any]:
    x, w, _ = primals
    dx, dw, db = (None if type(t) is ad.Zero else t for t in tangents)
    y = biased_p.bind(*primals, call=call)
    terms = [] if dx is None else [output_p.bind(dx, w, call=call)]
    terms += [] if dw is None else [output_p.bind(x, dw, call=call)]
    terms += [] if db is None else [spread_p.bind(db.astype(y.dtype), call=call)]
    return y, sum(terms[1:], terms[0])  # JAX asks for no derivative where every tangent is zero


ad.primitive_jvps[biased_p] = _biased_jvp


# ---- vmap --------------------------------------------------------------------------------------------------------


def _batched(
    primitive: Any, shared: tuple[int, ...], operands: Sequence[Any], axes: Sequence[int | None], *, call: Call
) -> tuple[Any, int]:
    """Operands at the places of `shared` must be one for all, for the others to join the axis of samples."""
    entries = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(operands, axes, strict=True)]
    if not shared or any(axes[i] is not None for i in shared):
        return _one_by_one(primitive, entries, axes, call), 0
    times = next(a.shape[0] for a, d in zip(entries, axes, strict=True) if d is not None)
    at = call.batch

    def joined(a: Any) -> Any:
        moved = jnp.moveaxis(a, 0, at)
        return moved.reshape(*moved.shape[:at], times * moved.shape[at + 1], *moved.shape[at + 2 :])

    found = primitive.bind(*(a if d is None else joined(a) for a, d in zip(entries, axes, strict=True)),
                           call=call.of_samples(times))  # fmt: skip
    return found.reshape(*found.shape[:at], times, found.shape[at] // times, *found.shape[at + 1 :]), at


def _one_by_one(primitive: Any, entries: Sequence[Any], axes: Sequence[int | None], call: Call) -> Any:
    moving = [a for a, d in zip(entries, axes, strict=True) if d is not None]

    def one(given: list[Any]) -> Any:
        rest = iter(given)
        return primitive.bind(*(a if d is None else next(rest) for a, d in zip(entries, axes, strict=True)), call=call)

    return jax.lax.map(one, moving)


for _p, _shared in ((output_p, (1,)), (biased_p, (1, 2)), (input_p, (1,)), (weight_p, ()), (bias_p, ()),
                    (spread_p, ())):  # fmt: skip
    batching.primitive_batchers[_p] = partial(_batched, _p, _shared)
