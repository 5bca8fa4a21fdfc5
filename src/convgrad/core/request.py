"""`Request`: what was asked, in the caller's own numbers. It may be nonsense; rules say so, not this module."""


from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from typing import Any

from convgrad.core import arguments, dtypes
from convgrad.core.determinism import read_level
from convgrad.core.geometry import coarse_size, fine_size
from convgrad.core.products import Product
from convgrad.core.status import ConvGradError

PadEntry = int | tuple[int, int]
MATH_NAMES = ("keep", "allow_down", "fp16", "hf32")
CONFORMANCES = ("document", "runtime")
DEFAULT_CONFORMANCE = CONFORMANCES[0]
ALGORITHMS = ("direct", "fast", "exact-fast")
"""How multiplications may be saved; the numbers of the engine's cg_algorithm."""
DEFAULT_ALGORITHM = ALGORITHMS[0]
FORMAT_BY_RANK = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
"""The format an array without one is read in."""
MOST_DIGITS = 39
"""Of a number in a problem line: products of two numbers of 64 bits have 38."""
TOO_LARGE = 10**MOST_DIGITS
_PLAIN_WORDS = frozenset((*FORMAT_BY_RANK.values(), "ND", "NHWC", *(row.name for row in dtypes.ALL)))


class Operator(Enum):
    """The two operators of the contract."""

    CONV = ("conv", "aclnnConvolutionBackward", True)
    TBC = ("tbc", "aclnnConvTbcBackward", False)

    function: str
    """The vendor's name for its gradients."""
    has_mask: bool
    """Whether the caller chooses the gradients; all three are computed otherwise."""

    def __new__(cls, word: str, function: str, has_mask: bool) -> Operator:
        """The value is the word a problem line begins with."""
        row = object.__new__(cls)
        row._value_, row.function, row.has_mask = word, function, has_mask
        return row


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What the rules may know of a tensor: never its data."""

    shape: tuple[int, ...]
    dtype: str
    format: str

    def __post_init__(self) -> None:
        for n in self.shape if type(self.shape) is tuple else (None,):
            if type(n) is not int or not -TOO_LARGE < n < TOO_LARGE:
                plain = tuple(_sayable("shape", n) for n in arguments.listed("shape", self.shape))
                object.__setattr__(self, "shape", plain)
                break
        for name, value in (("dtype", self.dtype), ("format", self.format)):
            if not (isinstance(value, str) and value in _PLAIN_WORDS):
                arguments.word(name, value)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def empty(self) -> bool:
        return 0 in self.shape


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One call of an operator, as it was made. `None` is a null pointer."""

    operator: Operator
    grad_output: TensorSpec | None
    input: TensorSpec | None
    weight: TensorSpec | None
    bias: TensorSpec | None = None
    bias_sizes: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    padding: tuple[PadEntry, ...] | None = None
    dilation: tuple[int, ...] | None = None
    transposed: bool = False
    output_padding: tuple[int, ...] | None = None
    groups: int = 1
    output_mask: tuple[bool, ...] | None = (True, True, True)
    math: int = 0
    grad_input: TensorSpec | None = None
    grad_weight: TensorSpec | None = None
    grad_bias: TensorSpec | None = None
    pad: int = 0
    forward: bool = False
    product: str = "cpu"
    conformance: str = DEFAULT_CONFORMANCE
    algorithm: str = DEFAULT_ALGORITHM
    revision: str = ""
    """The date of the runtime's host code, YYYY-MM-DD; empty is the newest read. Counts under conformance `runtime`."""
    deterministic: int = 0
    """The level, 0 to 3: core/determinism.py says what each promises."""

    def __post_init__(self) -> None:
        for name, read in _READERS:
            value = getattr(self, name)
            if value is not None or name in _NEVER_NULL:
                plain = read(name, value)
                if plain is not value:
                    object.__setattr__(self, name, plain)

    @staticmethod
    def parse(line: str) -> Request:
        """The request a problem line stands for; a `ValueError` names the word that cannot be read."""
        from convgrad.core import problem_line  # the grammar knows this class

        return problem_line.parse(line)

    def __str__(self) -> str:
        from convgrad.core import problem_line

        return problem_line.write(self)

    def __repr__(self) -> str:
        return f"Request.parse({str(self)!r})"


def _sayable(name: str, value: object) -> int:
    """A whole number that a problem line can say."""
    if type(value) is int and -TOO_LARGE < value < TOO_LARGE:
        return value
    if isinstance(value, int) and not -TOO_LARGE < value < TOO_LARGE:
        message = f"{name} must have at most {MOST_DIGITS} digits, got {arguments.told(value)}"
        raise ConvGradError(message, rule=f"{name}.range", value=value)
    return arguments.number(name, value)


def _read_operator(name: str, value: object) -> Operator:
    if not isinstance(value, Operator):
        raise arguments.wrong_type(name, "an Operator", value)
    return value


def _read_tensor(name: str, value: object) -> TensorSpec:
    if not isinstance(value, TensorSpec):
        raise arguments.wrong_type(name, "a TensorSpec", value)
    return value


