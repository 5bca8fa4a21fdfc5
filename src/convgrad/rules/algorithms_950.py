"""Which way the 950's runtime goes for each gradient: matmul, a rewrite to 1x1, Winograd, or the direct kernel.

Read in the operators' published host code, as it stood on the date of a revision; marked where it is inferred. 1-D and
2-D calls are seen as 3-D. A transposed call has the roles of input and gradOutput exchanged (inferred for Winograd):
below, the fine tensor is the feature map, the coarse one the gradient. Numbers change on one way only, Winograd; the
others are the same products in another order of float32 sums, so that only their label is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

import numpy as np

from convgrad.core import dtypes, precision
from convgrad.core.geometry import Axis
from convgrad.core.problem import ConvProblem, prove
from convgrad.core.request import Operator, Request
from convgrad.core.ways import Asked, Way
from convgrad.rules.check import check

NEWEST = date(2026, 8, 22)
"""The newest revision read."""
_WINOGRAD_SINCE, _VALID_SHARE_SINCE, _MATMUL_1X1_WEIGHT_SINCE = date(2026, 7, 25), date(2026, 8, 6), date(2026, 8, 14)
_ODD_CHANNELS_FIXED = date(2026, 8, 20)
_LARGEST_MATMUL = 128 * 2**20
_EIGHT_BITS = ("hifloat8", "float8_e4m3fn")
_CHANNELS_FIRST = ("NCL", "NCHW", "NCDHW")
_HF32_MATHS = (1, 3)
_FLOAT16_MATH = 2


def known(request: Request) -> bool:
    """Whether ways are known of a call: gradients on product 950 under conformance runtime."""
    return request.product == "950" and request.conformance == "runtime" and not request.forward


def revision_of(request: Request) -> date:
    """The revision a request names, or the newest."""
    return date.fromisoformat(request.revision) if request.revision else NEWEST


def ways(request: Request, revision: date | None = None) -> tuple[Way, ...]:
    """The way of every gradient wanted; `ValueError` where the rules refuse the call or it is not the 950's runtime."""
    if not known(request):
        raise ValueError("ways are known of product 950 under conformance runtime only; add `on=950 as=runtime`")
    verdict = check(request)
    if not verdict.ok:
        raise ValueError(verdict.message)
    return ways_of(prove(request), revision or revision_of(request))


def ways_of(p: ConvProblem, revision: date) -> tuple[Way, ...]:
    """The way of every gradient wanted of an accepted call."""
    wants_input, wants_weight, wants_bias = p.wants
    found = []
    if wants_input:
        found.append(_first(p, "grad_input", _input_ways(p), revision))
    if wants_weight:
        found.append(_first(p, "grad_weight", _weight_ways(p, revision), revision))
    if wants_bias:
        found.append(Way("grad_bias", "reduce-sum", ()))
    return tuple(found)


Conditions = Callable[[], Iterator[Asked]]


def _first(p: ConvProblem, result: str, paths: list[tuple[str, Conditions]], revision: date) -> Way:
    """The first path whose conditions all hold; conditions are asked in order, the first no ends it."""
    looked = []
    for path, conditions in paths:
        asked = []
        for condition in conditions():
            asked.append(condition)
            if not condition.holds:
                break
        looked.append((path, tuple(asked)))
        if all(a.holds for a in asked):
            inferred = p.transposed and path == "winograd"
            return Way(result, path, tuple(looked), inferred, _note(p, path, revision))
    return Way(result, "direct", tuple(looked))


def _note(p: ConvProblem, path: str, revision: date) -> str:
    g = p.geometry
    if path == "winograd" and revision < _ODD_CHANNELS_FIXED and (g.fine_channels % 8 or g.coarse_channels % 8):
        return "results of this revision are wrong where a channel count is no multiple of 8 (corrected 2026-08-20)"
    return ""


# ---- what the predicates look at -----------------------------------------------------------------------------


def _channels_first(p: ConvProblem) -> Asked:
    r = p.request
    found = [s.format for s in (r.grad_output, r.input, r.weight) if s is not None]
    holds = r.operator is Operator.TBC or all(f in _CHANNELS_FIRST for f in found)
    return Asked("channels first", ", ".join(dict.fromkeys(found)), holds)


def _dtypes(p: ConvProblem) -> list[str]:
    r = p.request
    return [s.dtype for s in (r.grad_output, r.input, r.weight) if s is not None]


