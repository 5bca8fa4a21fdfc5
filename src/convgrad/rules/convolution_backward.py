"""Rows of aclnnConvolutionBackward, in contract order: the first broken row names the status.

The documents' law and limits hold for empty tensors too. The public host code leaves by a path of its own then, on the
products that have one: rows under `EMPTY` are what that path looks at, rows under `FULL` what it skips (conflict C26).

Sources: S2, S3 = the two revisions of the operator's document; UD = its newest public revision; host = what the
public host code does; tests = what its tests expect; here = this project's own rule.
"""

from __future__ import annotations

from convgrad.core.products import A2_A3, A2_A3_950, CONV_VENDOR, KEYS, OLDER
from convgrad.core.status import Status
from convgrad.rules.vocabulary import (
    CPU,
    LARGEST_NUMBER,
    MOST_ELEMENTS,
    MOST_WORK,
    Below,
    Between,
    Condition,
    Conformance,
    MultipleOf,
    OneOf,
    Present,
    Rule,
    SameAs,
    Stage,
    UpTo,
)

NULL, INNER = Status.PARAM_NULLPTR, Status.INNER_NULLPTR
DOCUMENT, RUNTIME = Conformance.DOCUMENT, Conformance.RUNTIME
VENDOR_AND_CPU = (*CPU, *CONV_VENDOR)
UNSUPPORTED = tuple(key for key in KEYS if key not in VENDOR_AND_CPU)
PLAIN = ("transposed", (False,))
TRANSPOSED = ("transposed", (True,))
FULL = ("empty_path", (False,))
EMPTY = ("empty_path", (True,))
INPUT_FULL = ("input.empty", (False,))
INPUT_EMPTY = ("input.empty", (True,))
EIGHT_BIT = ("eight_bit", (True,))

FLOATS_16 = ("float32", "float16")
FLOATS_BF = ("float32", "float16", "bfloat16")
EVERY_DTYPE = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8")
OPERANDS = ("grad_output", "input", "weight")
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")
SOURCE_OF = {"grad_input": "input", "grad_weight": "weight", "grad_bias": "grad_output"}
INT_MAX_LESS_ONE = 2147483646

_nulls = (
    *(Rule(f"null.{t}", Stage.NULL, t, Present(), NULL, source="S2, error table, 161001") for t in OPERANDS),
    Rule("null.bias_sizes", Stage.NULL, "bias_sizes", Present(), NULL, (*CONV_VENDOR, *UNSUPPORTED), DOCUMENT,
         source="S2, error table, 161001", conflict="C3",
         note="the runtime ignores bias_sizes unless a tensor is empty and grad_bias is wanted"),
    *(Rule(f"null.{a}", Stage.NULL, a, Present(), NULL, source="S2, error table, 161001")
      for a in ("stride", "padding", "dilation", "output_padding", "output_mask")),
    Rule("output_mask.length", Stage.NULL, "output_mask.length", OneOf((3,)), NULL, source="host, null check",
         conflict="C16", note="no document names this case; the host code answers it inside its null check"),
    *(Rule(f"null.{o}", Stage.NULL, o, Present(), NULL, when=((f"want.{o[5:]}", (True,)),),
           source="S2, error table, 161001", conflict="C2" if o != "grad_bias" else "",
           note="the table names grad_input and grad_weight without the mask; UD and host only when asked for"
           if o != "grad_bias" else "") for o in OUTPUTS),
)  # fmt: skip

_product = (
    Rule("product", Stage.PRODUCT, "product", OneOf(CONV_VENDOR), products=UNSUPPORTED,
         source="S2, error table, 161002: processor not supported", conflict="C18",
         note="the host code has no such gate and would run 1-D and 2-D on 310B"),
)  # fmt: skip


