"""The offset and coverage checker: a sound kernel passes, each classic mistake is recognised by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convgrad.ascendc import (
    CoreGrid,
    Fill,
    check_kernel,
    flat_blocks,
    from_ndc1hwc0,
    grid_blocks,
    run_kernel,
    simulate,
)
from tile_problems import TileProblem, forced_small_tiles, plain_grad_input, random_problem

PROBLEM = TileProblem(2, 20, 24, (5, 12, 9), (2, 6, 9), (2, 3, 3), (2, 2, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1), seed=3)


def planned(problem: TileProblem = PROBLEM, cores: int = 6):
    """A simulation of the problem cut into several blocks and tiles per core."""
    grad_output, weight, _ = problem.arrays()
    shape = None if problem.output_padding is not None else problem.input_shape
    result = simulate(grad_output, weight, input_shape=shape, output_padding=problem.output_padding or 0, cores=cores,
                      **problem.attributes())  # fmt: skip
    return result


def small(tiling):
    """The same problem with single shapes of four rows and tiles of 16 positions."""
    return replace(tiling, singleCoreM=4 * tiling.wi, baseM=16, baseN=16)


def zero_share(core) -> None:
    """Each core zeroes its share of gradInput."""
    size = core.tiling.grad_input_size
    share = -(-size // core.GetBlockNum())
    start = core.GetBlockIdx() * share
    if start < size:
        Fill(core.gradInputGm[start], min(share, size - start), 0)


def author(zero=True, meet=True, reset=True, a=lambda t, b: 0, b=lambda t, b: 0, c=lambda t, b: 0, row=lambda t, b: 0,
           own=lambda core, block: core == block.core, atomic=None):  # fmt: skip
    """A kernel as its author would write it, with room for one mistake at a time."""

    def kernel(core):
        t = core.tiling
        if zero and t.initOutputFlag:
            zero_share(core)
            if meet:
                yield
        op = core.kernel()
        op.Init(t)
        for block in flat_blocks(t, core.GetBlockNum()):
            if not own(core.GetBlockIdx(), block):
                continue
            op.SetSingleShape(block.M, block.K, block.N)
            op.SetStartPosition(block.plane, block.ho_start + row(t, block))
            op.SetGradOutput(core.gradOutputGm[block.offset_a + a(t, block)])
            op.SetWeight(core.weightGm[block.offset_b + b(t, block)])
            while op.Iterate():
                op.GetTensorC(core.gradInputGm[block.offset_c + c(t, block)], int(bool(atomic)))
            if reset:
                op.ctx.isFirstIter_ = True
        op.End()

    return kernel


def rules(report) -> set[str]:
    """The rules found."""
    return {finding.rule for finding in report.findings}


def test_a_sound_kernel_passes_and_computes():
    """The documented loop passes the checker and, run with arithmetic, gives the definition's gradInput."""
    sim = planned()
    t = small(sim.tiling)
    assert t.initOutputFlag == 1  # one plane is reached by no window plane: zeroing is part of the problem
    report = check_kernel(author(), t, cores=6)
    assert report.ok and "ok" in str(report), str(report)
    assert report.written_once + report.only_zeroed == report.elements == t.grad_input_size
    assert report.only_zeroed > 0 and report.cores_used == 6
    got = run_kernel(author(), t, sim.grad_output_gm, sim.weight_gm, cores=6)
    grad_output, weight, _ = PROBLEM.arrays()
    packed = got.reshape(t.batch, t.di, t.cin1, t.hi, t.wi, t.c0)
    assert np.array_equal(from_ndc1hwc0(packed, t.cin), plain_grad_input(PROBLEM, grad_output, weight))


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ({"c": lambda t, b: b.plane * t.cin1 * t.hi * t.wi * t.c0}, "pointer.depth"),
        ({"a": lambda t, b: min(b.plane // 2, t.dout - 1) * t.cout1 * t.ho * t.wo * t.c0}, "pointer.depth"),
        ({"b": lambda t, b: t.cin1 * t.window_area * t.weight_cout * t.c0}, "pointer.depth"),
        ({"row": lambda t, b: t.backpropPadUp}, "start.top_pad"),
        ({"zero": False}, "coverage.zeroing"),
        ({"reset": False}, "order.first_iter"),
        ({"meet": False}, "coverage.race"),
        ({"own": lambda core, block: core == 0}, "coverage.zeroing"),
        ({"own": lambda core, block: True}, "coverage.two_cores"),
        ({"a": lambda t, b: t.wo * t.c0}, "pointer.row"),
        ({"c": lambda t, b: t.grad_input_size}, "gm.range"),
        ({"atomic": True, "zero": False}, "coverage.add_unzeroed"),
    ],
)  # fmt: skip
def test_each_mistake_is_recognised(mistake, rule):
    """A kernel with one classic mistake is told so under the mistake's own name."""
    t = small(planned().tiling)
    if mistake.get("own") is not None and rule == "coverage.zeroing":
        mistake = {**mistake, "zero": False}
    report = check_kernel(author(**mistake), t, cores=6)
    assert not report.ok
    assert rule in rules(report), str(report)


def test_missing_blocks_are_elements_never_written():
    """A core that skips its last block leaves exactly that block's elements unwritten, and the first is named."""
    problem = replace(PROBLEM, stride=(1, 2, 1), size=(3, 12, 9), out=(2, 6, 9))
    t = small(planned(problem).tiling)
    assert t.initOutputFlag == 0
    blocks = list(flat_blocks(t, 6))
    lost = blocks[-1]
    report = check_kernel(author(own=lambda core, block: core == block.core and block.index != lost.index), t, cores=6)
    assert rules(report) == {"coverage.never_written"}
    assert report.never_written == lost.M * 16 * -(-lost.N // 16)
    assert "first (n 1" in str(report)


def test_the_same_block_twice_is_written_twice():
    """A core that does one block twice is told: written twice, by one core."""
    t = small(planned().tiling)

    def kernel(core):
        zero_share(core)
        yield
        for _ in range(2):
            yield from (step for step in author(zero=False)(core) or ())

    report = check_kernel(kernel, t, cores=6)
    assert "coverage.twice" in rules(report) and report.written_by_two_cores == 0


def test_one_core_zeroing_for_all_must_be_waited_for():
    """Core 0 zeroes everything and nobody waits: the other cores' stores race with it; with a meeting they do not."""
    t = small(planned().tiling)

    def kernel(meet):
        def body(core):
            if core.GetBlockIdx() == 0:
                Fill(core.gradInputGm, t.grad_input_size, 0)
            if meet:
                yield
            yield from author(zero=False)(core)

        return body

    assert rules(check_kernel(kernel(False), t, cores=6)) == {"coverage.race"}
    assert check_kernel(kernel(True), t, cores=6).ok


def test_out_of_range_writes_are_counted():
    """Every write outside gradInput is counted, and the first one tells its tile and overrun."""
    t = small(planned().tiling)
    report = check_kernel(author(c=lambda t, b: t.grad_input_size), t, cores=6)
    assert report.out_of_range > 0
    text = next(finding.text for finding in report.findings if finding.rule == "gm.range")
    assert "tile (i 0, j 0)" in text and "past its end" in text


def test_missing_reset_loses_tiles_as_hardware_does():
    """Without the reset of isFirstIter_ later walks carry on from stale indices: elements stay unwritten."""
    t = small(planned().tiling)
    report = check_kernel(author(reset=False), t, cores=2)
    finding = next(finding for finding in report.findings if finding.rule == "order.first_iter")
    assert "isFirstIter_ = True" in finding.text and finding.count > 1
    assert report.written_once < check_kernel(author(), t, cores=2).written_once


def test_a_split_k_needs_atomic_adds_and_zeroing():
    """On a grid with split K, plain stores are two cores' stores; atomic adds after zeroing pass."""
    grid = CoreGrid(kDim=2, mDim=2)
    t = grid.record(replace(planned().tiling, initOutputFlag=1))

    def kernel(atomic):
        def body(core):
            zero_share(core)
            yield
            op = core.kernel()
            op.Init(t)
            for block in grid_blocks(t, grid):
                if block.core == core.GetBlockIdx():
                    op.SetSingleShape(block.M, block.K, block.N)
                    op.SetStartPosition(block.plane, block.ho_start)
                    op.SetGradOutput(core.gradOutputGm[block.offset_a])
                    op.SetWeight(core.weightGm[block.offset_b])
                    while op.Iterate():
                        op.GetTensorC(core.gradInputGm[block.offset_c], atomic)
                    op.ctx.isFirstIter_ = True
            op.End()

        return body

    assert "coverage.two_cores" in rules(check_kernel(kernel(0), t, cores=grid.cores))
    assert check_kernel(kernel(1), t, cores=grid.cores).ok


def test_zeroing_after_the_stores_is_found():
    """A core that zeroes its share again after all cores have met loses what was stored there."""
    t = small(planned().tiling)

    def kernel(core):
        yield from author()(core)
        yield
        zero_share(core)

    assert rules(check_kernel(kernel, t, cores=6)) == {"coverage.zeroed_late"}


def test_errors_of_the_author_stop_only_that_core():
    """A single shape in the wrong order is reported by every core; the checker goes on and sums up."""
    t = small(planned().tiling)

    def kernel(core):
        op = core.kernel()
        op.Init(t)
        block = next(flat_blocks(t, 1))
        op.SetSingleShape(block.M, block.N, block.K)

    report = check_kernel(kernel, t, cores=3)
    finding = next(finding for finding in report.findings if finding.rule == "shape.k")
    assert finding.count == 3 and "order of the arguments is M, K, N" in finding.text
    assert report.never_written == report.elements


def test_random_tilings_pass_the_checker():
    """60 random problems, forced small tiles: the documented loop is never accused of anything."""
    for seed in range(7000, 7060):
        problem = random_problem(seed, transposed=bool(seed % 3 == 0))
        t = planned(problem, cores=4).tiling
        report = check_kernel(author(), forced_small_tiles(t, seed), cores=4)
        assert report.ok, (problem, str(report))
