"""The functional door: arrays in, gradients out.

Every call becomes a `Request`, is checked by the same rules as the vendor calls, and runs as a `Plan`.
Plans are kept, so that a call seen before costs little more than the computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.exceptions import TooHardError

from convgrad import engines
from convgrad.core import arguments, dtypes, products, rounding
from convgrad.core.arguments import number, numbers, told
from convgrad.core.arrays import AnyArray, as_array, is_channels_last, may_overlap_itself, refuse_masked
from convgrad.core.plan import Plan, Result, Step, make_plan
from convgrad.core.problem import ConvProblem, prove
from convgrad.core.request import CONFORMANCES, MATH_NAMES, Operator, PadEntry, Request, TensorSpec, with_output
from convgrad.core.status import ConvGradError, ConvGradTypeError
from convgrad.core.tensor import Tensor
from convgrad.engines import result_memory
from convgrad.rules.check import check

Padding = int | Sequence[int] | Sequence[tuple[int, int]]
Numbers = int | Sequence[int]
_FORMATS = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
_RESULTS = (Result.GRAD_INPUT, Result.GRAD_WEIGHT, Result.GRAD_BIAS)


class Gradients(NamedTuple):
    """What a backward call gives; `None` where the mask says no."""

    input: Any
    weight: Any
    bias: Any


@dataclass(frozen=True, slots=True)
class ExecutablePlan(Plan):
    """A plan that can be run on tensors again and again."""

    def run(
        self, grad_output: object, input: object, weight: object, *, out: Sequence[object] | None = None,
        threads: int | None = None,
    ) -> Gradients:
        """The gradients of these tensors, whose shapes and dtypes must be the planned ones; those of `out` as well."""
        if threads is None:
            quick = engines.run_quickly(self, grad_output, input, weight, out)
            if quick is not None:
                return Gradients(*quick)
        r = self.problem.request
        if r.forward:
            message = "the plan is of a forward pass; convgrad.convolution and conv_tbc run it, `run` gives gradients"
            raise ConvGradError(message, rule="plan.forward", value="want=y", line=self.problem.line)
        g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
        given = _given(out)
        _refuse_unplanned(self, (g, x, w), (r.grad_output, r.input, r.weight), ("grad_output", "input", "weight"))
        _refuse_unplanned(self, given, (r.grad_input, r.grad_weight, r.grad_bias), ("out[0]", "out[1]", "out[2]"))
        return _execute(self, g, x, w, given, threads)


def _refuse_unplanned(
    plan: Plan, tensors: Sequence[Operand | None], planned: Sequence[TensorSpec | None], names: Sequence[str]
) -> None:
    for tensor, spec, name in zip(tensors, planned, names, strict=True):
        if tensor is None or spec is None or (tensor.array.shape == spec.shape and tensor.dtype == spec.dtype):
            continue
        raise ConvGradError(
            f"{name} is {tensor.array.shape} {tensor.dtype}; the plan was made for {spec.shape} {spec.dtype}",
            rule="plan.tensor", value=tensor.array.shape, line=plan.problem.line,
        )


class Operand(NamedTuple):
    """A tensor as the caller gave it: its array (or whatever has its shape), dtype, and format ("" = the usual)."""

    array: AnyArray
    dtype: str
    format: str


Buffers = tuple[Operand | None, Operand | None, Operand | None]
"""grad_input, grad_weight, grad_bias, where the caller gives them."""
_NOTHING_GIVEN: Buffers = (None, None, None)


# ---- the public functions ----------------------------------------------------------------------------------


def conv_backward(
    grad_output: object, input: object, weight: object, bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: Sequence[bool] = (True, True, True),
    math: str | int = "keep", product: str = "cpu", conformance: str = "document",
    out: Sequence[object] | None = None, threads: int | None = None,
) -> Gradients:
    """Gradients of a 1-D, 2-D or 3-D convolution, plain or transposed.

    `padding` takes one number, one per axis, (low, high) pairs, or four numbers in 2-D (top, bottom, left, right).
    `out` holds three buffers to write into, `None` for those to be made. A refused call raises `ConvGradError`
    and writes nothing.

    >>> import numpy as np, convgrad
    >>> ones = np.ones((1, 1, 3, 3), np.float32)
    >>> g = convgrad.conv_backward(ones, ones, np.ones((1, 1, 3, 3), np.float32), padding=1)
    >>> g.bias
    array([9.], dtype=float32)
    """
    asked = (
        bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask, math, product,
        conformance,
    )
    short = _short_key(grad_output, input, weight, asked) if threads is None else None
    known = None if short is None else _known(short)
    if known is not None:
        quick = engines.run_quickly(known, grad_output, input, weight, out)
        if quick is not None:
            return Gradients(*quick)
    g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
    given = _given(out)
    plan = _planned(Operator.CONV, g, x, w, None, given, asked)
    # Buffers that say nothing new leave the plan that of the call without them.
    if short is not None and known is None and len(_short) < _MOST_PLANS and (
        out is None or plan.problem.request == requested(Operator.CONV, g, x, w, None, _NOTHING_GIVEN, asked)
    ):
        with suppress(Exception):  # an array among the attributes, or an object that cannot be compared: not kept
            _short[short] = plan
    return _execute(plan, g, x, w, given, threads)


def conv_tbc_backward(
    grad_output: object, input: object, weight: object, bias: object | None = None, *, pad: int = 0,
    math: str | int = "keep", product: str = "cpu", conformance: str = "document",
    out: Sequence[object] | None = None, threads: int | None = None,
) -> Gradients:
    """Gradients of the time-batch-channel convolution: tensors (T, B, C), weight (K, Cin, Cout), stride 1.

    `bias` gives only its length and dtype; by default it is one number per output channel in grad_output's dtype.
    """
    g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
    b = None if bias is None else _operand(bias, "bias")
    given = _given(out)
    plan = _planned(Operator.TBC, g, x, w, b, given, (pad, math, product, conformance))
    return _execute(plan, g, x, w, given, threads)


def convolution(
    input: object, weight: object, bias: object | None = None, *, stride: Numbers = 1, padding: Padding = 0,
    dilation: Numbers = 1, transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    math: str | int = "keep", product: str = "cpu", conformance: str = "document", out: object | None = None,
    threads: int | None = None,
) -> Any:
    """The forward pass: the remaining derivative of the same law. Rules of the product `cpu`, numerics of `product`."""
    x, w = _operand(input, "input"), _operand(weight, "weight")
    rank = max(x.array.ndim - 2, 1)
    request = Request(
        Operator.CONV, None, _spec(x), _spec(w), stride=numbers("stride", stride, rank),
        padding=_pads("padding", padding, rank), dilation=numbers("dilation", dilation, rank),
        transposed=arguments.flag("transposed", transposed),
        output_padding=numbers("output_padding", output_padding, rank),
        groups=number("groups", groups), output_mask=(False, False, False), math=read_math(math), forward=True,
        product=read_product(product), conformance=read_conformance(conformance),
    )
    return _forward(request, x, w, bias, out, threads)


def conv_tbc(
    input: object, weight: object, bias: object | None = None, *, pad: int = 0, math: str | int = "keep",
    product: str = "cpu", conformance: str = "document", out: object | None = None, threads: int | None = None,
) -> Any:
    """The forward pass of the time-batch-channel convolution."""
    x, w = _operand(input, "input"), _operand(weight, "weight")
    request = Request(
        Operator.TBC, None, _spec(x, "ND"), _spec(w, "ND"), pad=number("pad", pad), math=read_math(math), forward=True,
        output_mask=(False, False, False), product=read_product(product), conformance=read_conformance(conformance),
    )
    return _forward(request, x, w, bias, out, threads)


def plan(request: Request) -> ExecutablePlan:
    """What would be computed for this request: casts, contractions, paths, workspace.

    Refusals raise `ConvGradError`; what is no Request, or names no product, raises what `check` raises.
    """
    verdict = check(request)
    if not verdict.ok:
        raise ConvGradError(
            verdict.message, status=verdict.status, rule=verdict.rule_id, value=verdict.value, line=verdict.line
        )
    made = engines.prepared(make_plan(prove(request), verdict.advice))
    return ExecutablePlan(*(getattr(made, f.name) for f in fields(made)))


# ---- reading what the caller holds -------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _name_of(dtype: np.dtype[Any]) -> str:
    """NumPy puts a dtype's name together anew each time, which would take half of a tiny call."""
    return str(dtype.name)


