"""Tiling records in the vendor's layout: sizes and offsets, bytes both ways, and records of the vendor's own tiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convgrad.ascendc import (
    Conv3DBackpropFilterTilingData,
    Conv3DBackpropInputTilingData,
    FilterBasicBlock,
    PlatformInfo,
    TConv3DBackpropInputTiling,
    TConv3DBpFilterTiling,
    TConv3DDwTiling,
    TilingError,
    TPosition,
    check_record,
    simulate,
    tiling_from_bytes,
    tiling_to_bytes,
)
from convgrad.ascendc.shared.record_bytes import places_of
from tile_problems import plain_grad_input, random_problem

OFFSETS = {
    TConv3DBackpropInputTiling: (280, {
        "batch": 0, "padFront": 88, "backpropPadTail": 112, "backpropPadRight": 128, "dilationD": 132,
        "bl1Pbuffer": 160, "singleCoreGroup": 164, "singleCoreHo": 184, "baseM": 188, "iterateOrder": 236,
        "hf32Flag": 240, "reserved": 248, "singleCoreBatch": 256, "singleCoreM": 264, "singleCoreCin": 272,
    }),
    TConv3DBpFilterTiling: (216, {
        "channelSize": 108, "m0": 144, "hf32Flag": 180, "singleCoreHo": 196, "singleCoreBatch": 200,
        "singleCoreCin": 208,
    }),
    Conv3DBackpropInputTilingData: (280, {"conv3DDxTiling": 0}),
    Conv3DBackpropFilterTilingData: (240, {"params": 0, "dwTiling": 8, "basicBlockTiling": 224}),
}  # fmt: skip


@pytest.mark.parametrize("record", OFFSETS, ids=lambda one: one.__name__)
def test_layout(record: type) -> None:
    """Field order and widths are those of the vendor's structs: sizes, and offsets around every change of kind."""
    places, size, _ = places_of(record)
    offsets = {place.name: place.offset for place in places}
    assert (size, {name: offsets[name] for name in OFFSETS[record][1]}) == OFFSETS[record]


def test_bytes_read_back() -> None:
    """Every field comes back from the bytes it was written to, nested records too; another length is refused."""
    fields = {place.name: 3 * number for number, place in enumerate(places_of(TConv3DBpFilterTiling)[0], 1)}
    inner, block = TConv3DBpFilterTiling(**fields), FilterBasicBlock(5, 6, 7)
    data = Conv3DBackpropFilterTilingData(dwTiling=inner, basicBlockTiling=block)
    content = tiling_to_bytes(data)
    assert len(content) == 240 and tiling_from_bytes(Conv3DBackpropFilterTilingData, content) == data
    assert content[8 + 208 : 8 + 216] == (3 * 52).to_bytes(8, "little")
    with pytest.raises(TilingError, match="has 240 bytes, got 239"):
        tiling_from_bytes(Conv3DBackpropFilterTilingData, content[:-1])


def test_names_and_positions() -> None:
    """The documented and the operators' name are one record; positions have the vendor's numbers."""
    assert TConv3DDwTiling is TConv3DBpFilterTiling
    numbers = {
        "GM": 0, "A1": 1, "A2": 2, "B1": 3, "B2": 4, "CO1": 7, "VECIN": 9, "VECOUT": 10,
        "SHM": 12, "C2PIPE2LOCAL": 15,
    }  # fmt: skip
    assert {name: TPosition[name].value for name in numbers} == numbers


@pytest.mark.parametrize("seed", range(5))
def test_whole_blocks_in_the_single_core_fields(seed: int) -> None:
    """The vendor's tiling rounds singleCoreCin and singleCoreCout up to C0 and singleCoreM past the plane: accepted."""
    problem = random_problem(seed)
    grad_output, weight, _ = problem.arrays()
    operands = grad_output.astype(np.float16), weight.astype(np.float16)
    attributes = {**problem.attributes(), "input_shape": problem.input_shape}
    own = simulate(*operands, **attributes).tiling
    rounded = replace(
        own, singleCoreCin=own.singleCoreCin1 * 16, singleCoreCout=own.singleCoreCout1 * 16,
        singleCoreM=(own.hi + 3) * own.wi,
    )  # fmt: skip
    check_record(rounded, PlatformInfo())
    ran = simulate(*operands, **attributes, tiling=rounded)
    assert np.array_equal(ran.grad_input.astype(np.float64), plain_grad_input(problem, grad_output, weight))
    with pytest.raises(TilingError, match="or these blocks whole"):
        check_record(replace(own, singleCoreCin=own.singleCoreCin1 * 16 + 1), PlatformInfo())
