"""Refusals of the functional API: the status, the rule, the value, and a line that reproduces them."""

import numpy as np
import pytest

import convgrad
from convgrad import ConvGradError, Request, Status

X = np.ones((2, 4, 6, 6), np.float32)
W = np.ones((8, 4, 3, 3), np.float32)
G = np.ones((2, 8, 6, 6), np.float32)


def refused(g=G, x=X, w=W, **options):
    options = {"padding": 1, **options}
    with pytest.raises(ConvGradError) as caught:
        convgrad.conv_backward(g, x, w, **options)
    return caught.value


@pytest.mark.parametrize("change", [
    {"x": X[0]}, {"x": X[None, None]}, {"w": W[:, :, 0]}, {"g": G[:, :, 0]},  # ranks
    {"w": W[:, :3]}, {"g": G[:, :7]}, {"x": X[:1]},  # channels, batch
    {"groups": 3}, {"groups": 0}, {"groups": -1}, {"groups": 2},  # groups
    {"g": G[:, :, :5]}, {"padding": 0}, {"padding": (1, 1, 1)}, {"padding": -1},  # the law
    {"stride": 0}, {"stride": -1}, {"stride": (1, 1, 1)}, {"dilation": 0}, {"dilation": 2},
    {"output_padding": 1}, {"output_mask": (True, True)}, {"bias_sizes": (7,)}, {"bias_sizes": (8, 1)}, {"math": 4},
    {"x": X.astype(np.int32)}, {"w": W.astype(np.complex64)}, {"g": G.astype(object)}, {"x": X.astype(bool)},  # dtypes
    {"stride": 2**62}, {"padding": 2**62}, {"dilation": 2**62},  # sizes whose sums leave 64 bits
])
def test_a_refusal_names_its_rule_and_reproduces(change):
    """Every broken call says which rule, and its line is refused by the same rule again."""
    error = refused(**change)
    assert error.status in (Status.PARAM_INVALID, Status.PARAM_NULLPTR) and error.rule
    verdict = convgrad.check(Request.parse(error.line))
    assert (verdict.status, verdict.rule_id) == (error.status, error.rule)
    assert error.rule in str(error) and error.line in str(error)


@pytest.mark.parametrize("options, rule", [
    ({"stride": 1.5}, "stride.type"), ({"padding": "same"}, "padding.type"), ({"groups": None}, "groups.type"),
    ({"math": "tf32"}, "math.name"), ({"product": "H100"}, "product.name"),
    ({"conformance": "law"}, "conformance.name"), ({"padding": ((1, 2, 3), 1)}, "padding.type"),
    ({"threads": 0}, "threads.value"), ({"threads": 1.0}, "threads.type"),
    ({"out": (None, None)}, "out.length"), ({"out": ([1.0], None, None)}, "out.type"),
])
def test_arguments_of_the_wrong_kind(options, rule):
    """What is no number, name or buffer at all is refused before any rule."""
    assert refused(**options).rule == rule


@pytest.mark.parametrize("options", [{"stride": 1.0}, {"padding": (1.0, 1.0)}, {"groups": 1.0}, {"math": 0.0}])
def test_a_plan_kept_from_an_equal_call_excuses_nothing(options):
    """1 == 1.0, yet the second is refused also after the first was accepted and its plan kept."""
    name = next(iter(options))
    for accepted in ({"padding": 1}, {"padding": (1, 1)}, {"padding": 1, "math": 0}):
        convgrad.conv_backward(G, X, W, **accepted)
    assert refused(**options).rule == f"{name}.type"


def test_out_buffers_are_checked_and_nothing_is_written():
    """A wrong buffer refuses the call, and every buffer stays as it was."""
    fine = [np.full(s, 7, np.float32) for s in (X.shape, W.shape, (8,))]
    wrong = [
        (np.full((2, 4, 6, 5), 7, np.float32), None, None), (None, np.full(W.shape, 7, np.float64), None),
        (None, None, np.full((9,), 7, np.float32)),
    ]
    for bad in wrong:
        out = [b if b is not None else f for b, f in zip(bad, fine, strict=True)]
        assert refused(out=out).line
        assert all((b == 7).all() for b in out)


def test_out_may_not_overlap():
    """Memory shared with an operand, with another buffer, or within one buffer is refused."""
    x = X.copy()
    assert refused(x=x, out=(x, None, None)).rule == "out.overlap"
    both = np.zeros(X.size + 4, np.float32)
    assert refused(out=(both[: X.size].reshape(X.shape), None, both[X.size - 4 :])).rule == "out.overlap"
    flat = np.lib.stride_tricks.as_strided(np.zeros(36, np.float32), X.shape, (0, 0, 24, 4))
    assert refused(out=(flat, None, None)).rule == "out.overlap"
    frozen = np.zeros_like(X)
    frozen.flags.writeable = False
    assert refused(out=(frozen, None, None)).rule == "out.writeable"


