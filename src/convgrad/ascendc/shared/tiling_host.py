"""What both host side tiling objects share: types, pads, strides and dilations as set, and the fields they fill."""

from __future__ import annotations

from ..device.conv_type import ConvDtype, ConvFormat, ConvType, TPosition
from ..device.platform import PlatformInfo
from .tiling_record import PROBLEM_FIELDS
from .tiling_report import FieldReport


class TilingHost:
    """Attributes of the forward convolution, vendor spelling; the shapes are each object's own business."""

    def __init__(self, platform: PlatformInfo | None, cores: int | None, weight: ConvDtype, input: ConvFormat) -> None:
        self.platform = platform or PlatformInfo()
        self.cores = self.platform.cores if cores is None else cores
        self.reason = ""
        self.report: tuple[FieldReport, ...] = ()
        self._batch = self._cin = self._cout = -1
        self._input = self._window = self._out = (-1, -1, -1)
        self._padding = (0, 0, 0, 0, 0, 0)
        self._stride = self._dilation = (1, 1, 1)
        self._types = {
            "weight": ConvType(TPosition.GM, ConvFormat.FRACTAL_Z_3D, weight),
            "input": ConvType(TPosition.GM, input, ConvDtype.FLOAT16),
            "gradOutput": ConvType(TPosition.GM, ConvFormat.NDC1HWC0, ConvDtype.FLOAT16),
        }

    def SetWeightType(self, pos: TPosition, format: ConvFormat, dtype: ConvDtype) -> None:
        """Position, layout and dtype of weight, or gradWeight."""
        self._types["weight"] = ConvType(pos, format, dtype)

    def SetInputType(self, pos: TPosition, format: ConvFormat, dtype: ConvDtype) -> None:
        """Position, layout and dtype of the input; the input kernel never checks its layout."""
        self._types["input"] = ConvType(pos, format, dtype)

    def SetGradOutputType(self, pos: TPosition, format: ConvFormat, dtype: ConvDtype) -> None:
        """Position, layout and dtype of gradOutput."""
        self._types["gradOutput"] = ConvType(pos, format, dtype)

    def SetPadding(self, front: int, back: int, up: int, down: int, left: int, right: int) -> None:
        """The six pads of the forward convolution."""
        self._padding = (front, back, up, down, left, right)

    def SetStride(self, d: int, h: int, w: int) -> None:
        """Strides of the forward convolution."""
        self._stride = (d, h, w)

    def SetDilation(self, d: int, h: int, w: int) -> None:
        """Dilations of the forward convolution."""
        self._dilation = (d, h, w)

    def _attribute_rows(self) -> list[tuple[bool, str]]:
        """Each demand on the attributes, with what to say when it is broken."""
        return [
            (self.cores <= 0, f"the number of cores must be above 0, got {self.cores}"),
            (min(self._padding) < 0, f"pads must be 0 or more, got {self._padding}"),
            (min(self._stride) <= 0, f"strides must be above 0, got {self._stride}"),
            (min(self._dilation) <= 0, f"dilations must be above 0, got {self._dilation}"),
        ]

    def _size_row(self, sizes: tuple[int, int, int]) -> tuple[bool, str]:
        """The demand that every size fits its field; `sizes` are those of the input."""
        given = (self._batch, self._cin, self._cout, *sizes, *self._out, *self._window)
        too_large = [size for size in given if size >= 2**32]
        return bool(too_large), f"sizes must be below 2^32, got {too_large}"

    def _shared_fields(self, sizes: tuple[int, int, int]) -> dict[str, int]:
        """The fields that follow at once from what was set; `sizes` are those of the input."""
        given = (self._batch, self._cin, self._cout, *self._out, *sizes, *self._window, *self._stride, *self._dilation)
        once = ("group", "cl0Pbuffer", "stepM", "stepN", "iterateOrder", "singleCoreBatch", "singleCoreGroup")
        return (
            dict(zip(PROBLEM_FIELDS, (*given, *self._padding), strict=True))
            | dict.fromkeys(once, 1)
            | dict.fromkeys(("al0Pbuffer", "bl0Pbuffer"), 2)
        )
