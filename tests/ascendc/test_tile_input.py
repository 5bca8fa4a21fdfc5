"""Conv3DBackpropInput against the plain definition: integers, `==`, outputs pre-filled with NaN."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from convgrad.ascendc import (
    AddressError,
    CallOrderError,
    Conv3DBackpropInput,
    Conv3DBackpropInputTilingData,
    Conv3DBpInputTiling,
    ConvFormat,
    ConvType,
    CoreGrid,
    GlobalTensor,
    TilingError,
    TPosition,
    finish_ncdhw,
    flat_blocks,
    from_ndc1hwc0,
    half,
    int32_t,
    simulate,
    to_fractal_z_3d,
    to_ndc1hwc0,
)
from convgrad.ascendc.device.cube import multiply_in_chunks
from tile_problems import TileProblem, forced_small_tiles, plain_grad_input, random_problem

CHUNK = 30


def run(problem: TileProblem, **options):
    """One simulation and the definition's answer."""
    grad_output, weight, _ = problem.arrays()
    shape = None if problem.output_padding is not None else problem.input_shape
    result = simulate(
        grad_output,
        weight,
        input_shape=shape,
        output_padding=problem.output_padding or 0,
        cores=problem.cores,
        **problem.attributes(),
        **options,
    )
    return result, plain_grad_input(problem, grad_output, weight)


@pytest.mark.parametrize("chunk", range(10))
def test_random_problems_are_exact(chunk):
    """300 random problems with the tiling of GetTiling give the definition's gradInput, bit for bit."""
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        result, expected = run(random_problem(seed))
        assert np.array_equal(result.grad_input, expected), random_problem(seed)


@pytest.mark.parametrize("chunk", range(7))
def test_forced_small_tiles_are_exact(chunk):
    """210 random problems, cut into tiny tiles with tails, either walk order, fast and staged, stay exact."""
    for seed in range(1000 + CHUNK * chunk, 1000 + CHUNK * (chunk + 1)):
        problem = random_problem(seed)
        planned, _ = run(problem)
        tiling = forced_small_tiles(planned.tiling, seed)
        result, expected = run(problem, tiling=tiling.as_dict() if seed % 2 else tiling, staged=seed % 4 < 2)
        assert np.array_equal(result.grad_input, expected), (problem, tiling)


@pytest.mark.parametrize("chunk", range(4))
def test_transposed_problems_are_exact(chunk):
    """120 transposed convolutions with output padding, through the same object, stay exact."""
    for seed in range(2000 + CHUNK * chunk, 2000 + CHUNK * (chunk + 1)):
        problem = random_problem(seed, transposed=True)
        result, expected = run(problem, layout=ConvFormat.NCDHW if seed % 2 else ConvFormat.NDC1HWC0)
        assert result.grad_input.shape == problem.input_shape
        assert np.array_equal(result.grad_input, expected), problem


@pytest.mark.parametrize("chunk", range(3))
def test_fixed_grid_is_exact(chunk):
    """90 random problems on a fixed grid, K split included (atomic adds), stay exact."""
    for seed in range(3000 + CHUNK * chunk, 3000 + CHUNK * (chunk + 1)):
        problem = random_problem(seed)
        factors = np.random.default_rng(seed).integers(1, 4, 5)
        grid = CoreGrid(*(int(factor) for factor in factors))
        result, expected = run(problem, grid=grid)
        assert np.array_equal(result.grad_input, expected), (problem, grid)


def test_ncdhw_helper_is_exact():
    """40 random problems stored raw and finished in NCDHW equal the definition; pad lanes are cut."""
    for seed in range(4000, 4040):
        problem = random_problem(seed)
        result, expected = run(problem, layout=ConvFormat.NCDHW)
        assert np.array_equal(result.grad_input, expected), problem


