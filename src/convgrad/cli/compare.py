"""`convgrad compare` and `convgrad standards`."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from convgrad.core import standards
from convgrad.core.metrics import ULP_EDGES, Metrics
from convgrad.core.standards import power_of_two
from convgrad.lab.judging import bootstrap
from convgrad.lab.judging.findings import Findings
from convgrad.lab.judging.pairing import Compared, Missing, compare_paths
from convgrad.text.language import say
from convgrad.text.terminal import (
    ExitCode,
    UsageError,
    coloured,
    counted,
    folded,
    padded,
    print_json,
    printable,
    table,
    tell,
)

_MOST_SHOWN = 20


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "compare", help="judge results against golden data",
        description="Every metric, the verdict of each standard with its thresholds, the worst elements, and (against "
        "a directory of `convgrad golden`) where the errors come from.",
    )
    parser.add_argument("actual", metavar="ACTUAL", type=Path, help="a .npy or .bin file, or a directory")
    parser.add_argument("golden", metavar="GOLDEN", type=Path, help="the same, of the reference")
    default = ",".join(standards.DEFAULT)
    parser.add_argument("--standard", default=default, help="names with commas (default: %(default)s)")
    parser.add_argument("--dtype", help="of files whose name does not tell it")
    parser.add_argument("--partner", type=Path, help="the honest result of a double benchmark, for two files")
    parser.set_defaults(run=_compare)
    listing = subparsers.add_parser("standards", help="list the precision standards with their thresholds")
    listing.set_defaults(run=_standards)


def _compare(arguments: argparse.Namespace) -> int:
    try:
        chosen = standards.find_all(arguments.standard)
        found = list(
            compare_paths(
                arguments.actual, arguments.golden, chosen, dtype=arguments.dtype, partner=arguments.partner
            )
        )
    except ValueError as error:
        raise error if isinstance(error, UsageError) else UsageError(str(error)) from None
    compared = [c for c in found if isinstance(c, Compared)]
    missing = [c for c in found if isinstance(c, Missing)]
    rechecks = _rechecks(compared)
    passed = all(_passes(c, rechecks) for c in compared) and not any(m.in_case for m in missing)
    if arguments.json:
        print_json({
            "passed": passed,
            "results": [
                {**c.findings.as_dict(), "name": c.name, "line": c.line, "limits": _limits(c)} for c in compared
            ],
            "missing": [m.name for m in missing],
            "rechecks": {f"{line} {name}": str(r) for (line, name), r in rechecks.items()},
        })
    else:
        _print(compared, missing, rechecks)
    return ExitCode.PASS if passed else ExitCode.PRECISION_FAIL


def _limits(c: Compared) -> dict[str, str]:
    return {j.standard: j.limits for j in c.findings.judged}


Rechecks = dict[tuple[str, str], bootstrap.Recheck]


def _rechecks(compared: Sequence[Compared]) -> Rechecks:
    """Double benchmarks drawn often enough (one line under many seeds): the bootstrap of the worst ratio."""
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for c in compared:
        for j in c.findings.judged:
            if j.ratios and c.line:
                ratios[c.line, c.findings.name].append(max(j.ratios))
                break
    return {key: bootstrap.recheck(drawn) for key, drawn in ratios.items() if len(drawn) >= standards.RECHECK_SEEDS}


def _passes(c: Compared, rechecks: Rechecks) -> bool:
    recheck = rechecks.get((c.line, c.findings.name))
    return all(
        j.passed is not False or (bool(j.ratios) and recheck is not None and recheck.passed) for j in c.findings.judged
    )


def _print(compared: Sequence[Compared], missing: Sequence[Missing], rechecks: Rechecks) -> None:
    # All of it for a few results; of many, those that fail.
    shown = [c for c in compared if len(compared) <= _MOST_SHOWN or not _passes(c, rechecks)][:_MOST_SHOWN]
    for c in shown:
        _print_one(c)
    for (line, name), recheck in rechecks.items():
        word = "pass" if recheck.passed else "fail"
        tell(f"re-check of {name} of `{line}`: {word}, {recheck}")
    _print_missing(missing)
    failing = sum(not _passes(c, rechecks) for c in compared) + sum(m.in_case for m in missing)
    judged = len(compared) + sum(m.in_case for m in missing)
    tell(f"{counted(judged, 'result')}: {judged - failing} pass, {failing} fail")


def _print_missing(missing: Sequence[Missing]) -> None:
    """A result missing in a case that has others fails; a case, or a file, without any is only told."""
    for m in [m for m in missing if m.in_case][:_MOST_SHOWN]:
        print(coloured(printable(m.name), "bold"))
        print(folded(f"  {coloured(say('FAIL'), 'red')}  {say('no file holds this result')}"))
    absent = [m.name for m in missing if not m.in_case]
    if absent:
        shown = ", ".join(printable(name) for name in absent[:_MOST_SHOWN]) + (", ..." * (len(absent) > _MOST_SHOWN))
        tell(f"without results, not judged: {len(absent)} ({shown})")


def _print_one(c: Compared) -> None:
    f = c.findings
    judged_as = "" if f.precision == f.dtype else ", " + say(f"judged as {f.precision}")
    shape = "x".join(map(str, f.shape)) or say("scalar")
    print(coloured(printable(c.name), "bold") + f"  {shape} {f.dtype}{judged_as}")
    if c.line:
        print(f"  {c.line}")
    for j in f.judged:
        word = {True: coloured(say("pass"), "green"), False: coloured(say("FAIL"), "red"), None: say("not judged")}
        print(folded(f"  {word[j.passed]}  {j.standard} ({j.date}): {say(j.why)}\n        {say(j.limits)}", " " * 8))
    values = ((m.name, getattr(f.metrics, m.name)) for m in fields(Metrics))
    print(folded("  " + "  ".join(f"{name} {value:.4g}" for name, value in values), "  "))
    _print_places(f)
    if f.anatomy is not None:
        shares = zip(f.anatomy.parts, f.anatomy.shares, strict=True)
        parts = ", ".join(f"{say(name)} {rms:.3g} rms ({share:.1%})" for (name, rms), (_, share) in shares)
        print(folded(f"  {say('from')}: {parts}", "    "))
    print()


def _print_places(f: Findings) -> None:
    bins = [(edge, count) for edge, count in zip(ULP_EDGES, f.histogram, strict=True) if count]
    print(folded(f"  {say('ULP above')}: " + "  ".join(f"{edge:g}: {count}" for edge, count in bins), "    "))
    if f.map is not None:
        key = say("0 exact, 5 one ULP of the rms, a 32, f 1000")
        print(f"  {padded(say('channels'), 8)} {f.map.channels}   ({key})")
        if len(f.map.plane) > 1 or len(f.map.plane[0]) > 1:
            print(f"  {padded(say('plane'), 8)} " + "\n           ".join(f.map.plane))
    rows: list[tuple[Any, ...]] = [(list(i), f"{a:.9g}", f"{g:.12g}", f"{u:.4g}") for i, a, g, u in f.worst]
    if rows:
        print(table(("worst at", "result", "reference", "ULP"), rows, right=(1, 2, 3), indent=2))


def _standards(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json([
            {"name": s.name, "date": s.date, "rule": s.rule.value, "columns": s.columns,
             "thresholds": dict(s.thresholds), "deferred": dict(s.deferred), "note": s.note}
            for s in standards.ALL
        ])
        return ExitCode.PASS
    for s in standards.ALL:
        note = f", {say(s.note)}" if s.note else ""
        head = folded(f"{s.name}  ({s.date}{note})  {say(s.rule.value)}", "  ")
        print(coloured(s.name, "bold") + head.removeprefix(s.name))
        for dtype, limits in s.thresholds:
            numbers = "  ".join(f"{say(c)} {power_of_two(v)}" for c, v in zip(s.columns, limits, strict=True))
            print(folded(f"    {padded(say(dtype), 14)} {numbers}", " " * 19))
        for dtype, other in s.deferred:
            print(f"    {dtype:14} {say('as')} {other}")
    return ExitCode.PASS
