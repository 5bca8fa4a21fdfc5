"""Cases by which known classes of wrong kernels are caught, in sets by name.

    slack           cells of the input that no window reaches at the far end, output padding: a kernel that stops at the
                    last window leaves them unwritten
    short-sequence  inputs shorter than their window: tap ranges are empty or cut at both ends
    group-edge      one channel per group, groups that end inside a block of lanes
    cancellation    sums that lose their leading digits: a narrower accumulator shows
    unwritten       cells between windows that must be zero; zeros times infinities and NaNs, which must not be skipped
"""

from __future__ import annotations

from convgrad.lab.cases.case import Case, make

_SPECIAL = "constant:0,special:0.3,constant:1"

SETS: dict[str, tuple[tuple[str, str], ...]] = {
    "slack": (
        ("conv n1 c2>3 i8 k3 s3", "integers"), ("conv n2 c1>2 i9x8 k2x3 s4x3", "integers"),
        ("tconv n1 c2>3 i3 k2 s3 op2", "integers"), ("tconv n1 c3>2 i3x2 k3x2 s2x3 p1x0 op1x2", "integers"),
        ("conv n1 c2>2 i5x6x7 k2x2x2 s3", "integers"),
    ),
    "short-sequence": (
        ("conv n2 c2>2 i1 k3 p1", "integers"), ("conv n1 c3>2 i2 k5 p2", "integers"),
        ("conv n1 c2>2 i1x4 k3x3 p1", "integers"), ("conv n1 c2>3 i3 k2 p2 d4", "integers"),
        ("tbc n1 c2>2 i1 k3 p1", "integers"),
    ),
    "group-edge": (
        ("conv n1 c5>5 i5x5 k3x3 p1 g5", "integers"), ("conv n1 c6>9 i6 k3 g3", "integers"),
        ("conv n1 c34>17 i4x3 k3x3 p1 g17", "integers"), ("tconv n1 c6>4 i3x3 k2x2 s2 g2", "integers"),
    ),
    "cancellation": (
        ("conv n2 c8>8 i24 k3 p1", "cancellation"), ("conv n1 c16>4 i9x9 k3x3 p1", "cancellation"),
        ("conv n4 c2>2 i31 k1", "cancellation"),
    ),
    "unwritten": (
        ("conv n1 c2>2 i9 k1 s3", "integers"), ("conv n1 c2>3 i7x7 k2x2 d3", "integers"),
        ("conv n1 c2>2 i6 k3 p1", _SPECIAL), ("conv n1 c2>2 i5x5 k3x3 p1 want=w", _SPECIAL),
    ),
}  # fmt: skip
_SEED = 20260722


def cases(name: str, dtype: str = "fp32", product: str = "cpu") -> list[Case]:
    """The cases of a set; `ValueError` names the sets there are."""
    if name not in SETS:
        raise ValueError(f"unknown set {name!r}; known: {', '.join(SETS)}")
    return [
        make(f"{name} {i}", f"{line} {dtype} on={product}", filling, _SEED + i)
        for i, (line, filling) in enumerate(SETS[name])
    ]