def _no_eight_bits(p: ConvProblem) -> Asked:
    found = _dtypes(p)
    return Asked("no 8-bit operand", ", ".join(dict.fromkeys(found)), not any(d in _EIGHT_BITS for d in found))


def _every_axis(p: ConvProblem, step: str, of: Callable[[Axis], bool], told: Callable[[Axis], object]) -> Asked:
    axes = p.geometry.axes
    return Asked(step, "x".join(str(told(a)) for a in axes), all(of(a) for a in axes))


def _plain(p: ConvProblem) -> Asked:
    return Asked("not transposed", "transposed" if p.transposed else "plain", not p.transposed)


def _one_group(p: ConvProblem) -> Asked:
    return Asked("groups 1", str(p.geometry.groups), p.geometry.groups == 1)


def _no_padding(p: ConvProblem) -> Asked:
    slack = p.request.output_padding or ()
    asked = _every_axis(p, "padding and output padding 0", lambda a: not a.pad_low and not a.pad_high,
                        lambda a: f"{a.pad_low}:{a.pad_high}")  # fmt: skip
    return Asked(asked.step, asked.found, asked.holds and not any(slack))


def _dense(p: ConvProblem) -> Asked:
    return _every_axis(p, "dilation 1", lambda a: a.dilation == 1, lambda a: a.dilation)


def _stride_one(p: ConvProblem) -> Asked:
    return _every_axis(p, "stride 1", lambda a: a.stride == 1, lambda a: a.stride)


def _window_one(p: ConvProblem) -> Asked:
    return _every_axis(p, "window 1", lambda a: a.window == 1, lambda a: a.window)


def _alone(p: ConvProblem) -> Asked:
    return Asked("batch 1", str(p.geometry.batch), p.geometry.batch == 1)


def _fits(p: ConvProblem) -> Asked:
    g = p.geometry
    cells = 1
    for axis in g.axes:
        cells *= axis.fine
    ci, co = g.fine_channels, g.coarse_channels
    size = (co * ci + ci * cells + cells * co) * dtypes.find(_dtypes(p)[0]).bytes
    return Asked("matrices of at most 128 MiB", f"{size:,} bytes", size <= _LARGEST_MATMUL)


# ---- the ways, in the order asked ------------------------------------------------------------------------------


def _matmul_1d(p: ConvProblem) -> Iterator[Asked]:
    yield Asked("1-D", f"{p.rank}-D", p.rank == 1 and p.request.operator is Operator.CONV)
    yield from (_channels_first(p), _no_eight_bits(p), _plain(p), _one_group(p), _no_padding(p), _dense(p))
    axis = p.geometry.axes[2]
    yield Asked("length = window", f"{axis.fine}, {axis.window}", axis.fine == axis.window)
    yield Asked("gradOutput not empty", str(axis.coarse), axis.coarse != 0)


def _matmul_kernel(p: ConvProblem) -> Iterator[Asked]:
    yield from (_channels_first(p), _no_eight_bits(p), _no_padding(p), _dense(p), _plain(p), _one_group(p))
    yield _every_axis(p, "window = input, output 1", lambda a: a.window == a.fine and a.coarse == 1,
                      lambda a: f"{a.window}/{a.fine}/{a.coarse}")  # fmt: skip


def _matmul_stride(p: ConvProblem) -> Iterator[Asked]:
    yield from (_channels_first(p), _no_eight_bits(p), _no_padding(p), _dense(p), _plain(p), _one_group(p))
    yield _every_axis(p, "window = stride, input = window*output",
                      lambda a: a.window == a.stride and a.fine == a.window * a.coarse,
                      lambda a: f"{a.window}/{a.stride}/{a.fine}/{a.coarse}")  # fmt: skip
    _, h, w = p.geometry.axes
    yield Asked("strides differ or exceed 2", f"{h.stride}x{w.stride}", h.stride != w.stride or h.stride > 2)


def _matmul_1x1_input(p: ConvProblem) -> Iterator[Asked]:
    yield from (_plain(p), _no_eight_bits(p), _channels_first(p), _one_group(p), _no_padding(p), _dense(p))
    yield from (_stride_one(p), _window_one(p), _alone(p))
    sizes = [a.fine for a in p.geometry.axes]
    yield Asked("more than one cell", "x".join(map(str, sizes)), sizes != [1, 1, 1])
    yield _fits(p)


