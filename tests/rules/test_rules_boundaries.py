"""Every documented limit at both sides, on every product that has it and on one that has not."""

import pytest

from convgrad.core.request import Request
from convgrad.rules.check import check

CONV_1D, CONV_2D, CONV_3D = "conv n1 c2>2 i1 k1", "conv n1 c2>2 i1x1 k1", "conv n1 c2>2 i1x1x1 k1"
TCONV_1D, TCONV_2D, TCONV_3D = "tconv n1 c2>2 i1 k1", "tconv n1 c2>2 i1x1 k1", "tconv n1 c2>2 i1x1x1 k1"
BIG = 2147483647
ACCEPTED = 0

# (what, last accepted line, first refused line, products, status in document conformance, in runtime conformance)
LIMITS = [
    ("window L", "conv n1 c2>2 i255 k255", "conv n1 c2>2 i256 k256", ("A2", "A3"), 161002, 561103),
    ("window H", "conv n1 c2>2 i255x1 k255x1", "conv n1 c2>2 i256x1 k256x1", ("A2", "A3"), 161002, 561103),
    ("window W", "conv n1 c2>2 i1x255 k1x255", "conv n1 c2>2 i1x256 k1x256", ("A2", "A3"), 161002, 561103),
    ("window H in 3-D", "conv n1 c2>2 i1x255x1 k1x255x1",
     "conv n1 c2>2 i1x256x1 k1x256x1", ("A2", "A3"), 161002, 561103),
    ("window L, transposed", "tconv n1 c2>2 i1 k255", "tconv n1 c2>2 i1 k256", ("950",), 161002, 561103),
    ("window W, transposed", "tconv n1 c2>2 i1x1 k1x255", "tconv n1 c2>2 i1x1 k1x256", ("950",), 161002, 561103),
    ("stride H", f"{CONV_3D} s1x63x1", f"{CONV_3D} s1x64x1", ("A2", "A3"), 561103, 561103),
    ("stride W", f"{CONV_3D} s1x1x63", f"{CONV_3D} s1x1x64", ("A2", "A3"), 561103, 561103),
    ("padding L", f"{CONV_1D} p255", f"{CONV_1D} p256", ("A2", "A3"), 561103, 561103),
    ("padding H", f"{CONV_2D} p255x0", f"{CONV_2D} p256x0", ("A2", "A3"), 561103, 561103),
    ("padding bottom", f"{CONV_2D} p0x255x0x0", f"{CONV_2D} p0x256x0x0", ("A2", "A3"), 561103, 561103),
    ("padding W in 3-D", f"{CONV_3D} p0x0x255", f"{CONV_3D} p0x0x256", ("A2", "A3"), 561103, 561103),
    ("dilation L", f"{CONV_1D} d255", f"{CONV_1D} d256", ("A2", "A3"), 561103, 561103),
    ("dilation D", f"{CONV_3D} d255x1x1", f"{CONV_3D} d256x1x1", ("A2", "A3"), 561103, 561103),
    ("groups", "conv n1 c65535>65535 i1 k1 g65535", "conv n1 c65536>65536 i1 k1 g65536", ("950", "A2", "A3"),
     561103, 561103),
    ("groups, transposed", "tconv n1 c65535>65535 i1 k1 g65535", "tconv n1 c65536>65536 i1 k1 g65536",
     ("950", "A2", "A3"), 561103, 561103),
    ("stride D, transposed", f"{TCONV_3D} s1000000x1x1", f"{TCONV_3D} s1000001x1x1", ("950",), 561103, 561103),
    ("dilation D, transposed", f"{TCONV_3D} d1000000x1x1", f"{TCONV_3D} d1000001x1x1", ("950",), 561103, 561103),
    ("padding D, transposed", "tconv n1 c2>2 i1x1x1 k2000001x1x1 p1000000x0x0",
     "tconv n1 c2>2 i1x1x1 k2000003x1x1 p1000001x0x0", ("950",), 561103, 561103),
    ("stride L, transposed", f"{TCONV_1D} s{BIG - 1}", f"{TCONV_1D} s{BIG}", ("950",), 561103, 561103),
    ("stride W, transposed", f"{TCONV_2D} s1x{BIG - 1}", f"{TCONV_2D} s1x{BIG}", ("950",), 561103, 561103),
    ("dilation H, transposed", f"{TCONV_3D} d1x{BIG - 1}x1", f"{TCONV_3D} d1x{BIG}x1", ("950",), 561103, 561103),
    ("padding L, transposed", f"tconv n1 c2>2 i{2 * BIG - 1} k1 p{BIG - 1}", f"tconv n1 c2>2 i{2 * BIG + 1} k1 p{BIG}",
     ("950",), 561103, 561103),
    ("TBC pad", "tbc n1 c2>2 i1 k1 p255", "tbc n1 c2>2 i1 k1 p256", ("A2", "A3"), 161002, 561103),
    ("TBC T", f"tbc n1 c1>1 i{BIG - 1} k1 fp16", f"tbc n1 c1>1 i{BIG} k1 fp16", ("A2", "A3"), 161002, ACCEPTED),
    ("TBC B", f"tbc n{BIG - 1} c1>1 i1 k1 fp16", f"tbc n{BIG} c1>1 i1 k1 fp16", ("A2", "A3"), 161002, ACCEPTED),
    ("TBC Cin", f"tbc n1 c{BIG - 1}>1 i1 k1", f"tbc n1 c{BIG}>1 i1 k1", ("A2", "A3"), 161002, ACCEPTED),
    ("TBC Cout", f"tbc n1 c1>{BIG - 1} i1 k1", f"tbc n1 c1>{BIG} i1 k1", ("A2", "A3"), 161002, ACCEPTED),
    ("TBC pad", "tbc n1 c2>2 i1 k1 p255", "tbc n1 c2>2 i1 k1 p256", ("950",), 161002, ACCEPTED),
    ("TBC pad", "tbc n1 c2>2 i1 k1 p255 fp16", "tbc n1 c2>2 i1 k1 p256 fp16", ("910",), 161002, 561103),
    ("TBC window", "tbc n1 c2>2 i255 k255", "tbc n1 c2>2 i256 k256", ("A2", "A3"), 161002, 561103),
    ("TBC window", "tbc n1 c2>2 i255 k255", "tbc n1 c2>2 i256 k256", ("950",), 161002, ACCEPTED),
]  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS, ids=lambda x: f"{x[0]} {'/'.join(x[3])}")
@pytest.mark.parametrize("conformance", ("document", "runtime"))
def test_both_sides_of_a_limit(limit: tuple, conformance: str) -> None:
    """The last value inside is accepted, the first outside gets its status; cpu takes both."""
    _, inside, outside, products, document, runtime = limit
    for product in products:
        tail = f" on={product} as={conformance}"
        assert check(Request.parse(inside + tail)).status == ACCEPTED, inside + tail
        assert check(Request.parse(outside + tail)).status == (document if conformance == "document" else runtime)
    assert check(Request.parse(f"{outside} on=cpu as={conformance}")).ok