def test_the_documented_sequence_line_for_line():
    """The vendor's five steps, written in Python line for line for one core, give the right gradInput."""
    problem = replace(random_problem(11), cores=1)
    grad_output, weight, _ = problem.arrays()
    tilingData = Conv3DBackpropInputTilingData()
    host = Conv3DBpInputTiling(cores=1)
    host.SetWeightShape(*problem.weight_shape)
    host.SetInputShape(*problem.input_shape)
    host.SetGradOutputShape(*problem.output_shape)
    host.SetPadding(*problem.padding)
    host.SetStride(*problem.stride)
    host.SetDilation(*problem.dilation)
    assert host.GetTiling(tilingData) == 0, host.reason
    t = tilingData.conv3DDxTiling
    gradOutputGm_ = GlobalTensor(to_ndc1hwc0(grad_output.astype(np.float16), 16).reshape(-1))
    weightGm_ = GlobalTensor(to_fractal_z_3d(weight.astype(np.float16), 16).reshape(-1))
    gradInputGm_ = GlobalTensor(np.zeros(t.grad_input_size, np.float16))

    weightDxType = ConvType(TPosition.GM, ConvFormat.FRACTAL_Z_3D, half)
    inputSizeDxType = ConvType(TPosition.GM, ConvFormat.ND, int32_t)
    gradOutputDxType = ConvType(TPosition.GM, ConvFormat.NDC1HWC0, half)
    gradInputDxType = ConvType(TPosition.GM, ConvFormat.NDC1HWC0, half)
    gradInput_ = Conv3DBackpropInput(weightDxType, inputSizeDxType, gradOutputDxType, gradInputDxType)
    gradInput_.Init(tilingData.conv3DDxTiling)
    for block in flat_blocks(t, cores=1):
        singleShapeM_, singleShapeK_, singleShapeN_ = block.M, block.K, block.N
        dinStartIdx_, curHoStartIdx_ = block.plane, block.ho_start
        offsetA_, offsetB_, offsetC_ = block.offset_a, block.offset_b, block.offset_c
        gradInput_.SetSingleShape(singleShapeM_, singleShapeK_, singleShapeN_)
        gradInput_.SetStartPosition(dinStartIdx_, curHoStartIdx_)
        gradInput_.SetGradOutput(gradOutputGm_[offsetA_])
        gradInput_.SetWeight(weightGm_[offsetB_])
        while gradInput_.Iterate():
            gradInput_.GetTensorC(gradInputGm_[offsetC_])
        gradInput_.ctx.isFirstIter_ = True
    gradInput_.End()

    packed = gradInputGm_.memory.data.reshape(t.batch, t.di, t.cin1, t.hi, t.wi, t.c0)
    assert np.array_equal(from_ndc1hwc0(packed, t.cin), plain_grad_input(problem, grad_output, weight))


def test_raw_ncdhw_tile_lies_densely_in_the_core_s_workspace():
    """With NCDHW, GetTensorC writes [channel block][position][lane] at block index * baseM * baseN, no more."""
    problem = replace(random_problem(12), cores=1)
    planned, expected = run(problem)
    t, core = planned.tiling, 2
    workspace = np.full(4 * t.baseM * t.baseN, np.nan, np.float16)
    types = [
        ConvType(TPosition.GM, layout, dtype)
        for layout, dtype in (
            (ConvFormat.FRACTAL_Z_3D, half),
            (ConvFormat.ND, int32_t),
            (ConvFormat.NDC1HWC0, half),
            (ConvFormat.NCDHW, half),
        )
    ]
    kernel = Conv3DBackpropInput(*types, block_idx=core)
    kernel.Init(t)
    block = next(block for block in planned.blocks if t.depth_taps(block.plane))
    kernel.SetSingleShape(block.M, block.K, block.N)
    kernel.SetStartPosition(block.plane, block.ho_start)
    kernel.SetGradOutput(GlobalTensor(planned.grad_output_gm)[block.offset_a])
    kernel.SetWeight(GlobalTensor(planned.weight_gm)[block.offset_b])
    assert kernel.Iterate()
    kernel.GetTensorC(GlobalTensor(workspace))
    tile = kernel.tile
    start = core * t.baseM * t.baseN
    raw = workspace[start : start + tile.m_length * tile.n_length].reshape(-1, tile.m_length, 16)
    plane = expected[block.batch, :, block.plane].reshape(t.cin, -1)
    channels = min(16, t.cin)
    first = block.first_row * t.wi
    assert np.array_equal(raw[0].T[:channels], plane[:channels, first : first + tile.m_length])
    assert np.isnan(workspace[:start]).all() and np.isnan(workspace[start + raw.size :]).all()
    destination = GlobalTensor(np.full(expected.size, np.nan, np.float16))
    finish_ncdhw(kernel, GlobalTensor(workspace), destination[block.offset_ncdhw(t)])
    assert np.count_nonzero(~np.isnan(destination.memory.data)) == tile.m_length * min(tile.n_length, t.cin)


def test_one_rounding_from_a_float32_sum():
    """Random half and bfloat16 data: the result is the float32 sum rounded once; staged and fast agree closely."""
    rng = np.random.default_rng(5)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        go = rng.standard_normal((1, 20, 2, 6, 7)).astype(dtype)
        wt = rng.standard_normal((20, 17, 2, 3, 3)).astype(dtype)
        problem = TileProblem(1, 17, 20, (3, 6, 7), (2, 6, 7), (2, 3, 3), (1, 1, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1))
        exact = plain_grad_input(problem, go.astype(np.float64), wt.astype(np.float64))
        for staged in (False, True):
            got = simulate(go, wt, input_shape=problem.input_shape, padding=problem.padding, staged=staged).grad_input
            assert got.dtype == dtype
            size = max(2.0**-14, np.abs(exact).max())
            unit = float(ml_dtypes.finfo(dtype).eps) * 0.5
            assert np.all(np.abs(got.astype(np.float64) - exact) <= unit * np.abs(exact) + 1e-5 * size)


