"""Breaks the project on purpose, one line at a time, and counts how many breaks the tests catch.

    python tests/mutants                    the whole list, going on where an earlier run stopped
    python tests/mutants --only report      breaks whose area, file or test holds the word
    python tests/mutants --sample 6         some breaks of Python files, chosen by --seed
    python tests/mutants --narrow           the first test that failed, in place of the file the list names
    python tests/mutants --page FILE        the score as a page

Exit code 1 when a break that should be caught is not, or no longer fits its file.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from breaks import ROOT, Break, read  # noqa: E402
from score import counted, write_page  # noqa: E402
from tree import Outcome, Tree, has  # noqa: E402

RESULTS = ROOT / "build" / "mutants" / "results.jsonl"
Results = dict[str, tuple[Outcome, str]]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--jobs", type=int, default=1, help="scratch copies that are broken at the same time")
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--again", action="store_true", help="forget what an earlier run found")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    every = read()
    for one in every:  # a stale list is said before anything runs
        one.applied((ROOT / one.file).read_text("utf-8"))
    chosen = [b for b in every if any(asked.only in text for text in (b.area, b.file, b.test))]
    if asked.sample is not None:
        python = [b for b in chosen if not b.native and not b.survives]
        chosen = random.Random(asked.seed).sample(python, min(asked.sample, len(python)))
        with tempfile.TemporaryDirectory(prefix="convgrad-mutants-") as place:
            results = _attempt(chosen, {}, asked.jobs, Path(place), None)
    else:
        known = {} if asked.again else _known()
        results = _attempt(chosen, known, asked.jobs, RESULTS.parent, RESULTS)
    if asked.narrow:
        _narrow(chosen, results)
    print(counted(chosen, {b.place: results[b.key(ROOT)][0] for b in chosen}))
    if asked.page:
        write_page(asked.page, every, {b.place: results[b.key(ROOT)][0] for b in every if b.key(ROOT) in results})
    wrong = [b for b in chosen if results[b.key(ROOT)][0] in (Outcome.SURVIVED, Outcome.UNBUILT) and not b.survives]
    return 1 if wrong else 0


def _known() -> Results:
    """What earlier runs found, by the key of the break; a line cut short is not there."""
    found: Results = {}
    if RESULTS.exists():
        for line in RESULTS.read_text("utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                row = json.loads(line)
                found[row["key"]] = Outcome(row["outcome"]), row["failed"]
    return found


def _attempt(chosen: list[Break], known: Results, jobs: int, place: Path, log: Path | None) -> Results:
    """The outcome of every break, each in a scratch copy that first shows that the tests pass unbroken."""
    left = [b for b in chosen if b.key(ROOT) not in known]
    # Breaks of one kind after each other: the engine's build is changed by one file at a time.
    waiting: queue.Queue[Break] = queue.Queue()
    for one in sorted(left, key=lambda b: (b.native, b.isa, b.file)):
        waiting.put(one)
    lock, faults = threading.Lock(), []

    def serve(number: int) -> None:
        try:
            tree = Tree(place / f"tree{number}")
            while not faults:
                one = waiting.get_nowait()
                begun = time.monotonic()
                outcome, failed = tree.attempt(one)
                with lock:
                    known[one.key(ROOT)] = outcome, failed
                    print(f"{outcome.value:10} {time.monotonic() - begun:4.0f} s  {one.place} {one.file}  {failed}",
                          flush=True)
                    if log is not None:
                        row = {"key": one.key(ROOT), "place": one.place, "outcome": outcome.value, "failed": failed}
                        with log.open("a", encoding="utf-8") as out:
                            out.write(json.dumps(row) + "\n")
        except queue.Empty:
            pass
        except BaseException as fault:
            faults.append(fault)

    if left:
        _prove(left, Tree(place / "tree0"))
        threads = [threading.Thread(target=serve, args=(n,)) for n in range(min(jobs, len(left)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]
    return known


def _prove(left: list[Break], tree: Tree) -> None:
    """A test that fails without a break catches nothing."""
    for isa in sorted({b.isa if b.native else "" for b in left}):
        tests = sorted({b.test for b in left if (b.isa if b.native else "") == isa})
        if isa and (not has(isa) or not tree.build(isa)):
            continue
        code, out = tree.run(tests, 3600)
        if code:
            raise SystemExit(f"mutants: the tests do not pass on the unbroken tree:\n{out[-3000:]}")


def _narrow(chosen: list[Break], results: Results) -> None:
    """Rewrites the list: the test that failed in place of the file of tests."""
    for path in {HERE / "breaks" / f"{b.area}.txt" for b in chosen}:
        lines = path.read_text("utf-8").splitlines()
        for b in chosen:
            outcome, failed = results[b.key(ROOT)]
            if b.area == path.stem and outcome is Outcome.CAUGHT and failed and "::" not in b.test:
                here = next(i for i in range(b.line, len(lines)) if lines[i].startswith("? "))
                lines[here] = f"? {failed.partition('[')[0]}"
        path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
