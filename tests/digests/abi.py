"""The C ABI: exported symbols, files of the installed prefix, prototypes, constants, sizes and offsets of structs.

Recorded (abi.txt): a line per fact.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RECORD = Path(__file__).with_name("abi.txt")
ENGINE_HEADER = Path(__file__).resolve().parents[2] / "native" / "include" / "convgrad.h"
C_HEADERS = Path(__file__).resolve().parents[2] / "native" / "sdk" / "include"


def _output(*words: str | Path, text: str | None = None) -> str:
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, input=text).stdout


def _symbols(library: Path | str) -> Iterator[str]:
    for line in sorted(_output("nm", "-D", "--defined-only", library).splitlines()):
        _, kind, name = line.split()
        yield f"symbol {Path(library).name} {kind} {name}"


def _header(header: Path, name: str, include: Path) -> Iterator[str]:
    """Prototypes as the preprocessor leaves them; constants and sizes as a program prints them."""
    flags = ["-x", "c", "-std=c11", f"-I{include}"]
    marked = _output("gcc", *flags, "-E", header)
    own, here = [], False
    for line in marked.splitlines():
        if line.startswith("# "):
            here = f'"{header}"' in line
        elif here:
            own.append(line)
    text = re.sub(r"\s+", " ", re.sub(r'__attribute__ ?\(\(.*?\)\)\)?|extern "C" {', "", "\n".join(own)))
    bodies = re.findall(r"enum[^{};]*{([^}]*)}", text)
    constants = [word.split("=")[0].strip() for body in bodies for word in body.split(",") if word.strip()]
    constants += re.findall(r"static const \w+ (\w+) =", text)
    macros = re.findall(r"^#\s*define (\w+)[ \t]+[-(\w]", header.read_text("utf-8"), re.MULTILINE)
    structs = re.findall(r"typedef struct (\w+) {([^}]*)} \w+;", text)
    flat = re.sub(r"{[^}]*}", "{}", text)
    for statement in sorted({part.strip() for part in flat.split(";") if part.strip()}):
        yield f"declared {name} {statement}"
    lines = [f'#include "{header}"', "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for constant in constants:
        lines.append(f'printf("constant {name} {constant} %lld\\n", (long long)({constant}));')
    for struct, body in structs:
        lines.append(f'printf("struct {struct} %zu\\n", sizeof({struct}));')
        for field in re.findall(r"(\w+)(?:\[\d+\])?(?=[,;])", body):
            lines.append(f'printf("struct {struct}.{field} %zu %zu\\n", offsetof({struct}, {field}), '
                         f"sizeof((({struct} *)0)->{field}));")  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        _output("gcc", *flags, "-", "-o", f"{scratch}/facts", text="\n".join([*lines, "return 0; }"]))
        yield from _output(f"{scratch}/facts").splitlines()
    values = _output("gcc", *flags, "-dM", "-E", header)
    for macro in sorted(set(macros)):
        found = re.search(rf"^#define {macro} (.*)$", values, re.MULTILINE)
        yield f"macro {name} {macro} {found[1] if found else ''}"


def snapshot() -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        prefix = Path(directory) / "prefix"
        _output(sys.executable, "-m", "convgrad", "sdk", "--prefix", prefix)
        lines = []
        for path in sorted(prefix.rglob("*")):
            kind = f"link {os.readlink(path)}" if path.is_symlink() else "directory" if path.is_dir() else "file"
            lines.append(f"{kind} {path.relative_to(prefix)}")
        lines += _symbols(prefix / "lib64" / "libconvgrad.so")
        include = prefix / "include"
        for header in sorted(path for path in include.rglob("*.h") if (C_HEADERS / path.relative_to(include)).exists()):
            lines += _header(header, str(header.relative_to(include)), include)
        lines += _header(ENGINE_HEADER, ENGINE_HEADER.name, ENGINE_HEADER.parent)
    return lines


def _missing() -> list[str]:
    return [tool for tool in ("gcc", "nm") if shutil.which(tool) is None]


def write(jobs: int) -> None:
    RECORD.write_text("\n".join(snapshot()) + "\n", "utf-8")


def differences(short: bool, jobs: int) -> Iterator[str]:
    """Facts that are gone or new."""
    if _missing():
        print(f"abi: {' and '.join(_missing())} not installed; that part is left out")
        return
    recorded, now = RECORD.read_text("utf-8").splitlines(), snapshot()
    yield from (f"gone: {line}" for line in recorded if line not in set(now))
    yield from (f"new: {line}" for line in now if line not in set(recorded))
