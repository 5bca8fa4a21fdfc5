"""What Python and a notebook show of our objects: one line each, and a piece of a page."""

from __future__ import annotations

import logging
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convgrad
from browser import chromium
from convgrad.compare import compare
from convgrad.report import Report, read, run

ACCEPTED = "conv n1 c3>8 i9x9 k3x3 fp16 on=A2"
REFUSED = "conv n1 c3>8 i9x9 k3x3 fp32 math=keep on=910"


class Pieces(HTMLParser):
    """Whether every element is closed in its turn, and the text outside of styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in ("br", "meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""


def text_of(shown: object) -> str:
    """The words of an object's piece of a page, which must be whole and touch nothing outside itself."""
    html: str = shown._repr_html_()  # type: ignore[attr-defined]
    found = Pieces(html)
    assert not found.open
    style = html[html.index("<style>") : html.index("</style>")]
    assert style.startswith("<style>@scope (.convgrad-shown) {") and ":root" not in style and "body" not in style
    return found.text


def objects() -> list[Any]:
    request = convgrad.Request.parse
    return [
        request(ACCEPTED), convgrad.check(request(ACCEPTED)), convgrad.check(request(REFUSED)),
        convgrad.explain(request(REFUSED)), convgrad.explain(request(ACCEPTED), "zh"), convgrad.plan(request(ACCEPTED)),
        convgrad.plan(request(ACCEPTED)).problem, convgrad.Tensor(np.arange(300.0).reshape(3, 100), "hifloat8"),
        run([ACCEPTED, REFUSED]), compare(np.ones(3, np.float32), np.ones(3)),
    ]  # fmt: skip


@pytest.mark.parametrize("shown", objects(), ids=lambda shown: type(shown).__name__)
def test_repr_is_one_line(shown: object) -> None:
    """A list of verdicts, plans or tensors stays readable in a prompt and in a failing test."""
    said = repr(shown)
    assert "\n" not in said and len(said) < 200 and type(shown).__name__ in said


def test_the_line_says_the_problem_and_the_verdict() -> None:
    """Each line has the problem line; a verdict has its status and rule besides; a request can be pasted back."""
    request, accepted, refused, explained, _, plan, *_ = objects()
    assert eval(repr(request), {"Request": convgrad.Request}) == request
    assert repr(accepted) == f"<Verdict accepted: {request}>"
    line = str(refused.request)
    assert repr(refused) == f"<Verdict refused, 161002 math.float32.910: {line}>"
    assert repr(explained) == f"<Explanation refused, 161002 math.float32.910: {line}>"
    assert repr(plan) == f"<ExecutablePlan of grad_input, grad_weight, grad_bias in float16: {request}>"


def test_a_tensor_shows_values() -> None:
    """The ends of its values in one line, all of them as NumPy prints them, a corner of the first planes as a table."""
    tensor = convgrad.Tensor(np.arange(8.0).reshape(2, 4), "hifloat8", "ND")
    assert repr(tensor) == "Tensor([0, 1, 2, ..., 5, 6, 7], shape=(2, 4), dtype='hifloat8', format='ND')"
    assert repr(convgrad.Tensor([3.3], "bfloat16")) == "Tensor([3.29688], shape=(1,), dtype='bfloat16', format='ND')"
    assert str(tensor) == str(np.arange(8, dtype=np.float32).reshape(2, 4))
    assert "2x4" in text_of(tensor) and "01234567" in text_of(tensor)
    large = text_of(convgrad.Tensor(np.zeros((3, 2, 9, 20), np.float32)))
    assert "[0, 1]" in large and "[1, 0]" not in large and "and 4 more" in large and "…" in large
    for shape in ((), (0,), (2, 0, 3), (1, 0)):
        empty = convgrad.Tensor(np.ones(shape, np.float16))
        assert text_of(empty) and repr(empty).startswith("Tensor([1]" if shape == () else "Tensor([]")


def test_notebooks_show_pieces_of_pages() -> None:
    """A piece holds what `str` says; what comes from a caller is escaped."""
    _, accepted, refused, explained, chinese, plan, _, _, _, found = objects()
    assert "0 SUCCESS on A2" in text_of(accepted)
    for shown in (refused, explained):
        said = text_of(shown)
        assert refused.message in said and refused.line in said and "choose math 1" in said
    assert "接受" in text_of(chinese) and "复现" in text_of(chinese)
    assert f"{plan.workspace_bytes:,} bytes" in text_of(plan) and "grad_weight" in text_of(plan)
    assert "mixed: pass" in text_of(found)
    evil = compare(np.ones(3, np.float32), np.ones(3), name="<script>alert(1)</script>")
    assert "<script" not in evil._repr_html_()