def test_a_tensor_of_pytorch_is_no_buffer_and_told_apart():
    """PyTorch's Tensor is not the Tensor that the refusal asks for."""
    torch = pytest.importorskip("torch")
    assert str(refused(out=(torch.zeros(X.shape), None, None))).startswith(
        "out[0] must be a NumPy array or a Tensor, not torch.Tensor ["
    )


def test_interleaved_buffers_are_no_overlap():
    """Two buffers woven into one block share no element and are written."""
    block = np.zeros((2, 4, 6, 12), np.float32)
    block[..., 1::2] = X
    got = convgrad.conv_backward(G, block[..., 1::2], W, padding=1, out=(block[..., ::2], None, None))
    assert np.array_equal(block[..., ::2], convgrad.conv_backward(G, X, W, padding=1).input)
    assert np.array_equal(block[..., 1::2], X) and np.shares_memory(got.input, block)


def test_forward_and_tbc_refusals():
    """The forward pass and TBC speak the same language."""
    with pytest.raises(ConvGradError, match="reproduce"):
        convgrad.convolution(X, W[:, :3])
    with pytest.raises(ConvGradError, match="bias"):
        convgrad.convolution(X, W, np.ones(3, np.float32))
    with pytest.raises(ConvGradError) as caught:
        convgrad.conv_tbc_backward(np.ones((4, 1, 2), "f4"), np.ones((4, 1, 3), "f4"), np.ones((3, 3, 2), "f4"))
    assert convgrad.check(Request.parse(caught.value.line)).rule_id == caught.value.rule


def test_something_that_is_no_array():
    """A clear error, not a traceback from inside NumPy."""
    class Nothing:
        pass

    assert refused(x=Nothing()).rule
    assert refused(x="text").rule


def test_a_broadcast_giant_is_refused_by_arithmetic_alone():
    """Sizes whose product leaves 64 bits are refused before anything is allocated."""
    line = "conv n4611686018427387904 c4611686018427387904>1 i3 k3 p1"
    verdict = convgrad.check(Request.parse(line))
    assert verdict.status is Status.PARAM_INVALID
    with pytest.raises(ConvGradError):
        convgrad.plan(Request.parse(line))


@pytest.mark.parametrize("place", range(3))
def test_a_missing_tensor_is_a_null_pointer(place):
    """None where a tensor is wanted is 161001 in every door, not a dtype."""
    arrays = [np.ones((1, 1, 3), np.float32)] * 3
    arrays[place] = None
    name = ("grad_output", "input", "weight")[place]
    for door in (convgrad.conv_backward, convgrad.conv_tbc_backward):
        with pytest.raises(ConvGradError, match=f"{name} must be given; got null") as error:
            door(*arrays)
        assert (error.value.status, error.value.rule) == (161001, f"null.{name}")


@pytest.mark.parametrize(("name", "value"), [("output_mask", "abc"), ("output_mask", ""), ("transposed", "no"),
                                             ("output_mask", ("a", "b", "c")), ("transposed", b"0")])  # fmt: skip
def test_text_is_no_truth_value(name, value):
    """Words in the place of flags are refused: every one of them would be true."""
    one = np.ones((1, 1, 3), np.float32)
    with pytest.raises(ConvGradError) as error:
        convgrad.conv_backward(one, one, np.ones((1, 1, 1), np.float32), **{name: value})
    assert error.value.rule == f"{name}.type"


def test_a_list_of_one_is_a_number():
    """stride=[2], padding=(1,), dilation=[1], output_padding=[0]: one number for every axis, as a plain one."""
    g = np.ones((2, 8, 3, 3), np.float32)
    listed = convgrad.conv_backward(g, X, W, stride=[2], padding=(1,), dilation=[1], output_padding=[0])
    plain = convgrad.conv_backward(g, X, W, stride=2, padding=1)
    assert all(np.array_equal(a, b) for a, b in zip(listed, plain, strict=True))


@pytest.mark.parametrize("forward", [convgrad.conv_tbc, convgrad.convolution])
def test_operands_without_an_axis_are_refused_by_their_rank(forward):
    """Two 0-d arrays have no window to compare: the rule of the rank speaks."""
    with pytest.raises(ConvGradError, match="rank of input must be"):
        forward(np.float32(1), np.float32(1))
