"""The functional door: arrays in, gradients out.

Every call becomes a `Request`, is checked by the same rules as the vendor calls, and runs as a `Plan`.
Plans are kept, so that a call seen before costs little more than the computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from marshal import dumps
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast, overload

import numpy as np
from numpy.exceptions import TooHardError
from numpy.typing import NDArray

from convgrad import engines
from convgrad.calls.decide import decide, decided_before, keep, remembered
from convgrad.calls.requests import (
    NOTHING_GIVEN,
    Attributes,
    Numbers,
    Padding,
    Rules,
    Specs,
    conv_backward_request,
    default_algorithm,
    forward_request,
    tbc_backward_request,
)
from convgrad.core import arguments, dtypes, rounding
from convgrad.core.arrays import AnyArray, ArrayLike, as_array, is_channels_last, may_overlap_itself, refuse_masked
from convgrad.core.determinism import TREE
from convgrad.core.plan import Plan, Result, Step
from convgrad.core.problem import ConvProblem
from convgrad.core.request import DEFAULT_CONFORMANCE, FORMAT_BY_RANK, Operator, Request, TensorSpec
from convgrad.core.status import ConvGradError, ConvGradTypeError
from convgrad.core.tensor import Tensor
from convgrad.engines import result_memory

_RESULTS = (Result.GRAD_INPUT, Result.GRAD_WEIGHT, Result.GRAD_BIAS)


GradInput = TypeVar("GradInput")
GradWeight = TypeVar("GradWeight")
GradBias = TypeVar("GradBias")

if TYPE_CHECKING:

    class Gradients(NamedTuple, Generic[GradInput, GradWeight, GradBias]):
        """As below; named tuples with type parameters exist from Python 3.11 on."""

        input: GradInput
        weight: GradWeight
        bias: GradBias
else:

    class Gradients(NamedTuple):
        """What a backward call gives; `None` where the mask says no."""

        input: Any
        weight: Any
        bias: Any


# Element types of grad_output, input and weight: each gradient has that of its tensor, the bias grad_output's.
G = TypeVar("G", bound=np.generic)
X = TypeVar("X", bound=np.generic)
W = TypeVar("W", bound=np.generic)
AllThree = tuple[Literal[True], Literal[True], Literal[True]]
MaybeArray = AnyArray | Any
"""An array, unless the mask says no (`None`) or NumPy has no name for its dtype (a `Tensor`)."""


@dataclass(frozen=True, slots=True, repr=False)
class ExecutablePlan(Plan):
    """A plan that can be run on tensors again and again."""

    def run(
        self, grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, *, out: Sequence[object] | None = None,
        threads: int | None = None,
    ) -> Gradients[MaybeArray, MaybeArray, MaybeArray]:
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

    def sample_gradients(
        self, grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, *, threads: int | None = None
    ) -> Gradients[None, AnyArray | None, AnyArray | None]:
        """The gradients of weight and bias of every sample, unrounded: what `deterministic=3` adds."""
        r = self.problem.request
        g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
        _refuse_unplanned(self, (g, x, w), (r.grad_output, r.input, r.weight), ("grad_output", "input", "weight"))
        fine, coarse = (g.array, x.array) if self.problem.transposed else (x.array, g.array)
        found = engines.sample_gradients(self, fine, coarse, w.array, threads=arguments.threads(threads))
        return Gradients(None, found.get(Result.GRAD_WEIGHT), found.get(Result.GRAD_BIAS))


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


@overload
def conv_backward(
    grad_output: NDArray[G], input: NDArray[X], weight: NDArray[W], bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: AllThree = (True, True, True),
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: None = None, threads: int | None = None,
    revision: object = "", deterministic: int = 0,
) -> Gradients[NDArray[X], NDArray[W], NDArray[G]]: ...
@overload
def conv_backward(
    grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: Sequence[bool] = (True, True, True),
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[object] | None = None, threads: int | None = None,
    revision: object = "", deterministic: int = 0,
) -> Gradients[MaybeArray, MaybeArray, MaybeArray]: ...
def conv_backward(
    grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: Sequence[bool] = (True, True, True),
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[object] | None = None, threads: int | None = None,
    revision: object = "", deterministic: int = 0,
) -> Gradients[MaybeArray, MaybeArray, MaybeArray]:
    """Gradients of a 1-D, 2-D or 3-D convolution, plain or transposed.

    `padding` takes one number, one per axis, (low, high) pairs, or four numbers in 2-D (top, bottom, left, right).
    `algorithm`: `"direct"`, or with fewer multiplications where that pays `"fast"` and `"exact-fast"` (small integers
    stay exact); `None` is what `CONVGRAD_ALGORITHM` says on the product `cpu`, else direct. `out` holds three buffers
    to write into, `None` for those to be made. `revision`: the date of the 950's host code under conformance `runtime`,
    which says where its weight gradient is a Winograd sum; the newest read by default. `deterministic`: a level, 0 to
    3; at 3 the gradients of weight and bias are a fixed tree over the samples' own, see `sample_gradients`. A refused
    call raises `ConvGradError` and writes nothing.

    >>> import numpy as np, convgrad
    >>> ones = np.ones((1, 1, 3, 3), np.float32)
    >>> g = convgrad.conv_backward(ones, ones, np.ones((1, 1, 3, 3), np.float32), padding=1)
    >>> g.bias
    array([9.], dtype=float32)
    """
    # A named tuple takes twice as long to make as a plain one: attributes are named only where a request is built.
    asked = (
        bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask, math, product,
        conformance, default_algorithm(product) if algorithm is None else algorithm, revision, deterministic,
    )
    short = _short_key(grad_output, input, weight, asked) if threads is None else None
    known = None if short is None else decided_before(short)
    if known is not None and known.plan is not None:
        quick = engines.run_quickly(known.plan, grad_output, input, weight, out)
        if quick is not None:
            return Gradients(*quick)
    return _conv_backward(grad_output, input, weight, asked, out, threads, short if known is None else None)


def _conv_backward(
    grad_output: object, input: object, weight: object, asked: tuple[Any, ...], out: Sequence[object] | None,
    threads: int | None, short: tuple[Any, ...] | None,
) -> Gradients[MaybeArray, MaybeArray, MaybeArray]:
    """The call on any tensors; its decision is kept under the short key, if one is given, where that says enough.

    A function of its own: variables that closures share cost the quick call, which needs none of them, 2 %.
    """
    g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
    given = _given(out)

    def requested(buffers: Specs) -> Request:
        attributes, rules = Attributes(*asked[:8]), Rules(*asked[8:])
        return conv_backward_request(spec_of(g), spec_of(x), spec_of(w), attributes, rules, buffers)

    buffers = _specs(given)
    decision = remembered(_key(Operator.CONV, (g, x, w), buffers, asked), lambda: requested(buffers))
    plan = decision.accepted()
    # Buffers that say nothing new leave the plan that of the call without them.
    if short is not None and (out is None or decision.request == requested(NOTHING_GIVEN)):
        keep(short, decision)
    return _execute(plan, g, x, w, given, threads)


@overload
def conv_tbc_backward(
    grad_output: NDArray[G], input: NDArray[X], weight: NDArray[W], bias: None = None, *, pad: int = 0,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: None = None, threads: int | None = None, deterministic: int = 0,
) -> Gradients[NDArray[X], NDArray[W], NDArray[G]]: ...
@overload
def conv_tbc_backward(
    grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, pad: int = 0,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[object] | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[MaybeArray, MaybeArray, MaybeArray]: ...
def conv_tbc_backward(
    grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, pad: int = 0,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[object] | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[MaybeArray, MaybeArray, MaybeArray]:
    """Gradients of the time-batch-channel convolution: tensors (T, B, C), weight (K, Cin, Cout), stride 1.

    `bias` gives only its length and dtype; by default it is one number per output channel in grad_output's dtype.
    """
    g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
    b = None if bias is None else _operand(bias, "bias")
    given = _given(out)
    buffers = _specs(given, "ND")
    chosen = default_algorithm(product) if algorithm is None else algorithm
    rules = (math, product, conformance, chosen, "", deterministic)

    def requested() -> Request:
        bias_spec = None if b is None else spec_of(b, "ND")
        return tbc_backward_request(
            spec_of(g, "ND"), spec_of(x, "ND"), spec_of(w, "ND"), bias_spec, pad, Rules(*rules), buffers
        )

    tensors = (g, x, w) if b is None else (g, x, w, b)
    plan = remembered(_key(Operator.TBC, tensors, buffers, (pad, rules)), requested).accepted()
    return _execute(plan, g, x, w, given, threads)


@overload
def convolution(
    input: NDArray[X], weight: NDArray[Any], bias: ArrayLike | None = None, *, stride: Numbers = 1,
    padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: None = None, threads: int | None = None, deterministic: int = 0,
) -> NDArray[X]: ...
@overload
def convolution(
    input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, stride: Numbers = 1, padding: Padding = 0,
    dilation: Numbers = 1, transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: AnyArray | Tensor | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> MaybeArray: ...
def convolution(
    input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, stride: Numbers = 1, padding: Padding = 0,
    dilation: Numbers = 1, transposed: bool = False, output_padding: Numbers = 0, groups: int = 1,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: AnyArray | Tensor | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> MaybeArray:
    """The forward pass: the remaining derivative of the same law. Rules of the product `cpu`, numerics of `product`."""
    x, w = _operand(input, "input"), _operand(weight, "weight")
    asked = (None, stride, padding, dilation, transposed, output_padding, groups, (False, False, False))
    chosen = default_algorithm(product) if algorithm is None else algorithm
    rules = (math, product, conformance, chosen, "", deterministic)
    plan = remembered(
        _key(Operator.CONV, (x, w), None, (asked, rules)),
        lambda: forward_request(spec_of(x), spec_of(w), Attributes(*asked), Rules(*rules)),
    ).accepted()
    return _forward(plan, x, w, bias, out, threads)


@overload
def conv_tbc(
    input: NDArray[X], weight: NDArray[Any], bias: ArrayLike | None = None, *, pad: int = 0, math: str | int = "keep",
    product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None,
    out: None = None, threads: int | None = None, deterministic: int = 0,
) -> NDArray[X]: ...
@overload
def conv_tbc(
    input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, pad: int = 0, math: str | int = "keep",
    product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None,
    out: AnyArray | Tensor | None = None, threads: int | None = None, deterministic: int = 0,
) -> MaybeArray: ...
def conv_tbc(
    input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, *, pad: int = 0, math: str | int = "keep",
    product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None,
    out: AnyArray | Tensor | None = None, threads: int | None = None, deterministic: int = 0,
) -> MaybeArray:
    """The forward pass of the time-batch-channel convolution."""
    x, w = _operand(input, "input"), _operand(weight, "weight")
    chosen = default_algorithm(product) if algorithm is None else algorithm
    rules = (math, product, conformance, chosen, "", deterministic)
    plan = remembered(
        _key(Operator.TBC, (x, w), None, (pad, rules)),
        lambda: forward_request(spec_of(x, "ND"), spec_of(w, "ND"), None, Rules(*rules), pad),
    ).accepted()
    return _forward(plan, x, w, bias, out, threads)


def sample_gradients(
    grad_output: ArrayLike, input: ArrayLike, weight: ArrayLike, bias_sizes: Sequence[int] | None = None, *,
    threads: int | None = None, **options: Any,
) -> Gradients[None, AnyArray | None, AnyArray | None]:
    """The leaves of `conv_backward(..., deterministic=3)`: gradients of weight and bias of every sample, unrounded.

    Arrays (N, *weight.shape) and (N, channels), float32 (float64 where that is computed in), whatever the dtypes of
    the tensors. `tree_sum` of them, rounded to the dtype of the gradient, is the gradient of the batch, also when they
    were computed elsewhere or in other batches. Options are those of `conv_backward`.

    >>> import numpy as np, convgrad
    >>> x, w = np.ones((5, 2, 4, 4), np.float32), np.ones((2, 2, 3, 3), np.float32)
    >>> leaves = convgrad.sample_gradients(x, x, w, padding=1)
    >>> whole = convgrad.conv_backward(x, x, w, padding=1, deterministic=3)
    >>> leaves.weight.shape, bool((convgrad.tree_sum(leaves.weight) == whole.weight).all())
    ((5, 2, 2, 3, 3), True)
    """
    g, x, w = _operand(grad_output, "grad_output"), _operand(input, "input"), _operand(weight, "weight")
    names = {*Attributes._fields, *Rules._fields} - {"bias_sizes", "deterministic"}
    for name in options:
        if name not in names:
            raise TypeError(f"sample_gradients() got an unexpected keyword argument {name!r}")
    attributes = Attributes(bias_sizes, **{k: v for k, v in options.items() if k in Attributes._fields})
    rules = Rules(**{k: v for k, v in options.items() if k in Rules._fields}, deterministic=TREE)
    if rules.algorithm is None or "algorithm" not in options:
        rules = rules._replace(algorithm=default_algorithm(rules.product))
    request = conv_backward_request(spec_of(g), spec_of(x), spec_of(w), attributes, rules)
    return plan(request).sample_gradients(grad_output, input, weight, threads=threads)


def plan(request: Request) -> ExecutablePlan:
    """What would be computed for this request: casts, contractions, paths, workspace.

    Refusals raise `ConvGradError`; what is no Request, or names no product, raises what `check` raises.
    """
    made = decide(request).accepted()
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
        if kind == Tensor.__name__:  # PyTorch's: not the word that was asked for
            kind = f"{type(buffer).__module__}.{kind}"
        raise ConvGradError(f"{name} must be a NumPy array or a Tensor, not {kind}", rule="out.type", value=kind)
    if not array.flags.writeable:
        raise ConvGradError(f"{name} is read-only", rule="out.writeable", value="read-only")
    return Operand(array, dtype, layout)


def spec_of(operand: Operand, default_format: str = "") -> TensorSpec:
    """Shape, dtype and format of an operand."""
    array = operand.array
    layout = operand.format or default_format or FORMAT_BY_RANK.get(array.ndim, "ND")
    return TensorSpec(array.shape, operand.dtype, layout)


# ---- keys of decisions -------------------------------------------------------------------------------------
#
# Keys hold the attributes and their types: 1 == 1.0 in Python, but a stride of 1.0 is refused.


def _short_key(grad_output: object, input: object, weight: object, asked: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The key of a call on plain arrays, by what can be read from them at once."""
    if type(grad_output) is type(input) is type(weight) is np.ndarray:
        g, x, w = grad_output, input, weight
        return (g.shape, g.dtype, x.shape, x.dtype, w.shape, w.dtype, *_key_of(asked))
    return None


