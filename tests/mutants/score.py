"""The score of a run: how many breaks were caught, by area, and which were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from breaks import Break
from tree import Outcome

_PAGE = """# Tests that can fail

Every test here claims to catch a fault. `make mutants` puts that to the proof: it makes {count} deliberate breaks, each
a fault that a user would notice, one after the other in a scratch copy (rebuilt where the break is native), and runs
the one test that is to catch it. The list is data: `tests/mutants/breaks/*.txt`. A sample runs with the tests.

**{caught} of {tried} breaks caught: {percent:.1f} %.** `python tests/mutants --page docs/mutants.md`, {day}.

| area | breaks | caught |
|---|--:|--:|
{rows}
{rest}"""


def _tallies(breaks: Sequence[Break], outcomes: Mapping[str, Outcome]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for b in breaks:
        if (outcome := outcomes.get(b.place)) is not None and outcome is not Outcome.ABSENT:
            found.setdefault(b.area, Counter())[outcome.value] += 1
    return found


def counted(breaks: Sequence[Break], outcomes: Mapping[str, Outcome]) -> str:
    """The score in a few lines, with every break that was not caught."""
    lines = []
    for area, tally in _tallies(breaks, outcomes).items():
        lines.append(f"{area}: {tally[Outcome.CAUGHT.value]} of {sum(tally.values())} caught")
    for b in breaks:
        if outcomes.get(b.place) in (Outcome.SURVIVED, Outcome.UNBUILT):
            lines.append(f"{outcomes[b.place].value}: {b.place} {b.file}: {b.old[0].strip()}  {b.survives}")
    caught, tried = _sums(breaks, outcomes)
    return "\n".join([*lines, f"{caught} of {tried} breaks caught ({100 * caught / max(1, tried):.1f} %)"])


def _sums(breaks: Sequence[Break], outcomes: Mapping[str, Outcome]) -> tuple[int, int]:
    tallies = _tallies(breaks, outcomes).values()
    return sum(t[Outcome.CAUGHT.value] for t in tallies), sum(sum(t.values()) for t in tallies)


def write_page(path: Path, breaks: Sequence[Break], outcomes: Mapping[str, Outcome]) -> None:
    """The page of the last whole run."""
    caught, tried = _sums(breaks, outcomes)
    rows = "\n".join(
        f"| {area} | {sum(tally.values())} | {tally[Outcome.CAUGHT.value]} |"
        for area, tally in _tallies(breaks, outcomes).items()
    )
    left = [b for b in breaks if outcomes.get(b.place) in (Outcome.SURVIVED, Outcome.UNBUILT)]
    rest = "\n".join(f"- `{b.file}`: `{b.old[0].strip()}`: {b.survives or 'no test catches it yet'}" for b in left)
    absent = len(breaks) - tried
    said = f"\n{absent} more need another processor than that of this run, or were not run.\n" if absent else ""
    path.write_text(_PAGE.format(
        count=len(breaks), caught=caught, tried=tried, percent=100 * caught / max(1, tried), day=date.today(),
        rows=rows, rest=said + (f"\nNot caught:\n\n{rest}\n" if rest else ""),
    ), "utf-8")  # fmt: skip
