"""The two-phase calls: protocol, executors, tensors, error text. What is computed is compared with the reference."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import convgrad
from convgrad import Request, Tensor, aclnn, check
from convgrad.aclnn import settings
from convgrad.core import determinism, products
from convgrad.core.status import Status

SUCCESS, NULLPTR, INVALID, RUNTIME, INNER, INNER_NULLPTR = 0, 161001, 161002, 361001, 561000, 561103
SENTINEL = -77.0


@pytest.fixture(autouse=True)
def _defaults(monkeypatch):
    """Every test starts on A2, document conformance, without messages."""
    for name in ("CONVGRAD_PRODUCT", "CONVGRAD_CONFORMANCE"):
        monkeypatch.delenv(name, raising=False)
    aclnn.set_product(None)
    aclnn.set_conformance(None)
    aclnn.aclGetRecentErrMsg()
    yield
    aclnn.set_product(None)
    aclnn.set_conformance(None)


def small_integers(shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def conv_call(**changes):
    """The arguments of an ordinary 2-D call, by vendor name, in vendor order."""
    arguments = {
        "gradOutput": small_integers((2, 4, 5, 5), 1), "input": small_integers((2, 6, 7, 7), 2),
        "weight": small_integers((4, 3, 3, 3), 3), "biasSizes": [4], "stride": [1, 1], "padding": [0, 0],
        "dilation": [1, 1], "transposed": False, "outputPadding": [0, 0], "groups": 2, "outputMask": [True, True, True],
        "cubeMathType": 0, "gradInput": np.full((2, 6, 7, 7), SENTINEL, np.float32),
        "gradWeight": np.full((4, 3, 3, 3), SENTINEL, np.float32), "gradBias": np.full(4, SENTINEL, np.float32),
    }  # fmt: skip
    assert set(changes) <= set(arguments)
    return arguments | changes


def tbc_call(**changes):
    arguments = {
        "self": small_integers((5, 2, 4), 1), "input": small_integers((6, 2, 3), 2),
        "weight": small_integers((4, 3, 4), 3), "bias": np.zeros(4, np.float32), "pad": 1, "cubeMathType": 0,
        "gradInput": np.full((6, 2, 3), SENTINEL, np.float32),
        "gradWeight": np.full((4, 3, 4), SENTINEL, np.float32), "gradBias": np.full(4, SENTINEL, np.float32),
    }  # fmt: skip
    return arguments | changes


def phase_one(call):
    if "self" in call:
        return aclnn.aclnnConvTbcBackwardGetWorkspaceSize(*call.values())
    return aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*call.values())


def phase_two(call, size, executor):
    run = aclnn.aclnnConvTbcBackward if "self" in call else aclnn.aclnnConvolutionBackward
    return run(np.empty(size, np.uint8), size, executor, None)


def run(call):
    size, executor, status = phase_one(call)
    assert status == SUCCESS, aclnn.aclGetRecentErrMsg()
    assert phase_two(call, size, executor) == SUCCESS, aclnn.aclGetRecentErrMsg()


def expected(call, **options):
    c = call
    return convgrad.conv_backward(
        c["gradOutput"], c["input"], c["weight"], c["biasSizes"], stride=c["stride"], padding=c["padding"],
        dilation=c["dilation"], transposed=c["transposed"], output_padding=c["outputPadding"], groups=c["groups"],
        output_mask=c["outputMask"], product="A2", **options,
    )  # fmt: skip


def outputs(call):
    return call["gradInput"], call["gradWeight"], call["gradBias"]


# ---- the calls ---------------------------------------------------------------------------------------------


def test_convolution_backward_computes_the_gradients():
    """Both phases give what the functional call gives, exactly."""
    call = conv_call()
    run(call)
    for got, want in zip(outputs(call), expected(call), strict=True):
        np.testing.assert_array_equal(got, want)


def test_tbc_backward_computes_the_gradients():
    """The second operator likewise."""
    call = tbc_call()
    run(call)
    want = convgrad.conv_tbc_backward(call["self"], call["input"], call["weight"], pad=1)
    for got, array in zip(outputs(call), want, strict=True):
        np.testing.assert_array_equal(got, array)


def test_the_sample_of_the_document():
    """All ones, 2x2x7x7 with a 1x1 window: 2, 98 and 98, as the document's program prints."""
    ones = [np.ones(s, np.float32) for s in ((2, 2, 7, 7), (2, 2, 7, 7), (2, 2, 1, 1))]
    gx, gw, gb = np.zeros((2, 2, 7, 7), np.float32), np.zeros((2, 2, 1, 1), np.float32), np.zeros(2, np.float32)
    size, executor, ret = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        *ones, [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True], 1, gx, gw, gb
    )
    assert ret == SUCCESS and aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == SUCCESS
    assert (gx == 2).all() and (gw == 98).all() and (gb == 98).all()


