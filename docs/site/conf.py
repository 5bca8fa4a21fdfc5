"""Sphinx over the tree as it is: `make site`. Pages keep their places, so every link works here as on a forge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sphinx.search
from sphinx.search.en import SearchEnglish

import convgrad

ROOT = Path(__file__).resolve().parents[2]

project = "convgrad"
release = version = convgrad.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "native/README.md"]
exclude_patterns = ["build", ".venv", "dist", "out", "src", "tests", ".*", "native/engine", "native/acl", "native/sdk"]
html_theme = "furo"
html_title = f"convgrad {release}"
html_theme_options = {"source_edit_link": ""}
html_show_copyright = False
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"


class EnglishAndChinese(SearchEnglish):
    """Words as the theme splits them; a run of Chinese, which has no spaces, as its pairs of neighbours."""

    _CHINESE = re.compile("[\u4e00-\u9fff]+")
    js_splitter_code = r"""
var splitQuery = (query) => (query.match(/[\u4e00-\u9fff]+|(?:(?![\u4e00-\u9fff])[\p{L}\p{N}_])+/gu) || []).flatMap(
  (term) => /^[\u4e00-\u9fff]{3}/.test(term) ? [...term].slice(1).map((last, i) => term[i] + last) : [term]);
"""

    def split(self, input: str) -> list[str]:
        pairs = [run[i : i + 2] for run in self._CHINESE.findall(input) for i in range(max(len(run) - 1, 1))]
        return super().split(self._CHINESE.sub(" ", input)) + pairs


sphinx.search.languages["en"] = EnglishAndChinese

CHAPTERS = {
    "Start": ("docs/concepts", "docs/site/gallery", "docs/site/api"),
    "中文": ("说明 <README.zh-CN>", "docs/*.zh-CN"),
    "Guides": ("docs/contract", "docs/cases", "docs/standards", "docs/notebooks", "docs/torch", "docs/jax",
               "docs/ttk", "docs/atk", "docs/msprobe", "docs/pytest", "docs/benchdnn", "docs/torch_func",
               "docs/scaleout", "docs/c_abi", "docs/tile_kernel", "docs/ascendc_cpp",
               "docs/ascendc_cpp_tutorial", "docs/performance"),
    "Tables": ("docs/generated/*",),
    "Inside": ("ARCHITECTURE", "docs/engine", "native/README", "CONTRIBUTING", "AGENTS", "SECURITY", "CHANGELOG"),
}  # fmt: skip


def contents() -> str:
    """The chapters as tables of contents; pages that no chapter names come last."""
    named = [page for pages in CHAPTERS.values() for page in pages]
    others = sorted(
        str(path.relative_to(ROOT).with_suffix("")) for path in (ROOT / "docs").glob("*.md")
        if str(path.relative_to(ROOT).with_suffix("")) not in named and not path.stem.endswith(".zh-CN")
    )  # fmt: skip
    parts = []
    for caption, pages in {**CHAPTERS, "More": tuple(others)}.items():
        listed = "\n".join(pages)
        parts.append(f"```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n{listed}\n```")
    return "\n\n".join(parts)


PICTURES = {
    "demo": "![The report page of the demo](/docs/images/report.png)",
    "03_explain_a_refusal": "![A refusal explained, as a notebook shows it](/docs/images/notebook.png)",
    "05_tile_kernel": "![The walk of a tile kernel over its tiles](/docs/generated/tile_walk.svg)",
    "train_under_emulation": "![Loss of a small network under each product](/docs/images/torch_training.svg)",
}


def gallery() -> str:
    """The example programs: what each shows, its picture, and its text."""
    parts = []
    numbered = sorted(path.stem for path in (ROOT / "examples").glob("[0-9]*.py"))
    for name in ("demo", *numbered, "train_under_emulation"):
        said = re.search(r'"""(.+?)(?:\n|""")', (ROOT / "examples" / f"{name}.py").read_text("utf-8"))
        title = name.lstrip("0123456789_").replace("_", " ").capitalize()
        about = said[1].rstrip('"') if said else ""
        program = f"```{{literalinclude}} /examples/{name}.py\n:language: python\n```"
        parts.append(f"## {title}\n\n{about}\n\n{PICTURES.get(name, '')}\n\n{program}")
    return "\n\n".join(parts)


def change_source(app: Any, page: str, source: list[str]) -> None:
    """What a forge shows by itself: the contents under the front page, a directory of examples."""
    text = re.sub(r"\]\((?:\.\./)*examples/?\)", f"]({'/' if page else ''}docs/site/gallery.md)", source[0])
    if page == root_doc:
        text += "\n\n" + contents()
    if page == "docs/site/gallery":
        text += "\n\n" + gallery()
    source[0] = text


def plain_docstring(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: what stands between backticks is code, indented lines are kept as they are."""
    if lines and lines[0].startswith("Alias for field number"):  # Python's own, of a named tuple
        lines.clear()
    made: list[str] = []
    kept = False
    for line in lines:
        indented = line.startswith("    ") or line.startswith("|")
        if indented and not kept:
            made += ["", "::", ""]
        elif kept and line.strip() and not indented:
            made.append("")
        kept = indented or (kept and not line.strip())
        if indented:
            made.append("    " + line)
        else:
            pieces = enumerate(re.split(r"`+([^`]*)`+", line))
            made.append("".join(f"``{p}``" if i % 2 else re.sub(r"([*_|\\<>])", r"\\\1", p) for i, p in pieces))
    lines[:] = made


def front_page(app: Any, failed: Exception | None) -> None:
    """The address of the site itself leads to its first page."""
    if failed is None and app.builder.name == "html":
        target = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=README.html">\n'
        Path(app.outdir, "index.html").write_text(target, "utf-8")


def setup(app: Any) -> None:
    app.connect("source-read", change_source)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("build-finished", front_page)