def _dtype_rows(tensor: str) -> tuple[Rule, ...]:
    fact, s2 = f"{tensor}.dtype", f"S2, parameter table, {tensor}"
    eight_bit = "an 8-bit dtype is listed without saying when it may be used"
    mask_0, no_mask_0 = ("want.input", (True,)), ("want.input", (False,))
    is_output_of_other_kind = tensor in ("grad_weight", "grad_bias")
    rows = [
        Rule(f"{tensor}.dtype.cpu", Stage.DTYPE, fact, OneOf(EVERY_DTYPE), products=CPU, source="here"),
        Rule(f"{tensor}.dtype.910", Stage.DTYPE, fact, OneOf(FLOATS_16), products=OLDER, source="S3, dtype of outputs"),
        Rule(f"{tensor}.dtype.a2", Stage.DTYPE, fact, OneOf(FLOATS_BF), products=A2_A3, source=s2),
        Rule(f"{tensor}.dtype.950", Stage.DTYPE, fact, OneOf(FLOATS_BF), products=("950",), conformance=DOCUMENT,
             when=() if is_output_of_other_kind else (PLAIN,), source=s2, conflict="C7", note=eight_bit),
    ]  # fmt: skip
    if not is_output_of_other_kind:
        rows += [
            Rule(f"{tensor}.dtype.950.transposed.unasked", Stage.DTYPE, fact, OneOf(FLOATS_BF), products=("950",),
                 conformance=DOCUMENT, when=(TRANSPOSED, no_mask_0), source="UD, dtype table", conflict="C7",
                 note="8-bit floats need a transposed convolution with grad_input wanted"),
            Rule(f"{tensor}.dtype.950.transposed", Stage.DTYPE, fact, OneOf((*FLOATS_BF, "hifloat8", "float8_e4m3fn")),
                 products=("950",), conformance=DOCUMENT, when=(TRANSPOSED, mask_0), source="UD, dtype table",
                 conflict="C7", note="the runtime never takes float8_e4m3fn here"),
        ]  # fmt: skip
    rows.append(
        Rule(f"{tensor}.dtype.950.host", Stage.DTYPE, fact, OneOf((*FLOATS_BF, "hifloat8")), products=("950",),
             conformance=RUNTIME, source="host, dtype list", conflict="C7",
             note="float8_e4m3fn is in the host's list for plain convolutions, and never passes"),
    )  # fmt: skip
    if tensor in SOURCE_OF:
        rows += _tie_rows(tensor, SOURCE_OF[tensor])
    return tuple(rows)


def _tie_rows(tensor: str, source: str) -> tuple[Rule, ...]:
    """An output has the dtype of the tensor it belongs to."""
    when = (("weight.eight_bit", (False,)),) if tensor == "grad_weight" else ()
    fact, demand = f"{tensor}.dtype", SameAs(f"{source}.dtype")
    note = "the runtime asks for it on 950 only; elsewhere it casts the result"
    return (
        Rule(f"{tensor}.dtype.tie", Stage.DTYPE, fact, demand, products=CONV_VENDOR, conformance=DOCUMENT,
             when=when, source=f"S3, {tensor}", conflict="C15", note=note),
        Rule(f"{tensor}.dtype.tie.host", Stage.DTYPE, fact, demand, products=("950",), conformance=RUNTIME,
             when=when, source="host, dtype check", conflict="C15"),
    )  # fmt: skip


_dtypes = tuple(row for tensor in (*OPERANDS, *OUTPUTS) for row in _dtype_rows(tensor))

_ON_950 = ("950",)
_eight_bit = (
    *(Rule(f"{t}.dtype.950.eight_bit", Stage.DTYPE, f"{t}.dtype", SameAs("grad_output.dtype"), products=_ON_950,
           conformance=DOCUMENT, when=(TRANSPOSED, EIGHT_BIT), source="UD, dtype table", conflict="C7",
           note="8-bit tensors come in one dtype") for t in ("input", "weight")),
    Rule("eight_bit.plain", Stage.DTYPE, "both_outputs", OneOf((False,)), products=_ON_950, conformance=RUNTIME,
         when=(PLAIN, EIGHT_BIT), source="host, 8-bit check", conflict="C7",
         note="8-bit floats are listed for plain convolutions, and then refused"),
    *(Rule(f"{t}.dtype.950.hifloat8", Stage.DTYPE, f"{t}.dtype", OneOf(("hifloat8",)), products=_ON_950,
           conformance=RUNTIME, when=(TRANSPOSED, EIGHT_BIT, ("want.input", (True,))), source="host, 8-bit check",
           conflict="C7") for t in OPERANDS),
    Rule("grad_weight.dtype.950.hifloat8", Stage.DTYPE, "grad_weight.dtype", OneOf(("float32",)), products=_ON_950,
         conformance=RUNTIME, when=(TRANSPOSED, EIGHT_BIT, ("want.weight", (True,))), source="host, 8-bit check",
         conflict="C7"),
    Rule("groups.950.hifloat8", Stage.DTYPE, "groups", OneOf((1,)), products=_ON_950, conformance=RUNTIME,
         when=(TRANSPOSED, EIGHT_BIT, ("want.weight", (True,))), source="host, 8-bit check", conflict="C7"),
    Rule("output_padding.950.hifloat8", Stage.DTYPE, "output_padding", Between(0, 0), products=_ON_950,
         conformance=RUNTIME, when=(TRANSPOSED, EIGHT_BIT, ("want.weight", (True,))), source="host, 8-bit check",
         conflict="C7"),
)  # fmt: skip


