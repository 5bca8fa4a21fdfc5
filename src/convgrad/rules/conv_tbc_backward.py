"""Rows of aclnnConvTbcBackward, in contract order. `grad_output` is the parameter the vendor calls `self`.

Sources: S0 = the newer, S1 = the older revision of the operator's document; UD = its newest public revision;
host, tests, here as in the rows of aclnnConvolutionBackward.
"""

from __future__ import annotations

from convgrad.core.products import A2_A3, A2_A3_950, KEYS, TBC_VENDOR
from convgrad.core.status import Status
from convgrad.rules.convolution_backward import EVERY_DTYPE, FLOATS_16, FLOATS_BF, INT_MAX_LESS_ONE, math_rows
from convgrad.rules.vocabulary import (
    CPU,
    LARGEST_NUMBER,
    MOST_ELEMENTS,
    MOST_WORK,
    Between,
    Conformance,
    OneOf,
    Present,
    Rule,
    SameAs,
    Stage,
)

NULL, INNER = Status.PARAM_NULLPTR, Status.INNER_NULLPTR
DOCUMENT, RUNTIME = Conformance.DOCUMENT, Conformance.RUNTIME
VENDOR_AND_CPU = (*CPU, *TBC_VENDOR)
UNSUPPORTED = tuple(key for key in KEYS if key not in VENDOR_AND_CPU)
TENSORS = ("grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias")
SOURCE_OF = {"grad_input": "input", "grad_weight": "weight", "grad_bias": "bias"}
BACKWARD = ("forward", (False,))

_nulls = (
    *(Rule(f"tbc.null.{t}", Stage.NULL, t, Present(), NULL, source="S1, error table, 161001")
      for t in ("grad_output", "input", "weight")),
    Rule("tbc.null.bias", Stage.NULL, "bias", Present(), NULL, (*TBC_VENDOR, *UNSUPPORTED), source="S0, bias"),
    *(Rule(f"tbc.null.{t}", Stage.NULL, t, Present(), NULL, when=(BACKWARD,), source="S1, error table, 161001")
      for t in SOURCE_OF),
)  # fmt: skip

_product = (
    Rule("tbc.product", Stage.PRODUCT, "product", OneOf(TBC_VENDOR), products=UNSUPPORTED, source="S0, product table",
         conflict="T13", note="the host code has no such gate and would run"),
)  # fmt: skip


def _dtype_rows(tensor: str) -> tuple[Rule, ...]:
    fact, name, source = f"{tensor}.dtype", f"tbc.{tensor}.dtype", f"S1, parameter table, {tensor}"
    rows = (
        Rule(f"{name}.cpu", Stage.DTYPE, fact, OneOf(EVERY_DTYPE), products=CPU, source="here"),
        Rule(f"{name}.910", Stage.DTYPE, fact, OneOf(FLOATS_16), products=("910",), source="S0, dtype limits"),
    )
    if tensor != "grad_weight":
        return (*rows, Rule(f"{name}.a2", Stage.DTYPE, fact, OneOf(FLOATS_BF), products=A2_A3_950, source=source))
    note = "listed for grad_weight alone, which must also have the dtype of weight"
    return (
        *rows,
        Rule(f"{name}.a2", Stage.DTYPE, fact, OneOf(FLOATS_BF), products=A2_A3, source="S0, dtype limits"),
        Rule(f"{name}.950", Stage.DTYPE, fact, OneOf((*FLOATS_BF, "hifloat8", "float8_e4m3fn")), products=("950",),
             conformance=DOCUMENT, source="S0, dtype limits", conflict="T8", note=note),
        Rule(f"{name}.950.host", Stage.DTYPE, fact, OneOf(FLOATS_BF), products=("950",), conformance=RUNTIME,
             source="host, dtype list; tests", conflict="T8", note=note),
    )  # fmt: skip


