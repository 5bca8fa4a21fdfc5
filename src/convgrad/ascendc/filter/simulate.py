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
from ..shared.arguments import TileArguments, five, instance, operands, six_pads, three, whole
from ..shared.tiling_record import record_from_dict, require_same_problem
from ..shared.tiling_report import FieldReport
from .checks import check_filter_record
from .kernel import Conv3DBackpropFilter
from .record import FilterBasicBlock, TConv3DBpFilterTiling
from .search import with_block
from .split import FilterBlock, check_block, filter_plan_blocks
from .tiling import FilterPlan, plan_filter, uncut_record


@dataclass(frozen=True, slots=True)
class FilterSimulation:
    """gradWeight as (Cout, Cin, D, H, W) in float32, and everything that led to it."""

    grad_weight: NDArray[np.float32]
    tiling: TConv3DBpFilterTiling
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
    tiling: TConv3DBpFilterTiling | Mapping[str, int] | None = None, basic_block: FilterBasicBlock | None = None,
    staged: bool = False, platform: PlatformInfo | None = None,
) -> FilterSimulation:  # fmt: skip
    """gradWeight of a 3-D convolution by the tile kernel, all blocks of all cores, on NCDHW arrays."""
    x, go, code = operands(input, grad_output, dtype, ("input", "grad_output"))
    sizes = PlatformInfo() if platform is None else instance(platform, PlatformInfo, "platform")
    cores, staged = whole(cores, "cores"), arguments.flag("staged", staged)
    given = TileArguments(
        go.shape, five(weight_shape, "weight_shape"), x.shape, stride=three(stride, "stride"),
        padding=six_pads(padding), dilation=three(dilation, "dilation"), dtype=code, cores=cores, platform=sizes,
    )  # fmt: skip
    plan = plan_filter(given) if tiling is None and basic_block is None else own_plan(given, tiling, basic_block)
    return simulate_filter_plan(plan, x, go, staged=staged)


def own_plan(
    given: TileArguments, tiling: TConv3DBpFilterTiling | Mapping[str, int] | None, basic_block: FilterBasicBlock | None
) -> FilterPlan:
    """A plan from a record or a basic block of the user's own, or both; the one that is missing is searched for."""
    report: tuple[FieldReport, ...] = ()
    if tiling is None or basic_block is None:
        planned = plan_filter(given)
        record, block, report = planned.record, planned.basic_block, planned.report
    else:
        record = uncut_record(given)
    if basic_block is not None:
        block = instance(basic_block, FilterBasicBlock, "basic_block")
    if tiling is not None:
        own = tiling if isinstance(tiling, TConv3DBpFilterTiling) else record_from_dict(TConv3DBpFilterTiling, tiling)
        require_same_problem(own, record)
        record, report = own, ()
    check_block(record, block)
    record = with_block(record, block)
    check_filter_record(record, given.platform)
    return FilterPlan(given, record, report, block)


def simulate_filter_plan(
    plan: FilterPlan, input: NDArray[Any], grad_output: NDArray[Any], *, staged: bool = False
) -> FilterSimulation:
    """All blocks of all cores of a plan, on operands of its dtype."""
    given, record, blocks = plan.arguments, plan.record, filter_plan_blocks(plan)
    x_gm, go_gm = (layouts.to_ndc1hwc0(array, record.c0).reshape(-1) for array in (input, grad_output))
    gw_gm = np.zeros(record.grad_weight_size, np.float32)
    memory = (
        GlobalTensor(x_gm, name="input"),
        GlobalTensor(go_gm, name="gradOutput"),
        GlobalTensor(gw_gm, name="gradWeight"),
    )
    for core in sorted({one.core for one in blocks}):
        kernel = Conv3DBackpropFilter(*filter_types(given.dtype), staged=staged, platform=given.platform)
        run_filter_core(record, [one for one in blocks if one.core == core], kernel, *memory)
    shape = (record.cout, record.cin, record.dk, record.hk, record.wk)
    grad_weight = layouts.from_fractal_z_3d(gw_gm, shape, record.c0, check=bool(np.isfinite(gw_gm).all()))
    return FilterSimulation(
        grad_weight, record, plan.basic_block, plan.report, blocks, given.cores, gw_gm, x_gm, go_gm, given.dtype
    )


def run_filter_core(
    t: TConv3DBpFilterTiling, blocks: Sequence[FilterBlock], kernel: Conv3DBackpropFilter, input: GlobalTensor,
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
