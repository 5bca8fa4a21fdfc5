"""Every command the pages about test kits and dumps show in a table or a sentence runs, in either language."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from test_dumps import network

from convgrad.cli.command_line import main

ROOT = Path(__file__).parents[2]
PAGES = ("test_kits.md", "test_kits.zh-CN.md")


def commands(page):
    return re.findall(r"`convgrad ([^`]+)`", (ROOT / "docs" / page).read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_runs(page, tmp_path, monkeypatch, capsys):
    """With the files it names made beforehand; files it is to write are there afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text((ROOT / "tests" / "data" / "cases_ttk.csv").read_text("utf-8"), "utf-8")
    (tmp_path / "shapes.txt").write_text("--dir=BWD_WB --dt=f32\nmb2ic4ih8oc6oh8kh3ph1\n", "utf-8")
    for name in ("run", "npu", "cpu"):
        network(tmp_path / name).write()
    shown = commands(page)
    assert len(shown) >= 9 and sorted(shown) == sorted(commands(PAGES[0]))
    for command in shown:
        words = shlex.split(command)
        if "-o" in words:  # an example's file must not be that of the case file it reads
            words = [w if w != "cases.csv" or words[0] != "cases" else "made.csv" for w in words]
        if words[0] == "compare":
            for path in (tmp_path / "data").rglob("golden_*"):
                to = tmp_path / "results" / path.relative_to(tmp_path / "data")
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to.with_name(path.name.replace("golden", "output")))
        code = main(words)
        assert code == 0, (command, code, capsys.readouterr())
    assert all((tmp_path / name).exists() for name in ("dump.html", "compare.csv", "progress", "made.csv"))
