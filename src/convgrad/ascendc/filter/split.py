"""From a block index of Conv3DBackpropFilter to the arguments of the calls.

Everything accumulates, so window planes, channels, columns, batches, planes and rows are all shared out. Here depth and
batch are the caller's, and every offset holds them:

    din        = plane * strideD - padFront + kd * dilationD            outside 0...di - 1: nothing to do
    gradOutput = (batch * dout + plane) * Cout1 * C0 * Ho * Wo + first channel * Ho * Wo + hoStart * Wo * C0
    input      = (batch * di + din) * Cin1 * C0 * Hi * Wi + first cin * Hi * Wi + max(hoStart * sH - padUp, 0) * Wi * C0
    gradWeight = (kd * Cin1 * C0 + first cin) * Kh * Kw * Nco + first channel * C0,    Nco = cout rounded up to 16
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ..device.errors import TilingError
from ..shared.arguments import instance, some_cores
from ..shared.split import flat_share
from ..shared.tiling_record import ceil_div
from .record import FilterBasicBlock, TConv3DBpFilterTiling
from .tiling import FilterPlan


@dataclass(frozen=True, slots=True)
class FilterBlock:
    """One walk on one core: the axes' pieces, the start row and the three offsets."""

    core: int
    index: int
    batch: int
    plane: int
    window_plane: int
    m_start: int
    cin_start: int
    M: int
    N: int
    K: int
    ho_start: int
    offset_a: int
    offset_b: int
    offset_c: int

    def rows(self, t: TConv3DBpFilterTiling) -> range:
        """The gradOutput rows this walk sums over."""
        return range(self.ho_start, self.ho_start + self.K // t.wo)

    def describe(self, t: TConv3DBpFilterTiling) -> str:
        """What part of the sum this walk is."""
        rows = self.rows(t)
        return f"batch {self.batch}, plane {self.plane}, rows {rows.start}...{rows.stop - 1}"


def filter_pieces(t: TConv3DBpFilterTiling, block: FilterBasicBlock) -> tuple[int, ...]:
    """Pieces of each axis: window planes, channels, columns, batches, planes, rows; the last changes fastest."""
    return (
        t.dk,
        ceil_div(t.weight_cout, block.singleCoreM),
        ceil_div(t.cin1G, block.singleCoreN // (t.window_area * t.c0)),
        t.batch,
        t.dout,
        ceil_div(t.ho, block.singleCoreK // t.wo),
    )


def filter_blocks(t: TConv3DBpFilterTiling, block: FilterBasicBlock, cores: int) -> Iterator[FilterBlock]:
    """Every block, core by core, in even runs; those whose window plane looks outside the input are none."""
    instance(t, TConv3DBpFilterTiling, "t")
    instance(block, FilterBasicBlock, "block")
    cores = some_cores(cores)
    every = product(*(range(count) for count in filter_pieces(t, block)))
    places = [place for place in every if t.input_plane(place[4], place[0]) is not None]
    for core in range(min(len(places), cores)):
        for index in flat_share(len(places), cores, core):
            yield make_filter_block(t, block, core, index, places[index])


def filter_plan_blocks(plan: FilterPlan) -> tuple[FilterBlock, ...]:
    """Every block of a plan."""
    return tuple(filter_blocks(plan.record, plan.basic_block, plan.arguments.cores))


def make_filter_block(
    t: TConv3DBpFilterTiling, block: FilterBasicBlock, core: int, index: int, pieces: tuple[int, ...]
) -> FilterBlock:
    """A block from its piece numbers."""
    kd, mi, ni, batch, plane, ki = pieces
    din = t.input_plane(plane, kd)
    assert din is not None
    single_cin = block.singleCoreN // t.window_area
    ho_start = ki * (block.singleCoreK // t.wo)
    m_start, cin_start = mi * block.singleCoreM, ni * single_cin
    input_row = max(ho_start * t.strideH - t.padUp, 0)
    return FilterBlock(
        core, index, batch, plane, kd, m_start, cin_start,
        M=min(block.singleCoreM, t.weight_cout - m_start),
        N=min(single_cin, t.cin1G * t.c0 - cin_start) * t.window_area,
        K=min(block.singleCoreK, t.ho * t.wo - ho_start * t.wo),
        ho_start=ho_start,
        offset_a=((batch * t.dout + plane) * t.cout1 * t.c0 + m_start) * t.ho * t.wo + ho_start * t.wo * t.c0,
        offset_b=((batch * t.di + din) * t.cin1G * t.c0 + cin_start) * t.hi * t.wi + input_row * t.wi * t.c0,
        offset_c=(kd * t.cin1G * t.c0 + cin_start) * t.window_area * t.weight_cout + m_start * t.c0,
    )  # fmt: skip


def check_block(t: TConv3DBpFilterTiling, block: FilterBasicBlock) -> None:
    """Raise unless a single shape is whole channel blocks, whole columns of cin blocks and whole rows."""
    per_cin = t.window_area * t.c0
    units = ((block.singleCoreM, 16), (block.singleCoreN, per_cin), (block.singleCoreK, t.wo))
    if any(size <= 0 or size % unit for size, unit in units):
        raise TilingError(
            f"a basic block must be multiples of 16, hk * wk * c0 = {per_cin} and wo = {t.wo}, got {block}",
            "tiling.basic_block",
        )
