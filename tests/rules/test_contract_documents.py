"""The error tables and limits of the operators' documents, line by line.

Each case cites the document and the line it comes from, says in our words what stands there, and gives problem
lines that fall under it. Documents: S0, S1 = aclnnConvTbcBackward, newer and A2/A3 revision; S2, S3 =
aclnnConvolutionBackward, A2/A3 and older revision. Line numbers count from the first line of the document.
"""

from dataclasses import dataclass

import pytest

from convgrad.core.request import Request
from convgrad.rules.check import check

NULL, INVALID, INNER = 161001, 161002, 561103
CONV = "conv n1 c4>4 i6x6 k3"
CONV_3D = "conv n1 c4>4 i6x6x6 k3"
TCONV = "tconv n1 c4>4 i6x6 k3"
TBC = "tbc n2 c3>4 i6 k3"


@dataclass(frozen=True)
class Says:
    """One line of a document and problems it is about."""

    document: str
    line: int
    words: str
    status: int
    problems: tuple[str, ...]


def _nulls(operator: str, *words: str) -> tuple[str, ...]:
    return tuple(f"{operator} {word}=null" for word in words)


CONVOLUTION = [
    Says("S2", 358, "a null tensor or attribute", NULL,
         _nulls(CONV, "go", "x", "w", "bias_sizes", "stride", "padding", "dilation", "output_padding", "mask", "gx",
         "gw")),
    Says("S2", 361, "grad_bias wanted and null", NULL, (f"{CONV} gb=null",)),
    Says("S2", 368, "dtype of grad_output, input or weight not in the list", INVALID,
         tuple(f"{CONV} {t}=/{d}" for t in ("go", "x", "w") for d in ("fp64", "int32", "hif8"))),
    Says("S2", 371, "format of grad_output, input or weight not in the list", INVALID,
         tuple(f"{CONV} {t}=//NHWC" for t in ("go", "x", "w"))),
    Says("S2", 374, "shape of grad_output, input or weight against the constraints", INVALID,
         (f"{CONV} go=1x4x5x4", f"{CONV} x=1x4x6", f"{CONV} w=4x4x3x3x3/float32/NCDHW", f"{CONV} go=2x4x4x4",
          "conv n1 c4>4 i300x6 k256x3")),
    Says("S2", 377, "length of bias_sizes, stride, padding, dilation or output_padding", INVALID,
         (f"{CONV} bias_sizes=4x4", f"{CONV} stride=1", f"{CONV} padding=0x0x0", f"{CONV} dilation=1x1x1",
          f"{CONV} output_padding=0")),
    Says("S2", 380, "groups * channels of weight other than channels of input", INVALID,
         (f"{CONV} groups=2", "conv n1 c6>4 i6 k3 w=4x4x3 gw=4x4x3")),
    Says("S2", 383, "a processor without the operator", INVALID, (f"{CONV} on=310B", f"{CONV} on=310")),
    Says("S2", 388, "an attribute out of the supported range", INNER,
         (f"{CONV_3D} s1x64x1", f"{CONV} p256", "conv n1 c4>4 i600 k3 d256", "conv n1 c65536>65536 i1 k1 g65536")),
    Says("S3", 92, "the same nulls", NULL,
         _nulls(CONV, "go", "x", "w", "bias_sizes", "stride", "padding", "dilation", "output_padding", "mask", "gx",
         "gw")),
    Says("S3", 93, "grad_bias wanted and null", NULL, (f"{CONV} gb=null",)),
    Says("S3", 94, "dtypes", INVALID, (f"{CONV} x=/fp64 gx=/fp64", f"{CONV} fp16 on=910 x=/bf16 gx=/bf16")),
    Says("S3", 95, "formats", INVALID, (f"{CONV} x=//NDHWC", f"{CONV} x=//ND")),
    Says("S3", 96, "shapes", INVALID, (f"{CONV} go=1x4x3x4", "conv n1 c4>4 i6 k3 go=1x4x5")),
    Says("S3", 97, "lengths of attributes", INVALID, (f"{CONV} stride=1x1x1", f"{CONV} padding=none")),
    Says("S3", 98, "groups and channels", INVALID, (f"{CONV} groups=3",)),
    Says("S3", 99, "a processor without the operator", INVALID, (f"{CONV} on=310B",)),
    Says("S3", 100, "a specification out of range", INNER, (f"{CONV} p256x0",)),
]  # fmt: skip

