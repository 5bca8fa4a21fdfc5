"""Golden tiles of gradWeight, and the comparer that names tile, channel block, tap and the lost part of the sum."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from convgrad.ascendc import (
    Conv3DBackpropFilter,
    FilterBasicBlock,
    FilterGolden,
    GlobalTensor,
    TilingError,
    compare_dump,
    half,
    read_bin,
    simulate_filter,
    to_fractal_z_3d,
)
from convgrad.ascendc.filter.simulate import filter_types, run_filter_core
from tile_problems import TileProblem, forced_small_filter_tiles, plain_grad_weight, random_problem, with_filter_tiles

PROBLEM = TileProblem(2, 20, 40, (4, 8, 9), (3, 8, 9), (2, 3, 3), (1, 1, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1), seed=4)


def golden_of(problem: TileProblem = PROBLEM, cores: int = 5, arrays=None) -> FilterGolden:
    """Golden tiles of a problem cut into small tiles: 16 channels, 5 columns of 16, pieces of 4 rows."""
    grad_output, _, input = arrays or problem.arrays()
    arguments = {"weight_shape": problem.weight_shape, "cores": cores, **problem.attributes()}
    t = simulate_filter(input, grad_output, **arguments).tiling
    t = with_filter_tiles(t, baseM=16, baseN=80, baseK=16, stepKa=1, stepKb=1)
    block = FilterBasicBlock(32, t.window_area * 16, 4 * t.wo)
    return FilterGolden(simulate_filter(input, grad_output, tiling=t, basic_block=block, **arguments))


def test_golden_tiles_put_together_are_the_gradient():
    """Tiles added up over all cores are gradWeight, and each slice lies at the channel block and tap it names."""
    for seed in range(8000, 8030):
        problem = random_problem(seed)
        grad_output, _, input = problem.arrays()
        arguments = {"weight_shape": problem.weight_shape, "cores": problem.cores, **problem.attributes()}
        t, block = forced_small_filter_tiles(simulate_filter(input, grad_output, **arguments).tiling, seed)
        sim = simulate_filter(input, grad_output, tiling=t, basic_block=block, **arguments)
        golden = FilterGolden(sim)
        memory = np.zeros(t.grad_weight_size, np.float32)
        for tile in golden.tiles():
            assert tile.stored is tile.values and not tile.skipped
            for number, one in enumerate(tile.slices):
                memory[one.start : one.stop] += tile.values[:, number * 16 : number * 16 + 16].reshape(-1)
                (_, cin, *tap), _ = golden.element(one.start)
                assert (cin // 16, tuple(tap)) == (one.channel_block, one.tap)
        assert np.array_equal(memory, sim.grad_weight_gm), problem
        assert np.array_equal(sim.grad_weight, plain_grad_weight(problem, grad_output, input))
        assert compare_dump(golden, memory).ok


def test_a_tile_is_found_by_core_block_and_indices():
    """tile(core, block, i, j) gives that tile with its part of the sum; another index raises."""
    golden = golden_of()
    some = list(golden.tiles())[5]
    found = golden.tile(some.core, some.block, some.tile.i, some.tile.j)
    assert found.tile == some.tile and np.array_equal(found.values, some.values)
    block = golden.block(some.block)
    assert found.part == {"batch": block.batch, "plane": block.plane, "window_plane": block.window_plane,
                          "ho_start": block.ho_start}  # fmt: skip
    with pytest.raises(TilingError, match="no tile"):
        golden.tile(some.core, some.block, 99, 0)
    assert {tile.core for tile in golden.tiles(core=1)} == {1}


def test_golden_files_can_be_read_back(tmp_path):
    """write() gives an index with batch, planes, rows and taps, and raw float32 files; read back they are the tiles."""
    golden = golden_of()
    count = golden.write(tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    assert len(index) == count == len(list(golden.tiles()))
    last, tile = index[-1], list(golden.tiles())[-1]
    assert (last["batch"], last["plane"], last["window_plane"], last["ho_start"]) == (1, 2, 1, 4)
    assert last["slices"] == [[one.channel_block, one.start, one.stop, *one.tap] for one in tile.slices]
    values = read_bin(tmp_path / f"{last['file']}.l0c.bin", "float32", (last["rows"], last["columns"]))
    assert np.array_equal(values, tile.values)


def test_a_right_dump_passes():
    """The simulated memory itself compares right, in any shape; a dump of another size or dtype raises."""
    golden = golden_of()
    comparison = compare_dump(golden, golden.memory.reshape(-1, 16))
    assert comparison.ok and comparison.tiles == len(list(golden.tiles()))
    with pytest.raises(TilingError, match="elements of float32"):
        compare_dump(golden, golden.memory[:-1])
    with pytest.raises(TilingError, match="of float16"):
        compare_dump(golden, golden.memory.astype(np.float16))


def test_the_first_wrong_element_is_named():
    """One wrong value: channel block, tap, element, flat index, expected and got are all named."""
    golden = golden_of()
    dump = golden.memory.copy()
    tile = list(golden.tiles())[7]
    where = tile.slices[2]
    flat = where.start + 3 * 16 + 2
    dump[flat] += 1
    first = compare_dump(golden, dump).first
    assert (first.flat, first.channel_block, first.tap, first.wrong) == (flat, where.channel_block, where.tap, 1)
    assert first.golden.tile == tile.tile and first.got == first.expected + 1
    assert first.element[2:] == where.tap and first.element[1] // 16 == where.channel_block
    assert first.expected == plain_grad_weight(PROBLEM, PROBLEM.arrays()[0], PROBLEM.arrays()[2])[first.element]
    assert "tap (kd {}, kh {}, kw {}) at (cout".format(*where.tap) in str(first)
    assert "no single tile" in first.cause and f"{first.others} more that add to the same elements" in str(first)


def dumped(golden: FilterGolden, blocks, atomic=lambda block: 1, ho_start=lambda block: block.ho_start,
           c=lambda block: 0) -> np.ndarray:  # fmt: skip
    """gradWeight of a kernel that walks these blocks, adds or stores, and may start or end up elsewhere."""
    sim, memory = golden.simulation, np.zeros_like(golden.memory)
    kernel = Conv3DBackpropFilter(*filter_types(half), report=lambda error: None)
    kernel.Init(sim.tiling)
    for block in blocks:
        kernel.SetSingleShape(block.M, block.N, block.K)
        kernel.SetStartPosition(ho_start(block))
        kernel.SetInput(GlobalTensor(sim.input_gm)[block.offset_b])
        kernel.SetGradOutput(GlobalTensor(sim.grad_output_gm)[block.offset_a])
        while kernel.Iterate():
            kernel.GetTensorC(GlobalTensor(memory)[block.offset_c + c(block)], atomic(block))
        kernel.ctx.isFirstIter_ = True
    return memory


def test_a_lost_and_a_repeated_tile_are_named():
    """Without one block, or with it done twice, the comparer names its core, index, batch, plane and rows."""
    golden = golden_of()
    lost = golden.blocks[9]
    words = f"core {lost.core}, block {lost.index} ({lost.describe(golden.simulation.tiling)})"
    missing = compare_dump(golden, dumped(golden, [block for block in golden.blocks if block is not lost]))
    assert missing.first.cause == f"the part of {words} is missing"
    assert (missing.first.golden.core, missing.first.golden.block) == (lost.core, lost.index)
    twice = compare_dump(golden, dumped(golden, [*golden.blocks, lost]))
    assert twice.first.cause == f"the part of {words} is counted twice"


@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        (lambda g: dumped(g, [b for b in g.blocks if b.batch == 0]), "batch 1 is missing"),
        (lambda g: dumped(g, [*g.blocks, *(b for b in g.blocks if b.plane == 2)]),
         "gradOutput plane 2 is counted twice"),
        (lambda g: dumped(g, [b for b in g.blocks if b.ho_start == 0]), "the piece from row 4 is missing"),
        (lambda g: dumped(g, g.blocks, atomic=lambda b: 0), "stored, not added (enAtomic 0)"),
        (lambda g: dumped(g, g.blocks, ho_start=lambda b: 0), "every walk starts as if at row 0"),
        (lambda g: dumped(g, g.blocks, c=lambda b: (1 - 2 * b.window_plane) * g.memory.size // 2),
         "sums of window plane kd 1: look at kd in the offset"),
        (lambda g: np.zeros_like(g.memory), "memory holds 0"),
        (lambda g: np.where(np.arange(g.memory.size) == 40, np.nan, g.memory), "was not zeroed"),
    ],
)  # fmt: skip
def test_each_mistake_is_recognised(mistake, cause):
    """Lost batches, planes and rows, stores instead of adds, a wrong start row or window plane: each by its name."""
    golden = golden_of()
    comparison = compare_dump(golden, mistake(golden).astype(np.float32))
    assert not comparison.ok
    assert cause in str(comparison)


def test_a_core_whose_parts_alone_are_left_is_named():
    """When one core's parts are all that is left of a sum, the others' were stored over."""
    golden = golden_of()
    golden.blocks = tuple(replace(block, core=block.plane) for block in golden.blocks)
    dump = dumped(golden, [block for block in golden.blocks if block.core == 2])
    assert "only core 2's parts are there" in str(compare_dump(golden, dump))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda w: w[:, :, :, ::-1, ::-1], "turned by half a turn"),
        (lambda w: w.swapaxes(3, 4), "rows and columns of the window are exchanged"),
    ],
)
def test_a_window_the_wrong_way_round_is_named(change, cause):
    """Right sums at the wrong tap are recognised."""
    golden = golden_of()
    moved = np.ascontiguousarray(change(golden.simulation.grad_weight))
    assert cause in str(compare_dump(golden, to_fractal_z_3d(moved, 16)))


@pytest.mark.parametrize(
    ("field", "words"), [("padUp", "1 rows too far on (padUp"), ("padLeft", "1 columns too far on (padLeft")]
)
def test_a_forgotten_pad_is_named(field, words):
    """A kernel that reads the input without the top or left pad is recognised by the shift."""
    golden = golden_of()
    sim = golden.simulation
    t = replace(sim.tiling, **{field: 0}, padDown=2, padRight=2)
    rows = [replace(block, offset_b=block.offset_b + (block.ho_start > 0) * (field == "padUp") * t.wi * 16)
            for block in golden.blocks]  # fmt: skip
    memory = GlobalTensor(np.zeros_like(golden.memory))
    run_filter_core(t, rows, Conv3DBackpropFilter(*filter_types(half)), GlobalTensor(sim.input_gm),
                    GlobalTensor(sim.grad_output_gm), memory)  # fmt: skip
    assert words in str(compare_dump(golden, memory.memory.data))


def test_real_numbers_with_a_tolerance():
    """On real numbers another order of adding passes with a tolerance, and a lost block is still named."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float16) for shape in
              (PROBLEM.output_shape, PROBLEM.weight_shape, PROBLEM.input_shape)]  # fmt: skip
    golden = golden_of(arrays=arrays)
    backwards = dumped(golden, golden.blocks[::-1])
    assert not compare_dump(golden, backwards).ok and compare_dump(golden, backwards, tolerance=1e-5).ok
    lost = compare_dump(golden, dumped(golden, golden.blocks[1:]), tolerance=1e-5)
    assert "block 0 (batch 0, plane 0, rows 0...3) is missing" in lost.first.cause


