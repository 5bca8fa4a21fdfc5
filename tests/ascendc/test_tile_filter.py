"""Conv3DBackpropFilter against the plain definition, its life and its tiling."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from convgrad.ascendc import (
    AddressError,
    CallOrderError,
    CapacityError,
    Conv3DBackpropFilter,
    Conv3DBackpropFilterTilingData,
    Conv3dBpFilterTiling,
    ConvDtype,
    ConvFormat,
    ConvType,
    FilterBasicBlock,
    GlobalTensor,
    PlatformInfo,
    TilingError,
    TPosition,
    check_filter_record,
    filter_blocks,
    half,
    simulate_filter,
    to_ndc1hwc0,
)
from convgrad.ascendc.filter.checks import MUST_BE_POSITIVE, l1_bytes
from convgrad.ascendc.filter.search import is_large
from convgrad.ascendc.filter.simulate import filter_types
from convgrad.ascendc.filter.walk import filter_shape, filter_tiles_in_order
from convgrad.ascendc.shared.record_checks import POSITIVE_IN_BOTH
from tile_problems import TileProblem, forced_small_filter_tiles, plain_grad_weight, random_problem

PLATFORM = PlatformInfo()
CHUNK = 60


def run(problem: TileProblem, **options):
    """One simulation and the definition's answer."""
    grad_output, _, input = problem.arrays()
    result = simulate_filter(
        input, grad_output, weight_shape=problem.weight_shape, cores=problem.cores, **problem.attributes(), **options
    )
    return result, plain_grad_weight(problem, grad_output, input)


@pytest.mark.parametrize("chunk", range(5))
def test_random_problems_are_exact(chunk):
    """300 random problems with the tiling of GetTiling give the definition's gradWeight, fast and staged."""
    for seed in range(5000 + CHUNK * chunk, 5000 + CHUNK * (chunk + 1)):
        result, expected = run(random_problem(seed), staged=bool(seed % 2))
        assert result.grad_weight.dtype == np.float32
        assert np.array_equal(result.grad_weight, expected), random_problem(seed)


@pytest.mark.parametrize("chunk", range(4))
def test_forced_small_tiles_are_exact(chunk):
    """240 random problems cut into tiny tiles, steps above 1, either order, split rows and channels, stay exact."""
    for seed in range(6000 + CHUNK * chunk, 6000 + CHUNK * (chunk + 1)):
        problem = random_problem(seed)
        t, block = forced_small_filter_tiles(run(problem)[0].tiling, seed)
        result, expected = run(problem, tiling=t.as_dict() if seed % 2 else t, basic_block=block, staged=seed % 4 < 2)
        assert np.array_equal(result.grad_weight, expected), (problem, t, block)


def test_blocks_are_those_that_meet_the_input_in_even_runs():
    """Batches, planes that meet the input, rows and channels are each shared out once, no core two blocks ahead."""
    for seed in range(6500, 6560):
        problem = random_problem(seed)
        t, single = forced_small_filter_tiles(run(problem)[0].tiling, seed)
        blocks = list(filter_blocks(t, single, problem.cores))
        places = {(b.window_plane, b.batch, b.plane, b.m_start, b.cin_start, b.ho_start) for b in blocks}
        met = [(kd, plane) for kd in range(t.dk) for plane in range(t.dout) if t.input_plane(plane, kd) is not None]
        assert met == [(kd, plane) for kd in range(t.dk) for plane in t.planes_met(kd)]
        whole = len(met) * t.batch * t.weight_cout * t.cin1 * 16 * t.window_area * t.ho * t.wo
        assert len(places) == len(blocks) and sum(b.M * b.N * b.K for b in blocks) == whole
        shares = np.bincount([block.core for block in blocks], minlength=1)
        assert shares.max() - shares.min() <= 1 and len(shares) == max(1, min(len(blocks), problem.cores))


def test_walk_order_nests_as_documented():
    """Order 1 walks N blocks, M blocks, n, then m; order 0 the other way round; each tile once."""
    t = record(cout=64, cin=32, window=(1, 1, 1))
    t = replace(t, baseM=16, baseN=16, stepM=2, stepN=1)
    shape = filter_shape(t, 64, 32, t.wo)
    assert [(tile.i, tile.j) for tile in filter_tiles_in_order(t, shape)] == [
        (0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1), (3, 1)]  # fmt: skip
    t = replace(t, iterateOrder=0, stepN=2)
    assert [(tile.i, tile.j) for tile in filter_tiles_in_order(t, shape)] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]  # fmt: skip