def test_fast_and_staged_modes_give_the_same_bits():
    """Random half data: both modes add in the stated order, so they agree to the last bit of L0C."""
    rng = np.random.default_rng(6)
    for seed in range(12):
        problem = random_problem(seed)
        go, wt = (
            rng.standard_normal(shape).astype(np.float16) for shape in (problem.output_shape, problem.weight_shape)
        )
        arguments = {"input_shape": problem.input_shape, "cores": problem.cores, **problem.attributes()}
        fast, staged = (simulate(go, wt, staged=staged, **arguments).grad_input for staged in (False, True))
        assert fast.tobytes() == staged.tobytes(), problem


def test_the_library_multiplies_as_the_definition_says(monkeypatch):
    """The function that kernels in C++ run gives the bits of the definition, at every remainder."""
    rng = np.random.default_rng(3)
    cases = (1, 1, 16, 1), (5, 48, 32, 16), (13, 50, 48, 16), (29, 144, 16, 144), (12, 7, 64, 99)
    for rows, k, columns, chunk in cases:
        a, b = rng.standard_normal((rows, k)), rng.standard_normal((k, columns))
        a, b = np.asfortranarray(a.astype(np.float32)), b.astype(np.float32)
        before = rng.standard_normal((rows, columns)).astype(np.float32)
        results = []
        for engine in ("native", "reference"):
            monkeypatch.setenv("CONVGRAD_ENGINE", engine)
            added = multiply_in_chunks(a, b, chunk, before.copy())
            results.append(multiply_in_chunks(a, b, chunk).tobytes() + added.tobytes())
        assert results[0] == results[1], (rows, k, columns, chunk)


THREADS_PROGRAM = """
import hashlib, numpy as np
from convgrad.ascendc import Golden, simulate, simulate_filter
rng = np.random.default_rng(0)
shapes = (1, 130, 2, 17, 40), (130, 50, 2, 3, 3), (1, 50, 3, 17, 40)
go, wt, x = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
sim = simulate(go, wt, input_shape=x.shape, padding=(0, 0, 1, 1, 1, 1), cores=3)
bits = b"".join(tile.values.tobytes() for tile in Golden(sim).tiles())
filtered = simulate_filter(x, go, weight_shape=wt.shape, padding=(0, 0, 1, 1, 1, 1), cores=3)
print(hashlib.sha256(bits + filtered.grad_weight.tobytes()).hexdigest())
"""


