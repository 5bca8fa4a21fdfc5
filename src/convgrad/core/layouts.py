"""Memory layouts: the order of a tensor's axes, and the two packed layouts of the tile kernel.

Canonical order is N, C, D, H, W, always five axes; an axis that a layout lacks has size one (NCL keeps its
length in W). A weight is read under the same letters: N its output channels, C its input channels, D, H and
W its window.

A packed layout stores channels in blocks of C0 lanes, the last block filled up with zeros (pad lanes).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import dtypes
from convgrad.core.arguments import flag, listed, number
from convgrad.core.arrays import as_array
from convgrad.core.dtypes import Dtype
from convgrad.core.geometry import INT64_MAX

Array = NDArray[Any]
Shape = tuple[int, int, int, int, int]

CANONICAL = "NCDHW"
N0 = 16  # output channels per block of a FRACTAL_Z_3D weight, whatever the dtype
_BLOCK_BYTES = 32  # of one C0 block
_MOST_LANES = 1 << 16


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout; `axes` names its axes by canonical letters, or is None when they depend on the tensor."""

    name: str
    acl_code: int | None  # aclFormat; None: not a format of its own there
    axes: str | None
    packed: bool = False

    def __str__(self) -> str:
        return self.name


ALL: tuple[Layout, ...] = (
    Layout("NCHW", 0, "NCHW"),
    Layout("NHWC", 1, "NHWC"),
    Layout("ND", 2, None),  # axes by rank: NC, NCL, NCHW, NCDHW
    Layout("NC1HWC0", 3, None, packed=True),
    Layout("FRACTAL_Z", 4, None, packed=True),
    Layout("HWCN", 16, "HWCN"),
    Layout("NDHWC", 27, "NDHWC"),
    Layout("FRACTAL_NZ", 29, None, packed=True),
    Layout("NCDHW", 30, "NCDHW"),
    Layout("NDC1HWC0", 32, None, packed=True),
    Layout("FRACTAL_Z_3D", 33, None, packed=True),
    Layout("NC", 35, "NC"),
    Layout("NCL", 47, "NCW"),
    Layout("TBC", None, "WNC"),  # time, batch, channels
)

_BY_NAME = {row.name: row for row in ALL}
_BY_ACL_CODE = {row.acl_code: row for row in ALL if row.acl_code is not None}
_ND_AXES = {2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}


def find(name: str | Layout) -> Layout:
    """The row of a name, in any case and with or without ACL_ or ACL_FORMAT_; a row is returned as it is."""
    if isinstance(name, Layout):
        return name
    key = name.strip().upper().removeprefix("ACL_").removeprefix("FORMAT_")
    if key not in _BY_NAME:
        raise ValueError(f"unknown layout {name!r}; known: {', '.join(_BY_NAME)}")
    return _BY_NAME[key]


OTHER_NAMES: dict[int, str] = {
    -1: "UNDEFINED", 12: "NC1HWC0_C04", 50: "FRACTAL_NZ_C0_16", 51: "FRACTAL_NZ_C0_32", 52: "FRACTAL_NZ_C0_2",
    53: "FRACTAL_NZ_C0_4", 54: "FRACTAL_NZ_C0_8",
}  # fmt: skip
"""aclFormats that no rule accepts and nothing here converts: a tensor can have one, and the refusal says its name."""


def name_of(layout: int | str) -> str:
    """The name of an aclFormat told by its number or its name; a number the vendor has not is `codeN`."""
    if not isinstance(layout, str):
        row = _BY_ACL_CODE.get(layout)
        return row.name if row else OTHER_NAMES.get(layout, f"code{layout}")
    key = layout.strip().upper().removeprefix("ACL_").removeprefix("FORMAT_")
    return key if key in OTHER_NAMES.values() else find(layout).name


def from_acl(code: int) -> Layout:
    """The row of an aclFormat; ValueError when the code is not in the table."""
    if code not in _BY_ACL_CODE:
        known = ", ".join(f"{row.acl_code} {row.name}" for row in _BY_ACL_CODE.values())
        raise ValueError(f"unknown aclFormat {code}; known: {known}")
    return _BY_ACL_CODE[code]


def to_canonical(layout: Layout | str, array: Array) -> Array:
    """A five-axis N, C, D, H, W view of an array; writing to it writes to the array."""
    axes = _axes(find(layout), array.ndim)
    order = [axes.index(letter) for letter in CANONICAL if letter in axes]
    missing = [place for place, letter in enumerate(CANONICAL) if letter not in axes]
    return np.expand_dims(array.transpose(order), missing)


def from_canonical(layout: Layout | str, array: Array, rank: int | None = None) -> Array:
    """The view of a five-axis N, C, D, H, W array in a layout; ND needs the rank to give."""
    row = find(layout)
    axes = _axes(row, len(row.axes or "") if rank is None else rank)
    missing = [place for place, letter in enumerate(CANONICAL) if letter not in axes]
    if array.ndim != 5 or any(array.shape[place] != 1 for place in missing):
        raise ValueError(f"{row} cannot hold a canonical array of shape {array.shape}")
    kept = [letter for letter in CANONICAL if letter in axes]
    return np.transpose(array.squeeze(tuple(missing)), [kept.index(letter) for letter in axes])


