"""The checker of filter kernels: a sound one passes, each classic mistake is recognised, every row is summed once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convgrad.ascendc import (
    Fill,
    FilterBasicBlock,
    check_filter_kernel,
    filter_blocks,
    from_fractal_z_3d,
    run_filter_kernel,
    simulate_filter,
)
from tile_problems import TileProblem, forced_small_filter_tiles, plain_grad_weight, random_problem, with_filter_tiles

PROBLEM = TileProblem(2, 20, 40, (3, 8, 9), (3, 4, 9), (3, 3, 3), (1, 2, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1), seed=3)
CORES = 5


def planned(problem: TileProblem = PROBLEM):
    """Tiling and single shape that cut the problem into many blocks, and a simulation with them."""
    grad_output, _, input = problem.arrays()
    arguments = {"weight_shape": problem.weight_shape, "cores": CORES, **problem.attributes()}
    t = simulate_filter(input, grad_output, **arguments).tiling
    t = with_filter_tiles(t, baseM=16, baseN=48, baseK=16, stepKa=1, stepKb=1)
    block = FilterBasicBlock(32, t.window_area * 16, 2 * t.wo)
    return simulate_filter(input, grad_output, tiling=t, basic_block=block, **arguments)


def zero_share(core) -> None:
    """Each core zeroes its share of gradWeight."""
    size = core.tiling.grad_weight_size
    share = -(-size // core.GetBlockNum())
    start = core.GetBlockIdx() * share
    if start < size:
        Fill(core.gradWeightGm[start], min(share, size - start), 0)


def author(single, zero=True, meet=True, reset=True, a=lambda t, b: 0, b=lambda t, b: 0, c=lambda t, b: 0,
           row=lambda t, b: 0, shape=lambda t, b: (b.M, b.N, b.K), own=lambda core, block: core == block.core,
           atomic=lambda block: 1, after=lambda core: None):  # fmt: skip
    """A kernel as its author would write it, with room for one mistake at a time."""

    def kernel(core):
        t = core.tiling
        if zero:
            zero_share(core)
            if meet:
                yield
        op = core.kernel()
        op.Init(t)
        for block in filter_blocks(t, single, core.GetBlockNum()):
            if not own(core.GetBlockIdx(), block):
                continue
            op.SetSingleShape(*shape(t, block))
            op.SetStartPosition(block.ho_start + row(t, block))
            op.SetInput(core.inputGm[block.offset_b + b(t, block)])
            op.SetGradOutput(core.gradOutputGm[block.offset_a + a(t, block)])
            while op.Iterate():
                op.GetTensorC(core.gradWeightGm[block.offset_c + c(t, block)], atomic(block))
            if reset:
                op.ctx.isFirstIter_ = True
        op.End()
        after(core)

    return kernel


def rules(report) -> set[str]:
    """The rules found."""
    return {finding.rule for finding in report.findings}


def test_a_sound_kernel_passes_and_computes():
    """The documented loop passes, every element summed, every term once; run, it gives the definition's gradWeight."""
    sim = planned()
    t, kernel = sim.tiling, author(sim.basic_block)
    report = check_filter_kernel(kernel, t, cores=CORES)
    assert report.ok and str(report).endswith("ok"), str(report)
    assert report.summed == report.elements == t.grad_weight_size and report.cores_used == CORES
    rows = t.batch * t.ho * sum(t.input_plane(plane, kd) is not None for plane in range(t.dout) for kd in range(t.dk))
    assert report.terms == rows * t.weight_cout // 16 * t.cin1 * t.window_area
    assert (report.terms_missing, report.terms_twice) == (0, 0)
    got = run_filter_kernel(kernel, t, sim.input_gm, sim.grad_output_gm, cores=CORES)
    grad_output, _, input = PROBLEM.arrays()
    assert np.array_equal(
        from_fractal_z_3d(got, PROBLEM.weight_shape, 16), plain_grad_weight(PROBLEM, grad_output, input)
    )


