"""The functional API on torch tensors and the custom operators under it."""

import numpy as np
import pytest

import convgrad

torch = pytest.importorskip("torch")
door = pytest.importorskip("convgrad.torch")
torch.set_num_threads(2)

HOW = ("keep", "cpu", "document", "direct", None)
CASES = {
    "plain": ((2, 3, 6, 5), (4, 3, 3, 2), ([2, 1], [1, 0], [1, 2], False, [0, 0], 1)),
    "groups": ((2, 4, 5), (6, 2, 3), ([1], [1], [1], False, [0], 2)),
    "one-sided": ((1, 2, 4, 4), (3, 2, 3, 3), ([1, 1], [0, 2, 1, 1], [1, 1], False, [0, 0], 1)),
    "transposed": ((2, 4, 3, 4), (4, 2, 3, 3), ([2, 2], [1, 1], [1, 1], True, [1, 0], 1)),
    "3d": ((1, 2, 3, 4, 4), (2, 2, 2, 3, 3), ([1, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1], False, [0, 0, 0], 1)),
}


def tensor(shape, seed, **options):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(**options)


def operands(case, dtype=torch.float32):
    """input, weight, bias, numbers and a grad_output that fits."""
    x_shape, w_shape, numbers = CASES[case]
    x, w = tensor(x_shape, 1, dtype=dtype), tensor(w_shape, 2, dtype=dtype)
    channels = w_shape[1] * numbers[5] if numbers[3] else w_shape[0]
    b = tensor((channels,), 3, dtype=dtype)
    y = torch.ops.convgrad.convolution(x, w, b, *numbers, *HOW)
    return x, w, b, numbers, tensor(tuple(y.shape), 4, dtype=dtype)


@pytest.mark.parametrize("case", CASES)
def test_opcheck(case):
    """Schema, autograd registration, fake tensors and ahead-of-time dispatch are what torch.library asks for."""
    x, w, b, numbers, g = operands(case)
    with_grad = [t.clone().requires_grad_() for t in (x, w, b)]
    torch.library.opcheck(torch.ops.convgrad.convolution.default, (*with_grad, *numbers, *HOW))
    mask = [True, case != "groups", True]
    torch.library.opcheck(torch.ops.convgrad.conv_backward.default, (g, *with_grad[:2], None, *numbers, mask, *HOW))


def test_opcheck_tbc():
    """The same for the time-batch-channel operators."""
    x, w, b, g = (tensor(s, i).requires_grad_() for i, s in enumerate(((7, 2, 3), (3, 3, 4), (4,), (7, 2, 4))))
    torch.library.opcheck(torch.ops.convgrad.conv_tbc.default, (x, w, b, 1, *HOW))
    torch.library.opcheck(torch.ops.convgrad.conv_tbc_backward.default, (g, x, w, b, 1, *HOW))
    torch.library.opcheck(torch.ops.convgrad.pytorch_conv_tbc_backward.default, (g, x, w, b, 1))


@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_both_orders(case):
    """First and second derivatives of the forward operator agree with differences in float64."""
    x, w, b, numbers, _ = operands(case, torch.float64)

    def function(x, w, b):
        return torch.ops.convgrad.convolution(x, w, b, *numbers, *HOW)

    inputs = tuple(t.requires_grad_() for t in (x, w, b))
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_derivatives_of_tbc():
    """The same for the time-batch-channel operator."""
    inputs = tuple(tensor(s, i).requires_grad_() for i, s in enumerate(((6, 2, 3), (3, 3, 4), (4,))))
    function = lambda x, w, b: door.conv_tbc(x, w, b, pad=1)  # noqa: E731
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_compiled():
    """One graph without breaks under torch.compile; same numbers as eager, forward and backward."""

    def loss(x, w, b):
        return door.convolution(x, w, b, stride=2, padding=1, product="A2", math="hf32").relu().sum()

    inputs = [torch.randint(-3, 4, s).float().requires_grad_() for s in ((2, 3, 8, 8), (4, 3, 3, 3), (4,))]
    want = torch.autograd.grad(loss(*inputs), inputs)
    for backend in ("eager", "aot_eager"):
        got = torch.autograd.grad(torch.compile(loss, backend=backend, fullgraph=True)(*inputs), inputs)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("transposed", [False, True])
