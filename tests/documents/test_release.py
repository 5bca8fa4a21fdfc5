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


def test_the_files_for_a_forge_say_what_is_there() -> None:
    """They parse; what they run is a program or a target of this tree; templates and the citation have their fields."""
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    ours = [words for words in [*commands, *(hook["entry"] for hook in hooks)] if not words.startswith("apt-get")]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert sorted(ours) == [".ci/run", "make lint", "make wheels"]
    assert (ROOT / ".ci/run").exists() and {"lint", "wheels"} <= set(targets)
    for template in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.md"):
        head = yaml.safe_load(template.read_text("utf-8").split("---")[1])
        assert set(head) == {"name", "about"}, template
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation) and citation["license"] == "Apache-2.0"
