"""Trains a small network for 200 steps in float32, HF32 and FP16, and draws the three loss curves.

    python examples/train_under_emulation.py curves.svg
    python examples/train_under_emulation.py curves.svg algorithms

Same initial weights, same batches; only the numerics of the convolutions differ: float32 as it is, HF32 as on A2
(11 fraction bits), and FP16 as on an older product, which lowers float32 convolutions without asking. Or the algorithm:
direct, and with fewer multiplications (the network then has a layer wide enough for them).
"""

import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from convgrad.torch import emulate

STEPS = 200
MODES = {  # what is compared with the first: product, cubeMathType, algorithm, colour
    "numerics": {
        "float32": ("cpu", "keep", "direct", "#2b62c4"),
        "HF32 (A2)": ("A2", "hf32", "direct", "#2a9d8f"),
        "FP16 (910)": ("910", "allow_down", "direct", "#d97b2b"),
    },
    "algorithms": {
        "direct": ("cpu", "keep", "direct", "#2b62c4"),
        "fast": ("cpu", "keep", "fast", "#2a9d8f"),
        "exact-fast": ("cpu", "keep", "exact-fast", "#d97b2b"),
    },
}


class Network(nn.Module):
    """Plain, strided, depthwise and transposed convolutions."""

    def __init__(self, wide):
        super().__init__()
        self.enter = nn.Conv2d(1, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(32, 32, 3, padding=1) if wide else nn.Identity()
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = functional.relu(self.enter(x))
        x = functional.relu(self.depthwise(functional.relu(self.middle(self.down(x)))))
        return self.head(functional.relu(self.up(x)).amax((2, 3)))


def batch(generator, size=16):
    """Noisy 16x16 images of a horizontal, vertical, falling or rising bar."""
    y, x = torch.arange(16.0).reshape(16, 1) - 7.5, torch.arange(16.0) - 7.5
    kinds = torch.randint(0, 4, (size,), generator=generator)
    bars = torch.stack([y + 0 * x, x + 0 * y, y - x, y + x])[kinds]
    image = ((bars - torch.randint(-4, 5, (size, 1, 1), generator=generator)).abs() < 1.5).float()
    return (image + 0.7 * torch.randn(image.shape, generator=generator)).unsqueeze(1), kinds


def train(product, math_type, algorithm, wide):
    """The loss of every step."""
    torch.manual_seed(0)
    network, generator = Network(wide), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    losses = []
    with emulate(product, math_type, algorithm=algorithm, forward=True):
        for _ in range(STEPS):
            images, kinds = batch(generator)
            optimizer.zero_grad()
            loss = functional.cross_entropy(network(images), kinds)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


# ---- the drawing -------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT = 760, 64, 16


def panel(title, curves, modes, top, height, low, high):
    """Curves over the steps on a logarithmic axis of whole decades."""
    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / (STEPS - 1)

    def y(value):
        share = (math.log10(min(max(value, 10.0**low), 10.0**high)) - low) / (high - low)
        return top + height * (1 - share)

    parts = [f'<text x="{LEFT}" y="{top - 10}" class="title">{title}</text>']
    for decade in range(low, high + 1):
        line = y(10.0**decade)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{line:.1f}" y2="{line:.1f}" class="grid"/>')
        label = f'10<tspan dy="-4" font-size="9">{decade}</tspan>'
        parts.append(f'<text x="{LEFT - 8}" y="{line + 4:.1f}" text-anchor="end">{label}</text>')
    for name, values in curves.items():
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{modes[name][3]}" stroke-width="1.6"/>')
    for step in range(0, STEPS + 1, 50):
        at = x(min(step, STEPS - 1))
        parts.append(f'<text x="{at:.1f}" y="{top + height + 18}" text-anchor="middle">{step}</text>')
    return parts


def drawing(losses, modes):
    """Two panels: the losses, and their distance from the first one's."""
    smooth = {name: [sum(v[max(i - 9, 0) : i + 1]) / len(v[max(i - 9, 0) : i + 1]) for i in range(STEPS)]
              for name, v in losses.items()}
    first, *others = losses
    own = losses[first]
    apart = {name: [abs(a - b) for a, b in zip(v, own, strict=True)] for name, v in losses.items() if v is not own}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 560" role="img" '
        f'aria-label="loss of 200 training steps: {first} and {" and ".join(others)}">',
        "<style>text{font:12px system-ui,sans-serif;fill:#5d6066}.title{font-weight:600;fill:#1c1d1f;font-size:14px}"
        ".grid{stroke:#e2e2dd}</style>",
        f'<rect width="{WIDTH}" height="560" fill="#ffffff" rx="10"/>',
        *panel("Loss (mean of ten steps)", smooth, modes, 46, 210, -2, 1),
        *panel(f"Distance from the {first} loss, step by step", apart, modes, 316, 190, -7, 0),
        f'<text x="{WIDTH / 2}" y="546" text-anchor="middle">step</text>',
    ]
    for number, (name, (*_, colour)) in enumerate(modes.items()):
        at = WIDTH - RIGHT - 120 * (len(modes) - number)
        parts.append(f'<line x1="{at}" x2="{at + 22}" y1="32" y2="32" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{at + 28}" y="36">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main():
    torch.set_num_threads(2)
    compared = sys.argv[2] if len(sys.argv) > 2 else "numerics"
    modes, losses = MODES[compared], {}
    for name, (product, math_type, algorithm, _) in modes.items():
        losses[name] = train(product, math_type, algorithm, wide=compared == "algorithms")
        last = sum(losses[name][-20:]) / 20
        print(f"{name:10}  first loss {losses[name][0]:.6f}  mean of the last twenty {last:.6f}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(drawing(losses, modes), "utf-8")


if __name__ == "__main__":
    main()