def test_functional_equals_the_core(dtype, transposed):
    """Torch tensors give the bits of `convgrad.conv_backward`, as torch tensors of the same dtype."""
    x, w = tensor((2, 4, 6, 6), 1, dtype=dtype), tensor((4, 4, 3, 3), 2, dtype=dtype)
    g = tensor((2, 4, 8, 8) if transposed else (2, 4, 4, 4), 3, dtype=dtype)
    options = {"transposed": transposed, "output_mask": (True, True, False)}
    got = door.conv_backward(g, x, w, **options)
    want = convgrad.conv_backward(g, x, w, **options)
    assert got.bias is None and got.input.dtype == dtype
    for a, b in zip(got[:2], want[:2], strict=True):
        assert torch.equal(a.double(), torch.from_numpy(b.astype("f8")))


def test_functional_forward_and_tbc():
    """convolution, conv_tbc and conv_tbc_backward equal PyTorch's on integers; padding takes pairs."""
    x, w, b = (torch.randint(-3, 4, s).float() for s in ((2, 3, 6, 6), (4, 3, 3, 3), (4,)))
    assert torch.equal(door.convolution(x, w, b, padding=1), torch.conv2d(x, w, b, padding=1))
    padded = torch.nn.functional.pad(x, (1, 2, 0, 1))
    for pads in (((0, 1), (1, 2)), (0, 1, 1, 2)):
        assert torch.equal(door.convolution(x, w, b, padding=pads), torch.conv2d(padded, w, b))
    x, w, b = (torch.randint(-3, 4, s).float().requires_grad_() for s in ((7, 2, 3), (3, 3, 5), (5,)))
    y = torch.conv_tbc(x, w, b, 1)
    assert torch.equal(door.conv_tbc(x, w, b, pad=1), y)
    want = torch.autograd.grad(y, (x, w, b), torch.ones_like(y))
    for got in (door.conv_tbc_backward(torch.ones_like(y), x, w, pad=1),
                torch.autograd.grad(door.conv_tbc(x, w, b, pad=1), (x, w, b), torch.ones_like(y))):
        assert all(torch.equal(a, c) for a, c in zip(got, want, strict=True))


def test_out_buffers():
    """Buffers are written in place and come back; channels_last ones keep their strides."""
    g, x, w = (torch.randint(-3, 4, s).float() for s in ((2, 4, 4, 4), (2, 3, 6, 6), (4, 3, 3, 3)))
    want = door.conv_backward(g, x, w)
    out = (torch.empty_like(x, memory_format=torch.channels_last), torch.empty_like(w), torch.empty(4))
    got = door.conv_backward(g, x, w, out=out)
    assert all(a is b and torch.equal(a, c) for a, b, c in zip(got, out, want, strict=True))
    x, w, g = torch.ones(5, 2, 3), torch.ones(3, 3, 4), torch.ones(3, 2, 4)
    out = (torch.empty_like(x), torch.empty_like(w), torch.empty(4))
    assert door.conv_tbc_backward(g, x, w, out=out).bias.tolist() == [6.0] * 4


def good():
    return [torch.ones(s) for s in ((1, 2, 4, 4), (1, 3, 6, 6), (2, 3, 3, 3))]


@pytest.mark.parametrize(
    ("spoil", "rule", "words"),
    [
        (lambda t: t.to("meta"), "input.device", "meta"),
        (lambda t: t.to_sparse(), "input.layout", "to_dense"),
        (lambda t: t.to(torch.complex64), "input.dtype", "complex64"),
        (lambda t: t.numpy(), "input.type", "torch.Tensor"),
        (lambda t: t[0, 0], "input.rank", "3 to 5 axes"),
        (lambda t: t.to(torch.int64), "input.dtype.cpu", "int64"),
    ],
)
def test_unusable_tensors(spoil, rule, words):
    """Tensors without readable real elements are refused by name, before anything is computed."""
    g, x, w = good()
    with pytest.raises(convgrad.ConvGradError, match=words) as caught:
        door.conv_backward(g, spoil(x), w)
    assert caught.value.rule == rule
    with pytest.raises(convgrad.ConvGradError):
        door.convolution(spoil(x), w)


