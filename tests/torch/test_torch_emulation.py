"""`convgrad.torch.emulate`: whose gradients they are, which calls are seen, what is refused."""

import ast
import copy
import gc
import threading
import weakref
from collections import Counter
from functools import partial

import numpy as np
import pytest

import convgrad
from convgrad.core import dtypes, rounding

torch = pytest.importorskip("torch")
door = pytest.importorskip("convgrad.torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import networks  # noqa: E402

nn = torch.nn
torch.set_num_threads(2)


LAYERS = {
    "1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 11)),
    "2d": (lambda: nn.Conv2d(4, 6, (3, 2), padding=(1, 0)), (2, 4, 7, 6)),
    "3d": (lambda: nn.Conv3d(2, 4, 3, padding=1, stride=(1, 2, 2)), (2, 2, 4, 5, 6)),
    "groups": (lambda: nn.Conv2d(4, 8, 3, groups=2, bias=False), (2, 4, 6, 6)),
    "depthwise": (lambda: nn.Conv2d(6, 6, 3, groups=6, padding=1), (2, 6, 6, 6)),
    "dilation": (lambda: nn.Conv2d(3, 5, 3, dilation=2, padding=2), (1, 3, 8, 8)),
    "same": (lambda: nn.Conv2d(3, 5, 4, padding="same"), (1, 3, 6, 6)),
    "unbatched": (lambda: nn.Conv2d(3, 5, 3), (3, 6, 6)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(4, 3, 4, stride=3, output_padding=2), (2, 4, 5)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 5, 5)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(3, 2, 2, stride=2), (1, 3, 3, 3, 3)),
    "tbc": (lambda: networks.ConvTbc(3, 5, 3, 1), (7, 2, 3)),
}


def integers(shape, generator, dtype=torch.float32):
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


def normals(shape, generator, dtype=torch.float32):
    return torch.randn(shape, generator=generator).to(dtype)


def layer_and_input(kind, draw, dtype=torch.float32):
    """A layer with drawn parameters, and an input that wants a gradient."""
    make, shape = LAYERS[kind]
    generator = torch.Generator().manual_seed(7)
    layer = make().to(dtype)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(draw(tuple(p.shape), generator, dtype))
    return layer, draw(shape, generator, dtype).requires_grad_()


def gradients(layer, x):
    """Gradients of a weighted sum: grad_output is 1, 2, 3, 1, 2, 3 ..."""
    y = layer(x)
    weights = (torch.arange(y.numel()) % 3 + 1).to(y.dtype).reshape(y.shape)
    return torch.autograd.grad(y, [x, *layer.parameters()], weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", LAYERS)
def test_integers_are_exact(kind, dtype):
    """On the product cpu, every layer type gives PyTorch's float64 gradients of integers, bit by bit."""
    layer, x = layer_and_input(kind, integers, dtype)
    with door.emulate(product="cpu", math="keep") as record:
        got = gradients(layer, x)
    want = gradients(layer.double(), x.detach().double().requires_grad_())
    assert len(record) == 1 and record[0].computed_by == "convgrad"
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and torch.equal(a.double(), b)


@pytest.mark.parametrize("kind", LAYERS)
def test_normal_numbers_within_float32_rounding(kind):
    """Against float64, each gradient is off by no more than a few roundings of its largest terms."""
    layer, x = layer_and_input(kind, normals)
    with door.emulate(product="cpu", math="keep"):
        got = gradients(layer, x)
    want = gradients(layer.double(), x.detach().double().requires_grad_())
    for a, b in zip(got, want, strict=True):
        assert (a.double() - b).abs().max() <= 2e-6 * b.abs().max()


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (networks.UNet, (2, 1, 16, 16)), (networks.Video, (2, 3, 6, 16, 16)), (networks.Speech, (12, 2, 16)),
        (networks.Small, (4, 1, 16, 16)),
    ],
)  # fmt: skip
def test_whole_networks(make, shape):
    """Every parameter gradient of a network: in float64 PyTorch's own, in float32 that one within float32 rounding."""
    torch.manual_seed(2)
    model, x = make(), torch.randn(shape)
    for p in model.parameters():
        nn.init.normal_(p, std=0.2)

    def all_gradients(model, x):
        output = model(x)
        output = output["logits"] if isinstance(output, dict) else output
        return torch.autograd.grad(output.square().mean(), list(model.parameters()))

    narrow, wide = copy.deepcopy(model), copy.deepcopy(model).double()
    want = all_gradients(copy.deepcopy(wide), x.double())
    with door.emulate("cpu", "keep") as record:
        in_double, in_float = all_gradients(wide, x.double()), all_gradients(narrow, x)
    assert {call.computed_in for call in record} == {"float64", "float32"}
    largest = max(g.abs().max() for g in want)
    for a, b, exact in zip(in_double, in_float, want, strict=True):
        assert (a - exact).abs().max() <= 1e-13 * largest
        assert (b.double() - exact).abs().max() <= 1e-5 * largest


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["2d", "transposed 2d", "3d", "tbc"])
def test_small_dtypes(kind, dtype):
    """bfloat16 and float16 tensors are computed in their own dtype and gradients come back in it."""
    layer, x = layer_and_input(kind, integers, dtype)
    with door.emulate(product="A2", math="keep") as record:
        got = gradients(layer, x)
    want = gradients(layer.double(), x.detach().double().requires_grad_())
    assert record[0].computed_in == str(dtype).removeprefix("torch.")
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype and torch.equal(a, b.to(dtype))


