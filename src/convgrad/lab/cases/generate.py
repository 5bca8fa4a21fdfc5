"""Cases from rows and seeds: layers of networks, the limits of a product's rules, random small problems.

The same words and seed give the same cases, byte for byte.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product as every

from convgrad.core.geometry import fine_size
from convgrad.core.request import DEFAULT_CONFORMANCE, MATH_NAMES, Operator, Request
from convgrad.lab.cases import experimental
from convgrad.lab.cases.case import Case, parse_fill
from convgrad.rules.check import rows_for
from convgrad.rules.vocabulary import Between
from convgrad.text.terminal import UsageError

# Layers by network: name, then the words of the problem line that shape it. Batch and dtype come from the call.
NETWORKS: dict[str, tuple[tuple[str, str], ...]] = {
    "resnet50": (
        ("stem 7x7", "conv c3>64 i224x224 k7x7 s2 p3"),
        ("layer1 1x1", "conv c64>64 i56x56 k1x1"), ("layer1 3x3", "conv c64>64 i56x56 k3x3 p1"),
        ("layer1 expand", "conv c64>256 i56x56 k1x1"), ("layer2 3x3 s2", "conv c128>128 i56x56 k3x3 s2 p1"),
        ("layer2 3x3", "conv c128>128 i28x28 k3x3 p1"), ("layer3 3x3 s2", "conv c256>256 i28x28 k3x3 s2 p1"),
        ("layer3 3x3", "conv c256>256 i14x14 k3x3 p1"), ("layer4 3x3 s2", "conv c512>512 i14x14 k3x3 s2 p1"),
        ("layer4 3x3", "conv c512>512 i7x7 k3x3 p1"), ("layer4 expand", "conv c512>2048 i7x7 k1x1"),
    ),
    "mobilenetv2": (
        ("stem", "conv c3>32 i224x224 k3x3 s2 p1"), ("depthwise 112", "conv c32>32 i112x112 k3x3 p1 g32"),
        ("depthwise 56 s2", "conv c144>144 i56x56 k3x3 s2 p1 g144"), ("project", "conv c144>24 i56x56 k1x1"),
        ("depthwise 14", "conv c384>384 i14x14 k3x3 p1 g384"), ("depthwise 7", "conv c960>960 i7x7 k3x3 p1 g960"),
    ),
    "convnext": (
        ("patchify", "conv c3>96 i224x224 k4x4 s4"), ("depthwise 56", "conv c96>96 i56x56 k7x7 p3 g96"),
        ("downsample", "conv c96>192 i56x56 k2x2 s2"), ("depthwise 14", "conv c384>384 i14x14 k7x7 p3 g384"),
    ),
    "unet": (
        ("down 3x3", "conv c64>128 i64x64 k3x3 p1"), ("bottom 3x3", "conv c256>512 i16x16 k3x3 p1"),
        ("up 2x2", "tconv c512>256 i16x16 k2x2 s2"), ("up 4x4", "tconv c128>64 i32x32 k4x4 s2 p1"),
    ),
    "audio": (
        ("whisper 1", "conv c80>384 i300 k3 p1"), ("whisper 2", "conv c384>384 i300 k3 s2 p1"),
        ("wav2vec positional", "conv c768>768 i49 k128 p64 g16"), ("wavenet d16", "conv c64>64 i400 k3 p16 d16"),
        ("hifi-gan up", "tconv c256>128 i64 k16 s8 p4"), ("fairseq tbc", "tbc c256>512 i64 k5 p2"),
    ),
    "video": (
        ("stem", "conv c3>64 i8x56x56 k3x7x7 s1x2x2 p1x3x3"), ("3x3x3", "conv c64>64 i8x28x28 k3x3x3 p1"),
        ("1x3x3", "conv c64>144 i8x28x28 k1x3x3 p0x1x1"), ("3x1x1", "conv c144>64 i8x28x28 k3x1x1 p1x0x0"),
        ("up", "tconv c64>32 i4x14x14 k2x2x2 s2"),
    ),
}  # fmt: skip

SHAPES = (*NETWORKS, "boundary", "random", experimental.NAME)


def generate(
    shapes: Sequence[str], product: str, *, dtypes: Sequence[str] = ("fp16", "bf16", "fp32"),
    math: Sequence[str] = ("keep",), fillings: Sequence[str] = ("normal",), count: int = 100, batch: int = 1,
    seed: int = 0, conformance: str = DEFAULT_CONFORMANCE,
) -> list[Case]:
    """Cases of the named shapes in every dtype, math type and filling; `count` is for the random ones."""
    cases: list[Case] = []
    for shape in shapes:
        if shape == experimental.NAME:  # its rules say what fills the tensors
            for (name, line, filling), dtype, how in every(experimental.lines(count, seed), dtypes, math):
                request = _request(f"{line} {dtype} math={how} on={product}", conformance)
                title = f"{shape} {name} {dtype}" + ("" if how == "keep" else f" {how}")
                cases.append(Case(title, request, parse_fill(filling), _seed(seed, len(cases))))
            continue
        for name, line in _lines(shape, product, conformance, count, batch, seed):
            for dtype, how, filling in every(dtypes, math, fillings):
                fixed = shape == "boundary"
                if fixed and (dtype, how, filling) != (dtypes[0], math[0], fillings[0]):
                    continue  # limits do not depend on them
                request = _request(f"{line} {dtype} math={how} on={product}", conformance)
                special = [word for word, usual in ((how, "keep"), (filling, "normal")) if word != usual]
                title = " ".join([shape, name, dtype, *special])
                cases.append(Case(title, request, parse_fill(filling), _seed(seed, len(cases))))
    return cases


def _seed(seed: int, place: int) -> int:
    return random.Random(f"{seed} {place}").getrandbits(48)


def _request(line: str, conformance: str) -> Request:
    try:
        return replace(Request.parse(line), conformance=conformance)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _lines(
    shape: str, product: str, conformance: str, count: int, batch: int, seed: int
) -> Iterator[tuple[str, str]]:
    if shape in NETWORKS:
        for name, words in NETWORKS[shape]:
            kind, rest = words.split(" ", 1)
            yield name, f"{kind} n{batch} {rest}"
    elif shape == "boundary":
        yield from boundary_lines(product, conformance)
    elif shape == "random":
        rng = random.Random(f"random {seed}")
        for i in range(count):
            yield f"{i}", random_line(rng)
    else:
        raise UsageError(f"unknown shapes {shape!r}; known: {', '.join(SHAPES)}")


# ---- limits of a product -----------------------------------------------------------------------------------

_MOST = 100_000
"""Larger limits cannot be stood next to in memory; they are left out."""


def _kind(transposed: bool) -> str:
    return "tconv" if transposed else "conv"


def _padded(v: int, transposed: bool) -> str:
    size = 2 * v + 2 if transposed else 3  # a transposed output must keep a cell when its padding is taken off
    return f"{_kind(transposed)} n1 c1>1 i{max(size, 1)} k1 p{v}"


# A line whose fact has the value v. Facts about height and width are said in 1-D, where that is width.
_MAKERS: dict[str, Callable[[int, bool], str]] = {
    "window.hw": lambda v, t: f"{_kind(t)} n1 c1>1 i{max(v, 1)} k{v}",
    "stride": lambda v, t: f"{_kind(t)} n1 c1>1 i{1 if t else max(v + 1, 1)} k1 s{v}",
    "stride.hw": lambda v, t: f"{_kind(t)} n1 c1>1 i1x1x{1 if t else max(v + 1, 1)} k1x1x1 s1x1x{v}",
    "stride.d": lambda v, t: f"{_kind(t)} n1 c1>1 i{1 if t else max(v + 1, 1)}x1x1 k1x1x1 s{v}x1x1",
    "padding": _padded,
    "padding.hw": _padded,
    "dilation": lambda v, t: f"{_kind(t)} n1 c1>1 i{2 if t else max(v + 1, 1)} k2 d{v}",
    "dilation.hw": lambda v, t: f"{_kind(t)} n1 c1>1 i{2 if t else max(v + 1, 1)} k2 d{v}",
    "groups": lambda v, t: f"{_kind(t)} n1 c{max(v, 1)}>{max(v, 1)} i1 k1 g{v}",
    "tbc.window": lambda v, t: f"tbc n1 c1>1 i{max(v, 1)} k{v}",
    "pad": lambda v, t: f"tbc n1 c1>1 i3 k3 p{v}",
}


def boundary_lines(product: str, conformance: str) -> Iterator[tuple[str, str]]:
    """For every range among the product's rules: the values at its ends and one step beyond."""
    seen = set()
    for operator in Operator:
        for rule in rows_for(operator, product, conformance):
            maker = _MAKERS.get(rule.fact)
            if maker is None or not isinstance(rule.must, Between):
                continue
            transposed = (True,) in [wanted for fact, wanted in rule.when if fact == "transposed"]
            for value in _ends(rule.must):
                line = maker(value, transposed)
                if line not in seen:
                    seen.add(line)
                    yield f"{rule.id} {value}", line