# (what, the words of the last accepted value, of the first refused one); the same on every product
LOWEST = [
    ("stride", "stride=1x1", "stride=0x1"), ("stride W", "stride=1x1", "stride=1x-1"),
    ("dilation", "dilation=1x1", "dilation=1x0"), ("padding", "padding=0x0", "padding=0x-1"),
    ("4-element padding", "padding=0x0x0x0", "padding=0x0x0x-1"), ("groups", "groups=1", "groups=0"),
    ("groups below 0", "groups=1", "groups=-1"), ("output_padding", "output_padding=0x0", "output_padding=0x1"),
    ("output_padding below 0", "output_padding=0x0", "output_padding=-1x0"), ("math", "math=2", "math=-1"),
    ("math above 3", "math=2", "math=4"), ("batch", "go=1x4x4x4", "go=2x4x4x4"),
    ("groups divide Cout", "groups=1", "w=3x2x3x3 gw=3x2x3x3 groups=2 go=1x3x4x4 gb=3 bias_sizes=3"),
    ("grad_output channels", "go=1x4x4x4", "go=1x5x4x4 bias_sizes=5 gb=5"),
    ("size", "go=1x4x4x4", "go=1x4x4x3"), ("weight channels", "w=4x4x3x3", "w=4x3x3x3 gw=4x3x3x3"),
    ("stride length", "stride=1x1", "stride=1x1x1"), ("dilation length", "dilation=1x1", "dilation=1"),
    ("padding length", "padding=0x0", "padding=0x0x0"),
    ("output_padding length", "output_padding=0x0", "output_padding=0"),
    ("grad_input", "gx=1x4x6x6", "gx=1x4x6x5"), ("grad_weight", "gw=4x4x3x3", "gw=4x4x3x2"),
    ("grad_bias", "gb=4", "gb=3"), ("rank of grad_bias", "gb=4", "gb=4x1"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "inside", "outside"), LOWEST, ids=[row[0] for row in LOWEST])
