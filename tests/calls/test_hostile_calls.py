"""Whatever is passed, a public function answers with a result, a ConvGradError that names the argument, or a status."""

import inspect
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

import convgrad
import convgrad.compare
import convgrad.dask
import convgrad.torch
import hostile_calls
from convgrad import ConvGradError, Request, Tensor, aclnn, ascendc, functional, golden_functions
from convgrad.calls import decide, requests
from convgrad.core import arguments
from convgrad.core.request import Operator, TensorSpec
from convgrad.core.status import Status

G, X, W = (np.ones(s, np.float32) for s in ((1, 1, 3, 3), (1, 1, 3, 3), (1, 1, 1, 1)))
V = np.ones((1, 1, 1, 1, 1), np.float16)
T, B, C = (np.ones(s, np.float32) for s in ((3, 1, 1), (3, 1, 1), (1, 1, 1)))

# ---- one by one


@pytest.mark.parametrize("options", [
    {"threads": 5000}, {"threads": 2**31}, {"threads": 10**5000}, {"threads": np.array([1, 2])}, {"stride": 10**30},
    {"dilation": 10**30}, {"groups": 10**30}, {"math": 10**30}, {"padding": -(10**30)}, {"output_padding": 2**63},
    {"stride": 10**5000}, {"bias_sizes": 2**64}, {"stride": None}, {"padding": None}, {"groups": None}, {"math": None},
    {"output_mask": None}, {"conformance": None}, {"stride": np.array(1.5)},
    {"groups": np.array([1, 1])}, {"transposed": np.array([1, 1])}, {"output_mask": np.ones((3, 2))},
    {"output_mask": 7}, {"output_mask": "abc"}, {"transposed": "False"}, {"stride": Decimal(1)}, {"stride": b"\1\1"},
    {"padding": [[[1]]]}, {"math": np.array("keep")}, {"conformance": np.array(["document"])}, {"out": 5},
    {"stride": range(10**12)}, {"product": 10**5000},
], ids=lambda o: f"{next(iter(o))}")
def test_an_attribute_of_any_kind_is_refused_by_name(options):
    """Numbers beyond 64 bits, nulls, arrays and objects as attributes: ConvGradError, on every door that has them."""
    (name,) = options
    for door in (convgrad.conv_backward, convgrad.dask.conv_backward):
        with pytest.raises(ConvGradError, match=name):
            door(G, X, W, **options)
    torch = pytest.importorskip("torch")
    with pytest.raises(ConvGradError, match=name):
        convgrad.torch.conv_backward(*map(torch.from_numpy, (G, X, W)), **options)
    if name not in ("bias_sizes", "output_mask"):
        with pytest.raises(ConvGradError, match=name):
            convgrad.convolution(X, W, **options)


def test_numbers_of_other_kinds_are_numbers():
    """A 0-d array, a NumPy integer and a truth value are read as the number they are."""
    plain = convgrad.conv_backward(G, X, W).weight
    for one in (np.array(1), np.int8(1), True):
        found = convgrad.conv_backward(G, X, W, stride=one, dilation=[one, one], groups=one, threads=one)
        assert found.weight == plain
    line = "conv n1 c1>1 i3x3 k1x1 s1"
    spec = TensorSpec((1, 1, 3, 3), "float32", "NCHW")
    asked = requests.Attributes(None, True, 0, True, False, 0, True, (1, 1, 1))
    one_by_one = TensorSpec((1, 1, 1, 1), "float32", "NCHW")
    built = requests.conv_backward_request(spec, spec, one_by_one, asked, requests.Rules())
    assert str(Request.parse(line)) == str(built)


def test_a_bias_of_integers_is_refused():
    """A forward pass names the bias whose dtype is no float."""
    torch = pytest.importorskip("torch")
    calls = (
        lambda: convgrad.convolution(X, W, np.ones(1, np.int64)),
        lambda: convgrad.conv_tbc(T, C, np.ones(1, bool)),
        lambda: convgrad.torch.convolution(*map(torch.from_numpy, (X, W)), torch.ones(1, dtype=torch.int64)),
    )
    for call in calls:
        with pytest.raises(ConvGradError, match="dtype of bias") as caught:
            call()
        assert caught.value.rule == "bias.dtype" and caught.value.line