def _operand(source: object, name: str) -> Operand:
    if type(source) is np.ndarray:
        array = source
        if not (array.flags.aligned and array.dtype.isnative):
            array = array.astype(array.dtype.newbyteorder("="))
        return Operand(array, _name_of(array.dtype), "")
    if isinstance(source, Tensor):
        return Operand(source.data, source.dtype.name, source.format if source.format != "ND" else "")
    return _operand(np.asarray(as_array(source, name)), name)


def _given(out: Sequence[object] | None) -> Buffers:
    if out is None:
        return _NOTHING_GIVEN
    try:
        buffers = arguments.listed("out", out)
    except ConvGradTypeError:
        kind = type(out).__name__
        raise ConvGradError(f"out must hold 3 buffers (or None), not {kind}", rule="out.type", value=kind) from None
    if len(buffers) != 3:
        message = f"out must hold 3 buffers (or None), got {len(buffers)}"
        raise ConvGradError(message, rule="out.length", value=len(buffers))
    names = ("out[0]", "out[1]", "out[2]")
    first, second, third = (None if b is None else _buffer(b, n) for b, n in zip(buffers, names, strict=True))
    return first, second, third


def _buffer(buffer: object, name: str) -> Operand:
    if isinstance(buffer, Tensor):
        array, dtype, layout = buffer.data, buffer.dtype.name, buffer.format if buffer.format != "ND" else ""
    elif isinstance(buffer, np.ndarray):
        refuse_masked(buffer, name)
        array, dtype, layout = buffer, _name_of(buffer.dtype), ""
    else:
        kind = type(buffer).__name__
        raise ConvGradError(f"{name} must be a NumPy array or a Tensor, not {kind}", rule="out.type", value=kind)
    if not array.flags.writeable:
        raise ConvGradError(f"{name} is read-only", rule="out.writeable", value="read-only")
    return Operand(array, dtype, layout)