CONVOLUTION_PARAMETERS = [
    Says("S2", 158, "bias_sizes has one element", INVALID, (f"{CONV} bias_sizes=none",)),
    Says("S2", 159, "bias_sizes is the channel count of the bias", INVALID, (f"{CONV} bias_sizes=5",)),
    Says("S2", 160, "no null bias_sizes with empty tensors and grad_bias wanted", NULL,
         ("conv n0 c4>4 i6x6 k3 bias_sizes=null",)),
    Says("S2", 172, "stride is above 0", INVALID, (f"{CONV} stride=0x1", f"{CONV} stride=1x-1")),
    Says("S2", 184, "padding has rank-2 elements, in 2-D also 4", INVALID,
         (f"{CONV} padding=0x0x0", "conv n1 c4>4 i6 k3 padding=0x0x0x0", f"{CONV_3D} padding=0x0x0x0")),
    Says("S2", 185, "padding is not below 0", INVALID, (f"{CONV} padding=-1x0",)),
    Says("S2", 198, "dilation is above 0", INVALID, (f"{CONV} dilation=0x1",)),
    Says("S2", 220, "output_padding is in [0, stride)", INVALID,
         (f"{TCONV} output_padding=1x0", f"{TCONV} output_padding=-1x0")),
    Says("S2", 221, "output_padding is 0 unless transposed", INVALID, (f"{CONV} output_padding=1x0",)),
    Says("S2", 233, "groups is in [1, 65535]", INVALID, (f"{CONV} groups=0",)),
    Says("S2", 116, "grad_output, input and grad_input share a format", INVALID,
         ("conv n1 c4>4 i6 k3 gx=1x4x6x1/float32/NCHW",)),
    Says("S2", 146, "weight and grad_weight share a format", INVALID, ("conv n1 c4>4 i6 k3 gw=4x4x3x1/float32/NCHW",)),
    Says("S2", 276, "grad_input has the dtype of input", INVALID, (f"{CONV} gx=/fp16",)),
    Says("S2", 303, "grad_bias has the dtype of grad_output", INVALID, (f"{CONV} gb=/fp16",)),
    Says("S2", 306, "grad_bias is ND", INVALID, (f"{CONV} gb=//NCL",)),
    Says("S2", 334, "no 8-bit floats on A2 and A3", INVALID, (f"{TCONV} hif8 want=x",
         f"{TCONV} fp8_e4m3fn want=x on=A3")),
    Says("S2", 454, "empty tensors: attributes still have rank-2 elements", INVALID,
         ("conv n0 c4>4 i6x6 k3 stride=1",)),
    Says("S2", 455, "empty tensors, plain: the window fits the padded input", INVALID, ("conv n0 c4>4 i2x2 k3",)),
    Says("S2", 457, "empty tensors, transposed: weight.shape[0] is above 0", INVALID, ("tconv n1 c0>4 i6x6 k3",)),
    Says("S2", 458, "empty tensors, transposed: weight.shape[0] is the channels of input", INVALID,
         ("tconv n0 c4>4 i6x6 k3 x=0x3x6x6 gx=0x3x6x6",)),
    Says("S2", 472, "plain: no empty grad_output beside a full input", INVALID, (f"{CONV} go=1x4x0x4",)),
    Says("S2", 479, "plain: a zero depth, height or width needs a zero batch or channel", INVALID,
         ("conv n1 c4>4 i0x6 k3 p2 want=x",)),
    Says("S2", 494, "plain: window H, W (1-D: L) up to 255", INVALID,
         ("conv n1 c4>4 i256 k256", "conv n1 c4>4 i1x256 k1x256", "conv n1 c4>4 i1x256x1 k1x256x1")),
    Says("S2", 505, "plain, 3-D: stride H, W up to 63", INNER, (f"{CONV_3D} s1x1x64",)),
    Says("S2", 514, "plain: padding up to 255 (3-D: H, W)", INNER, ("conv n1 c4>4 i6 k3 p256", f"{CONV_3D} p0x256x0")),
    Says("S2", 523, "plain: dilation up to 255", INNER, ("conv n1 c4>4 i900x3 k3x1 d256x1",)),
    Says("S3", 66, "no float32 with cubeMathType 0 on 310P and 910", INVALID, (f"{CONV} on=310P", f"{CONV} on=910")),
    Says("S3", 71, "no bfloat16 with cubeMathType 2", INVALID, (f"{CONV} bf16 math=fp16",)),
    Says("S3", 73, "no float32 with cubeMathType 3 on 310P and 910", INVALID,
         (f"{CONV} math=hf32 on=310P", f"{CONV} math=hf32 on=910")),
    Says("S3", 78, "grad_weight has the dtype of weight", INVALID, (f"{CONV} gw=/bf16",)),
]  # fmt: skip

