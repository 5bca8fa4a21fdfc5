"""A row in words. Condition and sentence cannot part: both are read from the row.

    sentence   subject + demand + guard                                "stride must be in [1, 63] when ..."
    message    subject + demand + other value + guard + "; got" value   the same pieces the C side prints
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from convgrad.core.request import Operator
from convgrad.rules.facts import FACTS, Facts
from convgrad.rules.vocabulary import LANGUAGES, Rule, say_value
from convgrad.text.language import Row

# How a condition is said; any other condition is said as "when <fact> is <values>".
_PHRASES: dict[tuple[str, tuple[object, ...]], tuple[str, str]] = {
    ("transposed", (False,)): ("in a plain convolution", "普通卷积时"),
    ("transposed", (True,)): ("in a transposed convolution", "转置卷积时"),
    ("empty_path", (False,)): ("", ""),
    ("empty_path", (True,)): ("when input or weight is empty", "input 或 weight 为空 Tensor 时"),
    ("input.empty", (False,)): ("when input is not empty", "input 不为空 Tensor 时"),
    ("input.empty", (True,)): ("when input is empty", "input 为空 Tensor 时"),
    ("eight_bit", (True,)): ("when a tensor is an 8-bit float", "存在 8 位浮点 Tensor 时"),
    ("weight.eight_bit", (False,)): ("", ""),
    ("want.input", (True,)): ("when grad_input is wanted", "需要 gradInput 时"),
    ("want.input", (False,)): ("when grad_input is not wanted", "不需要 gradInput 时"),
    ("want.weight", (True,)): ("when grad_weight is wanted", "需要 gradWeight 时"),
    ("want.bias", (True,)): ("when grad_bias is wanted", "需要 gradBias 时"),
    ("want.contraction", (True,)): ("when grad_input or grad_weight is wanted", "需要 gradInput 或 gradWeight 时"),
    ("grouped", (True,)): ("with groups above 1", "groups 大于 1 时"),
    ("input.batch_zero", (False,)): ("when the batch is not zero", "N 不为 0 时"),
    ("forward", (False,)): ("", ""),
    ("output_padding.reaches_stride", (False,)): ("", ""),
    ("output_padding.reaches_stride", (True,)): (
        "whose output_padding reaches the stride", "outputPadding 达到 stride 时"),
    ("dims", (1, 3)): ("in 1-D and 3-D", "1D 和 3D 时"),
    ("dims", (2,)): ("in 2-D", "2D 时"),
    ("dims", (3,)): ("in 3-D", "3D 时"),
}


_SELF = re.compile(r"\bgrad_output\b")


def with_vendor_names(operator: Operator, text: str) -> str:
    """A text with the parameter names of the vendor's call: TBC calls its grad_output `self`."""
    return _SELF.sub("self", text) if operator is Operator.TBC else text


def subject(rule: Rule, language: str = "en") -> str:
    return FACTS[rule.fact].words[LANGUAGES.index(language)]


def demand(rule: Rule, language: str = "en") -> str:
    """What is asked; another fact is named in words."""
    words = rule.must.say(language)
    if rule.other is None:
        return words
    fine = "grad_output" if ("transposed", (True,)) in rule.when else "input"
    return words.format(FACTS[rule.other].words[LANGUAGES.index(language)].replace("{fine}", fine))


def guard(rule: Rule, language: str = "en") -> str:
    """Under which conditions; empty when there are none worth saying."""
    index = LANGUAGES.index(language)
    phrases = []
    for fact, values in rule.when:
        known = _PHRASES.get((fact, values))
        if known is None:
            options = (" or ", " 或 ")[index].join(say_value(v) for v in values)
            name = FACTS[fact].words[index]
            known = (f"when {name} is {options}", f"{name} 为 {options} 时")
        if known[index]:
            phrases.append(known[index])
    return (" " if language == "en" else "，").join(phrases)


def sentence(rule: Rule, language: str = "en") -> str:
    """The row as one sentence, without any request."""
    body = f"{subject(rule, language)} {demand(rule, language)}".rstrip(" =")
    condition = guard(rule, language)
    if language == "zh":
        return _spaced(f"{condition}，{body}" if condition else body)
    return f"{body} {condition}" if condition else body


def pieces(rule: Rule) -> tuple[str, str]:
    """The message without its values: `first [other value] second value` (English; the C side prints these)."""
    first = f"{subject(rule)} {demand(rule)}"
    condition = guard(rule)
    return first + (" " if rule.other else ""), (f" {condition}" if condition else "") + "; got "


def message(rule: Rule, facts: Facts) -> str:
    """The row, and what this request gave instead."""
    first, second = pieces(rule)
    other = say_value(facts[rule.other]) if rule.other else ""
    return first + other + second + say_value(facts[rule.fact])


def message_zh(rule: Rule, facts: Facts) -> str:
    """The same in Chinese."""
    return _message_zh(rule, say_value(facts[rule.other]) if rule.other else "", say_value(facts[rule.fact]))


def _message_zh(rule: Rule, other: str, value: str) -> str:
    condition = guard(rule, "zh")
    beside = f"（{other}）" if rule.other else ""
    body = f"{subject(rule, 'zh')} {demand(rule, 'zh').rstrip(' =')}{beside}"
    return _spaced(f"{condition + '，' if condition else ''}{body}") + f"；实际为 {value}"


_WITHOUT_SPACE = re.compile("(?<=[一-鿿）]) (?=[一-鿿])")
_WITH_SPACE = re.compile(r"(?<=[一-鿿])(?=[A-Za-z\[])|(?<=[A-Za-z\]])(?=[一-鿿])")


def _spaced(text: str) -> str:
    """Chinese put together from words: a space beside Latin letters, none between its own characters."""
    return _WITH_SPACE.sub(" ", _WITHOUT_SPACE.sub("", text))


def rows_of_text(rule: Rule) -> Iterator[Row]:
    """Message and sentence of a rule in both languages, with gaps for the values."""
    first, second = pieces(rule)
    english = first + ("{}" if rule.other else "") + second + "{}"
    chinese = _message_zh(rule, "{0}", "{1}" if rule.other else "{0}")
    yield english, chinese
    yield with_vendor_names(Operator.TBC, english), chinese
    yield sentence(rule), sentence(rule, "zh")


def as_dict(rule: Rule) -> dict[str, Any]:
    """One row for machines; nothing in it is code."""
    return {
        "id": rule.id, "stage": rule.stage.value, "fact": rule.fact,
        "must": {"demand": type(rule.must).__name__, **asdict(rule.must)}, "status": int(rule.status),
        "products": list(rule.products), "conformance": rule.conformance.value,
        "when": [[fact, list(values)] for fact, values in rule.when], "source": rule.source, "note": rule.note,
        "conflict": rule.conflict, "sentence": sentence(rule), "sentence_zh": sentence(rule, "zh"),
    }  # fmt: skip