def _axes(layout: Layout, rank: int) -> str:
    if layout.packed:
        raise ValueError(f"{layout} is packed: use its own to_/from_ functions")
    axes = _ND_AXES.get(rank) if layout.axes is None else layout.axes
    if axes is None or len(axes) != rank:
        expected = "2 to 5" if layout.axes is None else str(len(layout.axes))
        raise ValueError(f"{layout} has {expected} axes, the array {rank}")
    return axes


def block_channels(dtype: Dtype | str) -> int:
    """C0: channels per block of NDC1HWC0 and FRACTAL_Z_3D: 16 for float16 and bfloat16, 8 for float32."""
    return _BLOCK_BYTES // dtypes.find(dtype).bytes


# ---- NDC1HWC0: shape (N, D, C1, H, W, C0), channel c = c1 * C0 + lane


def to_ndc1hwc0(array: Array, c0: int) -> Array:
    """An NCDHW array packed into (N, D, C1, H, W, C0), pad lanes zero."""
    array, c0 = _elements("array", array), number("c0", c0)
    n, c, d, h, w = _five(array.shape)
    blocks = _blocks(c, c0)
    padded = _zeros((n, blocks * c0, d, h, w), array.dtype)
    padded[:, :c] = array
    split = padded.reshape(n, blocks, c0, d, h, w)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 5, 2))


def from_ndc1hwc0(packed: Array, channels: int, check: bool = True) -> Array:
    """The NCDHW array of a packed one; with `check`, ValueError names the first pad lane that is not zero."""
    packed, channels = _elements("packed", packed), number("channels", channels)
    if packed.ndim != 6:
        raise ValueError(f"NDC1HWC0 has 6 axes, the array {packed.ndim}")
    n, d, blocks, h, w, c0 = packed.shape
    if blocks != (needed := _blocks(channels, c0)):
        raise ValueError(f"{channels} channels fill {needed} blocks of {c0}, the array has {blocks}")
    joined = packed.transpose(0, 2, 5, 1, 3, 4).reshape(n, blocks * c0, d, h, w)
    if flag("check", check):
        _require_zero(joined[:, channels:], (0, channels, 0, 0, 0), "NDC1HWC0")
    return np.ascontiguousarray(joined[:, :channels])


