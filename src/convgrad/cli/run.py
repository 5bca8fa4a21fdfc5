"""`convgrad run`: a file of cases in; verdicts, precision and time out, as a table, as files, as one page."""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from convgrad import engines
from convgrad.cli import outputs
from convgrad.cli.numbers import seed, whole_number
from convgrad.core import standards
from convgrad.core.request import ALGORITHMS
from convgrad.lab.cases import files
from convgrad.lab.cases.case import Case, conformance_name, parse_fill, product_key
from convgrad.lab.run import journal, tables
from convgrad.lab.run.case_run import ERROR, FAIL, OUTCOMES, PASS, REFUSED, Record, Settings
from convgrad.lab.run.journal import Journal, in_order
from convgrad.lab.run.junit import write_junit
from convgrad.lab.run.progress import Progress
from convgrad.lab.run.workers import free_memory, jobs_for, run_all
from convgrad.text.language import said_of, say
from convgrad.text.terminal import ExitCode, UsageError, counted, folded, jsonable, printable, tell

MOST_LINES = 60
"""Cases shown on the terminal; of more, only those that did not pass."""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "run", help="run a file of cases", description="Runs every case: the contract's verdict, the gradients under "
        "the product's numerics, the precision verdict under named standards, the time.",
    )
    add = parser.add_argument
    add("cases", metavar="CASES",
        help="a file of cases (JSON, problem lines, test kit JSON, CSV or workbook), `-`, or one problem line")
    add("--product", help="run every case on this product")
    add("--conformance", help="document or runtime")
    add("--algorithm", choices=ALGORITHMS, help="instead of each case's own `alg=`")
    add("--standard", default=",".join(standards.DEFAULT), help="names with commas (default: %(default)s)")
    add("--seed", type=seed, default=0, help="cases without a seed of their own draw theirs from it")
    add("--values", help="fill the tensors of every case like this, e.g. uniform:-5:5")
    add("-j", "--jobs", type=_count, default=0, help="processes (default: one per core for many cases)")
    add("--workers", type=_count, default=0, help="run on a local Dask cluster of this many processes (extra `dask`)")
    add("--scheduler", metavar="ADDRESS", help="run on the Dask cluster at this address, e.g. tcp://host:8786")
    add("--filter", action="append", default=[], metavar="TEXT",
        help="only cases whose name or line holds TEXT (which may have *)")
    add("--rerun", metavar="RESULTS", help="only the cases that did not pass in an earlier journal")
    add("--save", type=Path, metavar="DIR", help="keep the journal and the gradients here")
    add("--no-tensors", action="store_true", help="with --save: keep the journal only")
    add("--resume", action="store_true", help="with --save: go on where an earlier run stopped")
    add("--html", type=Path, metavar="FILE", help="write the report page")
    add("--csv", type=Path, metavar="FILE", help="write a CSV table")
    add("--xlsx", type=Path, metavar="FILE", help="write a workbook")
    add("--pytorch", action="store_true", help="also time PyTorch on every case")
    add("--no-anatomy", action="store_true", help="leave out where errors come from")
    add("--no-recheck", action="store_true", help="take a failed double benchmark as it is")
    add("--po", type=Path, metavar="FILE", help="keep a test kit's progress file: start, seconds, total, completed")
    add("--progress-file", type=Path, metavar="FILE", help="keep the state of the run in this file, as JSON")
    add("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML, for build servers")
    add("-q", "--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=command)


def _count(text: str) -> int:
    return whole_number(text, 1024, "1024")


def command(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    outputs.look_at(
        (arguments.html, arguments.csv, arguments.xlsx, arguments.junit, arguments.progress_file, arguments.po),
        (arguments.cases, arguments.rerun),
    )
    if sum([bool(arguments.jobs), bool(arguments.workers), arguments.scheduler is not None]) > 1:
        raise UsageError("--jobs, --workers and --scheduler are three ways to run: choose one")
    if arguments.pytorch and find_spec("torch") is None:
        raise UsageError("--pytorch needs PyTorch: pip install 'convgrad[torch]'")
    if arguments.xlsx is not None and find_spec("openpyxl") is None:  # now, not when hours of work are to be written
        raise UsageError(tables.NEEDS_OPENPYXL)
    cases = _chosen(arguments)
    if arguments.save is None:
        if arguments.resume:
            raise UsageError("--resume needs --save DIR, the directory of the run to go on with")
        with tempfile.TemporaryDirectory(prefix="convgrad-run-") as directory:
            return _run(arguments, settings, cases, Path(directory), None)
    arguments.save.mkdir(parents=True, exist_ok=True)
    return _run(arguments, settings, cases, arguments.save, None if arguments.no_tensors else arguments.save)


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        chosen = standards.find_all(arguments.standard)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Settings(
        tuple(s.name for s in chosen), arguments.seed, not arguments.no_anatomy, not arguments.no_recheck,
        arguments.pytorch, most_bytes=free_memory() // 2,
    )


Numbered = tuple[int, Case]


def _chosen(arguments: argparse.Namespace) -> list[Numbered]:
    """The cases to run, each with its place in the file."""
    product = None if arguments.product is None else product_key(arguments.product)
    conformance = None if arguments.conformance is None else conformance_name(arguments.conformance)
    read = files.read_some(arguments.cases)
    one_line = len(read) == 1 and read[0].name == arguments.cases
    try:
        fill = None if arguments.values is None else parse_fill(arguments.values)
    except ValueError as error:
        raise UsageError(str(error)) from None
    wanted = None if arguments.rerun is None else {
        (r["index"], r["name"]) for r in journal.read(arguments.rerun)[1] if r["outcome"] != PASS
    }
    chosen = []
    for index, case in enumerate(read):
        if not case.enabled or (wanted is not None and (index, case.name) not in wanted):
            continue
        if arguments.filter and not any(_fits(text, case) for text in arguments.filter):
            continue
        case = case.moved(product, conformance, arguments.algorithm)
        if fill is not None:
            case = replace(case, fill=fill)
        if one_line:  # a reproducer: the seed is the case's own
            case = replace(case, seed=arguments.seed)
        case = replace(case, kit={})  # no run needs it
        chosen.append((index, case))
    if not chosen and wanted is None:  # of an earlier journal: nothing failed, nothing to run again
        raise UsageError(
            f"{arguments.cases}: none of {counted(len(read), 'case')} is selected (--filter, enabled)"
        )
    return chosen


def _fits(text: str, case: Case) -> bool:
    whole = f"{case.name} {case.request}"
    return fnmatch.fnmatchcase(whole, f"*{text}*") if "*" in text else text in whole


def _run(
    arguments: argparse.Namespace, settings: Settings, cases: list[Numbered], directory: Path, save: Path | None
) -> int:
    head = {"digest": _digest(arguments, cases), "cases": len(cases), "settings": settings.said()}
    with Journal(directory / journal.NAME, head, resume=arguments.resume) as log:
        left = [(index, case) for index, case in cases if index not in log.done]
        quiet = arguments.quiet or (len(left) < 2 and not arguments.resume)
        with Progress(len(cases), len(cases) - len(left), quiet, arguments.po, arguments.progress_file) as progress:
            for record in _records(arguments, settings, left, save / "tensors" if save else None):
                log.append(record)
                progress.count(record["outcome"])
        path = log.path
    outcomes = _count_outcomes(path)
    _write_files(arguments, path)
    if arguments.json:
        _print_json(path, outcomes)
    else:
        _print_table(arguments, path, outcomes, settings)
    return exit_code(outcomes)


def _records(
    arguments: argparse.Namespace, settings: Settings, cases: list[Numbered], save: Path | None
) -> Iterator[Record]:
    """Records as they are finished: here, on several processes, or on a cluster."""
    if not arguments.workers and arguments.scheduler is None:
        yield from run_all(cases, settings, jobs_for(arguments.jobs, len(cases)), save)
        return
    try:
        from convgrad.lab.run.cluster import Cluster
    except ImportError as error:
        raise UsageError(f"--workers and --scheduler need the extra `dask`: {error}") from error
    with Cluster(arguments.scheduler, arguments.workers) as cluster:
        yield from cluster.run(cases, settings, save)
        if lost := cluster.losses():
            tell(f"convgrad: {lost}", file=sys.stderr)


def _digest(arguments: argparse.Namespace, cases: list[Numbered]) -> str:
    """Changes with the cases and with whatever selects or changes them."""
    if os.path.isfile(arguments.cases):
        text = Path(arguments.cases).read_bytes()
    else:  # standard input, a pipe, one problem line: the cases themselves
        text = " ".join(case.fingerprint() for _, case in cases).encode()
    options = (
        arguments.product, arguments.conformance, arguments.algorithm, arguments.values, sorted(arguments.filter),
        [index for index, _ in cases],
    )
    return hashlib.sha256(text + repr(options).encode()).hexdigest()[:32]


def _count_outcomes(path: Path) -> Counter[str]:
    return Counter(record["outcome"] for record in journal.read(path)[1])


def exit_code(outcomes: Counter[str]) -> int:
    """The gravest outcome decides: a case that could not be run, a failed precision, a refusal."""
    if outcomes[ERROR]:
        return ExitCode.INTERNAL
    if outcomes[FAIL]:
        return ExitCode.PRECISION_FAIL
    return ExitCode.REFUSED if outcomes[REFUSED] else ExitCode.PASS


def _write_files(arguments: argparse.Namespace, path: Path) -> None:
    if arguments.csv is not None:
        tables.write_csv(arguments.csv, in_order(path))
        tell(f"table: {arguments.csv}", file=sys.stderr)
    if arguments.xlsx is not None:
        tables.write_xlsx(arguments.xlsx, in_order(path))
        tell(f"workbook: {arguments.xlsx}", file=sys.stderr)
    if arguments.junit is not None:
        write_junit(arguments.junit, Path(arguments.cases).name or "cases", in_order(path))
        tell(f"JUnit: {arguments.junit}", file=sys.stderr)
    if arguments.html is not None:
        from convgrad.lab.report.page import write_page

        write_page(arguments.html, Path(arguments.cases).name or "cases", *_head_and_records(path))
        tell(f"report: {arguments.html}", file=sys.stderr)


def _head_and_records(path: Path) -> tuple[Record, Iterator[Record]]:
    return journal.read(path)[0], in_order(path)


def _print_json(path: Path, outcomes: Counter[str]) -> None:
    """One document, written case by case."""
    head = {"summary": {o: outcomes[o] for o in OUTCOMES}, "exit_code": int(exit_code(outcomes)),
            "settings": journal.read(path)[0]["settings"]}
    sys.stdout.write(json.dumps(jsonable(head), indent=2, ensure_ascii=False)[:-2] + ',\n  "cases": [')
    for i, record in enumerate(in_order(path)):
        sys.stdout.write((",\n" if i else "\n") + json.dumps(jsonable(record), ensure_ascii=False, allow_nan=False))
    sys.stdout.write("\n  ]\n}\n")


_KIT_HINT = (
    "hint: the kit's own files follow what the device accepts; --conformance runtime judges by that instead of by the "
    "documents"
)


def _of_a_kit(arguments: argparse.Namespace) -> bool:
    """Whether the cases come from a file of a test kit."""
    try:
        return any(case.kit for case in files.read(arguments.cases)) if os.path.isfile(arguments.cases) else False
    except (OSError, ValueError):
        return False


def _print_table(arguments: argparse.Namespace, path: Path, outcomes: Counter[str], settings: Settings) -> None:
    total = sum(outcomes.values())
    shown: list[Record] = []
    hidden = 0
    for record in in_order(path):
        if total <= MOST_LINES or record["outcome"] != PASS:
            if len(shown) < MOST_LINES:
                shown.append(record)
            else:
                hidden += 1
    if shown:
        print(tables.summary_table(shown))
    if hidden:
        tell(f"... and {hidden} more that did not pass")
    for record in shown:
        if record["outcome"] != PASS:
            if not tables.has_room():
                told = said_of(say(record["outcome"]), said_of(record["name"], say(record["message"])))
                print(folded(printable(told), "  "))
            print(said_of(say("reproduce"), record["reproduce"]))
    if outcomes[REFUSED] and _of_a_kit(arguments) and arguments.conformance is None:
        tell(_KIT_HINT)
    counts = ", ".join(f"{outcomes[o]} {say(o)}" for o in OUTCOMES if outcomes[o]) or say("no cases")
    names = ", ".join(f"{s.name} ({s.date})" for s in settings.rows)
    parts = ((counted(total, "case"), counts), ("standards", names), ("engine", engines.info().engine))
    print(folded("   ".join(said_of(say(label), text) for label, text in parts)))
