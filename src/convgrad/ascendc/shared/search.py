"""What the searches of both kernels share: the prices that rank cuts, and the cuts of an axis."""

from __future__ import annotations

from .tiling_record import ceil_div

GM_BYTES_PER_CYCLE = 64
PRODUCT_PRICE = 24  # cycles to start one product
BLOCK_PRICE = 500  # cycles to start one single shape


def pieces_of(total: int, limit: int = 64) -> list[int]:
    """The distinct piece lengths that cut `total` into 1, 2, 3 ... pieces, longest first."""
    lengths = {ceil_div(total, count) for count in range(1, min(total, limit) + 1)}
    lengths |= set(range(1, min(total, 8) + 1))
    return sorted(lengths, reverse=True)