def _key(
    operator: Operator, tensors: tuple[Operand, ...], buffers: Specs | None, asked: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The key of any call; buffers are none for a forward pass."""
    described = tuple((t.array.shape, t.dtype, t.format) for t in tensors)
    return (operator, described, buffers, *_key_of(asked))


def _key_of(asked: tuple[Any, ...]) -> tuple[Any, Any]:
    """The attributes as part of a key, with what tells 1 from True and from 1.0; lists as tuples.

    marshal writes plain numbers, names and lists with their types in a third of the time of their text. What it writes
    as a string of bytes ("s": numbers of NumPy, whose type it drops) or not at all is told by its text.
    """
    try:
        types = dumps(asked, 2)
        if b"s" not in types:
            return _frozen(asked) if b"[" in types else asked, types
    except ValueError:  # an object that has no such form
        pass
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


def _specs(given: Buffers, default_format: str = "") -> Specs:
    """What the buffers are that a caller gives."""
    if given == _NOTHING_GIVEN:
        return NOTHING_GIVEN
    dx, dw, db = given
    return (
        None if dx is None else spec_of(dx, default_format), None if dw is None else spec_of(dw, default_format),
        None if db is None else spec_of(db, "ND"),
    )


# ---- running -----------------------------------------------------------------------------------------------


def _execute(
    made: Plan, g: Operand, x: Operand, w: Operand, given: Buffers, threads: int | None
) -> Gradients[MaybeArray, MaybeArray, MaybeArray]:
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
    made: Plan, x: Operand, w: Operand, bias: object | None, out: object | None, threads: int | None
) -> Any:
    b = None
    spec = made.problem.request.grad_output
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
