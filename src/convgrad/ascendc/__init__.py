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

from .device.bin_files import read_bin, write_bin
from .device.conv_type import ConvDtype, ConvFormat, ConvType, TPosition, bfloat16_t, float32_t, half, int32_t
from .device.errors import AddressError, CallOrderError, CapacityError, TileKernelError, TilingError
from .device.global_tensor import Fill, GlobalMemory, GlobalTensor
from .device.platform import PlatformInfo
from .filter.checks import check_filter_record
from .filter.coverage import FilterCore, FilterCoverageReport, check_filter_kernel, run_filter_kernel
from .filter.golden import FilterGolden
from .filter.kernel import Conv3DBackpropFilter
from .filter.picture import draw_filter_walk
from .filter.record import Conv3DBackpropFilterTilingData, FilterBasicBlock, TConv3DBpFilterTiling, TConv3DDwTiling
from .filter.simulate import FilterSimulation, simulate_filter
from .filter.split import FilterBlock, filter_blocks
from .filter.tiling import Conv3dBpFilterTiling
from .filter.traffic import FilterTrafficReport, filter_traffic_report
from .input.checks import check_record
from .input.coverage import Core, CoverageReport, check_kernel, run_kernel
from .input.golden import Golden
from .input.kernel import Conv3DBackpropInput, finish_ncdhw
from .input.picture import draw_walk
from .input.record import Conv3DBackpropInputTilingData, TConv3DBackpropInputTiling
from .input.simulate import InputSimulation, simulate
from .input.split import Block, CoreGrid, flat_blocks, grid_blocks
from .input.tiling import Conv3DBpInputTiling
from .input.traffic import InputTrafficReport, traffic_report
from .shared.compare_dump import DumpComparison, WrongTile, compare_dump
from .shared.golden import GoldenTile, MemorySlice
from .shared.record_bytes import tiling_from_bytes, tiling_to_bytes
from .shared.tiling_report import FieldReport
from .shared.traffic import Traffic, TrafficReport

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
    "TConv3DBpFilterTiling",
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
    "tiling_from_bytes",
    "tiling_to_bytes",
    "to_fractal_z_3d",
    "to_ndc1hwc0",
    "traffic_report",
    "write_bin",
]
