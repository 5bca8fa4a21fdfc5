"""Values arrive as their owner means them: negative bits, masks, and objects whose protocols are broken."""

import dask.array as da
import numpy as np
import pytest
import torch

import convgrad
import convgrad.dask
import convgrad.torch
from convgrad import ConvGradError, Tensor, aclnn
from convgrad.core.status import Status

NEGATIVE = torch.full((1, 1, 2, 2), 1j).conj().imag  # -1 everywhere, over memory that holds 1
ONES = torch.ones(1, 1, 2, 2)
POINT = torch.ones(1, 1, 1, 1)
MASKED = np.ma.array(np.ones((1, 1, 2, 2), np.float32), mask=[[[[True, False], [False, False]]]])
DOORS = (convgrad.conv_backward, convgrad.dask.conv_backward, convgrad.torch.conv_backward)


def computed(gradient):
    return np.asarray(gradient.compute() if isinstance(gradient, da.Array) else gradient)


@pytest.mark.parametrize("door", DOORS, ids=("arrays", "dask", "torch"))
def test_a_negative_bit_is_resolved(door):
    """A tensor that PyTorch shows negated is read negated, as any operand and through every door."""
    assert NEGATIVE.is_neg() and NEGATIVE.sum() == -4
    assert computed(door(NEGATIVE, ONES, POINT).bias) == -4
    assert computed(door(ONES, NEGATIVE, POINT).weight) == -4
    assert (computed(door(ONES, ONES, NEGATIVE[..., :1, :1]).input) == -1).all()


def test_a_negative_bit_is_resolved_elsewhere():
    """Forward passes, time-batch-channel calls, `Tensor`, the lazy `Tensor` and the two-phase call read it too."""
    assert convgrad.convolution(NEGATIVE, POINT).sum() == convgrad.torch.convolution(NEGATIVE, POINT).sum() == -4
    flat, one = NEGATIVE[0], POINT[0]  # (T, B, C) = (1, 2, 2)
    assert (convgrad.conv_tbc_backward(flat, flat.abs(), one.expand(1, 2, 2)).bias == -2).all()
    assert Tensor(NEGATIVE).values().sum() == convgrad.dask.Tensor(NEGATIVE).compute().values().sum() == -4
    bias = np.zeros(1, np.float32)
    assert two_phase(gradOutput=NEGATIVE, gradBias=bias) == 0 and bias == -4


def test_a_negative_bit_cannot_be_written_through():
    """Results would land in a copy, or negated: such an output is refused, and its memory stays as it was."""
    target = torch.full((1, 1, 2, 2), 1j).conj().imag
    with pytest.raises(ConvGradError, match=r"out\[0\] has its negative bit"):
        convgrad.torch.conv_backward(ONES, ONES, POINT, out=(target, None, None))
    assert two_phase(gradInput=target) == Status.PARAM_INVALID
    assert "gradInput" in (aclnn.aclGetRecentErrMsg() or "")
    assert aclnn.aclCreateTensor([4], "fp32", None, 0, "ND", None, target) is None
    assert "negative bit" in (aclnn.aclGetRecentErrMsg() or "") and (target == -1).all()


def two_phase(**changes):
    call = {
        "gradOutput": ONES, "input": ONES, "weight": POINT, "biasSizes": [1], "stride": [1, 1], "padding": [0, 0],
        "dilation": [1, 1], "transposed": False, "outputPadding": [0, 0], "groups": 1, "outputMask": [True] * 3,
        "cubeMathType": 0, "gradInput": np.zeros((1, 1, 2, 2), np.float32),
        "gradWeight": np.zeros((1, 1, 1, 1), np.float32), "gradBias": np.zeros(1, np.float32), **changes,
    }  # fmt: skip
    size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(*call.values())
    return status or aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None)


def test_a_masked_element_is_refused():
    """A mask is never ignored: as an operand, in a list, in a chunk, in a `Tensor`, under a result."""
    calls = (
        lambda: convgrad.conv_backward(MASKED, ONES, POINT),
        lambda: convgrad.conv_backward([MASKED[0]], ONES, POINT),
        lambda: convgrad.dask.conv_backward(MASKED, ONES, POINT),
        lambda: convgrad.dask.conv_backward(da.from_array(MASKED, asarray=False), ONES, POINT).bias.compute(),
        lambda: convgrad.conv_backward(ONES, ONES, POINT, out=(MASKED.copy(), None, None)),
        lambda: Tensor(MASKED),
    )
    for call in calls:
        with pytest.raises(ConvGradError, match="1 of its elements are masked"):
            call()
    assert two_phase(input=MASKED) == Status.PARAM_INVALID and "input" in (aclnn.aclGetRecentErrMsg() or "")