def _format_rows(tensor: str) -> tuple[Rule, ...]:
    fact, source = f"{tensor}.format", "S2, parameter table, format column"
    rank = f"{tensor}.rank"
    nd = "documents list NCL alone; their own samples label three axes ND"
    rows = [
        Rule(f"{tensor}.rank", Stage.FORMAT, rank, Between(3, 5), products=VENDOR_AND_CPU, source=source),
        Rule(f"{tensor}.format.1d", Stage.FORMAT, fact, OneOf(("NCL", "ND")), products=VENDOR_AND_CPU,
             when=((rank, (3,)),), source=source, conflict="C9", note=nd),
    ]  # fmt: skip
    for axes, layout in ((4, "NCHW"), (5, "NCDHW")):
        name, when = f"{tensor}.format.{axes - 2}d", ((rank, (axes,)),)
        rows += [
            Rule(name, Stage.FORMAT, fact, OneOf((layout,)), products=CONV_VENDOR, when=when, source=source),
            Rule(f"{name}.cpu", Stage.FORMAT, fact, OneOf((layout, "ND")), products=CPU, when=when, source="here"),
        ]
    return tuple(rows)


_formats = (
    *(row for tensor in (*OPERANDS, "grad_input", "grad_weight") for row in _format_rows(tensor)),
    *(Rule(f"{tensor}.rank.same", Stage.FORMAT, f"{tensor}.rank", SameAs(f"{other}.rank"), products=VENDOR_AND_CPU,
           source="S2, error table, 161002: shapes", conflict="C9",
           note="the documents ask for one format, which the rank decides; the runtime looks at each format alone")
      for tensor, other in (("input", "grad_output"), ("weight", "input"))),
    Rule("grad_bias.format", Stage.FORMAT, "grad_bias.format", OneOf(("ND",)), products=CONV_VENDOR,
         conformance=DOCUMENT, source="S2, parameter table, grad_bias", conflict="C25",
         note="the host code does not look at it for transposed convolutions, nor on 910 and 310P"),
    Rule("grad_bias.format.host", Stage.FORMAT, "grad_bias.format", OneOf(("ND",)), products=A2_A3_950,
         conformance=RUNTIME, when=(PLAIN,), source="host, format check", conflict="C25"),
)  # fmt: skip

_sizes = tuple(
    row
    for tensor in (*OPERANDS, *OUTPUTS)
    for row in (
        Rule(f"{tensor}.sizes", Stage.SIZE, f"{tensor}.shape", Between(0, LARGEST_NUMBER),
             products=VENDOR_AND_CPU, source="here"),
        Rule(f"{tensor}.span", Stage.SIZE, f"{tensor}.span", Between(None, MOST_ELEMENTS), products=VENDOR_AND_CPU,
             source="here: counts and bytes fit 63 bits"),
    )
)  # fmt: skip

