"""Every command the pages "If you use …" show in a table or a sentence runs, in either language."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from test_dumps import network

from convgrad.cli.command_line import main

ROOT = Path(__file__).parents[2]
PAGES = {"ttk": 5, "atk": 2, "msprobe": 5, "pytest": 1, "benchdnn": 2}
"""Pages and how many commands each shows."""
WRITTEN = {"ttk": ("data", "progress"), "atk": ("made.csv",), "msprobe": ("dump.html", "compare.csv"),
           "pytest": ("cases.txt",), "benchdnn": ("made.csv",)}  # fmt: skip


def commands(page):
    return re.findall(r"`convgrad ([^\s`]+ [^`]+)`", (ROOT / "docs" / page).read_text("utf-8"))


def results(directory):
    """What a device would have written: here the golden outputs themselves."""
    for path in (directory / "data").rglob("golden_*"):
        to = directory / "results" / path.relative_to(directory / "data")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to.with_name(path.name.replace("golden", "output")))


@pytest.mark.parametrize("language", ["", ".zh-CN"])
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_runs(page, language, tmp_path, monkeypatch, capsys):
    """With the files it names made beforehand; files it is to write are there afterwards."""
    monkeypatch.chdir(tmp_path)
    data = ROOT / "tests" / "data"
    (tmp_path / "cases.csv").write_text((data / "cases_ttk.csv").read_text("utf-8"), "utf-8")
    (tmp_path / "cases.json").write_text((data / "cases_atk.json").read_text("utf-8"), "utf-8")
    (tmp_path / "shapes.txt").write_text("--dir=BWD_WB --dt=f32\nmb2ic4ih8oc6oh8kh3ph1\n", "utf-8")
    if page == "msprobe":
        for name in ("run", "npu", "cpu"):
            network(tmp_path / name).write()
    shown = commands(f"{page}{language}.md")
    assert len(shown) == PAGES[page] and shown == commands(f"{page}.md")
    for command in shown:
        words = shlex.split(command)
        if words[0] == "compare":
            results(tmp_path)
        if words[:2] == ["cases", "gen"] and page == "ttk":  # the file the commands before it read
            (tmp_path / "cases.csv").unlink()
        code = main(words)
        assert code == 0, (command, code, capsys.readouterr())
    assert all((tmp_path / name).exists() for name in WRITTEN[page])
