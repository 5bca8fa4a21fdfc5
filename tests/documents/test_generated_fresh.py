"""Generated files are what their rows give, and the engine's include holds the numbers of the Python rows."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from convgrad.core import dtypes, rounding

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def generate() -> ModuleType:
    """tools/generate.py as a fresh module, so that a test may point it elsewhere."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_fresh(generate: ModuleType) -> None:
    """No generated file differs from what its rows give today."""
    assert generate.stale() == []


def test_check_names_stale_files_and_writes_nothing(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check exits 1 naming missing and edited files only; a plain run brings exactly those up to date."""
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main(["--check"]) == 1
    named = capsys.readouterr().out.splitlines()
    assert named == [f"stale: {name} (run `make generate`)" for name in generate.GENERATED]
    assert list(tmp_path.iterdir()) == []
    assert generate.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"wrote {name}" for name in generate.GENERATED]
    assert generate.main(["--check"]) == 0
    page = tmp_path / "docs/generated/dtypes.md"
    page.write_text(page.read_text(encoding="utf-8") + "edited\n", encoding="utf-8")
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out.splitlines() == ["stale: docs/generated/dtypes.md (run `make generate`)"]


PRINT_TABLES = r"""
#include <cstdint>
#include <cstdio>
#include "dtypes.inc"
static void table(const uint32_t *bits) { for (int i = 0; i < 256; ++i) std::printf("%u\n", bits[i]); }
int main() {
    for (const cg_dtype_row &row : CG_DTYPE_ROWS) {
        std::printf("%s %d %d %a %d %d %d", row.name, row.bits, row.min_exponent, row.max_finite,
                    row.has_infinities, row.ties_away, row.signed_zero);
        for (const auto &pair : row.fraction) std::printf(" %d:%d", pair[0], pair[1]);
        std::printf("\n");
    }
    table(CG_DECODE_FLOAT8_E4M3FN);
    table(CG_DECODE_FLOAT8_E5M2);
    table(CG_DECODE_HIFLOAT8);
}
"""


def test_engine_include_holds_the_rows(tmp_path: Path) -> None:
    """Compiled without a warning, dtypes.inc gives each row's numbers and all 768 decoded 8-bit codes."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, program = tmp_path / "tables.cpp", tmp_path / "tables"
    source.write_text(PRINT_TABLES, encoding="utf-8")
    flags = ["-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'native' / 'generated'}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(program)], check=True)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = sorted(dtypes.ALL, key=lambda row: row.engine_code)
    for line, row in zip(lines, rows, strict=False):
        name, bits, exponent, largest, infinities, away, signed, *pairs = line.split()
        assert (name, int(bits), int(exponent)) == (row.name, row.bits, row.min_exponent)
        assert float.fromhex(largest) == row.max_finite
        assert (infinities, away, signed) == tuple(
            "01"[flag] for flag in (row.has_infinities, row.ties is dtypes.Ties.AWAY, row.signed_zero)
        )
        assert tuple(tuple(map(int, pair.split(":"))) for pair in pairs[: len(row.fraction)]) == row.fraction
    codes = np.array(lines[len(rows) :], np.uint32).view(np.float32).reshape(3, 256)
    for values, name in zip(codes, ("float8_e4m3fn", "float8_e5m2", "hifloat8"), strict=True):
        assert np.array_equal(values, rounding.decode(name, np.arange(256)), equal_nan=True)
