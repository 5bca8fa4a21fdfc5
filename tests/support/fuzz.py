"""`make fuzz`: libFuzzer over call sequences, in ordinary and in strict mode. FUZZ_SECONDS in all, 300 by default.

The C door is compiled into the target with coverage, ASan and UBSan; the engine is the installed one (`make sanitize`
watches the engine).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from c_programs import NATIVE, ROOT, SOURCES, made_once
from convgrad.engines import library

SANITIZERS = "-fsanitize=fuzzer,address,undefined"


def build_target(directory: Path) -> None:
    """Each source by itself, so that all cores help."""
    flags = ["clang++", "-std=c++17", "-g", "-O1", SANITIZERS, "-fno-sanitize-recover=all", "-fPIC"]
    includes = [f"-I{NATIVE / folder}" for folder in ("include", "sdk/include", "acl")]
    sources = [*sorted((NATIVE / "acl").rglob("*.cpp")), SOURCES / "call_sequences.cpp"]
    objects = [directory / f"{source.stem}.o" for source in sources]
    pending = list(zip(sources, objects, strict=True))
    while pending:
        batch, pending = pending[: os.cpu_count() or 1], pending[os.cpu_count() or 1 :]
        running = [subprocess.Popen([*flags, *includes, "-c", str(s), "-o", str(o)]) for s, o in batch]
        if any(process.wait() for process in running):
            raise SystemExit("the fuzz target does not compile")
    engine = library.library_path()
    link = [*flags, *map(str, objects), str(engine), f"-Wl,-rpath,{engine.parent if engine else ''}", "-pthread"]
    subprocess.run([*link, "-o", str(directory / "target")], check=True)


def main() -> int:
    seconds = int(os.environ.get("FUZZ_SECONDS", "300"))
    sources = sorted(path for path in NATIVE.rglob("*") if path.is_file())
    target = made_once("fuzz", [SANITIZERS, SOURCES / "call_sequences.cpp", *sources], build_target) / "target"
    failed = False
    for strict in ("0", "1"):
        corpus = ROOT / "build" / "c_abi" / f"corpus-{strict}"
        corpus.mkdir(parents=True, exist_ok=True)
        print(f"{'strict' if strict == '1' else 'ordinary'} mode, {seconds // 2} seconds", flush=True)
        command = [
            str(target), str(corpus), f"-max_total_time={max(1, seconds // 2)}", "-max_len=4096", "-timeout=60",
            "-rss_limit_mb=4096", "-print_final_stats=1", f"-artifact_prefix={corpus.parent}/",
        ]  # fmt: skip
        environment = {**os.environ, "CONVGRAD_STRICT": strict, "ASAN_OPTIONS": "allocator_may_return_null=1"}
        # Strict mode reports every mistake; here mistakes are the point.
        lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        told = [line for line in lines.stderr.splitlines() if not line.startswith("convgrad strict:")]
        print("\n".join(told[-40 if lines.returncode else -12 :]), flush=True)
        failed |= lines.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