def test_masked_outputs_are_never_written():
    """An output whose bit is false keeps every bit; a null one is fine."""
    call = conv_call(outputMask=[False, True, False], gradBias=None)
    run(call)
    assert (call["gradInput"] == SENTINEL).all()
    np.testing.assert_array_equal(call["gradWeight"], expected(call).weight)
    nothing = conv_call(outputMask=[False, False, False])
    run(nothing)
    assert all((o == SENTINEL).all() for o in outputs(nothing))


@pytest.mark.parametrize(
    "change",
    [{"input": None}, {"biasSizes": None}, {"stride": [1]}, {"groups": 3}, {"cubeMathType": 4}, {"padding": [256, 0]},
     {"gradInput": None}, {"outputMask": [True, True]}, {"gradWeight": np.zeros((4, 3, 3, 2), np.float32)},
     {"stride": "11"}, {"groups": 1.5}, {"input": object()}, {"outputMask": 7}, {"padding": ["a", "b"]}],
    ids=lambda c: "-".join(c),
)  # fmt: skip
def test_a_refused_call_writes_nothing_and_raises_nothing(change):
    """No executor, no size, a status, a message; outputs are bit for bit what they were."""
    call = conv_call(**change)
    before = [None if o is None else o.copy() for o in outputs(call)]
    size, executor, status = phase_one(call)
    assert (size, executor) == (0, None) and status in (NULLPTR, INVALID, INNER_NULLPTR)
    assert isinstance(status, Status)
    for output, copy in zip(outputs(call), before, strict=True):
        assert output is None or output.tobytes() == copy.tobytes()
    assert aclnn.aclGetRecentErrMsg() is not None


def test_statuses_follow_the_product_and_the_conformance():
    """The same call is accepted, refused by a rule of values, or refused as a null, as the settings say."""
    call = conv_call(biasSizes=None)
    assert phase_one(call)[2] == NULLPTR
    aclnn.set_conformance("runtime")
    assert phase_one(call)[2] == SUCCESS
    aclnn.set_product("Ascend910A")
    assert aclnn.product() == "910" and phase_one(call)[2] == INVALID  # float32 with KEEP_DTYPE
    aclnn.set_product("310B")
    assert phase_one(call)[2] == INVALID


def test_settings_come_from_the_environment(monkeypatch):
    """CONVGRAD_PRODUCT and CONVGRAD_CONFORMANCE apply until a setter says otherwise; a wrong name is a status."""
    assert (aclnn.product(), aclnn.conformance()) == ("A2", "document")
    monkeypatch.setenv("CONVGRAD_PRODUCT", "Ascend910_9391")
    monkeypatch.setenv("CONVGRAD_CONFORMANCE", "runtime")
    assert (aclnn.product(), aclnn.conformance()) == ("A3", "runtime")
    aclnn.set_product("950")
    assert aclnn.product() == "950"
    monkeypatch.setenv("CONVGRAD_CONFORMANCE", "whatever")
    assert phase_one(conv_call())[2] == INVALID
    assert "whatever" in aclnn.aclGetRecentErrMsg()
    with pytest.raises(ValueError, match="unknown product"):
        aclnn.set_product("GPU")
    with pytest.raises(ValueError, match="unknown conformance"):
        aclnn.set_conformance("strict")


# ---- executors ---------------------------------------------------------------------------------------------


def test_an_executor_runs_once():
    """A second run is 361001 and writes nothing."""
    call = conv_call()
    size, executor, _ = phase_one(call)
    assert phase_two(call, size, executor) == SUCCESS
    for output in outputs(call):
        output[...] = SENTINEL
    assert phase_two(call, size, executor) == RUNTIME
    assert all((o == SENTINEL).all() for o in outputs(call))


