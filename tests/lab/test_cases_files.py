"""Case files: four forms, read and written back to equal content; malformed ones name the place and the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from convgrad.core.request import Request
from convgrad.lab.cases import files, own, values
from convgrad.lab.cases.case import Case, CaseFileError, make
from strategies import any_request

DATA = Path(__file__).parents[1] / "data"
ATK, TTK = DATA / "cases_atk.json", DATA / "cases_ttk.csv"
LINES = """\
# a comment, and a blank line

conv n2 c8>16 i14x14 k3x3 p1 bf16 on=A2   # ResNet, a layer
tbc n2 c4>3 i8 k3 fp16 values=uniform:-5:5 seed=3 expect=0
"""


def read(tmp_path: Path, name: str, text: str) -> list[Case]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return files.read(path)


def reason(tmp_path: Path, name: str, text: str) -> str:
    """Why a file is refused."""
    with pytest.raises(CaseFileError) as caught:
        read(tmp_path, name, text)
    return str(caught.value)


# ---- what is read --------------------------------------------------------------------------------------------


def test_kit_json_is_understood():
    """Tensors, attributes, formats and ranges of the first kit's records."""
    cases = files.read(ATK)
    assert [c.name for c in cases][:2] == ["ConvolutionBackward_0", "ConvolutionBackward_3"]
    assert cases[0].request == Request.parse("conv n1 c2>2 i3x3 k3x3 p1 bf16 math=allow_down want=xw on=A2")
    assert cases[1].request == Request.parse("conv n1 c4>4 i2x5x5 k1x3x3 p0x1x1 g2 fp16 want=xb on=A2")
    assert cases[1].fill_words == "uniform:-0.1:0.1,uniform:-5:5,uniform:-0.1:0.1"
    assert cases[3].request == Request.parse("tconv n1 c2>3 i4 k2 s2 fp32 math=allow_down on=A2")
    assert cases[5].request == Request.parse("tbc n1 c5>2 i7 k3 p2 bf16 math=allow_down on=A2")


def test_kit_csv_is_understood():
    """Literals, products, ranges, null tensors and disabled rows of the second kit's file."""
    first, second, tbc, off = files.read(TTK)
    assert first.request == Request.parse("tconv n0 c2>2 i3 k1 fp16 on=A2")
    assert second.request == Request.parse("conv n1 c4>4 i8x9 k3x3 p1 d2x3 g2 fp32 on=A2")
    assert second.fill_words == "uniform:-2:2,uniform:-1.5:1.5,uniform:-2:2"
    assert tbc.request == Request.parse("tbc n2 c4>3 i8 k3 bf16 on=A3")
    assert not off.enabled and off.request.grad_input is None and off.request.math == 3


def test_problem_lines_are_understood(tmp_path):
    """Names from comments; values, seed and expected status as words."""
    first, second = read(tmp_path, "cases.txt", LINES)
    assert first.name == "ResNet, a layer" and first.seed is None and first.fill == (values.DEFAULT,)
    assert (second.name, second.seed, second.fill_words, second.expect) == ("line 4", 3, "uniform:-5:5", 0)


def test_one_problem_line_in_place_of_a_file():
    """`convgrad run 'conv …'` needs no file."""
    (case,) = files.read("conv n1 c1>1 i3 k3 fp16")
    assert case.request == Request.parse("conv n1 c1>1 i3 k3 fp16")


# ---- what is written -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path, form", [(ATK, "atk"), (TTK, "ttk")])
def test_kit_files_write_back_to_the_same_bytes(path, form, tmp_path):
    """Read and write: the same file. By way of our own JSON as well."""
    cases = files.read(path)
    original = path.read_bytes()
    files.write(tmp_path / path.name, cases, form)
    assert (tmp_path / path.name).read_bytes() == original
    files.write(tmp_path / "own.json", cases)
    again = files.read(tmp_path / "own.json")
    assert again == cases
    assert files.as_text("x", again, form).encode() == original