def _pads(name: str, value: object, rank: int) -> tuple[PadEntry, ...]:
    def entry(v: object) -> PadEntry:
        pair = arguments.entries(name, v)
        if pair is None:
            return number(name, v)
        if len(pair) != 2:
            raise ConvGradError(f"{name}: a pair is (low, high), got {told(v)}", rule=f"{name}.type", value=v)
        return number(name, pair[0]), number(name, pair[1])

    found = arguments.entries(name, value)
    return (number(name, value),) * rank if found is None else _plainest(tuple(entry(v) for v in found), rank)


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
        names = ", ".join(products.KEYS)
        message = f"unknown product {told(value)}: use one of {names}, or a name such as Ascend910B3"
        raise ConvGradError(message, rule="product.name", value=value) from None


def read_conformance(value: object) -> str:
    """`document` or `runtime`."""
    if not isinstance(value, str) or value not in CONFORMANCES:
        raise ConvGradError(
            f"conformance must be document or runtime, got {told(value)}", rule="conformance.name", value=value
        )
    return value


def _spec(operand: Operand, default_format: str = "") -> TensorSpec:
    array = operand.array
    layout = operand.format or default_format or _FORMATS.get(array.ndim, "ND")
    return TensorSpec(array.shape, operand.dtype, layout)


# ---- planning ----------------------------------------------------------------------------------------------

_plans: dict[tuple[Any, ...], ExecutablePlan] = {}
_short: dict[tuple[Any, ...], ExecutablePlan] = {}
"""Plans of calls on plain arrays, by what can be read from them at once.

Both keys hold the attributes and their text: 1 == 1.0 in Python, but a stride of 1.0 is refused.
"""
_MOST_PLANS = 4096


