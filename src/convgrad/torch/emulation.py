"""`emulate`: under it, every convolution gradient PyTorch's autograd asks for is computed by convgrad.

Kernels of a dispatch key see aten.convolution_backward below autograd, on whichever thread autograd runs it.
torch.conv_tbc has no backward operator of its own, so a function mode replaces the call by a function that has one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, overload

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _pop_mode_temporarily

from convgrad.calls import requests
from convgrad.core import arguments
from convgrad.core.determinism import TREE, read_level
from convgrad.core.request import DEFAULT_CONFORMANCE, MATH_NAMES, Request
from convgrad.core.status import ConvGradError, Status
from convgrad.rules.check import Verdict
from convgrad.text import terminal
from convgrad.torch import calls, operators
from convgrad.torch.calls import Attributes, Decision, Settings
from convgrad.torch.layers import LayerNames
from convgrad.torch.memory import refuse_unreadable, unreadable

_aten = torch.ops.aten
_OPERANDS = ("grad_output", "input", "weight")


@dataclass(frozen=True, slots=True)
class Call:
    """One convolution call as it was asked, judged and computed."""

    layer: str
    """Name of the module, or of the one around it for a call of torch.nn.functional; empty when unknown."""
    verdict: Verdict
    computed_in: str
    """The dtype operands were rounded to; empty for a refused call."""
    computed_by: str
    """`convgrad`, or `pytorch` for a refused call that was let through."""
    seconds: float

    @property
    def request(self) -> Request:
        return self.verdict.request

    @property
    def line(self) -> str:
        """The problem line."""
        return self.verdict.line

    @property
    def ok(self) -> bool:
        return self.verdict.ok

    @property
    def lowered(self) -> bool:
        """Whether operands were rounded to fewer bits than their own dtype has."""
        return self.ok and self.request.input is not None and self.computed_in != self.request.input.dtype

    def as_row(self) -> dict[str, Any]:
        """What JSON shows of it."""
        v = self.verdict
        return {
            "layer": self.layer, "line": self.line, "status": int(v.status), "rule": v.rule_id, "message": v.message,
            "advice": list(v.advice), "computed_in": self.computed_in, "computed_by": self.computed_by,
            "seconds": self.seconds,
        }


class Record(Sequence[Call]):
    """The calls made under an emulation, in order; printed as a table."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @property
    def refused(self) -> list[Call]:
        return [call for call in self.calls if not call.ok]

    @property
    def lowered(self) -> list[Call]:
        return [call for call in self.calls if call.lowered]

    @overload
    def __getitem__(self, at: int) -> Call: ...
    @overload
    def __getitem__(self, at: slice) -> list[Call]: ...
    def __getitem__(self, at: int | slice) -> Call | list[Call]:
        return self.calls[at]

    def __len__(self) -> int:
        return len(self.calls)

    def clear(self) -> None:
        """Forgets the calls so far: a long training otherwise keeps them all."""
        self.calls.clear()

    def as_rows(self) -> list[dict[str, Any]]:
        """Every call as a JSON object."""
        return [call.as_row() for call in self.calls]

    def __repr__(self) -> str:
        refused = sum(not call.ok for call in self.calls)
        return f"<Record of {terminal.counted(len(self.calls), 'call')}, {refused} refused>"

    def __str__(self) -> str:
        def says(call: Call) -> str:
            return call.computed_in if call.ok else f"{int(call.verdict.status)} {call.verdict.rule_id}"

        rows = [(c.layer, c.line, says(c), c.computed_by, f"{c.seconds * 1e3:.2f}") for c in self.calls]
        return terminal.table(("layer", "call", "computed in", "by", "ms"), rows, right=(4,))


