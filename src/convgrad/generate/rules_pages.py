"""The rows as pages: docs/generated/rules.md, precision.md and contradictions.md."""

from __future__ import annotations

from convgrad.core import products
from convgrad.core.request import CONFORMANCES, Operator
from convgrad.rules import sentences
from convgrad.rules.check import RULES
from convgrad.rules.contradictions import CONTRADICTIONS, SOURCES, source_words
from convgrad.rules.vocabulary import LANGUAGES, Rule


def rows_of(operator: Operator, product: str) -> list[Rule]:
    """The rows of a product in either conformance, in order."""
    return [rule for rule in RULES[operator] if product in rule.products]


def rules_page() -> str:
    """Every row per product, the two conformances side by side."""
    lines = [
        "# Rules", "",
        "One table per operator and product, in the order in which the rows are checked: the first broken row names "
        "the status. A status in one column only is a row of that conformance alone.", "",
        "Sources: " + "; ".join(f"{name} = {words}" for name, (words, _) in SOURCES.items()) + ".", "",
    ]  # fmt: skip
    for operator in Operator:
        for product in products.PRODUCTS:
            rows = rows_of(operator, product.key)
            lines += [f"## {operator.function} on {product.key}", "", f"{product.title}; {len(rows)} rows.", ""]
            lines += ["| rule | demand | 要求 | document | runtime | source |", "|---|---|---|---|---|---|"]
            lines += [_row(operator, rule) for rule in rows]
            lines.append("")
    return "\n".join(lines)


def _row(operator: Operator, rule: Rule) -> str:
    answers = [str(int(rule.status)) if rule.conformance.covers(c) else "" for c in CONFORMANCES]
    conflict = f" ([{rule.conflict}](contradictions.md))" if rule.conflict else ""
    said = [sentences.with_vendor_names(operator, sentences.sentence(rule, language)) for language in LANGUAGES]
    cells = (f"`{rule.id}`", *said, *answers, rule.source + conflict)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def contradictions_page() -> str:
    """Every disagreement: what each source says, what is done."""
    lines = [
        "# Contradictions", "",
        "Where the sources disagree, both readings are rows of the rule table and the caller picks one: "
        '`conformance="document"` (the default) or `conformance="runtime"`. An empty last column: the same in both.',
        "",
        "| id | about | who says what | document | runtime |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in CONTRADICTIONS:
        says = "<br>".join(f"{', '.join(source_words(w) for w in who.split(', '))}: {what}" for who, what in row.says)
        lines.append(f"| {row.id} | {row.topic} | {says} | {row.document} | {row.runtime} |")
    return "\n".join([*lines, ""])