@pytest.mark.parametrize("conformance", ("document", "runtime"))
@pytest.mark.parametrize("product", ("cpu", "950", "A3", "A2", "910", "310P"))
def test_values_every_product_asks_for(what: str, inside: str, outside: str, conformance: str, product: str) -> None:
    """Plain convolution: the last good value passes, the first bad one is 161002, on every product."""
    line = f"conv n1 c4>4 i6x6 k3 fp16 on={product} as={conformance}"
    assert check(Request.parse(f"{line} {inside}")).ok
    assert check(Request.parse(f"{line} {outside}")).status == 161002


@pytest.mark.parametrize("product", ("cpu", "950", "A3", "A2", "910", "310P"))
def test_bias_sizes_on_every_product(product: str) -> None:
    """Documents: one element, the channels of the bias; the runtime looks at neither; a null is cpu's alone."""
    line = f"conv n1 c4>4 i6x6 k3 fp16 on={product}"
    for words in ("bias_sizes=3", "bias_sizes=4x4", "bias_sizes=none"):
        assert check(Request.parse(f"{line} {words}")).status == 161002
        assert check(Request.parse(f"{line} {words} as=runtime")).ok
    assert check(Request.parse(f"{line} bias_sizes=null")).status == (0 if product == "cpu" else 161001)
    assert check(Request.parse(f"{line} bias_sizes=3 want=xw")).ok


@pytest.mark.parametrize("conformance", ("document", "runtime"))
@pytest.mark.parametrize("product", ("cpu", "950", "A3", "A2", "910", "310P"))
def test_lengths_in_1d(conformance: str, product: str) -> None:
    """One number per axis: four of them, or none, are 161002 in 1-D on every product."""
    line = f"conv n1 c4>4 i6 k3 fp16 on={product} as={conformance}"
    assert check(Request.parse(line)).ok
    for name, value in (("stride", "1"), ("dilation", "1"), ("padding", "0"), ("output_padding", "0")):
        for length in (2, 4):
            assert check(Request.parse(f"{line} {name}={'x'.join([value] * length)}")).status == 161002
        assert check(Request.parse(f"{line} {name}=none")).status == 161002


@pytest.mark.parametrize("conformance", ("document", "runtime"))
@pytest.mark.parametrize("product", ("cpu", "950", "A3", "A2", "910", "310P"))
def test_values_of_transposed_convolutions(conformance: str, product: str) -> None:
    """output_padding is in [0, stride); channels and sizes follow the other way round; on every product."""
    line = f"tconv n1 c4>2 i6x6 k3 s2 fp16 on={product} as={conformance}"
    for inside in ("output_padding=1x1", "output_padding=0x1", "go=1x2x14x13"):
        assert check(Request.parse(f"{line} {inside}")).ok, inside
    for outside in ("output_padding=2x0", "output_padding=0x-1", "go=1x2x15x13", "go=1x2x13x12", "x=1x3x6x6 gx=1x3x6x6",
                    "go=1x3x13x13 gb=3 bias_sizes=3", "groups=3", "go=3x2x13x13"):  # fmt: skip
        assert check(Request.parse(f"{line} {outside}")).status == 161002, outside


@pytest.mark.parametrize("conformance", ("document", "runtime"))
def test_output_padding_beyond_the_stride(conformance: str) -> None:
    """cpu takes output_padding below the stride or the dilation, exactly sized beyond the stride; products do not."""
    line = f"tconv n1 c4>2 i6x6 k3 s2x1 d3x2 fp16 as={conformance}"
    for inside in ("op2x1", "op2x0", "op1x1"):
        assert check(Request.parse(f"{line} {inside} on=cpu")).ok, inside
        assert check(Request.parse(f"{line} {inside} on=cpu want=y")).ok, inside
    for outside in ("op3x1", "op2x2", "op1x2"):
        assert check(Request.parse(f"{line} {outside} on=cpu")).rule_id == "output_padding.below_larger", outside
    rest = f"{line} op2x1 on=cpu go=1x2x"
    assert check(Request.parse(f"{rest}19x11")).ok
    for size in ("18x11", "20x11", "19x10", "19x12"):
        assert check(Request.parse(rest + size)).rule_id == "spatial.transposed.beyond_stride", size
    for product in ("950", "A3", "A2", "910", "310P"):
        answer = check(Request.parse(f"{line} op2x1 on={product}"))
        assert answer.rule_id == "output_padding.below_stride", product


