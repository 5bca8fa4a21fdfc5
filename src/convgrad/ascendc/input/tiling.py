"""Conv3DBpInputTiling: the host side object that turns shapes into a tiling record, with a reason per field."""

from __future__ import annotations

from dataclasses import fields, replace

from ..device.conv_type import ConvDtype, ConvFormat, TPosition
from ..device.errors import TilingError
from ..device.platform import PlatformInfo
from ..shared.arguments import TileArguments, five
from ..shared.plan import Plan
from ..shared.tiling_host import TilingHost
from ..shared.tiling_record import ceil_div
from ..shared.tiling_report import FIXED_REASONS, FieldReport, field_reports
from .checks import broken_checks, leaves_elements_unwritten, trailing_pad
from .record import Conv3DBackpropInputTilingData, TConv3DBackpropInputTiling
from .search import search

AXES = "DHW"


class Conv3DBpInputTiling(TilingHost):
    """Set shapes and attributes, then `GetTiling(record)`: 0, or -1 with the cause in `reason`.

    Shapes of the forward convolution. Without SetInputShape the object works in transpose mode and infers the size from
    gradOutput and the output padding.
    """

    def __init__(self, platform: PlatformInfo | None = None, *, cores: int | None = None) -> None:
        super().__init__(platform, cores, weight=ConvDtype.FLOAT16, input=ConvFormat.NCDHW)
        self._transposed = True
        self._output_padding = (0, 0, 0)
        self._zeroing = 0

    # ---- setters, vendor spelling

    def SetWeightShape(self, cout: int, cin: int, d: int, h: int, w: int) -> bool:
        """Channels and window; False and no change when a channel count was set to another value."""
        if self._conflicts(cin, self._cin) or self._conflicts(cout, self._cout):
            return False
        self._cout, self._cin, self._window = cout, cin, (d, h, w)
        return True

    def SetInputShape(self, n: int, c: int, d: int, h: int, w: int) -> bool:
        """Shape of gradInput; leaves transpose mode for good. False when n or c was set to another value."""
        if self._conflicts(c, self._cin) or self._conflicts(n, self._batch):
            return False
        self._batch, self._cin, self._input, self._transposed = n, c, (d, h, w), False
        return True

    def SetGradOutputShape(self, n: int, c: int, d: int, h: int, w: int) -> bool:
        """Shape of gradOutput; False when n or c was set to another value."""
        if self._conflicts(n, self._batch) or self._conflicts(c, self._cout):
            return False
        self._batch, self._cout, self._out = n, c, (d, h, w)
        return True

    def SetOutputPadding(self, d: int, h: int, w: int) -> bool:
        """Output padding of a transposed convolution; False after SetInputShape."""
        if not self._transposed:
            return False
        self._output_padding = (d, h, w)
        return True

    def GetTiling(self, tiling: Conv3DBackpropInputTilingData) -> int:
        """Fill `tiling.conv3DDxTiling` and give 0; or leave it alone, give -1 and say why in `reason`."""
        sizes = self._problem()
        if sizes is None:
            return -1
        cut = search(sizes, self.platform, self.cores)
        if isinstance(cut, str):
            self.reason = cut
            return -1
        record = replace(sizes, **cut.fields)
        broken = broken_checks(record, self.platform)
        if broken:
            self.reason = "; ".join(f"{row.demand}, got {got}" for row, got in broken)
            return -1
        tiling.conv3DDxTiling = record
        self.report = input_report(record, cut.reasons, self._zeroing_cause(record), self._transposed)
        self._zeroing = record.initOutputFlag
        return 0

    # ---- inside

    def _problem(self) -> TConv3DBackpropInputTiling | None:
        """The record before anything is cut; None, with the cause in `reason`, when something is wrong with it."""
        self.report = ()
        self.reason = self._refusal()
        return None if self.reason else self._sizes()

    @staticmethod
    def _conflicts(new: int, old: int) -> bool:
        return old > 0 and new != old

    def _input_sizes(self) -> tuple[int, int, int]:
        """The size given, or in transpose mode the one that follows from gradOutput and the output padding."""
        if not self._transposed:
            return self._input
        d, h, w = (
            (out - 1) * stride - low - high + dilation * (window - 1) + extra + 1
            for out, stride, low, high, dilation, window, extra in zip(
                self._out,
                self._stride,
                self._padding[::2],
                self._padding[1::2],
                self._dilation,
                self._window,
                self._output_padding,
                strict=True,
            )
        )
        return d, h, w

    def _refusal(self) -> str:
        """The first thing wrong with what was set, in the documented order; empty when nothing is."""
        for broken, text in self._attribute_rows() + self._size_rows():
            if broken:
                return text
        sizes = self._input_sizes()
        for axis in range(3):
            text = self._axis_refusal(axis, sizes[axis])
            if text:
                return text
        if sizes[1] * sizes[2] > 2**32 - 1:
            return f"hi * wi must be at most 2^32 - 1, got {sizes[1] * sizes[2]}"
        return ""

    def _size_rows(self) -> list[tuple[bool, str]]:
        weight, grad_output = self._types["weight"], self._types["gradOutput"]
        dtypes = {one.dtype for one in self._types.values()}
        return [
            (min(self._output_padding) < 0, f"output padding must be 0 or more, got {self._output_padding}"),
            (min(self._window) <= 0, f"SetWeightShape: the window must be above 0, got {self._window}"),
            (self._batch <= 0, f"batch must be above 0, got {self._batch}"),
            (self._cout <= 0, f"cout must be above 0, got {self._cout}"),
            (min(self._out) <= 0, f"SetGradOutputShape: sizes must be above 0, got {self._out}"),
            (self._cin <= 0, f"cin must be above 0, got {self._cin}"),
            self._size_row(self._input_sizes()),
            (
                weight.format is not ConvFormat.FRACTAL_Z_3D,
                f"weight must have layout FRACTAL_Z_3D, got {weight.format.name}",
            ),
            (
                grad_output.format is not ConvFormat.NDC1HWC0,
                f"gradOutput must have layout NDC1HWC0, got {grad_output.format.name}",
            ),
            (
                len(dtypes) > 1 or not dtypes <= {ConvDtype.FLOAT16, ConvDtype.BF16, ConvDtype.FLOAT32},
                f"weight, input and gradOutput must share one dtype out of FLOAT16, BF16, FLOAT32, got "
                f"{[one.dtype.name for one in self._types.values()]}",
            ),
        ]

    def _axis_refusal(self, axis: int, size: int) -> str:
        """Sizes, limits and pads of one axis."""
        name, out, window = AXES[axis], self._out[axis], self._window[axis]
        stride, dilation = self._stride[axis], self._dilation[axis]
        low, high = self._padding[2 * axis], self._padding[2 * axis + 1]
        if size <= 0:
            return f"{name}: the size of gradInput must be above 0, got {size}"
        reach = (window - 1) * dilation + 1
        rest = size + low + high - reach - (self._output_padding[axis] if self._transposed else 0)
        expected = rest // stride + 1
        if out != expected or rest < 0:
            return (
                f"{name}: gradOutput must be (size {size} + pads {low} + {high} - reach {reach}) / stride {stride} "
                f"+ 1 = {expected}, got {out}"
            )
        if axis == 0 and stride > window:
            return f"D: stride must be at most the window, got stride {stride}, window {window}"
        if stride > (255 if axis == 0 else 63):
            return f"{name}: stride must be at most {255 if axis == 0 else 63}, got {stride}"
        limit = min(255, window - 1)
        if max(low, high) > limit:
            return f"{name}: each pad must be at most min(255, window - 1) = {limit}, got {low} and {high}"
        before, after = (window - 1) * dilation - low, size - out * stride + low
        if axis > 0 and not 0 <= before <= 255:
            return f"{name}: backprop pad (window - 1) * dilation - pad must be in 0...255, got {before}"
        if not -255 <= after <= 255:
            return f"{name}: size - out * stride + pad must be in -255...255, got {after}"
        return ""

    def _sizes(self) -> TConv3DBackpropInputTiling:
        """The record with every size and derived pad set, before anything is cut."""
        given = self._shared_fields(self._input_sizes())
        c0 = 8 if self._types["input"].dtype is ConvDtype.FLOAT32 else 16
        cout1, cin1 = ceil_div(self._cout, c0), ceil_div(self._cin, c0)
        sizes = TConv3DBackpropInputTiling(
            **given, cout1=cout1, cin1=cin1, cout1G=cout1, cin1G=cin1, c0=c0, c0Bits=c0.bit_length() - 1,
            backpropPadTail=trailing_pad(given["di"], given["dout"], given["strideD"], given["padFront"]),
            backpropPadUp=(given["hk"] - 1) * given["dilationH"] - given["padUp"],
            backpropPadDown=trailing_pad(given["hi"], given["ho"], given["strideH"], given["padUp"]),
            backpropPadLeft=(given["wk"] - 1) * given["dilationW"] - given["padLeft"],
            backpropPadRight=trailing_pad(given["wi"], given["wo"], given["strideW"], given["padLeft"]),
            baseD=1, baseBatch=1, baseGroup=1, stepBatch=1, stepGroup=1, singleCoreDin=1, singleCoreHo=1,
        )  # fmt: skip
        return replace(sizes, initOutputFlag=int(bool(self._zeroing_cause(sizes))))

    def _zeroing_cause(self, t: TConv3DBackpropInputTiling) -> str:
        """Why gradInput must be zeroed before the tiles are stored; empty when every element is written."""
        rest_d = (t.di + t.padFront + t.padBack - (t.dk - 1) * t.dilationD - 1) % t.strideD
        rest_h = (t.hi + t.padUp + t.padDown - (t.hk - 1) * t.dilationH - 1) % t.strideH
        head = (t.dk - 1) * t.dilationD - t.padFront
        causes = [
            (self._zeroing == 1, "an earlier GetTiling of this object set it"),
            (rest_d > t.padBack, f"{rest_d - t.padBack} planes lie past the last window"),
            (rest_h > t.padDown, f"{rest_h - t.padDown} rows lie past the last window"),
            (t.strideH > t.hk, "strideH above hk: some rows lie between windows"),
            (t.dilationD > 1, "dilationD above 1: some planes may lie between window planes"),
            (self._transposed and (t.backpropPadDown > 0 or head > 0), "transpose mode with pads below or in front"),
            (leaves_elements_unwritten(t), "some planes or rows are reached by no window"),
        ]
        return next((text for holds, text in causes if holds), "")


