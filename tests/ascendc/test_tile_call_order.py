"""The strict life of Conv3DBackpropInput: every wrong call order, pointer and overrun raises what it should."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from convgrad.ascendc import (
    AddressError,
    CallOrderError,
    Conv3DBackpropInput,
    ConvFormat,
    ConvType,
    GlobalTensor,
    TilingError,
    TPosition,
    bfloat16_t,
    flat_blocks,
    half,
    int32_t,
    simulate,
)
from convgrad.ascendc.input.simulate import input_types


@cache
def planned_problem():
    """The problem every bench misuses: two batches, four planes, ragged channels."""
    return simulate(
        np.ones((2, 20, 3, 9, 8)),
        np.ones((20, 40, 2, 3, 3)),
        input_shape=(2, 40, 4, 9, 8),
        padding=(0, 0, 1, 1, 1, 1),
        cores=1,
    )


class Bench:
    """One problem with several planes, row pieces and tiles per walk, and an object to misuse."""

    def __init__(self, **changes: int) -> None:
        planned = planned_problem()
        small = {"baseM": 32, "baseN": 16, "singleCoreM": 5 * 8, "singleCoreCin1": 2, "singleCoreCin": 32}
        self.t = replace(planned.tiling, **(small | changes))
        self.blocks = list(flat_blocks(self.t, 1))
        self.grad_output = GlobalTensor(planned.grad_output_gm, name="gradOutput")
        self.weight = GlobalTensor(planned.weight_gm, name="weight")
        self.grad_input = GlobalTensor(np.zeros(self.t.grad_input_size, np.float16), name="gradInput")
        self.kernel = Conv3DBackpropInput(*input_types(half))

    def ready(self, number: int = 0) -> Conv3DBackpropInput:
        """The object after Init and every setter of one block."""
        block = self.blocks[number]
        self.kernel.Init(self.t)
        self.kernel.SetSingleShape(block.M, block.K, block.N)
        self.kernel.SetStartPosition(block.plane, block.ho_start)
        self.kernel.SetGradOutput(self.grad_output[block.offset_a])
        self.kernel.SetWeight(self.weight[block.offset_b])
        return self.kernel

    def output(self, number: int = 0) -> GlobalTensor:
        """Where the tiles of a block go."""
        return self.grad_input[self.blocks[number].offset_c]

    def walk(self, number: int = 0) -> int:
        """Finish a walk; the number of tiles."""
        tiles = 0
        while self.kernel.Iterate():
            self.kernel.GetTensorC(self.output(number))
            tiles += 1
        return tiles


def refused(error, rule, text, call):
    """The call raises this error under this rule, and the text says what was expected."""
    with pytest.raises(error, match=text) as caught:
        call()
    assert caught.value.rule == rule


@pytest.mark.parametrize("call", ["SetSingleShape", "SetStartPosition", "SetGradOutput", "SetWeight", "Iterate",
                                  "GetTensorC", "End"])  # fmt: skip
def test_nothing_comes_before_init(call):
    """Every call before Init raises and asks for Init."""
    bench = Bench()
    arguments = {
        "SetSingleShape": (16, 16, 16),
        "SetStartPosition": (0, 0),
        "SetGradOutput": (bench.grad_output,),
        "SetWeight": (bench.weight,),
        "GetTensorC": (bench.grad_input,),
    }.get(call, ())
    refused(CallOrderError, "order.init_first", "Init", lambda: getattr(bench.kernel, call)(*arguments))


def test_init_twice():
    """A second Init raises: it would reserve the buffers twice."""
    bench = Bench()
    bench.ready()
    refused(CallOrderError, "order.init_once", "once", lambda: bench.kernel.Init(bench.t))


@pytest.mark.parametrize("missing", ["SetSingleShape", "SetStartPosition", "SetGradOutput", "SetWeight"])
def test_iterate_names_the_missing_setter(missing):
    """Iterate without one of the setters raises and names exactly that one."""
    bench = Bench()
    block, kernel = bench.blocks[0], bench.kernel
    kernel.Init(bench.t)
    calls = {
        "SetSingleShape": (block.M, block.K, block.N),
        "SetStartPosition": (block.plane, block.ho_start),
        "SetGradOutput": (bench.grad_output,),
        "SetWeight": (bench.weight,),
    }
    for name, arguments in calls.items():
        if name != missing:
            getattr(kernel, name)(*arguments)
    refused(CallOrderError, "order.missing_setter", f"Iterate: {missing} must", kernel.Iterate)


def test_get_tensor_c_before_iterate():
    """GetTensorC before any Iterate raises: on hardware it waits for ever."""
    bench = Bench()
    kernel = bench.ready()
    refused(CallOrderError, "order.no_tile", "Iterate first", lambda: kernel.GetTensorC(bench.output()))


def test_get_tensor_c_twice():
    """A tile can be taken once."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    kernel.GetTensorC(bench.output())
    refused(CallOrderError, "order.taken_twice", "taken once", lambda: kernel.GetTensorC(bench.output()))