def index_ndc1hwc0(shape: Shape, c0: int, element: Shape) -> int:
    """Where element (n, c, d, h, w) of an NCDHW shape lies; c may name a pad lane of the last block.

    flat = ((((n*D + d)*C1 + c1)*H + h)*W + w)*C0 + lane
    """
    shape, c0, element = _sizes("shape", shape), number("c0", c0), _five(_numbers("element", element))
    blocks = _blocks(shape[1], c0)
    n, c, d, h, w = _inside(element, (shape[0], blocks * c0, *shape[2:]))
    return ((((n * shape[2] + d) * blocks + c // c0) * shape[3] + h) * shape[4] + w) * c0 + c % c0


def element_ndc1hwc0(shape: Shape, c0: int, flat: int) -> Shape:
    """The element (n, c, d, h, w) at a flat index; c >= shape[1] says it is a pad lane."""
    shape, c0, flat = _sizes("shape", shape), number("c0", c0), number("flat", flat)
    blocks = _blocks(shape[1], c0)
    n, d, c1, h, w, lane = _unravel(flat, (shape[0], shape[2], blocks, shape[3], shape[4], c0))
    return n, c1 * c0 + lane, d, h, w


# ---- FRACTAL_Z_3D: shape (Kd * C1 * Kh * Kw, N1, N0, C0) of a weight (Cout, Cin, Kd, Kh, Kw), groups 1


def to_fractal_z_3d(weight: Array, c0: int) -> Array:
    """A weight (Cout, Cin, Kd, Kh, Kw) packed into (Kd*C1*Kh*Kw, N1, 16, C0), pad lanes zero."""
    weight, c0 = _elements("weight", weight), number("c0", c0)
    out, inner, kd, kh, kw = _five(weight.shape)
    n1, c1 = _blocks(out, N0), _blocks(inner, c0)
    padded = _zeros((n1 * N0, c1 * c0, kd, kh, kw), weight.dtype)
    padded[:out, :inner] = weight
    split = padded.reshape(n1, N0, c1, c0, kd, kh, kw)
    ordered = np.ascontiguousarray(split.transpose(4, 2, 5, 6, 0, 1, 3))
    return ordered.reshape(kd * c1 * kh * kw, n1, N0, c0)


def from_fractal_z_3d(packed: Array, shape: Shape, c0: int, check: bool = True) -> Array:
    """The weight of `shape` in a packed array of any rank; with `check`, pad lanes must be zero."""
    packed, c0 = _elements("packed", packed), number("c0", c0)
    out, inner, kd, kh, kw = _sizes("shape", shape)
    n1, c1 = _blocks(out, N0), _blocks(inner, c0)
    size = kd * c1 * kh * kw * n1 * N0 * c0
    if packed.size != size:
        raise ValueError(f"FRACTAL_Z_3D of {shape} with C0 {c0} has {size} elements, the array {packed.size}")
    split = packed.reshape(kd, c1, kh, kw, n1, N0, c0)
    joined = split.transpose(4, 5, 1, 6, 0, 2, 3).reshape(n1 * N0, c1 * c0, kd, kh, kw)
    if flag("check", check):
        _require_zero(joined[out:], (out, 0, 0, 0, 0), "FRACTAL_Z_3D")
        _require_zero(joined[:out, inner:], (0, inner, 0, 0, 0), "FRACTAL_Z_3D")
    return np.ascontiguousarray(joined[:out, :inner])


def index_fractal_z_3d(shape: Shape, c0: int, element: Shape) -> int:
    """Where element (co, ci, kd, kh, kw) of a weight lies; co and ci may name pad lanes.

    flat = ((((kd*C1 + c1)*Kh + kh)*Kw + kw)*N1 + n1)*16*C0 + n0*C0 + lane
    """
    shape, c0, element = _sizes("shape", shape), number("c0", c0), _five(_numbers("element", element))
    n1, c1 = _blocks(shape[0], N0), _blocks(shape[1], c0)
    co, ci, kd, kh, kw = _inside(element, (n1 * N0, c1 * c0, *shape[2:]))
    row = ((kd * c1 + ci // c0) * shape[3] + kh) * shape[4] + kw
    return ((row * n1 + co // N0) * N0 + co % N0) * c0 + ci % c0


def element_fractal_z_3d(shape: Shape, c0: int, flat: int) -> Shape:
    """The element (co, ci, kd, kh, kw) at a flat index; co or ci beyond the shape says it is a pad lane."""
    shape, c0, flat = _sizes("shape", shape), number("c0", c0), number("flat", flat)
    n1, c1 = _blocks(shape[0], N0), _blocks(shape[1], c0)
    kd, block, kh, kw, outer, n0, lane = _unravel(flat, (shape[2], c1, shape[3], shape[4], n1, N0, c0))
    return outer * N0 + n0, block * c0 + lane, kd, kh, kw


def _blocks(channels: int, per_block: int) -> int:
    if per_block < 1:
        raise ValueError(f"a block has at least one lane, not {per_block}")
    if per_block > _MOST_LANES:
        raise ValueError(f"a block has at most {_MOST_LANES} lanes, not {per_block}")
    return -(-channels // per_block)


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if prod(shape) * dtype.itemsize > INT64_MAX:
        raise MemoryError(f"no memory for a packed array of shape {shape}")
    return np.zeros(shape, dtype)


def _elements(name: str, given: object) -> Array:
    array = as_array(given, name)
    if array.dtype.kind in "OSUMmT" or array.dtype.names is not None:
        raise ValueError(f"{name} must hold numbers, not {array.dtype.name}")
    return array


def _numbers(name: str, values: object) -> tuple[int, ...]:
    return tuple(number(name, n) for n in listed(name, values))


def _sizes(name: str, values: object) -> Shape:
    sizes = _five(_numbers(name, values))
    if min(sizes) < 0:
        raise ValueError(f"{name} has a negative size: {sizes}")
    return sizes


def _five(shape: tuple[int, ...]) -> Shape:
    if len(shape) != 5:
        raise ValueError(f"expected five axes, got shape {tuple(shape)}")
    a, b, c, d, e = shape
    return a, b, c, d, e


def _inside(element: Shape, sizes: tuple[int, ...]) -> Shape:
    if any(not 0 <= place < size for place, size in zip(element, sizes, strict=True)):
        raise IndexError(f"element {element} lies outside {sizes} (pad lanes included)")
    return element


def _unravel(flat: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    places, rest = [], flat
    for size in reversed(sizes):
        rest, place = divmod(rest, size) if size else (1, 0)
        places.append(place)
    if rest:
        raise IndexError(f"flat index {flat} lies outside an array of shape {sizes}")
    return tuple(reversed(places))


def _require_zero(pads: Array, origin: tuple[int, ...], layout: str) -> None:
    """Kernels multiply pad lanes like any other, so one that is not zero (NaN included) spoils the result."""
    wrong = np.argwhere(pads != pads.dtype.type(0))
    if len(wrong):
        lane = tuple(int(place) for place in wrong[0])
        element = tuple(start + place for start, place in zip(origin, lane, strict=True))
        raise ValueError(f"{layout}: {len(wrong)} pad lanes are not zero, first {element} = {pads[lane]}")