@pytest.mark.parametrize("make, name", [
    (lambda: Tensor(X, format=5), "format"), (lambda: Tensor(X, format="N C"), "format"),
    (lambda: Tensor(X, 5), "dtype"),
    (lambda: Tensor(X, "float12"), "dtype"), (lambda: Tensor(X.astype(int)), "data"), (lambda: Tensor("text"), "data"),
    (lambda: Tensor(X.astype(complex), "fp32"), "data"), (lambda: Tensor(X, "hf32"), "hf32"),
    (lambda: convgrad.dask.Tensor(X, format=None), "format"), (lambda: convgrad.dask.Tensor(None), "data"),
    (lambda: TensorSpec((1, None), "float32", "ND"), "shape"), (lambda: TensorSpec((1,), 5, "ND"), "dtype"),
    (lambda: Request("conv", None, None, None), "operator"),
    (lambda: Request(Operator.CONV, X, None, None), "grad_output"),
    (lambda: Request(Operator.CONV, None, None, None, stride=5), "stride"), (lambda: Request.parse(5), "problem line"),
    (lambda: convgrad.compare.compare(X, X, standard=5), "standard"),
    (lambda: convgrad.compare.compare(X, X, partner=X[0]), "partner"),
    (lambda: convgrad.compare.compare(X, X, "float12"), "dtype"),
    (lambda: golden_functions.aclnnConvolutionBackward(G, X, W, [1], None, [0, 0], [1, 1]), "stride"),
    (lambda: golden_functions.aclnnConvTbcBackward(T, B, C, None, 0), "bias"),
    (lambda: golden_functions.conv3d_backprop_input_v2([1.5] * 5, V, V), "input_size"),
    (lambda: golden_functions.conv3d_backprop_filter_v2(V, [1.5] * 5, V), "filter_size"),
    (lambda: ascendc.simulate(None, None), "grad_output"),
    (lambda: ascendc.simulate(np.ones((1, 1, 1, 1, 1)), np.ones((1, 1, 1, 1, 1)), cores="all"), "cores"),
], ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_everything_else_of_the_wrong_kind(make, name):
    """Tensors, requests, references, comparisons and tile kernels name what they cannot read."""
    with pytest.raises(ConvGradError, match=name):
        make()


@pytest.mark.parametrize("size", [None, "10", np.array([1, 2]), 2**64], ids=str)
def test_a_workspace_size_that_is_no_number_is_a_status(size):
    """Phase two answers, and the executor can still run."""
    gx = np.zeros_like(X)
    needed, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        G, X, W, [1], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False], 0, gx, None, None
    )
    assert status == 0
    workspace = np.empty(needed, np.uint8)
    assert aclnn.aclnnConvolutionBackward(workspace, size, executor, None) is Status.PARAM_INVALID
    assert "workspaceSize" in (aclnn.aclGetRecentErrMsg() or "")
    assert aclnn.aclnnConvolutionBackward(workspace, needed, executor, None) == 0 and (gx == 1).all()


def test_a_line_can_say_every_request():
    """Numbers of up to 39 digits, also where a size that follows from them has more."""
    large = 10**39 - 1
    one = (large,)
    for changes in ({"groups": large}, {"math": -large}, {"stride": one}, {"stride": one, "dilation": one}):
        fields = {"stride": (1,), "padding": (0,), "dilation": (1,), "output_padding": (0,), **changes}
        spec = TensorSpec((1, 1, large), "float32", "NCL")
        request = Request(Operator.CONV, spec, spec, spec, transposed=True, **fields)
        assert not convgrad.check(request).ok and Request.parse(str(request)) == request
    with pytest.raises(ConvGradError, match="groups must have at most 39 digits"):
        Request(Operator.CONV, None, None, None, groups=10**39)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_stops_the_interpreter_passes_through(error):
    """A key press or a lack of memory while an argument is read is no refusal."""
    class Stops:
        def __index__(self):
            raise error

    for options in ({"stride": Stops()}, {"groups": Stops()}, {"padding": [Stops()]}, {"threads": Stops()}):
        with pytest.raises(error):
            convgrad.conv_backward(G, X, W, **options)


