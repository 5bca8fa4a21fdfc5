"""What is composed when a command runs is Chinese too: no English sentence is left in the output of any verb."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from convgrad.cli.command_line import main
from convgrad.core import standards
from convgrad.text import language

KERNELS = Path(__file__).parents[2] / "examples" / "09_ascendc_kernels"
LINE = "conv n1 c32>32 i14x14 k3x3 p1 fp16 on=A2"
REFUSED = "conv n8 c64>64 i56x56 k3x3 s0 p1 fp32 on=910"
TBC = "tbc n3 c4>8 i40 k5 p2 fp32 on=A2"
LARGE = "conv n8 c64>64 i56x56 k3x3 p1 fp32 on=910 math=allow_down"
ON_950 = "conv n1 c16>16 i28x28 k3x3 p1 fp32 on=950 as=runtime"
MODEL = "from torch import nn\nnet = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, padding_mode='reflect'))\n"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("check", LINE), ("check", REFUSED), ("check", TBC, LARGE), ("explain", LINE), ("explain", REFUSED, "--all"),
    ("explain", TBC), ("explain", ON_950, "--path"), ("explain", "507015"), ("explain", "EZ9999"),
    ("explain", "stride.positive"), ("plan", LARGE), ("plan", TBC), ("plan", LARGE, "--workers", "4"),
    ("plan", LARGE, "--workers", "3", "--memory", "4MiB"), ("rules", "--product", "A2"),
    ("rules", "--product", "A2", "--against", "910"), ("rules", "--product", "950", "--conformance", "runtime"),
    ("dtypes",), ("dtypes", "hif8", "1.1"), ("cases", "list", "lines.txt"),
    ("cases", "convert", "lines.txt", "-o", "l.json"), ("golden", "lines.txt", "-o", "gold"),
    ("golden", "lines.txt", "-o", "kit", "--layout", "ttk"), ("kit", "ttk", "-o", "plugin"),
    ("kit", "atk", "-o", "plugin"),
    ("compare", "gold", "gold"), ("compare", "gold", "gold", "--standard", "{standards}"), ("standards",),
    ("run", "lines.txt", "--html", "r.html", "--csv", "r.csv", "--junit", "r.xml", "-j", "1"),
    ("run", "lines.txt", "--standard", "exact", "-j", "1"),
    ("run", "lines.txt", "--standard", "{standards}", "-j", "1"),
    ("bench", TBC, "--rounds", "1"), ("tile", LINE, "--all"), ("tile", LINE, "--all", "--gradient", "weight"),
    ("tile", "conv n1 c48>64 i3x20x20 k3x3x3 s2 p1 fp32 on=A2", "--all", "--gradient", "weight"),
    ("tile", "conv n2 c48>64 i3x20x20 k3x3x3 p1 bf16 on=A3", "--all", "--svg", "t.svg", "--golden", "tiles"),
    ("kernel", "{kernels}/grad_input.cpp", "--line", LINE), ("kernel", "{kernels}/grad_weight.cpp", "--line", LINE),
    ("scan", "model.py:net", "--input", "1,3,16,16", "--page", "s.html"), ("invariance", TBC),
    ("invariance", LINE, "--axis", "threads"), ("invariance", TBC, "--axis", "alone", "--deterministic", "3"),
    ("audit", "convgrad", TBC), ("sdk", "--prefix", "prefix"),
    ("sdk", "--prefix", "prefix", "--uninstall"), ("doctor",),
)  # fmt: skip
NAMES = re.compile(
    r"复现.*|\b(t?conv|tbc) n\d.*?( on=\w+| as=\w+)+|`[^`]*`|[\w.-]*/[\w/.-]+|convgrad check|output padding|"
    r"gemm \w+|line sums|grad_output grad_input"
)
"""What stays as it is: what is copied, problem lines, commands, paths of files and of the engine, attributes."""
SENTENCE = re.compile("[A-Za-z]{2,} [a-z]{2,}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a file of cases and a model, on a wide terminal; English again afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "lines.txt").write_text(f"{LINE}  # one\n{TBC}\n{REFUSED}\n")
    (tmp_path / "model.py").write_text(MODEL)
    yield tmp_path
    language.use("en")


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:40])
def test_no_english_sentence_is_left(words: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No line holds an English word in small letters behind another, but names, and lines that are to be copied."""
    if words[0] in ("compare", "sdk") and words[1] in ("gold", "--prefix"):
        main(["golden", "lines.txt", "-o", "gold"])
        main(["sdk", "--prefix", "prefix"])
        capsys.readouterr()
    names = ",".join(row.name for row in standards.ALL)
    main([*(word.format(standards=names, kernels=KERNELS) for word in words), "--language", "zh"])
    shown = capsys.readouterr()
    assert re.search("[一-鿿]", shown.out + shown.err)
    english = [line for line in (shown.out + shown.err).splitlines() if SENTENCE.search(NAMES.sub("", line))]
    assert not english, "\n".join(english)