def test_null_executor_and_missing_workspace():
    """Both are 161001; the second also ends the executor, even a repeatable one."""
    call = conv_call()
    assert aclnn.aclnnConvolutionBackward(None, 0, None, None) == NULLPTR
    _, executor, _ = phase_one(call)
    assert aclnn.aclSetAclOpExecutorRepeatable(executor) == SUCCESS
    assert aclnn.aclnnConvolutionBackward(None, 64, executor, None) == NULLPTR
    assert aclnn.aclnnConvolutionBackward(None, 0, executor, None) == RUNTIME
    assert (call["gradInput"] == SENTINEL).all()


def test_no_workspace_is_needed_when_the_size_passed_is_zero():
    """The passed size is not compared with the one phase 1 gave."""
    call = conv_call()
    _, executor, _ = phase_one(call)
    assert aclnn.aclnnConvolutionBackward(None, 0, executor, None) == SUCCESS
    np.testing.assert_array_equal(call["gradInput"], expected(call).input)


def test_a_repeatable_executor_runs_on_the_data_of_each_moment():
    """It survives phase 2, reads data as late as possible, and ends when destroyed."""
    call = conv_call()
    size, executor, _ = phase_one(call)
    assert aclnn.aclSetAclOpExecutorRepeatable(executor) == SUCCESS
    for seed in (10, 11):
        call["gradOutput"][...] = small_integers(call["gradOutput"].shape, seed)
        assert phase_two(call, size, executor) == SUCCESS
        np.testing.assert_array_equal(call["gradInput"], expected(call).input)
    assert aclnn.aclDestroyAclOpExecutor(executor) == SUCCESS
    assert phase_two(call, size, executor) == RUNTIME
    assert aclnn.aclDestroyAclOpExecutor(executor) == INNER


def test_phase_one_reads_no_data():
    """Data written between the phases is the data that counts."""
    call = conv_call()
    for name in ("gradOutput", "input", "weight"):
        call[name][...] = np.nan
    size, executor, status = phase_one(call)
    assert status == SUCCESS
    for seed, name in enumerate(("gradOutput", "input", "weight")):
        call[name][...] = small_integers(call[name].shape, seed)
    assert phase_two(call, size, executor) == SUCCESS
    for got, want in zip(outputs(call), expected(call), strict=True):
        np.testing.assert_array_equal(got, want)


def test_misused_executors_get_statuses():
    """Nulls 561103, spent or foreign objects 561000, another operator's executor 361001."""
    assert aclnn.aclSetAclOpExecutorRepeatable(None) == INNER_NULLPTR
    assert aclnn.aclDestroyAclOpExecutor(None) == INNER_NULLPTR
    assert aclnn.aclDestroyAclOpExecutor("executor") == INNER
    assert aclnn.aclnnConvolutionBackward(None, 0, "executor", None) == RUNTIME
    call = tbc_call()
    _, executor, _ = phase_one(call)
    assert aclnn.aclnnConvolutionBackward(None, 0, executor, None) == RUNTIME
    assert (call["gradInput"] == SENTINEL).all()
    size, executor, _ = phase_one(conv_call())
    assert aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == SUCCESS
    assert aclnn.aclSetAclOpExecutorRepeatable(executor) == INNER


def test_addresses_can_be_pointed_elsewhere():
    """Inputs and outputs of a repeatable executor move to other memory between runs."""
    call = conv_call()
    size, executor, _ = phase_one(call)
    aclnn.aclSetAclOpExecutorRepeatable(executor)
    assert phase_two(call, size, executor) == SUCCESS
    first = call["gradInput"].copy()
    moved = dict(call, gradOutput=small_integers((2, 4, 5, 5), 20), gradInput=np.zeros((2, 6, 7, 7), np.float32))
    assert aclnn.aclSetInputTensorAddr(executor, 0, call["gradOutput"], moved["gradOutput"]) == SUCCESS
    assert aclnn.aclSetOutputTensorAddr(executor, 0, call["gradInput"], moved["gradInput"]) == SUCCESS
    assert phase_two(call, size, executor) == SUCCESS
    np.testing.assert_array_equal(moved["gradInput"], expected(moved).input)
    np.testing.assert_array_equal(call["gradInput"], first)
    assert aclnn.aclSetInputTensorAddr(executor, 0, np.zeros(3), moved["gradOutput"]) == INVALID
    assert aclnn.aclSetInputTensorAddr(executor, 0, call["input"], np.zeros(3)) == INVALID
    assert aclnn.aclSetInputTensorAddr(None, 0, call["input"], call["input"]) == INNER_NULLPTR
    assert aclnn.aclSetInputTensorAddr(executor, 0, None, call["input"]) == INNER_NULLPTR
    aclnn.aclDestroyAclOpExecutor(executor)
    assert aclnn.aclSetInputTensorAddr(executor, 0, call["input"], call["input"]) == INNER


