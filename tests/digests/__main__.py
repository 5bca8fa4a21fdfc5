"""Guards of a redesign: bits, answers, names, commands and the C ABI are those recorded here.

    python tests/digests                   compare everything; exit code 1 and a line per difference
    python tests/digests --short           a sample of it, below a minute
    python tests/digests --write           record anew what is here
    python tests/digests --only "bits api" parts: bits, answers, calls, api, commands, abi
    python tests/digests --show N          what random request N is answered
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The tests' own problems and programs are modules of the directory `support`.
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

PARTS = ("bits", "answers", "calls", "api", "commands", "abi")
_MOST_SHOWN = 40


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="digests", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default=" ".join(PARTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int)
    parser.add_argument("--compute", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.compute:
        import bits

        bits.work(*asked.compute)
        return 0
    if asked.show is not None:
        import answers

        answers.show(asked.show)
        return 0
    unknown = set(asked.only.split()) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    differ = 0
    for part in asked.only.split():
        begun = time.perf_counter()
        module = __import__(part)
        if asked.write:
            module.write(asked.jobs)
            print(f"{part}: recorded in {time.perf_counter() - begun:.0f} s", flush=True)
            continue
        found = list(module.differences(asked.short, asked.jobs))
        differ += len(found)
        for text in found[:_MOST_SHOWN]:
            print(f"{part}: {text}")
        if len(found) > _MOST_SHOWN:
            print(f"{part}: ... and {len(found) - _MOST_SHOWN} more")
        print(f"{part}: {len(found) or 'no'} differences ({time.perf_counter() - begun:.0f} s)", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
