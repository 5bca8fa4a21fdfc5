"""Random problem lines for the engine: log-uniform sizes, every kind of channels, windows, strides and paddings."""

from __future__ import annotations

import math
import random

from convgrad.core.geometry import coarse_size, fine_size


def log_uniform(rng: random.Random, most: float) -> int:
    """Between 1 and `most`, every magnitude equally often."""
    return max(1, int(math.exp(rng.random() * math.log(max(1.0, most) + 1))))


def random_line(rng: random.Random, most: float) -> str:
    """A consistent line in fp32 of at most about `most` multiply-adds."""
    budget = 100.0 * log_uniform(rng, most / 100)
    kind = rng.choice(("depthwise", "groups", "dense"))
    widest = min(100.0, math.sqrt(budget))
    groups = rng.choice((1, 1, 1, 2, 3)) if kind == "dense" else log_uniform(rng, min(40.0, widest))
    fine_channels = {"depthwise": 1, "groups": rng.choice((2, 4))}.get(kind) or log_uniform(rng, widest)
    coarse_channels = fine_channels if kind != "dense" else log_uniform(rng, widest)
    batch, rank = log_uniform(rng, rng.choice((3, 3, 20))), rng.choice((1, 2, 2, 3))
    left = budget / (groups * fine_channels * coarse_channels * batch)
    window, stride, dilation, pad, coarse = [], [], [], [], []
    for _ in range(rank):
        taps = rng.choice((1, 2, 3, 3, 5, 7))
        window.append(taps if taps <= left else 1)
        left = max(1.0, left / window[-1])
        stride.append(rng.choice((1, 1, 1, 2, 3)))
        dilation.append(rng.choice((1, 1, 2)))
        pad.append(rng.choice((0, 0, 1, 2)))
    for _ in range(rank):
        coarse.append(log_uniform(rng, left))
        left = max(1.0, left / coarse[-1])
    axes = list(zip(window, stride, dilation, pad, pad, strict=True))
    fine = [max(1, fine_size(n, *axis)) for n, axis in zip(coarse, axes, strict=True)]
    coarse = [coarse_size(n, *axis) for n, axis in zip(fine, axes, strict=True)]
    transposed = rng.random() < 0.3
    if min(coarse) < 1 or (transposed and min(fine_size(n, *a) for n, a in zip(coarse, axes, strict=True)) < 1):
        return random_line(rng, most)
    word, sizes = ("tconv", coarse) if transposed else ("conv", fine)
    channels = (groups * coarse_channels, groups * fine_channels)
    first, second = channels if transposed else channels[::-1]
    numbers = {"i": sizes, "k": window, "s": stride, "p": pad, "d": dilation}
    told = " ".join(f"{letter}{'x'.join(map(str, values))}" for letter, values in numbers.items())
    return f"{word} n{batch} c{first}>{second} {told} g{groups} fp32"
