"""Run every block of every core of the filter kernel on NCDHW arrays, and put gradWeight together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad.core import arguments, layouts

from ..device.conv_type import ConvDtype, ConvFormat, ConvType, TPosition, float32_t, int32_t
from ..device.global_tensor import GlobalTensor
from ..device.platform import PlatformInfo
from ..shared.arguments import five, instance, operands, six_pads, three, whole
from ..shared.tiling_record import record_from_dict, require_same_problem
from ..shared.tiling_report import FieldReport
from .checks import check_filter_record
from .kernel import Conv3DBackpropFilter
from .record import FilterBasicBlock, TConv3DDwTiling
from .search import with_block
from .split import FilterBlock, check_block, filter_blocks
from .tiling import plan_filter


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
    input_gm: NDArray[Any]
    grad_output_gm: NDArray[Any]
    dtype: ConvDtype

    @property
    def cores_used(self) -> int:
        """Cores with at least one block."""
        return len({block.core for block in self.blocks})


def filter_types(dtype: ConvDtype) -> tuple[ConvType, ...]:
    """The four type parameters of Conv3DBackpropFilter for one dtype."""
    gm = TPosition.GM
    return (ConvType(gm, ConvFormat.NDC1HWC0, dtype), ConvType(gm, ConvFormat.ND, int32_t),
            ConvType(gm, ConvFormat.NDC1HWC0, dtype), ConvType(gm, ConvFormat.FRACTAL_Z_3D, float32_t))  # fmt: skip


def simulate_filter(
    input: ArrayLike, grad_output: ArrayLike, *, weight_shape: Sequence[int], stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] = 0, dilation: int | Sequence[int] = 1, cores: int = 24, dtype: object | None = None,
    tiling: TConv3DDwTiling | Mapping[str, int] | None = None, basic_block: FilterBasicBlock | None = None,
    staged: bool = False, platform: PlatformInfo | None = None,
) -> FilterSimulation:  # fmt: skip
    """gradWeight of a 3-D convolution by the tile kernel, all blocks of all cores, on NCDHW arrays."""
    x, go, code = operands(input, grad_output, dtype, ("input", "grad_output"))
    sizes = PlatformInfo() if platform is None else instance(platform, PlatformInfo, "platform")
    cores, staged = whole(cores, "cores"), arguments.flag("staged", staged)
    planned, planned_block, report = plan_filter(
        x.shape, go.shape, five(weight_shape, "weight_shape"), stride=three(stride, "stride"),
        padding=six_pads(padding), dilation=three(dilation, "dilation"), dtype=code, cores=cores, platform=sizes,
    )  # fmt: skip
    block = planned_block if basic_block is None else instance(basic_block, FilterBasicBlock, "basic_block")
    record = planned if tiling is None else own_filter_tiling(tiling, planned)
    check_block(record, block)
    record = with_block(record, block)
    check_filter_record(record, sizes)
    blocks = tuple(filter_blocks(record, block, cores))
    x_gm, go_gm = (layouts.to_ndc1hwc0(array, record.c0).reshape(-1) for array in (x, go))
    gw_gm = np.zeros(record.grad_weight_size, np.float32)
    memory = (
        GlobalTensor(x_gm, name="input"),
        GlobalTensor(go_gm, name="gradOutput"),
        GlobalTensor(gw_gm, name="gradWeight"),
    )
    for core in sorted({one.core for one in blocks}):
        kernel = Conv3DBackpropFilter(*filter_types(code), staged=staged, platform=sizes)
        run_filter_core(record, [one for one in blocks if one.core == core], kernel, *memory)
    shape = (record.cout, record.cin, record.dk, record.hk, record.wk)
    grad_weight = layouts.from_fractal_z_3d(gw_gm, shape, record.c0, check=bool(np.isfinite(gw_gm).all()))
    return FilterSimulation(
        grad_weight, record, block, report if tiling is None else (), blocks, cores, gw_gm, x_gm, go_gm, code
    )


def own_filter_tiling(given: TConv3DDwTiling | Mapping[str, int], planned: TConv3DDwTiling) -> TConv3DDwTiling:
    """A record of the user's own, compared with the problem it is used for."""
    record: TConv3DDwTiling = given if isinstance(given, TConv3DDwTiling) else record_from_dict(TConv3DDwTiling, given)
    require_same_problem(record, planned)
    return record


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