@pytest.mark.parametrize("path", [ATK, TTK])
@pytest.mark.parametrize("form", files.FORMS)
def test_requests_survive_every_form(path, form, tmp_path):
    """What a case asks is the same in every form that can say it."""
    cases = [c for c in files.read(path) if c.enabled and (form != "atk" or c.request.product == "A2")]
    suffixes = {"ttk": ".csv", "json": ".json", "atk": ".json", "xlsx": ".xlsx", "lines": ".txt"}
    target = tmp_path / f"x{suffixes[form]}"
    files.write(target, cases, form)
    assert [c.request for c in files.read(target)] == [c.request for c in cases]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_request)
def test_any_request_survives_our_own_forms(tmp_path, request_):
    """Nonsense included: nulls, odd ranks, unknown dtypes."""
    case = Case("a name", request_, values_of("wide"), 7, expect=161002)
    for form, name in (("json", "x.json"), ("lines", "x.txt")):
        files.write(tmp_path / name, [case], form)
        assert files.read(tmp_path / name) == [case]


def values_of(word: str) -> tuple[values.Values, ...]:
    return (values.parse(word),)


@settings(max_examples=60, deadline=None)
@given(any_request)
def test_kit_forms_say_it_or_refuse(request_):
    """A kit's file never holds another request than the case: what it cannot say is refused by name."""
    case = Case("odd one", replace(request_, product="A2", conformance="document"), values_of("wide"))
    for form, suffix in (("atk", ".json"), ("ttk", ".csv")):
        try:
            text = files.as_text("x", [case], form)
        except CaseFileError as error:
            assert "odd one" in str(error)
        else:
            assert files._read_text("x", text, suffix)[0].request == case.request


def test_an_edited_case_is_written_as_edited():
    """The kept record of a kit is not written once it no longer says what the case says."""
    for path, form in ((ATK, "atk"), (TTK, "ttk")):
        cases = files.read(path)
        changed = replace(cases[1], request=replace(cases[1].request, math=2))
        text = files.as_text("x", [changed], form)
        assert files._read_text("x", text, ".json" if form == "atk" else ".csv")[0].request.math == 2


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    """A case that cannot be written leaves the file, and nothing beside it."""
    target = tmp_path / "cases.json"
    target.write_text("precious")
    odd = Case("null weight", replace(Request.parse("conv n1 c1>1 i3 k3"), stride=None, weight=None))
    with pytest.raises(CaseFileError, match="null weight"):
        files.write(target, [odd], "atk")
    assert target.read_text() == "precious" and list(tmp_path.iterdir()) == [target]


# ---- formulas ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "'=1", "''=1", "'plain", "=cmd|' /C calc'!A0"])
def test_formulas_in_csv_are_quoted_and_come_back(name, tmp_path):
    """No cell of text begins like a formula, and reading gives the name again."""
    case = Case(name, Request.parse("conv n1 c1>1 i3 k3 on=A2"))
    text = files.as_text("x", [case], "ttk")
    row = text.splitlines()[1]
    assert not row.lstrip('"').startswith(("=", "+", "-", "@", "\t"))
    assert files._read_text("x", text, ".csv")[0].name == name


# ---- malformed files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, said", [
    ("conv n2 c8>16 i14x14 k3x3 p1 bf17 on=A2", "line 1: unknown dtype 'bf17'"),
    ("\nconv n1 c1>1 i3 k3\nfly me", "line 3: problem line must start with"),
    ("conv n1 c1>1 i3 k3 seed=-1", "line 1, seed="), ("conv n1 c1>1 i3 k3 seed=1 seed=2", "said twice"),
    ("conv n1 c1>1 i3 k3 values=gauss", "unknown values 'gauss'"),
    ("conv n1 c1>1 i3 k3 values=uniform:5:1", "low is above high"),
    ("conv n1 c1>1 i3 k3 values=uniform:nan", "out of range"),
    ("conv n1 c1>1 i3 k3 values=normal:0:1,normal:0:1", "one filling, or three"),
])
def test_malformed_lines(tmp_path, text, said):
    """The line, and the word."""
    assert said in reason(tmp_path, "x.txt", text)


OWN = '{"convgrad_cases": 1, "cases": [%s]}'