_values = (
    Rule("stride.positive", Stage.VALUE, "stride", Between(1), products=VENDOR_AND_CPU, source="S2, stride"),
    Rule("padding.pairs", Stage.VALUE, "padding.pairs", OneOf((False,)), products=CONV_VENDOR,
         source="here: the vendor's padding is a list of numbers"),
    Rule("padding.negative", Stage.VALUE, "padding", Between(0), products=VENDOR_AND_CPU, source="S2, padding"),
    Rule("dilation.positive", Stage.VALUE, "dilation", Between(1), products=VENDOR_AND_CPU, source="S2, dilation"),
    Rule("output_padding.plain", Stage.VALUE, "output_padding", Between(0, 0), products=VENDOR_AND_CPU, when=(PLAIN,),
         source="S2, outputPadding"),
    Rule("output_padding.negative", Stage.VALUE, "output_padding", Between(0), products=VENDOR_AND_CPU,
         when=(TRANSPOSED,), source="S2, outputPadding"),
    Rule("output_padding.below_stride", Stage.VALUE, "output_padding", Below("output_padding.limit"),
         products=CONV_VENDOR, when=(TRANSPOSED,), source="S2, outputPadding", conflict="C10",
         note="the host code compares with the stride in 3-D only"),
    Rule("output_padding.below_larger", Stage.VALUE, "output_padding", Below("output_padding.limit.cpu"),
         products=CPU, when=(TRANSPOSED,), source="here: as PyTorch on CPUs"),
    Rule("groups.positive", Stage.VALUE, "groups", Between(1), products=VENDOR_AND_CPU, source="S3, groups"),
    *(Rule(f"{a}.countable", Stage.VALUE, a, Between(None, LARGEST_NUMBER), products=VENDOR_AND_CPU,
           source="here: sums of sizes fit 63 bits") for a in ("stride", "padding", "dilation", "groups")),
)  # fmt: skip


def math_rows(vendor: tuple[str, ...], older: tuple[str, ...], everywhere: tuple[str, ...]) -> tuple[Rule, ...]:
    """cubeMathType by promoted dtype and product: the same for both operators."""
    recent = tuple(p for p in vendor if p not in older)
    return (
        Rule("math.range", Stage.MATH, "math", OneOf((0, 1, 2, 3)), products=everywhere, source="S2, cubeMathType"),
        Rule("math.float32.910", Stage.MATH, "math", OneOf((1, 2)), products=older,
             when=(("promoted", ("float32",)),), source="S3, cubeMathType 0 and 3",
             note="no float32 cube on these products"),
        Rule("math.bfloat16.fp16", Stage.MATH, "math", OneOf((0, 1, 3)), products=recent, conformance=DOCUMENT,
             when=(("promoted", ("bfloat16",)),), source="S3, cubeMathType 2", conflict="C5",
             note="the runtime accepts it with a warning and computes on float16 operands"),
    )  # fmt: skip


_math = math_rows(CONV_VENDOR, OLDER, VENDOR_AND_CPU)
_D1_D3 = ("dims", (1, 3))
_D2 = ("dims", (2,))