def test_iterate_twice():
    """Iterate again before the tile was taken raises: L0C holds one tile."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    refused(CallOrderError, "order.tile_not_taken", "GetTensorC before", kernel.Iterate)


def test_iterate_after_false():
    """Iterate after it returned false raises and mentions isFirstIter_; with the flag set the walk starts again."""
    bench = Bench()
    kernel = bench.ready()
    tiles = bench.walk()
    refused(CallOrderError, "order.first_iter", "isFirstIter_", kernel.Iterate)
    refused(CallOrderError, "order.no_tile", "Iterate first", lambda: kernel.GetTensorC(bench.output()))
    kernel.ctx.isFirstIter_ = True
    assert bench.walk() == tiles == 4


@pytest.mark.parametrize("call", ["SetSingleShape", "SetStartPosition", "SetGradOutput", "SetWeight"])
@pytest.mark.parametrize("taken", [False, True])
def test_setters_in_mid_walk(call, taken):
    """A setter between the first and the last tile of a walk raises."""
    bench = Bench()
    kernel, block = bench.ready(), bench.blocks[0]
    kernel.Iterate()
    if taken:
        kernel.GetTensorC(bench.output())
    arguments = {
        "SetSingleShape": (block.M, block.K, block.N),
        "SetStartPosition": (0, 0),
        "SetGradOutput": (bench.grad_output,),
        "SetWeight": (bench.weight,),
    }[call]
    refused(CallOrderError, "order.set_mid_walk", "finish the walk", lambda: getattr(kernel, call)(*arguments))


def test_leaving_the_loop_early_is_told_at_end():
    """Leaving a walk early and starting another is allowed until End, which raises and names the tile."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    kernel.GetTensorC(bench.output())
    kernel.ctx.isFirstIter_ = True
    bench.walk()
    kernel.ctx.isFirstIter_ = True
    refused(CallOrderError, "order.left_early", r"left early, last tile \(i 0, j 0\)", kernel.End)


def test_end_before_the_walk_ended():
    """End in mid-walk raises, with a tile waiting and without."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    refused(CallOrderError, "order.end_mid_walk", "after the walk", kernel.End)
    kernel.GetTensorC(bench.output())
    refused(CallOrderError, "order.end_mid_walk", "after the walk", kernel.End)


@pytest.mark.parametrize("call", ["Init", "SetSingleShape", "SetStartPosition", "SetGradOutput", "SetWeight", "Iterate",
                                  "GetTensorC", "End"])  # fmt: skip
def test_nothing_follows_end(call):
    """Any call after End raises, End itself too."""
    bench = Bench()
    kernel = bench.ready()
    bench.walk()
    kernel.End()
    arguments = {
        "Init": (bench.t,),
        "SetSingleShape": (16, 16, 16),
        "SetStartPosition": (0, 0),
        "SetGradOutput": (bench.grad_output,),
        "SetWeight": (bench.weight,),
        "GetTensorC": (bench.grad_input,),
    }.get(call, ())
    refused(CallOrderError, "order.after_end", "follow End", lambda: getattr(kernel, call)(*arguments))


def test_reserved_arguments_of_get_tensor_c():
    """enSequentialWrite and odd values of enAtomic raise; the tile still waits and can be taken."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    refused(CallOrderError, "order.sequential", "reserved", lambda: kernel.GetTensorC(bench.output(), 0, True))
    refused(CallOrderError, "order.atomic", "0 or 1, got 2", lambda: kernel.GetTensorC(bench.output(), 2))
    kernel.GetTensorC(bench.output(), 1)