def test_other_devices():
    """A tensor that says it lives on another device is refused by that device's name."""

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return torch.device("cuda:0")

    g, x, w = good()
    with pytest.raises(convgrad.ConvGradError, match="cuda") as caught:
        door.conv_backward(g, x.as_subclass(Elsewhere), w)
    assert caught.value.rule == "input.device"


def test_refused_by_the_contract():
    """A refused call raises with rule and line, from the function and from inside autograd."""
    g, x, w = good()
    with pytest.raises(convgrad.ConvGradError) as caught:
        door.conv_backward(g, x, w, product="910")
    assert caught.value.rule == "math.float32.910"
    assert not convgrad.check(convgrad.Request.parse(caught.value.line)).ok
    with pytest.raises(convgrad.ConvGradError):
        door.conv_backward(g, x, w, padding=1)
    with pytest.raises(convgrad.ConvGradError):
        door.conv_backward(g, x, w, output_mask=(True, True))
    with pytest.raises(convgrad.ConvGradError):
        door.convolution(x, w, stride=0)


def test_every_door_takes_the_algorithm(monkeypatch):
    """emulate, the functions and their derivatives compute by the algorithm asked for: the bits of `convgrad`'s own."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 48, 28, 28), (48, 48, 3, 3)))
    want = {name: convgrad.conv_backward(x, x, w, padding=1, algorithm=name) for name in ("direct", "fast")}
    assert not np.array_equal(want["direct"].input, want["fast"].input)
    g, weight = torch.from_numpy(x), torch.from_numpy(w).requires_grad_()
    for name, gradients in want.items():
        found = door.conv_backward(g, g, weight.detach(), padding=1, algorithm=name)
        assert all(np.array_equal(a, b) for a, b in zip(found, gradients, strict=True))
        door.convolution(g, weight, padding=1, algorithm=name).backward(g)
        assert np.array_equal(weight.grad, gradients.weight)
        weight.grad = None
        with door.emulate("cpu", math="keep", algorithm=name):
            torch.nn.functional.conv2d(g, weight, padding=1).backward(g)
        assert np.array_equal(weight.grad, gradients.weight)
        weight.grad = None
    with pytest.raises(convgrad.ConvGradError, match="algorithm must be one of direct, fast, exact-fast"):
        door.emulate("cpu", algorithm="quick")
    monkeypatch.setenv("CONVGRAD_ALGORITHM", "fast")
    assert np.array_equal(door.conv_backward(g, g, weight.detach(), padding=1)[0], want["fast"].input)


LEVELS = {
    "conv": ((7, 6, 9, 9), (5, 3, 3, 3), (7, 5, 5, 5), {"stride": 2, "padding": 1, "groups": 1}),
    "transposed": ((7, 6, 5, 4), (6, 2, 3, 3), (7, 4, 11, 9), {"stride": 2, "transposed": True, "groups": 2}),
    "tbc": ((9, 7, 6), (3, 6, 5), (9, 7, 5), {"pad": 1}),
}


def of_a_level(case, dtype=torch.float32):
    """Functions of the door and of convgrad, input, weight, bias and grad_output whose sums are not exact, options."""
    x, w, g, options = LEVELS[case]
    options = dict(options)
    if case == "conv":
        w = (w[0], x[1], *w[2:])
    channels = g[2] if case == "tbc" else g[1]
    names = ("conv_tbc", "conv_tbc_backward") if case == "tbc" else ("convolution", "conv_backward")
    tensors = (tensor(s, i, dtype=dtype) for i, s in enumerate((x, w, (channels,), g)))
    return [getattr(door, n) for n in names], getattr(convgrad, names[1]), *tensors, options


def same_bits(got, want):
    return all(np.array_equal(a.detach().view(torch.uint8), np.ascontiguousarray(b).view(np.uint8))
               for a, b in zip(got, want, strict=True))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("case", LEVELS)
def test_every_door_takes_the_level(case, dtype):
    """Gradients, those of autograd and those in buffers have the bits of convgrad's own at every level, at 3 others
    than at 0; what is no level is refused by every function."""
    (forward, backward), core, x, w, b, g, options = of_a_level(case, dtype)
    arrays = [door.functional.array_of(t) for t in (g, x, w)]
    by_level = [core(*arrays, **options, deterministic=level) for level in range(4)]
    if dtype is not torch.bfloat16:  # whose rounding may hide the last bits of the sums
        assert not all(np.array_equal(a, c) for a, c in zip(by_level[0], by_level[3], strict=True))
    leaves = [t.requires_grad_() for t in (x.clone(), w.clone(), b.clone())]
    for level in (*range(4), True):
        want = by_level[level]
        assert same_bits(backward(g, x, w, **options, deterministic=level), want), level
        y = forward(*leaves, **options, deterministic=level)
        assert torch.equal(y, forward(*leaves, **options))
        assert same_bits(torch.autograd.grad(y, leaves, g), want), level
        out = tuple(torch.empty_like(t) for t in (x, w, b))
        assert same_bits(backward(g, x, w, **options, out=out, deterministic=level), want), level
    for wrong in (4, -1, "3", None, 1.5):
        for call, tensors in ((forward, (x, w)), (backward, (g, x, w))):
            with pytest.raises((convgrad.ConvGradError, TypeError), match="deterministic"):
                call(*tensors, deterministic=wrong)


@pytest.mark.parametrize("case", LEVELS)
def test_the_level_reaches_derivatives_of_derivatives(case):
    """The weight gradient inside a second derivative is the tree over samples too: bits of convgrad's own call."""
    (_, backward), core, x, w, _, g, options = of_a_level(case)
    w = w.requires_grad_()
    cotangent = tensor(tuple(x.shape), 9, dtype=torch.float32)
    found = {}
    for level in (0, 3):
        grad_input = backward(g, x, w, **options, deterministic=level).input
        found[level] = torch.autograd.grad(grad_input, w, cotangent)
        arrays = [t.detach().numpy() for t in (g, cotangent, w)]
        assert same_bits(found[level], [core(*arrays, **options, deterministic=level).weight]), level
    assert not torch.equal(found[0][0], found[3][0])


