"""Traffic of the filter kernel in closed form equals what its staged mode counts; balance and warnings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convgrad.ascendc import Conv3DBackpropFilter, FilterBasicBlock, GlobalTensor, filter_traffic_report, half
from convgrad.ascendc import simulate_filter as simulate
from convgrad.ascendc.filter.simulate import filter_types, run_filter_core
from convgrad.ascendc.filter.staged import StagedFilterCube
from convgrad.ascendc.filter.traffic import filter_block_traffic, loads_per_block
from convgrad.ascendc.filter.walk import filter_shape
from tile_problems import forced_small_filter_tiles, random_problem, with_filter_tiles

COUNTED = ("a_loads", "b_loads", "gm_to_a1", "gm_to_b1", "a1_to_l0a", "b1_to_l0b", "multiply_adds", "rows_loaded")


def staged_cube(sim, block) -> StagedFilterCube:
    """What the staged cube counts for one block."""
    t = sim.tiling
    kernel = Conv3DBackpropFilter(*filter_types(half), staged=True)
    output = GlobalTensor(np.zeros(t.grad_weight_size, np.float32))
    run_filter_core(t, [block], kernel, GlobalTensor(sim.input_gm), GlobalTensor(sim.grad_output_gm), output)
    return kernel.cube


def simulated(seed: int):
    """A random problem with forced small tiles, whole planes in one walk, and single or double buffers."""
    problem = random_problem(seed)
    grad_output, _, input = problem.arrays()
    arguments = {"weight_shape": problem.weight_shape, "cores": problem.cores, **problem.attributes()}
    t, block = forced_small_filter_tiles(simulate(input, grad_output, **arguments).tiling, seed)
    rng = np.random.default_rng(seed)
    buffers = {"al1Pbuffer": int(rng.integers(1, 3)), "bl1Pbuffer": int(rng.integers(1, 3))}
    t = with_filter_tiles(t, baseK=16, stepKa=int(rng.integers(1, 4)), stepKb=int(rng.integers(1, 4)), **buffers)
    block = replace(block, singleCoreK=t.ho * t.wo)
    fast, staged = (
        simulate(input, grad_output, tiling=t, basic_block=block, staged=staged, **arguments)
        for staged in (False, True)
    )
    assert np.array_equal(fast.grad_weight, staged.grad_weight)
    return fast


def test_closed_form_equals_the_staged_count():
    """Loads, bytes of each level and products of 60 random problems: formula and staged walk agree exactly."""
    kept = {(stays_a, stays_b): 0 for stays_a in (False, True) for stays_b in (False, True)}
    for seed in range(9000, 9060):
        sim = simulated(seed)
        for block in sim.blocks[:2]:
            visits = loads_per_block(sim.tiling, filter_shape(sim.tiling, block.M, block.N, block.K))
            kept[visits[0] > 0, visits[1] > 0] += 1
            formula, counted = filter_block_traffic(sim.tiling, block), staged_cube(sim, block).counters
            for name in COUNTED:
                assert getattr(formula, name) == getattr(counted, name), (seed, name)
    assert min(kept.values()) >= 3, kept  # gradOutput, the input, both and neither stay in L1


def test_the_report_sums_blocks_and_cores():
    """Totals are sums over blocks; what is added is each block's part of gradWeight; balance is mean over busiest."""
    sim = simulated(9001)
    t = sim.tiling
    report = filter_traffic_report(t, sim.blocks, sim.cores)
    assert report.total.multiply_adds == sum(report.per_core)
    assert report.total.multiply_adds == sum(filter_block_traffic(t, block).multiply_adds for block in sim.blocks)
    assert report.blocks == len(sim.blocks) and report.cores_used == sim.cores_used and 0 < report.balance <= 1
    assert report.total.l0c_to_gm == 4 * sum(block.M * block.N for block in sim.blocks)
    assert report.adds_per_element == report.total.l0c_to_gm / (t.grad_weight_size * 4)
    assert report.fill["L0C"] == (t.baseM * t.baseN * 4, 131072)
    assert sum(report.l1_parts) == report.fill["L1"][0]
    assert set(report.ratios) == {"grad_output_reloads", "input_reloads", "adds_per_element", "overfetch"}


def test_whole_axes_load_every_tensor_once():
    """One window plane, one tile, all rows in one load: both operands are loaded once, each element is added once."""
    grad_output, input = np.ones((1, 16, 1, 8, 8)), np.ones((1, 16, 1, 8, 8))
    sim = simulate(input, grad_output, weight_shape=(16, 16, 1, 3, 3), padding=(0, 0, 1, 1, 1, 1), cores=1)
    t = with_filter_tiles(sim.tiling, baseM=16, baseN=144, baseK=64, stepKa=1, stepKb=1)
    whole = FilterBasicBlock(16, 144, 64)
    sim = simulate(input, grad_output, weight_shape=(16, 16, 1, 3, 3), padding=(0, 0, 1, 1, 1, 1), cores=1, tiling=t,
                   basic_block=whole)  # fmt: skip
    report = filter_traffic_report(sim.tiling, sim.blocks, 1)
    assert (report.grad_output_reloads, report.input_reloads, report.adds_per_element) == (1.0, 1.0, 1.0)
    assert report.overfetch == 1.0 and report.total.multiply_adds == 16 * 144 * 64


def test_even_work_is_balanced():
    """Eight equal planes on eight cores are balanced to 1, on five cores they are not."""
    grad_output, input = np.ones((1, 16, 8, 8, 8)), np.ones((1, 16, 8, 8, 8))
    arguments = {"weight_shape": (16, 16, 1, 3, 3), "padding": (0, 0, 1, 1, 1, 1),
                 "basic_block": FilterBasicBlock(16, 144, 64)}  # fmt: skip
    eight, five = (simulate(input, grad_output, cores=cores, **arguments) for cores in (8, 5))
    assert filter_traffic_report(eight.tiling, eight.blocks, 8).balance == 1.0
    assert filter_traffic_report(five.tiling, five.blocks, 5).balance == 8 / 10


def test_hardware_field_limits_warn():
    """A value that an instruction field cannot hold is named with the limit; usual problems have none."""
    sim = simulated(9002)
    assert filter_traffic_report(sim.tiling, sim.blocks, sim.cores).warnings == ()
    wide = replace(sim.tiling, wi=33000, dilationH=300)
    warned = filter_traffic_report(wide, sim.blocks, sim.cores).warnings
    assert len(warned) == 2 and "300" in warned[0] and "32767" in warned[1]