def _read_numbers(name: str, value: Any) -> tuple[int, ...]:
    if type(value) is tuple and all(type(n) is int and -TOO_LARGE < n < TOO_LARGE for n in value):
        return value
    return tuple(_sayable(name, n) for n in arguments.listed(name, value))


def _read_pads(name: str, value: Any) -> tuple[PadEntry, ...]:
    if type(value) is tuple and all(type(n) is int and -TOO_LARGE < n < TOO_LARGE for n in value):
        return value
    return tuple(_read_pad(name, p) for p in arguments.listed(name, value))


def _read_pad(name: str, value: object) -> PadEntry:
    pair = arguments.entries(name, value)
    if pair is None:
        return _sayable(name, value)
    if len(pair) != 2:
        raise ConvGradError(f"{name}: a pair is (low, high), got {arguments.told(value)}", rule=f"{name}.type")
    return _sayable(name, pair[0]), _sayable(name, pair[1])


def _read_mask(name: str, value: Any) -> tuple[bool, ...]:
    return value if type(value) is tuple and all(type(m) is bool for m in value) else arguments.flags(name, value)


def _read_product(name: str, value: object) -> object:
    return value if isinstance(value, Product) else arguments.text(name, value)


def read_algorithm(name: str, value: object) -> str:
    """One of the known algorithms."""
    if isinstance(value, str) and value in ALGORITHMS:
        return value
    message = f"{name} must be one of {', '.join(ALGORITHMS)}, got {arguments.told(value)}"
    raise ConvGradError(message, rule="algorithm.name", value=value)


def read_revision(name: str, value: object) -> str:
    """A date, or nothing."""
    if isinstance(value, date):
        return value.strftime("%Y-%m-%d")
    if isinstance(value, str):
        if not value:
            return ""
        try:
            if date.fromisoformat(value).isoformat() == value:
                return value
        except ValueError:
            pass
    message = f"{name} must be a date YYYY-MM-DD, got {arguments.told(value)}"
    raise ConvGradError(message, rule="revision.date", value=value)


_READERS: tuple[tuple[str, Any], ...] = (
    ("operator", _read_operator),
    *((name, _read_tensor) for name in (
        "grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias",
    )),
    *((name, _read_numbers) for name in ("bias_sizes", "stride", "dilation", "output_padding")),
    ("padding", _read_pads), ("transposed", arguments.flag), ("groups", _sayable), ("output_mask", _read_mask),
    ("math", _sayable), ("pad", _sayable), ("forward", arguments.flag), ("product", _read_product),
    ("conformance", arguments.text), ("algorithm", read_algorithm),
    ("revision", read_revision), ("deterministic", read_level),
)  # fmt: skip
"""How each field is read; of what most calls give, each gives back the very object."""
_NEVER_NULL = frozenset((
    "operator", "transposed", "groups", "math", "pad", "forward", "product", "conformance", "algorithm",
    "revision", "deterministic",
))  # fmt: skip


def pad_pairs(padding: tuple[PadEntry, ...], rank: int) -> tuple[tuple[int, int], ...] | None:
    """(low, high) per axis; four numbers in 2-D are top, bottom, left, right. `None` if the length fits nothing."""
    if rank == 2 and len(padding) == 4 and all(isinstance(p, int) for p in padding):
        top, bottom, left, right = padding
        return ((top, bottom), (left, right))  # type: ignore[return-value]
    if len(padding) != rank:
        return None
    return tuple(p if isinstance(p, tuple) else (p, p) for p in padding)


def dtype_name(text: str) -> str:
    """Canonical name of a dtype; words the table does not know (int32 …) stay as they are, for rules to refuse."""
    try:
        return dtypes.find(text).name
    except ValueError:
        return text


def with_output(request: Request) -> Request:
    """A forward request together with the output its own numbers give (the rules judge whether they fit)."""
    x, w = request.input, request.weight
    assert x is not None and w is not None
    if request.operator is Operator.TBC:
        if x.rank != 3 or w.rank != 3:
            return replace(request, grad_output=x)
        length = coarse_size(x.shape[0], w.shape[0], pad_low=request.pad, pad_high=request.pad)
        return replace(request, grad_output=TensorSpec((length, x.shape[1], w.shape[2]), x.dtype, x.format))
    rank = x.rank - 2
    stride, dilation, slack = request.stride or (), request.dilation or (), request.output_padding or ()
    pairs = pad_pairs(request.padding or (), rank)
    regular = x.rank == w.rank and 1 <= rank <= 3 and len(stride) == len(dilation) == len(slack) == rank
    if not regular or pairs is None or min(stride) < 1:
        return replace(request, grad_output=x)
    lows, highs = zip(*pairs, strict=True)
    if request.transposed:
        out = tuple(map(fine_size, x.shape[2:], w.shape[2:], stride, dilation, lows, highs, slack))
        channels = w.shape[1] * request.groups
    else:
        out = tuple(map(coarse_size, x.shape[2:], w.shape[2:], stride, dilation, lows, highs))
        channels = w.shape[0]
    shape = (x.shape[0], channels, *(max(n, 0) for n in out))
    return replace(request, grad_output=TensorSpec(shape, x.dtype, x.format))