# ---- the object


class Bench:
    """A small problem and an object to drive by hand."""

    def __init__(self) -> None:
        self.problem = TileProblem(1, 16, 32, (2, 5, 6), (2, 5, 6), (1, 3, 3), (1, 1, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1))
        self.grad_output, _, self.input = self.problem.arrays()
        self.t = replace(run(self.problem)[0].tiling, baseM=16, baseN=48)
        self.x = GlobalTensor(to_ndc1hwc0(self.input.astype(np.float16), 16).reshape(-1), name="input")
        self.go = GlobalTensor(to_ndc1hwc0(self.grad_output.astype(np.float16), 16).reshape(-1), name="gradOutput")
        self.gw = GlobalTensor(np.zeros(self.t.grad_weight_size, np.float32), name="gradWeight")
        self.kernel = Conv3DBackpropFilter(*filter_types(half))

    def ready(self, rows: int = 5, ho_start: int = 0, a: int = 0, b: int = 0) -> Conv3DBackpropFilter:
        """The object after Init and every setter."""
        self.kernel.Init(self.t)
        self.kernel.SetSingleShape(32, 16 * 9, rows * 6)
        self.kernel.SetStartPosition(ho_start)
        self.kernel.SetInput(self.x[b])
        self.kernel.SetGradOutput(self.go[a])
        return self.kernel


def refused(error, rule, call):
    """The call raises this error under this rule."""
    with pytest.raises(error) as caught:
        call()
    assert caught.value.rule == rule


def test_tiles_are_added_by_default_and_stored_on_request():
    """enAtomic 1 (the default) adds to memory, 0 stores; two walks with adds give twice the gradient."""
    bench = Bench()
    kernel = bench.ready()
    for _ in range(2):
        while kernel.Iterate():
            kernel.GetTensorC(bench.gw)
        kernel.ctx.isFirstIter_ = True
    twice = bench.gw.memory.data.copy()
    while kernel.Iterate():
        kernel.GetTensorC(bench.gw, 0)
    assert np.array_equal(twice, 2 * bench.gw.memory.data) and twice.any()


