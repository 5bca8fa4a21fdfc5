"""Building and running C and C++ programs against an installed prefix, each built once per run of the sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from convgrad.cli import sdk
from convgrad.engines import library as engine
from patience import finish

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "c"
NATIVE = ROOT / "native"
LINK_FLAGS = ("-lascendcl", "-lnnopbase", "-lopapi")
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def _fingerprint(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _native_files() -> list[Path]:
    return sorted(path for path in NATIVE.rglob("*") if path.is_file())


def made_once(name: str, parts: Iterable[object], make: object) -> Path:
    """A directory whose content `make(directory)` wrote; the same parts give the same directory, in every process."""
    directory = ROOT / "build" / "c_abi" / f"{name}-{_fingerprint(parts)}"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / ".made").exists():
            make(directory)  # type: ignore[operator]
            (directory / ".made").touch()
    return directory


def prefix() -> Path:
    """An installed prefix with the library this installation was built with."""
    return made_once("prefix", _native_files(), sdk.install)


def sanitized_prefix(sanitizer: str) -> Path:
    """A directory `lib64` with the library built for a sanitizer; headers come from the source tree.

    Kernels are those of one instruction set: what is tried here is the C library around them, and theirs are watched
    by `make test-sanitize` and `make test-sanitize-avx512`.
    """
    isa = "avx2" if engine.isa().startswith("avx") else engine.isa()

    def make(directory: Path) -> None:
        (directory / "lib64").mkdir(exist_ok=True)
        flags = f"-g -O1 -fno-omit-frame-pointer -fsanitize={sanitizer} -fno-sanitize-recover=all"
        options = ("-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_COMPILER=g++", f"-DCMAKE_CXX_FLAGS={flags}",
                   f"-DCONVGRAD_ONLY_ISA={isa}")  # fmt: skip
        built = sdk.compile_library(ROOT, directory / "build", options)
        built.replace(directory / "lib64" / sdk.LIBRARY)
        for name in sdk.LIBRARY_NAMES:
            (directory / "lib64" / name).unlink(missing_ok=True)
            (directory / "lib64" / name).symlink_to(sdk.LIBRARY)

    return made_once("sanitized", [sanitizer, isa, *_native_files()], make)


def build(
    source: Path, *, compiler: str = "g++", standard: str = "c++11", library: Path | None = None,
    flags: Sequence[str] = (), link: Sequence[str] | None = None,
) -> Path:  # fmt: skip
    """The program of a source, linked by name as the documents say (`-lascendcl -lnnopbase -lopapi`)."""
    home = library or prefix()
    lib64 = home / "lib64"

    def make(directory: Path) -> None:
        command = [
            compiler, f"-std={standard}", "-O1", "-g", *WARNINGS, *flags, f"-I{NATIVE / 'sdk/include'}",
            f"-I{NATIVE / 'sdk/include/aclnnop'}", f"-I{SOURCES}", str(source), "-o", str(directory / "program"),
            f"-L{lib64}", *(LINK_FLAGS if link is None else link), "-pthread",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"

    parts = [source, *sorted(SOURCES.glob("*.h")), compiler, standard, home.name, *flags, *(link or ())]
    return made_once(source.stem, parts, make) / "program"


def run(
    program: Path, *arguments: str, library: Path | None = None, environment: dict[str, str] | None = None,
    text: str | None = None, timeout: float = 120,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a program with the prefix's libraries; nothing else of the environment speaks to the library."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CONVGRAD_", "ASCEND_"))}
    lib64 = (library or prefix()) / "lib64"
    with tempfile.TemporaryFile("w+") as given:
        given.write(text or "")
        given.seek(0)
        process = subprocess.Popen(
            [str(program), *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=None if text is None else given,
            env={**clean, "LD_LIBRARY_PATH": str(lib64), **(environment or {})},
        )  # fmt: skip
        return finish(process, timeout)