def test_atomic_adds_instead_of_storing():
    """enAtomic 1 adds to what is there: two walks double the tile."""
    bench = Bench()
    kernel = bench.ready()
    for _ in range(2):
        while kernel.Iterate():
            kernel.GetTensorC(bench.output(), 1)
        kernel.ctx.isFirstIter_ = True
    twice = bench.grad_input.memory.data.copy()
    bench.walk()
    assert np.array_equal(twice.astype(np.float32), 2 * bench.grad_input.memory.data.astype(np.float32))
    assert twice.any()


def test_a_skipped_tile_may_be_iterated_over():
    """A tile without data is skipped when the tiling promises zeroing: Iterate goes on, GetTensorC writes nothing."""
    planned = simulate(
        np.ones((1, 4, 2, 4, 4)), np.ones((4, 4, 2, 1, 1)), input_shape=(1, 4, 5, 4, 4), stride=(2, 1, 1), cores=1
    )
    t = planned.tiling
    assert t.initOutputFlag == 1 and t.depth_taps(4) == []
    memory = np.full(t.grad_input_size, np.nan, np.float16)
    kernel = Conv3DBackpropInput(*input_types(half))
    kernel.Init(replace(t, baseM=16))
    kernel.SetSingleShape(16, t.dk * t.k_of_block, 4)
    kernel.SetStartPosition(4, 0)
    kernel.SetGradOutput(GlobalTensor(planned.grad_output_gm))
    kernel.SetWeight(GlobalTensor(planned.weight_gm))
    assert kernel.Iterate()
    kernel.GetTensorC(GlobalTensor(memory))
    assert not kernel.Iterate()
    assert np.isnan(memory).all()
    kernel.End()


# ---- pointers and overruns


def with_pointer(bench, number, **moved):
    """A walk over a block with one pointer or the start row moved."""
    block, kernel = bench.blocks[number], bench.kernel
    kernel.Init(bench.t)
    kernel.SetSingleShape(block.M, moved.get("K", block.K), block.N)
    kernel.SetStartPosition(block.plane, block.ho_start + moved.get("row", 0))
    kernel.SetGradOutput(bench.grad_output[block.offset_a + moved.get("a", 0)])
    kernel.SetWeight(bench.weight[block.offset_b + moved.get("b", 0)])
    while kernel.Iterate():
        kernel.GetTensorC(bench.grad_input[block.offset_c + moved.get("c", 0)])


def test_depth_terms_in_offsets():
    """A plane in the gradOutput, weight or gradInput offset raises and is called a depth term."""
    t = Bench().t
    plane_a, plane_c = t.cout1 * t.ho * t.wo * 16, t.cin1 * t.hi * t.wi * 16
    plane_b = t.cin1 * t.window_area * t.weight_cout * 16
    for moved in ({"a": plane_a}, {"b": plane_b}, {"c": plane_c}):
        refused(AddressError, "pointer.depth", "depth term", lambda moved=moved: with_pointer(Bench(), 2, **moved))


def test_start_row_without_the_top_pad():
    """hoStart equal to the gradInput row raises and names the pad to subtract."""
    bench = Bench()
    refused(
        AddressError, "start.top_pad", "subtract the top pad", lambda: with_pointer(bench, 0, row=bench.t.backpropPadUp)
    )