def _matmul_1x1_weight(p: ConvProblem, revision: date) -> Iterator[Asked]:
    yield Asked(f"since {_MATMUL_1X1_WEIGHT_SINCE}", str(revision), revision >= _MATMUL_1X1_WEIGHT_SINCE)
    yield from (_plain(p), _window_one(p), _alone(p), _one_group(p), _stride_one(p), _no_padding(p), _dense(p))
    yield _fits(p)


def _as_1x1(p: ConvProblem) -> Iterator[Asked]:
    yield from (_plain(p), _no_eight_bits(p), _channels_first(p), _one_group(p), _no_padding(p), _dense(p))
    yield _every_axis(p, "stride = window, output*window = input",
                      lambda a: a.stride == a.window and a.coarse * a.window == a.fine,
                      lambda a: f"{a.stride}/{a.window}/{a.coarse}/{a.fine}")  # fmt: skip
    _, h, w = p.geometry.axes
    yield Asked("windows of at least 8", f"{h.window}x{w.window}", h.window >= 8 and w.window >= 8)


def _winograd(p: ConvProblem, revision: date) -> Iterator[Asked]:
    r, g = p.request, p.geometry
    d, h, w = g.axes
    yield Asked(f"since {_WINOGRAD_SINCE}", str(revision), revision >= _WINOGRAD_SINCE)
    yield _channels_first(p)
    result = "" if r.grad_weight is None else r.grad_weight.dtype
    promoted = precision.promote(*_dtypes(p))
    used = [*_dtypes(p), result]
    if promoted == "float32" and r.math == _FLOAT16_MATH:
        used.append("float16 by math 2")  # operands are cast before the kernel sees them
    yield Asked("all float32", ", ".join(dict.fromkeys(used)), all(name == "float32" for name in used))
    hf32 = promoted == "float32" and r.math in _HF32_MATHS
    yield Asked("not HF32", f"math {r.math}", not hf32)
    flat = d == Axis(1, 1, 1, 1, 1, 0, 0)
    yield Asked("depth 1", f"{d.fine}/{d.coarse}/{d.window}", flat)
    even = all(a.dilation == a.stride == 1 and a.pad_low == a.pad_high for a in (h, w)) and g.groups == 1
    pads = f"{h.pad_low}:{h.pad_high}, {w.pad_low}:{w.pad_high}"
    said = f"stride {h.stride}x{w.stride}, dilation {h.dilation}x{w.dilation}, groups {g.groups}, padding {pads}"
    yield Asked("stride, dilation, groups 1; even padding", said, even)
    yield Asked("window 3x3", f"{h.window}x{w.window}", h.window == w.window == 3)
    yield Asked("padding at most 8", f"{h.pad_low}x{w.pad_low}", h.pad_low <= 8 and w.pad_low <= 8)
    tiles = -(-h.coarse // 2) * -(-w.coarse // 2)
    yield Asked("at most 512000 tiles", f"{tiles * g.batch:,}", tiles * g.batch <= 512_000)
    blocks = (g.coarse_channels // 64) * (g.fine_channels // 64)
    yield Asked("at least 16 blocks of 64x64 channels", str(blocks), blocks >= 16)
    if revision >= _VALID_SHARE_SINCE:
        yield Asked("input of at least 3x3", f"{h.fine}x{w.fine}", h.fine >= 3 and w.fine >= 3)
        valid = -(-(h.fine - 2) // 2) * -(-(w.fine - 2) // 2)
        share = np.float32(valid) / np.float32(max(tiles, 1))
        yield Asked("half of the tiles valid", f"{valid} of {tiles}", bool(share >= np.float32(0.5)))


def _input_ways(p: ConvProblem) -> list[tuple[str, Conditions]]:
    return [
        ("matmul-1d", lambda: _matmul_1d(p)), ("matmul-kernel", lambda: _matmul_kernel(p)),
        ("matmul-stride", lambda: _matmul_stride(p)), ("matmul-1x1", lambda: _matmul_1x1_input(p)),
    ]


def _weight_ways(p: ConvProblem, revision: date) -> list[tuple[str, Conditions]]:
    return [
        ("matmul-1d", lambda: _matmul_1d(p)), ("matmul-kernel", lambda: _matmul_kernel(p)),
        ("matmul-1x1", lambda: _matmul_1x1_weight(p, revision)), ("dw-as-1x1", lambda: _as_1x1(p)),
        ("winograd", lambda: _winograd(p, revision)),
    ]
