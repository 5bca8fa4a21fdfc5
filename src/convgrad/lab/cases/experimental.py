"""Cases by the generation rules of the experimental precision document of 2026-07-15, for convolutions.

    sizes     batch, channels and image: powers of two and those less one; windows no larger than their image
    values    half of the cases uniform in [-5, 5], half normal with a mean from [-5, 5] and a deviation from [0.1, 2],
              one draw per tensor
    special   apart from these, for every dtype: an empty tensor, all sizes one, one size at its largest, and tensors
              filled with NaN, +Inf, -Inf and both infinities
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product as every

NAME = "experimental-2026-07"
_SIZES = (1, 2, 3, 4, 7, 8, 15, 16, 31, 32)
_LARGEST = 2**20
_MASKS = ("xwb", "x", "w", "b", "xw", "xb", "wb")
_SPECIAL_FILLINGS = ("constant:nan", "constant:inf", "constant:-inf", "infinities")


def lines(count: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Name, problem line without a dtype, filling: `count` ordinary cases, then the special ones.

    Every 48 ordinary cases combine the classes of the attributes once; the next 48 want other gradients, and every
    second time transposed calls of stride 2 have output padding.
    """
    rng = random.Random(f"{NAME} {seed}")
    # rank, transposed, stride, dilation, groups
    classes = list(every((1, 2, 3), (False, True), (1, 2), (1, 2), (1, 2)))
    for i in range(count):
        rank, transposed, stride, dilation, groups = classes[i % len(classes)]
        line = _line(rng, rank, transposed, stride, dilation, groups)
        turn = i // len(classes)
        slack = " op1" if turn % 2 and transposed and stride == 2 else ""
        mask = _MASKS[turn % len(_MASKS)]
        yield f"{i}", line + slack + ("" if mask == "xwb" else f" want={mask}"), _filling(rng, i)
    yield "empty batch", "conv n0 c2>2 i4x4 k3x3", "normal"
    yield "empty input channels", "conv n1 c0>2 i4x4 k3x3", "normal"
    yield "empty output channels", "conv n1 c2>0 i4x4 k3x3", "normal"
    yield "all sizes one", "conv n1 c1>1 i1x1 k1x1", "normal"
    yield "largest size", f"conv n1 c1>1 i{_LARGEST} k1", "normal"
    for i, filling in enumerate(_SPECIAL_FILLINGS):
        yield filling, f"conv n1 c{2**i}>{2**i} i{2 ** (i + 2)}x{2 ** (i + 2) - 1} k3x3 p1", filling


def _line(rng: random.Random, rank: int, transposed: bool, stride: int, dilation: int, groups: int) -> str:
    most = (32, 16, 8)[rank - 1]
    cin, cout = (rng.choice([n for n in _SIZES if n <= 16 * groups and n % groups == 0]) for _ in range(2))
    windows = [rng.choice((1, 2, 3)) for _ in range(rank)]
    sizes = []
    for window in windows:
        reach = dilation * (window - 1) + 1
        sizes.append(rng.choice([n for n in _SIZES if reach <= n <= most]))
    kind = "tconv" if transposed else "conv"
    pad = rng.choice((0, 1)) if min(windows) == 3 else 0
    return (
        f"{kind} n{rng.choice((1, 2, 3, 4))} c{cin}>{cout} i{'x'.join(map(str, sizes))} k{'x'.join(map(str, windows))} "
        f"s{stride} p{pad} d{dilation} g{groups}"
    )


def _filling(rng: random.Random, place: int) -> str:
    if place % 2 == 0:
        return "uniform:-5:5"
    return ",".join(f"normal:{rng.uniform(-5, 5):.3f}:{rng.uniform(0.1, 2):.3f}" for _ in range(3))
