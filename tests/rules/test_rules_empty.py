"""Empty tensors: recent products ask for the law and the limits (the runtime less), older ones refuse, cpu the law."""

import numpy as np
import pytest

import convgrad
from convgrad.core.request import Request
from convgrad.rules.check import check

NULL, INVALID, INNER = 161001, 161002, 561103
RECENT, OLDER = ("950", "A3", "A2"), ("910", "310P")
CONV, TCONV = "conv n0 c4>4 i6x6 k3 fp16", "tconv n0 c4>4 i6x6 k3 fp16"

ACCEPTED = [
    CONV, TCONV, "conv n2 c0>4 i6x6 k3 fp16", "conv n0 c4>4 i0x6 k3 p2 fp16", "tconv n0 c4>4 i0x6 k3 fp16",
    "conv n0 c4>4 i6x6 k0x3 fp16", "tconv n0 c4>0 i6x6 k3 fp16", "tconv n0 c4>4 i2x2 k0x3 s2x1 fp16",
    "conv n2 c0>4 i0x6 k3 p2 fp16", f"{CONV} padding=0x0x0x0", f"{CONV} want=-", f"{CONV} bias_sizes=7 want=xw",
]
RUNTIME_ONLY = [
    "conv n1 c4>4 i0x6 k3 p2 fp16 want=wb",  # a zero height alone, grad_input not wanted
    "conv n1 c4>4 i6x6 k0x3 go=1x4x9x9 fp16 want=w",  # an empty weight
    "conv n0 c1>1 i0x1x1 k0x1x1 fp16 go=100x100x0x1x1 bias_sizes=100 gb=100",
    f"{TCONV} go=0x7x8x8",  # no batch: the channels of grad_output are not looked at
    f"{CONV} go=5x4x1x1", f"{CONV} gb=9",  # nor are batch and size, nor the shape of grad_bias
    "conv n2 c4>0 i6x6 k3 fp16 want=w", "conv n0 c4>0 i6x6 k3 fp16 want=w",
    "conv n0 c2>4 i5x5 k3x3 go=1x4x3x3", "tconv n0 c2>4 i5x5 k3x3 go=0x5x9x9 want=xw",
    "conv n2 c2>4 i0x5 k1x1 p1x0 want=wb", "conv n2 c2>4 i5x5 k0x1 o5x5 want=b",
]  # fmt: skip
REFUSED = [
    (f"{CONV} bias_sizes=5", INVALID, INVALID), (f"{CONV} bias_sizes=4x4", INVALID, INVALID),
    (f"{CONV} bias_sizes=null", NULL, INVALID), (f"{CONV} bias_sizes=null want=xw", NULL, 0),
    (f"{CONV} bias_sizes=7 want=xw", 0, 0), (f"{TCONV} go=0x7x8x8 bias_sizes=7", INVALID, INVALID),
    ("conv n1 c4>4 i0x6 k3 p2 fp16 want=x", INVALID, INVALID),
    ("conv n1 c4>4 i6x6 k0x3 go=1x4x9x9 fp16", INVALID, INVALID),
    (f"{CONV} groups=3", INVALID, INVALID), ("conv n0 c6>4 i6x6 k3 g3 fp16", INVALID, INVALID),
    (f"{CONV} x=0x5x6x6 gx=0x5x6x6", INVALID, INVALID), ("tconv n1 c0>4 i6x6 k3 fp16", INVALID, INVALID),
    (f"{TCONV} x=0x5x6x6 gx=0x5x6x6", INVALID, INVALID),
    ("tconv n1 c4>4 i6x6 k0x3 go=1x3x5x8 fp16 want=w", INVALID, INVALID),
    ("conv n0 c4>4 i2x2 k3 fp16", INVALID, INVALID), ("conv n0 c4>4 i2x2 k3 p0x1x1x1 fp16", 0, 0),
    ("conv n0 c4>4 i2x2 k3 p0x0x1x1 fp16", INVALID, INVALID), (f"{CONV} stride=1", INVALID, INVALID),
    (f"{CONV} gx=0x4x6x5", INVALID, INVALID), (f"{CONV} gw=4x4x3x2", INVALID, INVALID),
    ("conv n1 c4>4 i6x6 k3 go=1x4x0x4 fp16", INVALID, INVALID), (f"{CONV} x=0x4x6 gx=0x4x6", INVALID, INVALID),
]  # fmt: skip


