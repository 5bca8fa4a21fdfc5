"""`explain`: a verdict a person understands in ten seconds, and what the neighbours say to the same call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from convgrad.core import products
from convgrad.core.arguments import told
from convgrad.core.request import CONFORMANCES, Request
from convgrad.rules import sentences
from convgrad.rules.advice import advice_for, changed, known_fixes
from convgrad.rules.check import Verdict, applies, broken_rows, check, first_broken, rows_for
from convgrad.rules.contradictions import BY_ID, note_words, source_words
from convgrad.rules.facts import Facts
from convgrad.rules.vocabulary import Rule, Stage, say_value
from convgrad.text import terminal
from convgrad.text.fragment import entries, fragment, headline

_COLUMNS = 96
"""Columns of text beside the labels, where no terminal says how many there are."""
_WORDS = {
    "ACCEPTED": "接受", "REFUSED": "拒绝", "reason": "原因", "rule": "规则",
    "source": "出处", "sources disagree": "出处不一致", "elsewhere": "其他产品", "note": "提示", "to fix": "修改办法",
    "then": "修改后", "then still refused": "之后仍被拒绝", "reproduce": "复现", "accepted": "接受",
    "the same": "相同", "forward pass": "前向计算", "read": "参阅",
}  # fmt: skip
_RULES_PAGE = ("docs/generated/rules.md", "docs/generated/rules.md")
_LAW_PAGE = ("docs/concepts.md", "docs/concepts.md")
PAGES: dict[Stage, tuple[str, str]] = {
    Stage.NULL: ("docs/two_phase_calls.md", "docs/two_phase_calls.zh-CN.md"),
    Stage.PRODUCT: ("docs/contract.md", "docs/contract.md"),
    Stage.DTYPE: ("docs/generated/promotion.md", "docs/generated/promotion.md"),
    Stage.FORMAT: ("docs/data_formats.md", "docs/data_formats.zh-CN.md"),
    Stage.MATH: ("docs/generated/precision.md", "docs/generated/precision.md"),
    Stage.SIZE: _LAW_PAGE, Stage.VALUE: _LAW_PAGE, Stage.SHAPE: _LAW_PAGE, Stage.CHANNEL: _LAW_PAGE,
    Stage.SPATIAL: _LAW_PAGE, Stage.KERNEL: _RULES_PAGE, Stage.LIMIT: _RULES_PAGE,
}  # fmt: skip
"""The page that explains what a row looks at, in English and in Chinese where it exists."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way out: what to do, and the changed call with its verdict, where one line can say it."""

    text: str
    line: str = ""
    accepted: bool = False
    next_refusal: str = ""
    """What refuses the changed call, when something else does."""


