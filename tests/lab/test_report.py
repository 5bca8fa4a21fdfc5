"""The report: one page without network, small, escaped; in a real browser it sorts, filters, opens and copies."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from browser import chromium
from convgrad.cli.command_line import main
from convgrad.core.request import Request
from convgrad.lab.cases.case import Case, make
from convgrad.lab.judging import runs
from convgrad.lab.report.drawing import ring, ulp_plot
from convgrad.lab.report.page import MOST_BYTES, page
from convgrad.lab.run.case_run import Settings, guarded

HEAD = {"settings": {"standards": ["mixed", "mere-mare"], "seed": 0, "engine": "native"}}
SETTINGS = Settings(("mixed", "mere-mare"))
EVIL = '<script>alert("1")</script>"\'&\u2028</script>'
LINES = (
    ("alpha", "conv n1 c3>4 i9x9 k3x3 p1 bf16 on=A2"), ("beta", "conv n1 c2>2 i8x8 k3x3 fp32 math=hf32 on=A2"),
    ("gamma", "tbc n2 c3>4 i8 k3 fp16 on=A2"), ("delta", "conv n1 c1>1 i300 k300 fp16 on=A2"),
    (EVIL, "conv n1 c2>2 i5 k3 fp16 on=950"),
)


def records(cases, wrong: int | None = None):
    """Records of a run; one case may get results that are off."""
    found = []
    for index, case in enumerate(cases):
        real = runs.subject
        if index == wrong:
            def off(plan, tensors, threads=None, real=real):
                results, seconds = real(plan, tensors, threads)
                return {k: (v.astype("f8") * 1.5).astype(v.dtype) for k, v in results.items()}, seconds

            runs.subject = off
        try:
            found.append(json.loads(json.dumps(guarded(index, case, SETTINGS)[0])))
        finally:
            runs.subject = real
    return found


@pytest.fixture(scope="module")
def text() -> str:
    """A page with passing, failing and refused cases, one of them with a hostile name."""
    cases = [make(name, line) for name, line in LINES]
    return page(f"cases {EVIL}", HEAD, records(cases, wrong=1))


# ---- the text ------------------------------------------------------------------------------------------------


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.links, self.open = 0, [], []

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.links += [v for k, v in attrs if k in ("src", "href") and not (v or "").startswith("#")]
        assert not any(k.startswith("on") for k, _ in attrs)


def test_no_network_and_no_injected_elements(text):
    """Exactly our own three script elements, nothing loaded from anywhere, whatever a case is called."""
    parsed = Elements()
    parsed.feed(text)
    assert parsed.scripts == 3 and parsed.links == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text) and EVIL not in text
    assert "&lt;script&gt;alert" in text


def test_data_is_json(text):
    """The details can be read back, and hold the hostile name as plain text."""
    data = re.search(r'<script type="application/json" id="details">(.*?)</script>', text, re.S)
    details = json.loads(data[1])
    assert sorted(details, key=int) == ["0", "1", "2", "3", "4"] and details["3"]["r"] and details["3"]["s"] == 161002
    assert [f["n"] for f in details["0"]["f"]] == ["grad_input", "grad_weight", "grad_bias"]


def big_cases(count: int):
    """Ordinary records for many cases, without running each."""
    (one,) = records([make("a case with a name of the usual length", "conv n1 c32>40 i28x28 k3x3 p1 fp16 on=A2")])
    for index in range(count):
        yield {**one, "index": index, "name": f"{one['name']} {index}"}


def test_five_hundred_cases_stay_under_a_megabyte():
    """All rows and all details of 500 cases, in less than 1 MB."""
    text = page("cases", HEAD, big_cases(500))
    assert len(text.encode()) < 1_000_000
    details = json.loads(re.search(r'id="details">(.*?)</script>', text, re.S)[1])
    assert len(details) == 500 and text.count('<tr class="case"') == 500


def test_thirty_thousand_cases_stay_under_a_megabyte_and_say_so():
    """Failures first, then what fits; the rest is counted and named."""
    def many():
        for r in big_cases(30_000):
            yield {**r, "outcome": "fail"} if r["index"] == 29_000 else r

    text = page("cases", HEAD, many())
    assert len(text.encode()) < 1_000_000 and MOST_BYTES < 1_000_000
    assert 'id="c29000"' in text and "28500 more cases are not listed" in text and "without their details" in text


def test_drawings_of_nothing():
    """No cases at all still make a page."""
    assert ulp_plot([]) == "" and "circle" in ring([("pass", 0)])
    assert "–" in page("none", HEAD, [])


def test_float32_rows_show_the_share_of_the_limit():
    """As on the terminal: a float32 row has no ULP but the share its standard leaves, a float16 row has both."""
    lines = ("conv n1 c2>3 i5x5 k3x3 p1 fp32 on=A2", "conv n1 c2>3 i5x5 k3x3 p1 fp16 on=A2", LINES[3][1])
    found = records([make(str(i), line) for i, line in enumerate(lines)])
    rows = re.findall(r'<tr class="case".*?</tr>', page("x", HEAD, found), re.S)
    cells = [re.findall(r'<td class="num">(.*?)</td>', row) for row in rows]
    wide, narrow, refused = cells
    shares = [max(j["used"] for f in r["results"] for j in f["judged"]) for r in found[:2]]
    assert [wide[0], narrow[0]] == [f"{100 * share:.2g} %" for share in shares] and wide[1:3] == ["–", "–"]
    assert float(narrow[1]) > 0 and "–" not in narrow[:4] and refused == ["–"] * 5
    assert ["data-u" in row for row in rows] == [False, True, False]


def test_the_command_writes_the_page(tmp_path, capsys):
    """--html writes it and names it on standard error."""
    out = tmp_path / "report.html"
    assert main(["run", LINES[0][1], "--html", str(out), "-q"]) == 0
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>") and str(out) in capsys.readouterr().err


# ---- in a browser --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; skipped where there is none."""
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser, text, tmp_path):
    """The page in a browser that records every complaint and every request."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda e: complaints.append(str(e)))
    tab.on("request", lambda r: complaints.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    tab.on("dialog", lambda d: complaints.append(f"dialog {d.message}"))
    tab.goto(path.as_uri())
    yield tab
    assert complaints == []
    context.close()


def names(tab) -> list[str]:
    return tab.locator("tr.case:visible .open").all_inner_texts()


def test_sorting(opened):
    """A click sorts, another turns it round; numbers as numbers."""
    opened.click("th[data-sort=n] button")
    assert names(opened)[-4:] == ["alpha", "beta", "delta", "gamma"]
    opened.click("th[data-sort=g] button")
    shares = [float(r.get_attribute("data-g") or -1) for r in opened.locator("tr.case").all()]
    assert shares == sorted(shares, reverse=True) and shares[0] > 1 and shares[-1] == -1
    opened.click("th[data-sort=g] button")
    assert [float(r.get_attribute("data-g") or -1) for r in opened.locator("tr.case").all()] == sorted(shares)
    assert opened.get_attribute("th[data-sort=g]", "aria-sort") == "ascending"


def test_filtering(opened):
    """By words, product, dtype and outcome, together; a count says how many are left."""
    opened.fill("#text", "TBC fp16")
    assert names(opened) == ["gamma"] and opened.inner_text("#count") == "1 / 5"
    opened.fill("#text", "nothing like it")
    assert names(opened) == [] and opened.is_visible("#none")
    opened.fill("#text", "")
    opened.select_option("#product", "950")
    assert names(opened) == [EVIL.replace("\u2028", " ")] or len(names(opened)) == 1
    opened.select_option("#product", "")
    opened.select_option("#dtype", "bfloat16")
    assert names(opened) == ["alpha"]
    opened.select_option("#dtype", "")
    opened.click("button.tile.refused")
    assert names(opened) == ["delta"]
    opened.click("button.tile.all")
    assert len(names(opened)) == 5


def test_opening_a_case(opened):
    """Verdicts with thresholds, metrics, histogram, map, anatomy and worst elements; a second click closes it."""
    opened.click("text=beta")
    detail = opened.locator("tr.detail")
    assert detail.locator(".result h3").all_inner_texts() == ["grad_input", "grad_weight", "grad_bias"]
    shown = detail.inner_text()
    assert "judged as hf32" in shown and "rtol = 2^-9" in shown and "grad_input fails mixed" in shown
    assert detail.locator("svg[aria-label='histogram of ULP error'] rect").count() > 0
    assert detail.locator("svg[aria-label='error map'] rect").count() > 0
    assert detail.locator(".stack span").count() > 0 and detail.locator(".worst td").count() > 0
    opened.click("text=beta")
    assert detail.count() == 0


def test_a_refused_case_says_why(opened):
    """The rule's sentence, its id and status, and the way out."""
    opened.click("text=delta")
    shown = opened.inner_text("tr.detail")
    assert "must be at most 255" in shown and "161002" in shown and "split the window" in shown