def emulate(
    product: str = "A2", math: str | int | None = None, *, allow_hf32: bool = True, on_refusal: str = "raise",
    conformance: str = DEFAULT_CONFORMANCE, algorithm: str | None = None, forward: bool = False,
    deterministic: bool | int = True, threads: int | None = None,
) -> Emulation:
    """A context in which a model's convolution gradients are those of `product`; it gives the `Record` of the calls.

    Without `math` the device's own switch decides: `allow_hf32` is on for convolutions unless turned off, which makes
    cubeMathType 1 (ALLOW_FP32_DOWN_PRECISION: HF32, on older products float16), or 0 (KEEP_DTYPE) when off.
    `on_refusal="raise"` raises `ConvGradError` from `backward()`; `"record"` lets PyTorch compute what the product
    refuses and records why. `forward=True` computes the forward pass with the same numerics too.
    `algorithm="fast"` computes 3x3 and 5x5 windows with fewer multiplications, as `convgrad.conv_backward` does.
    `deterministic` is the level, 0 to 3, or a truth value as before there were levels: results have the same bits on
    every run at each, and at 3 gradients of weight and bias are a fixed tree over samples. It counts as given, whether
    or not `torch.use_deterministic_algorithms` is on.

    >>> layer, x = torch.nn.Conv2d(3, 8, 3), torch.ones(1, 3, 8, 8)
    >>> with emulate("A2") as record:
    ...     layer(x).sum().backward()
    >>> record[0].computed_in
    'hf32'
    """
    if not isinstance(on_refusal, str) or on_refusal not in ("raise", "record"):
        message = f"on_refusal must be raise or record, got {arguments.told(on_refusal)}"
        raise ConvGradError(message, rule="on_refusal.name", value=on_refusal)
    number, level = default_math(math, allow_hf32), read_level("deterministic", deterministic)
    # Levels below the tree's are one: calls keep the lines they have without one.
    settings = Settings.of(product, number, conformance, algorithm, level if level == TREE else 0)
    forward = arguments.flag("forward", forward)
    return Emulation(settings, on_refusal == "record", forward, arguments.threads(threads))


def default_math(math: str | int | None, allow_hf32: bool) -> int:
    """The cubeMathType asked for, or the one the device's switch stands for."""
    allow_hf32 = arguments.flag("allow_hf32", allow_hf32)
    number = requests.read_math(("keep", "allow_down")[allow_hf32] if math is None else math)
    if number == MATH_NAMES.index("hf32") and not allow_hf32:
        raise ConvGradError("math='hf32' contradicts allow_hf32=False", rule="math.hf32", value=allow_hf32)
    return number


