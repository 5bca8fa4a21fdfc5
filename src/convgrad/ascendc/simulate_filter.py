"""Run every block of every core of the filter kernel on NCDHW arrays, and put gradWeight together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad import layouts

from .conv_type import ConvDtype, ConvFormat, ConvType, TPosition, float32_t, int32_t
from .core_split import flat_share
from .errors import TilingError
from .filter_checks import check_filter_record
from .filter_record import Conv3DBackpropFilterTilingData, FilterBasicBlock, TConv3DDwTiling
from .global_tensor import GlobalTensor
from .kernel_filter import Conv3DBackpropFilter
from .platform import PlatformInfo
from .problem_input import operands, six_pads, three
from .tiling_filter import Conv3dBpFilterTiling
from .tiling_record import ceil_div, record_from_dict
from .tiling_report import FieldReport


@dataclass(frozen=True, slots=True)
class FilterBlock:
    """One walk on one core: the axes' pieces, the start row and the three offsets."""

    core: int
    index: int
    batch: int
    plane: int
    window_plane: int
    M: int
    N: int
    K: int
    ho_start: int
    offset_a: int
    offset_b: int
    offset_c: int


@dataclass(frozen=True, slots=True)
class FilterSimulation:
    """gradWeight as (Cout, Cin, D, H, W) in float32, and everything that led to it."""

    grad_weight: NDArray[np.float32]
    tiling: TConv3DDwTiling
    basic_block: FilterBasicBlock
    report: tuple[FieldReport, ...]
    blocks: tuple[FilterBlock, ...]
    cores: int
    grad_weight_gm: NDArray[np.float32]

    @property
    def cores_used(self) -> int:
        """Cores with at least one block."""
        return len({block.core for block in self.blocks})


def filter_types(dtype: ConvDtype) -> tuple[ConvType, ...]:
    """The four type parameters of Conv3DBackpropFilter for one dtype."""
    gm = TPosition.GM
    return (ConvType(gm, ConvFormat.NDC1HWC0, dtype), ConvType(gm, ConvFormat.ND, int32_t),
            ConvType(gm, ConvFormat.NDC1HWC0, dtype), ConvType(gm, ConvFormat.FRACTAL_Z_3D, float32_t))  # fmt: skip