def _ends(must: Between) -> Iterator[int]:
    if must.low is not None:
        yield from (must.low - 1, must.low)
    if must.high is not None and must.high <= _MOST:
        yield from (must.high, must.high + 1)


# ---- random problems ---------------------------------------------------------------------------------------


def random_line(rng: random.Random) -> str:
    """A small consistent problem: any rank, stride, padding, dilation, groups, plain, transposed or TBC."""
    kind = rng.choice(("conv", "conv", "conv", "tconv", "tbc"))
    rank = 1 if kind == "tbc" else rng.choice((1, 2, 2, 3))
    groups = 1 if kind == "tbc" else rng.choice((1, 1, 1, 2, 3))
    cin, cout = groups * rng.randint(1, 6), groups * rng.randint(1, 6)
    axes = [_axis(rng, kind, 4 if rank == 3 else 8) for _ in range(rank)]
    size, window, stride, dilation, pad = ("x".join(map(str, column)) for column in zip(*axes, strict=True))
    words = [kind, f"n{rng.randint(1, 3)}", f"c{cin}>{cout}", f"i{size}", f"k{window}", f"p{pad}"]
    if kind != "tbc":
        words += [f"s{stride}", f"d{dilation}", f"g{groups}"]
        words.append("want=" + rng.choice(("xwb", "xwb", "xw", "x", "w", "b")))
    return " ".join(words)


def _axis(rng: random.Random, kind: str, most: int) -> tuple[int, int, int, int, int]:
    """Size, window, stride, dilation, padding of one axis that fits."""
    window, stride, dilation = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2)
    if kind == "tbc":
        stride = dilation = 1
    reach = dilation * (window - 1) + 1
    pad = rng.randint(0, reach // 2)
    if kind == "tconv":
        size = rng.randint(1, most)
        while fine_size(size, window, stride, dilation, pad, pad) < 1:
            size += 1
        return size, window, stride, dilation, pad
    return rng.randint(max(1, reach - 2 * pad), reach + most), window, stride, dilation, pad


def check_math(words: Sequence[str]) -> None:
    """Math types by name."""
    for word in words:
        if word not in MATH_NAMES:
            raise UsageError(f"unknown math {word!r}; known: {', '.join(MATH_NAMES)}")