def test_the_same_bits_for_any_number_of_threads():
    """float32 tiles of both kernels have the same bits with one and with two threads."""
    told = [
        subprocess.run([sys.executable, "-c", THREADS_PROGRAM], capture_output=True, text=True, check=True,
                       env={**os.environ, "CONVGRAD_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}).stdout
        for threads in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1] and len(told[0].strip()) == 64


def test_overflow_is_infinity_or_saturates_on_request():
    """A sum beyond half becomes infinity, or 65504 when saturation is asked for."""
    go, wt = np.full((1, 16, 1, 1, 1), 255.0), np.full((16, 1, 1, 1, 1), 255.0)
    plain = simulate(go, wt, input_shape=(1, 1, 1, 1, 1), cores=1)
    clamped = simulate(go, wt, input_shape=(1, 1, 1, 1, 1), cores=1, saturate=True)
    assert np.isinf(plain.grad_input).all()
    assert (clamped.grad_input == np.float16(65504)).all()
    assert (simulate(-go, wt, input_shape=(1, 1, 1, 1, 1), saturate=True).grad_input == np.float16(-65504)).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"stride": 1.5}, "stride must be an integer, got 1.5"), ({"stride": (1, 2)}, "one number or three"),
        ({"padding": "ab"}, "padding must be"), ({"padding": ((0, 0), (0,), (0, 0))}, "padding must be"),
        ({"dilation": "abc"}, "dilation must be an integer"), ({"input_shape": (1, 4, 3)}, "five numbers"),
        ({"input_shape": (1, 5, 1, 3, 3)}, "must agree"), ({"cores": 0}, "number of cores"),
        ({"dtype": "float32"}, "half or bfloat16"), ({"dtype": "nope"}, "dtype must be one of"),
        ({"grad_output": np.zeros((4, 1, 3, 3))}, "five axes"), ({"tiling": {"a": 1}}, "exactly 66 fields"),
        ({"grad_output": np.zeros((0, 4, 1, 3, 3)), "input_shape": (0, 4, 1, 3, 3)}, "batch must be above 0"),
        ({"layout": ConvFormat.NCDHW, "grid": CoreGrid(kDim=2), "weight": np.ones((32, 4, 1, 1, 1)),
          "grad_output": np.ones((1, 32, 1, 3, 3))}, "K cannot be split"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(change, text):
    """A wrong argument of simulate raises a TilingError that says which one and what was got."""
    usual = {
        "grad_output": np.ones((1, 4, 1, 3, 3)),
        "weight": np.ones((4, 4, 1, 1, 1)),
        "input_shape": (1, 4, 1, 3, 3),
    }
    with pytest.raises(TilingError, match=text):
        simulate(**(usual | change))


def test_more_cores_than_work():
    """A billion cores, or a grid larger than the problem, leave most cores idle and the result right."""
    problem = replace(random_problem(21), cores=10**9)
    for options in ({}, {"layout": ConvFormat.NCDHW}, {"grid": CoreGrid(3, 5, 7, 3, 9)}):
        result, expected = run(problem, **options)
        assert np.array_equal(result.grad_input, expected)


def test_nan_in_grad_output_reaches_what_its_window_reaches():
    """A NaN in gradOutput spoils the elements its window covers; elements in other tiles' windows stay exact."""
    problem = TileProblem(1, 3, 3, (1, 6, 6), (1, 6, 6), (1, 1, 1), (1, 1, 1), (0,) * 6, (1, 1, 1))
    grad_output, weight, _ = problem.arrays()
    spoiled = grad_output.astype(np.float16)
    spoiled[0, 1, 0, 2, 3] = np.nan
    result = simulate(spoiled, weight, input_shape=problem.input_shape, cores=1).grad_input
    expected = plain_grad_input(problem, grad_output, weight)
    wrong = np.argwhere(np.isnan(result))
    assert {tuple(place) for place in wrong} == {(0, channel, 0, 2, 3) for channel in range(3)}
    assert np.array_equal(result[~np.isnan(result)], expected[~np.isnan(result)])


def test_raw_tiles_into_an_ncdhw_gradient_are_refused():
    """GetTensorC of an NCDHW object takes a workspace; the gradInput tensor itself is store.ncdhw, as in C++."""
    planned, expected = run(replace(random_problem(12), cores=1))
    t, block = planned.tiling, planned.blocks[0]
    formats = (ConvFormat.FRACTAL_Z_3D, ConvFormat.ND, ConvFormat.NDC1HWC0, ConvFormat.NCDHW)
    kernel = Conv3DBackpropInput(*(ConvType(TPosition.GM, f, int32_t if f is ConvFormat.ND else half) for f in formats))
    kernel.Init(t)
    kernel.SetSingleShape(block.M, block.K, block.N)
    kernel.SetStartPosition(block.plane, block.ho_start)
    kernel.SetGradOutput(GlobalTensor(planned.grad_output_gm)[block.offset_a])
    kernel.SetWeight(GlobalTensor(planned.weight_gm)[block.offset_b])
    assert kernel.Iterate()
    with pytest.raises(AddressError, match="gradInput is declared NCDHW: GetTensorC leaves raw tiles at") as caught:
        kernel.GetTensorC(GlobalTensor(np.zeros(expected.size, np.float16), name="gradInput"))
    assert caught.value.rule == "store.ncdhw"


@pytest.mark.parametrize("finished", [True, False])
def test_the_documented_loop_with_ncdhw_is_refused_at_end(finished):
    """The sample declares gradInput as NCDHW; without finish_ncdhw nothing of it is ever written, and End says so."""
    planned, expected = run(replace(random_problem(12), cores=1))
    t = planned.tiling
    formats = (ConvFormat.FRACTAL_Z_3D, ConvFormat.ND, ConvFormat.NDC1HWC0, ConvFormat.NCDHW)
    types = [ConvType(TPosition.GM, f, int32_t if f is ConvFormat.ND else half) for f in formats]
    kernel = Conv3DBackpropInput(*types)
    workspace = GlobalTensor(np.zeros(t.baseM * t.baseN, np.float16))
    destination = GlobalTensor(np.zeros(expected.size, np.float16))
    kernel.Init(t)
    for block in planned.blocks:
        kernel.SetSingleShape(block.M, block.K, block.N)
        kernel.SetStartPosition(block.plane, block.ho_start)
        kernel.SetGradOutput(GlobalTensor(planned.grad_output_gm)[block.offset_a])
        kernel.SetWeight(GlobalTensor(planned.weight_gm)[block.offset_b])
        while kernel.Iterate():
            kernel.GetTensorC(workspace)
            if finished:
                finish_ncdhw(kernel, workspace, destination[block.offset_ncdhw(t)])
        kernel.ctx.isFirstIter_ = True
    if finished:
        kernel.End()
        assert np.array_equal(destination.memory.data.reshape(expected.shape), expected)
    else:
        with pytest.raises(CallOrderError, match="stayed raw in the workspace and are lost; call finish_ncdhw"):
            kernel.End()