def test_phases_may_run_on_different_threads():
    """Phase 1 here, phase 2 there; a race for one executor has one winner."""
    call = conv_call()
    size, executor, _ = phase_one(call)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: int(phase_two(call, size, executor)), range(16)))
    assert sorted(statuses) == [SUCCESS] + [RUNTIME] * 15
    np.testing.assert_array_equal(call["gradWeight"], expected(call).weight)


# ---- tensors -----------------------------------------------------------------------------------------------


def test_strided_inputs_and_outputs():
    """Any strides, either way: the elements between those of an output stay untouched."""
    call = conv_call()
    wide = np.full((2, 6, 7, 14), SENTINEL, np.float32)
    strided = dict(
        call,
        input=np.asfortranarray(call["input"]),
        gradOutput=call["gradOutput"].transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2),
        weight=call["weight"][::-1].copy()[::-1],
        gradInput=wide[..., ::2],
    )
    run(strided)
    np.testing.assert_array_equal(wide[..., ::2], expected(call).input)
    assert (wide[..., 1::2] == SENTINEL).all()


def test_created_tensors_have_shape_strides_offset_and_storage():
    """A view into larger storage, as aclCreateTensor describes it, read and written in place."""
    call = conv_call()
    storage = np.full(700, SENTINEL, np.float32)
    source = np.zeros(300, np.float32)
    source[9:209] = call["gradOutput"].ravel()
    call["gradOutput"] = aclnn.aclCreateTensor((2, 4, 5, 5), 0, None, 9, "NCHW", (300,), source)
    call["gradInput"] = aclnn.aclCreateTensor((2, 6, 7, 7), "float32", (294, 49, 7, 1), 50, 0, (700,), storage)
    run(call)
    want = expected(conv_call()).input
    np.testing.assert_array_equal(storage[50:638].reshape(2, 6, 7, 7), want)
    assert (storage[:50] == SENTINEL).all() and (storage[638:] == SENTINEL).all()
    assert aclnn.aclDestroyTensor(call["gradInput"]) == SUCCESS


def test_a_created_tensor_can_be_re_pointed():
    """The address goes into the tensor itself; memory too small for its view is refused."""
    call = conv_call()
    data = call["gradOutput"]
    tensor = aclnn.aclCreateTensor((2, 4, 5, 5), 0, None, 0, "NCHW", None, np.zeros(200, np.float32))
    call["gradOutput"] = tensor
    size, executor, _ = phase_one(call)
    assert aclnn.aclSetInputTensorAddr(executor, 0, tensor, np.zeros(199, np.float32)) == INVALID
    assert aclnn.aclSetInputTensorAddr(executor, 0, tensor, data) == SUCCESS
    assert phase_two(call, size, executor) == SUCCESS
    np.testing.assert_array_equal(call["gradInput"], expected(conv_call()).input)


@pytest.mark.parametrize(
    ("view", "stride", "offset", "storage"),
    [((2, 3), None, 1, 6), ((2, 3), (4, 1), 0, 6), ((2, 3), (-3, 1), 0, 6), ((2, 3), (3,), 0, 6),
     ((2, -3), None, 0, 6)],
)
def test_a_view_that_leaves_its_storage_is_no_tensor(view, stride, offset, storage):
    """aclCreateTensor answers null with a message, and never reads outside."""
    assert aclnn.aclCreateTensor(view, 0, stride, offset, "ND", None, np.zeros(storage, np.float32)) is None
    assert "aclCreateTensor" in aclnn.aclGetRecentErrMsg()