def test_a_mask_that_hides_nothing_is_no_obstacle():
    """A masked array without a masked element holds plain values."""
    plain = np.ma.array(np.full((1, 1, 2, 2), 3, np.float32), mask=False)
    assert convgrad.conv_backward(plain, ONES, POINT).bias == 12


class Raising:
    """An object whose protocols raise what they like."""

    def __init__(self, *names):
        self.names = names

    def __getattribute__(self, name):
        if name in object.__getattribute__(self, "names"):
            raise KeyError(name)
        return object.__getattribute__(self, name)


class BrokenExport:
    def __dlpack__(self, **options):
        raise ZeroDivisionError

    def __dlpack_device__(self):
        return 1, 0


class NoCapsule(BrokenExport):
    def __dlpack__(self, **options):
        return object()


class NoDevice(BrokenExport):
    def __dlpack_device__(self):
        return None


class BrokenArray:
    def __array__(self, *arguments, **options):
        raise ZeroDivisionError


class NoArray:
    def __array__(self, *arguments, **options):
        return 5


class BrokenInterface:
    __array_interface__ = property(lambda self: {"shape": (2,), "version": 3})


class OnDevice:
    __cuda_array_interface__ = property(lambda self: {"shape": (1, 1, 2, 2), "typestr": "<f4", "version": 3})


UNREADABLE = {
    "conj": lambda: torch.full((1, 1, 2, 2), 1j).conj(), "sparse": lambda: ONES.to_sparse(),
    "csr": lambda: torch.eye(2).to_sparse_csr(), "opaque": lambda: ONES.to_mkldnn(), "meta": lambda: ONES.to("meta"),
    "quantized": lambda: torch.quantize_per_tensor(ONES, 1.0, 0, torch.quint8),
    "nested": lambda: torch.nested.nested_tensor([ONES[0]]),
    "jagged": lambda: torch.nested.nested_tensor([ONES[0]], layout=torch.jagged),
    "export": BrokenExport, "capsule": NoCapsule, "device": NoDevice, "array": BrokenArray, "no array": NoArray,
    "interface": BrokenInterface, "on device": OnDevice, "dlpack attribute": lambda: Raising("__dlpack__"),
    "array attribute": lambda: Raising("__array__"), "ragged": lambda: [[1.0], [1.0, 2.0]],
}  # fmt: skip


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_read_is_refused_in_words(kind):
    """Every door names the argument and raises ConvGradError, whatever the object raised; two-phase calls a status."""
    for door in DOORS:
        with pytest.raises(ConvGradError, match="weight"):
            door(ONES, ONES, UNREADABLE[kind]())
    with pytest.raises(ConvGradError, match="input"):
        convgrad.convolution(UNREADABLE[kind](), POINT)
    with pytest.raises(ConvGradError, match="data"):
        Tensor(UNREADABLE[kind]())
    assert two_phase(weight=UNREADABLE[kind]()) == Status.PARAM_INVALID
    assert "weight" in (aclnn.aclGetRecentErrMsg() or "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupts_and_exhaustion_pass_through(error):
    """Neither a key press nor a lack of memory is turned into a refusal."""
    class Stops:
        def __array__(self, *arguments, **options):
            raise error

    with pytest.raises(error):
        convgrad.conv_backward(Stops(), ONES, POINT)


def test_read_only_memory_is_never_an_output_of_the_two_phase_call():
    """Behind a `Tensor`, an `aclTensor` or a re-pointed address: a status, and not a byte is written."""
    frozen = np.zeros((1, 1, 2, 2), np.float32)
    frozen.flags.writeable = False
    assert two_phase(gradInput=Tensor(frozen)) == Status.PARAM_INVALID
    held = aclnn.aclCreateTensor([1, 1, 2, 2], "fp32", None, 0, "NCHW", None, frozen)
    assert two_phase(gradInput=held) == Status.PARAM_INVALID and (frozen == 0).all()
    fine = np.ones((1, 1, 2, 2), np.float32)
    held = aclnn.aclCreateTensor([1, 1, 2, 2], "fp32", None, 0, "NCHW", None, fine)
    size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        ONES, ONES, POINT, [1], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False], 0, held, None, None
    )
    assert status == 0 and aclnn.aclSetOutputTensorAddr(executor, 0, held, frozen) == 0
    assert aclnn.aclnnConvolutionBackward(np.empty(size, np.uint8), size, executor, None) == Status.RUNTIME_ERROR
    assert (frozen == 0).all() and (fine == 1).all()
