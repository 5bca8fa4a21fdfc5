"""Chinese: chosen by option, variable or locale; no message of the program lacks its row, no row lacks its message."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import convgrad
from convgrad.cli.command_line import main
from convgrad.cli.help_format import labelled, paragraphs
from convgrad.core import standards
from convgrad.lab.report.page import page
from convgrad.rules import conv_tbc_backward, convolution_backward, sentences
from convgrad.text import language
from convgrad.text.terminal import ExitCode, fold, padded, table, width_of

LINE = "conv n1 c2>3 i5x5 k3x3 s0 p1 fp32 on=A2"
SOURCE = Path(convgrad.__file__).parent
SPOKEN = ("cli", "text", "lab/judging", "lab/run")
"""Rooms and modules whose texts all reach a person ..."""
RAISING = ("core", "rules", "engines", "calls", "lab", "functional.py", "torch/__init__.py", "torch/scanning.py",
           "torch/model_run.py", "torch/onnx_file.py", "jax/__init__.py", "ascendc")  # fmt: skip
"""... and those of which the errors do: texts in a `raise`, or called `message` before it."""
NOT_SAID = (
    r"<.*", r".*</.*", r"pip install .*", r"convgrad (bench|cases|dump|scan|completion) .*", r"invalid choice: '\(.*",
    r"unrecognized arguments:", r".*a row is an English line.*", r"(content|const|root|prefers-color-scheme)[=.: ].*",
    r"\}\}\);.*",
    r"(local|complete|#compdef|# \w+ .*|_describe|case|\.SS|\.\\\") .*",
    r"convgrad run .*", r"if \[ .*", r"[,;] .*",
    r".*(std::|#include|#define|static_cast|var\(--|\d+px|[a-z];$| \{$|\} \}).*",
)  # fmt: skip
"""Commands to be typed, patterns, pieces of pages: nothing to translate."""
GAPS = ("␟", "7")
"""What may stand in a gap: a word, a number."""


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    """The language is the process's: no test leaves another one behind."""
    yield
    language.use("en")


@pytest.mark.parametrize(("environment", "expected"), [
    ({}, "en"), ({"LANG": "zh_CN.UTF-8"}, "zh"), ({"LANG": "C.UTF-8"}, "en"), ({"LANG": "zh_CN", "LC_ALL": "C"}, "en"),
    ({"CONVGRAD_LANGUAGE": "zh", "LANG": "en_US.UTF-8"}, "zh"), ({"CONVGRAD_LANGUAGE": "en", "LANG": "zh_CN"}, "en"),
    ({"LC_MESSAGES": "zh_TW.UTF-8", "LANG": "en_US"}, "zh"), ({"LANG": "zhuang"}, "en"),
])  # fmt: skip
def test_the_environment_chooses(environment: dict[str, str], expected: str) -> None:
    """CONVGRAD_LANGUAGE before the locale, LC_ALL before LC_MESSAGES before LANG."""
    assert language.preferred(environment) == expected


@pytest.mark.parametrize("words", [
    ["check", LINE, "--language", "zh"], ["--language=zh", "check", LINE], ["check", "--lang", "zh", LINE],
])  # fmt: skip
def test_the_option_stands_anywhere(words: list[str], capsys) -> None:
    """`--language zh` before or behind the verb: the refusal is Chinese, the JSON and the exit code are as ever."""
    assert main(words) == ExitCode.REFUSED
    assert "拒绝 161002  stride 必须大于等于 1；实际为 [0, 0]" in capsys.readouterr().out
    main([*words, "--json"])
    assert '"message": "stride must be at least 1; got [0, 0]"' in capsys.readouterr().out