def test_negative_strides_inside_the_storage_are_fine():
    """A reversed view reads backwards."""
    tensor = aclnn.aclCreateTensor((2, 3), 0, (-3, -1), 5, "ND", None, np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(tensor.array(), [[5, 4, 3], [2, 1, 0]])


def test_formats_are_taken_at_their_word():
    """A Tensor labelled ND is refused with four axes; arrays and unlabelled Tensors are channels first by rank."""
    call = conv_call()
    assert phase_one(dict(call, input=Tensor(call["input"])))[2] == SUCCESS
    assert phase_one(dict(call, input=Tensor(call["input"], format="NCHW")))[2] == SUCCESS
    for layout in ("ND", "NHWC"):
        assert phase_one(dict(call, input=Tensor(call["input"], format=layout)))[2] == INVALID
    assert "format of input" in aclnn.aclGetRecentErrMsg()


def test_integer_arrays_are_refused_as_a_dtype():
    """int32 data is no exception, it is 161002."""
    assert phase_one(conv_call(input=np.zeros((2, 6, 7, 7), np.int32)))[2] == INVALID
    assert "int32" in aclnn.aclGetRecentErrMsg()


def test_an_output_that_is_also_an_input():
    """grad_input over input: the result is as if they were apart."""
    call = conv_call()
    want = expected(call)
    call["gradInput"] = call["input"]
    run(call)
    np.testing.assert_array_equal(call["input"], want.input)
    np.testing.assert_array_equal(call["gradWeight"], want.weight)


def test_hifloat8_runs_where_the_contract_takes_it():
    """950, transposed, grad_input wanted: 8-bit tensors in and out."""
    aclnn.set_product("950")
    shapes = ((1, 2, 5), (1, 3, 5), (3, 2, 1))
    go, x, w = (Tensor(small_integers(s, i), "hifloat8", "NCL") for i, s in enumerate(shapes))
    gx = Tensor(np.zeros((1, 3, 5)), "hifloat8", "NCL")
    size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        go, x, w, [2], [1], [0], [1], True, [0], 1, [True, False, False], 0, gx, None, None
    )
    assert status == SUCCESS, aclnn.aclGetRecentErrMsg()
    assert aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == SUCCESS
    exact = np.einsum("ncl,oc->nol", go.values(), w.values()[..., 0])
    np.testing.assert_array_equal(gx.values(), Tensor(exact, "hifloat8").values())


def test_an_eight_bit_grad_weight_of_tbc_on_950():
    """Document conformance: the float32 sum is rounded once to the 8-bit dtype."""
    aclnn.set_product("950")
    gw = np.zeros((4, 3, 4), ml_dtypes.float8_e4m3fn)
    call = tbc_call(gradWeight=gw)
    run(call)
    exact = convgrad.conv_tbc_backward(call["self"], call["input"], call["weight"], pad=1).weight
    np.testing.assert_array_equal(gw, exact.astype(ml_dtypes.float8_e4m3fn))
    aclnn.set_conformance("runtime")
    assert phase_one(call)[2] == INVALID


def test_outputs_must_be_memory_that_can_be_written():
    """A read-only array or a list is refused in phase 1, before anything runs."""
    read_only = np.zeros((2, 6, 7, 7), np.float32)
    read_only.flags.writeable = False
    assert phase_one(conv_call(gradInput=read_only))[2] == INVALID
    assert phase_one(conv_call(gradBias=[0.0] * 4))[2] == INVALID
    assert "gradBias cannot be written" in aclnn.aclGetRecentErrMsg().splitlines()[0]


