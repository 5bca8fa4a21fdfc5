"""`convgrad audit`: are the gradients of a CPU stack right?"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convgrad.cli.scan import MODEL_DEVICE, convolutions_of, shape_of
from convgrad.core.request import Request
from convgrad.lab.cases import files
from convgrad.lab.run.case_run import FAIL
from convgrad.lab.run.progress import Progress
from convgrad.text.files import write_text
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, coloured, folded, print_json, table, tell

if TYPE_CHECKING:
    from convgrad.lab.referee.audit import Finding

_HELP = """\
Runs the convolution gradients of a CPU stack on whole numbers, in a process of its own per problem and setting, and
compares them with the exact sums: exact, wrong, crash, hang. What is found comes with a script for upstream.

  convgrad audit torch                                   every built-in set
  convgrad audit torch --set strided-1x1                 one of them
  convgrad audit torch cases.csv --layout channels_last  a file of cases, or a problem line
  convgrad audit torch --model nets.py:Net -i 1,3,64,64  the convolutions of a model
  convgrad audit torch --scripts found                   a file for upstream per finding
  convgrad audit my_stack.py:gradients                   a function of one's own

Exit code 1 when something is wrong, 0 when nothing is, 2 when nothing could be run.
"""


def add_command(subparsers: Any) -> None:
    """Adds the verb `audit`."""
    parser = subparsers.add_parser("audit", help="are the gradients of a CPU stack right", description=_HELP)
    parser.add_argument("stack", metavar="STACK", help="torch, convgrad, or path/to/file.py:function")
    parser.add_argument("cases", nargs="*", default=[], metavar="CASES", help="files of cases or problem lines")
    parser.add_argument("--set", action="append", dest="sets", metavar="NAME", help="a built-in set of problems")
    parser.add_argument("--model", metavar="MODEL", help="module:name or file.py:name: its distinct convolutions")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="N,C,H,W", type=shape_of,
                        help="shape of its input")  # fmt: skip
    parser.add_argument("--device", **MODEL_DEVICE)
    parser.add_argument("--layout", action="append", choices=("contiguous", "channels_last"), help="default: both")
    parser.add_argument("--isa", action="append", metavar="NAME", help="default, avx2, avx512 (default: all there are)")
    parser.add_argument("--threads", action="append", type=int, metavar="N", help="default: 1 and the stack's own")
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="calls of each gradient (10)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="before a process counts as hung (60)")
    parser.add_argument("--scripts", type=Path, metavar="DIRECTORY", help="write every finding's script there")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from convgrad.lab.referee import audit, children, stacks

    if arguments.repeats < 1 or not arguments.seconds > 0 or any(n < 1 for n in arguments.threads or ()):
        raise UsageError("--repeats, --seconds and --threads are positive numbers")
    if arguments.stack == "torch" and find_spec("torch") is None:
        print_json([]) if arguments.json else tell("PyTorch is not installed: nothing to audit")
        return ExitCode.PASS
    if arguments.stack not in stacks.NAMES:
        stacks.find(arguments.stack)
    unknown = [name for name in arguments.sets or () if name not in audit.SETS]
    if unknown:
        raise UsageError(f"no such set: {unknown[0]}; there are {', '.join(audit.SETS)}")
    requests = [case.request for name in arguments.cases for case in files.read_some(name)]
    if arguments.model:
        requests += convolutions_of(arguments.model, arguments.input, arguments.device)
    if not requests or arguments.sets:
        requests += [Request.parse(line) for name in arguments.sets or audit.SETS for line in audit.SETS[name]]
    distinct = list({str(r): r for r in map(audit.on_cpu_rules, requests)}.values())
    isas = [("" if name == "default" else name) for name in arguments.isa or ()]
    isas = isas or ["", *children.isa_limits(arguments.stack)]
    ways = [
        audit.Way(layout, isa, threads)
        for layout in arguments.layout or stacks.LAYOUTS for isa in isas for threads in arguments.threads or (1, None)
    ]
    if arguments.scripts:
        arguments.scripts.mkdir(parents=True, exist_ok=True)  # before the work: it may not be allowed
    found = []
    with Progress(len(distinct) * len(ways)) as progress:
        for finding in audit.audit(distinct, arguments.stack, ways, arguments.seconds, arguments.repeats):
            found.append(finding)
            progress.count(FAIL if finding.bad else finding.verdict)
    bad = [finding for finding in found if finding.bad]
    if arguments.scripts:
        _write_scripts(bad, arguments.scripts)
    if arguments.json:
        print_json([finding.as_row() for finding in found])
    else:
        _show(found, bad, arguments.scripts)
        rest = len(found) - len(bad) - sum(f.verdict == audit.EXACT for f in found)
        told = (
            f"{len(distinct)} x {len(ways)} runs: {len(found) - len(bad) - rest} exact, "
            f"{len(bad)} wrong, crashed or hung, {rest} refused or not run"
        )
        print(coloured(folded(say(told)), "red" if bad else "green"))
    ran = any(f.verdict == audit.EXACT for f in found)
    return ExitCode.PRECISION_FAIL if bad else ExitCode.PASS if ran else ExitCode.USAGE


def _write_scripts(bad: list[Finding], directory: Path) -> None:
    """A file per finding, numbered as they were found."""
    from convgrad.lab.referee import audit

    for number, finding in enumerate(bad, 1):
        way = finding.way
        name = f"{number:03d}_{finding.verdict}_{way.layout}_{way.isa or 'default'}_threads_{way.threads or 'default'}"
        write_text(directory / f"{name}{audit.script_suffix(finding)}", audit.report(finding))


def _show(found: list[Finding], bad: list[Finding], scripts: Path | None) -> None:
    """What is not exact, problem by problem, and the first script."""
    from convgrad.lab.referee import audit

    for line in dict.fromkeys(f.line for f in found if f.verdict != audit.EXACT):
        rows = [
            (say(f.verdict), say(str(f.way)), f.gradient or "-", say(f.told))
            for f in found if f.line == line and f.verdict != audit.EXACT
        ]
        print(folded(line, "  "))
        print(table(("verdict", "how", "gradient", "what"), rows, indent=2), end="\n\n")
    if bad:
        print(audit.report(bad[0]))
        if scripts:
            tell(f"one of {len(bad)}: all in {scripts}")
        else:
            tell(f"one of {len(bad)}: --scripts DIRECTORY writes them all")
