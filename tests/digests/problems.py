"""The problems whose bits are guarded: those of the tests, of the benchmark, and random ones; read when recording."""

from __future__ import annotations

import random
from pathlib import Path

import convgrad

ROOT = Path(__file__).resolve().parents[2]
RANDOM_PROBLEMS = 2000
NUMBERS = {
    "fp64": "fp64", "fp32": "fp32", "hf32": "fp32 math=3 on=A2", "hf32_10": "fp32 math=3 on=950", "fp16": "fp16",
    "bf16": "bf16", "fp8_e4m3fn": "fp8_e4m3fn", "fp8_e5m2": "fp8_e5m2", "hif8": "hif8", "fp32-as-fp16": "fp32 math=2",
    "mixed": "fp32 x=/bf16 gx=/bf16 w=/fp16 gw=/fp16",
}  # fmt: skip
"""The engine's dtypes, a cast of each kind, operands of three dtypes: the end of a problem line that asks for it."""
_MOST_CELLS = 100_000
_MOST_WORK = 12_000_000


def native_lines() -> list[str]:
    """The lines of the engine's tests, one for every blocking's tail; float32."""
    import native_problems  # on the path: see __main__.py

    return [line.removesuffix(" fp32") for line in native_problems.LINES]


def benchmark_lines() -> list[str]:
    """The lines of the benchmark; float32."""
    files = sorted((ROOT / "benchmarks" / "problems").glob("*.txt"))
    lines = [line.partition("#")[0].strip() for path in files for line in path.read_text("utf-8").splitlines()]
    return [line.replace(" fp32", "") for line in lines if line]  # an algorithm may follow the dtype


def in_numbers(line: str, numbers: str) -> str:
    """The line in one of NUMBERS."""
    return f"{line} {NUMBERS[numbers]}"


def work(line: str) -> int:
    """Multiply-adds of a contraction."""
    return convgrad.plan(convgrad.Request.parse(line + " fp32")).problem.geometry.multiply_adds


def random_lines() -> list[str]:
    """Problem lines drawn with a fixed seed: all ranks, tiny to 10^5 cells, whatever the contract accepts."""
    rng, lines = random.Random("guarded problems"), []
    while len(lines) < RANDOM_PROBLEMS:
        line = _random_line(rng)
        request = convgrad.Request.parse(line + " fp32")
        shapes = [t.shape for t in (request.input, request.weight, request.grad_output) if t is not None]
        cells = [_product(shape) for shape in shapes]
        if line in lines or not all(0 < n <= _MOST_CELLS for n in cells) or not convgrad.check(request).ok:
            continue
        if work(line) <= _MOST_WORK:
            lines.append(line)
    return lines


def _random_line(rng: random.Random) -> str:
    if rng.random() < 0.08:
        window, pad = rng.randint(1, 9), rng.randint(0, 4)
        channels = [_size(rng, 70) for _ in range(2)]
        length = max(1, window - 2 * pad) + _size(rng, 90)
        return f"tbc n{_size(rng, 9)} c{channels[0]}>{channels[1]} i{length} k{window} p{pad}"
    rank, transposed = rng.choice((1, 2, 2, 2, 2, 3, 3)), rng.random() < 0.3
    groups = rng.choice((1, 1, 1, 1, 2, 3, 4, 8, 16, 24))
    inner, outer = (rng.choice((1, 1, 2, 3, 4, 8, _size(rng, 70), _size(rng, 70))) for _ in range(2))
    if groups > 4:
        inner, outer = rng.choice(((1, 1), (1, 1), (1, 2), (2, 2), (4, 4), (3, 5)))
    window = [rng.choice((1, 2, 3, 3, 3, 4, 5, 7, 9)) for _ in range(rank)]
    if rng.random() < 0.2:
        window = [1] * rank
    stride = [rng.choice((1, 1, 1, 2, 2, 3)) for _ in range(rank)]
    if rng.random() < 0.5:
        stride = [1] * rank
    dilation = [rng.choice((1, 1, 1, 1, 2, 3)) for _ in range(rank)]
    pads = [rng.randint(0, max(1, k // 2 + 1)) for k in window]
    longest = {1: 3000, 2: 70, 3: 20}[rank]
    size = [_size(rng, longest) for _ in range(rank)]
    if rank > 1 and rng.random() < 0.1:  # lines that are long, or a plane that is a line
        size = [rng.randint(1, 3)] * (rank - 1) + [_size(rng, 2500)]
    if not transposed:
        size = [max(n, (k - 1) * d + 1 - 2 * p) for n, k, d, p in zip(size, window, dilation, pads, strict=True)]
    words = [
        "tconv" if transposed else "conv", f"n{rng.choice((1, 2, _size(rng, 20)))}",
        f"c{groups * inner}>{groups * outer}", f"i{_by(size)}", f"k{_by(window)}", f"s{_by(stride)}", f"p{_by(pads)}",
        f"d{_by(dilation)}", f"g{groups}",
    ]  # fmt: skip
    if transposed and rng.random() < 0.5:
        words.insert(-1, f"op{_by([rng.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True)])}")
    if rank == 2 and rng.random() < 0.1:
        words[6] = f"p{_by([rng.randint(0, 3) for _ in range(4)])}"
    return " ".join(words)


def _size(rng: random.Random, most: int) -> int:
    """Small ones as often as large ones."""
    return max(1, int(most ** rng.random()))


def _by(numbers: list[int]) -> str:
    return "x".join(map(str, numbers))


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