class Emulation:
    """What `emulate` gives: a context that may be entered again, and nested (the innermost one computes)."""

    def __init__(
        self, settings: Settings, let_through: bool = False, forward: bool = False, threads: int | None = None
    ) -> None:
        self.settings = settings
        self.let_through = let_through
        self.forward = forward
        self.threads = threads
        self.record = Record()
        self.layers = LayerNames()
        self._entered: list[ExitStack] = []

    def __enter__(self) -> Record:
        with ExitStack() as stack:
            stack.enter_context(self.layers)
            stack.enter_context(ReplaceConvTbc(self.layers.keep_node))
            stack.enter_context(_intercepts(self))
            self._entered.append(stack.pop_all())
        return self.record

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)

    # ---- the intercepted operators

    def conv_backward(self, func: Any, g: Tensor, x: Tensor, w: Tensor, *numbers: Any) -> Any:
        attributes = Attributes.of(numbers)
        started = perf_counter()
        decision = calls.decide_conv(self.settings, g, x, w, attributes)
        return self._answer(decision, started, (g, x, w), lambda: func(g, x, w, *numbers))

    def conv_tbc_backward(self, func: Any, g: Tensor, x: Tensor, w: Tensor, b: Tensor, pad: int) -> Any:
        started = perf_counter()
        decision = calls.decide_tbc(self.settings, g, x, w, b, pad)
        return self._answer(decision, started, (g, x, w), lambda: func(g, x, w, b, pad))

    def convolution(self, func: Any, x: Tensor, w: Tensor, bias: Tensor | None, *numbers: Any) -> Any:
        self.layers.keep((x, w, bias))
        if not self.forward:
            with _outside():
                return func(x, w, bias, *numbers)
        attributes = Attributes.of((None, *numbers, ()))
        if self._falls_back((x, w), lambda: calls.decide_forward(self.settings, x, w, attributes)):
            with _innermost_is(None):
                return func(x, w, bias, *numbers)
        return operators.convolution_op(x, w, bias, *numbers, *self._how())

    def conv_tbc(self, func: Any, x: Tensor, w: Tensor, bias: Tensor, pad: int = 0) -> Any:
        if not self.forward:
            with _outside():
                return func(x, w, bias, pad)
        if self._falls_back((x, w), lambda: calls.decide_forward(self.settings, x, w, pad)):
            with _innermost_is(None):
                return func(x, w, bias, pad)
        return operators.conv_tbc_op(x, w, bias, pad, *self._how())

    def _falls_back(self, operands: tuple[Tensor, Tensor], decide: Callable[[], Decision]) -> bool:
        """Whether PyTorch computes this forward pass: it is refused, and refusals are let through and recorded."""
        if not self.let_through:
            for name, tensor in zip(("input", "weight"), operands, strict=True):
                refuse_unreadable(tensor, name)
            if self.settings.math not in range(len(MATH_NAMES)):  # the operator takes a name, and decides by itself
                raise calls.refusal(decide().verdict, self.layers.current())
            return False
        started = perf_counter()
        verdict = _readable(decide().verdict, operands, ("input", "weight"))
        if not verdict.ok:
            self.record.calls.append(Call(self.layers.current(), verdict, "", "pytorch", perf_counter() - started))
        return not verdict.ok

    def _how(self) -> tuple[str, str, str, str, int | None, int]:
        s = self.settings
        return MATH_NAMES[s.math], s.product, s.conformance, s.algorithm, self.threads, s.deterministic

    def _answer(
        self, decision: Decision, started: float, operands: tuple[Tensor, Tensor, Tensor], own: Callable[[], Any]
    ) -> Any:
        """The gradients of an accepted call; of a refused one an error, or PyTorch's own."""
        verdict = _readable(decision.verdict, operands)
        layer = self.layers.of_backward()
        if verdict.ok and decision.plan is not None:
            found: Any = calls.gradients(decision.plan, *operands, threads=self.threads)
            computed_in, computed_by = decision.plan.operand, "convgrad"
        elif self.let_through:
            with _innermost_is(None):
                found = own()
            computed_in, computed_by = "", "pytorch"
        else:
            raise calls.refusal(verdict, layer)
        self.record.calls.append(Call(layer, verdict, computed_in, computed_by, perf_counter() - started))
        return found


def _readable(verdict: Verdict, operands: Sequence[Tensor], names: Sequence[str] = _OPERANDS) -> Verdict:
    """The verdict, or the refusal of a tensor whose elements the CPU cannot read."""
    for name, tensor in zip(names, operands, strict=True):
        reason = unreadable(tensor)
        if reason is not None:
            what, got, way_out = reason
            message = f"{name} must be a dense real tensor in CPU memory, got {what} {got}: {way_out}"
            return Verdict(verdict.request, Status.PARAM_INVALID, None, got, message)
    return verdict


# ---- where calls are seen ----------------------------------------------------------------------------------------

# A mode would take every operator of the backward pass through Python, 5 to 10 microseconds each. A dispatch key that
# nothing else in PyTorch uses, below autograd and above modes, is switched on per thread: only the operators with a
# kernel for it leave their way. Autograd passes keys and stashed objects on to its own threads.
_KEY_NAME, _STASH = "Fake", "convgrad.emulation"
_KEY: Any = torch._C._parse_dispatch_key(_KEY_NAME)


@dataclass(frozen=True, slots=True)
class _Entered:
    """An emulation that is entered on this thread, and what was around it."""

    handlers: dict[Any, Callable[..., Any]]
    outer: _Entered | None
    modes: int
    """How many dispatch modes were on; those that came later see a call first."""


def _innermost() -> _Entered | None:
    found: _Entered | None = torch._C._get_obj_in_tls(_STASH) if torch._C._is_key_in_tls(_STASH) else None
    return found


@contextmanager
def _innermost_is(entered: _Entered | None) -> Iterator[None]:
    """Calls are seen by this emulation; by none, PyTorch computes for itself."""
    before = _innermost()
    _switch(entered)
    try:
        yield
    finally:
        _switch(before)


