"""What a release is made of agrees with itself: versions, links, the text a package index shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import convgrad

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "native" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_the_version_has_one_home() -> None:
    """CITATION.cff and the changelog's first section name convgrad.__version__; no packaging file repeats it."""
    said = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert said is not None and said[1] == convgrad.__version__
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sections[0] == convgrad.__version__
    assert convgrad.__version__ not in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_tree_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file or directory that is there."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in LINK.findall(text):
        if not target.startswith(("http:", "https:", "mailto:", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_a_package_index_shows_no_broken_link() -> None:
    """The README under the substitutions of pyproject.toml keeps its sentences; it names nothing that is not there."""
    packaging = (ROOT / "pyproject.toml").read_text("utf-8")
    rules = re.findall(r"pattern = '([^']*)', replacement = '([^']*)'", packaging)
    assert len(rules) == 3
    shown = (ROOT / "README.md").read_text("utf-8")
    for pattern, replacement in rules:
        shown = re.sub(pattern, replacement, shown)
    assert "中文" not in shown  # a page that is not there
    assert "![" not in shown and "\n*" not in shown  # neither pictures nor what stands below them
    assert "\n\n\n" not in shown
    assert "pip install convgrad" in shown and "[concepts]" not in shown and "| concepts |" in shown
    assert not [target for target in LINK.findall(shown) if not target.startswith("http")]
