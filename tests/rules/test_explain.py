"""What a person and a program see of the contract: explain and the verbs check, explain, rules, plan, dtypes."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import convgrad
from convgrad import Request
from convgrad.cli.command_line import main
from convgrad.core.request import Operator
from convgrad.rules import codes
from convgrad.rules.check import ALL_RULES, rows_for
from convgrad.rules.explain import PAGES
from convgrad.rules.vocabulary import Stage

WINDOW = "conv n1 c2>4 i300 k256 on=A2"
PASS, USAGE, REFUSED = 0, 2, 3


def explained(line: str, language: str = "en") -> str:
    return str(convgrad.explain(Request.parse(line), language))


def test_a_refusal_says_why_who_says_so_and_what_others_say() -> None:
    """Reason with the value, rule, source, both conformances, every other product, the line."""
    text = explained(WINDOW)
    assert text.startswith("REFUSED 161002 PARAM_INVALID: aclnnConvolutionBackward on A2, document conformance")
    for part in ("must be at most 255", "got [256]", "limit.window.a2", "limits table, weight", "runtime: 561103",
                 "cpu, 950: accepted", "A3: the same", "310B, 310: 161002 product", "split the window"):  # fmt: skip
        assert part in text, part
    assert Request.parse(text.rpartition("reproduce")[2].strip()) == Request.parse(WINDOW)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (WINDOW, "split the window"),
        ("conv n2 c8>16 i14x14 k3 fp32 on=910", "choose math 1"),
        ("conv n2 c8>16 i14x14 k3 bf16 on=910", "cast every tensor to float16"),
        ("conv n2 c8>16 i4x14x14 k3 fp16 on=310P", "run on A2, A3 or 950"),
        ("conv n2 c8>16 i4x14x14 k3 fp16 p1x1x1x1 on=A2", "four numbers are a 2-D form"),
        ("conv n2 c8>16 i14 k3 bf16 math=fp16 on=A2", "use math 0"),
        ("conv n2 c8>16 i14x14 k3 x=//NHWC on=A2", "permute to channels first"),
    ],
)
def test_known_rewrites_are_proposed(line: str, advice: str) -> None:
    """Where a way out is known it is named, also in the verdict and in Chinese."""
    assert advice in " ".join(convgrad.check(Request.parse(line)).advice)
    assert advice.split(":")[0] in " ".join(explained(line).split())
    assert "修改办法" in explained(line, "zh")


def test_a_proposed_line_is_accepted() -> None:
    """Every changed call that explain shows as accepted is accepted, and changes something."""
    for words in ("fp32 on=910", "go=2x16x9x9 on=A2", "bias_sizes=null on=A2", "p1:2x0:1 on=A2"):
        line = f"conv n2 c8>16 i14x14 k3 {words}"
        ways = [w for w in convgrad.explain(Request.parse(line)).ways if w.accepted]
        assert ways, line
        for way in ways:
            assert convgrad.check(Request.parse(way.line)).ok
            assert Request.parse(way.line) != Request.parse(line)


def test_an_accepted_call_is_explained_too() -> None:
    """Advice instead of a reason."""
    text = explained("conv n2 c8>16 i14x14 k3 fp16 math=hf32 on=A2")
    assert text.startswith("ACCEPTED 0 SUCCESS") and "has no effect on float16" in text


def test_explain_never_fails_on_nonsense() -> None:
    """Every combination of a missing tensor, product and conformance is explained."""
    request = Request.parse("conv n1 c2>4 i6 k3")
    for name in ("grad_output", "input", "weight", "stride", "padding", "dilation", "output_padding", "output_mask"):
        for product in ("cpu", "A2", "310"):
            text = str(convgrad.explain(replace(request, **{name: None}, product=product)))
            assert "161001" in text.splitlines()[0]
    with pytest.raises(ValueError, match="unknown language"):
        convgrad.explain(request, "fr")


def test_a_warning_for_a_bias_size_the_runtime_ignores() -> None:
    """The call passes, and says that a value was not looked at."""
    verdict = convgrad.check(Request.parse("conv n2 c8>16 i14x14 k3 bias_sizes=1 on=A2 as=runtime"))
    assert verdict.ok and "bias_sizes" in verdict.advice[0]


# ---- the command line --------------------------------------------------------------------------------------


def test_check_answers_one_line_per_problem(capsys: pytest.CaptureFixture[str]) -> None:
    """Accepted and refused problems, exit code 3 when one is refused."""
    assert main(["check", "conv n2 c8>16 i14 k3 on=A2", WINDOW]) == REFUSED
    accepted, refused = capsys.readouterr().out.splitlines()
    assert accepted.startswith("accepted  conv n2") and refused.startswith("refused 161002  window H, W")
    assert main(["check", WINDOW, "--product", "cpu"]) == PASS
    assert main(["check", WINDOW, "--conformance", "runtime"]) == REFUSED
    assert "refused 561103" in capsys.readouterr().out


def test_check_and_explain_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same facts for machines."""
    for verb in ("check", "explain"):
        assert main([verb, WINDOW, "--json"]) == REFUSED
        found = json.loads(capsys.readouterr().out)
        assert (found["status"], found["rule"], found["value"]) == (161002, "limit.window.a2", "[256]")
        assert {p["product"] for p in found["other_products"]} == {"cpu", "950", "A3", "910", "310P", "310B", "310"}
        assert found["other_conformance"]["status"] == 561103 and "必须" in found["message_zh"]
        assert any(way["accepted"] for way in found["ways"]) and found["also_broken"] == []


