"""`make sanitize`: the C tests, the examples, random call sequences and calls at hard moments (c_reliability.py) under
ASan with UBSan, and under TSan.

The library itself is built with the sanitizer, so every access inside it is watched.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from c_programs import ROOT, SOURCES, build, run, sanitized_prefix
from c_reliability import ENDS, Build, allocation_failures, exit_cases, exit_orders, forks
from outcome import Outcome

SEQUENCES = os.environ.get("SEQUENCES", "20000")
# Running out of memory is an answer the library has to give, so the allocators must not stop the program.
ALLOCATOR = "allocator_may_return_null=1"
OPTIONS = {"ASAN_OPTIONS": ALLOCATOR, "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": ALLOCATOR}
EXAMPLES = sorted((ROOT / "examples/08_from_c").glob("*.c*"))


def programs(sanitizer: str) -> int:
    """Runs everything under one sanitizer; the number of failures."""
    library = sanitized_prefix(sanitizer)
    flags = (f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer")
    failures = 0

    def step(name: str, source: Path, *arguments: str, **environment: str) -> None:
        nonlocal failures
        is_c = source.suffix == ".c"
        program = build(
            source, compiler="gcc" if is_c else "g++", standard="gnu11" if is_c else "c++11", library=library,
            flags=(*flags, *(("-DSTANDALONE",) if "sequences" in name else ())),
        )  # fmt: skip
        done = run(program, *arguments, library=library, environment={**OPTIONS, **environment}, timeout=3600)
        clean = done.returncode == 0 and "Sanitizer:" not in done.stderr and "runtime error:" not in done.stderr
        failures += not clean
        print(f"{'ok  ' if clean else 'FAIL'} {sanitizer:18} {name}", flush=True)
        if not clean:
            print(done.stdout[-2000:] + done.stderr[-6000:])

    with tempfile.TemporaryDirectory() as scratch:
        for source in (SOURCES / "runtime.cpp", SOURCES / "operators.cpp"):
            for name in re.findall(r"^TEST\((\w+),", source.read_text("utf-8"), re.MULTILINE):
                step(f"{source.stem} {name}", source, name, TEST_SCRATCH_FILE=str(Path(scratch) / "config.json"))
    for source in EXAMPLES:
        step(f"example {source.stem}", source)
    step("call sequences", SOURCES / "call_sequences.cpp", "1", SEQUENCES)
    step("call sequences, strict", SOURCES / "call_sequences.cpp", "2", SEQUENCES, CONVGRAD_STRICT="1")
    step("call sequences, threads", SOURCES / "call_sequences.cpp", "3", "2000", "4", CONVGRAD_STRICT="1")

    def tell(name: str, outcome: Outcome) -> None:
        nonlocal failures
        failures += bool(outcome.wrong)
        print(f"{'FAIL' if outcome.wrong else 'ok  '} {sanitizer:18} {name}: {outcome.cases} cases", flush=True)
        print(*outcome.wrong[:5], sep="\n", end="")

    how = Build(library, flags, OPTIONS)
    # ThreadSanitizer has a thread of its own: with it the last one of a program never leaves.
    ends = ENDS if sanitizer != "thread" else ("return", "exit")
    tell("calls at exit", exit_orders(how, exit_cases(["errors", "objects", "large_convolution"], ends)))
    for strict in ("0", "1"):
        tell(f"children of fork, strict {strict}", forks(how, parents=5, children=20, CONVGRAD_STRICT=strict))
    if sanitizer != "thread":  # whose malloc no program can stand before
        with tempfile.TemporaryDirectory() as scratch:
            tell("allocation failure", allocation_failures(how, Path(scratch), ["cold", "warm"], ["single"]))
    return failures


def main() -> int:
    chosen = sys.argv[1:] or ["address,undefined", "thread"]
    return 1 if sum(programs(sanitizer) for sanitizer in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
