"""Requests by the thousand: consistent calls with a few things changed, so that every row is met from close by."""

from __future__ import annotations

import random
from dataclasses import replace

from convgrad.core.geometry import coarse_size, fine_size
from convgrad.core.products import KEYS
from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, TensorSpec, pad_pairs

_DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8", "int32")
_OTHER_DTYPES = ("int8", "int64", "uint16", "bool", "complex64", "complex128", "complex32", "float8_e8m0", "int4")
_FORMATS = ("ND", "NCL", "NCHW", "NCDHW", "NHWC", "NDC1HWC0", "FRACTAL_Z_3D")
_BOUNDS = (63, 255, 511, 65535, 1_000_000, 2147483646, 2**40)
"""Every bound of the documents, and our own; 2147483647 is one beside another."""
_EDGES = (-1, 0, 1, 2, 3, *sorted({bound + step for bound in _BOUNDS for step in (-1, 0, 1)} | {2147483648}))
_TENSORS = ("grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias")
_ARRAYS = ("bias_sizes", "stride", "padding", "dilation", "output_padding")


def random_request(rng: random.Random, operator: Operator, *, large: bool = False) -> Request:
    """One request: mostly consistent, with up to three changes. `large`: batch and channels at bounds too, for rules
    only (whoever plans such a call cuts it into very many pieces)."""
    request = _consistent_conv(rng, large) if operator is Operator.CONV else _consistent_tbc(rng, large)
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
        request = _changed(rng, request)
    return request


def _edge(rng: random.Random, ordinary: int, highest: int = _EDGES[-1]) -> int:
    """The ordinary value, now and then one near a limit."""
    return rng.choice([n for n in _EDGES[2:] if n <= highest]) if rng.random() < 0.07 else ordinary


def _window(rng: random.Random, ordinary: int) -> int:
    """Windows stay below 2^20: accepted requests are planned too, and an engine cuts large windows into pieces."""
    return _edge(rng, ordinary, 1_000_001)


def _common(rng: random.Random) -> dict[str, object]:
    dtype = rng.choice(("float32", "float32", "float16", "bfloat16", rng.choice(_DTYPES)))
    dtype = rng.choice(_OTHER_DTYPES) if rng.random() < 0.01 else dtype
    return {
        "dtype": dtype, "math": rng.choice((0, 1, 2, 3)), "product": rng.choice(KEYS),
        "conformance": rng.choice(("document", "runtime")),
    }  # fmt: skip


def _consistent_conv(rng: random.Random, large: bool) -> Request:
    rank, transposed = rng.choice((1, 2, 3)), rng.random() < 0.5
    groups = _edge(rng, rng.choice((1, 1, 2, 3)))
    batch = rng.choice((0, 1, 2)) if rng.random() < 0.3 else 1
    batch = _edge(rng, batch) if large else batch
    per_group, coarse_channels = rng.choice((0, 1, 2)) if rng.random() < 0.2 else 2, groups * rng.choice((1, 2))
    window = tuple(_window(rng, rng.choice((1, 2, 3))) if rng.random() > 0.03 else 0 for _ in range(rank))
    stride, dilation = (tuple(_edge(rng, rng.choice((1, 1, 2))) for _ in range(rank)) for _ in range(2))
    pads = tuple((p, p) for p in (_edge(rng, rng.choice((0, 0, 1))) for _ in range(rank)))
    padding: tuple = tuple(low for low, _ in pads)
    if rank == 2 and rng.random() < 0.2:
        padding = tuple(rng.choice((0, 1, 2)) for _ in range(4))
        pads = (padding[:2], padding[2:])
    slack = tuple(rng.randrange(min(s, 3)) if transposed else 0 for s in stride)
    coarse = tuple(rng.choice((0, 1, 2, 3)) if rng.random() < 0.1 else 2 for _ in range(rank))
    axes = list(zip(window, stride, dilation, pads, strict=True))
    fine = tuple(max(fine_size(n, k, s, d, *p, e), 0) for n, (k, s, d, p), e in zip(coarse, axes, slack, strict=True))
    if not transposed and rng.random() < 0.7:
        coarse = tuple(coarse_size(n, k, s, d, *p) for n, (k, s, d, p) in zip(fine, axes, strict=True))
    c = _common(rng)
    dtype, layout = c.pop("dtype"), FORMAT_BY_RANK[rank + 2]
    mask = tuple(rng.random() < 0.6 for _ in range(3))
    small = TensorSpec((batch, coarse_channels, *coarse), dtype, layout)
    big = TensorSpec((batch, per_group * groups, *fine), dtype, layout)
    weight = TensorSpec((coarse_channels, per_group, *window), dtype, layout)
    grad_output, input_ = (big, small) if transposed else (small, big)
    bias = TensorSpec((grad_output.shape[1],), dtype, "ND")
    keep = [m or rng.random() < 0.3 for m in mask]
    grad_weight = weight
    if dtype == "hifloat8" and rng.random() < 0.6:  # the one place where 8-bit calls are accepted
        grad_weight, c["product"], keep[2] = replace(weight, dtype="float32"), "950", mask[2]
    return Request(
        Operator.CONV, grad_output, input_, weight, None, bias.shape, stride, padding, dilation, transposed, slack,
        groups, mask, c.pop("math"), input_ if keep[0] else None, grad_weight if keep[1] else None,
        bias if keep[2] else None, forward=rng.random() < 0.03, **c,
    )  # fmt: skip