def test_a_key_that_cannot_be_made_costs_only_the_memory_of_the_plan():
    """Attributes without a text, a hash or a comparison are read all the same, every time."""
    class One:
        def __index__(self):
            return 1

    class Mute(One):
        def __repr__(self):
            raise ZeroDivisionError

    class Single(One):
        def __hash__(self):
            raise ZeroDivisionError

    class Alone(One):
        __hash__ = One.__hash__

        def __eq__(self, other):
            raise ZeroDivisionError

    for one in (Mute(), Single(), Alone()):
        for _ in range(2):
            assert convgrad.conv_backward(G, X, W, stride=one).bias == 9
            assert convgrad.conv_tbc_backward(np.ones((5, 1, 1), np.float32), B, C, pad=one).bias == 5


# ---- by the thousand

HANDMADE = {
    "compare_dump", "Fill", "finish_ncdhw", "grid_blocks",  # of kernels at work
    "impact", "scan",  # of torch: models
    "golden_conv_backward", "golden_convtbc_backward",  # other names of the two operators
}  # fmt: skip
"""Functions on objects that only this package makes: their own tests hand them wrong ones."""


def test_every_public_function_is_called():
    """A new function comes with hostile calls, or is told here why it has none."""
    called = {door.name.rpartition(".")[2] for door in hostile_calls.DOORS}
    modules = (convgrad, aclnn, ascendc, convgrad.torch, convgrad.dask, golden_functions, convgrad.compare)
    public = {n for module in modules for n in module.__all__ if inspect.isfunction(getattr(module, n))}
    assert public - called == HANDMADE


def test_thousands_of_hostile_calls():
    """Four thousand calls: no finding; every door is met, and both answers are common."""
    outcomes, findings = hostile_calls.campaign(seed=0, count=4000)
    assert not findings, "\n".join(findings[:10])
    assert {name.split()[0] for name in outcomes} == {door.name for door in hostile_calls.DOORS}
    common = [sum(n for name, n in outcomes.items() if name.endswith(word)) for word in ("result", "refused")]
    assert min(common) > 800 and outcomes["conv_backward result"] > 50


def test_a_call_can_be_made_again():
    """The seed and the number are the whole call."""
    for number in range(50):
        one, other = hostile_calls.make(5, number), hostile_calls.make(5, number)
        assert one.door is other.door and one.changed == other.changed and one.before == other.before


def test_planted_faults_are_found(monkeypatch):
    """A raw error, a wrong gradient, an unnamed argument and a written operand are findings, each of them."""
    def found(count=400):
        return " ".join(hostile_calls.campaign(seed=0, count=count)[1])

    with monkeypatch.context() as planted:
        planted.setattr(arguments, "MOST_THREADS", 10**6)
        planted.setattr(requests, "number", lambda name, value: value.__index__())
        assert "AttributeError" in found(800)
    with monkeypatch.context() as planted:
        run = functional._execute
        planted.setattr(functional, "_execute", lambda *a: run(*a)._replace(bias=run(*a).bias + 1))
        decide._decisions.clear()
        assert "grad_bias differs from PyTorch's" in found()
    with monkeypatch.context() as planted:
        for name, expected in (("_output", "output differs"), ("_tbc_output", "output differs"),
                               ("_tbc_gradients", "grad_input differs")):  # fmt: skip
            wrong = [replace(d, expected=lambda a, d=d: [t + 1 for t in d.expected(a) or ()] or None)
                     for d in hostile_calls.DOORS if d.expected is getattr(hostile_calls, name)]  # fmt: skip
            planted.setattr(hostile_calls, "_WEIGHTED", wrong)
            assert expected in found(40)
    with monkeypatch.context() as planted:
        planted.setattr(arguments, "wrong_type", lambda name, wanted, value: ConvGradError("something is wrong"))
        assert "names another argument" in found()
    with monkeypatch.context() as planted:
        run = functional._execute

        def scribble(plan, g, x, *rest):
            found = run(plan, g, x, *rest)
            if x.array.flags.writeable:
                x.array[...] = 77
            return found

        planted.setattr(functional, "_execute", scribble)
        decide._decisions.clear()
        assert "input was written" in found()
    decide._decisions.clear()