def test_pointers_that_do_not_belong_together():
    """Row, batch, cin block and cout block that disagree between the pointers raise, each under its own rule."""
    t = Bench().t
    per_cin = t.window_area * t.weight_cout * 16
    cases = (
        ({"a": t.wo * 16}, "pointer.row"), ({"a": 16}, "pointer.row_start"), ({"c": 16}, "pointer.row_start"),
        ({"a": t.dout * t.cout1 * t.ho * t.wo * 16}, "pointer.batch"), ({"b": per_cin}, "pointer.cin_block"),
        ({"b": 256}, "pointer.cout_range"),
        ({"b": 256, "K": t.dk * t.k_of_block}, "pointer.cout_block"),
        ({"b": 16}, "pointer.weight_block"), ({"c": t.wi * 16}, "start.row"),
    )  # fmt: skip
    for moved, rule in cases:
        with pytest.raises(AddressError) as caught:
            with_pointer(Bench(), 0, **moved)
        assert caught.value.rule == rule, moved


def test_a_single_shape_may_not_leave_its_plane_or_channels():
    """Positions past the plane, or channel blocks past the last, raise even where memory goes on: the next block."""
    t = Bench().t
    k_all = t.dk * t.cout1 * t.k_of_block
    cases = (
        ({"M": t.hi * t.wi, "row": 5}, "pointer.plane_range"), ({"N": 40, "cin": 1}, "pointer.cin_range"),
        ({"cout": 1}, "pointer.cout_range"),
    )  # fmt: skip
    for change, rule in cases:
        bench = Bench()
        kernel, row = bench.kernel, change.get("row", 0)
        kernel.Init(t)
        kernel.SetSingleShape(change.get("M", t.wi), k_all, change.get("N", 16))
        kernel.SetStartPosition(1, row - t.backpropPadUp)
        kernel.SetGradOutput(bench.grad_output[(change.get("cout", 0) * t.ho + max(0, row - 1)) * t.wo * 16])
        kernel.SetWeight(bench.weight[change.get("cin", 0) * t.window_area * t.weight_cout * 16])
        with pytest.raises(AddressError) as caught:
            while kernel.Iterate():
                kernel.GetTensorC(bench.grad_input[(change.get("cin", 0) * t.hi + row) * t.wi * 16])
        assert caught.value.rule == rule


def test_a_single_shape_may_end_inside_a_row():
    """M need not be whole rows: just its positions are written, and they are right."""
    bench = Bench()
    t, whole = bench.t, planned_problem().grad_input_gm
    bench.grad_input.memory.data[...] = np.nan
    kernel = bench.kernel
    kernel.Init(t)
    kernel.SetSingleShape(2 * t.wi + 3, t.dk * t.cout1 * t.k_of_block, 16)
    kernel.SetStartPosition(0, 4 - t.backpropPadUp)
    kernel.SetGradOutput(bench.grad_output[(4 - t.backpropPadUp) * t.wo * 16])
    kernel.SetWeight(bench.weight)
    while kernel.Iterate():
        kernel.GetTensorC(bench.grad_input[4 * t.wi * 16])
    kernel.End()
    written = np.flatnonzero(~np.isnan(bench.grad_input.memory.data))
    assert written.tolist() == list(range(4 * t.wi * 16, 4 * t.wi * 16 + (2 * t.wi + 3) * 16))
    assert np.array_equal(bench.grad_input.memory.data[written], whole[written])


def test_a_pointer_may_not_move_within_a_walk():
    """Adding the tile's place to the GetTensorC offset raises: the object adds it."""
    bench = Bench()
    kernel = bench.ready()
    kernel.Iterate()
    kernel.GetTensorC(bench.output())
    kernel.Iterate()
    refused(AddressError, "pointer.moved", "same pointer", lambda: kernel.GetTensorC(bench.output()[32 * 16]))