def test_a_nan_of_the_data_is_no_mistake():
    """A NaN in gradOutput makes its channel's sums NaN: that is right, and a lost block is still named."""
    grad_output, weight, input = (array.astype(np.float16) for array in PROBLEM.arrays())
    grad_output[0, 5, 0, 0, 0] = np.nan
    golden = golden_of(arrays=(grad_output, weight, input))
    assert np.isnan(golden.memory).any() and compare_dump(golden, golden.memory).ok
    lost = golden.blocks[9]
    dump = dumped(golden, [block for block in golden.blocks if block is not lost])
    words = f"block {lost.index} ({lost.describe(golden.simulation.tiling)}) is missing"
    assert words in str(compare_dump(golden, dump))


def test_elements_that_no_tile_writes_must_be_zero():
    """A window plane that never meets the input has no tiles, and its gradWeight must hold the zeros put there."""
    problem = TileProblem(1, 16, 16, (1, 4, 4), (1, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1))
    golden = golden_of(problem)
    assert {block.window_plane for block in golden.blocks} == {1}
    dump = golden.memory.copy()
    assert compare_dump(golden, dump).ok
    dump[0] = 3
    comparison = compare_dump(golden, dump)
    assert not comparison.ok and comparison.not_zeroed == 1 and "no tile writes" in str(comparison)
