"""`make sanitize`: the C tests, the examples, random call sequences, calls at hard moments (c_reliability.py), Ascend
C kernels, right and with mistakes, under ASan with UBSan, and under TSan. `PARTS=kernels` names some of it.

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
from call_sequences import sequences
from kernel_programs import check_grad_input, check_grad_weight, filter_record, input_record, program
from outcome import Outcome
from tile_problems import forced_small_filter_tiles, forced_small_tiles, random_problem

SEQUENCES = os.environ.get("SEQUENCES", "20000")
# Running out of memory is an answer the library has to give, so the allocators must not stop the program.
ALLOCATOR = "allocator_may_return_null=1"
OPTIONS = {"ASAN_OPTIONS": ALLOCATOR, "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": ALLOCATOR}
EXAMPLES = sorted((ROOT / "examples/08_from_c").glob("*.c*"))


MISTAKES = {
    "diagnoses.cpp": re.findall(r'\bis\("([\w.]+)"', (ROOT / "tests/kernels/diagnoses.cpp").read_text("utf-8")),
    "local_memory.cpp": ["", "alloc", "deque", "free", "range", "length", "capacity", "event", "past"],
    "flags.cpp": ["n", "s", "w"],
    "launches.cpp": [""],
}
"""Programs that make mistakes on demand: whatever they find, nothing is undefined."""


def kernels(sanitizer: str) -> int:
    """Whole kernels on random problems, every mistake, and random call sequences; the number of failures."""
    library = sanitized_prefix(sanitizer) / "lib64"
    flags = ("-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", f"-L{library}")
    environment = {**OPTIONS, "LD_LIBRARY_PATH": str(library)}
    failures = 0

    def tell(name: str, wrong: str) -> None:
        nonlocal failures
        failures += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {sanitizer:18} kernel {name}", flush=True)
        print(wrong[-6000:], end="")

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        whole: list[tuple[str, tuple[str, ...]]] = [
            ("documented_input", ()), ("operator_input", ()), ("operator_input", ("-DZEROS_BY=1",)),
            ("operator_input", ("-DZEROS_BY=2",)), ("documented_filter", ()), ("operator_filter", ()),
        ]  # fmt: skip
        for name, own in whole:
            binary, wrong = program(f"{name}.cpp", *own, *flags), ""
            for seed in range(6):
                problem = random_problem(seed)
                try:
                    if name.endswith("input"):
                        given = forced_small_tiles(input_record(problem), seed)
                        check_grad_input(binary, problem, given, 1 + seed, scratch, "float16", **environment)
                    else:
                        sums = forced_small_filter_tiles(filter_record(problem), seed)[0]
                        check_grad_weight(binary, problem, sums, 1 + seed, scratch, "float16", **environment)
                except AssertionError as error:
                    wrong += f"{error}\n"
            tell(f"{name} {' '.join(own)}", wrong)
    for source, mistakes in MISTAKES.items():
        for mistake in mistakes:
            done = run(program(source, *flags), *filter(None, [mistake]), environment=environment)
            clean = done.returncode in (0, 1) and not re.search("Sanitizer:|runtime error:", done.stderr)
            tell(f"{source} {mistake}", "" if clean else done.stderr or str(done.returncode))
    asked = "\n".join(map(str, sequences(int(SEQUENCES) // 10)))
    done = run(program("sequences.cpp", *flags), text=asked, environment={**environment, "CONVGRAD_TILE": "ignore"},
               timeout=3600)  # fmt: skip
    tell("call sequences", "" if done.returncode == 0 and done.stdout.count("bytes ") else done.stderr)
    return failures


def programs(sanitizer: str) -> int:
    """Runs everything of the C door under one sanitizer; the number of failures."""
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
    parts = [part for part in (programs, kernels) if part.__name__ in os.environ.get("PARTS", "programs kernels")]
    return 1 if sum(part(sanitizer) for sanitizer in chosen for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