_dtypes = (
    *(row for tensor in TENSORS for row in _dtype_rows(tensor)),
    *(Rule(f"tbc.{t}.dtype.same", Stage.DTYPE, f"{t}.dtype", SameAs("grad_output.dtype"), products=TBC_VENDOR,
           conformance=DOCUMENT, source="S1, error table, 161002", conflict="T9",
           note="the parameter rows speak of promotion, and the runtime accepts mixes")
      for t in ("input", "weight", "bias")),
)  # fmt: skip

_formats = (
    *(Rule(f"tbc.{t}.format", Stage.FORMAT, f"{t}.format", OneOf(("ND", "NCL")), products=VENDOR_AND_CPU,
           source="S1, parameter table, format column")
      for t in ("grad_output", "input", "weight", "grad_input", "grad_weight")),
    *(row for t in ("bias", "grad_bias") for row in (
        Rule(f"tbc.{t}.format", Stage.FORMAT, f"{t}.format", OneOf(("ND", "NCL")), products=TBC_VENDOR,
             conformance=DOCUMENT, source="S1, parameter table, format column", conflict="T7",
             note="UD and the runtime: ND only"),
        Rule(f"tbc.{t}.format.host", Stage.FORMAT, f"{t}.format", OneOf(("ND",)), products=TBC_VENDOR,
             conformance=RUNTIME, source="host, format check", conflict="T7"),
        Rule(f"tbc.{t}.format.cpu", Stage.FORMAT, f"{t}.format", OneOf(("ND", "NCL")), products=CPU, source="here"),
    )),
)  # fmt: skip

_sizes = (
    *(Rule(f"tbc.{t}.rank", Stage.SHAPE, f"{t}.rank", OneOf((1 if t.endswith("bias") else 3,)),
           products=VENDOR_AND_CPU, source="S1, error table, 161002")
      for t in ("grad_output", "input", "weight", "bias", "grad_bias", "grad_input", "grad_weight")),
    *(Rule(f"tbc.{t}.sizes", Stage.SHAPE, f"{t}.shape", Between(0, LARGEST_NUMBER), products=VENDOR_AND_CPU,
           source="S1, error table, 161002: sizes below 0") for t in TENSORS),
    *(Rule(f"tbc.{t}.span", Stage.SHAPE, f"{t}.span", Between(None, MOST_ELEMENTS), products=VENDOR_AND_CPU,
           source="here: counts and bytes fit 63 bits") for t in TENSORS if not t.endswith("bias")),
)  # fmt: skip

_T4 = "S0: empty allowed; S1 says both; the host code refuses an empty grad_output outright"
_shapes = (
    Rule("tbc.channels.input", Stage.SHAPE, "tbc.input_channels", SameAs("tbc.weight_input_channels"),
         products=VENDOR_AND_CPU, source="S1, error table, 161002", conflict="T1",
         note="some rows give (N, C, L) shapes; formulas, error table and sample use (T, B, C)"),
    Rule("tbc.channels.bias", Stage.SHAPE, "tbc.bias_channels", SameAs("tbc.weight_output_channels"),
         products=VENDOR_AND_CPU, source="S1, error table, 161002", conflict="T2",
         note="S0 says the first size of weight; the error table the third"),
    Rule("tbc.pad", Stage.SHAPE, "pad", Between(0, 255), products=TBC_VENDOR, conformance=DOCUMENT,
         source="S1, pad; error table, 161002", conflict="T6", note="UD allows 2147483647"),
    Rule("tbc.pad.negative", Stage.SHAPE, "pad", Between(0), products=(*A2_A3, "910"), conformance=RUNTIME,
         source="host, shape check", conflict="T6"),
    Rule("tbc.pad.cpu", Stage.SHAPE, "pad", Between(0), products=CPU, source="here"),
    Rule("tbc.pad.950", Stage.SHAPE, "pad", Between(0, 2147483647), products=("950",), conformance=RUNTIME,
         source="UD, pad", conflict="T6"),
    Rule("tbc.length", Stage.SHAPE, "tbc.length", Between(0), products=VENDOR_AND_CPU,
         source="S1, output size formula"),
    Rule("tbc.grad_output.shape", Stage.SHAPE, "grad_output.shape", SameAs("tbc.output_shape"),
         products=VENDOR_AND_CPU, source="S1, output size formula", conflict="T4", note=_T4),
    *(Rule(f"tbc.{t}.shape", Stage.SHAPE, f"{t}.shape", SameAs(f"{SOURCE_OF[t]}.shape"), products=VENDOR_AND_CPU,
           source="S1, error table, 161002: outputs") for t in ("grad_input", "grad_weight")),
    Rule("tbc.grad_bias.shape", Stage.SHAPE, "grad_bias.shape", SameAs("tbc.bias_shape"), products=VENDOR_AND_CPU,
         source="S1, error table, 161002: outputs"),
    Rule("tbc.work.countable", Stage.SHAPE, "work", Between(None, MOST_WORK), products=VENDOR_AND_CPU,
         source="here: counts fit 63 bits"),
)  # fmt: skip

