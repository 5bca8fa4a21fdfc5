"""What the documents show is what happens: code blocks run, printed results are compared, examples finish."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path):
    return BLOCK.findall(page.read_text("utf-8"))


@pytest.mark.parametrize("page", [p for p in PAGES if any(k == "python" for k, _ in blocks(p))], ids=lambda p: p.name)
def test_python_blocks_print_what_the_page_says(page, tmp_path, monkeypatch):
    """A python block runs in the page's own namespace; the text block behind it is its output."""
    if page.name.startswith("jax"):
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    printed = None
    for kind, text in blocks(page):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as captured:
                exec(compile(text, str(page), "exec"), names)
            printed = captured.getvalue()
        elif kind == "text" and printed is not None:
            assert printed.rstrip() == text.rstrip()
            printed = None


def commands(page: Path):
    """`$ convgrad ...` lines of console blocks, each with the output shown below it."""
    for kind, text in blocks(page):
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output


@pytest.mark.parametrize("page", [p for p in PAGES if any(commands(p))], ids=lambda p: p.name)
def test_console_blocks_print_what_the_page_says(page, tmp_path):
    """A command shown with its output prints just that."""
    for command, output in commands(page):
        words = shlex.split(command, comments=True)
        if words[0] == "convgrad":
            words[:1] = [sys.executable, "-m", "convgrad"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "NO_COLOR": "1"})
        assert (done.stdout + done.stderr).rstrip() == output.rstrip(), command


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_examples_run(example, tmp_path):
    """Every example runs to its end and prints something."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples")}
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def tables(page: Path):
    """Rows of every table, code spans and links only: what both languages must share."""
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[re.findall(r"`[^`]+`|\]\([^)]+\)", cell) for cell in row.split("|")[1:-1]] for row in rows]


def test_both_readmes_say_the_same():
    """The Chinese README has the same commands, code, printed results and tables as the English one."""
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"
    assert blocks(english) == blocks(chinese)
    assert tables(english) == tables(chinese)


@pytest.mark.parametrize("page", [
    "ttk", "atk", "msprobe", "pytest", "benchdnn", "torch_func", "jax", "notebooks", "referees",
])
def test_both_pages_say_the_same(page):
    """The Chinese page has the commands, code and tables of the English one."""
    english, chinese = (ROOT / "docs" / f"{page}{language}.md" for language in ("", ".zh-CN"))
    assert blocks(english) == blocks(chinese)
    assert tables(english) == tables(chinese)


def test_links_lead_somewhere():
    """Every relative link of a page names a file that exists."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