def _outside() -> AbstractContextManager[None]:
    """Calls are seen by the emulation around the innermost one."""
    entered = _innermost()
    return _innermost_is(None if entered is None else entered.outer)


def _stash(entered: _Entered | None) -> None:
    if _STEALS:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(entered))
    torch._C._stash_obj_in_tls(_STASH, entered)


def _steals() -> bool:
    """Whether a stashed object's reference is taken without being counted, as PyTorch 2.10 does; later ones count."""
    probe = object()
    before = sys.getrefcount(probe)
    torch._C._stash_obj_in_tls(_STASH, probe)
    stolen = sys.getrefcount(probe) == before
    if stolen:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(probe))
    return stolen


_STEALS = _steals()
_stash(None)


def _switch(entered: _Entered | None) -> None:
    _stash(entered)
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, entered is not None)


@contextmanager
def _intercepts(emulation: Emulation) -> Iterator[None]:
    """Convolution calls are handed to an emulation."""
    handlers: dict[Any, Callable[..., Any]] = {
        _aten.convolution_backward.default: emulation.conv_backward,
        torch.ops.convgrad.pytorch_conv_tbc_backward.default: emulation.conv_tbc_backward,
        _aten.convolution.default: emulation.convolution,
        _aten.conv_tbc.default: emulation.conv_tbc,
    }
    with _innermost_is(_Entered(handlers, _innermost(), torch._C._len_torch_dispatch_stack())), _uncompiled():
        yield


def _uncompiled() -> AbstractContextManager[object]:
    """Compiled models run uncompiled: their graphs know no layers."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _kernel(func: Any) -> Callable[..., Any]:
    """What an operator does while its key is on."""
    def call(*args: Any) -> Any:
        if isinstance(args[0], FakeTensor) or isinstance(args[1], FakeTensor):  # of a graph being traced
            with _innermost_is(None):
                return func(*args)
        entered: _Entered = torch._C._get_obj_in_tls(_STASH)  # what switches the key on puts it there
        if torch._C._len_torch_dispatch_stack() > entered.modes:
            with _pop_mode_temporarily() as mode:
                return mode.__torch_dispatch__(func, (), args, {})
        return entered.handlers[func](func, *args)

    return call


_LIBRARIES: list[Any] = [
    torch.library.Library(name, "IMPL") for name in ("_", "aten", "convgrad")  # type: ignore[no-untyped-call]
]
_LIBRARIES[0].fallback(torch.library.fallthrough_kernel, _KEY_NAME)
for _library, _names in ((_LIBRARIES[1], ("convolution_backward", "convolution", "conv_tbc")),
                         (_LIBRARIES[2], ("pytorch_conv_tbc_backward",))):  # fmt: skip
    for _name in _names:
        _library.impl(_name, _kernel(getattr(getattr(torch.ops, _library.ns), _name).default), _KEY_NAME)


class _ConvTbc(torch.autograd.Function):
    """torch.conv_tbc whose backward is one operator that modes can see."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
        ctx.save_for_backward(input, weight, bias)
        ctx.pad = pad
        return torch.conv_tbc(input, weight, bias, pad)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, bias = ctx.saved_tensors
        found = operators.pytorch_conv_tbc_backward_op(grad_outputs[0], input, weight, bias, ctx.pad)
        return *(t if need else None for t, need in zip(found, ctx.needs_input_grad, strict=False)), None


def _conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    return _ConvTbc.apply(input, weight, bias, pad)  # type: ignore[no-untyped-call, no-any-return]


class ReplaceConvTbc(TorchFunctionMode):
    """Calls of torch.conv_tbc become the function above; `made` is told the number of each autograd node."""

    _names = (torch.conv_tbc, _aten.conv_tbc, _aten.conv_tbc.default)

    def __init__(self, made: Callable[[int], None]) -> None:
        super().__init__()
        self._made = made

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self._names:
            return func(*args, **(kwargs or {}))
        result = _conv_tbc(*args, **(kwargs or {}))
        if result.grad_fn is not None:
            self._made(result.grad_fn._sequence_nr())
        return result