_shapes = (
    *(Rule(f"{t}.not_empty", Stage.SHAPE, f"{t}.shape", Between(1), products=OLDER, source="S3, " + t, conflict="C8",
           note="950, A3 and A2 take an empty input, and an empty weight together with it")
      for t in ("input", "weight")),
    Rule("empty.weight.sizes", Stage.SHAPE, "weight.shape", Between(1), products=A2_A3_950, conformance=DOCUMENT,
         when=(INPUT_FULL,), source="S2, weight limits", conflict="C27",
         note="the host code asks for it only when grad_input is wanted"),
    Rule("empty.weight.sizes.host", Stage.SHAPE, "weight.shape", Between(1), products=A2_A3_950, conformance=RUNTIME,
         when=(EMPTY, INPUT_FULL, ("want.input", (True,))), source="host, empty path", conflict="C27"),
    Rule("grad_output.not_empty", Stage.SHAPE, "grad_output.shape", Between(1), products=CONV_VENDOR,
         when=(FULL, INPUT_FULL), source="S2, gradOutput limits; tests", conflict="C8",
         note="S3: never empty; S2, UD: empty only together with an empty input"),
    Rule("grad_input.shape", Stage.SHAPE, "grad_input.shape", SameAs("input.shape"), products=VENDOR_AND_CPU,
         source="host, shape check"),
    Rule("grad_weight.shape", Stage.SHAPE, "grad_weight.shape", SameAs("weight.shape"), products=VENDOR_AND_CPU,
         source="host, shape check"),
    Rule("grad_bias.shape", Stage.SHAPE, "grad_bias.shape", SameAs("bias_sizes.expected"), products=VENDOR_AND_CPU,
         when=(FULL,), source="host, shape check"),
    Rule("stride.length", Stage.SHAPE, "stride.length", SameAs("dims"), products=VENDOR_AND_CPU, source="S2, stride"),
    Rule("dilation.length", Stage.SHAPE, "dilation.length", SameAs("dims"), products=VENDOR_AND_CPU,
         source="S2, dilation"),
    Rule("padding.length", Stage.SHAPE, "padding.length", SameAs("dims"), products=VENDOR_AND_CPU, when=(_D1_D3,),
         source="S2, padding"),
    Rule("padding.length.2d", Stage.SHAPE, "padding.length", OneOf((2, 4)), products=VENDOR_AND_CPU, when=(_D2,),
         source="S2, padding"),
    Rule("output_padding.length", Stage.SHAPE, "output_padding.length", SameAs("dims"), products=VENDOR_AND_CPU,
         when=(_D1_D3,), source="S2, outputPadding"),
    Rule("output_padding.length.2d", Stage.SHAPE, "output_padding.length", SameAs("dims"), products=VENDOR_AND_CPU,
         conformance=DOCUMENT, when=(_D2,), source="S2, outputPadding", conflict="C10",
         note="the runtime also takes 4 elements in 2-D"),
    Rule("output_padding.length.2d.host", Stage.SHAPE, "output_padding.length", OneOf((2, 4)),
         products=VENDOR_AND_CPU, conformance=RUNTIME, when=(_D2,), source="host, shape check", conflict="C10"),
    Rule("bias_sizes.length", Stage.SHAPE, "bias_sizes.length", OneOf((1,)), products=VENDOR_AND_CPU,
         conformance=DOCUMENT, source="S2, biasSizes", conflict="C4",
         note="the runtime ignores the length and the value unless a tensor is empty"),
    Rule("bias_sizes.value", Stage.SHAPE, "bias_sizes", SameAs("bias_sizes.expected"), products=VENDOR_AND_CPU,
         conformance=DOCUMENT, when=(FULL, ("want.bias", (True,))), source="S2, biasSizes", conflict="C4",
         note="tests pass [1] with other channel counts and expect success"),
    Rule("empty.bias_sizes.null", Stage.SHAPE, "bias_sizes", Present(), products=A2_A3_950, conformance=RUNTIME,
         when=(EMPTY, ("want.bias", (True,))), source="host, empty path; tests", conflict="C3",
         note="a null here is 161002, not 161001"),
    Rule("empty.bias_sizes.length", Stage.SHAPE, "bias_sizes.length", OneOf((1,)), products=A2_A3_950,
         conformance=RUNTIME, when=(EMPTY, ("want.bias", (True,))), source="host, empty path"),
    Rule("empty.bias_sizes.value", Stage.SHAPE, "bias_sizes", SameAs("bias_sizes.expected_when_empty"),
         products=A2_A3_950, conformance=RUNTIME, when=(EMPTY, ("want.bias", (True,))), source="host, empty path"),
    Rule("empty.input", Stage.SHAPE, "input.batch_or_channels", Between(0, 0), products=A2_A3_950,
         conformance=DOCUMENT, when=(INPUT_EMPTY,), source="S2, input limits", conflict="C27",
         note="a zero depth, height or width alone is not enough; the host code asks only when grad_input is wanted"),
    Rule("empty.input.host", Stage.SHAPE, "input.batch_or_channels", Between(0, 0), products=A2_A3_950,
         conformance=RUNTIME, when=(EMPTY, ("want.input", (True,))), source="host, empty path", conflict="C27"),
    Rule("empty.weight", Stage.SHAPE, "weight.first", Between(1), products=A2_A3_950, conformance=DOCUMENT,
         when=(INPUT_EMPTY,), source="S2, weight limits", conflict="C28",
         note="of an empty weight C, D, H and W may be 0; the host code looks at transposed calls only"),
    Rule("empty.weight.host", Stage.SHAPE, "weight.first", Between(1), products=A2_A3_950, conformance=RUNTIME,
         when=(EMPTY, TRANSPOSED), source="host, empty path", conflict="C28"),
)  # fmt: skip

