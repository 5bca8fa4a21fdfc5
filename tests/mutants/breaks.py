"""The kept list of breaks: text files of blocks, one block per break, one file per area.

    @ src/convgrad/lab/judging/judge.py           the file that is broken
    ? tests/core/test_standards.py::test_limits   the test that catches it
    - mere <= limit                               what stands there, exactly once in the file
    + mere < limit                                what is put there instead

Further lines that begin with - or + belong to the same text. `% avx512bf16` builds the engine for another instruction
set than AVX2. `! because ...` says why no test catches it: it counts as not caught, and is left out of samples.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class StaleBreak(Exception):
    """A break that no longer fits its file."""


@dataclass(slots=True)
class Break:
    """One deliberate fault and the test that catches it."""

    area: str
    line: int
    file: str = ""
    test: str = ""
    isa: str = "avx2"
    survives: str = ""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    @property
    def native(self) -> bool:
        return self.file.startswith("native/")

    @property
    def place(self) -> str:
        return f"{self.area}.txt:{self.line}"

    def applied(self, text: str) -> str:
        """The broken text; the old one must be there exactly once."""
        old, new = "\n".join(self.old), "\n".join(self.new)
        if not old or old == new:
            raise StaleBreak(f"{self.place}: says no change")
        if (count := text.count(old)) != 1:
            raise StaleBreak(f"{self.place}: {self.file} has {count} times {old!r}")
        return text.replace(old, new)

    def key(self, root: Path) -> str:
        """Changes with the break, the file it breaks and the text of its test."""
        digest = hashlib.sha256(repr((self.file, self.test, self.isa, self.old, self.new)).encode())
        digest.update((root / self.file).read_bytes())
        path, _, function = self.test.partition("::")
        text = (root / path).read_text("utf-8")
        name = re.escape(function.partition("[")[0])
        body = re.search(rf"^def {name}\(.*?(?=^\S|\Z)", text, re.M | re.S)
        digest.update((body[0] if body else text).encode())
        return digest.hexdigest()[:24]


def read(directory: Path = HERE / "breaks") -> list[Break]:
    """Every break of the list."""
    return [found for path in sorted(directory.glob("*.txt")) for found in _read(path)]


def _read(path: Path) -> list[Break]:
    found: list[Break] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        mark, text = line[:1], line[2:]
        if not line or mark == "#":
            continue
        if mark == "@":
            found.append(Break(path.stem, number, text.strip()))
        elif mark in "?%!":
            setattr(found[-1], {"?": "test", "%": "isa", "!": "survives"}[mark], text.strip())
        elif mark in "-+":
            (found[-1].old if mark == "-" else found[-1].new).append(text)
        else:
            raise StaleBreak(f"{path.name}:{number}: begins with none of @ ? - + % ! #")
    return found
