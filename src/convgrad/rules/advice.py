"""Rows: what an accepted call should know, and the known ways out of a refused one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, TensorSpec, pad_pairs, with_output
from convgrad.rules.facts import EIGHT_BIT_FLOATS, TENSORS, Facts
from convgrad.rules.vocabulary import Condition, Rule
from convgrad.text.language import Row


@dataclass(frozen=True, slots=True)
class Advice:
    """Said when every condition holds; `{name}` stands for the value of that fact."""

    when: tuple[Condition, ...]
    en: str
    zh: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A way out of the rows it names: what to do, and the change to the request where one can be written down."""

    rules: tuple[str, ...]
    """Ids; a `*` stands for anything at the beginning or the end."""
    en: str
    zh: str
    change: tuple[str, str] | None = None
    """(what, to what), read by `changed`."""

    def fits(self, rule: Rule) -> bool:
        return any(_matches(rule.id, pattern) for pattern in self.rules)


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("*"):
        return name.endswith(pattern[1:])
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


_SIXTEEN = ("float16", "bfloat16")

ADVICE: tuple[Advice, ...] = (
    Advice((("math", (3,)), ("promoted", _SIXTEEN)), "math 3 (USE_HF32) has no effect on {promoted}",
           "cubeMathType 3（USE_HF32）对 {promoted} 不起作用"),
    Advice((("math", (2,)), ("promoted", ("bfloat16",))),
           "math 2 (USE_FP16) on bfloat16 computes on float16 operands: values beyond 65504 become inf, and the "
           "documents do not support it",
           "bfloat16 使用 cubeMathType 2（USE_FP16）时按 float16 计算：超过 65504 的值变为 inf，且文档不支持该组合"),
    Advice((("math", (1, 2, 3)), ("promoted", (*EIGHT_BIT_FLOATS, "float64"))),
           "math {math} has no effect on {promoted}", "cubeMathType {math} 对 {promoted} 不起作用"),
    Advice((("bias_sizes.ignored", (True,)),), "bias_sizes is not [channels of grad_output]; the runtime ignores it",
           "biasSizes 不等于 [gradOutput 的 C]，运行时忽略该值"),
)  # fmt: skip

STRIDED_OUTPUT = Advice(
    (), "{name} is not contiguous: it is written where its strides say, which no document promises",
    "{name} 为非连续 Tensor：按其步长写入，文档未作保证",
)
"""Said by doors that know strides: no rule asks about them (C29)."""