def filter_blocks(t: TConv3DDwTiling, block: FilterBasicBlock, cores: int) -> Iterator[FilterBlock]:
    """Every block, core by core; rows change fastest, then planes, batches, columns, channels, window planes.

    Blocks whose window plane looks outside the input (din < 0 or >= di) are left out.
    """
    rows = block.singleCoreK // t.wo
    pieces = (
        t.dk,
        ceil_div(t.weight_cout, block.singleCoreM),
        ceil_div(t.cin1G, block.singleCoreN // (t.window_area * t.c0)),
        t.batch,
        t.dout,
        ceil_div(t.ho, rows),
    )
    total = int(np.prod(pieces))
    for core in range(min(total, cores)):
        for index in flat_share(total, cores, core):
            kd, mi, ni, batch, plane, ki = (int(place) for place in np.unravel_index(index, pieces))
            din = plane * t.strideD - t.padFront + kd * t.dilationD
            if 0 <= din < t.di:
                yield make_filter_block(t, block, core, index, kd, mi, ni, batch, plane, ki, din)


def make_filter_block(
    t: TConv3DDwTiling, block: FilterBasicBlock, core: int, index: int, kd: int, mi: int, ni: int, batch: int,
    plane: int, ki: int, din: int,
) -> FilterBlock:  # fmt: skip
    """A block from its piece numbers."""
    single_cin = block.singleCoreN // t.window_area
    ho_start = ki * (block.singleCoreK // t.wo)
    m_start, cin_start = mi * block.singleCoreM, ni * single_cin
    input_row = max(ho_start * t.strideH - t.padUp, 0)
    return FilterBlock(
        core, index, batch, plane, kd,
        M=min(block.singleCoreM, t.weight_cout - m_start),
        N=min(single_cin, t.cin1G * t.c0 - cin_start) * t.window_area,
        K=min(block.singleCoreK, t.ho * t.wo - ho_start * t.wo),
        ho_start=ho_start,
        offset_a=((batch * t.dout + plane) * t.cout1 * t.c0 + m_start) * t.ho * t.wo + ho_start * t.wo * t.c0,
        offset_b=((batch * t.di + din) * t.cin1G * t.c0 + cin_start) * t.hi * t.wi + input_row * t.wi * t.c0,
        offset_c=(kd * t.cin1G * t.c0 + cin_start) * t.window_area * t.weight_cout + m_start * t.c0,
    )  # fmt: skip


def simulate_filter(
    input: ArrayLike, grad_output: ArrayLike, *, weight_shape: Sequence[int], stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] = 0, dilation: int | Sequence[int] = 1, cores: int = 24, dtype: object | None = None,
    tiling: TConv3DDwTiling | Mapping[str, int] | None = None, basic_block: FilterBasicBlock | None = None,
    staged: bool = False, platform: PlatformInfo | None = None,
) -> FilterSimulation:  # fmt: skip
    """gradWeight of a 3-D convolution by the tile kernel, all blocks of all cores, on NCDHW arrays."""
    x, go, code = operands(input, grad_output, dtype, ("input", "grad_output"))
    if len(weight_shape) != 5 or (weight_shape[0], weight_shape[1], x.shape[0]) != (
        go.shape[1],
        x.shape[1],
        go.shape[0],
    ):
        raise TilingError(
            f"batch and channels must agree: input {x.shape}, gradOutput {go.shape}, weight {tuple(weight_shape)}",
            "tiling.shapes",
        )
    sizes = platform or PlatformInfo()
    host, data = Conv3dBpFilterTiling(sizes, cores=cores), Conv3DBackpropFilterTilingData()
    host.SetInputType(TPosition.GM, ConvFormat.NDC1HWC0, code)
    host.SetGradOutputType(TPosition.GM, ConvFormat.NDC1HWC0, code)
    host.SetWeightShape(*(int(size) for size in weight_shape))
    host.SetInputShape(*x.shape)
    host.SetGradOutputShape(*go.shape)
    host.SetPadding(*six_pads(padding))
    host.SetStride(*three(stride, "stride"))
    host.SetDilation(*three(dilation, "dilation"))
    if host.GetTiling(data) != 0:
        raise TilingError(f"GetTiling returned -1: {host.reason}", "tiling.refused")
    record, block, report = data.dwTiling, basic_block or data.basicBlockTiling, host.report
    if tiling is not None:
        record = tiling if isinstance(tiling, TConv3DDwTiling) else record_from_dict(TConv3DDwTiling, tiling)
        report = ()
    check_block(record, block)
    record = replace(
        record,
        singleCoreCout=block.singleCoreM,
        singleCoreHo=block.singleCoreK // record.wo,
        singleCoreCin=max(block.singleCoreN // (record.window_area * record.c0), 1) * record.c0,
    )
    check_filter_record(record, sizes)
    blocks = tuple(filter_blocks(record, block, cores))
    x_gm = GlobalTensor(layouts.to_ndc1hwc0(x, 16).reshape(-1), name="input")
    go_gm = GlobalTensor(layouts.to_ndc1hwc0(go, 16).reshape(-1), name="gradOutput")
    gw_gm = GlobalTensor(np.zeros(record.grad_weight_size, np.float32), name="gradWeight")
    for core in sorted({one.core for one in blocks}):
        kernel = Conv3DBackpropFilter(*filter_types(code), staged=staged, platform=sizes)
        run_filter_core(record, [one for one in blocks if one.core == core], kernel, x_gm, go_gm, gw_gm)
    stored = gw_gm.memory.data
    grad_weight = layouts.from_fractal_z_3d(stored, tuple(weight_shape), 16, check=bool(np.isfinite(stored).all()))  # type: ignore[arg-type]
    return FilterSimulation(grad_weight, record, block, report, blocks, cores, stored)


def check_block(t: TConv3DDwTiling, block: FilterBasicBlock) -> None:
    """Raise unless a single shape is whole channel blocks, whole columns of cin blocks and whole rows."""
    per_cin = t.window_area * t.c0
    if (
        block.singleCoreM <= 0
        or block.singleCoreM % 16
        or block.singleCoreN <= 0
        or block.singleCoreN % per_cin
        or (block.singleCoreK <= 0 or block.singleCoreK % t.wo)
    ):
        raise TilingError(
            f"a basic block must be multiples of 16, hk * wk * c0 = {per_cin} and wo = {t.wo}, got {block}",
            "tiling.basic_block",
        )


def run_filter_core(
    t: TConv3DDwTiling, blocks: Sequence[FilterBlock], kernel: Conv3DBackpropFilter, input: GlobalTensor,
    grad_output: GlobalTensor, grad_weight: GlobalTensor,
) -> None:  # fmt: skip
    """What one core does: the documented sequence for each of its blocks."""
    kernel.Init(t)
    for block in blocks:
        kernel.SetSingleShape(block.M, block.N, block.K)
        kernel.SetStartPosition(block.ho_start)
        kernel.SetInput(input[block.offset_b])
        kernel.SetGradOutput(grad_output[block.offset_a])
        while kernel.Iterate():
            kernel.GetTensorC(grad_weight[block.offset_c])
        kernel.ctx.isFirstIter_ = True
    kernel.End()