def _short_key(grad_output: object, input: object, weight: object, asked: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if type(grad_output) is type(input) is type(weight) is np.ndarray:
        g, x, w = grad_output, input, weight
        return (g.shape, g.dtype, x.shape, x.dtype, w.shape, w.dtype, *_key_of(asked))
    return None


def _key_of(asked: tuple[Any, ...]) -> tuple[Any, Any]:
    """The attributes as part of a key: as text too, which tells 1 from True; lists as tuples."""
    try:
        text = repr(asked)
        return _frozen(asked) if "[" in text else asked, text
    except MemoryError:
        raise
    except Exception:  # no text: never found, and not kept
        return asked, _NO_KEY


_NO_KEY: list[Any] = []  # has no hash


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _known(key: tuple[Any, ...]) -> ExecutablePlan | None:
    try:
        return _short.get(key)
    except MemoryError:
        raise
    except Exception:  # an array among the attributes, or an object that cannot be compared
        return None


def _planned(
    operator: Operator, g: Operand, x: Operand, w: Operand, b: Operand | None,
    given: Buffers, asked: tuple[Any, ...],
) -> ExecutablePlan:
    """The plan of this call, from memory when the same call was planned before."""
    key = (
        operator, g.array.shape, g.dtype, x.array.shape, x.dtype, w.array.shape, w.dtype, g.format, x.format, w.format,
        None if b is None else (b.array.shape, b.dtype),
        None if given == _NOTHING_GIVEN else tuple(None if o is None else _spec(o) for o in given),
        *_key_of(asked),
    )
    try:
        known = _plans.get(key)
    except MemoryError:
        raise
    except Exception:  # an array among the attributes, or an object that cannot be compared: not kept
        return plan(requested(operator, g, x, w, b, given, asked))
    if known is not None:
        return known
    made = plan(requested(operator, g, x, w, b, given, asked))
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans[key] = made
    return made


def requested(
    operator: Operator, g: Operand, x: Operand, w: Operand, b: Operand | None, given: Buffers,
    asked: tuple[Any, ...],
) -> Request:
    """The request a call stands for; of the operands only shape, dtype and format count."""
    tbc = operator is Operator.TBC
    request = _tbc_request(g, x, w, b, given, asked) if tbc else _conv_request(g, x, w, given, asked)
    if request.product == "cpu":
        _refuse_other_dtypes(request, (x.dtype, w.dtype, b.dtype if b else g.dtype), given)
    return request


def _refuse_other_dtypes(request: Request, own: Sequence[str], given: Buffers) -> None:
    """A gradient has the dtype of its tensor. (Vendor products have rows of their own about this.)"""
    for i, (buffer, dtype) in enumerate(zip(given, own, strict=True)):
        if buffer is not None and buffer.dtype != dtype:
            raise ConvGradError(
                f"out[{i}] must be {dtype}, got {buffer.dtype}", rule="out.dtype", value=buffer.dtype, line=str(request)
            )


def _conv_request(g: Operand, x: Operand, w: Operand, given: Buffers, asked: tuple[Any, ...]) -> Request:
    bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask, math, product, conformance = asked
    rank = max(x.array.ndim - 2, 1)
    channels = g.array.shape[1] if g.array.ndim > 1 else 0
    sizes = (channels,) if bias_sizes is None else numbers("bias_sizes", bias_sizes, 1)
    wanted = arguments.flags("output_mask", mask)
    ordinary = (_spec(x), _spec(w), TensorSpec((channels,), g.dtype, "ND"))
    grad_input, grad_weight, grad_bias = (
        (_spec(o, "ND" if i == 2 else "") if o is not None else spec) if i < len(wanted) and wanted[i] else None
        for i, (o, spec) in enumerate(zip(given, ordinary, strict=True))
    )
    return Request(
        Operator.CONV, _spec(g), _spec(x), _spec(w), None, sizes, numbers("stride", stride, rank),
        _pads("padding", padding, rank), numbers("dilation", dilation, rank), arguments.flag("transposed", transposed),
        numbers("output_padding", output_padding, rank), number("groups", groups), wanted, read_math(math),
        grad_input, grad_weight, grad_bias,
        product=read_product(product), conformance=read_conformance(conformance),
    )


def _tbc_request(
    g: Operand, x: Operand, w: Operand, b: Operand | None, given: Buffers, asked: tuple[Any, ...]
) -> Request:
    pad, math, product, conformance = asked
    channels = g.array.shape[2] if g.array.ndim > 2 else 0
    bias = TensorSpec((channels,), g.dtype, "ND") if b is None else _spec(b, "ND")
    ordinary = (_spec(x, "ND"), _spec(w, "ND"), bias)
    outputs = [spec if o is None else _spec(o, "ND") for o, spec in zip(given, ordinary, strict=True)]
    return Request(
        Operator.TBC, _spec(g, "ND"), _spec(x, "ND"), _spec(w, "ND"), bias, math=read_math(math),
        grad_input=outputs[0], grad_weight=outputs[1], grad_bias=outputs[2], pad=number("pad", pad),
        product=read_product(product), conformance=read_conformance(conformance),
    )


# ---- running -----------------------------------------------------------------------------------------------


def _execute(
    made: ExecutablePlan, g: Operand, x: Operand, w: Operand, given: Buffers, threads: int | None
) -> Gradients:
    if given != _NOTHING_GIVEN:
        _refuse_overlap(made.problem, (g, x, w), given)
    results: dict[Result, AnyArray] = {}
    for step in made.steps:
        buffer = given[_RESULTS.index(step.result)]
        results[step.result] = _fresh(made.problem, step, (x, w)) if buffer is None else buffer.array
    fine, coarse = (g.array, x.array) if made.problem.transposed else (x.array, g.array)
    engines.run(made, fine, coarse, w.array, results, threads=arguments.threads(threads))
    return Gradients(*(_wrapped(results.get(result), made, result) for result in _RESULTS))


def _fresh(problem: ConvProblem, step: Step, operands: tuple[Operand, Operand]) -> AnyArray:
    """An unwritten result; a gradient is channels last in memory where its tensor is."""
    place = _RESULTS.index(step.result)
    r = problem.request
    spec = (r.grad_input, r.grad_weight, r.grad_bias)[place]
    assert spec is not None
    last = step.result is not Result.GRAD_BIAS and is_channels_last(operands[place].array)
    return result_memory.empty(spec.shape, rounding.storage(dtypes.find(step.stored_as)), last)


def _wrapped(array: AnyArray | None, made: Plan, result: Result) -> Any:
    """NumPy arrays as they are; dtypes NumPy has no name for come as a Tensor."""
    if array is None:
        return None
    stored_as = next(s.stored_as for s in made.steps if s.result is result)
    return Tensor(array, stored_as) if stored_as == "hifloat8" else array


def _refuse_overlap(problem: ConvProblem, operands: Sequence[Operand], given: Buffers) -> None:
    """A buffer that shares memory with an operand, with another buffer or with itself would be read half written."""
    buffers = [(i, o.array) for i, o in enumerate(given) if o is not None and o.array.size]
    names = ("grad_output", "input", "weight")
    for i, array in buffers:
        others = [(n, o.array) for n, o in zip(names, operands, strict=True)]
        others += [(f"out[{j}]", a) for j, a in buffers if j < i]
        clash = next((n for n, a in others if np.may_share_memory(array, a) and _share(array, a)), None)
        if clash is None and may_overlap_itself(array.shape, array.strides, array.itemsize):
            clash = "itself"
        if clash is not None:
            raise ConvGradError(
                f"out[{i}] shares memory with {clash}", rule="out.overlap", value=clash, line=problem.line
            )


def _share(a: AnyArray, b: AnyArray) -> bool:
    """Whether two strided arrays have an element in common; an answer too hard to find counts as yes."""
    try:
        return np.shares_memory(a, b, max_work=cast(Any, 10_000))
    except TooHardError:
        return True


def bias_values(bias: AnyArray, dtype: str, line: str) -> AnyArray:
    """The exact values of a forward pass's bias, in any number format."""
    try:
        return rounding.load(dtype, bias)
    except (TypeError, ValueError):
        known = ", ".join(row.name for row in dtypes.ALL if row.is_tensor_dtype)
        message = f"dtype of bias must be one of {known}; got {dtype}"
        raise ConvGradError(message, rule="bias.dtype", value=dtype, line=line) from None


def _forward(
    request: Request, x: Operand, w: Operand, bias: object | None, out: object | None, threads: int | None
) -> Any:
    request = with_output(request)
    made = plan(request)
    b = None
    spec = request.grad_output
    assert spec is not None
    channels = spec.shape[made.problem.data_order[1] or 0]
    if bias is not None:
        operand = _operand(bias, "bias")
        if operand.array.shape != (channels,):
            raise ConvGradError(
                f"bias must have shape ({channels},), got {operand.array.shape}", rule="bias.shape",
                value=operand.array.shape, line=made.problem.line,
            )
        b = bias_values(operand.array, operand.dtype, made.problem.line)
    if out is None:
        last = is_channels_last(x.array)
        array = result_memory.empty(spec.shape, rounding.storage(dtypes.find(spec.dtype)), last)
    else:
        buffer = _buffer(out, "out")
        array = buffer.array
        if array.shape != spec.shape or buffer.dtype != spec.dtype:
            raise ConvGradError(
                f"out must be {spec.shape} {spec.dtype}, got {array.shape} {buffer.dtype}", rule="out.shape",
                value=array.shape, line=made.problem.line,
            )
        _refuse_overlap(made.problem, (x, x, w), (buffer, None, None))
    fine, coarse = (None, x.array) if made.problem.transposed else (x.array, None)
    engines.run_forward(made, fine, coarse, w.array, b, array, threads=arguments.threads(threads))
    return Tensor(array, spec.dtype) if spec.dtype == "hifloat8" else array