FIXES: tuple[Fix, ...] = (
    Fix(("limit.window*", "tbc.limit.window*"),
        "split the window: cut the weight into windows of at most 255 along that axis, call once per piece on the part "
        "of the padded input it sees, add the grad_inputs, put the grad_weights side by side",
        "拆分卷积核：沿该轴把 weight 切成不超过 255 的若干段，对其可见的已填充 input 部分逐段调用，"
        "gradInput 相加，gradWeight 拼接"),
    Fix(("limit.window*",), "or run on a product without this limit", "或在没有该限制的产品上运行", ("product", "cpu")),
    Fix(("math.float32.910", "tbc.math.float32.910"),
        "choose math 1 (ALLOW_FP32_DOWN_PRECISION) or 2 (USE_FP16): both multiply float16 operands",
        "改用 cubeMathType 1（ALLOW_FP32_DOWN_PRECISION）或 2（USE_FP16）：二者均按 float16 计算", ("math", "1")),
    Fix(("math.bfloat16.fp16", "tbc.math.bfloat16.fp16"), "keep bfloat16: use math 0",
        "保持 bfloat16：使用 cubeMathType 0", ("math", "0")),
    Fix(("math.bfloat16.fp16", "tbc.math.bfloat16.fp16"), "or cast the tensors to float16 first",
        "或先将 Tensor 转为 float16", ("dtype", "float16")),
    Fix(("*.dtype.910",), "cast every tensor to float16 (float32 needs math 1 or 2 there)",
        "将所有 Tensor 转为 float16（该产品上 float32 需要 cubeMathType 1 或 2）", ("dtype", "float16")),
    Fix(("*.dtype.a2", "*.dtype.950"), "cast every tensor to float32, float16 or bfloat16",
        "将所有 Tensor 转为 float32、float16 或 bfloat16", ("dtype", "float32")),
    Fix(("*.dtype.tie", "*.dtype.tie.host"), "give every output the dtype of its own tensor, and cast afterwards",
        "输出使用对应 Tensor 的数据类型，之后再转换", ("outputs", "follow")),
    Fix(("tbc.input.dtype.same", "tbc.weight.dtype.same", "tbc.bias.dtype.same"), "cast every tensor to one dtype",
        "将所有 Tensor 转为同一数据类型", ("dtype", "float32")),
    Fix(("dims.910",), "fold the depth into the batch where window, stride and dilation of the depth are 1 and its "
        "padding 0 (a 2-D call); otherwise run on A2, A3 or 950",
        "当 D 轴的卷积核、步长、膨胀均为 1 且填充为 0 时，可将 D 并入 N 做 2D 调用；否则请在 A2、A3 或 950 上运行",
        ("product", "A2")),
    Fix(("padding.length",), "four numbers are a 2-D form: here pad the tensor yourself, then pass padding 0 and cut "
        "the same borders off grad_input",
        "4 个数只用于 2D：此处请先显式填充 Tensor，padding 传 0，再从 gradInput 裁去同样的边界"),
    Fix(("padding.length", "padding.length.2d"), "or give one number per spatial axis", "或每个空间轴给一个数",
        ("padding", "first")),
    Fix(("padding.pairs",), "in 2-D write four numbers: top, bottom, left, right", "2D 时写成 4 个数：上、下、左、右",
        ("padding", "flat")),
    Fix(("product", "tbc.product"), "run on a product that has the operator", "在支持该算子的产品上运行",
        ("product", "A2")),
    Fix(("null.bias_sizes", "bias_sizes.*", "empty.bias_sizes*"), "pass [channels of the bias], one number",
        "传入 [bias 的通道数]，一个数", ("bias_sizes", "channels")),
    Fix(("*.format.1d", "*.format.2d", "*.format.3d", "*.format.1d.cpu", "*.format.2d.cpu", "*.format.3d.cpu"),
        "permute to channels first and label the tensors NCL, NCHW or NCDHW by rank",
        "转置为通道在前，并按维数标为 NCL、NCHW 或 NCDHW", ("format", "by rank")),
    Fix(("grad_input.shape", "grad_weight.shape", "grad_bias.shape", "tbc.grad_input.shape", "tbc.grad_weight.shape",
         "tbc.grad_bias.shape"), "allocate every output with the shape of its own tensor",
        "按对应 Tensor 的 shape 分配输出", ("outputs", "follow")),
    Fix(("spatial.plain",), "give grad_output the size the formula gives", "使 gradOutput 的尺寸等于公式结果",
        ("grad_output", "follow")),
    Fix(("spatial.transposed", "spatial.transposed.beyond_stride"),
        "give grad_output the size (input - 1)*stride - pads + dilation*(window-1) + 1 + output_padding",
        "使 gradOutput 的尺寸等于 (input - 1)*stride - pads + dilation*(window-1) + 1 + outputPadding",
        ("grad_output", "follow")),
    Fix(("output_padding.plain",), "output_padding belongs to transposed convolutions: pass zeros",
        "outputPadding 只用于转置卷积：传 0", ("output_padding", "zero")),
    Fix(("output_padding.below_stride", "output_padding.negative"), "keep every output_padding in [0, stride)",
        "outputPadding 每个值须在 [0, stride) 内", ("output_padding", "zero")),
    Fix(("output_padding.below_larger",), "keep every output_padding below the stride or below the dilation",
        "outputPadding 每个值须小于 stride 或小于 dilation", ("output_padding", "zero")),
    Fix(("grouped_3d.math",), "use math 0, 1 or 3 with float32 tensors", "float32 Tensor 请使用 cubeMathType 0、1 或 3",
        ("math", "0")),
    Fix(("grouped_3d.promoted",), "make grad_weight's dtype that of weight, and cast afterwards",
        "使 gradWeight 与 weight 同数据类型，之后再转换", ("outputs", "follow")),
    Fix(("limit.stride.a2", "limit.padding.a2", "limit.dilation.a2", "limit.groups"),
        "run on a product without this limit, or rewrite the layer: a padding beyond 255 by padding the tensor, groups "
        "beyond 65535 by one call per block of channels",
        "在没有该限制的产品上运行，或改写该层：padding 超过 255 时先显式填充，groups 超过 65535 时按通道分块调用",
        ("product", "cpu")),
    Fix(("tbc.pad", "tbc.limit.pad.kernel"), "pad the tensor along T yourself and pass pad 0",
        "先在 T 轴上显式填充，pad 传 0"),
)  # fmt: skip