def test_explain_a_status_and_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """A status tells itself and lists every row that gives it; an id one row; what is neither, what may be meant."""
    for status in (161001, 161002, 561103):
        assert main(["explain", str(status), "--json"]) == PASS
        found = json.loads(capsys.readouterr().out)
        assert [row["id"] for row in found["rules"]] == [rule.id for rule in ALL_RULES if rule.status == status]
    assert main(["explain", "limit.groups"]) == PASS
    assert "groups must be at most 65535" in capsys.readouterr().out
    meant_by = {"limit.group": "limit.groups", "561104x": "561104", "Limit.Window.A3": "limit.window.a2"}
    for asked, meant in meant_by.items():
        assert main(["explain", asked]) == USAGE
        assert f"did you mean {meant}" in capsys.readouterr().err
    assert main(["explain", "42"]) == USAGE
    assert "return_codes.md" in capsys.readouterr().err


@pytest.mark.parametrize("code", codes.CODES, ids=lambda row: row.code)
def test_explain_every_code(code: codes.Code, capsys: pytest.CaptureFixture[str]) -> None:
    """By number and by name, in both languages: what it means and what to try."""
    for asked in (code.code, code.name.lower()):
        assert main(["explain", asked]) == PASS
        out = capsys.readouterr().out
        assert out.startswith(f"{code.code} {code.name}\n") and code.en in out and code.try_en in out
    assert main(["explain", code.code, "--language", "zh"]) == PASS
    out = capsys.readouterr().out
    assert code.zh in out and code.try_zh in out


def test_a_refusal_points_to_a_page_that_exists() -> None:
    """Every stage has a page in either language, and the explanation names it."""
    root = Path(__file__).parents[2]
    assert set(PAGES) == set(Stage)
    assert all((root / page).is_file() for pages in PAGES.values() for page in pages)
    line = "conv n1 c2>4 i6x6 k3 x=//NHWC on=A2"
    assert "docs/data_formats.md" in explained(line) and "docs/data_formats.zh-CN.md" in explained(line, "zh")


def test_codes_are_those_of_the_headers() -> None:
    """Every code of aclnn and of the runtime in the shipped headers has a row of the same name and number."""
    headers = Path(__file__).parents[2] / "native" / "sdk" / "include"
    text = "".join((headers / name).read_text("utf-8") for name in ("aclnn/opdev/op_errno.h",
                                                                    "acl/error_codes/rt_error_codes.h"))  # fmt: skip
    defined = re.findall(r"#define (ACL(?:NN)?_\w+) (\d+)\n", text)
    assert len(defined) > 40
    for name, number in defined:
        if name != "ACL_RT_SUCCESS":
            assert codes.BY_CODE[number].name == name


def test_codes_said_to_be_given_here_are_given_by_the_library() -> None:
    """The runtime's codes whose row says so stand in the C library's sources, and no other."""
    sources = (Path(__file__).parents[2] / "native" / "acl").rglob("*.cpp")
    used = set(re.findall(r"ACL_ERROR_\w+", "".join(path.read_text("utf-8") for path in sources)))
    assert {row.name for row in codes.CODES if row.here and row.name.startswith("ACL_")} == used


def test_explain_all_walks_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row that was looked at, then the explanation."""
    assert main(["explain", WINDOW, "--all"]) == REFUSED
    out = capsys.readouterr().out
    assert " ok  null.grad_output" in out and " NO  limit.window.a2" in out and "   got [256]" in out


def test_rules_of_a_product_and_the_difference_of_two(capsys: pytest.CaptureFixture[str]) -> None:
    """All rows in order; with --against only those of one of the two."""
    assert main(["rules", "--product", "Ascend910B3", "--json"]) == PASS
    rows = json.loads(capsys.readouterr().out)["aclnnConvolutionBackward"]
    assert [r["id"] for r in rows] == [r.id for r in rows_for(Operator.CONV, "A2", "document")]
    assert main(["rules", "--product", "A2", "--against", "950", "--json"]) == PASS
    rows = json.loads(capsys.readouterr().out)["aclnnConvolutionBackward"]
    assert rows and all(("A2" in r["products"]) != ("950" in r["products"]) for r in rows)
    assert main(["rules", "--product", "A2", "--against", "A3"]) == PASS
    assert "0 rows differ between A2 and A3" in capsys.readouterr().out
    assert main(["rules", "--product", "H100"]) == USAGE
    assert main(["rules", "--product", "910", "--language", "zh", "--operator", "tbc"]) == PASS
    assert "必须" in capsys.readouterr().out


def test_plan_and_dtypes(capsys: pytest.CaptureFixture[str]) -> None:
    """What would be computed; the formats; values rounded to one."""
    assert main(["plan", "conv n2 c8>16 i14 k3 math=hf32 on=950", "--json"]) == PASS
    assert json.loads(capsys.readouterr().out)[0]["operand"] == "hf32_10"
    assert main(["plan", WINDOW]) == REFUSED
    capsys.readouterr()
    assert main(["dtypes"]) == PASS
    assert "hf32_10" in capsys.readouterr().out
    assert main(["dtypes", "bf16", "1.00390625", "--json"]) == PASS
    assert json.loads(capsys.readouterr().out)["values"] == [[1.00390625, 1.0]]
    assert main(["dtypes", "float7"]) == USAGE


UNREADABLE = ["", "zonk n1", "conv n1 n2", "conv q7", "conv want=q", "conv on=H100", "conv \x1b[31m"]


@pytest.mark.parametrize("line", UNREADABLE)
def test_an_unreadable_line_is_one_sentence(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one printable line on standard error."""
    assert main(["check", line]) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("convgrad: ") and err.count("\n") == 1 and "\x1b" not in err


def test_the_rules_need_neither_arrays_nor_an_engine() -> None:
    """Importing the checker loads the standard library and NumPy's dtypes at most: no engine, no torch."""
    code = "import sys, convgrad.rules.check; print([m for m in sys.modules if m in ('torch', 'dask')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