@pytest.mark.parametrize("product", ["cpu", "A2"])
@pytest.mark.parametrize("math", [-1, 4, 2**31 - 1])
def test_numbers_of_no_math_are_refused_forward_too(product, math):
    """A cubeMathType without a meaning is the rule's refusal in the forward pass, no other math and no bare error."""
    x, w = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
    with door.emulate(product=product, math=math, forward=True), pytest.raises(convgrad.ConvGradError) as caught:
        torch.nn.functional.conv2d(x, w)
    assert caught.value.rule == "math.range" and caught.value.value == math


def test_hf32_is_rounding_the_operands_by_hand():
    """HF32 on A2: operands rounded to 11 fraction bits, ties away; every later sum is exact here."""
    generator = torch.Generator().manual_seed(3)
    # 1 + 2^-12 is half way and must go up; the factor 1 + 2^-14 must vanish.
    g = integers((2, 4, 6, 6), generator) * (1 + 2**-12)
    x, w = (integers(s, generator) * (1 + 2**-14) for s in ((2, 3, 8, 8), (4, 3, 3, 3)))
    numbers = ([4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    with door.emulate(product="A2", math="hf32"):
        got = torch.ops.aten.convolution_backward(g, x, w, *numbers)
    hf32 = dtypes.find("hf32")
    by_hand = [torch.from_numpy(rounding.round_to(hf32, t.numpy().astype(np.float64))) for t in (g, x, w)]
    assert not torch.equal(by_hand[0], g.double()) and not torch.equal(by_hand[1], x.double())
    want = torch.ops.aten.convolution_backward(*by_hand, *numbers)
    for a, b in zip(got[:2], want[:2], strict=True):
        assert torch.equal(a.double(), b)
    assert torch.equal(got[2], g.sum((0, 2, 3)))  # the bias sums the original numbers


@pytest.mark.parametrize(
    ("options", "computed_in"),
    [
        ({"product": "A2"}, "hf32"),
        ({"product": "A2", "allow_hf32": False}, "float32"),
        ({"product": "Ascend950PR"}, "hf32_10"),
        ({"product": "910"}, "float16"),
        ({"product": "A3", "math": "fp16"}, "float16"),
        ({"product": "cpu", "math": 0}, "float32"),
    ],
)
def test_switches(options, computed_in):
    """HF32 is on for convolutions unless turned off; older products go down to float16."""
    layer, x = layer_and_input("2d", integers)
    with door.emulate(**options) as record:
        gradients(layer, x)
    assert [call.computed_in for call in record] == [computed_in]
    assert record[0].lowered == (computed_in != "float32")


class Net(nn.Module):
    """Several kinds of convolution, one used twice, one through torch.nn.functional, one frozen."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.free = nn.Parameter(torch.ones(4, 1, 3, 3))
        self.frozen = nn.Conv2d(4, 4, 1).requires_grad_(False)
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)

    def forward(self, x):
        x = self.body(self.body(self.stem(x)))
        x = nn.functional.conv2d(x, self.free, padding=1, groups=4)
        return self.up(self.frozen(x))


def test_every_call_is_recorded_with_its_layer():
    """As many calls as PyTorch's profiler counts, each under the module's own name."""
    net, x = Net(), torch.ones(2, 3, 8, 8)
    loss = net(x).sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss.backward()
    count = sum(e.count for e in profile.key_averages() if e.key == "aten::convolution_backward")
    with door.emulate() as record:
        net(x).sum().backward()
    assert len(record) == count == 6
    assert [call.layer for call in record] == ["up", "frozen", "Net", "body.0", "body.0", "stem"]
    assert [call.request.output_mask for call in record][1] == (True, False, False)
    for call in record:
        assert convgrad.Request.parse(call.line) == call.request and call.seconds > 0
    assert "body.0" in str(record) and len(record.as_rows()) == 6
    record.clear()
    assert len(record) == 0


def test_refusals_raise_with_the_rule_and_the_layer():
    """A refused call stops backward() with the error of the functional API."""
    net = Net()
    with pytest.raises(convgrad.ConvGradError, match=r"^up: math") as caught, door.emulate("910", "keep"):
        net(torch.ones(1, 3, 8, 8)).sum().backward()
    assert caught.value.rule == "math.float32.910" and caught.value.status == 161002
    assert not convgrad.check(convgrad.Request.parse(caught.value.line)).ok
    net(torch.ones(1, 3, 8, 8)).sum().backward()  # and nothing is left behind


def test_refusals_recorded_leave_pytorchs_own_gradients():
    """With on_refusal="record" PyTorch computes what the product refuses; the reason is kept."""
    layer, x = layer_and_input("3d", integers)
    want = gradients(layer, x)
    with door.emulate("910", on_refusal="record") as record:
        got = gradients(layer, x)
    assert record.refused == list(record) and record[0].computed_by == "pytorch"
    assert record[0].verdict.rule_id == "dims.910" and record[0].verdict.advice
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_the_innermost_emulation_computes():
    """Nested contexts: one call is recorded once, by the inner one, even when that one lets it through."""
    layer, x = layer_and_input("3d", integers)
    with door.emulate("A2") as outer:
        with door.emulate("910", on_refusal="record") as inner:
            gradients(layer, x)
        assert (len(outer), len(inner)) == (0, 1)
        gradients(layer, x)
    assert (len(outer), len(inner)) == (1, 1)


class Seen(TorchDispatchMode):
    """Counts operators by name."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def test_other_modes_see_what_they_saw():
    """A mode entered inside sees the calls before they are emulated; other operators do not pass through emulate."""
    layer, x = layer_and_input("2d", integers)
    with door.emulate("A2") as record, Seen() as inside:
        layer(x).sum().backward()
    assert [call.computed_in for call in record] == ["hf32"]
    assert inside.counts["aten.convolution_backward.default"] == inside.counts["aten.convolution.default"] == 1
    with door.emulate("A2"):
        assert torch._C._len_torch_dispatch_stack() == 0


def test_forward_passes_of_nested_emulations():
    """An emulation of gradients alone leaves the forward pass to the one around it."""
    layer, x = layer_and_input("2d", normals)
    with door.emulate("A2", forward=True):
        alone = layer(x)
        with door.emulate("950"):
            nested = layer(x)
    assert torch.equal(alone, nested) and not torch.equal(alone, layer(x))


def test_an_input_of_no_planes_beside_a_channels_last_weight():
    """The gradient of the bias is the sum of grad_output, though PyTorch chooses no backend for such sizes."""
    x, w = torch.empty(2, 2, 0, 1, 6), torch.ones(1, 2, 2, 1, 2).to(memory_format=torch.channels_last_3d)
    numbers = ([1], [3, 3, 3], [2, 1, 1], [2, 3, 1], False, [0, 0, 0], 1, [False, False, True])
    with door.emulate("cpu"):
        found = torch.ops.aten.convolution_backward(torch.ones(2, 1, 1, 1, 3), x, w, *numbers)
    assert found[2].tolist() == [6.0]


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_repeated_calls_on_other_memory(engine, monkeypatch):
    """Calls of known strides are exact at other addresses, off their alignment and with the negative bit."""
    generator = torch.Generator().manual_seed(3)
    x, w, g = (integers(s, generator) for s in ((2, 3, 6, 5), (4, 3, 3, 3), (2, 4, 4, 3)))
    bytes_of_x = torch.zeros(4 * x.numel() + 2, dtype=torch.uint8).numpy()
    off = np.frombuffer(bytes_of_x, np.float32, x.numel(), 2).reshape(x.shape)
    off[...] = x.numpy()
    negative = torch.complex(torch.zeros_like(x), -x).conj().imag
    forms = [x, x.clone(), torch.from_numpy(off), negative, x.clone()]
    assert forms[2].data_ptr() % 4 == 2 and negative.is_neg()
    numbers = ([4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    want = torch.ops.aten.convolution_backward(g.double(), x.double(), w.double(), *numbers)
    with door.emulate("cpu", "keep"):
        torch.ops.aten.convolution_backward(g, x, w, *numbers)
        monkeypatch.setenv("CONVGRAD_ENGINE", engine)
        for form in forms:
            found = torch.ops.aten.convolution_backward(g, form, w, *numbers)
            assert all(torch.equal(ours.double(), theirs) for ours, theirs in zip(found, want, strict=True))


def test_an_emulation_can_be_entered_again():
    """The same object goes on recording; outside of it nothing is recorded."""
    layer, x = layer_and_input("tbc", integers)
    emulation = door.emulate("A2")
    for _ in range(2):
        with emulation as record:
            gradients(layer, x)
    gradients(layer, x)
    assert [call.layer for call in record] == ["ConvTbc", "ConvTbc"]


def test_what_was_entered_is_let_go_and_not_before():
    """The handle autograd sees an emulation through is counted as often as it is held, whatever PyTorch's does."""
    emulation, x = door.emulate("A2"), torch.ones(1, 1, 5, 5)
    for _ in range(20):  # PyTorch 2.10 let go of it too early: other objects stood in its place, or nothing
        with emulation as record:
            torch.nn.Conv2d(1, 1, 3)(x).sum().backward()
            gc.collect()
    assert len(record) == 20
    gone = weakref.ref(emulation)
    del emulation
    gc.collect()
    assert gone() is None


def test_a_kept_graph_can_be_used_twice():
    """retain_graph: each backward pass is recorded, with its layer."""
    layer, x = layer_and_input("2d", integers)
    with door.emulate("A2") as record:
        y = layer(x).sum()
        y.backward(retain_graph=True)
        first = layer.weight.grad.clone()
        y.backward()
    assert torch.equal(layer.weight.grad, 2 * first) and [c.layer for c in record] == ["Conv2d"] * 2


@pytest.mark.parametrize("kind", ["2d", "transposed 1d", "tbc"])
def test_second_derivatives(kind):
    """create_graph works: the second derivative of an emulated gradient is right (numerically, in float64)."""
    layer, x = layer_and_input(kind, normals, torch.float64)

    def function(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, x)

    with door.emulate("cpu", "keep") as record:
        assert torch.autograd.gradgradcheck(function, (x, layer.weight, layer.bias), fast_mode=True)
    assert len(record) > 0


class Deeper(torch.autograd.Function):
    """A backward that starts another backward, which autograd moves to threads of its own when too deep."""

    threads = set()  # noqa: RUF012

    @staticmethod
    def forward(ctx, x, depth, bottom):
        ctx.depth, ctx.bottom = depth, bottom
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        Deeper.threads.add(threading.get_ident())
        with torch.enable_grad():
            leaf = torch.ones(1, requires_grad=True)
            if ctx.depth:
                Deeper.apply(leaf, ctx.depth - 1, ctx.bottom).backward()
            else:
                ctx.bottom()
        return g, None, None


def test_autograds_own_threads_are_covered():
    """A convolution whose backward runs on a thread of autograd's pool is emulated too."""
    layer, x = layer_and_input("2d", integers)
    with door.emulate("A2") as record:
        leaf = torch.ones(1, requires_grad=True)
        Deeper.apply(leaf, 80, lambda: layer(x).sum().backward()).backward()
    assert len(Deeper.threads) > 1, "autograd did not leave the calling thread"
    assert [call.computed_in for call in record] == ["hf32"]


def test_checkpointed_layers():
    """Recomputed forward passes keep their layer names and their single backward call."""
    net, x = Net(), torch.ones(2, 3, 8, 8, requires_grad=True)
    with door.emulate() as record:
        y = torch.utils.checkpoint.checkpoint(net.body, x.expand(2, 3, 8, 8)[:, :1].expand(2, 4, 8, 8),
                                              use_reentrant=False)
        y.sum().backward()
    assert [call.layer for call in record] == ["0"]


def test_autocast_and_compiled_models():
    """Under autocast the cast tensors are computed; a compiled model is emulated like any other."""
    net, x = Net(), torch.ones(2, 3, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16), door.emulate() as record:
        net(x).float().sum().backward()
    assert {call.computed_in for call in record} == {"bfloat16"} and record[0].layer == "up"
    compiled = torch.compile(net, backend="eager")
    with door.emulate() as record:
        compiled(x).sum().backward()
    assert [call.layer for call in record] == ["up", "frozen", "Net", "body.0", "body.0", "stem"]


def test_same_bits_for_every_thread_count():
    """Deterministic: thread counts and repetition change nothing."""
    layer, x = layer_and_input("2d", normals)
    found = []
    for threads in (1, 2, 2):
        with door.emulate("A2", threads=threads):
            found.append(gradients(layer, x))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("input_last", "weight_last"), [(True, False), (False, True), (True, True), (False, False)])
def test_memory_order_is_pytorchs(input_last, weight_last, transposed, dtype):
    """channels_last tensors are read in place and gradients have the strides PyTorch gives them."""
    generator = torch.Generator().manual_seed(1)
    g = integers((2, 4, 10, 10) if transposed else (2, 4, 6, 6), generator, dtype)
    x, w = (
        integers(s, generator, dtype).contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
        for s, last in (((2, 4, 8, 8), input_last), ((4, 4, 3, 3), weight_last))
    )
    numbers = ([4], [1, 1], [0, 0], [1, 1], transposed, [0, 0], 1, [True, True, True])
    want = torch.ops.aten.convolution_backward(g, x, w, *numbers)
    with door.emulate("cpu", "keep"):
        got = torch.ops.aten.convolution_backward(g, x, w, *numbers)
    for a, b in zip(got, want, strict=True):
        assert a.stride() == b.stride() and a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_tensors_are_not_copied(dtype):
    """The array of a tensor is the tensor's memory, with its strides."""
    from convgrad.torch.memory import array_of

    tensor = torch.zeros(2, 3, 4, 5).to(getattr(torch, dtype)).permute(0, 2, 3, 1)
    array = array_of(tensor)
    assert array.__array_interface__["data"][0] == tensor.data_ptr() and array.dtype.name == dtype
    assert array.strides == tuple(s * tensor.element_size() for s in tensor.stride())


def test_the_forward_pass_on_request():
    """With forward=True the product's rounding shows in the output; without it PyTorch computes the output."""
    x, layer = torch.full((1, 1, 1, 1), 1 + 2**-14), nn.Conv2d(1, 1, 1, bias=False)
    nn.init.ones_(layer.weight)
    with door.emulate("A2"):
        plain = layer(x)
    with door.emulate("A2", forward=True) as record:
        rounded = layer(x)
        rounded.sum().backward()
    assert plain.item() == 1 + 2**-14 and rounded.item() == 1 and len(record) == 1


def test_what_the_cpu_cannot_read():
    """Meta tensors are refused by device; recorded, PyTorch's own answer stands."""
    with pytest.raises(convgrad.ConvGradError, match="meta"), door.emulate("cpu", "keep"):
        nn.Conv1d(1, 1, 2, device="meta")(torch.ones(1, 1, 3, device="meta")).sum().backward()
    with door.emulate("cpu", "keep", on_refusal="record") as record:
        nn.Conv1d(1, 1, 2, device="meta")(torch.ones(1, 1, 3, device="meta")).sum().backward()
    assert record[0].computed_by == "pytorch" and not record[0].ok


def test_complex_layers_are_real_calls():
    """PyTorch splits a complex convolution into real ones above the operator: these are emulated."""
    x, w = torch.ones(1, 1, 3, dtype=torch.complex64), torch.ones(1, 1, 2, dtype=torch.complex64, requires_grad=True)
    with door.emulate("cpu", "keep") as record:
        got = torch.autograd.grad(torch.nn.functional.conv1d(x, w).real.sum(), w)[0]
    assert {call.computed_in for call in record} == {"float32"} and torch.equal(got, torch.full_like(w, 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"product": "A9"}, "unknown product"),
        ({"math": "hf16"}, "math must be one of"),
        ({"on_refusal": "ignore"}, "on_refusal must be"),
        ({"math": "hf32", "allow_hf32": False}, "contradicts"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_wrong_switches(options, words):
    """Every switch says what it takes."""
    with pytest.raises(convgrad.ConvGradError, match=words):
        door.emulate(**options)


def test_convgrad_alone_does_not_import_torch():
    """`import convgrad` stays light, and a missing torch is said plainly."""
    import subprocess
    import sys

    code = (
        "import sys, convgrad; assert 'torch' not in sys.modules; sys.modules['torch'] = None\n"
        "try:\n    import convgrad.torch\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs PyTorch" in done.stdout and "convgrad[torch]" in done.stdout


@pytest.mark.parametrize("product", ["A2", "950", "cpu"])
def test_lists_of_one_stand_for_every_axis(product):
    """padding="valid", [1] and stride [2]: the framework expands such lists before a device sees them."""
    x, w = torch.ones(1, 2, 8, 8, requires_grad=True), torch.ones(3, 2, 3, 3)
    with door.emulate(product, math="keep") as record:
        torch.nn.functional.conv2d(x, w, padding=[1], stride=[2]).sum().backward()
        torch.nn.functional.conv2d(x, w, padding="valid").sum().backward()
        torch.nn.grad.conv2d_weight(x.detach(), w.shape, torch.ones(1, 3, 6, 6))
    assert [call.ok for call in record] == [True] * 3
    assert (record[0].request.padding, record[0].request.stride) == ((1, 1), (2, 2))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_output_padding_below_the_dilation(rank, groups):
    """cpu computes transposed convolutions whose output_padding reaches the stride: exact in both passes."""
    numbers = {"stride": (1, 2, 3)[:rank], "dilation": (4, 5, 2)[:rank], "output_padding": (3, 2, 1)[:rank],
               "padding": (2, 0, 1)[:rank], "groups": groups}  # fmt: skip
    function = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    generator = torch.Generator().manual_seed(7)
    x, w = (integers(s, generator) for s in ((2, 6, *(4, 3, 5)[:rank]), (6, 3, *(3, 2, 3)[:rank])))
    want = function(x.double(), w.double(), **numbers)
    g = integers(tuple(want.shape), generator)
    leaves = [t.clone().requires_grad_() for t in (x, w)]
    with door.emulate("cpu", forward=True) as record:
        found = function(*leaves, **numbers)
        found.backward(g)
    assert record[0].request.output_padding == numbers["output_padding"] and torch.equal(found.double(), want)
    doubles = [t.double().requires_grad_() for t in (x, w)]
    function(*doubles, **numbers).backward(g.double())
    assert all(torch.equal(ours.grad.double(), theirs.grad) for ours, theirs in zip(leaves, doubles, strict=True))
    with door.emulate("A2"), pytest.raises(convgrad.ConvGradError, match="output_padding must be below stride"):
        function(*leaves, **numbers).sum().backward()


def test_a_forward_pass_that_is_refused_falls_back():
    """Tensors in oneDNN's own layout: PyTorch computes them and the reason is recorded, or the call says it."""
    x, w = torch.ones(1, 2, 8, 8).to_mkldnn(), torch.ones(3, 2, 3, 3).to_mkldnn()
    with door.emulate("A2", forward=True, on_refusal="record") as record:
        assert torch.equal(torch.nn.functional.conv2d(x, w).to_dense(), torch.full((1, 3, 6, 6), 18.0))
    assert [call.computed_by for call in record] == ["pytorch"] and "_mkldnn" in record[0].verdict.message
    with door.emulate("A2", forward=True), pytest.raises(convgrad.ConvGradError, match=r"input .* layout _mkldnn"):
        torch.nn.functional.conv2d(x, w)


def test_a_window_beyond_its_input_is_refused_like_pytorch():
    """Sizes of which the law alone would make an output of no pixels."""
    x, w = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)
    with pytest.raises(RuntimeError):
        torch.nn.functional.conv2d(x, w, dilation=2, stride=2)
    words = "4 with its padding, the window covers 5"
    with door.emulate("cpu", forward=True), pytest.raises(convgrad.ConvGradError, match=words):
        torch.nn.functional.conv2d(x, w, dilation=2, stride=2)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_strides_are_those_pytorch_gives(rank, dtype, channels, transposed):
    """Output and grad_input, for every choice of channels-last operands, also where axes of size 1 leave a doubt."""
    orders = (torch.contiguous_format, torch.channels_last if rank == 2 else torch.channels_last_3d)
    name = f"conv{'_transpose' if transposed else ''}{rank}d"

    def strides(x, w):
        x = x.detach().requires_grad_()
        y = getattr(torch.nn.functional, name)(x, w)
        y.backward(torch.ones_like(y).contiguous())
        return y.stride(), x.grad.stride()

    for size in (1, 3):
        for of_x in orders:
            for of_w in orders:
                x = torch.ones(2, channels, *(5,) * rank, dtype=dtype).to(memory_format=of_x)
                w = torch.ones(channels, channels, *(size,) * rank, dtype=dtype).to(memory_format=of_w)
                with door.emulate("cpu", math="keep", forward=True):
                    ours = strides(x, w)
                assert ours == strides(x, w), (size, of_x, of_w)


DOUBTS = """
1-D, weight channels last | (2, 4, 3), (12, 3, 1) | (2, 3, 5), (15, 5, 1) | (4, 3, 3), (9, 1, 3)
1-D, input channels last | (2, 4, 3), (12, 3, 1) | (2, 3, 5), (15, 1, 3) | (4, 3, 3), (9, 3, 1)
1-D, weight turned | (2, 4, 3), (12, 3, 1) | (2, 3, 5), (1, 10, 2) | (4, 3, 3), (1, 12, 4)
one tap, oneDNN | (4, 2, 4, 4), (32, 16, 4, 1) | (4, 8, 4, 4), (128, 1, 32, 8) | (2, 8, 1, 1), (8, 1, 1, 1)
one tap, PyTorch's own | (1, 1, 4, 4), (16, 16, 4, 1) | (1, 3, 4, 4), (48, 1, 12, 3) | (1, 3, 1, 1), (3, 1, 1, 1)
one channel | (1, 3, 3, 5), (45, 15, 5, 1) | (1, 1, 5, 7), (35, 1, 7, 1) | (3, 1, 3, 3), (9, 9, 3, 1)
no sample, channels last | (0, 4, 2, 3), (24, 6, 3, 1) | (0, 5, 4, 3), (60, 1, 15, 5) | (4, 5, 3, 1), (15, 3, 1, 1)
no sample, every second | (0, 4, 4, 3), (48, 12, 3, 1) | (0, 6, 4, 3), (144, 24, 6, 2) | (4, 6, 1, 1), (6, 1, 1, 1)
no channel | (2, 4, 4, 3), (48, 12, 3, 1) | (2, 0, 4, 3), (0, 1, 0, 0) | (4, 0, 1, 1), (0, 1, 0, 0)
3-D | (1, 4, 1, 2, 2), (16, 4, 4, 2, 1) | (1, 1, 1, 3, 3), (9, 1, 9, 3, 1) | (4, 1, 1, 2, 2), (4, 1, 4, 2, 1)
""".strip().splitlines()


@pytest.mark.parametrize("case", DOUBTS, ids=[case.split("|")[0].strip() for case in DOUBTS])
def test_strides_of_odd_operands_are_pytorchs(case):
    """Operands that are in several memory orders at once, in none, or without elements."""
    g, x, w = (torch.ones(1024).as_strided(*ast.literal_eval(f"({text})"))
               for text in case.split("|")[1:])  # fmt: skip
    rank = x.dim() - 2
    zeros, ones = [0] * rank, [1] * rank
    call = partial(
        torch.ops.aten.convolution_backward, g, x, w, None, ones, zeros, ones, False, zeros, 1, [True, True, False]
    )
    with door.emulate("cpu", "keep"):
        ours = call()
    for found, want in zip(ours[:2], call()[:2], strict=True):
        assert found.stride() == want.stride() and torch.equal(found, want)


def test_lowered_calls_are_those_computed_in_fewer_bits():
    """float32 under allow_hf32 is lowered, with the switch off it is not."""
    counts = []
    for hf32 in (True, False):
        with door.emulate("A2", allow_hf32=hf32) as record:
            nn.Conv2d(1, 1, 3)(torch.randn(1, 1, 5, 5)).sum().backward()
        counts.append((len(record), len(record.lowered)))
        record.clear()
        assert len(record) == 0
    assert counts == [(1, 1), (1, 0)]


@pytest.mark.parametrize("forward", [False, True])
def test_level_3_is_the_tree_over_samples(forward):
    """A layer's weight gradient of a batch is the tree of its samples' own; a truth value or a lower level is not."""
    torch.manual_seed(0)
    layer, x = torch.nn.Conv2d(3, 4, 3, padding=1), torch.randn(7, 3, 9, 9)

    coefficients = torch.randn(7, 4, 9, 9)  # not PyTorch's forward pass, which shows the batch

    def grads(picked, level):
        layer.zero_grad()
        with door.emulate("A2", allow_hf32=False, forward=forward, deterministic=level) as record:
            (layer(x[picked]) * coefficients[picked]).sum().backward()
        return layer.weight.grad.numpy().copy(), layer.bias.grad.numpy().copy(), record[-1].line

    weight, bias, line = grads(slice(0, 7), 3)
    singles = [grads(slice(i, i + 1), 3) for i in range(7)]
    assert "det=3" in line
    assert (weight == convgrad.tree_sum([s[0] for s in singles])).all()
    assert (bias == convgrad.tree_sum([s[1] for s in singles])).all()
    usual = [grads(slice(0, 7), level)[0] for level in (False, True, 0, 1, 2)]
    assert all((found == usual[0]).all() for found in usual) and not (usual[0] == weight).all()
    for wrong in (4, -1, "3", None):
        with pytest.raises((convgrad.ConvGradError, TypeError), match="deterministic"):
            door.emulate("A2", deterministic=wrong)
