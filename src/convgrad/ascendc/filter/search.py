"""How Conv3dBpFilterTiling cuts a problem: tiles as large as L0C allows, then enough blocks for the cores.

Everything accumulates by atomic adds, so batches, planes, window planes, channels, columns and rows may all be shared
out. A tile costs its products; a block costs a fixed price; the cheapest busiest core wins.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from ..device.platform import PlatformInfo
from ..shared.search import BLOCK_PRICE, GM_BYTES_PER_CYCLE, PRODUCT_PRICE, pieces_of
from ..shared.tiling_record import ceil_div
from .record import FilterBasicBlock, TConv3DBpFilterTiling

MOST_WINDOW_PLANES_COUNTED = 100_000  # beyond that every core has plenty of everything
FilterCut = tuple[TConv3DBpFilterTiling, FilterBasicBlock, dict[str, str]]


def filter_search(sizes: TConv3DBpFilterTiling, platform: PlatformInfo, cores: int) -> FilterCut | str:
    """The cheapest cut with its reasons, or why there is none."""
    options = [with_loads(sizes, platform, *tile) for tile in tile_options(sizes, platform)]
    records = [record for record in options if record is not None]
    if not records:
        least = sizes.input_elements_in_l1(16, 16) * sizes.element_bytes
        return f"L1 cannot hold the shortest load of the input: {least} bytes of {platform.l1Size}"
    large = is_large(sizes, platform, cores)
    half_full = [record for record in records if record.baseM * record.baseN * 8 >= platform.l0CSize]
    record = min(half_full if large and half_full else records, key=lambda one: price_of_tiles(sizes, one))
    block, share = choose_block(sizes, record, cores)
    final = with_block(record, block)
    fill = record.baseM * record.baseN * 4 / platform.l0CSize
    reasons = {
        "baseM": f"{record.baseM} of {sizes.weight_cout} channels; the tile fills {fill:.0%} of L0C"
        + (", at least half asked for" if large else ""),
        "baseN": f"{record.baseN} of {sizes.cin1G * sizes.window_area * sizes.c0} columns",
        "baseK": reason_of_base_k(sizes, record.baseK),
        "stepKa": f"one load holds {record.stepKa * record.baseK} positions",
        "stepKb": f"one load holds {record.stepKb * record.baseK} positions, {record.bl1Bound} input elements",
        "al1Pbuffer": "loads overlap with products" if record.al1Pbuffer == 2 else "rescue: only single buffers fit L1",
        "bl1Pbuffer": "loads overlap with products" if record.bl1Pbuffer == 2 else "rescue: only single buffers fit L1",
        "bl1Bound": "input rows and channel blocks that one load touches at most",
        "singleCoreCout": part_of(final.singleCoreCout, sizes.weight_cout, "channels"),
        "singleCoreCin": part_of(final.singleCoreCin, sizes.cin1G * sizes.c0, "input channels"),
        "singleCoreHo": f"{part_of(final.singleCoreHo, sizes.ho, 'rows')}; {share}",
    }  # fmt: skip
    return final, block, reasons


def is_large(sizes: TConv3DBpFilterTiling, platform: PlatformInfo, cores: int) -> bool:
    """True when gradWeight of one window plane fills L0C, and each core has work for two such tiles."""
    tile = platform.l0CSize // 4
    plane = sizes.weight_cout * sizes.cin1G * sizes.window_area * sizes.c0
    return plane >= tile and plane * walks(sizes) >= 2 * tile * cores


def walks(sizes: TConv3DBpFilterTiling) -> int:
    """Batches, gradOutput planes and window planes that meet the input: what each part of gradWeight sums over."""
    if sizes.dk > MOST_WINDOW_PLANES_COUNTED:
        return sizes.batch * sizes.dout * sizes.dk
    return sizes.batch * sum(len(sizes.planes_met(kd)) for kd in range(sizes.dk))


def reason_of_base_k(sizes: TConv3DBpFilterTiling, base_k: int) -> str:
    """Why a product takes so many positions."""
    positions = sizes.ho * sizes.wo
    if base_k >= positions:
        return f"all {positions} positions of a plane, in whole fractals"
    return f"as many of {positions} positions as L0A and L0B hold twice and whose loads fit L1"


def part_of(size: int, whole: int, what: str) -> str:
    """How much of an axis one single shape takes, in words."""
    return f"{size} of {whole} {what} (x {ceil_div(whole, size)})"


def with_block(t: TConv3DBpFilterTiling, block: FilterBasicBlock) -> TConv3DBpFilterTiling:
    """The record with the fields that follow from a single shape."""
    return replace(
        t,
        singleCoreCout=block.singleCoreM,
        singleCoreHo=block.singleCoreK // t.wo,
        singleCoreCin=max(block.singleCoreN // (t.window_area * t.c0), 1) * t.c0,
    )


def tile_options(sizes: TConv3DBpFilterTiling, platform: PlatformInfo) -> list[tuple[int, int]]:
    """(baseM, baseN) that L0 can hold, from even cuts of both axes."""
    most = platform.l0ASize // (2 * 16 * sizes.element_bytes)
    tile = platform.l0CSize // 4
    options = []
    for m_blocks in pieces_of(sizes.weight_cout // 16, 16):
        base_m = min(16 * m_blocks, most)
        cap = min(most, tile // base_m // 16 * 16) if base_m else 0
        columns = sizes.cin1G * sizes.window_area
        for n_blocks in {*pieces_of(columns, 32), min(columns, cap // 16)}:
            if 0 < 16 * n_blocks <= cap:
                options.append((base_m, 16 * n_blocks))
    return sorted(set(options))


def with_loads(
    sizes: TConv3DBpFilterTiling, platform: PlatformInfo, base_m: int, base_n: int
) -> TConv3DBpFilterTiling | None:
    """baseK and the loads for a tile: the longest products, then L1 loads grown while there is room."""
    positions = ceil_div(sizes.ho * sizes.wo, 16) * 16
    longest = platform.l0ASize // (2 * sizes.element_bytes) // max(base_m, base_n) // 16 * 16
    base_k = min(max(16, longest), positions)

    def l1(steps: int, length: int) -> int:
        return (base_m * length + sizes.input_elements_in_l1(length, base_n)) * steps * sizes.element_bytes

    for buffers in (2, 1):
        for length in sorted({base_k, base_k // 32 * 16, 16}, reverse=True):
            if length >= 16 and l1(buffers, length) <= platform.l1Size:
                steps = 1
                while steps < 8 and steps * length < positions and l1(buffers, (steps + 1) * length) <= platform.l1Size:
                    steps += 1
                bound = sizes.input_elements_in_l1(steps * length, base_n)
                return replace(
                    sizes,
                    baseM=base_m,
                    baseN=base_n,
                    baseK=length,
                    stepKa=steps,
                    stepKb=steps,
                    bl1Bound=bound,
                    al1Pbuffer=buffers,
                    bl1Pbuffer=buffers,
                )
    return None


def price_of_tiles(sizes: TConv3DBpFilterTiling, t: TConv3DBpFilterTiling) -> float:
    """Cycles of one plane and window plane: the longer of products and loads; single buffers make them take turns."""
    tiles = ceil_div(sizes.weight_cout, t.baseM) * ceil_div(sizes.cin1G * sizes.window_area * sizes.c0, t.baseN)
    positions = sizes.ho * sizes.wo
    cube = ceil_div(positions, t.baseK) * (t.baseM * t.baseN * t.baseK / 4096 + PRODUCT_PRICE)
    elements = t.baseM * positions + sizes.input_elements_in_l1(positions, t.baseN)
    loads = elements * sizes.element_bytes / GM_BYTES_PER_CYCLE
    return tiles * (max(cube, loads) + 0.01 * loads if t.al1Pbuffer == 2 else cube + loads)


def choose_block(sizes: TConv3DBpFilterTiling, t: TConv3DBpFilterTiling, cores: int) -> tuple[FilterBasicBlock, str]:
    """How much of M, N and K one single shape takes: whole axes, split only as far as the cores need it."""
    per_cin = sizes.window_area * sizes.c0
    whole = walks(sizes)
    n_unit = t.baseN * per_cin // gcd(t.baseN, per_cin) // per_cin  # cin blocks whose columns are whole tiles
    best: tuple[float, int, FilterBasicBlock] | None = None
    for m_tiles in pieces_of(ceil_div(sizes.weight_cout, t.baseM), 8):
        single_m = min(sizes.weight_cout, m_tiles * t.baseM)
        for n_units in pieces_of(ceil_div(sizes.cin1G, n_unit), 8):
            single_n = min(sizes.cin1G, n_units * n_unit) * per_cin
            for rows in pieces_of(sizes.ho, 8):
                blocks = (
                    whole
                    * ceil_div(sizes.weight_cout, single_m)
                    * ceil_div(sizes.cin1G * per_cin, single_n)
                    * ceil_div(sizes.ho, rows)
                )
                tiles = ceil_div(single_m, t.baseM) * ceil_div(single_n, t.baseN)
                products = ceil_div(rows * sizes.wo, t.baseK) * (t.baseM * t.baseN * t.baseK / 4096 + PRODUCT_PRICE)
                price = ceil_div(blocks, cores) * (tiles * products + BLOCK_PRICE)
                if best is None or (price, blocks) < best[:2]:
                    best = price, blocks, FilterBasicBlock(single_m, single_n, rows * sizes.wo)
    assert best is not None
    used = max(1, min(best[1], cores))
    return best[2], f"{best[1]} blocks in all, at most {ceil_div(best[1], used)} on one of {used} cores"