TIME_BATCH_CHANNEL = [
    Says(document, line, words, status, problems)
    for words, status, problems, places in (
        ("a null pointer", NULL, _nulls(TBC, "go", "x", "w", "b", "gx", "gw", "gb"), (("S0", 284), ("S1", 282))),
        ("dtype or format of a tensor not in the list", INVALID,
         tuple(f"{TBC} {t}={part}" for t in ("go", "x", "w", "b", "gx", "gw", "gb") for part in ("/fp64", "//NCHW")),
         (("S0", 289), ("S1", 287))),
        ("dtypes of self, input, weight, bias differ", INVALID,
         tuple(f"{TBC} {t}=/fp16" for t in ("go", "x", "w", "b")), (("S0", 292), ("S1", 290))),
        ("shape of an output not what follows", INVALID, (f"{TBC} gx=6x2x4", f"{TBC} gw=3x3x5", f"{TBC} gb=5"),
         (("S0", 295), ("S1", 293))),
        ("a size of an output below 0", INVALID, (f"{TBC} gx=6x-2x3", f"{TBC} gw=-3x3x4", f"{TBC} gb=-4"),
         (("S0", 298), ("S1", 296))),
        ("self, input or weight without three axes", INVALID,
         (f"{TBC} go=4x2", f"{TBC} x=6x2x3x1", f"{TBC} w=3"), (("S0", 301), ("S1", 299))),
        ("bias without one axis", INVALID, (f"{TBC} b=4x1", f"{TBC} b=scalar"), (("S0", 304), ("S1", 302))),
        ("third size of input other than second of weight", INVALID, (f"{TBC} x=6x2x5 gx=6x2x5",),
         (("S0", 307), ("S1", 305))),
        ("bias other than third size of weight", INVALID, (f"{TBC} b=3 gb=3",), (("S0", 310), ("S1", 308))),
        ("pad out of range", INVALID, (f"{TBC} p-1", f"{TBC} p256"), (("S0", 313), ("S1", 311))),
    )
    for document, line in places
]  # fmt: skip

TIME_BATCH_CHANNEL_LIMITS = [
    Says("S0", 12, "not on 200I/500 A2", INVALID, (f"{TBC} on=310B",)),
    Says("S0", 13, "not on the inference series", INVALID, (f"{TBC} on=310P",)),
    Says("S0", 15, "not on 200/300/500", INVALID, (f"{TBC} on=310",)),
    Says("S0", 158, "bias is not null", NULL, (f"{TBC} b=null",)),
    Says("S0", 171, "pad is in [0, 255]", INVALID, (f"{TBC} p256 on=950", f"{TBC} p256 fp16 on=910")),
    Says("S0", 434, "950: 8-bit floats in grad_weight alone", INVALID,
         (f"{TBC} on=950 gx=/hif8", f"{TBC} on=950 x=/fp8_e4m3fn", f"{TBC} on=950 gb=/hif8")),
    Says("S0", 437, "no 8-bit floats on A2 and A3", INVALID, (f"{TBC} gw=/hif8", f"{TBC} gw=/fp8_e4m3fn on=A3")),
    Says("S0", 440, "no bfloat16 and no 8-bit floats on 910", INVALID, (f"{TBC} bf16 on=910",
         f"{TBC} fp16 gw=/hif8 on=910")),
    Says("S0", 448, "950: no bfloat16 with cubeMathType 2", INVALID, (f"{TBC} bf16 math=fp16 on=950",)),
    Says("S0", 455, "A2, A3: no bfloat16 with cubeMathType 2", INVALID, (f"{TBC} bf16 math=fp16",
         f"{TBC} bf16 math=2 on=A3")),
    Says("S0", 460, "910: no float32 with cubeMathType 0", INVALID, (f"{TBC} on=910",)),
    Says("S0", 463, "910: no float32 with cubeMathType 3", INVALID, (f"{TBC} math=hf32 on=910",)),
    Says("S1", 180, "grad_input has the dtype of input", INVALID, (f"{TBC} gx=/fp16",)),
    Says("S1", 194, "grad_weight has the dtype of weight", INVALID, (f"{TBC} gw=/fp16",)),
    Says("S1", 208, "grad_bias has the dtype of bias", INVALID, (f"{TBC} gb=/fp16",)),
    Says("S1", 394, "window up to 255", INVALID, ("tbc n2 c3>4 i300 k256", "tbc n2 c3>4 i300 k256 on=950")),
]  # fmt: skip

