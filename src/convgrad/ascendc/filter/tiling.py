"""Conv3dBpFilterTiling: the host side object of the filter kernel, with a reason per field."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..device.conv_type import ConvDtype, ConvFormat, TPosition
from ..device.errors import TilingError
from ..device.platform import PlatformInfo
from ..shared.arguments import TileArguments
from ..shared.plan import Plan
from ..shared.tiling_host import TilingHost
from ..shared.tiling_record import ceil_div
from ..shared.tiling_report import field_reports
from .checks import broken_filter_checks, l1_bytes
from .record import Conv3DBackpropFilterTilingData, FilterBasicBlock, FilterParams, TConv3DBpFilterTiling
from .search import filter_search

OWN_REASONS = {
    "m0": "one fractal is 16 rows", "n0": "one fractal is 16 columns", "k0": "C0",
    "iterateOrder": "M fastest: the input, which is gathered, changes least",
    "channelSize": "32 bytes of channels", "cin1G": "cin / C0 rounded up", "cout1G": "cout rounded up to 16, by C0",
    "singleCoreDk": "a walk covers one window plane", "singleCoreGroup": "one group",
    "singleCoreBatch": "a walk covers one batch",
}  # fmt: skip


class Conv3dBpFilterTiling(TilingHost):
    """Set shapes and attributes (the last call wins), then `GetTiling(record)`: 0, or -1 with the cause in `reason`."""

    def __init__(self, platform: PlatformInfo | None = None, *, cores: int | None = None) -> None:
        super().__init__(platform, cores, weight=ConvDtype.FLOAT32, input=ConvFormat.NDC1HWC0)

    def SetWeightShape(self, cout: int, cin: int, d: int, h: int, w: int) -> None:
        """Channels and window."""
        self._cout, self._cin, self._window = cout, cin, (d, h, w)

    def SetInputShape(self, n: int, c: int, d: int, h: int, w: int) -> None:
        """Shape of the input."""
        self._batch, self._cin, self._input = n, c, (d, h, w)

    def SetGradOutputShape(self, n: int, c: int, d: int, h: int, w: int) -> None:
        """Shape of gradOutput."""
        self._batch, self._cout, self._out = n, c, (d, h, w)

    def GetTiling(self, tiling: Conv3DBackpropFilterTilingData) -> int:
        """Fill the record and give 0; or leave it alone, give -1 and say why in `reason`."""
        sizes = self._problem()
        if sizes is None:
            return -1
        cut = filter_search(sizes, self.platform, self.cores)
        if isinstance(cut, str):
            self.reason = cut
            return -1
        record, block, reasons = cut
        broken = broken_filter_checks(record, self.platform)
        if broken:
            self.reason = "; ".join(f"{row.demand}, got {got}" for row, got in broken)
            return -1
        tiling.dwTiling, tiling.basicBlockTiling = record, block
        tiling.params = FilterParams(totalL1Size=l1_bytes(record))
        self.report = field_reports(record, OWN_REASONS | reasons)
        return 0

    def _problem(self) -> TConv3DBpFilterTiling | None:
        """The record before anything is cut; None, with the cause in `reason`, when something is wrong with it."""
        self.report = ()
        self.reason = next((text for broken, text in self._rows() if broken), "")
        return None if self.reason else self._sizes()

    def _rows(self) -> list[tuple[bool, str]]:
        """Each demand with what to say when it is broken, in the documented order."""
        operands = [self._types["input"].dtype, self._types["gradOutput"].dtype]
        return [
            *self._attribute_rows(),
            (min(self._window) <= 0, f"the window must be above 0, got {self._window}"),
            (self._window[2] > 32, f"wk must be at most 32, got {self._window[2]}"),
            (self._batch <= 0, f"batch must be above 0, got {self._batch}"),
            (min(self._cin, *self._input) <= 0, f"input sizes must be above 0, got {self._cin}, {self._input}"),
            (min(self._cout, *self._out) <= 0, f"gradOutput sizes must be above 0, got {self._cout}, {self._out}"),
            self._size_row(self._input),
            (self._types["weight"].format is not ConvFormat.FRACTAL_Z_3D, "gradWeight must have layout FRACTAL_Z_3D"),
            (self._types["input"].format is not ConvFormat.NDC1HWC0, "input must have layout NDC1HWC0"),
            (max(self._stride[1:]) > 63, f"strides of rows and columns must be at most 63, got {self._stride[1:]}"),
            (max(self._dilation[1:]) > 255, f"dilations H and W must be at most 255, got {self._dilation[1:]}"),
            (max(self._padding[2:]) > 255, f"pads of rows and columns must be at most 255, got {self._padding[2:]}"),
            (max(self._window[1:]) > 511, f"hk and wk must be at most 511, got {self._window[1:]}"),
            (operands[0] is not operands[1] or operands[0] not in (ConvDtype.FLOAT16, ConvDtype.BF16),
             f"input and gradOutput must both be FLOAT16 or both BF16, got {operands[0].name} and {operands[1].name}"),
        ]  # fmt: skip

    def _sizes(self) -> TConv3DBpFilterTiling:
        """The record with every size set, before anything is cut."""
        return TConv3DBpFilterTiling(
            **self._shared_fields(self._input), cin1G=ceil_div(self._cin, 16), cout1G=ceil_div(self._cout, 16),
            channelSize=16, m0=16, k0=16, n0=16, singleCoreDk=1,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FilterPlan(Plan[TConv3DBpFilterTiling]):
    """A tiling with its basic block."""

    basic_block: FilterBasicBlock

    @property
    def single_shape(self) -> dict[str, int]:
        """What stands beside the record, by name: the basic block."""
        return asdict(self.basic_block)


def plan_filter(given: TileArguments) -> FilterPlan:
    """The cheapest tiling of a problem with its report; raises with the reason when there is none."""
    host, data = tiling_object(given), Conv3DBackpropFilterTilingData()
    if host.GetTiling(data) != 0:
        raise TilingError(f"GetTiling returned -1: {host.reason}", "tiling.refused")
    return FilterPlan(given, data.dwTiling, host.report, data.basicBlockTiling)


def uncut_record(given: TileArguments) -> TConv3DBpFilterTiling:
    """The record of a problem with every size set and nothing searched for; raises with the reason as `plan_filter`."""
    host = tiling_object(given)
    sizes = host._problem()
    if sizes is None:
        raise TilingError(f"GetTiling returned -1: {host.reason}", "tiling.refused")
    return sizes


def tiling_object(given: TileArguments) -> Conv3dBpFilterTiling:
    """The host side object with everything set; raises when the shapes do not agree."""
    input_shape, grad_output_shape, weight_shape = given.input_shape, given.grad_output_shape, given.weight_shape
    assert input_shape is not None  # gradWeight has no transpose mode
    (batch, cin, *_), (n, cout, *_) = input_shape, grad_output_shape
    if len(weight_shape) != 5 or batch != n or tuple(weight_shape[:2]) != (cout, cin):
        raise TilingError(
            f"batch and channels must agree: input {tuple(input_shape)}, gradOutput {tuple(grad_output_shape)}, weight "
            f"{tuple(weight_shape)}",
            "tiling.shapes",
        )
    host = Conv3dBpFilterTiling(given.platform, cores=given.cores)
    host.SetInputType(TPosition.GM, ConvFormat.NDC1HWC0, given.dtype)
    host.SetGradOutputType(TPosition.GM, ConvFormat.NDC1HWC0, given.dtype)
    host.SetWeightShape(*(int(size) for size in weight_shape))
    host.SetInputShape(*(int(size) for size in input_shape))
    host.SetGradOutputShape(*(int(size) for size in grad_output_shape))
    host.SetPadding(*given.padding)
    host.SetStride(*given.stride)
    host.SetDilation(*given.dilation)
    return host