def _consistent_tbc(rng: random.Random, large: bool) -> Request:
    batch, fine, coarse = (rng.choice((0, 1, 2, 3)) if rng.random() < 0.2 else 2 for _ in range(3))
    batch, fine, coarse = (_edge(rng, n) if large else n for n in (batch, fine, coarse))
    window, pad = _window(rng, rng.choice((0, 1, 2, 3))), _edge(rng, rng.choice((0, 1, 2)))
    length = max(window - 2 * pad - 1, 0) + (_edge(rng, rng.choice((0, 1, 4))) if large else rng.choice((0, 1, 4)))
    c = _common(rng)
    dtype = c.pop("dtype")
    shapes = ((max(length + 2 * pad - window + 1, 0), batch, coarse), (length, batch, fine), (window, fine, coarse))
    grad_output, input_, weight = (TensorSpec(s, dtype, rng.choice(("ND", "NCL"))) for s in shapes)
    bias = TensorSpec((coarse,), dtype, "ND")
    return Request(
        Operator.TBC, grad_output, input_, weight, bias, grad_input=input_, grad_weight=weight, grad_bias=bias, pad=pad,
        forward=rng.random() < 0.03, **c,
    )  # fmt: skip


def _changed(rng: random.Random, r: Request) -> Request:
    kind = rng.randrange(11)
    if kind == 10:
        return _emptied(rng, r)
    if kind < 5:
        name = rng.choice(_TENSORS)
        return replace(r, **{name: _changed_tensor(rng, getattr(r, name) or r.input)})
    if kind < 8:
        name = rng.choice(_ARRAYS)
        return replace(r, **{name: _changed_array(rng, getattr(r, name), pairs=name == "padding")})
    if kind == 8:
        some = tuple(rng.random() < 0.5 for _ in range(3))
        return replace(r, output_mask=rng.choice((None, (), some[:2], (*some, True), some, some, some)))
    name = rng.choice(("math", "groups", "pad", "transposed", "product"))
    value = {"transposed": not r.transposed, "product": rng.choice(KEYS)}.get(name, rng.choice(_EDGES))
    return replace(r, **{name: value})


def _emptied(rng: random.Random, r: Request) -> Request:
    """A size of one operand 0, and that of its gradient with it."""
    name = rng.choice(("grad_output", "input", "weight", "bias"))
    old = getattr(r, name)
    if old is None or not old.shape:
        return r
    place = rng.randrange(len(old.shape))
    new = replace(old, shape=(*old.shape[:place], 0, *old.shape[place + 1 :]))
    gradient = f"grad_{name}"
    follows = {gradient: new} if getattr(r, gradient, None) == old else {}
    return replace(r, **{name: new}, **follows)


def _changed_tensor(rng: random.Random, t: TensorSpec | None) -> TensorSpec | None:
    if t is None or rng.random() < 0.15:
        return None
    what = rng.randrange(4)
    if what == 0:
        return replace(t, dtype=rng.choice(_DTYPES if rng.random() < 0.7 else _OTHER_DTYPES))
    if what == 1:
        return replace(t, format=rng.choice(_FORMATS))
    shape = list(t.shape)
    if what == 2 and shape:
        place = rng.randrange(len(shape))
        shape[place] = rng.choice((shape[place] + 1, 0, 1, *_EDGES))
        return replace(t, shape=tuple(shape))
    shape = shape[: rng.randrange(len(shape) + 1)] if rng.random() < 0.5 else [*shape, *[rng.choice((0, 1, 2))] * 2]
    shape = shape[: rng.choice((len(t.shape) + 1, len(t.shape) + 2))]
    layout = FORMAT_BY_RANK.get(len(shape), t.format) if rng.random() < 0.6 else t.format
    return replace(t, shape=tuple(shape), format=layout)


def _changed_array(rng: random.Random, values: tuple | None, pairs: bool) -> tuple | None:
    if values is None or rng.random() < 0.1:
        return None
    what, numbers = rng.randrange(4), list(values)
    if what == 0 and numbers:
        numbers[rng.randrange(len(numbers))] = rng.choice(_EDGES)
    elif what == 1:
        numbers = numbers[:-1]
    elif what == 2:
        numbers += [rng.choice((0, 1))] * rng.choice((1, 2))
    elif numbers and pairs:
        numbers[0] = (rng.choice((0, 1, 2)), 1)
    return tuple(numbers)


def beyond_the_stride(rng: random.Random) -> Request:
    """A transposed request for cpu whose output_padding may reach the stride; its sizes mostly follow."""
    while True:
        r = random_request(rng, Operator.CONV)
        attributes = (r.stride, r.dilation, r.output_padding)
        if r.transposed and r.grad_output and None not in attributes and len({*map(len, attributes)}) == 1:
            break
    dilation = tuple(rng.choice((1, 2, 4)) for _ in r.dilation)
    slack = tuple(rng.randrange(max(s, d, 1) + (rng.random() < 0.1)) for s, d in zip(r.stride, dilation, strict=True))
    r = replace(r, product="cpu", dilation=dilation, output_padding=slack)
    pairs = pad_pairs(r.padding or (), len(slack))
    if rng.random() < 0.8 and pairs is not None and r.input is not None and r.weight is not None:
        axes = zip(r.input.shape[2:], r.weight.shape[2:], r.stride, dilation, pairs, slack, strict=False)
        size = tuple(max(fine_size(n, k, s, d, *pads, e), 0) for n, k, s, d, pads, e in axes)
        r = replace(r, grad_output=replace(r.grad_output, shape=(*r.grad_output.shape[:2], *size)))
    return r
