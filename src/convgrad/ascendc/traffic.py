"""Bytes, loads and products of a tiling in closed form, and how even the cores are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from .core_split import Block
from .input_checks import l0a_bytes, l0b_bytes, l0c_bytes, l1_bytes, weights_stay
from .input_record import TConv3DBackpropInputTiling, ceil_div
from .platform import PlatformInfo
from .walk import row_window, single_shape


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


def block_traffic(t: TConv3DBackpropInputTiling, block: Block) -> Traffic:
    """One block, tile by tile along M; along N only the width differs.

    Per tile and window plane, with rr gradOutput rows in its window, cout1 channel blocks, K = cout1 * hk * wk * c0:

        GM to A1    rr * wo * cout1 * c0 * e          in ceil(chunks / stepKa) loads
        GM to B1    columns * hk * wk * cout1 * 16 * e   in ceil(chunks / stepKb) loads; once per walk if weights stay
        A1 to L0A   rows of 16 * K * e      B1 to L0B   columns * K * e      products   rows of 16 * columns * K
    """
    shape, total, e = single_shape(t, block.M, block.K, block.N), Traffic(), t.element_bytes
    taps = len(t.depth_taps(block.plane))
    stay = weights_stay(t)
    a_loads, b_loads = ceil_div(shape.k.count, t.stepKa), ceil_div(shape.k.count, t.stepKb)
    windows = [row_window(t, block.ho_start, i * t.baseM) for i in range(shape.m.count)]
    kept = [i for i, window in enumerate(windows) if taps and (window.rows or t.initOutputFlag == 0)]
    total.tiles = shape.m.count * shape.n.count
    total.skipped_tiles = (shape.m.count - len(kept)) * shape.n.count
    weights_loaded = False
    for i in kept:
        rows = ceil_div(shape.m.length(i), 16) * 16
        for j in range(shape.n.count):
            columns = shape.n.length(j)
            total.a_loads += a_loads * taps
            total.gm_to_a1 += windows[i].rows * t.wo * shape.cout1 * t.c0 * e * taps
            if not (stay and weights_loaded):
                total.b_loads += b_loads * taps
                total.gm_to_b1 += columns * t.window_area * shape.cout1 * 16 * e * taps
                weights_loaded = True
            total.a1_to_l0a += rows * shape.k.total * e * taps
            total.b1_to_l0b += columns * shape.k.total * e * taps
            total.multiply_adds += rows * columns * shape.k.total * taps
            total.l0c_to_gm += shape.m.length(i) * columns * e
            total.rows_loaded += windows[i].rows * taps
            total.rows_of_tiles += ceil_div(shape.m.length(i), t.wi) * taps
    return total


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """Traffic of a whole problem, products per core, fill of the stores, and what hardware fields cannot hold."""

    total: Traffic
    per_core: tuple[int, ...]
    blocks: int
    cores: int
    weight_bytes: int
    fill: dict[str, tuple[int, int]]
    warnings: tuple[str, ...]

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
    def weight_reloads(self) -> float:
        """Weight bytes loaded, over one copy of the weight."""
        return self.total.gm_to_b1 / self.weight_bytes

    @property
    def overfetch(self) -> float:
        """gradOutput rows loaded, over the gradInput rows of the tiles."""
        return self.total.rows_loaded / self.total.rows_of_tiles if self.total.rows_of_tiles else 0.0

    @property
    def products_per_byte(self) -> float:
        """Multiply-adds per byte that passes global memory."""
        return self.total.multiply_adds / self.total.gm_bytes if self.total.gm_bytes else 0.0


def traffic_report(
    t: TConv3DBackpropInputTiling, blocks: Sequence[Block], cores: int, platform: PlatformInfo | None = None
) -> TrafficReport:
    """Traffic and balance of all blocks; blocks of one shape, start row and number of window planes count alike."""
    sizes = platform or PlatformInfo()
    known: dict[tuple[int, int, int, int, int], Traffic] = {}
    total, per_core = Traffic(), [0] * cores
    for block in blocks:
        key = (block.M, block.N, block.K, block.ho_start, len(t.depth_taps(block.plane)))
        if key not in known:
            known[key] = block_traffic(t, block)
        total.add(known[key])
        per_core[block.core] += known[key].multiply_adds
    fill = {
        "L0A": (l0a_bytes(t), sizes.l0ASize), "L0B": (l0b_bytes(t), sizes.l0BSize),
        "L0C": (l0c_bytes(t), sizes.l0CSize),
        "L1": (l1_bytes(t), sizes.l1Size),
    }  # fmt: skip
    return TrafficReport(
        total, tuple(per_core), len(blocks), cores, t.weight_size * t.element_bytes, fill, hardware_warnings(t)
    )


def hardware_warnings(t: TConv3DBackpropInputTiling) -> tuple[str, ...]:
    """Values that a field of the load instruction cannot hold."""
    limits = (
        ("hk", t.hk, 511), ("wk", t.wk, 511), ("padUp", t.padUp, 255), ("padLeft", t.padLeft, 255),
        ("backpropPadUp", t.backpropPadUp, 255), ("backpropPadLeft", t.backpropPadLeft, 255),
        ("dilationH", t.dilationH, 255), ("dilationW", t.dilationW, 255), ("stepKa * baseK", t.stepKa * t.baseK, 65535),
        ("expanded width of an L1 row", t.wo * t.strideW, 32767),
    )  # fmt: skip
    return tuple(
        f"{name} is {value}, the instruction holds at most {most}" for name, value, most in limits if value > most
    )