LOST = 7


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ({"zero": False}, "coverage.add_unzeroed"),
        ({"meet": False}, "coverage.race"),
        ({"after": zero_share}, "coverage.race"),
        ({"atomic": lambda b: 0}, "coverage.two_cores"),
        ({"atomic": lambda b: int(b.index % 2)}, "coverage.overwritten"),
        ({"own": lambda core, b: True}, "reduction.twice"),
        ({"own": lambda core, b: core == b.core and b.batch == 0}, "reduction.missing"),
        ({"own": lambda core, b: core == b.core and b.plane != 1}, "reduction.missing"),
        ({"own": lambda core, b: core == b.core and b.ho_start == 0}, "reduction.missing"),
        ({"own": lambda core, b: core == b.core and b.window_plane != 2}, "coverage.never_written"),
        ({"own": lambda core, b: core == b.core and b.cin_start == 0}, "coverage.never_written"),
        ({"shape": lambda t, b: (b.M, b.N, t.ho * t.wo - b.ho_start * t.wo)}, "reduction.twice"),
        ({"shape": lambda t, b: (b.M, b.N, t.wo)}, "reduction.missing"),
        ({"shape": lambda t, b: (b.M, b.K, b.N)}, "shape.k_total"),
        ({"reset": False}, "order.first_iter"),
        ({"row": lambda t, b: -b.ho_start}, "pointer.row"),
        ({"a": lambda t, b: -b.ho_start * t.wo * t.c0}, "pointer.row"),
        ({"b": lambda t, b: (b.ho_start > 0) * t.wi * t.c0}, "pointer.top_pad"),
        ({"b": lambda t, b: t.cin1 * t.hi * t.wi * t.c0}, "pointer.front_pad"),
        ({"a": lambda t, b: -b.plane * t.cout1 * t.ho * t.wo * t.c0}, "pointer.depth"),
        ({"b": lambda t, b: -b.batch * t.di * t.cin1 * t.hi * t.wi * t.c0}, "pointer.batch"),
        ({"c": lambda t, b: -b.cin_start * t.window_area * t.weight_cout}, "pointer.cin_block"),
        ({"c": lambda t, b: -b.m_start * t.c0}, "pointer.cout_block"),
        ({"c": lambda t, b: 3}, "pointer.weight_block"),
        ({"c": lambda t, b: t.grad_weight_size}, "gm.range"),
    ],
)  # fmt: skip
def test_each_mistake_is_recognised(mistake, rule):
    """A kernel with one classic mistake is told so under the mistake's own name."""
    sim = planned()
    report = check_filter_kernel(author(sim.basic_block, **mistake), sim.tiling, cores=CORES)
    assert not report.ok
    assert rule in rules(report), str(report)


