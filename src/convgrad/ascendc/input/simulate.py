"""Run every block of every core of a tile kernel on NCDHW arrays, and put the gradient together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgrad.core import arguments, layouts

from ..device.conv_type import ConvDtype, ConvFormat, ConvType, TPosition, int32_t
from ..device.errors import TilingError
from ..device.global_tensor import GlobalTensor
from ..device.platform import PlatformInfo
from ..shared.arguments import TileArguments, instance, operands, six_pads, three, whole
from ..shared.plan import Plan
from ..shared.tiling_record import record_from_dict, require_same_problem
from ..shared.tiling_report import FieldReport
from .checks import check_record
from .kernel import Conv3DBackpropInput, finish_ncdhw
from .record import TConv3DBackpropInputTiling
from .split import Block, CoreGrid, grid_blocks, plan_blocks
from .tiling import plan_input, uncut_record


@dataclass(frozen=True, slots=True)
class InputSimulation:
    """gradInput in NCDHW, and everything that led to it."""

    grad_input: NDArray[Any]
    tiling: TConv3DBackpropInputTiling
    report: tuple[FieldReport, ...]
    blocks: tuple[Block, ...]
    cores: int
    grad_input_gm: NDArray[Any]
    grad_output_gm: NDArray[Any]
    weight_gm: NDArray[Any]
    dtype: ConvDtype

    @property
    def cores_used(self) -> int:
        """Cores with at least one block."""
        return len({block.core for block in self.blocks})


def input_types(dtype: ConvDtype, layout: ConvFormat = ConvFormat.NDC1HWC0) -> tuple[ConvType, ...]:
    """The four type parameters of Conv3DBackpropInput for one dtype."""
    gm = TPosition.GM
    return (
        ConvType(gm, ConvFormat.FRACTAL_Z_3D, dtype),
        ConvType(gm, ConvFormat.ND, int32_t),
        ConvType(gm, ConvFormat.NDC1HWC0, dtype),
        ConvType(gm, layout, dtype),
    )


def run_core(
    t: TConv3DBackpropInputTiling,
    blocks: Sequence[Block],
    kernel: Conv3DBackpropInput,
    grad_output: GlobalTensor,
    weight: GlobalTensor,
    grad_input: GlobalTensor,
    workspace: GlobalTensor | None = None,
) -> None:
    """What one core does: the documented sequence for each of its blocks. A workspace asks for NCDHW."""
    kernel.Init(t)
    shape: tuple[int, int, int] | None = None
    for block in blocks:
        if shape != (block.M, block.K, block.N):
            shape = (block.M, block.K, block.N)
            kernel.SetSingleShape(*shape)
        kernel.SetStartPosition(block.plane, block.ho_start)
        kernel.SetGradOutput(grad_output[block.offset_a])
        kernel.SetWeight(weight[block.offset_b])
        while kernel.Iterate():
            if workspace is None:
                kernel.GetTensorC(grad_input[block.offset_c], int(block.atomic))
            else:
                kernel.GetTensorC(workspace)
                finish_ncdhw(kernel, workspace, grad_input[block.offset_ncdhw(t)])
        kernel.ctx.isFirstIter_ = True
    kernel.End()


def simulate(
    grad_output: ArrayLike,
    weight: ArrayLike,
    *,
    input_shape: Sequence[int] | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    output_padding: int | Sequence[int] = 0,
    cores: int = 24,
    dtype: object | None = None,
    tiling: TConv3DBackpropInputTiling | Mapping[str, int] | None = None,
    grid: CoreGrid | None = None,
    layout: ConvFormat = ConvFormat.NDC1HWC0,
    staged: bool = False,
    saturate: bool = False,
    platform: PlatformInfo | None = None,
) -> InputSimulation:
    """gradInput of a 3-D convolution by the tile kernel, all blocks of all cores, on NCDHW arrays.

    Without `input_shape` it is a transposed convolution of `grad_output` with `output_padding`. The output starts as
    NaN wherever the tiling does not ask for zeroing, so an element that no tile writes shows.
    """
    go, wt, code = operands(grad_output, weight, dtype, ("grad_output", "weight"))
    sizes = PlatformInfo() if platform is None else instance(platform, PlatformInfo, "platform")
    layout = instance(layout, ConvFormat, "layout")
    cores = whole(cores, "cores")
    staged, saturate = arguments.flag("staged", staged), arguments.flag("saturate", saturate)
    given = TileArguments(
        go.shape,
        wt.shape,
        input_shape,
        stride=three(stride, "stride"),
        padding=six_pads(padding),
        dilation=three(dilation, "dilation"),
        output_padding=three(output_padding, "output_padding"),
        dtype=code,
        cores=cores,
        platform=sizes,
    )
    plan = plan_input(given) if tiling is None else own_plan(given, tiling)
    return simulate_plan(plan, go, wt, grid=grid, layout=layout, staged=staged, saturate=saturate)


def own_plan(
    given: TileArguments, tiling: TConv3DBackpropInputTiling | Mapping[str, int]
) -> Plan[TConv3DBackpropInputTiling]:
    """A plan from a record of the user's own: checked, and compared with the problem it is used for. No search."""
    sizes = uncut_record(given)
    record = (
        tiling
        if isinstance(tiling, TConv3DBackpropInputTiling)
        else record_from_dict(TConv3DBackpropInputTiling, tiling)
    )
    check_record(record, given.platform)
    require_same_problem(record, sizes)
    return Plan(given, record, ())