def test_a_write_outside_raises_with_tile_and_overrun():
    """A tile that would leave the output raises with its indices and the number of elements past the end."""
    bench = Bench()
    kernel = bench.ready()
    short = np.zeros(bench.t.grad_input_size - 1, np.float16)
    kernel.Iterate()
    last = bench.t.grad_input_size - 1 - 100
    refused(
        AddressError,
        "gm.range",
        r"tile \(i 0, j 0\).*412 elements past its end",
        lambda: kernel.GetTensorC(GlobalTensor(short, name="gradInput")[last]),
    )
    assert not short.any()


def test_a_read_outside_raises_with_tile_and_overrun():
    """A gradOutput or weight buffer that is too short raises with the tile; so does a negative offset."""
    bench = Bench()
    kernel = bench.ready()
    kernel.SetGradOutput(GlobalTensor(np.zeros(100, np.float16), name="gradOutput"))
    refused(AddressError, "gm.range", r"Iterate, tile \(i 0, j 0\).*past its end", kernel.Iterate)
    other = Bench()
    kernel = other.ready()
    kernel.SetWeight(GlobalTensor(np.zeros(100, np.float16), name="weight")[-8])
    refused(AddressError, "gm.range", "8 elements before its start", kernel.Iterate)


# ---- shapes, positions and types


def test_single_shape_is_checked():
    """K that is no multiple, or larger than the tensor, raises; arguments in another order are recognised."""
    bench = Bench()
    kernel, t, block = bench.kernel, bench.t, bench.blocks[0]
    kernel.Init(t)
    refused(TilingError, "shape.k", "multiple of", lambda: kernel.SetSingleShape(block.M, block.K + 16, block.N))
    refused(
        TilingError,
        "shape.k",
        "order of the arguments is M, K, N",
        lambda: kernel.SetSingleShape(block.M, block.N, block.K),
    )
    refused(TilingError, "shape.k_total", "at most", lambda: kernel.SetSingleShape(block.M, 2 * block.K, block.N))
    refused(TilingError, "shape.m_total", "at most", lambda: kernel.SetSingleShape(t.hi * t.wi + 1, block.K, block.N))
    refused(TilingError, "shape.n_total", "at most", lambda: kernel.SetSingleShape(block.M, block.K, t.cin1 * 16 + 1))
    refused(TilingError, "shape.positive", "above 0", lambda: kernel.SetSingleShape(0, block.K, block.N))


def test_start_position_is_checked():
    """A plane or a row outside the problem raises with the range."""
    bench = Bench()
    bench.kernel.Init(bench.t)
    refused(TilingError, "start.plane", "0...3, got 4", lambda: bench.kernel.SetStartPosition(4, 0))
    refused(TilingError, "start.range", "got -2", lambda: bench.kernel.SetStartPosition(0, -2))


def test_type_parameters_are_checked():
    """Position, layout and dtype of every operand raise when the documented table does not allow them."""
    good = list(input_types(half))
    cases = (
        (0, ConvType(TPosition.A1, ConvFormat.FRACTAL_Z_3D, half), "type.position"),
        (0, ConvType(TPosition.GM, ConvFormat.NCDHW, half), "type.format"),
        (1, ConvType(TPosition.GM, ConvFormat.ND, half), "type.dtype"),
        (2, ConvType(TPosition.GM, ConvFormat.NDC1HWC0, int32_t), "type.dtype"),
        (2, ConvType(TPosition.GM, ConvFormat.NDC1HWC0, bfloat16_t), "type.same_dtype"),
    )
    for place, wrong, rule in cases:
        with pytest.raises(TilingError) as caught:
            Conv3DBackpropInput(*[*good[:place], wrong, *good[place + 1 :]])
        assert caught.value.rule == rule


def test_operand_memory_must_have_the_declared_dtype():
    """A float32 buffer where half was declared raises."""
    bench = Bench()
    bench.kernel.Init(bench.t)
    wrong = GlobalTensor(np.zeros(16, np.float32))
    refused(TilingError, "type.operand", "float16", lambda: bench.kernel.SetWeight(wrong))
