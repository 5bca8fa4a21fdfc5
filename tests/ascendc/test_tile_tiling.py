"""Conv3DBpInputTiling: setters, refusals with reasons, 2,000 random shapes, and records of the user's own."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from convgrad.ascendc import (
    CapacityError,
    Conv3DBackpropInput,
    Conv3DBackpropInputTilingData,
    Conv3DBpInputTiling,
    ConvDtype,
    ConvFormat,
    PlatformInfo,
    TConv3DBackpropInputTiling,
    TilingError,
    TPosition,
    check_record,
    flat_blocks,
    half,
    simulate,
)
from convgrad.ascendc.input.checks import MUST_BE_POSITIVE, a1_bytes, b1_bytes, l1_bytes
from convgrad.ascendc.input.simulate import input_types
from convgrad.ascendc.input.walk import single_shape, tiles_in_order
from convgrad.ascendc.shared.record_checks import POSITIVE_IN_BOTH
from tile_problems import random_problem

PLATFORM = PlatformInfo()


def host(
    n=1,
    cin=32,
    cout=48,
    size=(4, 16, 16),
    window=(3, 3, 3),
    padding=(1,) * 6,
    stride=(1, 1, 1),
    dilation=(1, 1, 1),
    out=None,
    cores=24,
    **sizes,
):
    """A tiling object with everything set; `out` follows from the rest unless given."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    out = out or tuple((size[a] + padding[2 * a] + padding[2 * a + 1] - reach[a]) // stride[a] + 1 for a in range(3))
    tiling = Conv3DBpInputTiling(PlatformInfo(**sizes), cores=cores)
    assert tiling.SetWeightShape(cout, cin, *window)
    assert tiling.SetInputShape(n, cin, *size)
    assert tiling.SetGradOutputShape(n, cout, *out)
    tiling.SetPadding(*padding)
    tiling.SetStride(*stride)
    tiling.SetDilation(*dilation)
    return tiling


def record(**arguments) -> TConv3DBackpropInputTiling:
    """The record of a problem that must have one."""
    tiling, data = host(**arguments), Conv3DBackpropInputTilingData()
    assert tiling.GetTiling(data) == 0, tiling.reason
    return data.conv3DDxTiling


