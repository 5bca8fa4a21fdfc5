"""Rows: what an accepted call should know, and the known ways out of a refused one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convgrad.rules.facts import Facts
from convgrad.rules.vocabulary import LANGUAGES, Rule


@dataclass(frozen=True, slots=True)
class Advice:
    """Said when every condition holds; `{name}` stands for the value of that fact."""

    when: tuple[tuple[str, tuple[Any, ...]], ...]
    en: str
    zh: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A way out of the rows it names: what to do, and the change to the call where one problem line can say it."""

    rules: tuple[str, ...]
    """Ids, or beginnings of ids that end in `*`."""
    en: str
    zh: str
    change: str = ""
    """Words to put on the problem line."""

    def fits(self, rule: Rule) -> bool:
        return any(rule.id.startswith(r[:-1]) if r.endswith("*") else rule.id == r for r in self.rules)


_SIXTEEN = ("float16", "bfloat16")
_EIGHT = ("hifloat8", "float8_e4m3fn", "float8_e5m2")

ADVICE: tuple[Advice, ...] = (
    Advice((("math", (3,)), ("promoted", _SIXTEEN)), "math 3 (USE_HF32) has no effect on {promoted}",
           "cubeMathType 为 3（USE_HF32）对 {promoted} 不起作用"),
    Advice((("math", (2,)), ("promoted", ("bfloat16",))),
           "math 2 (USE_FP16) on bfloat16 computes on float16 operands: values beyond 65504 become inf; "
           "the documents do not support it",
           "bfloat16 使用 cubeMathType 2（USE_FP16）时按 float16 计算：超过 65504 的值变为 inf；文档不支持该组合"),
    Advice((("math", (1, 2, 3)), ("promoted", _EIGHT)), "math {math} has no effect on {promoted}",
           "cubeMathType 为 {math} 对 {promoted} 不起作用"),
    Advice((("math", (1, 2, 3)), ("promoted", ("float64",))), "math {math} has no effect on float64",
           "cubeMathType 为 {math} 对 float64 不起作用"),
)  # fmt: skip

FIXES: tuple[Fix, ...] = (
    Fix(("limit.window*", "tbc.limit.window*"),
        "split the window: slice the weight into windows of at most 255, run one call per slice on the matching part "
        "of the padded input, add the grad_inputs and put the grad_weights side by side",
        "拆分卷积核：把 weight 切成不超过 255 的若干段，对填充后 input 的相应部分逐段调用，"
        "gradInput 相加，gradWeight 拼接"),
    Fix(("math.float32.910", "tbc.math.float32.910"),
        "choose math 1 (ALLOW_FP32_DOWN_PRECISION) or 2 (USE_FP16): both compute on float16 operands",
        "改用 cubeMathType 1（ALLOW_FP32_DOWN_PRECISION）或 2（USE_FP16），二者均按 float16 计算", "math=allow_down"),
    Fix(("math.bfloat16.fp16", "tbc.math.bfloat16.fp16"),
        "keep bfloat16 with math 0, or cast the tensors to float16 first",
        "bfloat16 请使用 cubeMathType 0，或先将 Tensor 转为 float16", "math=keep"),
    Fix(("dims.910",),
        "turn depth into batch where the window's depth is 1 and its stride 1; else run on A2, A3 or 950",
        "卷积核深度与步长均为 1 时可将 D 并入 N；否则请在 A2、A3 或 950 上运行", "on=A2"),
    Fix(("padding.length",),
        "pad the tensor first and pass the symmetric part: only 2-D takes 4 numbers (top, bottom, left, right)",
        "先对 Tensor 显式填充，再传对称部分：只有 2D 接受 4 个数（上、下、左、右）"),
)  # fmt: skip


def _meets(facts: Facts, when: tuple[tuple[str, tuple[Any, ...]], ...]) -> bool:
    return all(facts[name] in values for name, values in when)


def advice_for(facts: Facts, language: str = "en") -> tuple[str, ...]:
    """What an accepted call should know."""
    spoken = (a for a in ADVICE if _meets(facts, a.when))
    return tuple(getattr(a, language).format(**{n: facts[n] for n, _ in a.when}) for a in spoken)


def fixes_for(rule: Rule, facts: Facts, language: str = "en") -> tuple[str, ...]:
    """Known ways out of a refusal."""
    assert language in LANGUAGES
    return tuple(getattr(f, language) for f in FIXES if f.fits(rule))
