"""`convgrad audit`: are the gradients of a CPU stack right?"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from convgrad.cli.scan import convolutions_of, shape_of
from convgrad.core.request import Request
from convgrad.lab.cases import files
from convgrad.lab.run.case_run import FAIL
from convgrad.lab.run.progress import Progress
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, coloured, folded, print_json, table, tell

_HELP = """\
Runs the convolution gradients of a CPU stack on whole numbers, in a process of its own per problem and setting, and
compares them with the exact sums: exact, wrong, crash, hang. What is found comes with a script for upstream.

  convgrad audit torch                                   every built-in set
  convgrad audit torch --set strided-1x1                 one of them
  convgrad audit torch cases.csv --layout channels_last  a file of cases, or a problem line
  convgrad audit torch --model nets.py:Net -i 1,3,64,64  the convolutions of a model
  convgrad audit my_stack.py:gradients                   a function of one's own

Exit code 1 when something is wrong, 0 when nothing is, 2 when nothing could be run.
"""


def add_command(subparsers: Any) -> None:
    """Adds the verb `audit`."""
    parser = subparsers.add_parser("audit", help="are the gradients of a CPU stack right", description=_HELP)
    parser.add_argument("stack", metavar="STACK", help="torch, convgrad, or path/to/file.py:function")
    parser.add_argument("cases", nargs="*", metavar="CASES", help="files of cases or problem lines")
    parser.add_argument("--set", action="append", dest="sets", metavar="NAME", help="a built-in set of problems")
    parser.add_argument("--model", metavar="MODEL", help="module:name or file.py:name: its distinct convolutions")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="N,C,H,W", type=shape_of,
                        help="shape of its input")  # fmt: skip
    parser.add_argument("--layout", action="append", choices=("contiguous", "channels_last"), help="default: both")
    parser.add_argument("--isa", action="append", metavar="NAME", help="default, avx2, avx512 (default: all there are)")
    parser.add_argument("--threads", action="append", type=int, metavar="N", help="default: 1 and the stack's own")
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="calls of each gradient (10)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="before a process counts as hung (60)")
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
        requests += convolutions_of(arguments.model, arguments.input)
    if not requests or arguments.sets:
        requests += [Request.parse(line) for name in arguments.sets or audit.SETS for line in audit.SETS[name]]
    distinct = list({str(r): r for r in map(audit.on_cpu_rules, requests)}.values())
    isas = [("" if name == "default" else name) for name in arguments.isa or ()]
    isas = isas or ["", *children.isa_limits(arguments.stack)]
    ways = [
        audit.Way(layout, isa, threads)
        for layout in arguments.layout or stacks.LAYOUTS for isa in isas for threads in arguments.threads or (1, None)
    ]
    found = []
    with Progress(len(distinct) * len(ways)) as progress:
        for finding in audit.audit(distinct, arguments.stack, ways, arguments.seconds, arguments.repeats):
            found.append(finding)
            progress.count(FAIL if finding.bad else finding.verdict)
    bad = [finding for finding in found if finding.bad]
    if arguments.json:
        print_json([finding.as_row() for finding in found])
    else:
        for line in dict.fromkeys(f.line for f in found if f.verdict != audit.EXACT):
            rows = [
                (say(f.verdict), f.way, f.gradient or "-", say(f.told))
                for f in found if f.line == line and f.verdict != audit.EXACT
            ]
            print(folded(line, "  "))
            print(table(("verdict", "how", "gradient", "what"), rows, indent=2), end="\n\n")
        for finding in bad[:1]:
            print(f"# {finding.line}\n# benchdnn {audit.descriptor(finding)}\n{audit.script(finding)}")
        exact = sum(f.verdict == audit.EXACT for f in found)
        colour = "red" if bad else "green"
        rest = len(found) - exact - len(bad)
        told = (
            f"{len(distinct)} x {len(ways)} runs: {exact} exact, {len(bad)} wrong, crashed or hung, "
            f"{rest} refused or not run"
        )
        print(coloured(folded(say(told)), colour))
    ran = any(f.verdict == audit.EXACT for f in found)
    return ExitCode.PRECISION_FAIL if bad else ExitCode.PASS if ran else ExitCode.USAGE
