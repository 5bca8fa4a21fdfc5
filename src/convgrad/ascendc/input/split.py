"""From a block index to the arguments of the calls: the flat block list and the fixed grid of cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..device.errors import TilingError
from ..shared.arguments import instance, some_cores
from ..shared.plan import Plan
from ..shared.split import flat_share
from ..shared.tiling_record import ceil_div
from .record import TConv3DBackpropInputTiling


@dataclass(frozen=True, slots=True)
class Block:
    """One single shape on one core: shape, start position and the three offsets (gradInput in NDC1HWC0)."""

    core: int
    index: int
    batch: int
    plane: int
    m_piece: int
    n_piece: int
    k_piece: int
    M: int
    K: int
    N: int
    first_row: int
    ho_start: int
    offset_a: int
    offset_b: int
    offset_c: int
    atomic: bool = False

    def offset_ncdhw(self, t: TConv3DBackpropInputTiling) -> int:
        """The gradInput offset of this block in NCDHW, for `finish_ncdhw`."""
        channel = self.n_piece * t.singleCoreCin
        return ((self.batch * t.cin + channel) * t.di * t.hi + self.first_row) * t.wi


def make_block(
    t: TConv3DBackpropInputTiling, core: int, index: int, batch: int, plane: int, mi: int, ni: int, ki: int = 0
) -> Block | None:
    """A block from its piece numbers; None when no gradOutput row reaches it, or nothing is left for it."""
    rows_per = t.singleCoreM // t.wi
    first_row = mi * rows_per
    unreached = max(0, t.backpropPadDown - (t.hk - 1) * t.dilationH)
    rows = min(rows_per, t.hi - first_row)
    if first_row + rows == t.hi:
        rows -= unreached
    cin1 = min(t.singleCoreCin1, t.cin1 - ni * t.singleCoreCin1)
    cout1 = min(t.singleCoreCout1, t.cout1 - ki * t.singleCoreCout1)
    ho_start = first_row - t.backpropPadUp
    first_out = max(0, ceil_div(ho_start, t.strideH))
    if rows <= 0 or cin1 <= 0 or cout1 <= 0 or first_out >= t.ho:
        return None
    first_channel = ni * t.singleCoreCin1 * t.c0
    plane_out, plane_in = t.ho * t.wo, t.hi * t.wi
    return Block(
        core, index, batch, plane, mi, ni, ki,
        M=rows * t.wi, K=t.dk * cout1 * t.k_of_block, N=min(cin1 * t.c0, t.cin - first_channel),
        first_row=first_row, ho_start=ho_start,
        offset_a=(batch * t.dout * t.cout1 + ki * t.singleCoreCout1) * t.c0 * plane_out + first_out * t.wo * t.c0,
        offset_b=first_channel * t.window_area * t.weight_cout + ki * t.singleCoreCout1 * t.c0 * 16,
        offset_c=(batch * t.di * t.cin1 * t.c0 + first_channel) * plane_in + first_row * t.wi * t.c0,
        atomic=t.singleCoreCout1 < t.cout1,
    )  # fmt: skip


def flat_block_count(t: TConv3DBackpropInputTiling) -> int:
    """Blocks of the flat list: batches, planes, pieces of rows, pieces of channels."""
    return t.batch * t.di * ceil_div(t.hi * t.wi, t.singleCoreM) * ceil_div(t.cin1, t.singleCoreCin1)


def flat_blocks(t: TConv3DBackpropInputTiling, cores: int) -> Iterator[Block]:
    """Every block of the flat list, core by core; channel pieces change fastest, pieces of rows slowest.

    b = (mi * batch * di + batch index * di + plane) * n pieces + ni
    """
    instance(t, TConv3DBackpropInputTiling, "t")
    cores = some_cores(cores)
    if t.singleCoreCout1 < t.cout1:
        raise TilingError(
            f"the flat block list does not split K; singleCoreCout1 {t.singleCoreCout1} must be cout1 "
            f"{t.cout1}, or use a CoreGrid",
            "split.k",
        )
    n_pieces, total = ceil_div(t.cin1, t.singleCoreCin1), flat_block_count(t)
    for core in range(min(total, cores)):
        for index in flat_share(total, cores, core):
            mi, rest = divmod(index, t.batch * t.di * n_pieces)
            image, ni = divmod(rest, n_pieces)
            batch, plane = divmod(image, t.di)
            block = make_block(t, core, index, batch, plane, mi, ni)
            if block is not None:
                yield block


def plan_blocks(plan: Plan[TConv3DBackpropInputTiling]) -> tuple[Block, ...]:
    """Every block of a plan: the flat list."""
    return tuple(flat_blocks(plan.record, plan.arguments.cores))


@dataclass(frozen=True, slots=True)
class CoreGrid:
    """Six factors; the block index is a mixed-radix number, k fastest, then n, m, batch, d, group."""

    kDim: int = 1
    nDim: int = 1
    mDim: int = 1
    batchDim: int = 1
    dDim: int = 1
    groupDim: int = 1

    def __post_init__(self) -> None:
        if min(self.kDim, self.nDim, self.mDim, self.batchDim, self.dDim) < 1 or self.groupDim != 1:
            raise TilingError(f"grid factors must be 1 or more, groupDim 1, got {self}", "split.grid")

    @property
    def cores(self) -> int:
        """Cores the grid needs."""
        return self.kDim * self.nDim * self.mDim * self.batchDim * self.dDim

    def record(self, t: TConv3DBackpropInputTiling) -> TConv3DBackpropInputTiling:
        """The record with the single-core sizes of this grid, as the host side sets them."""
        cin1, cout1 = ceil_div(t.cin1, self.nDim), ceil_div(t.cout1, self.kDim)
        return replace(
            t,
            singleCoreBatch=ceil_div(t.batch, self.batchDim),
            singleCoreM=ceil_div(t.hi, self.mDim) * t.wi,
            singleCoreCin1=cin1,
            singleCoreCin=min(t.cin, cin1 * t.c0),
            singleCoreDin=ceil_div(t.di, self.dDim),
            singleCoreCout1=cout1,
            singleCoreCout=min(t.cout, cout1 * t.c0),
        )

    def indices(self, core: int) -> tuple[int, int, int, int, int]:
        """(k, n, m, batch, d) of a core."""
        rest, k = divmod(core, self.kDim)
        rest, n = divmod(rest, self.nDim)
        rest, m = divmod(rest, self.mDim)
        d, batch = divmod(rest, self.batchDim)
        return k, n, m, batch, d


def grid_blocks(t: TConv3DBackpropInputTiling, grid: CoreGrid) -> Iterator[Block]:
    """Every block of a fixed grid, core by core; a core loops over its batches and planes. `t` is `grid.record(t)`."""
    instance(t, TConv3DBackpropInputTiling, "t")
    instance(grid, CoreGrid, "grid")
    index = 0
    for core in range(grid.cores):
        ki, ni, mi, batch_piece, d_piece = grid.indices(core)
        for batch in range(batch_piece * t.singleCoreBatch, min(t.batch, (batch_piece + 1) * t.singleCoreBatch)):
            for plane in range(d_piece * t.singleCoreDin, min(t.di, (d_piece + 1) * t.singleCoreDin)):
                if mi * t.singleCoreM < t.hi * t.wi:
                    block = make_block(t, core, index, batch, plane, mi, ni, ki)
                    index += 1
                    if block is not None:
                        yield block
