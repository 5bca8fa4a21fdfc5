"""Layouts of the tile kernels as their users meet them: both ways, element by element, and raw files."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from convgrad import ascendc
from convgrad.ascendc import TilingError, read_bin, write_bin

DTYPES = ((np.float16, 16), (ml_dtypes.bfloat16, 16), (np.float32, 8), (np.float32, 16))


@pytest.mark.parametrize(("dtype", "c0"), DTYPES)
def test_ndc1hwc0_round_trip_and_index(dtype, c0):
    """Packing and unpacking give the array back; every element lies where the index says; pad lanes are zero."""
    shape = (2, c0 + 3, 2, 3, 4)
    array = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    packed = ascendc.to_ndc1hwc0(array, c0)
    assert packed.shape == (2, 2, 2, 3, 4, c0) and packed.dtype == array.dtype
    assert np.array_equal(ascendc.from_ndc1hwc0(packed, shape[1]), array)
    flat = packed.reshape(-1)
    for element in itertools.product(*(range(size) for size in shape)):
        place = ascendc.index_ndc1hwc0(shape, c0, element)
        assert flat[place] == array[element] and ascendc.element_ndc1hwc0(shape, c0, place) == element
    assert np.count_nonzero(flat == dtype(0)) == flat.size - array.size


@pytest.mark.parametrize(("dtype", "c0"), DTYPES)
def test_fractal_z_3d_round_trip_and_index(dtype, c0):
    """The same for weights: 16 output channels per block whatever the dtype, C0 input channels."""
    shape = (18, c0 + 1, 2, 3, 2)
    array = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    packed = ascendc.to_fractal_z_3d(array, c0)
    assert packed.shape == (2 * 2 * 3 * 2, 2, 16, c0)
    assert np.array_equal(ascendc.from_fractal_z_3d(packed, shape, c0), array)
    flat = packed.reshape(-1)
    for element in itertools.product(*(range(size) for size in shape)):
        place = ascendc.index_fractal_z_3d(shape, c0, element)
        assert flat[place] == array[element] and ascendc.element_fractal_z_3d(shape, c0, place) == element


def test_pad_lanes_are_checked():
    """A pad lane that is not zero, NaN included, is refused by name."""
    packed = ascendc.to_ndc1hwc0(np.ones((1, 3, 1, 1, 1), np.float16), 16)
    packed[..., 5] = np.nan
    with pytest.raises(ValueError, match="pad lanes"):
        ascendc.from_ndc1hwc0(packed, 3)
    weight = ascendc.to_fractal_z_3d(np.ones((3, 3, 1, 1, 1), np.float16), 16)
    weight[0, 0, 7, 0] = 1
    with pytest.raises(ValueError, match="pad lanes"):
        ascendc.from_fractal_z_3d(weight, (3, 3, 1, 1, 1), 16)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.int32])
def test_bin_files_round_trip(dtype, tmp_path):
    """Raw files hold the bytes of the tensor and nothing else, and come back bit for bit."""
    tensor = ascendc.to_ndc1hwc0(np.arange(40).reshape(1, 20, 1, 2, 1).astype(dtype), 16)
    write_bin(tmp_path / "t.bin", tensor)
    assert (tmp_path / "t.bin").stat().st_size == tensor.nbytes
    back = read_bin(tmp_path / "t.bin", dtype, tensor.shape)
    assert back.dtype == tensor.dtype and back.tobytes() == tensor.tobytes()
    assert read_bin(tmp_path / "t.bin", np.dtype(dtype).name).shape == (tensor.size,)
    with pytest.raises(TilingError, match="elements"):
        read_bin(tmp_path / "t.bin", dtype, (7,))


def test_bin_files_of_odd_size_are_refused(tmp_path):
    """A file that is no whole number of elements, or a dtype without a file form, is refused."""
    (tmp_path / "odd.bin").write_bytes(b"abc")
    with pytest.raises(TilingError, match="3 bytes"):
        read_bin(tmp_path / "odd.bin", "half")
    with pytest.raises(TilingError, match="dtype must be"):
        read_bin(tmp_path / "odd.bin", "float64")