def test_operators_with_a_level():
    """The schema's last argument is the level, 0 where none is given; torch.library finds the operators whole at 3."""
    _, core, x, w, b, g, options = of_a_level("conv")
    numbers = ([2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    ops = torch.ops.convgrad
    tensors = [t.requires_grad_() for t in (x, w, b)]
    torch.library.opcheck(ops.convolution.default, (*tensors, *numbers, *HOW, 3))
    torch.library.opcheck(ops.conv_backward.default, (g, x, w, None, *numbers, [True] * 3, *HOW, 3))
    for level, given in ((0, {}), (0, {"deterministic": 0}), (3, {"deterministic": 3})):
        want = core(*(t.detach().numpy() for t in (g, x, w)), **options, deterministic=level)
        y = ops.convolution(x, w, b, *numbers, *HOW, **given)
        assert same_bits(torch.autograd.grad(y, (x, w, b), g), want)
        assert same_bits(ops.conv_backward(g, x, w, None, *numbers, [True] * 3, *HOW, **given), want)
    t = of_a_level("tbc")[2:6]
    torch.library.opcheck(ops.conv_tbc.default, (*t[:3], 1, *HOW, 3))
    torch.library.opcheck(ops.conv_tbc_backward.default, (t[3], *t[:3], 1, *HOW, 3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_with_a_level(backend):
    """One graph under torch.compile keeps the level: bits of the call that is not compiled, which are not level 0's."""
    (forward, _), _, x, w, b, g, options = of_a_level("conv")
    tensors = [t.requires_grad_() for t in (x, w, b)]

    def gradients(function, level):
        return torch.autograd.grad(function(*tensors, level), tensors, g)

    def function(x, w, b, level):
        return forward(x, w, b, **options, deterministic=level) * 1

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    by_level = {level: gradients(function, level) for level in (0, 3)}
    assert not torch.equal(by_level[0][1], by_level[3][1])
    for level, want in by_level.items():
        assert all(torch.equal(a, c) for a, c in zip(gradients(compiled, level), want, strict=True))
