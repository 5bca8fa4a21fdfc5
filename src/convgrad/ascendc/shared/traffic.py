"""Bytes, loads and products of a tiling, and how even the cores are: what the reports of both kernels hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..device.errors import TilingError
from ..device.platform import PlatformInfo
from .record_checks import l0a_bytes, l0b_bytes, l0c_bytes
from .tiling_record import TilingRecord

MOST_OF_FIELDS = {"hk": 511, "wk": 511, "padUp": 255, "padLeft": 255, "dilationH": 255, "dilationW": 255}


@dataclass(slots=True)
class Traffic:
    """What moves between the levels, in bytes, and what is computed."""

    tiles: int = 0
    skipped_tiles: int = 0
    a_loads: int = 0
    b_loads: int = 0
    gm_to_a1: int = 0
    gm_to_b1: int = 0
    a1_to_l0a: int = 0
    b1_to_l0b: int = 0
    l0c_to_gm: int = 0
    multiply_adds: int = 0
    rows_loaded: int = 0
    rows_of_tiles: int = 0

    def add(self, other: Traffic) -> None:
        """Add another amount to this one."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def gm_bytes(self) -> int:
        """Everything that passes global memory."""
        return self.gm_to_a1 + self.gm_to_b1 + self.l0c_to_gm


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """Traffic of a whole problem, products per core, fill of the stores, and what hardware fields cannot hold.

    one_copy    bytes of A, B and C as they lie in global memory
    l1_parts    bytes of A and of B in L1
    """

    total: Traffic
    per_core: tuple[int, ...]
    blocks: int
    one_copy: tuple[int, int, int]
    fill: dict[str, tuple[int, int]]
    l1_parts: tuple[int, int]
    warnings: tuple[str, ...]

    @property
    def names(self) -> tuple[str, str]:
        """What A and B are."""
        raise NotImplementedError

    @property
    def ratios(self) -> dict[str, float]:
        """The figures this kernel is judged by, by name."""
        raise NotImplementedError

    @property
    def notes(self) -> tuple[str, str, str]:
        """What to say beside the bytes of A, of B and of C."""
        raise NotImplementedError

    @property
    def cores(self) -> int:
        """Cores there are."""
        return len(self.per_core)

    @property
    def cores_used(self) -> int:
        """Cores with work."""
        return sum(work > 0 for work in self.per_core)

    @property
    def balance(self) -> float:
        """Mean work of all cores over the work of the busiest: 1 when every core is equally busy."""
        busiest = max(self.per_core, default=0)
        return sum(self.per_core) / (self.cores * busiest) if busiest else 1.0

    @property
    def overfetch(self) -> float:
        """Rows loaded, over the rows of the tiles."""
        return self.total.rows_loaded / self.total.rows_of_tiles if self.total.rows_of_tiles else 0.0

    @property
    def products_per_byte(self) -> float:
        """Multiply-adds per byte that passes global memory."""
        return self.total.multiply_adds / self.total.gm_bytes if self.total.gm_bytes else 0.0


def sum_blocks(blocks: Sequence[Any], amounts: Sequence[Traffic], cores: int) -> tuple[Traffic, tuple[int, ...]]:
    """The traffic of all blocks, and the multiply-adds of each core."""
    used = max((block.core for block in blocks), default=0) + 1
    if cores < used:
        raise TilingError(f"cores must be at least {used}, to which the blocks go, got {cores}", "argument.cores")
    total, per_core = Traffic(), [0] * cores
    for block, amount in zip(blocks, amounts, strict=True):
        total.add(amount)
        per_core[block.core] += amount.multiply_adds
    return total, tuple(per_core)


def store_fill(t: TilingRecord, l1: int, platform: PlatformInfo) -> dict[str, tuple[int, int]]:
    """Bytes in use and bytes there are, store by store."""
    return {
        "L0A": (l0a_bytes(t), platform.l0ASize), "L0B": (l0b_bytes(t), platform.l0BSize),
        "L0C": (l0c_bytes(t), platform.l0CSize), "L1": (l1, platform.l1Size),
    }  # fmt: skip


def hardware_warnings(t: TilingRecord, more: Sequence[tuple[str, int, int]]) -> tuple[str, ...]:
    """Values that a field of the load instruction cannot hold; `more` are (name, value, most) of one kernel alone."""
    limits = [*((name, getattr(t, name), most) for name, most in MOST_OF_FIELDS.items()), *more]
    return tuple(
        f"{name} is {value}, the instruction holds at most {most}" for name, value, most in limits if value > most
    )