def simulate_plan(
    plan: Plan[TConv3DBackpropInputTiling],
    grad_output: NDArray[Any],
    weight: NDArray[Any],
    *,
    grid: CoreGrid | None = None,
    layout: ConvFormat = ConvFormat.NDC1HWC0,
    staged: bool = False,
    saturate: bool = False,
) -> InputSimulation:
    """All blocks of all cores of a plan, on operands of its dtype."""
    given = plan.arguments
    record = plan.record if grid is None else instance(grid, CoreGrid, "grid").record(plan.record)
    blocks = plan_blocks(plan) if grid is None else tuple(grid_blocks(record, grid))
    if layout is ConvFormat.NCDHW and any(block.atomic for block in blocks):
        raise TilingError("K cannot be split over cores (kDim above 1) when gradInput is NCDHW", "split.k")
    go_gm = layouts.to_ndc1hwc0(grad_output, record.c0).reshape(-1)
    wt_gm = np.ascontiguousarray(layouts.to_fractal_z_3d(weight, record.c0)).reshape(-1)
    gi_gm = fresh_output(record, layout, grad_output.dtype)
    memory = (
        GlobalTensor(go_gm, name="gradOutput"),
        GlobalTensor(wt_gm, name="weight"),
        GlobalTensor(gi_gm, name="gradInput"),
    )
    used = sorted({block.core for block in blocks})
    workspace = None
    if layout is ConvFormat.NCDHW:
        raw_tiles = np.zeros((max(used, default=0) + 1) * record.baseM * record.baseN, grad_output.dtype)
        workspace = GlobalTensor(raw_tiles, name="workspace")
    for core in used:
        kernel = Conv3DBackpropInput(
            *input_types(given.dtype, layout), block_idx=core, staged=staged, saturate=saturate, platform=given.platform
        )
        run_core(record, [block for block in blocks if block.core == core], kernel, *memory, workspace)
    grad_input = as_ncdhw(record, layout, gi_gm)
    return InputSimulation(grad_input, record, plan.report, blocks, given.cores, gi_gm, go_gm, wt_gm, given.dtype)


def fresh_output(t: TConv3DBackpropInputTiling, layout: ConvFormat, storage: np.dtype[Any]) -> NDArray[Any]:
    """gradInput before the kernel: zeros where the tiling or a split K asks for them, else NaN that would show."""
    ncdhw = t.batch * t.cin * t.di * t.hi * t.wi
    zeroed = t.initOutputFlag == 1 or t.singleCoreCout1 < t.cout1
    return np.full(ncdhw if layout is ConvFormat.NCDHW else t.grad_input_size, 0 if zeroed else np.nan, storage)


def as_ncdhw(t: TConv3DBackpropInputTiling, layout: ConvFormat, flat: NDArray[Any]) -> NDArray[Any]:
    """gradInput as an NCDHW array. Pad lanes are checked unless a NaN or infinity was about, which spreads to them."""
    if layout is ConvFormat.NCDHW:
        return flat.reshape(t.batch, t.cin, t.di, t.hi, t.wi)
    packed = flat.reshape(t.batch, t.di, t.cin1, t.hi, t.wi, t.c0)
    return layouts.from_ndc1hwc0(packed, t.cin, check=bool(np.isfinite(flat).all()))
