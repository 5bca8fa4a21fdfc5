"""Golden functions of the two kernels below the operator: five axes always, storage formats, size tensors.

Strides and dilations have five entries in the order of `data_format`, or three (depth, height, width); pads are front,
back, top, bottom, left, right, or one number per axis. A size tensor of zeros leaves the shape to
`output_ori_shapes`. Operands that a kit widened (float64 for float32, or `golden_mode="Promote"`) give sums without a
last rounding, in the dtype received. Kernels know no contract: only the product's numerics count here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convgrad.calls.decide import decide
from convgrad.calls.requests import Attributes, Rules, conv_backward_request
from convgrad.core import arguments, dtypes, layouts, precision, rounding
from convgrad.core.arguments import number, told
from convgrad.core.arrays import AnyArray, as_array
from convgrad.core.operands import Operands
from convgrad.core.plan import Result
from convgrad.core.request import TensorSpec
from convgrad.core.status import ConvGradError
from convgrad.core.tensor import Tensor, read_dtype
from convgrad.lab.judging import runs
from convgrad.lab.kits.expected import recognise
from convgrad.lab.kits.soc import product_of
from convgrad.lab.kits.tensors import entry_at, given_back, read

AXES = ("NCDHW", "NDHWC", "DHWCN")
_PACKED = {6: "NDC1HWC0", 4: "FRACTAL_Z_3D"}
"""By rank, under whatever name: an array of six axes is in channel blocks, one of four is a packed weight."""


def conv3d_backprop_input_v2(
    input_size: Any, filter: Any, out_backprop: Any, strides: Sequence[int] = (1,) * 5,
    pads: Sequence[int] = (0,) * 6, dilations: Sequence[int] = (1,) * 5, groups: int = 1, data_format: str = "NDHWC",
    enable_hf32: bool = False, **kit: Any,
) -> list[Any]:
    """Expected y of Conv3DBackpropInputV2: the gradient of the input."""
    call = _Call(strides, pads, dilations, groups, data_format, enable_hf32, kit)
    w = call.operand("filter", filter, 1)
    g = call.operand("out_backprop", out_backprop, 2)
    shape = call.size("input_size", input_size)
    return call.result(Result.GRAD_INPUT, g, Tensor(np.zeros(shape, g.data.dtype), g.dtype), w, filter)


def conv3d_backprop_filter_v2(
    x: Any, filter_size: Any, out_backprop: Any, strides: Sequence[int] = (1,) * 5, pads: Sequence[int] = (0,) * 6,
    dilations: Sequence[int] = (1,) * 5, groups: int = 1, data_format: str = "NDHWC", enable_hf32: bool = False,
    **kit: Any,
) -> list[Any]:
    """Expected y of Conv3DBackpropFilterV2: the gradient of the weight, in float32 unless the kit tells otherwise."""
    call = _Call(strides, pads, dilations, groups, data_format, enable_hf32, kit)
    fine = call.operand("x", x, 0)
    g = call.operand("out_backprop", out_backprop, 2)
    shape = call.size("filter_size", filter_size)
    return call.result(Result.GRAD_WEIGHT, g, fine, Tensor(np.zeros(shape, g.data.dtype), g.dtype), x)


class _Call:
    """What both kernels read of a call."""

    def __init__(
        self, strides: object, pads: object, dilations: object, groups: object, data_format: object, hf32: object,
        kit: dict[str, Any],
    ) -> None:
        self.kit = kit
        self.product = product_of(kit.get("product"), kit.get("full_soc_version"), kit.get("short_soc_version"))
        self.order = _axes("data_format", data_format)
        self.strides, self.dilations = self._spatial("strides", strides), self._spatial("dilations", dilations)
        self.pads = _pads(pads)
        self.groups = number("groups", groups)
        self.hf32 = arguments.flag("enable_hf32", hf32)

    def _spatial(self, name: str, values: object) -> tuple[int, ...]:
        found = [number(name, v) for v in arguments.listed(name, values)]
        if len(found) == 3:
            return tuple(found)
        if len(found) != 5:
            raise ConvGradError(f"{name} must have 5 or 3 entries, got {len(found)}", rule=f"{name}.length")
        return tuple(found[self.order.index(axis)] for axis in "DHW")

    def _told(self, key: str, place: int) -> Any:
        return entry_at(self.kit.get(key), place)

    def _format(self, key: str, place: int) -> str:
        """A tensor's format by name; kits tell it by name, in any case, or by the vendor's number."""
        entry = self._told(key, place)
        if isinstance(entry, int):
            try:
                return layouts.from_acl(entry).name
            except ValueError as error:
                raise ConvGradError(f"{key}: {error}", rule="format.name", value=entry) from None
        return entry.strip().upper() if isinstance(entry, str) else ""

    def _order(self, keys: Sequence[str], place: int) -> str:
        """The axes of a tensor: the first of these lists that names five, else those of `data_format`."""
        return next((name for name in (self._format(key, place) for key in keys) if name in AXES), self.order)

    def operand(self, name: str, given: object, place: int) -> Tensor:
        """An input in N, C, D, H, W, whatever its storage format."""
        tensor = read(name, given, self._told("input_dtypes", place))
        array = tensor.data
        if array.ndim in _PACKED:
            array = self._unpacked(name, array, place)
        elif array.ndim == 5:
            array = _canonical(array, self._order(("input_formats", "input_ori_formats"), place))
        else:
            raise ConvGradError(f"{name} must have 4, 5 or 6 axes, got {array.ndim}", rule=f"{name}.shape")
        return Tensor(np.ascontiguousarray(array), tensor.dtype)

    def _unpacked(self, name: str, array: AnyArray, place: int) -> AnyArray:
        shape = _shape_of("input_ori_shapes", self._told("input_ori_shapes", place))
        if shape is None:
            message = f"{name} is packed ({_PACKED[array.ndim]}): input_ori_shapes must tell its five sizes"
            raise ConvGradError(message, rule=f"{name}.shape", value=array.shape)
        n, c, d, h, w = _in_order(shape, self._order(("input_ori_formats",), place))
        try:
            if array.ndim == 6:
                return layouts.from_ndc1hwc0(array, c, check=False)
            self._refuse_groups(name)
            return layouts.from_fractal_z_3d(array, (n, c, d, h, w), array.shape[-1], check=False)
        except ValueError as error:
            raise ConvGradError(f"{name}: {error}", rule=f"{name}.shape", value=array.shape) from None

    def _refuse_groups(self, name: str) -> None:
        if self.groups != 1:
            message = f"{name}: FRACTAL_Z_3D with {self.groups} groups packs several groups into a block; not modelled"
            raise ConvGradError(message, rule=f"{name}.format", value=self.groups)

    def size(self, name: str, given: object) -> tuple[int, ...]:
        """The result's N, C, D, H, W: the size tensor, or the output's own shape where that is all zero."""
        sizes = _shape_of(name, as_array(given, name).reshape(-1).tolist() if given is not None else None)
        if sizes is not None and any(sizes):
            return _in_order(sizes, self.order)
        shape = _shape_of("output_ori_shapes", self._told("output_ori_shapes", 0))
        if shape is None:
            message = f"{name} tells no shape (five sizes, not all zero) and output_ori_shapes has none"
            raise ConvGradError(message, rule=f"{name}.value", value=None if given is None else told(given))
        return _in_order(shape, self._order(("output_ori_formats",), 0))

    def result(self, result: Result, g: Tensor, x: Tensor, w: Tensor, like: object) -> list[Any]:
        """The one output, in the format and dtype the kit tells."""
        received = g.dtype.name
        found = recognise((g, x, w))
        promoted = found.promoted or self.kit.get("golden_mode") == "Promote"
        g, x, w = found.operands
        is_input = result is Result.GRAD_INPUT
        attributes = Attributes(
            None, self.strides, self.pads, self.dilations, False, 0, self.groups, (is_input, not is_input, False)
        )
        go, fine, window = (TensorSpec(t.shape, t.dtype.name, "NCDHW") for t in (g, x, w))
        request = conv_backward_request(go, fine, window, attributes, Rules("keep", "cpu"))
        compute = precision.promote(g.dtype.name, w.dtype.name if is_input else x.dtype.name)
        if compute == "float32" and self.hf32:
            compute = precision.hf32_of(self.product)
        plan = decide(request, compute).accepted()
        sums = runs.golden(plan, Operands(g.data, x.data, w.data))[result]
        stored = received if promoted else self._output_dtype(is_input, w if is_input else x)
        if not promoted:
            sums = rounding.round_to(plan.steps[0].rounded_to, sums)
        array = rounding.store(stored, sums)
        narrow = self._before_widening(received, is_input) if promoted else stored
        return [given_back(self._formatted(array, is_input, narrow), stored, like)]

    def _output_dtype(self, is_input: bool, like: Tensor) -> str:
        name = self._told("output_dtypes", 0)
        if name is not None:
            return read_dtype("output_dtypes", name).name
        return like.dtype.name if is_input else "float32"

    def _before_widening(self, received: str, is_input: bool) -> str:
        """The dtype of y on the device, which a kit that widens does not tell: lanes of a block follow it."""
        name = self._told("output_dtypes", 0)
        if name is not None and read_dtype("output_dtypes", name).bits < 32:
            return read_dtype("output_dtypes", name).name
        return "float16" if is_input and received == "float32" else "float32"

    def _formatted(self, array: AnyArray, is_input: bool, narrow: str) -> AnyArray:
        name = self._format("output_formats", 0)
        if name == "NDC1HWC0" or (name == "FRACTAL_Z_3D" and not is_input):
            shape = self._told("output_shapes", 0)
            c0 = shape[-1] if isinstance(shape, (list, tuple)) and shape else 256 // dtypes.find(narrow).bits
            if name == "NDC1HWC0":
                return layouts.to_ndc1hwc0(array, number("output_shapes", c0))
            self._refuse_groups("y")
            return layouts.to_fractal_z_3d(array, number("output_shapes", c0))
        order = self._order(("output_formats", "output_ori_formats"), 0)
        return np.ascontiguousarray(array.transpose([layouts.CANONICAL.index(axis) for axis in order]))


def _axes(name: str, value: object) -> str:
    order = arguments.text(name, value)
    if order not in AXES:
        raise ConvGradError(f"{name} must be one of {', '.join(AXES)}, got {told(value)}", rule=f"{name}.name")
    return order


def _pads(values: object) -> tuple[tuple[int, int], ...]:
    found = [number("pads", v) for v in arguments.listed("pads", values)]
    if len(found) == 3:
        return tuple((p, p) for p in found)
    if len(found) != 6:
        raise ConvGradError(f"pads must have 6 or 3 entries, got {len(found)}", rule="pads.length")
    return (found[0], found[1]), (found[2], found[3]), (found[4], found[5])


def _shape_of(name: str, value: object) -> tuple[int, ...] | None:
    if not isinstance(value, (list, tuple)) or len(value) != 5:
        return None
    return tuple(number(name, n) for n in value)


def _in_order(shape: tuple[int, ...], order: str) -> tuple[int, int, int, int, int]:
    n, c, d, h, w = (shape[order.index(axis)] for axis in layouts.CANONICAL)
    return n, c, d, h, w


def _canonical(array: AnyArray, order: str) -> AnyArray:
    return np.transpose(array, [order.index(axis) for axis in layouts.CANONICAL])