@pytest.mark.parametrize("line", ACCEPTED)
@pytest.mark.parametrize("conformance", ("document", "runtime"))
def test_empty_calls_that_obey_the_law_are_accepted(line: str, conformance: str) -> None:
    """No batch, no channels, and with them no size: on each product that takes empty tensors."""
    for product in RECENT:
        verdict = check(Request.parse(f"{line} on={product} as={conformance}"))
        assert verdict.ok, f"{product}: {verdict.message}"


@pytest.mark.parametrize("line", RUNTIME_ONLY)
def test_what_the_empty_path_does_not_look_at_is_asked_by_the_document(line: str) -> None:
    """The runtime accepts, the document answers 161002, on each product that takes empty tensors."""
    for product in RECENT:
        assert check(Request.parse(f"{line} on={product} as=runtime")).ok
        assert check(Request.parse(f"{line} on={product}")).status == INVALID


def test_limits_of_empty_calls() -> None:
    """A window above 255 is 161002, a stride above 63 561103, whatever the batch; the runtime looks at neither."""
    for line, status in (("conv n0 c2>4 i300x300 k256x256", INVALID), ("conv n0 c2>4 i5x5x5 k1x1x1 s64", INNER)):
        assert check(Request.parse(f"{line} on=A2")).status == status
        assert check(Request.parse(f"{line} on=A2 as=runtime")).ok


def test_messages_name_the_tensor_that_is_wrong() -> None:
    """A weight without height is told about the weight, a missing axis about ranks."""
    verdict = check(Request.parse("conv n2 c2>4 i5x5 k0x1 o6x5 on=A2"))
    assert verdict.message == "shape of weight must be at least 1 when input is not empty; got [4, 2, 0, 1]"
    verdict = check(Request.parse("conv n1 c2>4 i6x6 k3 go=1x4x4/float32/NCL on=A2"))
    assert verdict.message == "rank of input must equal rank of grad_output 3; got 4"


EMPTY_WITH_GRAD_OUTPUT = [  # grad_output, input, weight, other arguments
    ((2, 4, 6, 5), (2, 2, 5, 5), (4, 2, 0, 1), {}),
    ((2, 4, 5, 5), (2, 0, 5, 5), (4, 0, 1, 1), {}),
    ((2, 6, 6, 5), (2, 4, 5, 5), (4, 3, 0, 1), {"transposed": True, "groups": 2}),
    ((2, 4, 6, 5), (2, 0, 5, 5), (4, 0, 0, 1), {"product": "A2"}),
    ((2, 4, 6, 5), (2, 2, 5, 5), (4, 2, 0, 1), {"product": "A2", "conformance": "runtime"}),
]


@pytest.mark.parametrize(("grad_output", "input_", "weight", "rest"), EMPTY_WITH_GRAD_OUTPUT)
def test_grad_bias_of_an_empty_call_is_the_sum_of_grad_output(grad_output, input_, weight, rest) -> None:
    """An empty input or weight makes grad_weight zeros, and grad_bias what it always is."""
    go = np.arange(np.prod(grad_output), dtype=np.float32).reshape(grad_output)
    go, x, w = go % 7, np.ones(input_, np.float32), np.ones(weight, np.float32)
    if rest.get("transposed"):  # the law: input is the coarse grid
        go = np.ascontiguousarray(go[:, :, :4])
    found = convgrad.conv_backward(go, x, w, output_mask=(False, True, True), **rest)
    assert (found.bias == go.sum(axis=(0, 2, 3))).all() and (found.weight == 0).all()


