"""Order is contract: of several broken rows the first one names the status."""

from collections import defaultdict
from dataclasses import replace

import pytest

import convgrad
from convgrad.core.request import Request
from convgrad.rules.check import ALL_RULES, RULES, broken_rows, check, rows_for
from convgrad.rules.explain import walk
from convgrad.rules.facts import Facts

CONV = "conv n1 c2>4 i6x6x6 k3 on=A2"
# From the last stage to the first: each change breaks an earlier row than all the changes before it.
CONV_CHANGES = [
    ("stride=1x64x1 go=1x4x4x1x4", "limit.stride.a2", 561103),
    ("go=1x4x4x2x4", "spatial.plain", 161002),
    ("groups=2", "channels.plain.fine", 161002),
    ("dilation=1", "dilation.length", 161002),
    ("math=7", "math.range", 161002),
    ("padding=-1x0x0", "padding.negative", 161002),
    ("gx=1x2x6x-6x6", "grad_input.sizes", 161002),
    ("w=//NHWC", "weight.format.3d", 161002),
    ("x=/fp64", "input.dtype.a2", 161002),
    ("on=310", "product", 161002),
    ("gb=null", "null.grad_bias", 161001),
    ("mask=11", "output_mask.length", 161001),
    ("stride=null", "null.stride", 161001),
    ("bias_sizes=null", "null.bias_sizes", 161001),
    ("go=null", "null.grad_output", 161001),
]
TBC_CHANGES = [
    ("pad=300 go=604x2x4", "tbc.limit.pad.kernel", 561103),
    ("gx=/fp16", "tbc.grad_input.dtype.tie", 161002),
    ("math=9", "tbc.math.range", 161002),
    ("gb=7", "tbc.grad_bias.shape", 161002),
    ("b=5", "tbc.channels.bias", 161002),
    ("x=6x2", "tbc.input.rank", 161002),
    ("gb=//NCL", "tbc.grad_bias.format.host", 161002),
    ("gw=/int32", "tbc.grad_weight.dtype.a2", 161002),
    ("on=310P", "tbc.product", 161002),
    ("b=null", "tbc.null.bias", 161001),
    ("go=null", "tbc.null.grad_output", 161001),
]


@pytest.mark.parametrize(
    ("line", "changes"),
    [(CONV, CONV_CHANGES), ("tbc n2 c3>4 i6 k3 on=A2 as=runtime", TBC_CHANGES)],
    ids=["conv", "tbc"],
)
def test_an_earlier_row_wins_over_every_later_one(line: str, changes: list) -> None:
    """Breaking more and more rows from the end of the table, the verdict always moves to the earliest."""
    assert check(Request.parse(line)).ok
    for change, rule, status in changes:
        line = f"{line} {change}"
        verdict = check(Request.parse(line))
        assert (verdict.rule_id, int(verdict.status)) == (rule, status), line


def test_the_verdict_is_the_first_of_all_broken_rows() -> None:
    """The loop stops where the full list of broken rows begins."""
    request = Request.parse("conv n1 c2>4 i6 k3 x=1x2 groups=0 math=9 on=A2")
    rows = broken_rows(Facts(request))
    assert len(rows) > 3 and check(request).rule is rows[0]
    places = [list(ALL_RULES).index(rule) for rule in rows]
    assert places == sorted(places)


def test_rows_of_a_product_keep_the_order_of_the_table() -> None:
    """Choosing a product and a conformance only leaves rows out."""
    for operator, table in RULES.items():
        for product in ("cpu", "950", "A2", "310B"):
            for conformance in ("document", "runtime"):
                rows = rows_for(operator, product, conformance)
                assert [r for r in table if r in rows] == list(rows)


def test_a2_and_a3_have_the_same_rows() -> None:
    """No rule tells the two apart."""
    for rule in ALL_RULES:
        assert ("A2" in rule.products) == ("A3" in rule.products), rule.id


def test_the_walk_ends_at_the_row_that_decides() -> None:
    """explain --all shows every row that was looked at, and one NO at the end."""
    request = Request.parse("conv n1 c2>4 i300 k256 on=A2")
    steps = walk(request)
    assert [mark for mark, _, _ in steps].count("NO") == 1
    assert (steps[-1][0], steps[-1][1].id, steps[-1][2]) == ("NO", "limit.window.a2", "[256]")
    assert all(mark in ("ok", "-") for mark, _, _ in steps[:-1])
    accepted = walk(replace(request, product="cpu"))
    assert {mark for mark, _, _ in accepted} == {"ok", "-"}


def test_no_two_rows_of_one_product_say_the_same() -> None:
    """A fact and demand under the same conditions stand in the table once per product and conformance."""
    seen = defaultdict(list)
    for operator, table in RULES.items():
        for rule in table:
            for product in rule.products:
                for conformance in ("document", "runtime"):
                    if rule.conformance.covers(conformance):
                        seen[operator, product, conformance, rule.fact, rule.must, rule.when].append(rule.id)
    assert not [ids for ids in seen.values() if len(ids) > 1]


@pytest.mark.parametrize("asking", [convgrad.check, convgrad.plan, convgrad.explain])
def test_what_is_no_request_is_said(asking):
    """A problem line, or anything else, in the place of a Request: a TypeError that says what is wanted."""
    with pytest.raises(TypeError, match=r"a Request is wanted, not str 'conv n1.*Request\.parse reads"):
        asking("conv n1 c1>1 i3 k3")
    with pytest.raises(TypeError, match=r"a Request is wanted, not NoneType 'None'$"):
        asking(None)


def test_names_of_products_and_conformances_are_known_or_refused() -> None:
    """A request may name its product by any spelling; a name that is none is an error, not an empty table."""
    request = Request.parse("conv n1 c2>4 i300 k256")
    assert check(replace(request, product="Ascend910B3")).rule_id == "limit.window.a2"
    with pytest.raises(ValueError, match="unknown product"):
        check(replace(request, product="H100"))
    with pytest.raises(ValueError, match="unknown conformance"):
        check(replace(request, conformance="strict"))