# Limits that belong to some products only: the same value passes elsewhere.
UNLIMITED = [
    ("conv n1 c2>2 i256 k256", ("950",)),
    ("conv n1 c2>2 i256 k256 fp16", ("910", "310P")),
    ("tconv n1 c2>2 i1 k256", ("A2", "A3")),
    (f"{CONV_2D} s64", ("A2", "A3", "950")),
    (f"{CONV_3D} s64x1x1", ("A2", "A3")),
    (f"{CONV_3D} p256x0x0", ("A2", "A3")),
    (f"{CONV_3D} s64 p256 d256", ("950",)),
    (f"{CONV_3D} s1000001x1x1", ("950",)),
    (f"{CONV_3D} d1000001x1x1", ("950",)),
    (f"{CONV_3D} p1000001x0x0", ("950",)),
    (f"{CONV_1D} s{BIG}", ("950",)),
    (f"{CONV_1D} d{BIG}", ("950",)),
    (f"{CONV_1D} p{BIG} s{BIG}", ("950",)),
    (f"{TCONV_3D} s64", ("A2", "A3")),
    (f"{TCONV_1D} d256", ("A2", "A3")),
    ("conv n1 c65536>65536 i1 k1 g65536 fp16", ("910", "310P")),
    ("tbc n1 c2>2 i256 k256 fp16", ("910",)),
    ("tbc n1 c2>2 i0 k0 o1", ("A2", "A3", "950")),
]


@pytest.mark.parametrize(("line", "products"), UNLIMITED, ids=lambda v: str(v))
@pytest.mark.parametrize("conformance", ("document", "runtime"))
def test_products_without_the_limit_accept(line: str, products: tuple[str, ...], conformance: str) -> None:
    """A limit is nobody else's limit."""
    for product in products:
        verdict = check(Request.parse(f"{line} on={product} as={conformance}"))
        assert verdict.ok, (product, verdict.message)


ON_950_TBC = [
    ("tbc n1 c2>2 i1 k1 p2147483647 on=950 as=runtime", 0),
    ("tbc n1 c2>2 i1 k1 p2147483648 on=950 as=runtime", 161002),
]


@pytest.mark.parametrize(("line", "status"), ON_950_TBC)
def test_the_runtime_takes_any_32_bit_pad_on_950(line: str, status: int) -> None:
    """2147483647 passes, one more does not."""
    assert check(Request.parse(line)).status == status


LARGEST = 2**40
COUNTS = [
    ("stride", f"{CONV_1D} s{LARGEST}", f"{CONV_1D} s{LARGEST + 1}"),
    ("dilation", f"{CONV_1D} d{LARGEST}", f"{CONV_1D} d{LARGEST + 1}"),
    ("padding", f"conv n1 c1>1 i1 k1 p{LARGEST} s{LARGEST}", f"conv n1 c1>1 i1 k1 p{LARGEST + 1} s{LARGEST}"),
    ("size", f"conv n1 c1>1 i{LARGEST} k1", f"conv n1 c1>1 i{LARGEST + 1} k1"),
    ("size beside a zero", f"conv n0 c1>1 i{LARGEST} k1", f"conv n0 c1>1 i{LARGEST + 1} k1"),
    ("elements", f"conv n1 c1>1 i{2**30}x{2**26} k1", f"conv n1 c1>1 i{2**30}x{2**30} k1"),
    ("multiply-adds", f"conv n1 c{2**18}>{2**18} i{2**20} k1", f"conv n1 c{2**18}>{2**18} i{2**20 + 1} k1"),
]


@pytest.mark.parametrize(("what", "inside", "outside"), COUNTS, ids=[c[0] for c in COUNTS])
def test_sizes_stay_countable(what: str, inside: str, outside: str) -> None:
    """Sums and bytes of accepted sizes fit 63 bits; beyond that even cpu refuses."""
    assert check(Request.parse(f"{inside} on=cpu")).ok
    assert check(Request.parse(f"{outside} on=cpu")).status == 161002