def test_grad_bias_of_shapes_that_obey_no_law_is_zero() -> None:
    """The runtime takes another batch in an empty call: there is no sum to give."""
    go, x, w = np.ones((5, 4, 1, 1), np.float32), np.ones((0, 4, 6, 6), np.float32), np.ones((4, 4, 3, 3), np.float32)
    assert (convgrad.conv_backward(go, x, w, product="A2", conformance="runtime").bias == 0).all()


@pytest.mark.parametrize(("line", "document", "runtime"), REFUSED)
def test_the_empty_path_refuses(line: str, document: int, runtime: int) -> None:
    """What it does look at, with the status of each conformance."""
    for product in RECENT:
        for conformance, status in (("document", document), ("runtime", runtime)):
            verdict = check(Request.parse(f"{line} on={product} as={conformance}"))
            assert verdict.status == status, f"{product} {conformance}: {verdict.rule_id}"


@pytest.mark.parametrize("product", OLDER)
@pytest.mark.parametrize("line", [CONV, TCONV, "conv n2 c0>4 i6x6 k3 fp16", "conv n1 c4>4 i0x6 k1 p1 fp16 want=w",
                                  "conv n1 c4>4 i6x6 k3 fp16 w=4x0x3x3 gw=4x0x3x3"])  # fmt: skip
def test_older_products_take_no_empty_tensor(line: str, product: str) -> None:
    """161002, whichever tensor is empty."""
    assert check(Request.parse(f"{line} on={product}")).status == INVALID


def test_cpu_takes_empty_tensors_that_obey_the_law() -> None:
    """Zero batch, channels or size; what the law does not tie is refused."""
    lines = ("conv n0 c4>4 i6 k3", "conv n2 c0>4 i6 k3", "conv n2 c4>0 i6 k3", "conv n2 c4>4 i0 k1 p1",
             "tconv n0 c4>4 i6 k3", "tbc n0 c3>4 i6 k3", "tbc n2 c3>4 i0 k0 o1", "tbc n2 c3>4 i2 k3 o0")  # fmt: skip
    for line in lines:
        assert check(Request.parse(f"{line} on=cpu")).ok, line
    for line in ("conv n0 c4>4 i6 k3 go=5x4x4", f"{CONV} gb=9", f"{TCONV} go=0x7x8x8", "tbc n2 c3>4 i6 k3 go=0x2x4"):
        assert check(Request.parse(f"{line} on=cpu")).status == INVALID, line


@pytest.mark.parametrize("product", ("cpu", *RECENT, *OLDER))
def test_numbers_beyond_2_to_the_40_are_refused_on_every_product(product: str) -> None:
    """Stride, dilation, padding, groups and sizes; also where no other limit stands."""
    beyond = 2**40 + 1
    for words in (f"s{beyond}", f"d{beyond}", f"p{beyond} s{2**40}", f"groups={beyond}", f"gb={beyond}"):
        line = f"tconv n1 c1>1 i1 k1 fp16 {words} on={product}"
        assert check(Request.parse(line)).status == INVALID, line
    for length, status in ((2**20, 0), (2**20 + 1, INVALID)):  # 2^56 multiply-adds, and more
        line = f"conv n1 c{2**18}>{2**18} i{length} k1 fp16 on={product}"
        assert check(Request.parse(line)).status == status, line


@pytest.mark.parametrize("product", (*RECENT, *OLDER))
def test_pairs_are_no_vendor_padding(product: str) -> None:
    """(low, high) padding exists on cpu alone."""
    assert check(Request.parse(f"conv n1 c4>4 i6 k3 p1:2 fp16 on={product}")).rule_id == "padding.pairs"
    assert check(Request.parse("conv n1 c4>4 i6 k3 p1:2 fp16 on=cpu")).ok
