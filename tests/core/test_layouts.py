"""Axis orders are views of the canonical one; packed layouts put each element where the formula says."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from convgrad.core import layouts

Shape = tuple[int, int, int, int, int]

ACTIVATIONS: list[Shape] = [
    (2, 16, 2, 3, 4), (1, 1, 1, 1, 1), (2, 17, 3, 2, 3), (1, 15, 2, 1, 5), (3, 33, 1, 4, 2), (1, 7, 2, 2, 2),
]  # fmt: skip
WEIGHTS: list[Shape] = [
    (16, 16, 1, 3, 3), (1, 1, 1, 1, 1), (17, 9, 2, 3, 1), (5, 33, 1, 2, 3), (33, 8, 2, 1, 2),
    (15, 17, 3, 2, 2),
]  # fmt: skip


def numbered(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An array whose elements all differ and none is zero."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)


def elements(shape: tuple[int, ...]) -> Any:
    return itertools.product(*map(range, shape))


@pytest.mark.parametrize("c0", [8, 16, 32])
@pytest.mark.parametrize("shape", ACTIVATIONS, ids=str)
def test_ndc1hwc0_by_formula(shape: Shape, c0: int) -> None:
    """Elements lie at ((((n*D+d)*C1+c1)*H+h)*W+w)*C0+lane, all else is zero, and unpacking restores them."""
    array = numbered(shape)
    _, c, depth, height, width = shape
    blocks = -(-c // c0)
    packed = layouts.to_ndc1hwc0(array, c0)
    assert packed.shape == (shape[0], depth, blocks, height, width, c0)
    assert packed.flags.c_contiguous
    flat = packed.reshape(-1)
    for n, ch, d, h, w in elements(shape):
        place = ((((n * depth + d) * blocks + ch // c0) * height + h) * width + w) * c0 + ch % c0
        assert flat[place] == array[n, ch, d, h, w]
    assert np.count_nonzero(packed) == array.size
    assert np.array_equal(layouts.from_ndc1hwc0(packed, c), array)


@pytest.mark.parametrize("c0", [8, 16])
@pytest.mark.parametrize("shape", WEIGHTS, ids=str)
def test_fractal_z_3d_by_formula(shape: Shape, c0: int) -> None:
    """Weights lie at ((((kd*C1+c1)*Kh+kh)*Kw+kw)*N1+n1)*16*C0+n0*C0+lane, all else zero; they come back."""
    weight = numbered(shape)
    out, inner, depth, height, width = shape
    n1, c1 = -(-out // 16), -(-inner // c0)
    packed = layouts.to_fractal_z_3d(weight, c0)
    assert packed.shape == (depth * c1 * height * width, n1, 16, c0)
    assert packed.flags.c_contiguous
    flat = packed.reshape(-1)
    for co, ci, kd, kh, kw in elements(shape):
        row = ((kd * c1 + ci // c0) * height + kh) * width + kw
        assert flat[(row * n1 + co // 16) * 16 * c0 + co % 16 * c0 + ci % c0] == weight[co, ci, kd, kh, kw]
    assert np.count_nonzero(packed) == weight.size
    for given in (packed, flat):
        assert np.array_equal(layouts.from_fractal_z_3d(given, shape, c0), weight)


@pytest.mark.parametrize("c0", [8, 16])
@pytest.mark.parametrize("shape", ACTIVATIONS, ids=str)
def test_ndc1hwc0_places(shape: Shape, c0: int) -> None:
    """Index and element are inverse over the whole packed array, pad lanes too, and agree with packing."""
    flat = layouts.to_ndc1hwc0(numbered(shape), c0).reshape(-1)
    for place in range(flat.size):
        element = layouts.element_ndc1hwc0(shape, c0, place)
        assert layouts.index_ndc1hwc0(shape, c0, element) == place
        assert flat[place] == (numbered(shape)[element] if element[1] < shape[1] else 0)


@pytest.mark.parametrize("c0", [8, 16])
@pytest.mark.parametrize("shape", WEIGHTS[:4], ids=str)
def test_fractal_z_3d_places(shape: Shape, c0: int) -> None:
    """The same for weights, whose pad lanes lie in both channel directions."""
    weight = numbered(shape)
    flat = layouts.to_fractal_z_3d(weight, c0).reshape(-1)
    for place in range(flat.size):
        element = layouts.element_fractal_z_3d(shape, c0, place)
        assert layouts.index_fractal_z_3d(shape, c0, element) == place
        real = element[0] < shape[0] and element[1] < shape[1]
        assert flat[place] == (weight[element] if real else 0)


def test_places_outside_are_refused() -> None:
    """Indices past the packed array, negative ones, and places of an empty array raise IndexError."""
    shape = (1, 17, 1, 2, 2)
    for element in ((1, 0, 0, 0, 0), (0, 32, 0, 0, 0), (0, -1, 0, 0, 0), (0, 0, 0, 2, 0)):
        with pytest.raises(IndexError, match="outside"):
            layouts.index_ndc1hwc0(shape, 16, element)
    for flat in (-1, 2 * 2 * 2 * 16):
        with pytest.raises(IndexError, match="outside"):
            layouts.element_ndc1hwc0(shape, 16, flat)
    with pytest.raises(IndexError, match="outside"):
        layouts.element_ndc1hwc0((0, 16, 1, 1, 1), 16, 0)
    with pytest.raises(IndexError, match="outside"):
        layouts.index_fractal_z_3d((17, 3, 1, 1, 1), 16, (32, 0, 0, 0, 0))


@pytest.mark.parametrize("dirt", [1.0, -2.5, np.nan, np.inf])
def test_dirty_pad_lanes_are_reported(dirt: float) -> None:
    """One pad lane that is not zero is named with its element and value; check=False reads past it."""
    array = np.ones((2, 17, 1, 2, 2), ml_dtypes.bfloat16)
    packed = layouts.to_ndc1hwc0(array, 16)
    packed[1, 0, 1, 0, 1, 3] = dirt
    with pytest.raises(ValueError, match=r"1 pad lanes are not zero, first \(1, 19, 0, 0, 1\)"):
        layouts.from_ndc1hwc0(packed, 17)
    assert np.array_equal(layouts.from_ndc1hwc0(packed, 17, check=False), array)


@pytest.mark.parametrize("element", [(20, 3, 0, 0, 1), (2, 9, 0, 0, 0), (31, 15, 0, 0, 1)])
def test_dirty_weight_pads_are_reported(element: Shape) -> None:
    """Pad lanes of output channels, of input channels and of both are all looked at."""
    shape = (17, 9, 1, 1, 2)
    flat = layouts.to_fractal_z_3d(np.ones(shape, np.float32), 8).reshape(-1)
    flat[layouts.index_fractal_z_3d(shape, 8, element)] = 0.5
    with pytest.raises(ValueError, match=rf"first \({', '.join(map(str, element))}\) = 0.5"):
        layouts.from_fractal_z_3d(flat, shape, 8)
    assert (layouts.from_fractal_z_3d(flat, shape, 8, check=False) == 1).all()


def test_negative_zero_is_a_clean_pad() -> None:
    """A pad lane of -0 is zero."""
    packed = layouts.to_ndc1hwc0(np.ones((1, 1, 1, 1, 1), np.float16), 16)
    packed[..., 1:] = -0.0
    assert layouts.from_ndc1hwc0(packed, 1).item() == 1


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.uint8]
)
def test_packing_keeps_dtype_and_reads_views(dtype: Any) -> None:
    """Any element type is packed unchanged, from strided and reversed views too; empty arrays stay empty."""
    array = (numbered((2, 5, 2, 3, 4)) % 8).astype(dtype)
    view = array[:, ::-1, :, ::2].transpose(0, 1, 4, 3, 2)
    packed = layouts.to_ndc1hwc0(view, 16)
    assert packed.dtype == array.dtype
    assert np.array_equal(layouts.from_ndc1hwc0(packed, 5), view)
    assert np.array_equal(layouts.from_fractal_z_3d(layouts.to_fractal_z_3d(view, 8), view.shape, 8), view)
    for shape in ((0, 5, 1, 1, 1), (2, 0, 1, 1, 1)):
        empty = np.zeros(shape, dtype)
        assert layouts.from_ndc1hwc0(layouts.to_ndc1hwc0(empty, 16), shape[1]).shape == shape
        assert layouts.from_fractal_z_3d(layouts.to_fractal_z_3d(empty, 16), shape, 16).shape == shape


def test_wrong_packed_shapes_are_refused() -> None:
    """Ranks, block counts, sizes and lane counts that do not fit are named."""
    with pytest.raises(ValueError, match="five axes"):
        layouts.to_ndc1hwc0(np.zeros((2, 3, 4)), 16)
    with pytest.raises(ValueError, match="6 axes"):
        layouts.from_ndc1hwc0(np.zeros((2, 3, 4)), 3)
    with pytest.raises(ValueError, match="33 channels fill 3 blocks of 16, the array has 2"):
        layouts.from_ndc1hwc0(np.zeros((1, 1, 2, 1, 1, 16)), 33)
    with pytest.raises(ValueError, match="has 256 elements, the array 255"):
        layouts.from_fractal_z_3d(np.zeros(255), (1, 1, 1, 1, 1), 16)
    with pytest.raises(ValueError, match="at least one lane"):
        layouts.to_ndc1hwc0(np.zeros((1, 1, 1, 1, 1)), 0)


@pytest.mark.parametrize(
    ("name", "shape", "canonical"),
    [
        ("NCL", (2, 3, 7), (2, 3, 1, 1, 7)), ("NCHW", (2, 3, 5, 7), (2, 3, 1, 5, 7)),
        ("NCDHW", (2, 3, 4, 5, 7), (2, 3, 4, 5, 7)), ("TBC", (7, 2, 3), (2, 3, 1, 1, 7)),
        ("NHWC", (2, 5, 7, 3), (2, 3, 1, 5, 7)), ("NDHWC", (2, 4, 5, 7, 3), (2, 3, 4, 5, 7)),
        ("HWCN", (5, 7, 3, 2), (2, 3, 1, 5, 7)), ("NC", (2, 3), (2, 3, 1, 1, 1)),
        ("ND", (2, 3), (2, 3, 1, 1, 1)), ("ND", (2, 3, 7), (2, 3, 1, 1, 7)),
        ("ND", (2, 3, 5, 7), (2, 3, 1, 5, 7)), ("ND", (2, 3, 4, 5, 7), (2, 3, 4, 5, 7)),
    ],
)  # fmt: skip
def test_canonical_views(name: str, shape: tuple[int, ...], canonical: Shape) -> None:
    """Each layout is a view of N, C, D, H, W, unit axes for what it lacks, and the way back restores it."""
    array = numbered(shape)
    view = layouts.to_canonical(name, array)
    assert view.shape == canonical
    assert np.shares_memory(view, array)
    back = layouts.from_canonical(name, view, rank=len(shape))
    assert np.array_equal(back, array)
    assert np.shares_memory(back, array)


def test_canonical_axes_are_the_named_ones() -> None:
    """TBC element (t, b, c) is canonical (b, c, 0, 0, t), NDHWC (n, d, h, w, c) is (n, c, d, h, w)."""
    tbc = numbered((4, 2, 3))
    assert layouts.to_canonical("TBC", tbc)[1, 2, 0, 0, 3] == tbc[3, 1, 2]
    ndhwc = numbered((2, 3, 4, 5, 6))
    assert layouts.to_canonical("NDHWC", ndhwc)[1, 5, 2, 3, 4] == ndhwc[1, 2, 3, 4, 5]


def test_axes_that_do_not_fit_are_refused() -> None:
    """Wrong ranks, packed layouts and canonical arrays with an axis the layout lacks are named."""
    with pytest.raises(ValueError, match="NCHW has 4 axes, the array 3"):
        layouts.to_canonical("NCHW", np.zeros((1, 2, 3)))
    with pytest.raises(ValueError, match="ND has 2 to 5 axes, the array 1"):
        layouts.to_canonical("ND", np.zeros(3))
    with pytest.raises(ValueError, match="NDC1HWC0 is packed"):
        layouts.to_canonical("NDC1HWC0", np.zeros((1, 1, 1, 1, 1, 16)))
    with pytest.raises(ValueError, match="NCL cannot hold"):
        layouts.from_canonical("NCL", np.zeros((1, 1, 1, 2, 3)))


def test_acl_formats() -> None:
    """Names and aclFormat codes are the vendor's, found by name, prefixed name and code."""
    codes = {
        "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "HWCN": 16, "NDHWC": 27,
        "FRACTAL_NZ": 29,
        "NCDHW": 30, "NDC1HWC0": 32, "FRACTAL_Z_3D": 33, "NC": 35, "NCL": 47, "TBC": None,
    }  # fmt: skip
    assert {row.name: row.acl_code for row in layouts.ALL} == codes
    for row in layouts.ALL:
        spellings = (row, row.name, row.name.lower(), f"ACL_FORMAT_{row.name}", f"ACL_{row.name}")
        assert all(layouts.find(spelling) is row for spelling in spellings)
        assert row.acl_code is None or layouts.from_acl(row.acl_code) is row
    with pytest.raises(ValueError, match="unknown layout 'NCWH'; known: NCHW, "):
        layouts.find("NCWH")
    with pytest.raises(ValueError, match="unknown aclFormat 5"):
        layouts.from_acl(5)


def test_block_channels() -> None:
    """C0 fills 32 bytes: 16 for the 16-bit dtypes, 8 for float32."""
    assert [layouts.block_channels(word) for word in ("fp16", "bf16", "fp32")] == [16, 16, 8]