def plan_input(given: TileArguments) -> Plan[TConv3DBackpropInputTiling]:
    """The cheapest tiling of a problem with its report; raises with the reason when there is none."""
    host, data = tiling_object(given), Conv3DBackpropInputTilingData()
    if host.GetTiling(data) != 0:
        raise TilingError(f"GetTiling returned -1: {host.reason}", "tiling.refused")
    return Plan(given, data.conv3DDxTiling, host.report)


def uncut_record(given: TileArguments) -> TConv3DBackpropInputTiling:
    """The record of a problem with every size set and nothing searched for; raises with the reason as `plan_input`."""
    host = tiling_object(given)
    sizes = host._problem()
    if sizes is None:
        raise TilingError(f"GetTiling returned -1: {host.reason}", "tiling.refused")
    return sizes


def tiling_object(given: TileArguments) -> Conv3DBpInputTiling:
    """The host side object with everything set; raises when the shapes do not agree."""
    n, cout, *out = (int(size) for size in given.grad_output_shape)
    w_cout, w_cin, *window = (int(size) for size in given.weight_shape)
    host = Conv3DBpInputTiling(given.platform, cores=given.cores)
    host.SetWeightType(TPosition.GM, ConvFormat.FRACTAL_Z_3D, given.dtype)
    host.SetInputType(TPosition.GM, ConvFormat.NDC1HWC0, given.dtype)
    host.SetGradOutputType(TPosition.GM, ConvFormat.NDC1HWC0, given.dtype)
    host.SetPadding(*given.padding)
    host.SetStride(*given.stride)
    host.SetDilation(*given.dilation)
    agreed = host.SetWeightShape(w_cout, w_cin, *window) and host.SetGradOutputShape(n, cout, *out)
    shape = given.input_shape
    if shape is None:
        host.SetOutputPadding(*given.output_padding)
    else:
        agreed = agreed and host.SetInputShape(*five(shape, "input_shape"))
    if not agreed:
        raise TilingError(
            f"batch and channels must agree: gradOutput {tuple(given.grad_output_shape)}, weight "
            f"{tuple(given.weight_shape)}, input {shape and tuple(shape)}",
            "tiling.shapes",
        )
    return host