def covers_once(t: TConv3DBackpropInputTiling, cores: int) -> bool:
    """Every row a window reaches lies in one block and one tile, per plane and channel block; others in at most one."""
    last_reached = (t.ho - 1) * t.strideH + (t.hk - 1) * t.dilationH - t.padUp
    reached = min(t.hi, last_reached + 1) * t.wi
    counts = np.zeros((t.batch * t.di, t.cin1, t.hi * t.wi), np.int8)
    for block in flat_blocks(t, cores):
        image, first, block1 = (
            block.batch * t.di + block.plane,
            block.first_row * t.wi,
            block.n_piece * t.singleCoreCin1,
        )
        for tile in tiles_in_order(t, single_shape(t, block.M, block.K, block.N), block.plane):
            channels = slice(block1 + tile.n_start // 16, block1 + (tile.n_start + tile.n_length) // 16)
            counts[image, channels, first + tile.m_start : first + tile.m_start + tile.m_length] += 1
    return bool((counts[:, :, :reached] == 1).all() and (counts[:, :, reached:] <= 1).all())


def random_shape(rng: np.random.Generator) -> dict:
    """A problem of any size that keeps the documented limits: narrow, wide, deep, many or few channels."""
    while True:
        window = tuple(int(k) for k in rng.choice([1, 2, 3, 5, 7], 3))
        stride = (int(rng.integers(1, min(window[0], 3) + 1)), int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        dilation = tuple(int(d) for d in rng.integers(1, 3, 3))
        padding = tuple(int(rng.integers(0, window[axis // 2])) for axis in range(6))
        size = (int(rng.integers(1, 9)), int(2 ** rng.uniform(0, 8)), int(2 ** rng.uniform(0, 9)))
        if all(size[a] + padding[2 * a] + padding[2 * a + 1] >= (window[a] - 1) * dilation[a] + 1 for a in range(3)):
            return {
                "n": int(rng.integers(1, 5)),
                "cin": int(2 ** rng.uniform(0, 10)),
                "cout": int(2 ** rng.uniform(0, 10)),
                "size": size,
                "window": window,
                "padding": padding,
                "stride": stride,
                "dilation": dilation,
                "cores": int(rng.integers(1, 33)),
            }


@pytest.mark.parametrize("chunk", range(8))
def test_two_thousand_random_shapes(chunk):
    """Each tiling passes every check and covers the output once; large problems fill half of L0C; -1 has a reason."""
    rng = np.random.default_rng(chunk)
    large = refused = 0
    for _ in range(250):
        shape = random_shape(rng)
        tiling, data = host(**shape), Conv3DBackpropInputTilingData()
        if tiling.GetTiling(data) != 0:
            assert tiling.reason, shape
            assert data.conv3DDxTiling == TConv3DBackpropInputTiling()
            refused += 1
            continue
        t, cores = data.conv3DDxTiling, shape["cores"]
        check_record(t, PLATFORM)
        assert all(line.reason for line in tiling.report) and len(tiling.report) == 66
        if t.batch * t.di * t.cin1 * t.hi * t.wi < 100_000:
            assert covers_once(t, cores), shape
        plane = t.hi * t.wi * t.cin1 * 16
        if plane >= 32768 and plane * t.batch * t.di >= 2 * 32768 * cores:
            large += 1
            assert t.baseM * t.baseN * 4 * 2 >= PLATFORM.l0CSize, (shape, t.baseM, t.baseN)
    assert large >= 20 and refused <= 60, (large, refused)


def test_failures_give_minus_one_and_a_reason():
    """Each broken demand returns -1, leaves the record alone, and the reason names what is wrong."""
    cases = (
        ({"padding": (-1, 0, 0, 0, 0, 0)}, "pads"), ({"stride": (0, 1, 1), "out": (1, 1, 1)}, "strides"),
        ({"dilation": (1, 0, 1), "out": (4, 16, 16)}, "dilations"), ({"window": (1, 0, 1)}, "window"),
        ({"n": 0}, "batch"), ({"cout": 0}, "cout"), ({"cin": 0}, "cin"), ({"out": (4, 16, 15)}, "W: gradOutput"),
        ({"window": (1, 3, 3), "padding": (0,) * 6, "stride": (2, 1, 1)}, "stride must be at most the window"),
        ({"size": (4, 200, 200), "stride": (1, 64, 1)}, "H: stride"),
        ({"padding": (1, 1, 3, 3, 1, 1)}, "each pad"), ({"cores": 0}, "cores"),
        ({"size": (1, 300, 300), "window": (1, 3, 3), "padding": (0,) * 6, "dilation": (1, 128, 1)}, "backprop pad"),
        ({"size": (1, 4, 20000), "window": (1, 3, 3), "padding": (0,) * 6}, "L1 cannot hold"),
        ({"size": (1, 300, 300), "window": (1, 256, 256), "padding": (0,) * 6, "l1Size": 10**9}, "65535"),
    )  # fmt: skip
    for arguments, reason in cases:
        tiling, data = host(**arguments), Conv3DBackpropInputTilingData()
        assert tiling.GetTiling(data) == -1, arguments
        assert reason in tiling.reason, (arguments, tiling.reason)
        assert data.conv3DDxTiling == TConv3DBackpropInputTiling()


def test_enormous_sizes_are_answered_at_once():
    """Sizes up to the limits of the record give an answer without walking over planes or blocks one by one."""
    assert record(size=(10**8, 16, 16)).di == 10**8
    assert record(n=2**31, cin=2**31, cout=2**31).cin1 == 2**27
    for arguments, reason in (({"cin": 2**40}, "below 2^32"), ({"size": (4, 2**17, 2**17)}, "at most 2^32")):
        tiling = host(**arguments)
        assert tiling.GetTiling(Conv3DBackpropInputTilingData()) == -1 and reason in tiling.reason


def test_layouts_and_dtypes_are_checked():
    """Another layout of weight or gradOutput, or mixed dtypes, return -1; the layout of the input is never checked."""
    tiling, data = host(), Conv3DBackpropInputTilingData()
    tiling.SetWeightType(TPosition.GM, ConvFormat.NCDHW, ConvDtype.FLOAT16)
    assert tiling.GetTiling(data) == -1 and "FRACTAL_Z_3D" in tiling.reason
    tiling = host()
    tiling.SetGradOutputType(TPosition.GM, ConvFormat.NCDHW, ConvDtype.FLOAT16)
    assert tiling.GetTiling(data) == -1 and "NDC1HWC0" in tiling.reason
    tiling = host()
    tiling.SetInputType(TPosition.GM, ConvFormat.NCDHW, ConvDtype.BF16)
    assert tiling.GetTiling(data) == -1 and "one dtype" in tiling.reason


def test_setters_refuse_contradictions():
    """A second, different batch or channel count returns False and changes nothing; the same one is fine."""
    tiling = Conv3DBpInputTiling()
    assert tiling.SetWeightShape(48, 32, 3, 3, 3)
    assert not tiling.SetWeightShape(48, 33, 3, 3, 3) and not tiling.SetWeightShape(47, 32, 3, 3, 3)
    assert not tiling.SetInputShape(1, 31, 4, 16, 16)
    assert tiling.SetOutputPadding(0, 0, 0)
    assert tiling.SetInputShape(1, 32, 4, 16, 16)
    assert not tiling.SetInputShape(2, 32, 4, 16, 16)
    assert not tiling.SetGradOutputShape(2, 48, 4, 16, 16) and not tiling.SetGradOutputShape(1, 47, 4, 16, 16)
    assert tiling.SetGradOutputShape(1, 48, 4, 16, 16)
    assert not tiling.SetOutputPadding(0, 1, 1)
    tiling.SetPadding(1, 1, 1, 1, 1, 1)
    data = Conv3DBackpropInputTilingData()
    assert tiling.GetTiling(data) == 0, tiling.reason
    assert (data.conv3DDxTiling.batch, data.conv3DDxTiling.cin, data.conv3DDxTiling.cout) == (1, 32, 48)


def test_transpose_mode_infers_the_size():
    """Without SetInputShape the size follows from gradOutput, pads and output padding; too much padding is -1."""
    tiling, data = Conv3DBpInputTiling(), Conv3DBackpropInputTilingData()
    tiling.SetWeightShape(16, 8, 3, 3, 3)
    tiling.SetGradOutputShape(2, 16, 2, 5, 6)
    tiling.SetStride(2, 2, 2)
    tiling.SetPadding(1, 1, 1, 1, 1, 1)
    tiling.SetOutputPadding(1, 1, 0)
    assert tiling.GetTiling(data) == 0, tiling.reason
    t = data.conv3DDxTiling
    assert (t.di, t.hi, t.wi) == (4, 10, 11)
    assert t.initOutputFlag == 1
    tiling = Conv3DBpInputTiling()
    tiling.SetWeightShape(16, 8, 3, 3, 3)
    tiling.SetGradOutputShape(2, 16, 1, 1, 1)
    tiling.SetPadding(2, 2, 2, 2, 2, 2)
    assert tiling.GetTiling(data) == -1 and "size of gradInput" in tiling.reason


def test_the_record_has_66_fields_and_documented_values():
    """66 fields; sizes, counts and derived pads are what the definition says."""
    t = record(
        n=2,
        cin=20,
        cout=40,
        size=(4, 9, 10),
        window=(2, 3, 4),
        padding=(1, 0, 2, 1, 0, 3),
        stride=(2, 2, 3),
        dilation=(1, 2, 1),
    )
    assert len(fields(t)) == 66
    assert (t.cin1, t.cout1, t.c0, t.c0Bits, t.cin1G, t.cout1G, t.group) == (2, 3, 16, 4, 2, 3, 1)
    assert (t.backpropPadUp, t.backpropPadLeft) == (2 * 2 - 2, 3)
    assert t.backpropPadDown == 9 - ((t.ho - 1) * 2 + 1) + 2
    assert t.backpropPadRight == 10 - ((t.wo - 1) * 3 + 1) + 0
    assert t.backpropPadTail == 4 - ((t.dout - 1) * 2 + 1) + 1
    assert (t.al0Pbuffer, t.bl0Pbuffer, t.cl0Pbuffer, t.stepM, t.stepN, t.iterateOrder) == (2, 2, 1, 1, 1, 1)
    assert t.baseD == t.baseBatch == t.baseGroup == t.singleCoreDin == t.singleCoreBatch == t.singleCoreHo == 1
    assert t.hf32Flag == t.reserved == 0


def test_init_output_flag_once_set_stays():
    """The flag is the only thing a second GetTiling of one object does not compute anew."""
    tiling, data = host(dilation=(2, 1, 1), size=(6, 16, 16)), Conv3DBackpropInputTilingData()
    assert tiling.GetTiling(data) == 0 and data.conv3DDxTiling.initOutputFlag == 1
    tiling.SetDilation(1, 1, 1)
    tiling.SetGradOutputShape(1, 48, 6, 16, 16)
    assert tiling.GetTiling(data) == 0, tiling.reason
    assert data.conv3DDxTiling.initOutputFlag == 1
    assert record(size=(6, 16, 16)).initOutputFlag == 0


def test_weights_stay_in_l1_when_they_fit():
    """One window plane and few channels: the weights are loaded once per walk, with one L1 buffer."""
    t = record(cin=32, cout=32, window=(1, 3, 3), padding=(0, 0, 1, 1, 1, 1), size=(4, 64, 64))
    assert (t.al1Pbuffer, t.bl1Pbuffer) == (2, 1)
    assert t.baseK * t.stepKb >= t.cout * 9 and t.baseN >= t.singleCoreCin1 * 16


def test_float32_is_tiled_with_eight_channels_per_block():
    """The tiling knows float32 (C0 = 8, Cout counted in eights); the kernel object refuses such a record."""
    tiling, data = host(cin=20, cout=20), Conv3DBackpropInputTilingData()
    for setter in (tiling.SetInputType, tiling.SetGradOutputType):
        setter(TPosition.GM, ConvFormat.NDC1HWC0, ConvDtype.FLOAT32)
    tiling.SetWeightType(TPosition.GM, ConvFormat.FRACTAL_Z_3D, ConvDtype.FLOAT32)
    assert tiling.GetTiling(data) == 0, tiling.reason
    assert (data.conv3DDxTiling.c0, data.conv3DDxTiling.c0Bits, data.conv3DDxTiling.cout1) == (8, 3, 3)
    with pytest.raises(TilingError, match="c0 must be 16"):
        Conv3DBackpropInput(*input_types(half)).Init(data.conv3DDxTiling)


# ---- records of the user's own


def test_a_record_needs_exactly_its_fields():
    """A missing, an unknown or a non-integer field raises and is named."""
    good = record().as_dict()
    kernel = Conv3DBackpropInput(*input_types(half))
    for change, text in (({"baseM": None}, "baseM must be an integer"), ({"baseM": -16}, "baseM must be an integer"),
                         ({"hi": 2**32}, "hi must be"), ({"baseM": True}, "baseM must be an integer")):  # fmt: skip
        with pytest.raises(TilingError, match=text):
            kernel.Init({**good, **change})
    with pytest.raises(TilingError, match=r"missing \['baseM'\]"):
        kernel.Init({name: value for name, value in good.items() if name != "baseM"})
    with pytest.raises(TilingError, match=r"unknown \['baseQ'\]"):
        kernel.Init({**good, "baseQ": 1})
    kernel.Init(good)


@pytest.mark.parametrize("name", [*POSITIVE_IN_BOTH, *MUST_BE_POSITIVE])
def test_fields_that_must_be_positive(name):
    """Init raises for each field the debug build asserts to be above 0, and names it."""
    with pytest.raises(TilingError, match=f"{name} must be above 0, got {name} 0"):
        check_record(replace(record(), **{name: 0}), PLATFORM)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"c0": 8}, "tiling.c0"), ({"group": 2}, "tiling.group"), ({"hf32Flag": 1}, "tiling.hf32"),
        ({"cout1": 4}, "tiling.cout1"), ({"cin1G": 3}, "tiling.cin1"), ({"di": 1, "padBack": 0}, "tiling.size.d"),
        ({"hi": 13}, "tiling.size.h"), ({"wi": 13}, "tiling.size.w"), ({"backpropPadUp": 2}, "tiling.pad_up"),
        ({"backpropPadLeft": 0}, "tiling.pad_left"), ({"backpropPadDown": 3}, "tiling.pad_down"),
        ({"backpropPadRight": 3}, "tiling.pad_right"), ({"backpropPadTail": 0}, "tiling.pad_tail"),
        ({"baseM": 24}, "tiling.base16"), ({"stepM": 2}, "tiling.step1"),
        ({"stepKa": 1, "baseK": 16}, "tiling.step_ka"),
        ({"stepKb": 1, "baseK": 48, "stepKa": 3}, "tiling.step_kb"), ({"al0Pbuffer": 3}, "tiling.buffers"),
        ({"singleCoreM": 17}, "tiling.single_m"), ({"singleCoreCin": 7}, "tiling.single_cin"),
        ({"singleCoreCout": 7}, "tiling.single_cout"), ({"iterateOrder": 2}, "tiling.order"),
        ({"initOutputFlag": 2}, "tiling.zeroing"),
    ],
)  # fmt: skip
def test_each_demand_on_a_record(change, rule):
    """Every row of the record checks can be broken alone, and is then the rule the error carries."""
    with pytest.raises(TilingError) as caught:
        check_record(replace(record(), **change), PLATFORM)
    assert caught.value.rule == rule


def test_a_record_may_not_hide_unwritten_elements():
    """initOutputFlag 0 where planes are never written raises: the output would keep what was in memory."""
    t = record(dilation=(2, 1, 1), size=(6, 16, 16), stride=(2, 1, 1))
    with pytest.raises(TilingError, match="initOutputFlag must be 1"):
        check_record(replace(t, initOutputFlag=0), PLATFORM)


def test_rows_past_the_last_window_must_be_zeroed_and_are_cut_off():
    """Stride 4, window 2: no window reaches the last rows. The flag may not be 0; the last block leaves them out."""
    t = record(size=(2, 12, 8), window=(1, 2, 1), padding=(0,) * 6, stride=(1, 4, 1), cores=1)
    assert (t.ho, t.backpropPadDown, t.initOutputFlag) == (3, 3, 1)
    with pytest.raises(TilingError, match="initOutputFlag must be 1"):
        check_record(replace(t, initOutputFlag=0), PLATFORM)
    whole_plane = replace(t, singleCoreM=t.hi * t.wi)
    assert {block.M for block in flat_blocks(whole_plane, 1)} == {10 * t.wi}
    three_rows = replace(t, singleCoreM=3 * t.wi)
    assert [block.M // t.wi for block in flat_blocks(three_rows, 1) if block.plane == 0] == [3, 3, 3, 1]


def test_every_capacity_overflow_raises_with_the_numbers():
    """L0A, L0B, L0C and L1 one byte too small raise with the product that makes the size, and the size there is."""
    t = record()
    l0a, l0b, l0c = t.baseM * t.baseK * 4, t.baseN * t.baseK * 4, t.baseM * t.baseN * 4
    for store, size, wanted, parts in (
        ("l0ASize", l0a, l0a, f"baseM {t.baseM}"), ("l0BSize", l0b, l0b, f"baseN {t.baseN}"),
        ("l0CSize", l0c, l0c, f"baseM {t.baseM}"), ("l1Size", l1_bytes(t), l1_bytes(t), f"gradOutput {a1_bytes(t)}"),
    ):  # fmt: skip
        check_record(t, replace(PLATFORM, **{store: size}))
        with pytest.raises(CapacityError) as caught:
            check_record(t, replace(PLATFORM, **{store: size - 1}))
        assert f"= {wanted} bytes of {size - 1}" in str(caught.value) and parts in str(caught.value)
        assert caught.value.rule == f"capacity.{store[:-4].upper()}"
    assert l1_bytes(t) == a1_bytes(t) * t.al1Pbuffer + b1_bytes(t) * t.bl1Pbuffer


def test_a_record_for_another_problem_is_refused():
    """simulate compares the sizes of a given record with the problem."""
    other = record(cin=16)
    with pytest.raises(TilingError, match="another problem"):
        simulate(
            np.zeros((1, 48, 4, 16, 16)),
            np.zeros((48, 32, 3, 3, 3)),
            input_shape=(1, 32, 4, 16, 16),
            padding=1,
            tiling=other,
        )


def test_smaller_stores_give_smaller_tiles():
    """The platform sizes are parameters: with a quarter of L0C and L1 the search still fits, with smaller tiles."""
    usual, small = record(size=(4, 64, 64), cin=128), record(size=(4, 64, 64), cin=128, l0CSize=32768, l1Size=131072)
    check_record(small, PlatformInfo(l0CSize=32768, l1Size=131072))
    assert small.baseM * small.baseN < usual.baseM * usual.baseN


def test_more_cores_get_more_blocks():
    """The core count is a parameter of the search: one core takes whole planes, many cores share rows or channels."""
    few, many = record(size=(1, 64, 64), cores=1), record(size=(1, 64, 64), cores=24)
    assert len(list(flat_blocks(few, 1))) < len(list(flat_blocks(many, 24)))
    assert len({block.core for block in flat_blocks(many, 24)}) >= 12


def test_simulated_and_refused_alike():
    """What GetTiling refuses, simulate raises with the same reason."""
    problem = random_problem(3)
    grad_output, weight, _ = problem.arrays()
    with pytest.raises(TilingError, match="GetTiling returned -1: strides"):
        simulate(grad_output, weight, input_shape=problem.input_shape, stride=0)
