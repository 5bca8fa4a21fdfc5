"""The site: built without a warning, every link inside it leads somewhere, and a real browser shows it."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from browser import chromium

ROOT = Path(__file__).parents[2]


def test_the_site(tmp_path: Path) -> None:
    """Built as by `make site`; links; in Chromium on a desk, in the dark, on a phone; the search. One build for all."""
    site = built(tmp_path)
    every_link_leads_somewhere(site)
    with chromium() as browser:
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            a_browser_shows_the_pages(site, browser, width, scheme)
        the_search_finds(site, browser)


def built(made: Path) -> Path:
    """The pages; a warning is an error."""
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="the packages of `make site` are not installed")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs/site"]
    done = subprocess.run(
        [*command, "-d", str(made / "doctrees"), ".", str(made / "html")], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return made / "html"


class Targets(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            elif value and name == "id":
                self.places.add(value)


def every_link_leads_somewhere(site: Path) -> None:
    """Pages, pictures, programs and places inside pages that any page of the site names are there."""
    read = cache(Targets)
    missing = []
    for page in site.rglob("*.html"):
        for link in read(page).links:
            file, _, place = unquote(link).partition("#")
            if "://" in link or link.startswith(("mailto:", "data:", "javascript:")):
                continue
            target = (page.parent / file.partition("?")[0]).resolve() if file else page
            if not target.exists() or (place and target.suffix == ".html" and place not in read(target).places):
                missing.append(f"{page.relative_to(site)}: {link}")
    assert not missing, missing


PAGES = {
    "README.html": "Run Ascend NPU convolution gradients on any CPU", "README.zh-CN.html": "安装",
    "docs/jax.html": "vmap", "docs/notebooks.zh-CN.html": "日志", "docs/site/api.html": "convgrad.report",
    "docs/site/gallery.html": "Explain a refusal", "docs/generated/rules.html": "math.float32.910",
}  # fmt: skip


def a_browser_shows_the_pages(site: Path, browser: Any, width: int, scheme: str) -> None:
    """On a desk and on a phone: the text is there, pictures load, nothing sticks out, nothing is fetched."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("pageerror", lambda e: complaints.append(str(e)))
    tab.on("request", lambda r: complaints.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    for page, said in PAGES.items():
        tab.goto((site / page).as_uri())
        assert said in tab.inner_text("article"), page
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), page
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert tab.evaluate(broken) == [], page
        lightness = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)[0]")
        assert (lightness > 128) == (scheme == "light"), page
    assert complaints == []
    context.close()


def the_search_finds(site: Path, browser: Any) -> None:
    """A word of the documents and one of the API are found, by the site alone."""
    tab = browser.new_page()
    words = (("winograd", "Fewer multiplications"), ("conv_tbc_backward", "Python API"),
             ("aclnn 返回码", "Return codes"), ("用例文件", "如果你使用 ATK"))  # Chinese has no spaces  # fmt: skip
    for word, page in words:
        tab.goto((site / "search.html").as_uri() + f"?q={word}")
        tab.wait_for_selector("#search-results ul.search li", timeout=60_000)
        tab.wait_for_function("/finished|complete/i.test(document.querySelector('#search-results p').textContent)")
        assert page in tab.inner_text("#search-results"), word
    tab.close()