REFUSALS = [*CONVOLUTION, *CONVOLUTION_PARAMETERS, *TIME_BATCH_CHANNEL, *TIME_BATCH_CHANNEL_LIMITS]


def _on_a2(problem: str) -> str:
    return problem if " on=" in problem else f"{problem} on=A2"


@pytest.mark.parametrize("says", REFUSALS, ids=lambda s: f"{s.document}:{s.line} {s.words}")
def test_what_a_document_refuses_is_refused(says: Says) -> None:
    """Each problem gets the status the document gives, by default."""
    for problem in says.problems:
        verdict = check(Request.parse(_on_a2(problem)))
        assert verdict.status == says.status, f"{problem}: {int(verdict.status)} {verdict.rule_id}"


PROMISES = [
    Says("S2", 113, "empty grad_output, input and weight are supported", 0,
         ("conv n0 c4>4 i6x6 k3", "conv n2 c0>4 i6x6 k3", "tconv n0 c4>4 i6x6 k3")),
    Says("S2", 184, "4-element padding in 2-D", 0, (f"{CONV} padding=1x2x0x1 go=1x4x7x5",)),
    Says("S2", 263, "cubeMathType 3 leaves float16 alone", 0, (f"{CONV} fp16 math=hf32",)),
    Says("S2", 502, "1-D and 2-D strides have no upper limit", 0, (f"{CONV} s1000",)),
    Says("S2", 644, "the sample: 1x1 window, all three gradients, cubeMathType 1", 0,
         ("conv n2 c2>2 i7x7 k1 math=allow_down",)),
    Says("S3", 68, "310P, 910: float32 becomes float16 with cubeMathType 1", 0, (f"{CONV} math=allow_down on=310P",)),
    Says("S3", 69, "910B: float32 becomes HF32 with cubeMathType 1", 0, (f"{CONV} math=allow_down",)),
    Says("S3", 70, "cubeMathType 2 computes float32 in float16", 0, (f"{CONV} math=fp16", f"{CONV} math=fp16 on=910")),
    Says("S0", 14, "the training series runs TBC", 0, (f"{TBC} fp16 on=910",)),
    Says("S0", 116, "ND and NCL", 0, (f"{TBC} go=//NCL x=//ND w=//NCL b=//NCL gb=//NCL",)),
    Says("S0", 220, "950: an 8-bit grad_weight", 0, (f"{TBC} gw=/hif8 on=950", f"{TBC} gw=/fp8_e4m3fn on=950")),
    Says("S0", 397, "sizes of 0", 0, ("tbc n0 c3>4 i6 k3", "tbc n2 c0>4 i6 k3", "tbc n2 c3>4 i1 k3 p1 o1")),
    Says("S1", 254, "float32 with cubeMathType 1 on A2, A3", 0, (f"{TBC} math=allow_down",
         f"{TBC} math=allow_down on=A3")),
]  # fmt: skip


@pytest.mark.parametrize("says", PROMISES, ids=lambda s: f"{s.document}:{s.line} {s.words}")
def test_what_a_document_promises_is_accepted(says: Says) -> None:
    """Each problem passes every row, by default."""
    for problem in says.problems:
        verdict = check(Request.parse(_on_a2(problem)))
        assert verdict.ok, f"{problem}: {verdict.rule_id} {verdict.message}"