def test_foreign_byte_order_and_unaligned_memory():
    """Big-endian and unaligned arrays are read and written in place."""
    call = conv_call()
    want = expected(call)
    raw = np.zeros(call["gradInput"].nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(2, 6, 7, 7)
    call |= {"input": call["input"].astype(">f4"), "gradInput": unaligned, "gradBias": np.zeros(4, ">f4")}
    run(call)
    np.testing.assert_array_equal(unaligned, want.input)
    np.testing.assert_array_equal(call["gradBias"], want.bias)


def test_torch_tensors_are_tensors():
    """Anything with DLPack memory is read and written without a copy."""
    torch = pytest.importorskip("torch")
    if not np.from_dlpack(torch.zeros(1)).flags.writeable:
        pytest.skip("this NumPy imports foreign memory read-only")
    call = conv_call()
    want = expected(call)
    names = ("gradOutput", "input", "weight", "gradInput", "gradWeight", "gradBias")
    run(call | {name: torch.from_numpy(call[name]) for name in names})
    np.testing.assert_array_equal(call["gradInput"], want.input)


# ---- empty tensors -----------------------------------------------------------------------------------------


def test_an_empty_batch_gives_zeros():
    """gradWeight and gradBias are written with zeros; gradInput has nothing to write."""
    call = conv_call(gradOutput=np.zeros((0, 4, 5, 5), np.float32), input=np.zeros((0, 6, 7, 7), np.float32),
                     gradInput=np.zeros((0, 6, 7, 7), np.float32))  # fmt: skip
    run(call)
    assert (call["gradWeight"] == 0).all() and (call["gradBias"] == 0).all()


def test_the_empty_path_ignores_what_the_contract_does_not_check():
    """In the runtime gradOutput (100, 100, 0, 1, 1) against input (0, 1, 0, 1, 1) is a success."""
    arguments = conv_call(
        gradOutput=np.zeros((100, 100, 0, 1, 1), np.float32), input=np.zeros((0, 1, 0, 1, 1), np.float32),
        weight=np.zeros((1, 1, 0, 1, 1), np.float32), biasSizes=[100], stride=[1] * 3, padding=[0] * 3,
        dilation=[1] * 3, outputPadding=[0] * 3, groups=1, gradInput=np.zeros((0, 1, 0, 1, 1), np.float32),
        gradWeight=np.zeros((1, 1, 0, 1, 1), np.float32), gradBias=np.full(100, SENTINEL, np.float32),
    )  # fmt: skip
    aclnn.set_conformance("runtime")
    try:
        run(arguments)
    finally:
        aclnn.set_conformance(None)
    assert (arguments["gradBias"] == 0).all()


def test_zero_channels_still_sum_the_bias():
    """Cin = 0 with a full gradOutput: gradBias is its sum."""
    call = conv_call(input=np.zeros((2, 0, 7, 7), np.float32), weight=np.zeros((4, 0, 3, 3), np.float32), groups=1,
                     gradInput=np.zeros((2, 0, 7, 7), np.float32),
                     gradWeight=np.zeros((4, 0, 3, 3), np.float32))  # fmt: skip
    run(call)
    assert (call["gradBias"] == call["gradOutput"].sum(axis=(0, 2, 3))).all() and call["gradBias"].any()


def test_an_empty_window_of_tbc_still_sums_the_bias():
    """K = 0: gradInput is zero and gradBias the true sum of self."""
    call = tbc_call(self=small_integers((9, 2, 4), 1), weight=np.zeros((0, 3, 4), np.float32),
                    gradWeight=np.zeros((0, 3, 4), np.float32))  # fmt: skip
    run(call)
    assert (call["gradInput"] == 0).all()
    np.testing.assert_array_equal(call["gradBias"], call["self"].sum((0, 1)))


def test_an_empty_self_of_tbc_gives_zeros():
    """Tout = 0 with consistent shapes: success and zeros everywhere."""
    call = tbc_call(self=np.zeros((0, 2, 4), np.float32), input=np.zeros((1, 2, 3), np.float32), pad=1,
                    gradInput=np.full((1, 2, 3), SENTINEL, np.float32))  # fmt: skip
    run(call)
    assert all((o == 0).all() for o in outputs(call))


# ---- error text --------------------------------------------------------------------------------------------


def test_error_text_has_the_vendors_form_and_our_sentence():
    """PID, time, class by the status's first digit, the sentence, the rule, a line that reproduces it."""
    phase_one(conv_call(groups=0))
    text = aclnn.aclGetRecentErrMsg()
    assert text.startswith(f"[PID:{os.getpid()}] 20") and text.endswith("]\n")
    assert "AclNN_Parameter_Error(EZ1001): aclnnConvolutionBackward: groups must be at least 1; got 0" in text
    line = text.rpartition("reproduce: ")[2].rstrip("]\n")
    assert convgrad.check(convgrad.Request.parse(line)).rule_id == "groups.positive"
    assert aclnn.aclGetRecentErrMsg() is None


def test_error_classes_follow_the_first_digit():
    """161xxx EZ1001, 361xxx EZ9903, 561xxx EZ9999; newest first."""
    phase_one(conv_call(padding=[256, 256], gradOutput=np.zeros((2, 4, 517, 517), np.float32)))
    call = conv_call()
    size, executor, _ = phase_one(call)
    phase_two(call, size, executor)
    phase_two(call, size, executor)
    newest, oldest = aclnn.aclGetRecentErrMsg().splitlines()
    assert "AclNN_Runtime_Error(EZ9903)" in newest and "AclNN_Inner_Error(EZ9999)" in oldest


def test_error_text_is_kept_per_thread():
    """A message of one thread is not another's."""
    phase_one(conv_call(groups=0))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(aclnn.aclGetRecentErrMsg()))
    thread.start()
    thread.join()
    assert seen == [None] and aclnn.aclGetRecentErrMsg() is not None