def input_report(
    record: TConv3DBackpropInputTiling, reasons: dict[str, str], zeroing: str, transposed: bool
) -> tuple[FieldReport, ...]:
    """The report of Conv3DBackpropInput; `reasons` are those of the search, `zeroing` why gradInput must be zeroed."""
    derived = {
        "backpropPadUp": "(hk - 1) * dilationH - padUp",
        "backpropPadLeft": "(wk - 1) * dilationW - padLeft",
        "backpropPadDown": "hi - expanded rows + padUp",
        "backpropPadRight": "wi - expanded columns + padLeft",
        "backpropPadTail": "di - expanded planes + padFront",
        "initOutputFlag": zeroing or "every element of gradInput is written by a tile",
        "cout1": "cout / c0 rounded up",
        "cin1": "cin / c0 rounded up",
        "cout1G": "cout1, one group",
        "cin1G": "cin1, one group",
        "c0": "32 bytes of channels",
        "c0Bits": "log2(c0)",
        "iterateOrder": "M fastest: weights change least",
        "reserved": "never written",
        "singleCoreHo": "not read by the kernel",
        "singleCoreDin": "a walk covers one plane",
        "singleCoreBatch": "a single shape covers one batch",
    }
    if transposed:
        derived |= dict.fromkeys(("di", "hi", "wi"), "inferred from gradOutput, transpose mode")
    once = {one.name: "always 1 here" for one in fields(record) if one.name.startswith(("base", "step", "single"))}
    return field_reports(record, once | FIXED_REASONS | derived | reasons)
