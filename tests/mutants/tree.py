"""A scratch copy of the project in which breaks are made: its own sources, its own build of the native parts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

from breaks import ROOT, Break

import convgrad

_LEFT_OUT = (".git", ".venv", "build", "dist", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis", "*.so")
_SECONDS = 900
_LIBRARY = "libconvgrad.so"
# An editable installation finds the package in the original tree, before any path: it is taken out of the way.
_SITE = "import sys\nsys.meta_path[:] = [f for f in sys.meta_path if 'Redirecting' not in type(f).__name__]\n"


class Outcome(str, Enum):
    """What became of a break."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    UNBUILT = "does not build"
    ABSENT = "needs another processor"


class Tree:
    """One scratch copy; breaks are made in it one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.resolve()
        self._broken = root / "broken"  # which file is broken now: a killed run leaves it behind
        shutil.rmtree(root / "src", ignore_errors=True)
        for name in os.listdir(ROOT):
            source, target = ROOT / name, root / name
            if any(Path(name).match(pattern) for pattern in _LEFT_OUT):
                continue
            root.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                _update(source, target)
            else:
                shutil.copy2(source, target)
        package = root / "src" / "convgrad"
        (package / "_native").mkdir(parents=True)
        (package / "_native" / "native").symlink_to(root / "native")
        (package / "_native" / "CMakeLists.txt").symlink_to(root / "CMakeLists.txt")
        (package / "_lib").mkdir()
        (root / "site").mkdir(exist_ok=True)
        (root / "site" / "sitecustomize.py").write_text(_SITE)
        self._use(_installed())
        if self._broken.exists():
            (root / self._broken.read_text()).touch()  # whole again, and built again
            self._broken.unlink()

    def _use(self, libraries: Path) -> None:
        place = self.root / "src" / "convgrad" / "_lib"
        (place / _LIBRARY).unlink(missing_ok=True)
        shutil.copyfile(libraries / _LIBRARY, place / _LIBRARY)

    def run(self, tests: list[str], seconds: float = _SECONDS) -> tuple[int, str]:
        """Exit code and output of pytest in this tree; a test that never ends counts as failed."""
        path = os.pathsep.join([str(self.root / "site"), str(self.root / "src")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", *tests]
        try:
            done = subprocess.run(
                words, cwd=self.root, env=environment, capture_output=True, text=True, errors="replace",
                timeout=seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 1, "timeout"
        return done.returncode, done.stdout + done.stderr

    def build(self, isa: str) -> bool:
        """The native parts as they are in this tree now, for one instruction set."""
        words = ["make", "-s", "-f", "tests/mutants/native.mk", f"ISA={isa}", "-j2"]
        done = subprocess.run(words, cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            self._use(self.root / "build" / "mutants" / isa)
        return done.returncode == 0

    def attempt(self, one: Break) -> tuple[Outcome, str]:
        """Makes a break, runs its test, and takes the break back; the first test that failed."""
        if one.native and not has(one.isa):
            return Outcome.ABSENT, ""
        path = self.root / one.file
        whole = path.read_text("utf-8")
        self._broken.write_text(one.file)
        try:
            path.write_text(one.applied(whole), "utf-8")
            if one.native and not self.build(one.isa):
                return Outcome.UNBUILT, ""
            code, out = self.run([one.test])
            if code in (3, 4, 5):
                raise RuntimeError(f"{one.place}: {one.test} cannot be run:\n{out[-1500:]}")
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", out, re.M)
            return (Outcome.CAUGHT if code else Outcome.SURVIVED), failed[1] if failed else ""
        finally:
            path.write_text(whole, "utf-8")
            self._broken.unlink()
            if one.native:
                for left in (self.root / "build" / "c_abi").glob("*"):
                    shutil.rmtree(left)


def _update(source: Path, target: Path) -> None:
    """A copy in which unchanged files keep their time, so that only what changed is built again."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_LEFT_OUT), dirs_exist_ok=True)
    for path in [*target.rglob("*")]:
        if path.is_file() and not (source / path.relative_to(target)).exists():
            path.unlink()


def _installed() -> Path:
    for directory in convgrad.__path__:
        if (Path(directory) / "_lib" / _LIBRARY).is_file():
            return Path(directory) / "_lib"
    raise FileNotFoundError("the native parts are not built: make .venv/.ready")


def has(isa: str) -> bool:
    """Whether this machine runs an instruction set."""
    flag = {"avx2": "avx2", "avx512bf16": "avx512_bf16"}.get(isa)
    return flag is None or flag in Path("/proc/cpuinfo").read_text()
