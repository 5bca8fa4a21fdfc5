"""`Request`: what was asked, in the caller's own numbers. It may be nonsense; rules say so, not this module."""


from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from convgrad import dtypes
from convgrad.geometry import coarse_size, fine_size

PadEntry = int | tuple[int, int]
MATH_NAMES = ("keep", "allow_down", "fp16", "hf32")
CONFORMANCES = ("document", "runtime")
FORMAT_BY_RANK = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
"""The format an array without one is read in."""


class Operator(Enum):
    """The two operators of the contract."""

    CONV = "conv"
    TBC = "tbc"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What the rules may know of a tensor: never its data."""

    shape: tuple[int, ...]
    dtype: str
    format: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def empty(self) -> bool:
        return 0 in self.shape


@dataclass(frozen=True, slots=True)
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
    conformance: str = "document"

    @staticmethod
    def parse(line: str) -> Request:
        """The request a problem line stands for; a `ValueError` names the word that cannot be read."""
        from convgrad import problem_line  # the grammar knows this class

        return problem_line.parse(line)

    def __str__(self) -> str:
        from convgrad import problem_line

        return problem_line.write(self)


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
