"""A dump's entry as a call: shapes and attributes as the function takes them, by position or by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convgrad.calls.requests import Attributes, Rules, conv_backward_request
from convgrad.core.request import FORMAT_BY_RANK, Request, TensorSpec
from convgrad.core.status import ConvGradError
from convgrad.lab.cases.reading import Unreadable, shown
from convgrad.lab.dumps.reading import DumpedTensor, Entry, tensor_of, value_of

_PLAIN = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
_DEFAULTS = {"stride": 1, "padding": 0, "output_padding": 0, "groups": 1, "dilation": 1}
RESULTS = ("grad_input", "grad_weight", "grad_bias")


@dataclass(frozen=True, slots=True)
class Call:
    """One convolution's backward pass, rebuilt."""

    entry: Entry
    input: DumpedTensor
    weight: DumpedTensor
    grad_output: DumpedTensor
    results: tuple[DumpedTensor | None, DumpedTensor | None, DumpedTensor | None]
    attributes: Attributes

    def request(self, rules: Rules) -> Request:
        """The call on a product."""
        try:
            specs = [_spec(t, len(self.weight.shape)) for t in (self.grad_output, self.input, self.weight)]
            return conv_backward_request(specs[0], specs[1], specs[2], self.attributes, rules)
        except ConvGradError as error:
            raise Unreadable(self.entry.name, error.message) from None


def _spec(tensor: DumpedTensor, rank: int) -> TensorSpec:
    shape = tensor.shape if len(tensor.shape) == rank else (1, *tensor.shape)  # without a batch axis
    return TensorSpec(shape, tensor.dtype, FORMAT_BY_RANK.get(len(shape), "ND"))


def rebuild(entry: Entry) -> Call:
    """The call behind an entry; `Unreadable` says what is missing."""
    transposed = "transpose" in entry.api
    given = _arguments(entry, _TRANSPOSED if transposed else _PLAIN)
    x, w = tensor_of(given.get("input")), tensor_of(given.get("weight"))
    if x is None or w is None:
        raise Unreadable(entry.name, "its input or weight is no tensor")
    if entry.backward_input is None or entry.backward_output is None:
        raise Unreadable(entry.name, "has no backward entry: no gradient was computed")
    g = tensor_of(entry.backward_input[0]) if entry.backward_input else None
    y = tensor_of(entry.output[0]) if entry.output else None
    if g is None:
        raise Unreadable(entry.name, "its backward entry holds no gradient of the output")
    if y is not None and g.shape != y.shape:
        raise Unreadable(entry.name, f"the gradient has shape {g.shape}, the output {y.shape}")
    rank = len(w.shape) - 2
    if f"{rank}d" != entry.api[-2:] or len(x.shape) not in (rank + 1, rank + 2) or len(g.shape) != len(x.shape):
        raise Unreadable(entry.name, f"input {x.shape}, weight {w.shape} and gradient {g.shape} do not fit {entry.api}")
    dx, dw, db = (tensor_of(entry.backward_output[i]) if i < len(entry.backward_output) else None for i in range(3))
    values = {name: value_of(given[name]) if name in given else default for name, default in _DEFAULTS.items()}
    groups = values["groups"]
    if not isinstance(groups, int):
        raise Unreadable(entry.name, f"groups must be a whole number, not {shown(groups)}")
    channels = w.shape[1] * groups if transposed else w.shape[0]
    attributes = Attributes(
        (channels,), _numbers(entry, "stride", values), _padding(entry, values, w.shape[2:]),
        _numbers(entry, "dilation", values), transposed, _numbers(entry, "output_padding", values), groups,
        tuple(t is not None for t in (dx, dw, db)),
    )
    return Call(entry, x, w, g, (dx, dw, db), attributes)


def _arguments(entry: Entry, names: tuple[str, ...]) -> dict[str, Any]:
    if len(entry.arguments) > len(names):
        raise Unreadable(entry.name, f"has {len(entry.arguments)} arguments; {entry.api} takes {len(names)}")
    given = dict(zip(names, entry.arguments, strict=False))
    return {**given, **{k: v for k, v in entry.keywords.items() if k in names}}


def _numbers(entry: Entry, name: str, values: dict[str, Any]) -> int | tuple[int, ...]:
    value = values[name]
    if isinstance(value, int):
        return value
    if isinstance(value, list) and value and all(isinstance(n, int) for n in value):
        return value[0] if len(value) == 1 else tuple(value)
    raise Unreadable(entry.name, f"{name} must be whole numbers, not {shown(value)}")


def _padding(entry: Entry, values: dict[str, Any], window: tuple[int, ...]) -> Any:
    """Numbers, or `valid`, or `same`: the larger half of what is missing at the end."""
    if values["padding"] == "valid":
        return 0
    if values["padding"] != "same":
        return _numbers(entry, "padding", values)
    dilation = _numbers(entry, "dilation", values)
    each = (dilation,) * len(window) if isinstance(dilation, int) else dilation
    if len(each) != len(window):
        raise Unreadable(entry.name, f"dilation has {len(each)} entries for {len(window)} axes")
    totals = [d * (k - 1) for d, k in zip(each, window, strict=True)]
    return tuple((t // 2, t - t // 2) for t in totals)