def test_copying_a_reproducer(opened):
    """The button puts the command on the clipboard."""
    opened.click("text=alpha")
    opened.click("tr.detail .copy")
    opened.wait_for_selector("text=copied")
    copied = opened.evaluate("navigator.clipboard.readText()")
    (first, *_) = records([make(*LINES[0])])
    assert copied == first["reproduce"]


def test_a_link_opens_its_case(opened):
    """A dot of the overview leads to its case."""
    opened.evaluate("location.hash = '#c2'")
    opened.wait_for_selector("tr.detail")
    assert opened.get_attribute("#c2 .open", "aria-expanded") == "true"


def test_hostile_names_are_text(opened):
    """Shown as written, in the row and in the title; no element is made of them."""
    assert any(name.startswith('<script>alert("1")</script>') for name in names(opened))
    assert opened.locator("h1 script, td script").count() == 0
    assert opened.evaluate("document.querySelectorAll('script').length") == 3


def test_light_dark_and_phone(opened, tmp_path):
    """The switch and the system's wish change the colours; on a phone nothing is wider than the screen."""
    def background():
        return opened.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    opened.emulate_media(color_scheme="dark")
    dark = background()
    assert light != dark
    opened.click("#theme")
    assert background() == light
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.click("text=alpha")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    before = "(n) => getComputedStyle(document.querySelector(`tr.case > :nth-child(${n})`), '::before').content"
    named = [opened.evaluate(before, n) for n in (4, 5, 8)]
    assert named == ['"of limit "', '"mean ULP "', '"time "']  # a card names its numbers
    opened.screenshot(path=tmp_path / "phone.png")
    assert (tmp_path / "phone.png").stat().st_size > 10_000


def test_without_javascript_the_table_is_there(browser, text, tmp_path):
    """Rows, verdicts and drawings of the overview need no script."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert tab.locator("tr.case").count() == 5 and tab.locator("svg.plot circle").count() == 4
    context.close()


def test_case_names_of_any_kind():
    """Control characters and emptiness in names do not break the page."""
    cases = [Case(name, Request.parse(LINES[0][1])) for name in ("", "\x00\x1b[2J", "🙂" * 200, "a\nb")]
    assert page("x", HEAD, records(cases)).count('<tr class="case"') == 4