def test_products_of_sizes_that_leave_63_bits_are_refused() -> None:
    """Sizes far beyond any integer type give a status, not an overflow."""
    huge = 10**29
    lines = (f"conv n{huge} c{huge}>{huge} i{huge} k{huge}", f"tconv n1 c1>1 i1 k1 s{huge} d{huge} p{huge}",
             f"tbc n{huge} c{huge}>{huge} i{huge} k{huge} p{huge}", f"conv n1 c1>1 i1 k1 groups={huge}")  # fmt: skip
    for line in lines:
        assert check(Request.parse(line)).status == 161002


def test_limits_hold_for_empty_calls_in_the_document_and_not_in_the_runtime() -> None:
    """A call without elements reaches no kernel, so the runtime takes it; the documents except no call from a limit."""
    plain = ("i256 k256", "i1x1x1 k1 s1x64x1", "i1 k1 p256", "i1 k1 d256", "i1 k1 g65536 c65536>65536")
    transposed = ("i1 k256", "i1x1x1 k1 s1000001x1x1", "i1x1x1 k1 d1000001x1x1", "i1x1x1 k2000003x1x1 p1000001x0x0",
                  f"i1 k1 s{BIG}", f"i1 k1 d{BIG}", f"i{2 * BIG + 1} k1 p{BIG}")  # fmt: skip
    cases = [("conv", words, product) for words in plain for product in ("A2", "A3")]
    cases += [("tconv", words, "950") for words in transposed]
    for kind, words, product in cases:
        channels = "" if " c" in words else "c2>2"
        line = f"{kind} n0 {channels} {words} on={product}"
        assert check(Request.parse(f"{line} as=runtime")).ok, line
        verdict = check(Request.parse(line))
        assert verdict.rule_id.startswith("limit."), verdict.rule_id
        assert verdict.status == (161002 if "window" in verdict.rule_id else 561103)


@pytest.mark.parametrize("product", ("A2", "A3"))
def test_grouped_3d_weights_of_the_runtime(product: str) -> None:
    """3-D, groups, grad_weight wanted, float32 grad_weight and 16-bit compute together: 161002 in the runtime only."""
    line = f"conv n1 c4>4 i6x6x6 k3 on={product}"
    mixed = "fp16 gw=/fp32"
    for words in ("g2 math=fp16", f"g2 {mixed}", "g2 bf16 gw=/fp32"):
        assert check(Request.parse(f"{line} {words} as=runtime")).status == 161002, words
    assert check(Request.parse(f"{line} g2 math=fp16")).ok
    for words in (f"{mixed} g1", f"{mixed} g2 mask=100", "g2 math=fp16 mask=101", "g2 fp16", "g2 math=hf32"):
        assert check(Request.parse(f"{line} {words} as=runtime")).ok, words
    empty = f"conv n0 c4>4 i6x6x6 k3 g2 {mixed} on={product} as=runtime"
    assert check(Request.parse(empty)).ok


def test_tbc_counts_window_times_input_channels() -> None:
    """The multiply-adds of TBC are T_out * B * C_out * K * C_in: sizes the documents allow are not refused for them."""
    for line in ("tbc n64 c8192>8192 i2100 k3 p1 fp16", f"tbc n1 c1>{BIG - 1} i1 k1 p0"):
        assert check(Request.parse(f"{line} on=A2")).ok, line
    for length, status in ((2**20, ACCEPTED), (2**20 + 1, 161002)):  # 2^56 multiply-adds, and more
        line = f"tbc n1 c{2**12}>{2**16} i{length + 255} k{2**8} on=cpu"
        assert check(Request.parse(line)).status == status, line


def test_the_bias_of_a_convolution_is_nd() -> None:
    """Transposed or not, on each product, as the documents say; the runtime looks at plain calls of recent products."""
    for kind in ("conv", "tconv"):
        for product in ("950", "A3", "A2", "910", "310P"):
            line = f"{kind} n1 c2>2 i4x4 k1x1 fp16 gb=2/float16/NHWC on={product}"
            assert check(Request.parse(line)).rule_id == "grad_bias.format", line
            looked_at = kind == "conv" and product in ("950", "A3", "A2")
            assert check(Request.parse(f"{line} as=runtime")).ok != looked_at, line