_channels = (
    Rule("channels.plain.coarse", Stage.CHANNEL, "grad_output.channels", SameAs("weight.first"),
         products=VENDOR_AND_CPU, when=(FULL, PLAIN), source="host, channel check"),
    Rule("channels.transposed.coarse", Stage.CHANNEL, "input.channels", SameAs("weight.first"),
         products=VENDOR_AND_CPU, when=(TRANSPOSED,), source="S2, empty tensor limits; host, channel check"),
    Rule("channels.plain.fine", Stage.CHANNEL, "input.channels", SameAs("weight.fine_channels"),
         products=VENDOR_AND_CPU, when=(PLAIN,), source="S2, error table, 161002: groups"),
    Rule("channels.transposed.fine", Stage.CHANNEL, "grad_output.channels", SameAs("weight.fine_channels"),
         products=VENDOR_AND_CPU, when=(FULL, TRANSPOSED), source="host, channel check", conflict="C20",
         note="documents write input for both cases; for transposed it is grad_output that the groups divide"),
    Rule("empty.channels.transposed.fine", Stage.CHANNEL, "grad_output.channels", SameAs("weight.fine_channels"),
         products=A2_A3_950, conformance=RUNTIME, when=(EMPTY, TRANSPOSED, ("input.batch_zero", (False,))),
         source="host, empty path", conflict="C26"),
    Rule("channels.groups", Stage.CHANNEL, "weight.first", MultipleOf("groups"), products=VENDOR_AND_CPU,
         source="S2, error table, 161002: shapes", conflict="C12",
         note="the real stack lets it pass the host check and fails in the kernel (561103)"),
    Rule("batch", Stage.CHANNEL, "grad_output.batch", SameAs("input.batch"), products=VENDOR_AND_CPU, when=(FULL,),
         source="S2, error table, 161002: shapes", conflict="C12",
         note="the real stack lets it pass the host check and fails in the kernel (561103)"),
)  # fmt: skip

_SPATIAL_NOTE = "the host code checks 3-D only; 1-D and 2-D fail in the kernel (561103)"
_spatial = (
    Rule("spatial.plain", Stage.SPATIAL, "grad_output.size", SameAs("coarse.expected"), products=VENDOR_AND_CPU,
         when=(FULL, PLAIN), source="S2, output size formula", conflict="C12", note=_SPATIAL_NOTE),
    Rule("spatial.transposed", Stage.SPATIAL, "input.size", SameAs("coarse.expected"), products=VENDOR_AND_CPU,
         when=(FULL, TRANSPOSED, ("output_padding.reaches_stride", (False,))), source="S2, output size formula",
         conflict="C12", note=_SPATIAL_NOTE),
    Rule("spatial.transposed.beyond_stride", Stage.SPATIAL, "grad_output.size", SameAs("fine.expected"), products=CPU,
         when=(TRANSPOSED, ("output_padding.reaches_stride", (True,))), source="here: as PyTorch on CPUs"),
    Rule("empty.window", Stage.SPATIAL, "reach", UpTo("padded"), products=A2_A3_950, conformance=DOCUMENT,
         when=(INPUT_EMPTY, PLAIN), source="S2, formula one under the limits table"),
    Rule("empty.window.host", Stage.SPATIAL, "reach", UpTo("padded"), products=A2_A3_950, conformance=RUNTIME,
         when=(EMPTY, PLAIN), source="host, empty path",
         note="the host code doubles the wrong entries of a 4-element padding; the true sums are used here"),
    Rule("work.countable", Stage.SPATIAL, "work", Between(None, MOST_WORK), products=VENDOR_AND_CPU, when=(FULL,),
         source="here: counts fit 63 bits"),
)  # fmt: skip