def test_sequential_write_is_dense():
    """enSequentialWrite puts the tile at the pointer as [column block][baseM][C0]."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    tile = kernel.l0c.copy()
    scratch = np.full(16 * 48, np.nan, np.float32)
    kernel.GetTensorC(GlobalTensor(scratch), 0, True)
    assert np.array_equal(scratch.reshape(3, 16, 16), tile.reshape(16, 3, 16).transpose(1, 0, 2))


def test_sequential_write_of_a_tail_touches_base_m_rows():
    """A tail tile leaves baseM rows in every block, those past the tail undefined; a workspace too short is refused."""
    bench = Bench()
    bench.t = replace(bench.t, baseM=48)
    kernel = bench.ready()
    kernel.Iterate()
    tile = kernel.l0c.copy()
    scratch = np.zeros(3 * 48 * 16, np.float32)
    kernel.GetTensorC(GlobalTensor(scratch), 0, True)
    blocks = scratch.reshape(3, 48, 16)
    assert np.array_equal(blocks[:, :32], tile.reshape(32, 3, 16).transpose(1, 0, 2))
    assert np.isnan(blocks[:, 32:]).all()
    kernel.Iterate()
    refused(AddressError, "gm.range", lambda: kernel.GetTensorC(GlobalTensor(scratch[:-1]), 0, True))


def test_order_rules_hold_here_too():
    """Init first and once, every setter named, one tile at a time, isFirstIter_, End once."""
    bench = Bench()
    kernel = bench.kernel
    refused(CallOrderError, "order.init_first", lambda: kernel.SetSingleShape(16, 144, 6))
    refused(CallOrderError, "order.init_first", kernel.Iterate)
    kernel.Init(bench.t)
    refused(CallOrderError, "order.init_once", lambda: kernel.Init(bench.t))
    with pytest.raises(CallOrderError, match="SetSingleShape, SetStartPosition, SetGradOutput, SetInput must"):
        kernel.Iterate()
    bench = Bench()
    kernel = bench.ready()
    refused(CallOrderError, "order.no_tile", lambda: kernel.GetTensorC(bench.gw))
    kernel.Iterate()
    refused(CallOrderError, "order.tile_not_taken", kernel.Iterate)
    refused(CallOrderError, "order.set_mid_walk", lambda: kernel.SetInput(bench.x))
    refused(CallOrderError, "order.end_mid_walk", kernel.End)
    refused(CallOrderError, "order.atomic", lambda: kernel.GetTensorC(bench.gw, 3))
    kernel.GetTensorC(bench.gw)
    refused(CallOrderError, "order.taken_twice", lambda: kernel.GetTensorC(bench.gw))
    while kernel.Iterate():
        kernel.GetTensorC(bench.gw)
    refused(CallOrderError, "order.first_iter", kernel.Iterate)
    kernel.End()
    refused(CallOrderError, "order.after_end", kernel.End)


def test_leaving_a_walk_early_is_told_at_end():
    """Starting another walk before the last one ended raises at End."""
    kernel = (bench := Bench()).ready()
    kernel.Iterate()
    kernel.GetTensorC(bench.gw)
    kernel.ctx.isFirstIter_ = True
    while kernel.Iterate():
        kernel.GetTensorC(bench.gw)
    refused(CallOrderError, "order.left_early", kernel.End)


def test_pointers_are_checked():
    """A row, a plane or a channel that does not belong raises under its own rule."""
    row_a, row_b = 6 * 16, 6 * 16
    plane_b = 5 * row_b
    for arguments, output, rule in (
        ({"a": row_a, "rows": 4}, 0, "pointer.row"), ({"b": row_b}, 0, "pointer.row"),
        ({"rows": 4, "ho_start": 1, "a": row_a, "b": row_b}, 0, "pointer.top_pad"),
        ({"b": plane_b}, 0, "pointer.depth"),
        ({}, 7, "pointer.weight_block"), ({}, 16 * 16, "pointer.cout_block"),
    ):  # fmt: skip
        bench = Bench()
        kernel = bench.ready(**arguments)
        kernel.Iterate()
        refused(
            AddressError, rule, lambda kernel=kernel, bench=bench, output=output: kernel.GetTensorC(bench.gw[output])
        )


def test_a_pointer_may_not_move_within_a_walk():
    """Adding the tile's place to the offset raises."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    kernel.GetTensorC(bench.gw)
    kernel.Iterate()
    refused(AddressError, "pointer.moved", lambda: kernel.GetTensorC(bench.gw[256]))


def test_reads_and_writes_outside_raise():
    """Short buffers raise with the tile and the overrun."""
    bench = Bench()
    kernel = bench.ready()
    kernel.SetInput(GlobalTensor(np.zeros(100, np.float16), name="input"))
    with pytest.raises(AddressError, match=r"tile \(i 0, j 0\).*past its end"):
        kernel.Iterate()
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    with pytest.raises(AddressError, match=r"tile \(i 0, j 0\), column block 0.*156 elements past its end"):
        kernel.GetTensorC(GlobalTensor(np.zeros(100, np.float32), name="gradWeight"))


def test_single_shape_and_start_are_checked():
    """N not a multiple of the window, K not whole rows, too large shapes and rows outside raise."""
    bench = Bench()
    bench.kernel.Init(bench.t)
    for arguments, rule in (
        ((32, 145, 6), "shape.n"), ((32, 144, 7), "shape.k"), ((48, 144, 6), "shape.m_total"),
        ((32, 288, 6), "shape.n_total"), ((32, 144, 36), "shape.k_total"), ((0, 144, 6), "shape.positive"),
    ):  # fmt: skip
        refused(TilingError, rule, lambda arguments=arguments: bench.kernel.SetSingleShape(*arguments))
    refused(TilingError, "start.range", lambda: bench.kernel.SetStartPosition(5))
    bench = Bench()
    kernel = bench.ready(rows=5, ho_start=1)
    refused(TilingError, "shape.k_total", kernel.Iterate)


def test_types_are_checked():
    """gradWeight must be float32; operands must share one 16-bit dtype and sit in GM memory of that dtype."""
    types = list(filter_types(half))
    wrong = ConvType(TPosition.GM, ConvFormat.FRACTAL_Z_3D, half)
    refused(TilingError, "type.dtype", lambda: Conv3DBackpropFilter(*types[:3], wrong))
    bench = Bench()
    bench.kernel.Init(bench.t)
    refused(TilingError, "type.operand", lambda: bench.kernel.SetInput(GlobalTensor(np.zeros(4, np.float32))))