# (id of the contradiction, problem, status in document conformance, status in runtime conformance)
CONFORMANCES = [
    ("C2", f"{CONV} want=wb", 0, 0), ("C3", f"{CONV} bias_sizes=null", NULL, 0),
    ("C3", "conv n0 c4>4 i6x6 k3 bias_sizes=null", NULL, INVALID), ("C4", f"{CONV} bias_sizes=1", INVALID, 0),
    ("C4", f"{CONV} bias_sizes=1x2", INVALID, 0), ("C5", f"{CONV} bf16 math=fp16", INVALID, 0),
    ("C6", f"{CONV} bf16 math=hf32", 0, 0), ("C7", f"{TCONV} fp8_e4m3fn want=x on=950", 0, INVALID),
    ("C7", f"{TCONV} hif8 want=x on=950", 0, 0), ("C7", f"{CONV} hif8 want=xw on=950", INVALID, INVALID),
    ("C7", f"{CONV} hif8 want=x on=950", INVALID, INNER), ("C7", f"{CONV} fp8_e4m3fn want=x on=950", INVALID, INVALID),
    ("C7", f"{TCONV} hif8 want=xw gw=/fp32 on=950", 0, 0), ("C7", f"{TCONV} hif8 want=xw gw=/bf16 on=950", 0, INVALID),
    ("C7", f"{TCONV} hif8 want=xb on=950", INVALID, INNER), ("C9", "conv n1 c4>4 i6 k3 x=//ND", 0, 0),
    ("C10", f"{CONV} output_padding=0x0x0x0", INVALID, 0), ("C10", "tconv n1 c4>4 i6x6 k3 s2 op2x0", INVALID, INVALID),
    ("C12", f"{CONV} go=1x4x4x5", INVALID, INVALID), ("C13", "conv n1 c4>4 i256 k256", INVALID, INNER),
    ("C13", f"{CONV} p256", INNER, INNER), ("C14", f"{CONV_3D} g2 math=fp16", 0, INVALID),
    ("C14", f"{CONV_3D} g2 fp16 gw=/fp32", INVALID, INVALID), ("C14", f"{CONV} g2 fp16 gw=/fp32", INVALID, 0),
    ("C15", f"{CONV} gx=/fp16", INVALID, 0), ("C15", f"{CONV} gx=/fp16 on=950", INVALID, INVALID),
    ("C16", f"{CONV} mask=1111", NULL, NULL), ("C18", f"{CONV} on=310B", INVALID, INVALID),
    ("C23", "tconv n1 c65536>65536 i1 k1 g65536", INNER, INNER),
    ("T4", "tbc n2 c3>4 i1 k4 p1 o0", 0, 0), ("T4", f"{TBC} go=0x2x4", INVALID, INVALID),
    ("T5", TBC, 0, 0), ("T5", f"{TBC} math=hf32", 0, 0), ("T6", f"{TBC} p256", INVALID, INNER),
    ("T6", f"{TBC} p256 on=950", INVALID, 0), ("T7", f"{TBC} b=//NCL", 0, INVALID), ("T7", f"{TBC} gb=//NCL", 0,
    INVALID),
    ("T8", f"{TBC} gw=/hif8 on=950", 0, INVALID), ("T9", f"{TBC} fp32 x=/bf16 gx=/bf16", INVALID, 0),
    ("T13", f"{TBC} on=310P", INVALID, INVALID), ("T15", "tbc n2 c3>4 i300 k256", INVALID, INNER),
    ("T15", "tbc n2 c3>4 i300 k256 on=950", INVALID, 0), ("T15", "tbc n2 c3>4 i0 k0 o1", 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("conflict", "problem", "document", "runtime"), CONFORMANCES)
def test_both_conformances(conflict: str, problem: str, document: int, runtime: int) -> None:
    """Where the sources disagree, each conformance answers as its own reading says."""
    for name, status in (("document", document), ("runtime", runtime)):
        verdict = check(Request.parse(f"{_on_a2(problem)} as={name}"))
        assert verdict.status == status, f"{conflict} {name}: {int(verdict.status)} {verdict.rule_id} {verdict.message}"