@pytest.mark.parametrize("text, said", [
    ("{", "line 1, column 2"), ("[" * 100_000, "nested too deeply"), ("3", "must hold an object or a list"),
    ('{"cases": []}', '"convgrad_cases" must be 1'), ('{"convgrad_cases": true, "cases": []}', "must be 1"),
    ('{"convgrad_cases": 1}', '"cases" must be a list'),
    ('{"convgrad_cases": 1, "cases": [], "x": 1}', "unknown field 'x'"),
    (OWN % "3", "case 0, the case: must be an object, not 3"), (OWN % "{}", "case 0, line: is missing"),
    (OWN % '{"line": 5}', "case 0, line: must be text"), (OWN % '{"line": "conv", "lime": 1}', "'lime': is none of"),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "seed": 1.5}', "seed: must be a whole number, not 1.5"),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "seed": -1}', "seed -1 must lie"),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "enabled": 1}', "enabled: must be true or false"),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "expect": 7}', "expect: must be one of"),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "name": "\\ud800"}', "name: is not valid Unicode"),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "seed": NaN}', "NaN is not JSON"),
    (OWN % ('{"line": "conv n1 c1>1 i3 k3", "seed": ' + "9" * 5000 + "}"), ""),
    (OWN % '{"line": "conv n1 c1>1 i3 k3", "kit": []}', "kit: must be an object"),
])
def test_malformed_json(tmp_path, text, said):
    """The place within the document, and the reason."""
    assert said in reason(tmp_path, "x.json", text)


def test_every_bad_case_is_named_up_to_ten(tmp_path):
    """One error lists the cases that cannot be read; good ones beside them change nothing."""
    bad = ", ".join(['{"line": "conv n1 c1>1 i3 k3"}'] + ['{"line": "fly"}'] * 12)
    said = reason(tmp_path, "x.json", OWN % bad)
    assert "case 1:" in said and "case 10:" in said and "case 11:" not in said and "perhaps more" in said


def atk_with(change) -> str:
    cases = json.loads(ATK.read_text())[:1]
    change(cases[0])
    return json.dumps(cases)


@pytest.mark.parametrize("change, said", [
    (lambda c: c.pop("inputs"), "inputs: must be a list, not None"),
    (lambda c: c.update(aclnn_name="Add"), "aclnn_name: must be ConvolutionBackward or ConvTbcBackward"),
    (lambda c: c["inputs"][0].update(shape=[1, "2"]), "gradOutput.shape[1]: must be a whole number, not '2'"),
    (lambda c: c["inputs"][0].update(shape=[2**70]), "gradOutput.shape[0]: does not fit 64 bits"),
    (lambda c: c["inputs"][0].update(range_values=[1]), "gradOutput.range_values: must be two numbers"),
    (lambda c: c["inputs"][0].update(range_values=[1, None]), "gradOutput.range_values: must be a number"),
    (lambda c: c["inputs"][0].update(dtype=4), "gradOutput.dtype: must be text"),
    (lambda c: c["inputs"].append(c["inputs"][0]), "inputs[13] 'gradOutput': is given twice"),
    (lambda c: c["inputs"][4][0].update(name="strike"), "inputs[4]: its entries have different names"),
    (lambda c: c["inputs"][7].update(range_values=1), "transposed: must be true or false"),
    (lambda c: c["inputs"].append({"name": "extra", "type": "attr"}), "'extra': is none of gradOutput"),
])
def test_malformed_kit_json(tmp_path, change, said):
    """The case, its id, the input, the reason."""
    text = reason(tmp_path, "x.json", atk_with(change))
    assert "case 0 (id 0), " in text and said in text


