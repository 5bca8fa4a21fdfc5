"""`convgrad tile`: text, JSON, picture, golden files, exit codes."""

from __future__ import annotations

import json

import pytest

from convgrad.cli.command_line import main

LINE = "conv n1 c20>24 i3x9x8 k2x3x3 s1x2x1 p0x1x1 fp16"


def answer(capsys, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error of one command line."""
    code = main(["tile", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text_has_reasons_stores_traffic_and_the_check(capsys):
    """The answer holds the tiling table with reasons, the four stores, balance, loads, and ends with the check."""
    code, out, _ = answer(capsys, LINE, "--cores", "4")
    assert code == 0
    for words in ("baseM", "the tile fills", "L0A", "L1 ", "work on", "loads     gradOutput", "multiply-adds"):
        assert words in out, words
    assert out.splitlines()[-1].startswith("check     gradInput == ")
    assert "padBack" not in out.split()  # plain sizes only with --all
    _, out, _ = answer(capsys, LINE, "--cores", "4", "--all")
    assert "padBack" in out.split()


@pytest.mark.parametrize(
    "line",
    [LINE, "conv n2 c5>7 i10x9 k3x3 p1 bf16", "conv n1 c5>7 i20 k3 p1 fp16",
     "tconv n1 c8>6 i2x4x5 k3x3x3 s2 p1 o4x8x9 fp16",
     f"{LINE} want=w", "conv n1 c5>7 i10x9 k3x3 p1 bf16 want=w on=A2"],
)  # fmt: skip
def test_json_of_every_kind_of_line(capsys, line):
    """1-D, 2-D, 3-D, transposed and gradWeight lines: JSON with every field and reason, and an equal check."""
    code, out, _ = answer(capsys, line, "--json", "--cores", "5")
    told = json.loads(out)
    assert code == 0 and told["check"]["equal"] and told["check"]["wrong"] == 0
    assert len(told["tiling"]) == (52 if "want=w" in line else 66)
    assert all(field["reason"] for field in told["tiling"].values())
    assert told["cores"] == 5 and told["cores_used"] <= 5


def test_picture_and_golden_files(capsys, tmp_path):
    """--svg and --golden write their files and say so on standard error; --dry computes nothing."""
    picture, golden = tmp_path / "walk.svg", tmp_path / "golden"
    code, _, err = answer(capsys, LINE, "--svg", str(picture), "--golden", str(golden))
    assert code == 0 and picture.read_text().startswith("<svg") and (golden / "index.json").exists()
    assert "wrote" in err and "tiles to" in err
    code, out, _ = answer(capsys, LINE, "--dry", "--json")
    assert code == 0 and json.loads(out)["check"] is None


def test_the_filter_kernel_has_the_same_answers(capsys, tmp_path):
    """--gradient weight gives tiling, stores, balance, traffic and check; --svg, --golden and --dry work as well."""
    code, out, _ = answer(capsys, LINE, "--gradient", "weight", "--cores", "4")
    assert code == 0
    for words in ("Conv3DBackpropFilter", "baseM", "the tile fills", "single shape  singleCoreM", "L0A", "L1 ",
                  "work on", "loads     gradOutput", ", input ", "copies", "multiply-adds", "adds per"):  # fmt: skip
        assert words in out, words
    assert out.splitlines()[-1].startswith("check     gradWeight == ")
    picture, golden = tmp_path / "walk.svg", tmp_path / "golden"
    words = (LINE, "--gradient", "weight", "--svg", str(picture), "--plane", "1", "--golden", str(golden))
    code, _, err = answer(capsys, *words)
    assert code == 0 and "gradWeight of window plane 1" in picture.read_text() and (golden / "index.json").exists()
    assert "wrote" in err and "tiles to" in err
    code, out, _ = answer(capsys, LINE, "--gradient", "weight", "--dry", "--json")
    told = json.loads(out)
    assert code == 0 and told["check"] is None and told["kernel"] == "Conv3DBackpropFilter"
    assert {"basicBlockTiling", "balance", "stores", "traffic", "input_reloads", "adds_per_element"} <= set(told)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["conv nonsense"], 2, "nonsense"),
        ([LINE, "--cores", "0"], 2, "--cores"),
        ([LINE, "--gradient", "bias"], 2, "--gradient"),
        ([f"{LINE} want=w", "--svg", "x.svg", "--plane", "7"], 2, "plane"),
        (["tconv n1 c8>6 i2x4x5 k3x3x3 s2 p1 o4x8x9 fp16", "--gradient", "weight"], 2, "not of tconv"),
        ([LINE.replace("fp16", "fp32")], 2, "operands must be fp16 or bf16"),
        ([f"{LINE} on=950"], 2, "exist on A2 and A3"),
        (["conv n1 c4>4 i9x9 k3x3 p1 g2 fp16"], 2, "groups must be 1"),
        (["conv n0 c4>4 i9x9 k3x3 p1 fp16"], 2, "tensors with elements"),
        (["tbc n2 c3>4 i6 k3 fp16"], 2, "conv and tconv"),
        (["conv n1 c4>4 i14x14 k3x3 s5x5 p5 fp16"], 3, "reproduce: conv n1 c4>4 i14x14 k3x3 s5 p5"),
    ],
)  # fmt: skip
def test_refusals(capsys, words, code, text):
    """A wrong command line, or a problem no kernel is for, is 2; one the contract refuses is 3; with a reproducer."""
    got, out, err = answer(capsys, *words)
    assert (got, out) == (code, "")
    assert text in err
