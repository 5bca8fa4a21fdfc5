"""Empty tensors: the recent products take them by a path of their own, the older ones refuse, cpu asks for the law."""

import pytest

from convgrad.core.request import Request
from convgrad.rules.check import check

NULL, INVALID = 161001, 161002
RECENT, OLDER = ("950", "A3", "A2"), ("910", "310P")
CONV, TCONV = "conv n0 c4>4 i6x6 k3 fp16", "tconv n0 c4>4 i6x6 k3 fp16"

ACCEPTED = [
    CONV, TCONV, "conv n2 c0>4 i6x6 k3 fp16", "conv n0 c4>4 i0x6 k3 p2 fp16", "tconv n0 c4>4 i0x6 k3 fp16",
    "conv n1 c4>4 i0x6 k3 p2 fp16 want=wb",  # a zero height alone, grad_input not wanted
    "conv n1 c4>4 i6x6 k0x3 go=1x4x9x9 fp16 want=w",  # an empty weight
    "conv n0 c1>1 i0x1x1 k0x1x1 fp16 go=100x100x0x1x1 bias_sizes=100 gb=100",
    f"{TCONV} go=0x7x8x8",  # no batch: the channels of grad_output are not looked at
    f"{CONV} go=5x4x1x1", f"{CONV} gb=9",  # nor are batch and size, nor the shape of grad_bias
    f"{CONV} padding=0x0x0x0", f"{CONV} want=-", "conv n2 c4>0 i6x6 k3 fp16 want=w",
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
def test_the_empty_path_accepts(line: str, conformance: str) -> None:
    """What the path does not look at does not matter, on each product that has it."""
    for product in RECENT:
        verdict = check(Request.parse(f"{line} on={product} as={conformance}"))
        assert verdict.ok, f"{product}: {verdict.message}"


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
