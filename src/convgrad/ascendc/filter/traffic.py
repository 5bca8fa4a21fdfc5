"""Bytes, loads and products of Conv3DBackpropFilter in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..device.platform import PlatformInfo
from ..shared.arguments import instance, instances, some_cores
from ..shared.tiling_record import ceil_div
from ..shared.traffic import Traffic, TrafficReport, hardware_warnings, store_fill, sum_blocks
from ..shared.walk import Extent
from .checks import a1_bytes, b1_bytes, l1_bytes
from .record import TConv3DBpFilterTiling
from .split import FilterBlock
from .walk import FilterShape, filter_shape, input_rows


def loads_per_block(t: TConv3DBpFilterTiling, shape: FilterShape) -> tuple[int, int]:
    """How often each L1 block of gradOutput channels, and of columns, is loaded in one walk.

    While every group of positions has a buffer, a block is loaded once for each time the walk comes to it: the outer
    axis' blocks once, the inner axis' once per outer block (once in all when there is only one). Otherwise every tile
    loads its block anew.
    """
    m_blocks, n_blocks = ceil_div(shape.m.count, t.stepM), ceil_div(shape.n.count, t.stepN)
    a_visits = n_blocks if t.iterateOrder == 1 and m_blocks > 1 else 1
    b_visits = m_blocks if t.iterateOrder == 0 and n_blocks > 1 else 1
    a_stays = ceil_div(shape.k.count, t.stepKa) <= t.al1Pbuffer
    b_stays = ceil_div(shape.k.count, t.stepKb) <= t.bl1Pbuffer
    return a_visits if a_stays else 0, b_visits if b_stays else 0


def l1_blocks(axis: Extent, step: int) -> list[tuple[int, int, int]]:
    """(first, length, tiles) of each L1 block of an axis."""
    runs = [axis.run(index, step) for index in range(ceil_div(axis.count, step))]
    return [(start, length, ceil_div(length, axis.base)) for start, length in runs]


def filter_block_traffic(t: TConv3DBpFilterTiling, block: FilterBlock) -> Traffic:
    """One walk. With K positions, rounded up to 16 at the end:

        GM to A1    channels * positions * e                      per group of stepKa * baseK positions
        GM to B1    input rows * wi * cin blocks * c0 * e         per group of stepKb * baseK positions
        A1 to L0A   channels * K * e     B1 to L0B   columns * K * e     products   channels * columns * K
        L0C to GM   channels * columns * 4, added
    """
    shape, total, e = filter_shape(t, block.M, block.N, block.K), Traffic(), t.element_bytes
    a_visits, b_visits = loads_per_block(t, shape)
    positions = ceil_div(shape.k.total, 16) * 16
    total.tiles = shape.m.count * shape.n.count
    for _, channels, tiles in l1_blocks(shape.m, t.stepM):
        loads = a_visits or tiles * shape.n.count
        total.a_loads += loads * ceil_div(shape.k.count, t.stepKa)
        total.gm_to_a1 += loads * channels * shape.k.total * e
    groups = l1_blocks(shape.k, t.stepKb)
    rows = sum(len(input_rows(t, block.ho_start, start, length)) for start, length, _ in groups)
    for first, columns, tiles in l1_blocks(shape.n, t.stepN):
        loads = b_visits or tiles * shape.m.count
        total.b_loads += loads * len(groups)
        total.gm_to_b1 += loads * rows * t.wi * t.cin_blocks(first, columns) * t.c0 * e
        total.rows_loaded += loads * rows
        total.rows_of_tiles += loads * (shape.k.total // t.wo) * t.strideH
    total.a1_to_l0a = shape.m.total * shape.n.count * positions * e
    total.b1_to_l0b = shape.n.total * shape.m.count * positions * e
    total.multiply_adds = shape.m.total * shape.n.total * positions
    total.l0c_to_gm = shape.m.total * shape.n.total * 4
    return total


@dataclass(frozen=True, slots=True)
class FilterTrafficReport(TrafficReport):
    """What Conv3DBackpropFilter moves: A is gradOutput, B the input, C gradWeight."""

    @property
    def names(self) -> tuple[str, str]:
        """What A and B are."""
        return "gradOutput", "input"

    @property
    def grad_output_reloads(self) -> float:
        """gradOutput bytes loaded, over one copy of it."""
        return self.total.gm_to_a1 / self.one_copy[0]

    @property
    def input_reloads(self) -> float:
        """Input bytes loaded, over one copy of it."""
        return self.total.gm_to_b1 / self.one_copy[1]

    @property
    def adds_per_element(self) -> float:
        """Bytes added to gradWeight, over one copy of it."""
        return self.total.l0c_to_gm / self.one_copy[2]

    @property
    def ratios(self) -> dict[str, float]:
        """The figures this kernel is judged by, by name."""
        return {"grad_output_reloads": self.grad_output_reloads, "input_reloads": self.input_reloads,
                "adds_per_element": self.adds_per_element, "overfetch": self.overfetch}  # fmt: skip

    @property
    def notes(self) -> tuple[str, str, str]:
        """What to say beside the bytes of A, of B and of C."""
        return (
            f"{self.grad_output_reloads:.1f} copies",
            f"{self.input_reloads:.1f} copies, {self.overfetch:.2f} rows per row under a tile",
            f"{self.adds_per_element:.1f} adds per element",
        )


def filter_traffic_report(
    t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock], cores: int, platform: PlatformInfo | None = None
) -> FilterTrafficReport:
    """Traffic and balance of all blocks; blocks of one shape and start row count alike."""
    instance(t, TConv3DBpFilterTiling, "t")
    blocks, cores = instances(FilterBlock, blocks, "blocks"), some_cores(cores)
    platform = PlatformInfo() if platform is None else instance(platform, PlatformInfo, "platform")
    known: dict[tuple[int, int, int, int], Traffic] = {}
    for block in blocks:
        key = (block.M, block.N, block.K, block.ho_start)
        if key not in known:
            known[key] = filter_block_traffic(t, block)
    amounts = [known[block.M, block.N, block.K, block.ho_start] for block in blocks]
    total, per_core = sum_blocks(blocks, amounts, cores)
    e = t.element_bytes
    return FilterTrafficReport(
        total, per_core, len(blocks), (t.grad_output_size * e, t.input_size * e, t.grad_weight_size * 4),
        store_fill(t, l1_bytes(t), platform),
        (a1_bytes(t) * t.al1Pbuffer, b1_bytes(t) * t.bl1Pbuffer),
        hardware_warnings(t, (("width of an input row with its pads", t.wi + t.padLeft + t.padRight, 32767),)),
    )  # fmt: skip