@pytest.fixture
def level_of_the_process():
    """No parameter set before, and none for whoever comes next."""
    settings._parameters.clear()
    yield
    settings._parameters.clear()


def test_the_deterministic_switch_is_a_level(level_of_the_process):
    """0 to 3 are remembered, other values refused; phase 1 reads it, and level 3 sums by another tree."""
    option = aclnn.ACL_OPT_DETERMINISTIC
    assert aclnn.aclrtCtxGetSysParamOpt(option) == (0, 107021)
    weights = []
    for value in (0, 1, 2, 3):
        assert aclnn.aclrtCtxSetSysParamOpt(option, value) == 0
        assert aclnn.aclrtCtxGetSysParamOpt(option) == aclnn.aclrtGetSysParamOpt(option) == (value, 0)
        numbers = np.random.default_rng(0)
        call = conv_call(
            gradOutput=numbers.standard_normal((9, 4, 7, 7)).astype("f4"), biasSizes=[4], padding=[1, 1],
            groups=1, input=numbers.standard_normal((9, 3, 7, 7)).astype("f4"), weight=np.ones((4, 3, 3, 3), "f4"),
            stride=[1, 1], gradInput=np.empty((9, 3, 7, 7), "f4"), gradWeight=np.empty((4, 3, 3, 3), "f4"),
            gradBias=np.empty(4, "f4"),
        )
        size, executor, status = phase_one(call)
        assert status == 0
        assert aclnn.aclrtSetSysParamOpt(option, 0) == 0  # phase 2 does not read it
        assert aclnn.aclnnConvolutionBackward(b"", size, executor, None) == 0
        weights.append(call["gradWeight"])
        want = convgrad.conv_backward(
            call["gradOutput"], call["input"], call["weight"], padding=1, product="A2", deterministic=value
        )
        assert np.array_equal(weights[-1], want.weight) and np.array_equal(call["gradBias"], want.bias)
    assert all(np.array_equal(found, weights[0]) for found in weights[:3])
    assert not np.array_equal(weights[3], weights[0])
    for wrong in (4, -1, 2**70, "1", 1.5, None):
        assert aclnn.aclrtSetSysParamOpt(option, wrong) == 100000


def test_every_system_parameter_has_its_values(level_of_the_process):
    """The rows, one by one; numbers that no row has are refused by every function."""
    for row in determinism.SYSTEM_PARAMETERS:
        for value in range(row.largest + 1):
            assert aclnn.aclrtSetSysParamOpt(row.number, value) == 0
            assert aclnn.aclrtGetSysParamOpt(row.number) == (value, 0)
        assert aclnn.aclrtCtxSetSysParamOpt(row.number, row.largest + 1) == 100000
        assert aclnn.aclrtCtxGetSysParamOpt(row.number) == (row.largest, 0)
    for number in (-1, len(determinism.SYSTEM_PARAMETERS), "0.5"):
        assert aclnn.aclrtSetSysParamOpt(number, 0) == 100000
        assert aclnn.aclrtGetSysParamOpt(number) == aclnn.aclrtCtxGetSysParamOpt(number) == (0, 100000)


def test_the_leftover_check_of_level_1_is_unreachable():
    """Level 1, groups, five axes, a weight gradient wanted: products that are asked it refuse five axes before."""
    for product in products.KEYS:
        request = Request.parse(f"conv n2 c4>4 i3x3x3 k3x3x3 p1 g2 fp16 det=1 on={product}")
        verdict = check(request)
        assert verdict == replace(check(replace(request, deterministic=0)), request=request)
        asked = product != "cpu" and product not in ("A2", "A3", "950")
        assert not (asked and verdict.ok), (product, verdict)


# ---- dtypes no operator computes in, names of parameters --------------------------------------------------------

OTHER_DTYPES = {"int32": (3, "ACL_INT32", np.int32), "complex64": (16, "ACL_COMPLEX64", np.complex64),
                "bool": (12, "ACL_BOOL", np.bool_), "int8": (2, "ACL_INT8", np.int8),
                "uint1": (30, "ACL_UINT1", np.uint8), "float4_e2m1": (40, "ACL_FLOAT4_E2M1", np.uint8),
                "undefined": (-1, "ACL_DT_UNDEFINED", np.uint8)}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_DTYPES)
