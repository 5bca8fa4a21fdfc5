"""Golden values per tile, and the comparer that names tile, channel block, element and tap."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from convgrad.ascendc import (
    Conv3DBackpropInput,
    CoreGrid,
    GlobalTensor,
    Golden,
    TilingError,
    compare_dump,
    half,
    read_bin,
    simulate,
)
from convgrad.ascendc.input.simulate import input_types
from tile_problems import TileProblem, forced_small_tiles, plain_grad_input, random_problem

PROBLEM = TileProblem(1, 20, 40, (4, 8, 9), (3, 8, 9), (2, 3, 3), (1, 1, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1), seed=4)


def golden_of(problem: TileProblem = PROBLEM, cores: int = 3, **options) -> Golden:
    """Golden tiles of a problem cut into small tiles."""
    grad_output, weight, _ = problem.arrays()
    arguments = {"input_shape": problem.input_shape, "cores": cores, **problem.attributes()}
    tiling = simulate(grad_output, weight, **arguments).tiling
    tiling = replace(tiling, baseM=32, baseN=16, singleCoreM=4 * tiling.wi)
    return Golden(simulate(grad_output, weight, tiling=tiling, **arguments, **options))


def test_golden_tiles_put_together_are_the_gradient():
    """Every element of gradInput is in exactly one slice, and the slices hold what the definition says."""
    for seed in range(8000, 8030):
        problem = random_problem(seed)
        grad_output, weight, _ = problem.arrays()
        arguments = {"input_shape": problem.input_shape, "cores": problem.cores, **problem.attributes()}
        tiling = forced_small_tiles(simulate(grad_output, weight, **arguments).tiling, seed)
        sim = simulate(grad_output, weight, tiling=tiling, **arguments)
        memory = np.zeros(tiling.grad_input_size, np.float16)
        seen = np.zeros(tiling.grad_input_size, np.int32)
        for tile in Golden(sim).tiles():
            assert tile.skipped == (tile.stored is None)
            for number, one in enumerate(tile.slices):
                seen[one.start : one.stop] += 1
                if tile.stored is not None:
                    memory[one.start : one.stop] = tile.stored[:, number * 16 : number * 16 + 16].reshape(-1)
        assert seen.max() <= 1
        assert np.array_equal(memory, np.where(np.isnan(sim.grad_input_gm), 0, sim.grad_input_gm)), problem
        packed = memory.reshape(tiling.batch, tiling.di, tiling.cin1, tiling.hi, tiling.wi, 16)
        channels = packed.transpose(0, 2, 5, 1, 3, 4).reshape(problem.batch, -1, *problem.size)[:, : problem.cin]
        assert np.array_equal(channels, plain_grad_input(problem, grad_output, weight))


def test_a_tile_is_found_by_core_block_and_indices():
    """tile(core, block, i, j) gives that tile; another core, block or index raises."""
    golden = golden_of()
    some = list(golden.tiles())[5]
    found = golden.tile(some.core, some.block, some.tile.i, some.tile.j)
    assert found.tile == some.tile and np.array_equal(found.values, some.values)
    with pytest.raises(TilingError, match="no tile"):
        golden.tile(some.core, some.block, 99, 0)
    with pytest.raises(TilingError, match="no block 999"):
        golden.block(999)
    assert {tile.core for tile in golden.tiles(core=1)} == {1}


def test_golden_files_can_be_read_back(tmp_path):
    """write() gives an index and raw files; read back they are the tiles."""
    golden = golden_of()
    count = golden.write(tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    assert len(index) == count == len(list(golden.tiles()))
    first, tile = index[0], next(golden.tiles())
    shape = (first["rows"], first["columns"])
    assert np.array_equal(read_bin(tmp_path / f"{first['file']}.l0c.bin", "float32", shape), tile.values)
    assert np.array_equal(read_bin(tmp_path / f"{first['file']}.stored.bin", "half", shape), tile.stored)


def test_a_right_dump_passes():
    """The simulated memory itself compares right, in any shape; a dump of another size or dtype raises."""
    golden = golden_of()
    dump = golden.simulation.grad_input_gm
    comparison = compare_dump(golden, dump.reshape(-1, 16))
    assert comparison.ok and str(comparison) == f"all {comparison.tiles} tiles are right"
    with pytest.raises(TilingError, match="elements of float16"):
        compare_dump(golden, dump[:-1])
    with pytest.raises(TilingError, match="of float32"):
        compare_dump(golden, dump.astype(np.float32))


def test_the_first_wrong_element_is_named():
    """One wrong value: tile, channel block, element, flat index, expected and got are all named."""
    golden = golden_of()
    dump = golden.simulation.grad_input_gm.copy()
    tile = list(golden.tiles())[7]
    where = tile.slices[0]
    flat = where.start + 3 * 16 + 5
    dump[flat] += 1
    first = compare_dump(golden, dump).first
    assert (first.golden.core, first.golden.block, first.golden.tile) == (tile.core, tile.block, tile.tile)
    assert (first.flat, first.channel_block, first.wrong) == (flat, where.channel_block, 1)
    assert first.got == first.expected + 1
    n, c, d, h, w = first.element
    assert c == where.channel_block * 16 + 5 and d == tile.tile.plane
    expected = plain_grad_input(PROBLEM, *PROBLEM.arrays()[:2])[n, c, d, h, w] if c < PROBLEM.cin else 0
    assert first.expected == expected
    assert "no single tap" in first.cause


def wrong_dump(golden: Golden, change) -> str:
    """What the comparer says of a dump computed with a changed weight or gradOutput."""
    grad_output, weight, _ = PROBLEM.arrays()
    changed_output, changed_weight = change(grad_output.copy(), weight.copy())
    t = golden.simulation.tiling
    wrong = simulate(changed_output, changed_weight, input_shape=PROBLEM.input_shape, cores=3, tiling=t,
                     **PROBLEM.attributes())  # fmt: skip
    comparison = compare_dump(golden, wrong.grad_input_gm)
    assert not comparison.ok
    return str(comparison)


def zeroed(array, *place):
    """The array with a part set to 0."""
    array[place] = 0
    return array


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda g, w: (g, zeroed(w, slice(None), slice(None), 0, 2, 1)), "tap (kd 0, kh 2, kw 1) is missing"),
        (lambda g, w: (g, w * np.where(np.arange(9).reshape(3, 3) == 3, 2, 1)[None, None, None]
                       * np.array([1, 1]).reshape(1, 1, 2, 1, 1)), "tap (kd 0, kh 1, kw 0) is counted twice"),
        (lambda g, w: (zeroed(g, slice(None), slice(16, 32)), w), "cout block 1 is missing"),
        (lambda g, w: (g, w[:, :, :, ::-1, ::-1]), "not turned by half a turn"),
    ],
)  # fmt: skip
def test_the_tap_is_named(change, cause):
    """A missing or doubled tap, a missing channel block and an unturned window are each recognised."""
    assert cause in wrong_dump(golden_of(), change)


def test_a_wrong_start_row_is_named():
    """Tiles computed with the start row of a kernel that forgot the top pad are recognised as shifted by it."""
    golden = golden_of()
    sim = golden.simulation
    t, complaints = sim.tiling, []
    dump = np.zeros(t.grad_input_size, np.float16)
    kernel = Conv3DBackpropInput(*input_types(half), report=complaints.append)
    kernel.Init(t)
    for block in sim.blocks:
        ho_start = block.first_row  # the mistake: backpropPadUp is not subtracted
        kernel.SetSingleShape(block.M, block.K, block.N)
        kernel.SetStartPosition(block.plane, ho_start)
        kernel.SetGradOutput(GlobalTensor(sim.grad_output_gm)[ho_start * t.wo * t.c0])
        kernel.SetWeight(GlobalTensor(sim.weight_gm)[block.offset_b])
        while kernel.Iterate():
            kernel.GetTensorC(GlobalTensor(dump)[block.offset_c])
        kernel.ctx.isFirstIter_ = True
    assert {error.rule for error in complaints} == {"start.top_pad"}
    assert "read 1 expanded rows too low (start row)" in str(compare_dump(golden, dump))


def test_tiles_never_stored_are_told_apart():
    """A tile left as NaN, and one left as 0, are said to have never been stored."""
    golden = golden_of()
    tile = next(golden.tiles())
    for left, text in ((np.nan, "still holds NaN"), (0, "memory holds 0")):
        dump = golden.simulation.grad_input_gm.copy()
        for one in tile.slices:
            dump[one.start : one.stop] = left
        assert text in str(compare_dump(golden, dump))


def test_tolerance_is_for_another_order_of_adding():
    """With a tolerance a last-bit difference passes, a larger one does not; two NaN are equal."""
    golden = golden_of()
    dump = golden.simulation.grad_input_gm.copy()
    place = int(np.argmax(np.abs(dump)))
    dump[place] = np.nextafter(dump[place], np.float16(0))
    assert not compare_dump(golden, dump).ok
    assert compare_dump(golden, dump, tolerance=1e-3).ok
    dump[place] = dump[place] / 2
    assert not compare_dump(golden, dump, tolerance=1e-3).ok


def test_elements_that_no_tile_writes_must_be_zero():
    """Memory outside every tile must hold the zeros the kernel was to put there."""
    problem = replace(PROBLEM, stride=(2, 1, 1), size=(5, 8, 9), out=(2, 8, 9))
    golden = golden_of(problem)
    dump = golden.simulation.grad_input_gm.copy()
    assert compare_dump(golden, dump).ok
    t = golden.simulation.tiling
    assert t.depth_taps(4) == []
    dump[4 * t.cin1 * t.hi * t.wi * 16] = 3
    comparison = compare_dump(golden, dump)
    assert not comparison.ok and comparison.not_zeroed == 1 and "no tile writes" in str(comparison)


def test_partial_sums_cannot_be_compared():
    """With split K the tiles are partial sums: the comparer refuses."""
    grad_output, weight, _ = PROBLEM.arrays()
    sim = simulate(grad_output, weight, input_shape=PROBLEM.input_shape, grid=CoreGrid(kDim=2), **PROBLEM.attributes())
    with pytest.raises(TilingError, match="partial sums"):
        compare_dump(Golden(sim), sim.grad_input_gm)