def test_a_lost_block_is_named_by_its_part_of_the_sum():
    """A core that skips one block leaves just that block's terms out, and they are named; no element shows it."""
    sim = planned()
    t, lost = sim.tiling, sim.blocks[LOST]
    kernel = author(sim.basic_block, own=lambda core, block: core == block.core and block.index != lost.index)
    report = check_filter_kernel(kernel, t, cores=CORES)
    assert rules(report) == {"reduction.missing"} and report.summed == report.elements
    assert report.terms_missing == len(lost.rows(t)) * (lost.M // 16) * (lost.N // 16)
    rows = lost.rows(t)
    words = f"batch {lost.batch}, gradOutput plane {lost.plane}, rows {rows.start}...{rows.stop - 1}"
    assert f"window plane {lost.window_plane}, channels {lost.m_start}..." in str(report) and words in str(report)


def test_a_repeated_block_is_summed_twice():
    """A block that two cores do has just its own terms too many, and adding them is no other mistake."""
    sim = planned()
    twice = sim.blocks[LOST]
    last = CORES - 1
    kernel = author(sim.basic_block, own=lambda core, b: core == b.core or (core == last and b.index == twice.index))
    report = check_filter_kernel(kernel, sim.tiling, cores=CORES)
    assert rules(report) == {"reduction.twice"}
    assert report.terms_twice == len(twice.rows(sim.tiling)) * (twice.M // 16) * (twice.N // 16)


def test_overlapping_rows_are_told_apart_row_by_row():
    """Pieces of two rows that each reach one row too far: every inner row but the first two comes in twice, no more."""
    sim = planned()
    t = sim.tiling
    kernel = author(sim.basic_block, shape=lambda t, b: (b.M, b.N, min(b.K + t.wo, (t.ho - b.ho_start) * t.wo)))
    report = check_filter_kernel(kernel, t, cores=CORES)
    assert rules(report) == {"reduction.twice"} and report.terms_missing == 0
    assert report.terms_twice == report.terms // t.ho  # of rows 0-2 and 2-3 only row 2 is there twice
    assert "rows 2...2" in str(report)


def test_storing_the_first_part_instead_of_zeroing_is_sound():
    """One core that stores each first part and adds the rest needs no zeroing: nothing is found, and it computes."""
    sim = planned(replace(PROBLEM, window=(1, 3, 3), padding=(0, 0, 1, 1, 1, 1)))
    t = sim.tiling

    def kernel(core):
        seen = set()

        def first_of(block):
            """0, a store, the first time a part of gradWeight comes up."""
            place = block.offset_c
            stores = place not in seen or seen_block[0] == block.index
            if place not in seen:
                seen.add(place)
                seen_block[0] = block.index
            return int(not stores)

        seen_block = [-1]
        return author(sim.basic_block, zero=False, own=lambda core, block: core == 0, atomic=first_of)(core)

    report = check_filter_kernel(kernel, t, cores=CORES)
    assert report.ok, str(report)
    assert np.array_equal(
        run_filter_kernel(kernel, t, sim.input_gm, sim.grad_output_gm, cores=CORES), sim.grad_weight_gm
    )


def test_a_store_beside_other_cores_adds_is_found():
    """A core that stores where others add, with no meeting in between, loses sums whoever comes first."""
    sim = planned()
    kernel = author(sim.basic_block, zero=False, atomic=lambda block: int(block.core != 0))
    assert "coverage.two_cores" in rules(check_filter_kernel(kernel, sim.tiling, cores=CORES))


def test_zeroing_after_the_sums_is_found():
    """A core that zeroes again after all cores have met loses what was summed."""
    sim = planned()

    def kernel(core):
        yield from author(sim.basic_block)(core)
        yield
        if core.GetBlockIdx() == 0:
            zero_share(core)

    assert rules(check_filter_kernel(kernel, sim.tiling, cores=CORES)) == {"coverage.zeroed_late"}


def test_window_planes_without_input_must_be_zeroed():
    """gradWeight of window planes that only ever look at padding has no tiles; left unzeroed it is told."""
    problem = TileProblem(1, 16, 16, (1, 4, 4), (1, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1, 1, 1, 1), (1, 1, 1))
    sim = planned(problem)
    assert check_filter_kernel(author(sim.basic_block), sim.tiling, cores=CORES).ok

    def only_the_middle(core):
        third = core.tiling.grad_weight_size // 3
        if core.GetBlockIdx() == 0:
            Fill(core.gradWeightGm[third], third, 0)
        yield
        yield from author(sim.basic_block, zero=False)(core)

    report = check_filter_kernel(only_the_middle, sim.tiling, cores=CORES)
    assert rules(report) == {"coverage.zeroing"} and report.never_written == 2 * sim.tiling.grad_weight_size // 3


def test_errors_of_the_author_stop_only_that_core():
    """A single shape in the wrong order is reported by every core; the checker goes on and sums up."""
    sim = planned()
    report = check_filter_kernel(author(sim.basic_block, shape=lambda t, b: (b.M, b.K, b.N)), sim.tiling, cores=CORES)
    finding = next(finding for finding in report.findings if finding.rule == "shape.k_total")
    assert finding.count == CORES and "order of the arguments is M, N, K" in finding.text
    assert report.never_written == report.elements and report.terms_missing == report.terms


def test_random_tilings_pass_the_checker():
    """60 random problems, tiny tiles, steps and orders of every kind: the documented loop is never accused."""
    terms = 0
    for seed in range(7000, 7060):
        problem = random_problem(seed)
        grad_output, _, input = problem.arrays()
        sim = simulate_filter(input, grad_output, weight_shape=problem.weight_shape, cores=4, **problem.attributes())
        t, block = forced_small_filter_tiles(sim.tiling, seed)
        report = check_filter_kernel(author(block), t, cores=4)
        terms += report.terms
        assert report.ok, (problem, str(report))
    assert terms > 10_000
