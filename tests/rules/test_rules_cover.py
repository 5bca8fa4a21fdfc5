"""The table of rules: every row is reached, says itself, and is pure data."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from convgrad.core import products
from convgrad.core.request import Request
from convgrad.core.status import Status
from convgrad.rules import sentences, vocabulary
from convgrad.rules.advice import FIXES, changed, known_fixes
from convgrad.rules.check import ALL_RULES, BY_ID, check
from convgrad.rules.contradictions import BY_ID as CONTRADICTIONS
from convgrad.rules.contradictions import SOURCES, source_words
from convgrad.rules.facts import FACTS
from convgrad.rules.sentences import as_dict
from convgrad.rules.vocabulary import DEMANDS, Rule, Stage

LINES = [
    tuple(part.strip() for part in line.split("|"))
    for line in (Path(__file__).parents[1] / "rules" / "breaking_lines.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_every_row_has_one_line_and_every_line_a_row() -> None:
    """Rows and breaking lines correspond one to one, in the same order."""
    assert [name for name, _ in LINES] == [rule.id for rule in ALL_RULES]


@pytest.mark.parametrize(("name", "line"), LINES, ids=[name for name, _ in LINES])
def test_the_line_breaks_its_row_first(name: str, line: str) -> None:
    """The problem is refused by just this row, with its status, and says what it got."""
    verdict = check(Request.parse(line))
    assert verdict.rule_id == name
    assert verdict.status == BY_ID[name].status != Status.SUCCESS
    assert verdict.message.endswith(f"; got {vocabulary.say_value(verdict.value)}")
    assert check(Request.parse(verdict.line)).rule_id == name


def _read(row: dict) -> Rule:
    """A row back from its JSON form."""
    demand = dict(row["must"])
    word = demand.pop("demand")
    kind = next(d for d in DEMANDS if d.__name__ == word)
    arguments = {key: tuple(v) if isinstance(v, list) else v for key, v in demand.items()}
    known = {f.name for f in fields(Rule)}
    kept = {key: value for key, value in row.items() if key in known} | {
        "stage": Stage(row["stage"]), "must": kind(**arguments), "status": Status(row["status"]),
        "products": tuple(row["products"]), "conformance": vocabulary.Conformance(row["conformance"]),
        "when": tuple((fact, tuple(values)) for fact, values in row["when"]),
    }  # fmt: skip
    return Rule(**kept)


def test_rows_survive_json() -> None:
    """A row is data only: written as JSON and read back it is the same row."""
    text = json.dumps([as_dict(rule) for rule in ALL_RULES])
    assert [_read(row) for row in json.loads(text)] == list(ALL_RULES)


def test_every_row_names_known_things() -> None:
    """Products, facts, sources and contradictions that a row names exist."""
    for rule in ALL_RULES:
        assert set(rule.products) <= set(products.KEYS) and rule.products, rule.id
        assert rule.fact in FACTS, rule.id
        assert rule.conflict == "" or rule.conflict in CONTRADICTIONS, rule.id
        assert rule.source.split(",")[0].split(":")[0].split(" ")[0] in SOURCES, rule.id
        assert source_words(rule.source) != rule.source, rule.id


def test_sentences_exist_in_both_languages() -> None:
    """Every row says itself, in English and in Chinese, without loose ends."""
    for rule in ALL_RULES:
        english, chinese = sentences.sentence(rule), sentences.sentence(rule, "zh")
        assert " must " in english and "{}" not in english and "  " not in english, english
        assert any("\u4e00" <= c <= "\u9fff" for c in chinese) and "{}" not in chinese, chinese


FIXABLE = [(name, line) for name, line in LINES if name in BY_ID and known_fixes(BY_ID[name])]


@pytest.mark.parametrize(("name", "line"), FIXABLE, ids=[name for name, _ in FIXABLE])
def test_a_fix_with_a_change_leads_past_the_row(name: str, line: str) -> None:
    """After the change a fix proposes, the row it is for no longer refuses the call."""
    request = Request.parse(line)
    changes = [fix.change for fix in known_fixes(BY_ID[name]) if fix.change]
    past = [check(changed(request, change)).rule_id != name for change in changes]
    assert all(past), changes


def test_every_fix_is_for_a_row() -> None:
    """No fix is left over from a row that is gone."""
    for fix in FIXES:
        assert any(fix.fits(rule) for rule in ALL_RULES), fix.rules