_math = tuple(
    Rule(f"tbc.{r.id}", Stage.MATH, r.fact, r.must, r.status, r.products, r.conformance, r.when,
         r.source.replace("S2", "S1").replace("S3", "S0"), r.note, r.conflict)
    for r in math_rows(TBC_VENDOR, ("910",), VENDOR_AND_CPU)
)  # fmt: skip

_HF32_ON_910 = Rule(
    "tbc.math.hf32.910", Stage.MATH, "math", OneOf((0, 1, 2)), products=("910",), conformance=DOCUMENT,
    source="S0, cubeMathType 3", conflict="T17", note="the host code takes it for float16, where it changes nothing",
)  # fmt: skip

_FLOAT_GRAD_WEIGHT = (("grad_weight.dtype", FLOATS_BF),)
_ties = (
    Rule("tbc.grad_input.dtype.tie", Stage.KERNEL, "grad_input.dtype", SameAs("input.dtype"), products=TBC_VENDOR,
         source="S1, gradInput"),
    Rule("tbc.grad_weight.dtype.tie", Stage.KERNEL, "grad_weight.dtype", SameAs("weight.dtype"), products=TBC_VENDOR,
         when=_FLOAT_GRAD_WEIGHT, source="S1, gradWeight", conflict="T8",
         note="on 950 the document also lists 8-bit floats for grad_weight"),
    Rule("tbc.grad_bias.dtype.tie", Stage.KERNEL, "grad_bias.dtype", SameAs("bias.dtype"), products=TBC_VENDOR,
         source="S1, gradBias"),
)  # fmt: skip

_limits = (
    *(Rule(f"tbc.limit.{t}.sizes", Stage.LIMIT, f"{t}.shape", Between(None, INT_MAX_LESS_ONE), products=A2_A3,
           conformance=DOCUMENT, source=f"S1, limits table, {t}", conflict="T16",
           note="S0 has no upper limit, and the host code no check") for t in ("grad_output", "input", "weight")),
    Rule("tbc.limit.window", Stage.LIMIT, "tbc.window", Between(None, 255), products=A2_A3_950, conformance=DOCUMENT,
         source="S1, limits table, weight", conflict="T15", note="S0 has the limit for 950 only"),
    Rule("tbc.limit.window.kernel", Stage.LIMIT, "tbc.window", Between(None, 255), INNER, A2_A3, RUNTIME,
         source="kernels", conflict="T15"),
    Rule("tbc.limit.pad.kernel", Stage.LIMIT, "pad", Between(None, 255), INNER, (*A2_A3, "910"), RUNTIME,
         source="kernels", conflict="T6"),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *_nulls, *_product, *_dtypes, *_formats, *_sizes, *_shapes, *_math, _HF32_ON_910, *_ties, *_limits,
)  # fmt: skip