def rows_of_text() -> Iterator[Row]:
    """Every advice and way out in both languages, with gaps for the values."""
    for english, chinese in [(a.en, a.zh) for a in (*ADVICE, STRIDED_OUTPUT)] + [(fix.en, fix.zh) for fix in FIXES]:
        names = re.findall(r"\{(\w+)\}", english)
        places = {name: f"{{{i}}}" for i, name in enumerate(names)}
        yield english.format_map(dict.fromkeys(names, "{}")), chinese.format_map(places)


def advice_for(facts: Facts, language: str = "en") -> tuple[str, ...]:
    """What an accepted call should know."""
    spoken = [a for a in ADVICE if all(facts[name] in values for name, values in a.when)]
    return tuple(getattr(a, language).format(**{n: facts[n] for n, _ in a.when}) for a in spoken)


def known_fixes(rule: Rule) -> tuple[Fix, ...]:
    """Every row of `FIXES` for a broken rule."""
    return tuple(fix for fix in FIXES if fix.fits(rule))


def fixes_for(rule: Rule, language: str = "en") -> tuple[str, ...]:
    """Known ways out of a refusal, in words."""
    return tuple(getattr(fix, language) for fix in known_fixes(rule))


def changed(request: Request, change: tuple[str, str]) -> Request:
    """The request after a fix; the same one where the change does not apply."""
    what, value = change
    if what == "math":
        return replace(request, math=int(value))
    if what == "product":
        return replace(request, product=value)
    if what in ("dtype", "format"):
        tensors: dict[str, Any] = {name: _retyped(getattr(request, name), what, value) for name in TENSORS}
        return replace(request, **tensors)
    if what == "outputs":
        return _with_outputs(request)
    if what == "grad_output":
        return _with_outputs(_with_grad_output(request))
    if what == "bias_sizes":
        channels = Facts(request)["bias_sizes.expected_when_empty"]
        return replace(request, bias_sizes=channels) if isinstance(channels, tuple) else request
    if what == "output_padding":
        return replace(request, output_padding=(0,) * len(request.output_padding or ()))
    return _with_padding(request, value)


def _retyped(spec: TensorSpec | None, what: str, value: str) -> TensorSpec | None:
    if spec is None:
        return None
    if what == "dtype":
        return replace(spec, dtype=value)
    return replace(spec, format=FORMAT_BY_RANK.get(spec.rank, "ND"))


def _with_outputs(r: Request) -> Request:
    x, w, go = r.input, r.weight, r.grad_output
    if x is None or w is None or go is None or go.rank < 2:
        return r
    bias = r.bias if r.operator is Operator.TBC else TensorSpec((go.shape[1],), go.dtype, "ND")
    return replace(
        r, grad_input=r.grad_input and x, grad_weight=r.grad_weight and w, grad_bias=r.grad_bias and bias
    )


def _with_grad_output(r: Request) -> Request:
    if r.grad_output is None:
        return r
    if r.transposed:
        return replace(r, grad_output=with_output(r).grad_output)
    size = Facts(r)["coarse.expected"]
    if not isinstance(size, tuple) or any(n < 0 for n in size):
        return r
    return replace(r, grad_output=replace(r.grad_output, shape=(*r.grad_output.shape[:2], *size)))


def _with_padding(r: Request, how: str) -> Request:
    dims = Facts(r)["dims"]
    if r.padding is None or not isinstance(dims, int):
        return r
    if how == "flat":
        pairs = pad_pairs(r.padding, dims)
        return replace(r, padding=tuple(n for pair in pairs for n in pair)) if pairs and dims == 2 else r
    numbers = tuple(p for p in r.padding if isinstance(p, int))
    return _with_outputs(_with_grad_output(replace(r, padding=(*numbers, *(0,) * dims)[:dims])))


