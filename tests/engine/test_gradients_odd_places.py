"""Gradients where a break once went unseen: memory that is shared, odd, dirty or cut into pieces."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import convgrad
import textbook
from convgrad import Request
from convgrad.engines import library, result_memory

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")


def integers(shape, seed=0, dtype=np.float32, most=4):
    return np.random.default_rng([seed, *shape]).integers(-most + 1, most, shape).astype(dtype)


def test_live_large_results_never_share_memory():
    """Results above the recycled size, three alive at once, in turns that give memory back in between."""
    size = result_memory.RECYCLED_ANYWAY + 4096
    make = lambda: result_memory.empty((size,), np.dtype(np.uint8))  # noqa: E731
    for _ in range(3):
        live = [make() for _ in range(3)]
        for value, array in enumerate(live):
            array[:: 1 << 20] = value
        assert all((array[:: 1 << 20] == value).all() for value, array in enumerate(live))
        assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(live, 2))
        first = live.pop(0)
        del first, array
        again = make()
        assert not any(np.shares_memory(again, a) for a in live)


@pytest.mark.parametrize("stride, padding, dilation, window", [
    (3, 4, 2, 3), (4, 5, 3, 3), (5, 7, 4, 2), (3, 8, 5, 4), (4, 3, 2, 5), (3, 1, 4, 2), (7, 10, 3, 4),
])
def test_strides_of_three_and_more_with_padding_and_dilation(stride, padding, dilation, window):
    """The remainder of taps before the tensor is negative: every class of positions meets its own taps."""
    x, w = integers((2, 3, 19, 17)), integers((4, 3, window, window))
    size = [(n + 2 * padding - dilation * (window - 1) - 1) // stride + 1 for n in (19, 17)]
    g = integers((2, 4, *size), 1)
    pads = ((padding, padding),) * 2
    want = textbook.conv_backward(*(a.astype("f8") for a in (g, x, w)), (stride,) * 2, pads, (dilation,) * 2, False, 1)
    got = convgrad.conv_backward(g, x, w, stride=stride, padding=padding, dilation=dilation)
    for mine, theirs in zip((got.input, got.weight, got.bias), want, strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("stride, padding, dilation, window", [(3, 1, 4, 2), (3, 0, 2, 3), (4, 1, 3, 3), (5, 2, 4, 2)])
def test_negative_remainders_on_the_blocked_path(stride, padding, dilation, window):
    """The same on planes large enough for blocks: classes whose first tap lies before the tensor."""
    x, w = integers((2, 16, 40, 37)), integers((24, 16, window, window))
    size = [(n + 2 * padding - dilation * (window - 1) - 1) // stride + 1 for n in (40, 37)]
    g = integers((2, 24, *size), 1)
    pads = ((padding, padding),) * 2
    want = textbook.conv_backward(*(a.astype("f8") for a in (g, x, w)), (stride,) * 2, pads, (dilation,) * 2, False, 1)
    got = convgrad.conv_backward(g, x, w, stride=stride, padding=padding, dilation=dilation)
    assert np.array_equal(got.input, want[0]) and np.array_equal(got.weight, want[1])


@pytest.mark.parametrize("window, stride", [(3000, 2), (2001, 3), (1500, 1)])
def test_long_windows_with_strides(window, stride):
    """A window cut into groups of taps, every second or third of which meets a cell: groups begin where they should."""
    x, w = integers((1, 8, window + 20 * stride)), integers((8, 8, window), 1, most=2)
    g = integers((1, 8, 21), 2, most=2)
    got = convgrad.conv_backward(g, x, w, stride=stride)
    want = np.zeros(x.shape)
    for o in range(21):
        want[0, :, o * stride : o * stride + window] += np.einsum("o,ock->ck", g[0, :, o].astype("f8"), w.astype("f8"))
    assert np.array_equal(got.input, want)


def depthwise(height, width, stride, dtype=np.float32, channels=8, window=3):
    x, w = integers((1, channels, height, width), dtype=dtype), integers((channels, 1, window, window), dtype=dtype)
    size = [(n + 2 - window) // stride + 1 for n in (height, width)]
    g = integers((1, channels, *size), 1, dtype)
    got = convgrad.conv_backward(g, x, w, stride=stride, padding=1, groups=channels)
    want = textbook.conv_backward(*(a.astype("f8") for a in (g, x, w)), (stride,) * 2, ((1, 1),) * 2, (1, 1), False,
                                  channels)  # fmt: skip
    return all(np.array_equal(np.asarray(a, "f8"), b) for a, b in zip((got.input, got.weight, got.bias), want,
                                                                      strict=True))


@pytest.mark.parametrize("height", range(4, 18))
def test_depthwise_heights_around_the_bands(height):
    """Bands of eight lines: the last one is short, full, or missing."""
    for width, stride in ((9, 1), (16, 1), (15, 2), (33, 2)):
        assert depthwise(height, width, stride), (width, stride)


def test_classes_without_taps_after_a_large_call():
    """Window 1 at stride 2 and 3: positions no tap meets are zero, however dirty the scratch memory is."""
    for stride in (2, 3):
        convgrad.conv_backward(*(np.full(s, 7, np.float32) for s in ((2, 64, 40, 40), (2, 64, 40, 40), (64, 64, 3, 3))),
                               padding=1)  # fmt: skip
        for groups in (1, 8):
            x, w = np.ones((1, 8, 12, 13), np.float32), np.ones((8, 8 // groups, 1, 1), np.float32)
            g = np.ones((1, 8, -(-12 // stride), -(-13 // stride)), np.float32)
            got = convgrad.conv_backward(g, x, w, stride=stride, groups=groups).input
            want = np.zeros_like(x)
            want[:, :, ::stride, ::stride] = 8 // groups
            assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("width", [3, 7, 15, 23, 31, 47, 63])
def test_widths_one_short_of_a_vector(width, dtype):
    """The writer of results ends its last vector one element early: nothing is left out, nothing beside is written."""
    x, w = integers((1, 8, 5, width), dtype=dtype, most=2), integers((8, 8, 3, 3), dtype=dtype, most=2)
    g = integers((1, 8, 5, width), 1, dtype, most=2)
    room = np.full((1, 8, 5, width + 2), 9, dtype)
    convgrad.conv_backward(g, x, w, padding=1, out=(room[..., 1:-1], None, None))
    want = textbook.conv_backward(*(a.astype("f8") for a in (g, x, w)), (1, 1), ((1, 1),) * 2, (1, 1), False, 1)[0]
    assert np.array_equal(room[..., 1:-1].astype("f8"), want)
    assert (room[..., 0].astype("f8") == 9).all() and (room[..., -1].astype("f8") == 9).all()


@pytest.mark.parametrize("window", [255, 1000, 3000])
def test_bias_of_windows_cut_into_groups_of_taps(window):
    """The bias is summed once, however many pieces a long window is cut into."""
    length = window + 40
    x, w, g = integers((2, 3, length)), integers((5, 3, window), 1), integers((2, 5, 41), 2)
    got = convgrad.conv_backward(g, x, w)
    assert np.array_equal(got.bias, g.sum((0, 2)))
    assert np.array_equal(got.weight[:, :, -1], np.einsum("nol,ncl->oc", g, x[:, :, window - 1 :]))


SIZES = [(8, 16, 56), (3, 40, 33), (5, 24, 13), (16, 8, 40), (1, 64, 7), (2, 13, 101)]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("batch, channels, size", SIZES)
def test_bias_beside_the_weight_gradient(batch, channels, size, dtype):
    """Summed in several runs of pixels, odd numbers of them among it, channels first and last: every pixel once."""
    x, w = integers((batch, 16, size, size), 0, dtype, 2), integers((channels, 16, 3, 3), 1, dtype, 2)
    g = np.ones((batch, channels, size, size), dtype)
    g[:, ::2] = 2
    for last in (False, True):
        operands = [np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) if last else a for a in (g, x, w)]
        found = convgrad.conv_backward(*operands, padding=1, output_mask=(False, True, True)).bias.astype("f8")
        pixels = np.array(batch * size * size * np.where(np.arange(channels) % 2, 1, 2), dtype).astype("f8")
        assert np.array_equal(found, pixels)


@pytest.mark.parametrize("product, math", [*itertools.product(("A2", "950", "910", "cpu"), range(4))])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_bias_channels_last_under_every_math(product, math, dtype):
    """grad_bias sums the original grad_output, in whatever order it lies and whatever operands are rounded to."""
    words = ("keep", "allow_down", "fp16", "hf32")
    request = Request.parse(f"conv n2 c8>12 i9x7 k3x3 p1 {dtype} math={words[math]} want=xwb on={product}")
    try:
        plan = convgrad.plan(request)
    except convgrad.ConvGradError:
        pytest.skip("the product refuses it")
    kind = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    rng = np.random.default_rng(math)
    g, x, w = (rng.standard_normal(s).astype(kind) for s in ((2, 12, 9, 7), (2, 8, 9, 7), (12, 8, 3, 3)))
    last = [np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for a in (g, x, w)]
    exact = g.astype("f8").sum((0, 2, 3))
    size = np.abs(g.astype("f8")).sum((0, 2, 3))
    quantum = {"fp32": 2.0**-22, "fp16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    for operands in ((g, x, w), last):
        found = np.asarray(plan.run(*operands).bias, "f8")
        assert (np.abs(found - exact) <= size * 2.0**-20 + np.abs(exact) * quantum).all()
    whole = [np.asarray(integers(s, 3, kind), kind) for s in (g.shape, x.shape, w.shape)]
    spread = [np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for a in whole]
    assert np.array_equal(plan.run(*spread).bias.astype("f8"), whole[0].astype("f8").sum((0, 2, 3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64], ids=str)
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_results_at_odd_addresses(dtype, shift):
    """`out` at an address that is no multiple of its elements: written right, and nothing before or behind it."""
    x, w, g = (integers(s, i, dtype) for i, s in enumerate(((2, 4, 9, 9), (6, 4, 3, 3), (2, 6, 9, 9))))
    want = convgrad.conv_backward(g, x, w, padding=1)
    memory = np.full(x.nbytes + 64, 0x55, np.uint8)
    view = memory[shift : shift + x.nbytes].view(dtype).reshape(x.shape)
    convgrad.conv_backward(g, x, w, padding=1, out=(view, None, None))
    assert np.array_equal(view, want.input)
    assert (memory[:shift] == 0x55).all() and (memory[shift + x.nbytes :] == 0x55).all()


def test_operands_at_odd_addresses():
    """Operands that are not aligned give the gradients of their copies."""
    x, w, g = (integers(s, i) for i, s in enumerate(((2, 4, 9, 9), (6, 4, 3, 3), (2, 6, 9, 9))))
    odd = []
    for array in (g, x, w):
        memory = np.zeros(array.nbytes + 1, np.uint8)
        odd.append(memory[1:].view(np.float32).reshape(array.shape))
        odd[-1][...] = array
    got, want = convgrad.conv_backward(*odd, padding=1), convgrad.conv_backward(g, x, w, padding=1)
    assert np.array_equal(got.input, want.input) and np.array_equal(got.weight, want.weight)


@pytest.mark.parametrize("exponent", [-126, -100, -75, -64, -60])
def test_tiny_bfloat16_values(exponent):
    """Products far below one, subnormal sums among them: the pairs of bfloat16 give what float32 gives, no zeros."""
    scale = np.float32(2.0) ** np.float32(exponent)
    other = np.float32(2.0) ** np.float32(min(-exponent - 20, 100) if exponent > -126 else -20)
    x = (integers((2, 32, 8, 8)) * scale).astype(ml_dtypes.bfloat16)
    w = (integers((32, 32, 3, 3), 1) * scale).astype(ml_dtypes.bfloat16)
    g = (integers((2, 32, 8, 8), 2) * other).astype(ml_dtypes.bfloat16)
    # In float64 the sums are exact: integers times one power of two, rounded once at the end.
    got = convgrad.conv_backward(g, x, w, padding=1)
    want = textbook.conv_backward(*(a.astype("f8") for a in (g, x, w)), (1, 1), ((1, 1),) * 2, (1, 1), False, 1)
    for mine, theirs in zip((got.input, got.weight), want[:2], strict=True):
        assert np.array_equal(mine.astype("f8"), theirs.astype(np.float32).astype(ml_dtypes.bfloat16).astype("f8"))


def test_read_only_buffers_are_refused_by_the_short_way_too():
    """After a call that made the short way known: an error, and the memory as it was."""
    x, w, g = (integers(s, i) for i, s in enumerate(((2, 4, 9, 9), (6, 4, 3, 3), (2, 6, 9, 9))))
    plan = convgrad.plan(Request.parse("conv n2 c4>6 i9x9 k3x3 p1 fp32"))
    sealed = np.full(x.shape, 7, np.float32)
    plan.run(g, x, w, out=(sealed, None, None))
    sealed[...] = 7
    sealed.flags.writeable = False
    with pytest.raises(convgrad.ConvGradError, match="read-only"):
        plan.run(g, x, w, out=(sealed, None, None))
    assert (sealed == 7).all()


def test_calls_that_alternate_between_strides():
    """Channels last, channels first, reversed, and back: the same numbers, as the operands lie."""
    x, w, g = (integers(s, i) for i, s in enumerate(((2, 4, 9, 9), (6, 4, 3, 3), (2, 6, 9, 9))))
    plan = convgrad.plan(Request.parse("conv n2 c4>6 i9x9 k3x3 p1 fp32"))
    want = plan.run(g, x, w)
    last = lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)  # noqa: E731
    back = lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1]  # noqa: E731
    for how in (last, back, last, lambda a: a, back, last):
        got = plan.run(how(g), how(x), how(w))
        assert np.array_equal(got.input, want.input) and np.array_equal(got.weight, want.weight)
        if how is last:
            assert got.input.strides == last(x).strides and got.weight.strides == last(w).strides


@pytest.mark.parametrize("transposed", [False, True])
def test_the_reference_engine_is_the_textbook(transposed, monkeypatch):
    """Padding, stride, dilation, groups on integers; float16 sums are rounded; axes of TBC are put back."""
    monkeypatch.setenv("CONVGRAD_ENGINE", "reference")
    x, w = integers((2, 4, 9, 8)), integers((4, 3, 3, 2) if transposed else (6, 2, 3, 2), 1)
    g = integers((2, 6, 18, 8) if transposed else (2, 6, 5, 8), 2)
    options = {"stride": (2, 1), "padding": (1, 1), "dilation": (1, 2), "groups": 2, "transposed": transposed}
    if transposed:
        options["output_padding"] = (1, 0)
    want = textbook.conv_backward(*(a.astype("f8") for a in (g, x, w)), (2, 1), ((1, 1), (1, 1)), (1, 2), transposed, 2)
    got = convgrad.conv_backward(g, x, w, **options)
    for mine, theirs in zip((got.input, got.weight, got.bias), want, strict=True):
        assert np.array_equal(mine, theirs)
    ones = np.ones((1, 1, 4096), np.float16)
    near = ones * np.float16(1.001)
    half = convgrad.conv_backward(ones, near, ones[..., :1])
    assert float(half.weight.item()) == float(np.float16(4096 * float(near[0, 0, 0])))
    tbc = integers((7, 2, 5)), integers((7, 2, 3), 1), integers((3, 3, 5), 2)
    mine = convgrad.conv_tbc_backward(*tbc, pad=1)
    monkeypatch.setenv("CONVGRAD_ENGINE", "native")
    theirs = convgrad.conv_tbc_backward(*tbc, pad=1)
    assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_result_is_rounded_to_the_compute_dtype_first(engine, monkeypatch):
    """float32 tensors computed in float16: grad_input is a float16 number, though it is stored as float32."""
    monkeypatch.setenv("CONVGRAD_ENGINE", engine)
    plan = convgrad.plan(Request.parse("conv n1 c1>1 i3 k1 fp32 math=fp16 on=A2"))
    near = 1 + 2.0**-10
    got = plan.run(*(np.full(s, near, np.float32) for s in ((1, 1, 3), (1, 1, 3), (1, 1, 1))))
    assert got.input.tolist() == [[[1 + 2.0**-9] * 3]], "not 1 + 2^-9 + 2^-20"


def test_how_much_result_memory_is_kept(monkeypatch):
    """256 MiB unless the environment says otherwise."""
    monkeypatch.delenv("CONVGRAD_RESULT_MEMORY_MIB", raising=False)
    assert result_memory._most_kept() == 256 << 20
    monkeypatch.setenv("CONVGRAD_RESULT_MEMORY_MIB", "3")
    assert result_memory._most_kept() == 3 << 20
