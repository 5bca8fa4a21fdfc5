"""The Ascend C tile kernels as executable models on the true memory layouts.

`simulate` runs a whole problem; `Conv3DBackpropInput` is the object a kernel author drives by hand.
"""

from convgrad.core.layouts import (
    element_fractal_z_3d,
    element_ndc1hwc0,
    from_fractal_z_3d,
    from_ndc1hwc0,
    index_fractal_z_3d,
    index_ndc1hwc0,
    to_fractal_z_3d,
    to_ndc1hwc0,
)

from .bin_files import read_bin, write_bin
from .compare_dump import DumpComparison, WrongTile, compare_dump
from .conv_type import ConvDtype, ConvFormat, ConvType, TPosition, bfloat16_t, float32_t, half, int32_t
from .core_split import Block, CoreGrid, flat_blocks, grid_blocks
from .coverage_filter import FilterCore, FilterCoverageReport, check_filter_kernel, run_filter_kernel
from .coverage_input import Core, CoverageReport, check_kernel, run_kernel
from .errors import AddressError, CallOrderError, CapacityError, TileKernelError, TilingError
from .filter_checks import check_filter_record
from .filter_record import Conv3DBackpropFilterTilingData, FilterBasicBlock, TConv3DDwTiling
from .filter_split import FilterBlock, filter_blocks
from .global_tensor import Fill, GlobalMemory, GlobalTensor
from .golden import GoldenTile, MemorySlice
from .golden_filter import FilterGolden
from .golden_input import Golden
from .input_checks import check_record
from .input_record import Conv3DBackpropInputTilingData, TConv3DBackpropInputTiling
from .kernel_filter import Conv3DBackpropFilter
from .kernel_input import Conv3DBackpropInput
from .ncdhw import finish_ncdhw
from .picture_filter import draw_filter_walk
from .picture_input import draw_walk
from .platform import PlatformInfo
from .simulate import InputSimulation, simulate
from .simulate_filter import FilterSimulation, simulate_filter
from .tiling_filter import Conv3dBpFilterTiling
from .tiling_input import Conv3DBpInputTiling
from .tiling_report import FieldReport
from .traffic import Traffic, TrafficReport
from .traffic_filter import FilterTrafficReport, filter_traffic_report
from .traffic_input import InputTrafficReport, traffic_report

__all__ = [
    "AddressError",
    "Block",
    "CallOrderError",
    "CapacityError",
    "Conv3DBackpropFilter",
    "Conv3DBackpropFilterTilingData",
    "Conv3DBackpropInput",
    "Conv3DBackpropInputTilingData",
    "Conv3DBpInputTiling",
    "Conv3dBpFilterTiling",
    "ConvDtype",
    "ConvFormat",
    "ConvType",
    "Core",
    "CoreGrid",
    "CoverageReport",
    "DumpComparison",
    "FieldReport",
    "Fill",
    "FilterBasicBlock",
    "FilterBlock",
    "FilterCore",
    "FilterCoverageReport",
    "FilterGolden",
    "FilterSimulation",
    "FilterTrafficReport",
    "GlobalMemory",
    "GlobalTensor",
    "Golden",
    "GoldenTile",
    "InputSimulation",
    "InputTrafficReport",
    "MemorySlice",
    "PlatformInfo",
    "TConv3DBackpropInputTiling",
    "TConv3DDwTiling",
    "TPosition",
    "TileKernelError",
    "TilingError",
    "Traffic",
    "TrafficReport",
    "WrongTile",
    "bfloat16_t",
    "check_filter_kernel",
    "check_filter_record",
    "check_kernel",
    "check_record",
    "compare_dump",
    "draw_filter_walk",
    "draw_walk",
    "element_fractal_z_3d",
    "element_ndc1hwc0",
    "filter_blocks",
    "filter_traffic_report",
    "finish_ncdhw",
    "flat_blocks",
    "float32_t",
    "from_fractal_z_3d",
    "from_ndc1hwc0",
    "grid_blocks",
    "half",
    "index_fractal_z_3d",
    "index_ndc1hwc0",
    "int32_t",
    "read_bin",
    "run_filter_kernel",
    "run_kernel",
    "simulate",
    "simulate_filter",
    "to_fractal_z_3d",
    "to_ndc1hwc0",
    "traffic_report",
    "write_bin",
]