def test_the_variable_chooses_and_the_option_overrules(capsys, monkeypatch) -> None:
    """CONVGRAD_LANGUAGE=zh for errors of usage too; `--language en` takes it back; another word is refused."""
    monkeypatch.setenv("CONVGRAD_LANGUAGE", "zh")
    assert main(["chekc", LINE]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert shown.startswith("用法： convgrad") and "是否想写 check？" in shown and "invalid" not in shown
    main(["check", LINE, "--language", "en"])
    assert "refused 161002  stride must be" in capsys.readouterr().out
    assert main(["check", LINE, "--language", "fr"]) == ExitCode.USAGE


def test_a_python_program_is_answered_in_english(monkeypatch) -> None:
    """The environment chooses for the command alone: errors and texts of the library stay what programs compare."""
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    with pytest.raises(ValueError, match="stride must be at least 1"):
        convgrad.plan(convgrad.Request.parse(LINE))


def test_texts_within_texts() -> None:
    """A place before a message stays, gaps marked so are translated, a text without a row is `None`."""
    assert language.chinese("cases.json: no cases in it") == "cases.json：其中没有用例"
    assert language.chinese("3 cases written to out.csv (ttk)") == "3 个用例已写入 out.csv（ttk）"
    assert language.chinese("a.txt: line 3: bench needs a problem line or --file") == (
        "a.txt: 第 3 行: bench 需要一条问题行或 --file")  # fmt: skip
    assert language.chinese("nothing says this") is None


def test_texts_of_several_rows() -> None:
    """Pieces between semicolons are looked up one by one, what a row fixes within another row's gap counts too."""
    assert language.chinese("8 of 14 rows (x 2); 4 blocks, at most 1 on one of 4 cores") == (
        "14 行中的 8 行（x 2）；4 块，4 个核中每核最多 1 块")  # fmt: skip
    assert language.chinese("0.43, most lost to: transfers") == "0.43，主要损失于传输"
    assert language.chinese("nothing says this; transfers") is None
    assert language.chinese("tasks         2 that compute, 7 in all") == "任务          2 个计算，共 7 个"
    assert "（\n" not in "\n".join(fold("内部错误（CONVGRAD_TRACEBACK=1 显示）", 20))


def test_widths_of_chinese(monkeypatch) -> None:
    """Chinese takes two columns a character: tables line up, no line is too wide, no comma begins one."""
    assert width_of("精度 fp16") == 9 and padded("精度", 6, right=True) == "  精度"
    lines = table(("a", "b"), [("通过", "1"), ("pass", "2")]).splitlines()
    assert [width_of(line[: line.index(x)]) for line, x in zip(lines, "b12", strict=True)] == [6, 6, 6]
    text = "普通卷积时，grad_output 必须是 float32、float16 之一；实际为 hifloat8。" * 3
    for width in range(12, 70):
        folded = fold(text, width)
        assert max(map(width_of, folded)) <= width and "".join(folded).replace(" ", "") == text.replace(" ", "")
        assert not any(line.startswith(("，", "。", "；", "、")) for line in folded)
    monkeypatch.setenv("COLUMNS", "44")
    wide = table(("rule", "demand"), [("stride.positive", "stride 必须大于等于 1；实际为 [0, 0]" * 3)])
    assert max(map(width_of, wide.splitlines())) <= 44


def is_error(node: ast.AST) -> bool:
    """Whether a piece of code makes the text of an error."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "message" for target in node.targets)
    called = node.func if isinstance(node, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return isinstance(node, ast.Raise) or name.endswith(("Error", "error", "refused", "wrong_type"))


def templates() -> Iterator[tuple[str, str]]:
    """(where, text) of every string of two words or more that is shown; `{}` for what varies."""
    for name in (*SPOKEN, *RAISING):
        place = SOURCE / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            tree: ast.AST = ast.parse(path.read_text("utf-8"))
            if name in RAISING:
                kept = [node for node in ast.walk(tree) if is_error(node)]
                tree = ast.Module([node for node in kept if isinstance(node, ast.stmt)] + [
                    ast.Expr(node) for node in kept if isinstance(node, ast.expr)
                ], [])  # fmt: skip
            skipped = {id(c) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for c in ast.walk(node)}
            skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # doc strings
            inner = {id(n) for node in ast.walk(tree) if isinstance(node, ast.FormattedValue) for n in ast.walk(node)}
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
                    text = re.sub(r"(\{\})+", "{}", "".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (
                    id(node) not in skipped or id(node) in inner
                ):
                    text = re.sub(r"\{:[^}]*\}", "{}", node.value)
                else:
                    continue
                for part in paragraphs(text):
                    said = labelled(part)[1] or part.strip()
                    if re.search(r"[A-Za-z]{2,}[,:;]? [a-z]{2,}", said) and not re.search("[一-鿿]", said):
                        yield f"{path.relative_to(SOURCE)}:{node.lineno}", said


def test_every_message_has_its_chinese() -> None:
    """Each text of the rooms that speak has a row in text/chinese (how: CONTRIBUTING, "Say something")."""
    shown = [(where, text) for where, text in templates() if not any(re.fullmatch(p, text) for p in NOT_SAID)]
    assert len(shown) > 700
    lacking = {
        text: where for where, text in shown if all(language.chinese(text.replace("{}", gap)) is None for gap in GAPS)
    }
    assert not lacking, "\n".join(f"{where}: {text}" for text, where in lacking.items())


def test_the_report_page_is_told_in_chinese() -> None:
    """Every text of the page and of its script has a row; none is left in the page that is written."""
    here = SOURCE / "lab" / "report"
    spoken = set(re.findall(r'\bsay\("([^"]+)"', (here / "page.js").read_text("utf-8")))
    fixed = (here / "page.html").read_text("utf-8").partition("<body>")[2].partition("<script")[0]
    spoken |= {text.strip() for text in re.findall(r">([^<>$]*[A-Za-z]{2}[^<>$]*)<", fixed)}
    spoken |= set(re.findall(r'(?:aria-label|title|placeholder)="([^"$]+)"', fixed))
    assert len(spoken) > 40
    assert not {text for text in spoken if text not in ("MARE",) and language.chinese(text) is None}
    language.use("zh")
    shown = page("a", {"settings": {"standards": ["mixed"], "seed": 1, "engine": "native"}}, [])
    assert '<html lang="zh-CN">' in shown and "按名称或问题行筛选" in shown and "every product" not in shown


def test_rules_are_set_in_chinese() -> None:
    """Sentences of rules: a space between Chinese and Latin letters, none between Chinese, no English word of ours."""
    told = [sentences.sentence(rule, "zh") for rule in (*convolution_backward.RULES, *conv_tbc_backward.RULES)]
    wrong = r"[一-鿿][A-Za-z\[]|[A-Za-z\]][一-鿿]|[一-鿿] [一-鿿]| (or|is|and|when) "
    assert len(told) > 150 and not [text for text in told if re.search(wrong, text)]


def test_warnings_are_told_like_everything_else(tmp_path: Path) -> None:
    """A warning of ours under the command: folded, in the language chosen, no line of source; others' as ever."""
    code = (
        "import sys, warnings; from convgrad.cli import command_line; from convgrad.engines import library; "
        "library.why_not = lambda: 'x.so is truncated (5 bytes): install convgrad anew'; "
        f"sys.argv = ['convgrad', 'run', '{LINE.replace('s0', 's1')}', '-q', '--no-anatomy']; "
        "code = command_line.main(); warnings.warn('of another'); sys.exit(code)"
    )
    environment = {"CONVGRAD_LANGUAGE": "zh", "COLUMNS": "80", "PATH": "", "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    ours, _, others = done.stderr.partition("<string>")
    assert done.returncode == 0 and ours.startswith("convgrad: 警告: convgrad 正用较慢的参考引擎计算：x.so 被截断")
    assert "RuntimeWarning" not in ours and max(map(width_of, ours.splitlines())) <= 80
    assert "UserWarning: of another" in others


def test_standards_are_told_in_chinese() -> None:
    """Rule, note and the names of thresholds of every precision standard."""
    for row in standards.ALL:
        for text in filter(None, (row.rule.value, row.note)):
            assert language.chinese(text), text


def test_rows_are_whole() -> None:
    """A row's Chinese uses exactly the gaps of its English, is Chinese, and no English text has two rows."""
    seen: set[str] = set()
    for english, other in language.rows():
        assert english not in seen, english
        seen.add(english)
        gaps = {int(place) for place in re.findall(r"\{~?(\d+)\}", other)}
        assert gaps <= set(range(len(re.findall(r"\{[#w]?\}", english)))), other
        letters = len(re.findall("[A-Za-z]", re.sub(r"\{[#w]?\}", "", english)))
        assert "{}" not in english or letters + 3 * len(re.findall(r"\{[#w]\}", english)) >= 4, f"fits all: {english}"
        assert english != other or english in ("workspace",), other


def test_every_option_of_every_verb_is_told_in_chinese(capsys) -> None:
    """The help of each verb in Chinese: no line of it but usage and examples has three English words in a row."""
    from convgrad.cli.command_line import VERBS

    for verb in VERBS:
        assert main([verb.name, "--help", "--language", "zh"]) == 0
        shown = capsys.readouterr().out
        told = shown[shown.index("选项") :].splitlines()
        english = [x for x in told if re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", x) and not x.startswith("  convgrad")]
        assert not english, english


def test_every_option_has_a_help() -> None:
    """No option of any verb is left without a word about it."""
    from convgrad.cli.command_line import VERBS, build_parser

    def bare(parser: argparse.ArgumentParser) -> Iterator[str]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, inner in action.choices.items():
                    if len(inner._actions) > 3:
                        yield from (f"{name} {x}" for x in bare(inner))
            elif not action.help:
                yield "/".join(action.option_strings) or action.dest

    found = [f"{verb.name}: {x}" for verb in VERBS for x in bare(build_parser([verb.name]))]
    assert not found, found
