"""`make fuzz`: libFuzzer over call sequences, library and target under ASan and UBSan. FUZZ_SECONDS, 300 by default."""

from __future__ import annotations

import os
import subprocess
import sys

from c_programs import LINK_FLAGS, NATIVE, ROOT, SOURCES, sanitized_prefix

INSTRUMENTED = "address,undefined,fuzzer-no-link"


def main() -> int:
    seconds = os.environ.get("FUZZ_SECONDS", "300")
    library = sanitized_prefix(INSTRUMENTED, compiler="clang++")
    target = library / "call_sequences"
    compile_target = [
        "clang++", "-std=c++11", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", f"-I{NATIVE / 'sdk/include'}",
        str(SOURCES / "call_sequences.cpp"), "-o", str(target), f"-L{library / 'lib64'}", *LINK_FLAGS,
    ]  # fmt: skip
    subprocess.run(compile_target, check=True)
    status = 0
    for strict in ("", "1"):
        corpus = ROOT / "build" / "c_abi" / f"corpus{'-strict' if strict else ''}"
        corpus.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library / "lib64"), "CONVGRAD_STRICT": strict or "0"}
        environment["ASAN_OPTIONS"] = "allocator_may_return_null=1"
        half = max(1, int(seconds) // 2)
        print(f"{'strict mode' if strict else 'ordinary mode'}: {half} seconds", flush=True)
        command = [
            str(target), str(corpus), f"-max_total_time={half}", "-max_len=4096", "-timeout=30", "-rss_limit_mb=4096",
            "-print_final_stats=1", "-close_fd_mask=2" if strict else "-verbosity=1",
            f"-artifact_prefix={corpus.parent}/",
        ]  # fmt: skip
        status |= subprocess.run(command, env=environment, check=False).returncode
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