# ---- the tiling


def host(n=1, cin=32, cout=48, size=(4, 16, 16), window=(3, 3, 3), padding=(1,) * 6, stride=(1, 1, 1),
         dilation=(1, 1, 1), cores=24, out=None, **sizes):  # fmt: skip
    """A filter tiling object with everything set."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    out = out or tuple((size[a] + padding[2 * a] + padding[2 * a + 1] - reach[a]) // stride[a] + 1 for a in range(3))
    tiling = Conv3dBpFilterTiling(PlatformInfo(**sizes), cores=cores)
    tiling.SetWeightShape(cout, cin, *window)
    tiling.SetInputShape(n, cin, *size)
    tiling.SetGradOutputShape(n, cout, *out)
    tiling.SetPadding(*padding)
    tiling.SetStride(*stride)
    tiling.SetDilation(*dilation)
    return tiling


def record(**arguments):
    """The record of a problem that must have one."""
    tiling, data = host(**arguments), Conv3DBackpropFilterTilingData()
    assert tiling.GetTiling(data) == 0, tiling.reason
    return data.dwTiling


def test_two_thousand_random_shapes():
    """Every record passes every check, has 52 fields with reasons and whole blocks, and fills L0C half if large."""
    rng, large = np.random.default_rng(9), 0
    for _ in range(2000):
        window = tuple(int(k) for k in rng.choice([1, 2, 3, 5], 3))
        shape = {"n": int(rng.integers(1, 4)), "cin": int(2 ** rng.uniform(0, 9)), "cout": int(2 ** rng.uniform(0, 9)),
                 "size": (int(rng.integers(5, 9)), int(5 + 2 ** rng.uniform(0, 7)), int(5 + 2 ** rng.uniform(0, 7))),
                 "window": window, "padding": tuple(int(rng.integers(0, window[a // 2])) for a in range(6)),
                 "stride": tuple(int(s) for s in rng.integers(1, 4, 3)), "cores": int(rng.integers(1, 33))}  # fmt: skip
        tiling, data = host(**shape), Conv3DBackpropFilterTilingData()
        assert tiling.GetTiling(data) == 0, (shape, tiling.reason)
        t, block = data.dwTiling, data.basicBlockTiling
        check_filter_record(t, PLATFORM)
        assert data.params.totalL1Size == l1_bytes(t) <= PLATFORM.l1Size
        assert len(fields(t)) == len(tiling.report) == 52 and all(line.reason for line in tiling.report)
        assert block.singleCoreM % 16 == block.singleCoreN % (t.window_area * 16) == block.singleCoreK % t.wo == 0
        assert (t.singleCoreCout, t.singleCoreHo) == (block.singleCoreM, block.singleCoreK // t.wo)
        if is_large(t, PLATFORM, shape["cores"]):
            large += 1
            assert t.baseM * t.baseN * 4 >= PLATFORM.l0CSize / 2, shape
    assert large > 200


def test_enormous_sizes_are_answered_at_once():
    """Sizes up to the limits of the record give an answer without walking over planes or blocks one by one."""
    assert record(size=(10**8, 16, 16)).di == 10**8
    assert record(n=2**31, cin=2**31, cout=2**31).cin1G == 2**27
    assert record(size=(2 * 10**9, 16, 16), window=(10**9, 1, 1), padding=(0,) * 6).dk == 10**9
    tiling = host(cin=2**40)
    assert tiling.GetTiling(Conv3DBackpropFilterTilingData()) == -1 and "below 2^32" in tiling.reason


def test_refusals_have_reasons():
    """Each documented limit returns -1 with a reason; without an output-size check, Init refuses what cannot be."""
    for arguments, reason in (
        ({"padding": (-1, 0, 0, 0, 0, 0)}, "pads"), ({"stride": (1, 64, 1)}, "63"), ({"cin": 0}, "input sizes"),
        ({"window": (1, 1, 33), "size": (4, 16, 40)}, "wk"), ({"dilation": (1, 256, 1), "size": (4, 600, 16)}, "255"),
        ({"padding": (1, 1, 256, 1, 1, 1)}, "255"), ({"out": (0, 1, 1)}, "gradOutput sizes"), ({"cores": 0}, "cores"),
        ({"stride": (0, 1, 1), "out": (1, 1, 1)}, "strides"), ({"window": (0, 1, 1)}, "window"), ({"n": 0}, "batch"),
        ({"size": (4, 16, 40000), "padding": (0,) * 6}, "L1 cannot hold"), ({"out": (9, 16, 16)}, "di + pads"),
    ):  # fmt: skip
        tiling, data = host(**arguments), Conv3DBackpropFilterTilingData()
        assert tiling.GetTiling(data) == -1, arguments
        assert reason in tiling.reason, (arguments, tiling.reason)
        assert data == Conv3DBackpropFilterTilingData()
    tiling = host()
    tiling.SetInputType(TPosition.GM, ConvFormat.NCDHW, ConvDtype.FLOAT16)
    assert tiling.GetTiling(Conv3DBackpropFilterTilingData()) == -1 and "NDC1HWC0" in tiling.reason
    tiling = host()
    tiling.SetWeightType(TPosition.GM, ConvFormat.NCDHW, ConvDtype.FLOAT32)
    assert tiling.GetTiling(Conv3DBackpropFilterTilingData()) == -1 and "FRACTAL_Z_3D" in tiling.reason
    tiling = host()
    tiling.SetGradOutputType(TPosition.GM, ConvFormat.NDC1HWC0, ConvDtype.BF16)
    assert tiling.GetTiling(Conv3DBackpropFilterTilingData()) == -1 and "both" in tiling.reason


@pytest.mark.parametrize("name", [*POSITIVE_IN_BOTH, *MUST_BE_POSITIVE])
def test_fields_that_must_be_positive(name):
    """Init raises for each field that must be above 0, and names it."""
    with pytest.raises(TilingError, match=f"{name} must be above 0, got {name} 0"):
        check_filter_record(replace(record(), **{name: 0}), PLATFORM)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"m0": 8}, "tiling.c0"), ({"group": 2}, "tiling.group"), ({"hf32Flag": 1}, "tiling.hf32"),
        ({"cin1G": 3}, "tiling.cin1"), ({"cout1G": 4}, "tiling.cout1"), ({"di": 1, "padBack": 0}, "tiling.size.d"),
        ({"hi": 13}, "tiling.size.h"), ({"wi": 13}, "tiling.size.w"), ({"baseM": 24}, "tiling.base16"),
        ({"al0Pbuffer": 3}, "tiling.buffers"), ({"iterateOrder": 2}, "tiling.order"),
        ({"bl1Bound": 1}, "tiling.bl1_bound"),
        ({"singleCoreDk": 2}, "tiling.single"),
    ],
)  # fmt: skip
def test_each_demand_on_a_record(change, rule):
    """Every row of the record checks can be broken alone, and is then the rule the error carries."""
    refused(TilingError, rule, lambda: check_filter_record(replace(record(), **change), PLATFORM))


def test_capacities_raise_with_the_numbers():
    """Each store one byte too small raises with both numbers."""
    t = record()
    for store, wanted in (("l0ASize", t.baseM * t.baseK * 4), ("l0BSize", t.baseN * t.baseK * 4),
                          ("l0CSize", t.baseM * t.baseN * 4), ("l1Size", l1_bytes(t))):  # fmt: skip
        check_filter_record(t, replace(PLATFORM, **{store: wanted}))
        with pytest.raises(CapacityError, match=f"= {wanted} bytes of {wanted - 1}"):
            check_filter_record(t, replace(PLATFORM, **{store: wanted - 1}))


def test_bad_arguments_of_simulate():
    """Shapes that disagree and basic blocks that are not whole raise."""
    problem = random_problem(5)
    grad_output, _, input = problem.arrays()
    with pytest.raises(TilingError, match="must agree"):
        simulate_filter(input, grad_output, weight_shape=(1, 1, 1, 1, 1))
    with pytest.raises(TilingError, match="basic block"):
        run(problem, basic_block=FilterBasicBlock(8, 16, 1))
    with pytest.raises(TilingError, match=r"another problem.*'cin'"):
        run(problem, tiling=run(replace(problem, cin=problem.cin + 16))[0].tiling)