def test_a_tensor_of_any_dtype_is_made_and_phase_one_refuses_it(name):
    """By number, by the vendor's name and by ours; whichever tensor it is, the answer is 161002 and says the dtype."""
    code, vendor, storage = OTHER_DTYPES[name]
    for dtype in (code, vendor, name):
        for parameter in ("gradOutput", "input", "weight", "gradInput", "gradWeight", "gradBias"):
            call = conv_call()
            data = np.zeros(call[parameter].size, storage)
            layout = "ND" if parameter == "gradBias" else "NCHW"
            call[parameter] = aclnn.aclCreateTensor(call[parameter].shape, dtype, None, 0, layout, None, data)
            assert call[parameter].dtype == name
            _, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*call.values())
            assert (executor, status) == (None, Status.PARAM_INVALID)
            assert f"got {name} [rule" in aclnn.aclGetRecentErrMsg()


def test_numbers_the_vendor_has_not_are_dtypes_and_formats_too():
    """Code 99 is refused by phase 1, with a line that reads back."""
    call = conv_call()
    data = np.zeros(call["input"].size, np.uint8)
    call["input"] = aclnn.aclCreateTensor(call["input"].shape, 99, None, 0, 98, None, data)
    assert aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*call.values())[2] == Status.PARAM_INVALID
    text = aclnn.aclGetRecentErrMsg()
    assert "got code99" in text
    line = text.partition("reproduce: ")[2].rstrip("]\n")
    assert convgrad.check(convgrad.Request.parse(line)).rule_id == "input.dtype.a2"


def test_messages_of_tbc_name_the_parameter_self():
    """What the functional door calls grad_output is `self` in the vendor's call."""
    for change, words in (({"self": None}, "self must be given; got null"),
                          ({"self": np.ones((9, 9, 9), np.float32)}, "shape of self must equal [T_out, B, C_out]"),
                          ({"self": np.ones((5, 2, 4), np.float64)}, "dtype of self must be one of"),
                          ({"input": np.ones((7, 2, 3), np.float16)}, "dtype of input must equal dtype of self"),
                          ({"self": object()}, "dtype of self must be one of")):  # fmt: skip
        call = tbc_call(**change)
        assert aclnn.aclnnConvTbcBackwardGetWorkspaceSize(*call.values())[2] != 0
        text = aclnn.aclGetRecentErrMsg()
        assert words in text and "grad_output" not in text.partition("[rule")[0], text


def test_one_array_in_two_places_is_pointed_elsewhere_in_both():
    """grad_output and input are the same object: a new address counts for both of them."""
    same, weight = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 1), np.float32)
    grad_weight = np.zeros_like(weight)
    size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        same, same, weight, [1], [1], [0], [1], False, [0], 1, [False, True, False], 0, None, grad_weight, None
    )
    assert status == 0
    assert aclnn.aclSetInputTensorAddr(executor, 0, same, np.full((1, 1, 4), 3, np.float32)) == 0
    assert aclnn.aclnnConvolutionBackward(np.empty(max(size, 1), np.uint8), size, executor, None) == 0
    assert grad_weight.item() == 4 * 3 * 3


def test_a_strided_output_is_accepted_with_an_advice():
    """It is written where its strides say, and the plan notes that no document promises it."""
    call = conv_call()
    shape = call["gradWeight"].shape
    storage = np.zeros(2 * call["gradWeight"].size, np.float32)
    strides = [2 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    want = expected(call)
    call["gradWeight"] = aclnn.aclCreateTensor(shape, "ACL_FLOAT", strides, 0, "NCHW", None, storage)
    size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*call.values())
    assert status == 0
    assert executor.plan.advice == (
        "gradWeight is not contiguous: it is written where its strides say, which no document promises",
    )
    assert aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == 0
    assert (storage[::2].reshape(shape) == want.weight).all() and not storage[1::2].any()
    _, executor, _ = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*conv_call().values())
    assert executor.plan.advice == ()


def test_an_output_pointed_to_read_only_memory_is_not_written():
    """Phase 1 cannot know it: phase 2 answers a status, and the memory is as it was."""
    call = conv_call()
    size, executor, _ = phase_one(call)
    sealed = np.full((2, 6, 7, 7), 9, np.float32)
    sealed.flags.writeable = False
    assert aclnn.aclSetOutputTensorAddr(executor, 0, call["gradInput"], sealed) == SUCCESS
    assert phase_two(call, size, executor) != SUCCESS
    assert (sealed == 9).all() and "read-only" in aclnn.aclGetRecentErrMsg()