_D3 = ("dims", (3,))
_C14_NOTE = "no document names it; tests of the public code expect it"
_C14_WHEN = (FULL, _D3, ("want.weight", (True,)), ("grouped", (True,)), ("grad_weight.dtype", ("float32",)))
_kernels = (
    Rule("dims.910", Stage.KERNEL, "dims", OneOf((1, 2)), products=OLDER, source="UD, product notes", conflict="C31",
         note="S2 and S3 speak of 3-D without naming products"),
    Rule("grouped_3d.math", Stage.KERNEL, "math", OneOf((0, 1, 3)), products=A2_A3, conformance=RUNTIME,
         when=_C14_WHEN, source="tests", conflict="C14", note=_C14_NOTE),
    Rule("grouped_3d.promoted", Stage.KERNEL, "promoted", OneOf(("float32",)), products=A2_A3, conformance=RUNTIME,
         when=_C14_WHEN, source="tests", conflict="C14", note=_C14_NOTE),
    Rule("eight_bit.plain.kernel", Stage.KERNEL, "eight_bit", OneOf((False,)), INNER, _ON_950, RUNTIME,
         when=(FULL, PLAIN, ("want.contraction", (True,))), source="kernels: no such dtype", conflict="C7"),
    Rule("eight_bit.bias.kernel", Stage.KERNEL, "grad_bias.eight_bit", OneOf((False,)), INNER, _ON_950, RUNTIME,
         when=(FULL, ("want.bias", (True,))), source="kernels: no such reduction", conflict="C7"),
)  # fmt: skip

_C13 = "documents put shapes under 161002 and values out of range under 561103; the host code checks neither"
_S2_LIMITS = "S2, limits table"


def _limit(
    name: str, fact: str, high: int, products: tuple[str, ...], when: tuple[Condition, ...], source: str,
    note: str = _C13,
) -> Rule:  # fmt: skip
    """An attribute out of its documented range ends inside the kernels, which the empty path does not reach."""
    return Rule(name, Stage.LIMIT, fact, Between(None, high), INNER, products, when=(FULL, *when), source=source,
                conflict="C13", note=note)  # fmt: skip


def _window_limit(
    name: str, products: tuple[str, ...], mode: Condition, source: str, note: str
) -> tuple[Rule, ...]:
    """A shape out of its documented range is refused by the document, and by the kernels."""
    common = {"stage": Stage.LIMIT, "fact": "window.hw", "must": Between(None, 255), "products": products}
    return (
        Rule(name, **common, conformance=DOCUMENT, when=(FULL, mode), source=source,  # type: ignore[arg-type]
             conflict="C13", note=note),
        Rule(f"{name}.kernel", **common, status=INNER, conformance=RUNTIME, when=(FULL, mode),  # type: ignore[arg-type]
             source=source, conflict="C13", note=note),
    )  # fmt: skip


_limits = (
    *_window_limit("limit.window.a2", A2_A3, PLAIN, _S2_LIMITS + ", weight",
                   "one revision has a second column that allows 511; the kernels take up to 511 too"),
    *_window_limit("limit.window.950", _ON_950, TRANSPOSED, "UD, limits table, weight",
                   "plain convolutions have no limit there; an older revision had 511 for them"),
    _limit("limit.stride.a2", "stride.hw", 63, A2_A3, (PLAIN, _D3), _S2_LIMITS + ", stride"),
    _limit("limit.padding.a2", "padding.hw", 255, A2_A3, (PLAIN,), _S2_LIMITS + ", padding"),
    _limit("limit.dilation.a2", "dilation", 255, A2_A3, (PLAIN,), _S2_LIMITS + ", dilation"),
    _limit("limit.groups", "groups", 65535, A2_A3_950, (), "S2, groups"),
    *(_limit(f"limit.{a}.d.950", f"{a}.d", 1_000_000, _ON_950, (TRANSPOSED, _D3), "UD, limits table, " + a)
      for a in ("stride", "padding", "dilation")),
    *(_limit(f"limit.{a}.hw.950", f"{a}.hw", INT_MAX_LESS_ONE, _ON_950, (TRANSPOSED,), "UD, limits table, " + a,
             "an older revision had 63 for strides and 255 for padding and dilation")
      for a in ("stride", "padding", "dilation")),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *_nulls, *_product, *_dtypes, *_eight_bit, *_formats, *_sizes, *_values, *_math, *_shapes, *_channels, *_spatial,
    *_kernels, *_limits,
)  # fmt: skip