def ttk_with(column: str, cell: str) -> str:
    import csv
    import io

    rows = list(csv.reader(io.StringIO(TTK.read_text())))
    rows[2][rows[0].index(column)] = cell
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("column, cell, said", [
    ("tensor_view_shapes", "((1,)", "is no Python literal"), ("tensor_view_shapes", "1", "must hold 6 entries"),
    ("tensor_view_shapes", "__import__('os').system('true')", "is no Python literal"),
    ("tensor_view_shapes", "[x for x in ()]", "is no Python literal"),
    ("tensor_view_shapes", "(" * 5000, "is no Python literal"),
    ("tensor_view_shapes", "-" * 60_000 + "1", "is no Python"),
    ("tensor_view_shapes", "1" + "+1" * 40_000, "is no Python literal"),
    ("tensor_view_shapes", "9" * 110_000, "characters"),
    ("tensor_view_shapes", "(" + "(True,)," * 6 + ")", "must be a whole number, not True"),
    ("attributes", "[]", "must be a dict"), ("attributes", "{'stride': 'x'}", "attributes', stride: must be a list"),
    ("attributes", "{'groups': None}", "groups: must be a whole number"),
    ("api_name", "aclnnAdd", "must be aclnnConvolutionBackward"), ("is_enabled", "yes", "must be true or false"),
    ("is_enabled", "2", "must be true or false"), ("input_data_ranges", "((1,),)", "must hold pairs"),
    ("input_data_ranges", "((1, None),) * 3", "is no Python literal"),
    ("input_data_ranges", "((2, 1), (0, 1), (0, 1))", "low is above high"), ("soc_series", "H100", "unknown product"),
    ("tensor_dtypes", "(1, 2, 3, 4, 5, 6)", "must be text"),
])
def test_malformed_kit_csv(tmp_path, column, cell, said):
    """The row, the column, the reason; nothing in a cell is ever executed."""
    text = reason(tmp_path, "x.csv", ttk_with(column, cell))
    assert "row 3, column" in text and f"{column!r}" in text and said in text


@pytest.mark.parametrize("text, said", [
    ("", "column 'api_name' is missing"), ("a,b\n1,2\n", "is missing"),
    (TTK.read_text() + '"unclosed', "row 6"), (TTK.read_text() + "a,b\n", "has 2 cells, the header 24"),
    (TTK.read_text().replace("network_name", "remark", 1), "named twice"),
])
def test_malformed_csv_structure(tmp_path, text, said):
    """Quotes, cells and headers."""
    assert said in reason(tmp_path, "x.csv", text)


def test_not_text_at_all(tmp_path):
    """Bytes that are no UTF-8, a directory, a missing file."""
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CaseFileError, match="UTF-8"):
        files.read(path)
    with pytest.raises(CaseFileError, match="directory"):
        files.read(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "none.json")


# ---- the schema ----------------------------------------------------------------------------------------------


def test_the_schema_accepts_what_we_write(tmp_path):
    """Every case of the kits' files, written in our form, is valid."""
    for path in (ATK, TTK):
        jsonschema.validate(json.loads(own.write_json(files.read(path))), own.schema())
    jsonschema.Draft202012Validator.check_schema(own.schema())


@pytest.mark.parametrize("record", [
    {}, {"line": 5}, {"line": "fly"}, {"line": "conv", "lime": 1}, {"line": "conv n1 c1>1 i3 k3", "seed": -1},
    {"line": "conv n1 c1>1 i3 k3", "seed": 1.5}, {"line": "conv n1 c1>1 i3 k3", "expect": 7},
    {"line": "conv n1 c1>1 i3 k3", "values": "gauss"}, {"line": "conv n1 c1>1 i3 k3", "values": "wide,wide"},
    {"line": "conv n1 c1>1 i3 k3", "enabled": 1}, {"line": "conv n1 c1>1 i3 k3", "kit": []},
])
def test_the_schema_refuses_what_we_refuse(record):
    """An editor marks what the reader would not take."""
    document = {"convgrad_cases": 1, "cases": [record]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, own.schema())
    with pytest.raises(CaseFileError):
        own.read_json("x", document)


@pytest.mark.parametrize("word", [str(values.parse(name)) for name in values.STANDARD_SETS])
def test_every_standard_filling_is_valid_in_the_schema(word):
    """The text forms of the standards' distributions."""
    document = {"convgrad_cases": 1, "cases": [{"line": "conv n1 c1>1 i3 k3", "values": word}]}
    jsonschema.validate(document, own.schema())
    assert own.read_json("x", document)[0].fill_words == word


def test_make_refuses_seeds_out_of_range():
    """A seed is a non-negative 63-bit number."""
    assert make("a", "conv n1 c1>1 i3 k3", seed=2**63 - 1).seed == 2**63 - 1
    with pytest.raises(ValueError, match="seed"):
        make("a", "conv n1 c1>1 i3 k3", seed=2**63)