Entry = tuple[str, tuple[str, ...], bool]
"""A label, its texts, and whether they may be folded."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Everything worth knowing about one verdict."""

    verdict: Verdict
    language: str
    ways: tuple[Way, ...]
    other_conformance: Verdict
    other_products: tuple[Verdict, ...]

    def __repr__(self) -> str:
        return f"<Explanation {self.verdict.said}: {self.verdict.line}>"

    def __str__(self) -> str:
        lines = [*terminal.fold(self._headline(), terminal.columns()), ""]
        for word, texts, wrapped in self._entries():
            lines += self._entry(word, *texts, wrapped=wrapped)
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        """What a notebook shows: the same entries as a table."""
        word = "accepted" if self.verdict.ok else "refused"
        rows = [(self._word(label) if label else "", texts) for label, texts, _ in self._entries()]
        _, _, told = self._headline().partition(" ")
        head = headline(word, self._word(word.upper()).lower(), told, self.verdict.line)
        return fragment(head, entries(rows))

    def _entries(self) -> Iterator[Entry]:
        v = self.verdict
        if v.rule is not None:
            yield "reason", (_message(v, self.language),), True
            yield "rule", (v.rule_id,), True
            yield "source", (source_words(v.rule.source, self.language),), True
            if v.rule.conflict and self.language == "en":
                note = note_words(v.rule.note) or BY_ID[v.rule.conflict].topic
                yield "sources disagree", (f"{v.rule.conflict}: {note}",), True
        else:
            for text in advice_for(Facts(v.request), self.language):
                yield "note", (text,), True
        yield "elsewhere", tuple(self._neighbours()), True
        for number, way in enumerate(self.ways, start=1):
            text = f"{number}. {way.text}" if len(self.ways) > 1 else way.text
            yield "to fix" if number == 1 else "", (text,), True
            if way.accepted:
                yield "", (f"{self._word('then')}: {way.line}",), False
            elif way.next_refusal:
                yield "", (f"{self._word('then still refused')}: {way.next_refusal}",), True
        if v.rule is not None:
            yield "read", (PAGES[v.rule.stage][self.language == "zh"],), False
        yield "reproduce", (v.line,), False

    def _word(self, word: str) -> str:
        return word if self.language == "en" else _WORDS[word]

    def _entry(self, word: str, *texts: str, wrapped: bool = True) -> list[str]:
        """A label and its text, folded to what a terminal shows; problem lines stay whole, to be pasted."""
        label = self._word(word) if word else ""
        width = 17 if self.language == "en" else 11
        seen = terminal.columns()
        if not wrapped:
            folded = list(texts)
        elif seen is None:
            plain = _COLUMNS if self.language == "en" else _COLUMNS * 2 // 3
            folded = [part for text in texts for part in wrap(text, plain)]
        else:
            folded = [part for text in texts for part in terminal.fold(text, min(_COLUMNS, seen - width - 3))]
        labels = [terminal.padded(label, width), *[" " * width] * (len(folded) - 1)]
        return [f"  {left} {right}" for left, right in zip(labels, folded, strict=False)]

    def _headline(self) -> str:
        v, r = self.verdict, self.verdict.request
        word = self._word("ACCEPTED" if v.ok else "REFUSED")
        operator = r.operator.function if not r.forward else self._word("forward pass")
        if self.language == "zh":
            return f"{word} {int(v.status)} {v.status.name}：{operator}，产品 {r.product}，{r.conformance} 一致性"
        return f"{word} {int(v.status)} {v.status.name}: {operator} on {r.product}, {r.conformance} conformance"

    def _neighbours(self) -> list[str]:
        v = self.verdict
        texts = []
        if not _same(self.other_conformance, v):
            texts.append(f"{self.other_conformance.request.conformance}: {self._short(self.other_conformance)}")
        groups: dict[str, list[str]] = {}
        for other in self.other_products:
            text = self._word("the same") if _same(other, v) else self._short(other)
            groups.setdefault(text, []).append(other.request.product)
        return texts + [f"{', '.join(keys)}: {text}" for text, keys in groups.items()]

    def _short(self, v: Verdict) -> str:
        return self._word("accepted") if v.ok else f"{int(v.status)} {v.rule_id}"

    def as_dict(self) -> dict[str, Any]:
        """The same for machines."""
        v = self.verdict
        found = _verdict_dict(v)
        if v.rule is not None:
            found |= {
                "source": source_words(v.rule.source), "conflict": v.rule.conflict, "note": v.rule.note,
                "message_zh": sentences.message_zh(v.rule, Facts(v.request)),
            }  # fmt: skip
        return found | {
            "also_broken": [rule.id for rule in broken_rows(Facts(v.request))[1:]],
            "ways": [
                {"text": w.text, "line": w.line, "accepted": w.accepted, "next_refusal": w.next_refusal}
                for w in self.ways
            ],
            "other_conformance": _verdict_dict(self.other_conformance),
            "other_products": [_verdict_dict(o) for o in self.other_products],
        }


def _same(a: Verdict, b: Verdict) -> bool:
    return (a.status, a.rule_id) == (b.status, b.rule_id)


def _verdict_dict(v: Verdict) -> dict[str, Any]:
    return {
        "status": int(v.status), "name": v.status.name, "product": v.request.product,
        "conformance": v.request.conformance, "rule": v.rule_id, "value": say_value(v.value) if v.rule else None,
        "message": v.message, "advice": list(v.advice), "line": v.line,
    }  # fmt: skip


def explain(request: Request, language: str = "en") -> Explanation:
    """The verdict on a request, why, what other products and the other conformance say, and ways out."""
    if not isinstance(language, str) or language not in ("en", "zh"):
        raise ValueError(f"unknown language {told(language)}: use en or zh")
    verdict = check(request)
    request = verdict.request
    ways = tuple(_ways(verdict.rule, request, language)) if verdict.rule else ()
    other = next(c for c in CONFORMANCES if c != request.conformance)
    return Explanation(
        verdict, language, ways, check(replace(request, conformance=other)),
        tuple(check(replace(request, product=key)) for key in products.KEYS if key != request.product),
    )  # fmt: skip


def _ways(rule: Rule, request: Request, language: str) -> list[Way]:
    """Fixes in words, with the changed call: its line when accepted, else what refuses it next."""
    ways = []
    for fix in known_fixes(rule):
        text = getattr(fix, language)
        after = check(changed(request, fix.change)) if fix.change else None
        if after is None or after.rule is rule:
            ways.append(Way(text))
        else:
            refusal = "" if after.rule is None else f"{_message(after, language)} [{after.rule_id}]"
            ways.append(Way(text, after.line, after.ok, refusal))
    return ways


def _message(verdict: Verdict, language: str) -> str:
    if verdict.rule is None or language == "en":
        return verdict.message
    return sentences.message_zh(verdict.rule, Facts(verdict.request))


def walk(request: Request) -> list[tuple[str, Rule, str]]:
    """Every row of the request's product: (`ok`, `NO` or `-`, the row, what was got); it ends at the first NO."""
    facts = Facts(request)
    decisive = first_broken(facts)
    steps = []
    for rule in rows_for(request.operator, request.product, request.conformance, request.forward):
        if rule is decisive:
            steps.append(("NO", rule, say_value(facts[rule.fact])))
            break
        steps.append(("ok" if applies(rule, facts) else "-", rule, ""))
    return steps
