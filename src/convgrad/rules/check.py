"""`check`: the whole checker is one loop over the rows; the first broken one gives the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from convgrad.core import products
from convgrad.core.request import CONFORMANCES, Operator, Request
from convgrad.core.status import Status
from convgrad.rules import advice, conv_tbc_backward, convolution_backward, sentences
from convgrad.rules.advice import advice_for, fixes_for
from convgrad.rules.facts import FACTS, Facts
from convgrad.rules.vocabulary import Condition, Rule, Stage, Value
from convgrad.text import language
from convgrad.text.fragment import entries, fragment, headline

RULES: dict[Operator, tuple[Rule, ...]] = {
    Operator.CONV: convolution_backward.RULES,
    Operator.TBC: conv_tbc_backward.RULES,
}
ALL_RULES: tuple[Rule, ...] = tuple(rule for rows in RULES.values() for rule in rows)
BY_ID: dict[str, Rule] = {rule.id: rule for rule in ALL_RULES}


Unpacked = tuple[Rule, str, Callable[[Value, Value], bool], str | None, tuple[Condition, ...]]


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """What the contract says to a request."""

    request: Request
    status: Status = Status.SUCCESS
    rule: Rule | None = None
    """The first broken row."""
    value: Value = None
    """What was got where the row asked for something else."""
    message: str = ""
    """The row in words, with the value."""
    advice: tuple[str, ...] = ()
    """Warnings for an accepted call, ways out for a refused one."""

    @property
    def ok(self) -> bool:
        return self.status is Status.SUCCESS

    @property
    def rule_id(self) -> str:
        return self.rule.id if self.rule else ""

    @property
    def vendor_message(self) -> str:
        """The message with the parameter names of the vendor's call, as the two-phase doors say it."""
        return sentences.with_vendor_names(self.request.operator, self.message)

    @property
    def line(self) -> str:
        """The problem line that reproduces it."""
        return str(self.request)

    @property
    def said(self) -> str:
        """The verdict in a few words."""
        return "accepted" if self.ok else f"refused, {int(self.status)} {self.rule_id}"

    def __repr__(self) -> str:
        return f"<Verdict {self.said}: {self.line}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the status, the line, and the row that decides with the ways out of it."""
        word = "accepted" if self.ok else "refused"
        r = self.request
        told = f"{int(self.status)} {self.status.name} on {r.product}, {r.conformance} conformance"
        rows = [] if self.rule is None else [("reason", [self.message]), ("rule", [self.rule_id])]
        rows += [("note" if self.ok else "to fix", [text]) for text in self.advice]
        return fragment(headline(word, word, told, self.line), entries(rows))


@cache
def rows_for(operator: Operator, product: str, conformance: str, forward: bool = False) -> tuple[Rule, ...]:
    """The rows that concern a product, in order.

    No document speaks of the forward pass: it obeys the cpu rows, and the product's own math types. Its output follows
    from its operands, so that of every stage rows about these come first.
    """

    def concerns(rule: Rule) -> bool:
        if not rule.conformance.covers(conformance):
            return False
        if forward and "cpu" in rule.products:
            return True
        return product in rule.products and (not forward or rule.stage is Stage.MATH)

    rows = [rule for rule in RULES[operator] if concerns(rule)]
    if forward:
        stages = list(dict.fromkeys(rule.stage for rule in rows))
        rows.sort(key=lambda rule: (stages.index(rule.stage), rule.fact.startswith("grad_output.")))
    return tuple(rows)


def applies(rule: Rule, facts: Facts) -> bool:
    """Whether the row's conditions are met."""
    return all(facts[name] in values for name, values in rule.when)


def broken_rows(facts: Facts) -> list[Rule]:
    """Every broken row, the first one first (later ones may follow from it)."""
    return [rule for rule in _rows(facts.request) if applies(rule, facts) and not _holds(rule, facts)]


def _holds(rule: Rule, facts: Facts) -> bool:
    other = rule.other
    return rule.must.holds(facts[rule.fact], facts[other] if other else None)


def _rows(request: Request) -> tuple[Rule, ...]:
    return rows_for(request.operator, request.product, request.conformance, request.forward)


def first_broken(facts: Facts) -> Rule | None:
    """The row that decides; `None` when every row holds."""
    r = facts.request
    # The same as `applies` and `_holds`, written out: files of thirty thousand cases pass through here.
    for rule, fact, holds, other, when in _unpacked(r.operator, r.product, r.conformance, r.forward):
        for name, values in when:
            if facts[name] not in values:
                break
        else:
            if not holds(facts[fact], facts[other] if other else None):
                return rule
    return None


@cache
def _unpacked(operator: Operator, product: str, conformance: str, forward: bool) -> tuple[Unpacked, ...]:
    rows = rows_for(operator, product, conformance, forward)
    return tuple((rule, rule.fact, rule.must.holds, rule.other, rule.when) for rule in rows)


def check(request: Request) -> Verdict:
    """The verdict on a request: its status, the row that decides, what was got, and advice.

    It never raises, whatever was asked; only a product or conformance that does not exist is a ValueError, and what is
    no Request at all a TypeError.
    """
    if not isinstance(request, Request):
        hint = "; Request.parse reads a problem line" if isinstance(request, str) else ""
        raise TypeError(f"a Request is wanted, not {type(request).__name__} {_text(request)[:60]!r}{hint}")
    if request.product not in products.KEYS or request.conformance not in CONFORMANCES:
        request = _with_known_names(request)
    facts = Facts(request)
    rule = first_broken(facts)
    if rule is None:
        return Verdict(request, advice=advice_for(facts))
    text = sentences.message(rule, facts)
    return Verdict(request, rule.status, rule, facts[rule.fact], text, fixes_for(rule))


def _text(value: object) -> str:
    try:
        return str(value)
    except MemoryError:
        raise
    except Exception:
        return "?"


def _with_known_names(request: Request) -> Request:
    """The request with its product by key; no rows belong to a name that is none."""
    if request.conformance not in CONFORMANCES:
        raise ValueError(f"unknown conformance {request.conformance!r}: use document or runtime")
    return replace(request, product=products.find(request.product).key)


for _rule in ALL_RULES:
    assert _rule.fact in FACTS and (_rule.other is None or _rule.other in FACTS), _rule.id
    assert all(name in FACTS for name, _ in _rule.when), _rule.id
assert len(BY_ID) == len(ALL_RULES), "two rows share an id"
language.add_rows(lambda: (row for rule in ALL_RULES for row in sentences.rows_of_text(rule)))
language.add_rows(advice.rows_of_text)
