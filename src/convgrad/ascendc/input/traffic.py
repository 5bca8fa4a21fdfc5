"""Bytes, loads and products of Conv3DBackpropInput in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..device.platform import PlatformInfo
from ..shared.arguments import instance, instances, some_cores
from ..shared.tiling_record import ceil_div
from ..shared.traffic import Traffic, TrafficReport, hardware_warnings, store_fill, sum_blocks
from .checks import a1_bytes, b1_bytes, l1_bytes, weights_stay
from .record import TConv3DBackpropInputTiling
from .split import Block
from .walk import row_window, single_shape


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
class InputTrafficReport(TrafficReport):
    """What Conv3DBackpropInput moves: A is gradOutput, B the weight, C gradInput."""

    @property
    def names(self) -> tuple[str, str]:
        """What A and B are."""
        return "gradOutput", "weight"

    @property
    def weight_reloads(self) -> float:
        """Weight bytes loaded, over one copy of the weight."""
        return self.total.gm_to_b1 / self.one_copy[1]

    @property
    def ratios(self) -> dict[str, float]:
        """The figures this kernel is judged by, by name."""
        return {"weight_reloads": self.weight_reloads, "overfetch": self.overfetch}

    @property
    def notes(self) -> tuple[str, str, str]:
        """What to say beside the bytes of A, of B and of C."""
        return f"{self.overfetch:.2f} rows per tile row", f"{self.weight_reloads:.1f} copies", "each element once"


def traffic_report(
    t: TConv3DBackpropInputTiling, blocks: Sequence[Block], cores: int, platform: PlatformInfo | None = None
) -> InputTrafficReport:
    """Traffic and balance of all blocks; blocks of one shape, start row and number of window planes count alike."""
    instance(t, TConv3DBackpropInputTiling, "t")
    blocks, cores = instances(Block, blocks, "blocks"), some_cores(cores)
    platform = PlatformInfo() if platform is None else instance(platform, PlatformInfo, "platform")
    known: dict[tuple[int, int, int, int, int], Traffic] = {}
    amounts = []
    for block in blocks:
        key = (block.M, block.N, block.K, block.ho_start, len(t.depth_taps(block.plane)))
        if key not in known:
            known[key] = block_traffic(t, block)
        amounts.append(known[key])
    total, per_core = sum_blocks(blocks, amounts, cores)
    e = t.element_bytes
    return InputTrafficReport(
        total, per_core, len(blocks), (t.grad_output_size * e, t.weight_size * e, t.grad_input_size * e),
        store_fill(t, l1_bytes(t), platform),
        (a1_bytes(t) * t.al1Pbuffer, b1_bytes(t) * t.bl1Pbuffer), input_warnings(t),
    )  # fmt: skip


def input_warnings(t: TConv3DBackpropInputTiling) -> tuple[str, ...]:
    """Values that a field of the load instruction cannot hold."""
    return hardware_warnings(t, (
        ("backpropPadUp", t.backpropPadUp, 255), ("backpropPadLeft", t.backpropPadLeft, 255),
        ("stepKa * baseK", t.stepKa * t.baseK, 65535), ("expanded width of an L1 row", t.wo * t.strideW, 32767),
    ))  # fmt: skip
