"""The errors of docs/fewer_multiplications.md: direct, fast, exact-fast and PyTorch in float32 against float64.

    python benchmarks/errors.py

A cell has max |error| / max |exact| and mean |error| / mean |exact|. Data: normal; one-sided (negative ones are zero);
wide (times 2^e, e from -10 to 10); spike (normal with one value of 1e5 in grad_output for the input's gradient, in the
input for the weight's: errors of the results it is not tied to).
"""

import numpy as np
import torch

import convgrad

LAYERS = ((4, 64, 56), (4, 256, 14))  # batch, channels, side
DATA = ("normal", "one-sided", "wide", "spike")
ALGORITHMS = ("direct", "fast", "exact-fast")
SPIKE = 1e5


def drawn(rng, kind, shape):
    values = rng.standard_normal(shape)
    if kind == "one-sided":
        values = np.maximum(values, 0)
    if kind == "wide":
        values *= np.exp2(rng.integers(-10, 11, shape))
    return values.astype(np.float32)


def pytorch(g, x, w):
    tensors = [torch.from_numpy(a) for a in (g, x, w)]
    found = torch.ops.aten.convolution_backward(*tensors, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                                                [True, True, False])  # fmt: skip
    return [a.numpy() for a in found[:2]]


def cell(got, exact, counts):
    error = np.abs(got - exact)[counts]
    size = np.abs(exact)[counts]
    return f"{error.max() / size.max():.1e} {error.mean() / size.mean():.1e}"


def rows(batch, channels, side, kind):
    """The table's lines for one layer and one kind of data."""
    rng = np.random.default_rng(0)
    shape = (batch, channels, side, side)
    x, g, w = (drawn(rng, kind, s) for s in (shape, shape, (channels, channels, 3, 3)))
    for which, name in enumerate(("input", "weight")):
        operands, alone = [g, x, w], [np.zeros_like(g), x, w]
        if kind == "spike":
            place, spiked = (0, 3, side // 2, side // 2), operands[which].copy()
            spiked[place] = SPIKE
            operands[which], alone[which] = spiked, np.zeros_like(spiked)
            alone[which][place] = SPIKE
            alone[1 - which] = operands[1 - which]
        exact = pytorch(*(a.astype(np.float64) for a in operands))[which]
        counts = pytorch(*(a.astype(np.float64) for a in alone))[which] == 0
        found = [convgrad.conv_backward(*operands, padding=1, algorithm=a)[which] for a in ALGORITHMS]
        found.append(pytorch(*operands)[which])
        cells = " | ".join(cell(got, exact, counts if kind == "spike" else ...) for got in found)
        yield f"| {name} n{batch} {channels}>{channels} {side}x{side} {kind} | {cells} |"


def main():
    print("| max, mean error | direct | fast | exact-fast | PyTorch |\n|---|---|---|---|---|")
    for layer in LAYERS:
        for kind in DATA:
            print(*rows(*layer, kind), sep="\n", flush=True)


if __name__ == "__main__":
    main()
