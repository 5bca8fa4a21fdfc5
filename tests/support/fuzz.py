"""`make fuzz`: libFuzzer over call sequences of the C door, in ordinary and in strict mode, and over tiling records and
calls of the Ascend C objects. FUZZ_SECONDS in all, 300 by default; FUZZ_TARGETS names some.

The sources under test are compiled into each target with coverage, ASan and UBSan; the engine is the installed one
(`make sanitize` watches the engine). Where clang has no libFuzzer, g++ builds the same targets and random inputs take
its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from c_programs import NATIVE, ROOT, SOURCES, made_once
from convgrad.engines import library

SANITIZERS = "-fsanitize=address,undefined"
FOLDERS = ("include", "sdk/include", "sdk/kernel", "acl", "engine")


@cache
def has_libfuzzer() -> bool:
    """Whether clang can link its fuzzer here."""
    source = "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }"
    command = ["clang++", f"{SANITIZERS},fuzzer", "-x", "c++", "-", "-o", os.devnull]
    try:
        return subprocess.run(command, input=source, capture_output=True, text=True, check=False).returncode == 0
    except OSError:
        return False


@dataclass(frozen=True)
class Target:
    """A program of libFuzzer: its source, the native folders compiled with it, and how it is run."""

    name: str
    source: str
    folders: tuple[str, ...]
    environment: dict[str, str]
    engine_files: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """Everything that is compiled."""
        found = [path for folder in self.folders for path in sorted((NATIVE / folder).rglob("*.cpp"))]
        driver = [] if has_libfuzzer() else [SOURCES / "random_inputs.cpp"]
        return [*found, *(NATIVE / one for one in self.engine_files), SOURCES / self.source, *driver]

    def build(self, directory: Path) -> None:
        """Each source by itself, so that all cores help."""
        compiler = ["clang++", f"{SANITIZERS},fuzzer"] if has_libfuzzer() else ["g++", SANITIZERS]
        flags = [*compiler, "-std=c++17", "-g", "-O1", "-fno-sanitize-recover=all", "-fPIC", "-Wno-psabi"]
        includes = [f"-I{NATIVE / folder}" for folder in FOLDERS]
        objects = [directory / f"{number}_{source.stem}.o" for number, source in enumerate(self.files())]
        pending = list(zip(self.files(), objects, strict=True))
        while pending:
            batch, pending = pending[: os.cpu_count() or 1], pending[os.cpu_count() or 1 :]
            running = [subprocess.Popen([*flags, *includes, "-c", str(s), "-o", str(o)]) for s, o in batch]
            if any(process.wait() for process in running):
                raise SystemExit("the fuzz target does not compile")
        engine = library.library_path()
        link = [*flags, *map(str, objects), str(engine), f"-Wl,-rpath,{engine.parent if engine else ''}", "-pthread"]
        subprocess.run([*link, "-o", str(directory / "target")], check=True)

    def run(self, seconds: int, *options: str) -> int:
        """So many seconds; the exit code, after the last lines of what libFuzzer says."""
        sources = sorted(path for path in NATIVE.rglob("*") if path.is_file())
        parts = [SANITIZERS, has_libfuzzer(), SOURCES / self.source, *sources]
        program = made_once(f"fuzz-{self.source}", parts, self.build) / "target"
        corpus = ROOT / "build" / "c_abi" / f"corpus-{self.name}"
        corpus.mkdir(parents=True, exist_ok=True)
        print(f"{self.name}, {seconds} seconds", flush=True)
        command = [
            str(program), str(corpus), f"-max_total_time={max(1, seconds)}", "-max_len=4096", "-timeout=60",
            "-rss_limit_mb=4096", "-print_final_stats=1", f"-artifact_prefix={corpus.parent}/", *options,
        ]  # fmt: skip
        if not has_libfuzzer():
            command = [str(program), str(max(1, seconds)), *options]
        environment = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1", **self.environment}
        # Mistakes are the point: what is said of them is left out.
        lines = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
        quiet = ("convgrad strict:", "fuzz:1: ", "coverage.", "gm.", "object.")
        told = [line for line in lines.stderr.splitlines() if not line.startswith(quiet) and " elements: " not in line]
        print("\n".join(told[-40 if lines.returncode else -12 :]), flush=True)
        return lines.returncode


TARGETS = (
    Target("ordinary", "call_sequences.cpp", ("acl",), {"CONVGRAD_STRICT": "0"}),
    Target("strict", "call_sequences.cpp", ("acl",), {"CONVGRAD_STRICT": "1"}),
    Target("tile", "tile_sequences.cpp", ("acl", "ascendc"), {"CONVGRAD_TILE": "ignore"},
           ("engine/numbers/formats.cpp",)),
)  # fmt: skip


def main() -> int:
    names = os.environ.get("FUZZ_TARGETS", "").split()
    chosen = [one for one in TARGETS if not names or one.name in names]
    seconds = int(os.environ.get("FUZZ_SECONDS", "300")) // max(1, len(chosen))
    failed = [one.name for one in chosen if one.run(seconds) != 0]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