JUPYTER = """<!doctype html><meta charset="utf-8"><style>
:not(.jp-Md).jp-Html table { color: #000; table-layout: fixed; margin-left: auto; margin-right: auto; font-size: 12px }
:not(.jp-Md).jp-Html :is(td, th, tr) { text-align: right; padding: .5em; max-width: none }
:not(.jp-Md).jp-Html tbody tr:nth-child(odd) { background: #fff }
:not(.jp-Md).jp-Html tbody tr:hover { background: #def }
:not(.jp-Md).jp-Html :is(code, pre) { background: #eee; color: #000 }
</style><div class="jp-Html">"""


def test_a_notebook_does_not_restyle_a_piece() -> None:
    """Jupyter aligns tables to the right and stripes them white: in the dark that would hide the words."""
    shown = convgrad.explain(convgrad.Request.parse(REFUSED))._repr_html_()
    look = "e => (s => [s.textAlign, s.backgroundColor, s.color])(getComputedStyle(document.querySelector(e)))"
    with chromium() as browser:
        for scheme, ink in (("light", "rgb(28, 29, 31)"), ("dark", "rgb(233, 233, 230)")):
            tab = browser.new_page(color_scheme=scheme)
            tab.set_content(JUPYTER + shown + "</div>")
            assert tab.evaluate(look, "tbody tr td") == ["left", "rgba(0, 0, 0, 0)", ink]
            assert tab.evaluate(look, "tbody tr")[1] == tab.evaluate(look, "code")[1] == "rgba(0, 0, 0, 0)"
            assert tab.evaluate(look, "code")[2] == ink


def test_torch_objects_are_shown_too() -> None:
    """Scan and impact: one line, and the tables of their pages."""
    torch = pytest.importorskip("torch")
    from convgrad.torch import emulate, impact, scan

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
    found = scan(model, (1, 3, 8, 8), ["A2", "310"])
    assert repr(found) == "<Scan of Sequential, 1 convolution: A2 1 lowered; 310 1 refused>"
    assert "Refused on 310" in text_of(found) and "convolutions" in text_of(found)
    effect = impact(model, lambda y: y.sum(), torch.ones(1, 3, 8, 8), ["float16"], progress=False)
    assert repr(effect).startswith("<Impact on Sequential, change of the update: float16 ")
    assert "Cosine with the float64 gradient" in text_of(effect)
    with emulate("A2") as record:
        model(torch.ones(1, 3, 8, 8)).sum().backward()
    assert repr(record) == "<Record of 1 call, 0 refused>"


def test_a_report_from_python_is_that_of_the_command(tmp_path: Path) -> None:
    """Cases as lines, requests or a file; records in order, counts, the page in a frame; a kept journal reads back."""
    report = run([ACCEPTED, convgrad.Request.parse(REFUSED)], seed=7)
    assert repr(report) == "<Report of 2 cases: 1 pass, 1 refused>" and not report.passed and len(report) == 2
    assert report[0]["line"].startswith("conv n1 c3>8 i9x9 k3x3") and report.outcomes == {"pass": 1, "refused": 1}
    assert "1 refused" in str(report)
    html = report._repr_html_()
    assert html.startswith("<iframe srcdoc=") and "<script" not in html and "&lt;script" in html
    report.write_page(tmp_path / "page.html")
    assert "math.float32.910" in (tmp_path / "page.html").read_text("utf-8")
    cases = tmp_path / "cases.txt"
    cases.write_text(f"{ACCEPTED}\n{REFUSED}\n")
    command = [sys.executable, "-m", "convgrad", "run", str(cases), "--save", str(tmp_path / "kept"), "--seed", "7"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3
    kept, again = read(tmp_path / "kept"), run(cases, seed=7)

    def told(one: Report) -> list[Any]:
        return [(r["line"], r["seed"], r["outcome"], r["message"], r["results"]) for r in one]

    assert told(kept) == told(again) and kept.settings == again.settings
    assert run(cases, product="310").outcomes == {"refused": 2}
    assert repr(run([])) == "<Report of 0 cases>"


def test_the_logger_is_quiet_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is printed by default; at DEBUG level each new decision is a line with the problem."""
    code = "import convgrad; convgrad.check(convgrad.Request.parse('conv n1 c1>1 i5 k3')); convgrad.plan(" \
           "convgrad.Request.parse('conv n1 c1>1 i5 k3'))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
    with caplog.at_level(logging.DEBUG, "convgrad"):
        convgrad.plan(convgrad.Request.parse(ACCEPTED))
        with pytest.raises(convgrad.ConvGradError):
            convgrad.plan(convgrad.Request.parse(REFUSED))
    said = [record.getMessage() for record in caplog.records]
    assert any("in float16" in one and "i9x9" in one for one in said) and any("math.float32.910" in one for one in said)
