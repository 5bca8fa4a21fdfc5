"""Traffic in closed form equals what the staged mode counts; balance and warnings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convgrad.ascendc import Conv3DBackpropInput, GlobalTensor, half, simulate, traffic_report
from convgrad.ascendc.input.checks import weights_stay
from convgrad.ascendc.input.simulate import input_types, run_core
from convgrad.ascendc.input.traffic import block_traffic, input_warnings
from convgrad.ascendc.input.walk import row_window, single_shape, tiles_in_order
from tile_problems import forced_small_tiles, random_problem


def staged_counters(sim, block):
    """What the staged cube counts for one block."""
    t = sim.tiling
    kernel = Conv3DBackpropInput(*input_types(half), staged=True)
    output = GlobalTensor(np.zeros(t.grad_input_size, np.float16))
    run_core(t, [block], kernel, GlobalTensor(sim.grad_output_gm), GlobalTensor(sim.weight_gm), output)
    return kernel.cube


def simulated(seed: int):
    """A random problem with forced small tiles."""
    problem = random_problem(seed)
    grad_output, weight, _ = problem.arrays()
    arguments = {"input_shape": problem.input_shape, "cores": problem.cores, **problem.attributes()}
    tiling = forced_small_tiles(simulate(grad_output, weight, **arguments).tiling, seed)
    if tiling.dk == 1 and seed % 2:  # weights that stay in L1
        chunks = -(-tiling.cout1 * tiling.k_of_block // tiling.baseK)
        tiling = replace(tiling, bl1Pbuffer=1, stepKb=chunks, baseN=max(16, tiling.singleCoreCin1 * 16))
    return simulate(grad_output, weight, tiling=tiling, **arguments)


def test_closed_form_equals_the_staged_count():
    """Loads, bytes of each level and products of 60 random problems: formula and staged walk agree exactly."""
    staying = 0
    for seed in range(9000, 9060):
        sim = simulated(seed)
        staying += weights_stay(sim.tiling)
        for block in sim.blocks[:2]:
            formula, counted = block_traffic(sim.tiling, block), staged_counters(sim, block).counters
            for name in ("a_loads", "b_loads", "gm_to_a1", "gm_to_b1", "a1_to_l0a", "b1_to_l0b", "multiply_adds"):
                assert getattr(formula, name) == getattr(counted, name), (seed, name)
    assert staying >= 5


def test_ping_and_pong_follow_the_documented_parity():
    """A1 and B1 change buffers with the parity of tile index times groups plus group."""
    sim = simulated(9003)
    trace = staged_counters(sim, sim.blocks[0]).trace
    assert {buffer for buffer, *_ in trace} == {"A1", "B1"}
    assert all(parity in (0, 1) for _, parity, *_ in trace)
    t = sim.tiling
    chunks = -(-t.cout1 * t.k_of_block // t.baseK)
    groups = -(-chunks // t.stepKa)
    first_tile = [parity for buffer, parity, kd, group in trace if buffer == "A1"][:groups]
    assert first_tile == [group % 2 for group in range(groups)]


def test_the_report_sums_blocks_and_cores():
    """Totals are sums over blocks; stored bytes are every written element once; balance is mean over busiest."""
    sim = simulated(9001)
    report = traffic_report(sim.tiling, sim.blocks, sim.cores)
    assert report.total.multiply_adds == sum(report.per_core)
    assert report.total.multiply_adds == sum(block_traffic(sim.tiling, block).multiply_adds for block in sim.blocks)
    assert report.blocks == len(sim.blocks) and report.cores_used <= sim.cores_used
    assert 0 < report.balance <= 1
    assert report.weight_reloads > 0 and report.overfetch > 0 and report.products_per_byte > 0
    t = sim.tiling
    if t.initOutputFlag == 0:
        assert report.total.l0c_to_gm == t.grad_input_size * 2
    assert report.fill["L0C"] == (t.baseM * t.baseN * 4, 131072)


def test_even_work_is_balanced():
    """Eight equal planes on eight cores are balanced to 1, on five cores they are not."""
    grad_output, weight = np.ones((1, 16, 8, 8, 8)), np.ones((16, 16, 1, 3, 3))
    arguments = {"input_shape": (1, 16, 8, 8, 8), "padding": (0, 0, 1, 1, 1, 1)}
    eight = simulate(grad_output, weight, cores=8, **arguments)
    assert traffic_report(eight.tiling, eight.blocks, 8).balance == 1.0
    whole_planes = replace(eight.tiling, singleCoreM=64, singleCoreCin1=1, singleCoreCin=16)
    five = simulate(grad_output, weight, cores=5, tiling=whole_planes, **arguments)
    assert traffic_report(five.tiling, five.blocks, 5).balance == 8 / 10


def test_hardware_field_limits_warn():
    """A value that an instruction field cannot hold is named with the limit; usual problems have none."""
    t = simulated(9002).tiling
    assert input_warnings(t) == ()
    warned = input_warnings(replace(t, wo=20000, strideW=2, hk=600))
    assert len(warned) == 2 and "40000" in warned[1] and "511" in warned[0]


def test_stored_bytes_and_skipped_tiles_are_those_of_the_walk():
    """Tile by tile: what is kept is stored in its own size, whole 16s or not; skipped rows are skipped across N."""
    skipped = tails = 0
    for seed in range(9000, 9060):
        sim = simulated(seed)
        t = sim.tiling
        for block in sim.blocks:
            shape = single_shape(t, block.M, block.K, block.N)
            tiles = tiles_in_order(t, shape, block.plane)
            reached = [bool(t.depth_taps(block.plane))
                       and (row_window(t, block.ho_start, one.m_start).rows > 0 or t.initOutputFlag == 0)
                       for one in tiles]  # fmt: skip
            found = block_traffic(t, block)
            kept = [one for one, keep in zip(tiles, reached, strict=True) if keep]
            assert found.l0c_to_gm == sum(one.m_length * one.n_length for one in kept) * t.element_bytes
            assert (found.tiles, found.skipped_tiles) == (len(tiles), len(tiles) - len(kept))
            skipped += len(tiles) > len(kept) and shape.n.count > 1
            tails += any(one.m_length % 16 for one in kept)
    assert tails > 0 and skipped > 0
