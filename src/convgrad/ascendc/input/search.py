"""How Conv3DBpInputTiling cuts a problem: every cut is estimated in cycles of the busiest core, the cheapest wins.

A cut is: gradInput rows and channel blocks of a single shape, then baseM and baseN of a tile. Per tile

    cube  = products of 16x16x16 plus a fixed price per product, or feeding them from L1 if that takes longer
    loads = bytes of gradOutput window and weights, from global memory into L1; weights once if they can stay there

and a tile costs the longer of the two, since both are double buffered. The figures only rank cuts against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ..device.platform import PlatformInfo
from ..shared.search import BLOCK_PRICE, GM_BYTES_PER_CYCLE, PRODUCT_PRICE, pieces_of
from ..shared.split import flat_share
from ..shared.tiling_record import ceil_div, rows_of_tile
from .record import TConv3DBackpropInputTiling

L0A_BYTES_PER_CYCLE, L0B_BYTES_PER_CYCLE = 256, 128
FINALISTS = 16  # cuts whose balance is worked out plane by plane
MOST_BLOCKS_COUNTED = 200_000  # beyond that every core has plenty of everything
SINGLE_BUFFER_PENALTY = 1.6  # loads no longer overlap with products

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cut:
    """The chosen numbers, with the reason of each."""

    fields: dict[str, int]
    reasons: dict[str, str]


def base_m_options(cap: int, columns: int, positions: int) -> set[int]:
    """Lengths of M worth trying for a single shape: even cuts of it, whole rows, even parts of a row, the least.

    `cap` is what L0C and L0A hold.
    """
    most = min(cap, ceil_div(positions, 16) * 16)
    pieces = ceil_div(positions, most)
    even = {min(most, ceil_div(ceil_div(positions, count), 16) * 16) for count in (pieces, pieces + 1)}
    whole_rows = columns * 16 // gcd(columns, 16)
    parts = {length for length in range(16, most + 1, 16) if columns % length == 0}
    return {length for length in even | parts | {most, most // whole_rows * whole_rows, 16} if length >= 16}


def is_large(sizes: TConv3DBackpropInputTiling, platform: PlatformInfo, cores: int) -> bool:
    """True when each core has work for two whole L0C tiles, and one plane fills one tile."""
    plane = sizes.hi * sizes.wi * sizes.cin1 * sizes.c0
    tile = platform.l0CSize // 4
    return plane >= tile and plane * sizes.batch * sizes.di >= 2 * tile * cores


def candidate_cuts(sizes: TConv3DBackpropInputTiling, platform: PlatformInfo) -> tuple[Integers, ...]:
    """All (rows, channel blocks, baseM, baseN) worth estimating."""
    most = platform.l0BSize // (2 * 16 * sizes.element_bytes)
    blocks16 = ceil_div(sizes.cin1 * sizes.c0, 16)
    cuts = []
    for base_n in {min(16 * blocks, most) for blocks in pieces_of(blocks16, 8)} - {0}:
        widths = [width for width in pieces_of(sizes.cin1, 16) if width * sizes.c0 >= base_n or width == sizes.cin1]
        cap = min(platform.l0CSize // (4 * base_n), platform.l0ASize // (2 * 16 * sizes.element_bytes)) // 16 * 16
        for rows in pieces_of(sizes.hi) if cap >= 16 else ():
            for base_m in base_m_options(cap, sizes.wi, rows * sizes.wi):
                cuts += [(rows, width, base_m, base_n) for width in widths]
    columns = np.array(cuts, np.int64).reshape(-1, 4).T
    return tuple(columns)


def window_rows(sizes: TConv3DBackpropInputTiling, base_m: int) -> int:
    """Expanded rows the buffers are reserved for."""
    rows = rows_of_tile(base_m, sizes.wi) - 1 + (sizes.hk - 1) * sizes.dilationH + 1
    return min(rows, sizes.expanded_rows)


def smallest_l1(
    sizes: TConv3DBackpropInputTiling, base_m: Integers, base_n: Integers, base_k: Integers, buffers: int
) -> Integers:
    """L1 bytes with the shortest loads: the common multiple of baseK and one channel block of k."""
    k_group = sizes.k_of_block * base_k // np.gcd(sizes.k_of_block, base_k)
    lengths, where = np.unique(base_m, return_inverse=True)
    rows = np.array([window_rows(sizes, int(length)) for length in lengths], np.int64)[where]
    a1 = rows * sizes.wo * sizes.strideW * (k_group // sizes.window_area) * sizes.element_bytes
    return np.asarray((a1 + base_n * k_group * sizes.element_bytes) * buffers)


def estimate(
    sizes: TConv3DBackpropInputTiling,
    platform: PlatformInfo,
    cores: int,
    rows: Integers,
    width: Integers,
    base_m: Integers,
    base_n: Integers,
) -> NDArray[np.float64]:
    """Cycles of the busiest core for each cut; infinite when even single buffers do not fit L1."""
    e, k_total = sizes.element_bytes, sizes.cout1 * sizes.k_of_block
    most_k = np.maximum(16, platform.l0ASize // (2 * e) // np.maximum(base_m, base_n) // 16 * 16)
    chunks = -(-k_total // most_k)
    cube = base_m * base_n * k_total / 4096 + chunks * PRODUCT_PRICE
    to_l0 = np.maximum(base_m / L0A_BYTES_PER_CYCLE, base_n / L0B_BYTES_PER_CYCLE) * k_total * e
    cube = np.maximum(cube, to_l0)
    m_tiles, n_tiles = -(-(rows * sizes.wi) // base_m), -(-(width * sizes.c0) // base_n)
    real_rows = base_m / sizes.wi + 1 + (sizes.hk - 1) * sizes.dilationH / sizes.strideH
    weight = base_n * k_total * e
    stays = (n_tiles == 1) & (weight <= platform.l1Size // 2) & (sizes.dk == 1)
    loads = (real_rows * sizes.wo * sizes.cout1 * sizes.c0 * e + np.where(stays, weight / m_tiles, weight)) / (
        GM_BYTES_PER_CYCLE
    )
    sixteen = np.full_like(base_m, 16)
    double = smallest_l1(sizes, base_m, base_n, sixteen, 2) <= platform.l1Size
    single = smallest_l1(sizes, base_m, base_n, sixteen, 1) <= platform.l1Size
    per_tile = np.where(double, np.maximum(cube, loads), (cube + loads) * SINGLE_BUFFER_PENALTY)
    blocks = float(sizes.batch * sizes.di) * np.ceil(sizes.hi / rows) * np.ceil(sizes.cin1 / width)
    busiest = np.ceil(blocks / np.minimum(blocks, cores))
    taps = min(sizes.dk, sizes.dout)
    return np.where(single, busiest * (m_tiles * n_tiles * per_tile * taps + BLOCK_PRICE), np.inf)


def unevenness(sizes: TConv3DBackpropInputTiling, cores: int, rows: int, width: int) -> float:
    """Window planes that the busiest core really meets, over what `estimate` takes for granted.

    Near the edges, and with strides in depth, fewer window planes reach a gradInput plane.
    """
    m_pieces, n_pieces = ceil_div(sizes.hi, rows), ceil_div(sizes.cin1, width)
    if sizes.batch * sizes.di * m_pieces * n_pieces > MOST_BLOCKS_COUNTED:
        return 1.0
    taps = np.array([len(sizes.depth_taps(plane)) for plane in range(sizes.di)], np.int64)
    work = np.tile(np.repeat(taps, n_pieces), sizes.batch * m_pieces)
    shares = [flat_share(work.size, cores, core) for core in range(min(work.size, cores))]
    busiest = max(1, int(np.add.reduceat(work, [share.start for share in shares]).max()))
    return busiest / (len(shares[0]) * min(sizes.dk, sizes.dout))


def choose_k(
    sizes: TConv3DBackpropInputTiling, platform: PlatformInfo, base_m: int, base_n: int
) -> tuple[int, int] | None:
    """(baseK, buffers): the fewest products whose shortest loads fit L1, double buffered if at all possible."""
    e, k_total = sizes.element_bytes, sizes.cout1 * sizes.k_of_block
    most = min(platform.l0ASize // (2 * e * base_m), platform.l0BSize // (2 * e * base_n)) // 16 * 16
    options = np.arange(16, max(16, most) + 1, 16, dtype=np.int64)
    groups = sizes.k_of_block * options // np.gcd(sizes.k_of_block, options)
    ms, ns = np.full_like(options, base_m), np.full_like(options, base_n)
    for buffers in (2, 1):
        fits = (smallest_l1(sizes, ms, ns, options, buffers) <= platform.l1Size) & (groups <= 65535)
        if fits.any():
            chunks = -(-k_total // options)
            rank = np.lexsort((options, groups, np.where(fits, chunks, np.iinfo(np.int64).max)))
            return int(options[rank[0]]), buffers
    return None


def choose_steps(
    sizes: TConv3DBackpropInputTiling, platform: PlatformInfo, chosen: dict[str, int], reasons: dict[str, str]
) -> None:
    """stepKa and stepKb: keep the weights whole in L1 when they fit, else grow the shorter load while L1 has room."""
    base_k, base_n, buffers = chosen["baseK"], chosen["baseN"], chosen["al1Pbuffer"]
    e, k_total = sizes.element_bytes, sizes.cout1 * sizes.k_of_block
    group = sizes.k_of_block * base_k // gcd(sizes.k_of_block, base_k)
    whole = ceil_div(k_total, group) * group
    row_bytes = window_rows(sizes, chosen["baseM"]) * sizes.wo * sizes.strideW * e
    most_a = min(whole, 65535 // group * group)

    def l1(a: int, b: int, b_buffers: int) -> int:
        return row_bytes * (a // sizes.window_area) * buffers + base_n * b * e * b_buffers

    a = b = group
    if (
        sizes.dk == 1
        and base_n >= chosen["singleCoreCin1"] * sizes.c0
        and buffers == 2
        and l1(group, whole, 1) <= platform.l1Size
    ):
        b, chosen["bl1Pbuffer"] = whole, 1
        reasons["bl1Pbuffer"] = (
            f"one window plane and {base_n * whole * e} bytes of weights stay in L1 for the whole walk"
        )
        reasons["stepKb"] = f"{whole // base_k} products: every k of the weights in one load"
    else:
        reasons["bl1Pbuffer"] = reasons["al1Pbuffer"]
    grown = True
    while grown:
        grown = False
        for grow_a in sorted((True, False), key=lambda grow_a: a > b if grow_a else b >= a):
            wider = (a + group, b) if grow_a else (a, b + group)
            if wider[0] <= most_a and wider[1] <= whole and l1(*wider, chosen["bl1Pbuffer"]) <= platform.l1Size:
                (a, b), grown = wider, True
                break
    chosen["stepKa"], chosen["stepKb"] = a // base_k, b // base_k
    used = l1(a, b, chosen["bl1Pbuffer"])
    reasons["stepKa"] = (
        f"one load holds {min(a // sizes.k_of_block, sizes.cout1)} of {sizes.cout1} channel blocks; "
        f"L1 then holds {used} of {platform.l1Size} bytes"
    )
    held = min(b // sizes.k_of_block, sizes.cout1)
    reasons.setdefault("stepKb", f"one load holds the weights of {held} of {sizes.cout1} channel blocks")


def search(sizes: TConv3DBackpropInputTiling, platform: PlatformInfo, cores: int) -> Cut | str:
    """The cheapest cut, or why there is none."""
    rows, width, base_m, base_n = candidate_cuts(sizes, platform)
    if rows.size == 0:
        return f"L0A, L0B and L0C cannot hold a tile of 16 x 16: {platform}"
    cycles = estimate(sizes, platform, cores, rows, width, base_m, base_n)
    large = is_large(sizes, platform, cores)
    if large:
        half_full = base_m * base_n * 8 >= platform.l0CSize
        if np.isfinite(cycles[half_full]).any():
            cycles = np.where(half_full, cycles, np.inf)
    # equal estimates: fewer single shapes, then wider tiles
    finalists = np.lexsort((-base_n, -base_m, -width, -rows, cycles))[:FINALISTS]
    uneven = [unevenness(sizes, cores, int(rows[one]), int(width[one])) for one in finalists]
    best = finalists[np.argmin(cycles[finalists] * uneven)]
    k_choice = choose_k(sizes, platform, int(base_m[best]), int(base_n[best])) if np.isfinite(cycles[best]) else None
    if k_choice is None:
        least = smallest_l1(sizes, base_m, base_n, np.full_like(base_m, 16), 1).min()
        return (
            f"L1 cannot hold the shortest loads of any tile: one window of gradOutput rows and one channel block of "
            f"weights need {least} bytes of {platform.l1Size}"
            if least > platform.l1Size
            else f"one channel block of k is hk * wk * c0 = {sizes.k_of_block}, above the 65535 an L1 position can hold"
        )
    chosen, reasons = describe(
        sizes, platform, cores, int(rows[best]), int(width[best]), int(base_m[best]), int(base_n[best]), k_choice, large
    )
    choose_steps(sizes, platform, chosen, reasons)
    return Cut(chosen, reasons)


def describe(
    sizes: TConv3DBackpropInputTiling,
    platform: PlatformInfo,
    cores: int,
    rows: int,
    width: int,
    base_m: int,
    base_n: int,
    k_choice: tuple[int, int],
    large: bool,
) -> tuple[dict[str, int], dict[str, str]]:
    """The fields of a cut and, for each, why."""
    base_k, buffers = k_choice
    m_pieces, n_pieces = ceil_div(sizes.hi, rows), ceil_div(sizes.cin1, width)
    blocks = sizes.batch * sizes.di * m_pieces * n_pieces
    used = min(blocks, cores)
    fields = {
        "singleCoreM": rows * sizes.wi,
        "singleCoreCin1": width,
        "singleCoreCin": min(sizes.cin, width * sizes.c0),
        "singleCoreCout1": sizes.cout1,
        "singleCoreCout": sizes.cout,
        "baseM": base_m,
        "baseN": base_n,
        "baseK": base_k,
        "al1Pbuffer": buffers,
        "bl1Pbuffer": buffers,
    }
    fill = base_m * base_n * 4 / platform.l0CSize
    rows_word = (
        "whole rows"
        if base_m % sizes.wi == 0
        else "an even part of a row"
        if sizes.wi % base_m == 0
        else f"{base_m / sizes.wi:.1f} rows"
    )
    reasons = {
        "singleCoreM": f"{rows} of {sizes.hi} rows (x {m_pieces}): {blocks} blocks in all, at most "
        f"{ceil_div(blocks, used)} on one of {used} cores",
        "singleCoreCin1": f"{width} of {sizes.cin1} channel blocks (x {n_pieces})",
        "singleCoreCin": "the channels in singleCoreCin1 blocks",
        "singleCoreCout1": "K is not split: no atomic adds",
        "singleCoreCout": "K is not split: no atomic adds",
        "baseM": f"{rows_word}; the tile fills {fill:.0%} of L0C" + (", at least half asked for" if large else ""),
        "baseN": f"{base_n} of {width * sizes.c0} channels of a single shape",
        "baseK": f"fewest products that L0A and L0B hold twice and whose loads fit L1: {base_k} of "
        f"{sizes.cout1 * sizes.k_of_block}",
        "al1Pbuffer": "loads overlap with products"
        if buffers == 2
        else "rescue: only single buffers fit L1, loads and products take turns",
    }
    return fields, reasons
