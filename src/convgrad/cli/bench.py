"""The verb `bench`: milliseconds, rate, path and workspace of problem lines, beside PyTorch where it is installed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from convgrad import engines
from convgrad.cli.lines import refuse_others
from convgrad.core.request import ALGORITHMS
from convgrad.lab.bench.contestants import has_pytorch
from convgrad.lab.bench.measure import WORDS, Clock, Settings, Task, Timing, measure, on_threads, read_lines, tasks
from convgrad.lab.cases.reading import text_of
from convgrad.text.language import say
from convgrad.text.terminal import (
    ExitCode,
    UsageError,
    columns,
    counted,
    padded,
    print_json,
    printable,
    tell,
    width_of,
)

_DESCRIPTION = """\
Times grad_input, grad_weight with grad_bias, and all together. Engine and PyTorch take turns in each round; shown is
the median of the rounds' best calls. The ratio is PyTorch's time by ours: above 1 we are faster. GF/s counts
2 x multiply-adds, those with padding too. Against HF32 and HIFLOAT8, PyTorch computes in float32.
"""


def add_command(subparsers: Any) -> None:
    """The parser."""
    parser = subparsers.add_parser("bench", help="time problem lines", description=_DESCRIPTION)
    add = parser.add_argument
    add("line", nargs="*", metavar="LINE", help='a problem line, e.g. "conv n8 c64>64 i56x56 k3x3 p1 fp32"')
    add("--file", type=Path, action="append", default=[], help="a text file of problem lines; # begins a comment")
    add("--dtypes", nargs="+", choices=WORDS, metavar="DTYPE", default=(),
        help=f"instead of each line's own: {', '.join(WORDS)}")  # fmt: skip
    add("--algorithms", nargs="+", choices=ALGORITHMS, metavar="ALGORITHM", default=(),
        help=f"instead of each line's own: {', '.join(ALGORITHMS)}")  # fmt: skip
    add("--threads", type=_count, help="default: as the engine would take")
    add("--rounds", type=_count, default=5, help="default: %(default)s")
    add("--clock", choices=[c.value for c in Clock], default="wall",
        help="cpu: processor time on one thread, for machines shared with others")  # fmt: skip
    add("--no-torch", dest="torch", action="store_false", help="the engine alone")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 4096")
    return number


def _run(arguments: argparse.Namespace) -> int:
    refuse_others(arguments.line, "convgrad bench --file")
    lines = [*arguments.line, *(line for path in arguments.file for line in read_lines(text_of(path)))]
    if not lines:
        names = ", ".join(map(str, arguments.file))
        raise UsageError(f"{names}: no problem line in it" if names else "bench needs a problem line or --file")
    if arguments.algorithms:
        lines = [f"{line.partition('#')[0].strip()} alg={name}" for line in lines for name in arguments.algorithms]
    asked = [task for line in lines for task in tasks(line, arguments.dtypes)]  # all are refused before any is timed
    pytorch = arguments.torch and has_pytorch()
    settings = Settings(arguments.rounds, clock=Clock(arguments.clock), pytorch=pytorch)
    with on_threads(arguments.threads, settings.clock, pytorch) as threads:
        info = engines.info()
        against = "beside PyTorch" if pytorch else "alone" if has_pytorch() else "alone (PyTorch is not installed)"
        tell(
            f"engine {info.engine} ({info.isa}, {counted(threads, 'thread')}) {against}; {arguments.clock} clock, "
            f"median of {counted(arguments.rounds, 'round')}", file=sys.stderr,
        )  # fmt: skip
        if arguments.json:
            rows = [measure(task, settings).as_dict() for task in asked]
            print_json({"engine": asdict(info), "clock": arguments.clock, "rounds": arguments.rounds, "rows": rows})
        else:
            _print_table(asked, settings)
    return ExitCode.PASS


def _print_table(asked: Sequence[Task], settings: Settings) -> None:
    """One row as soon as it is measured: a long list shows that it goes on."""
    line, dtype = max(width_of(printable(task.line)) for task in asked), max(8, *(len(task.dtype) for task in asked))
    beside = 18 if settings.pytorch else 0
    most = columns()
    apart = most is not None and line + dtype + 44 + beside + 22 > most  # the problem on a line of its own, once
    shown = [""]

    def show(*cells: str) -> None:
        first, second, want, ms, theirs, ratio, rate, workspace, path = cells
        both = f" {padded(theirs, 10, True)} {padded(ratio, 6, True)}" if settings.pytorch else ""
        rest = (f"{padded(second, dtype)} {padded(want, 11)} {padded(ms, 9, True)}{both} {padded(rate, 7, True)} "
                f"{padded(workspace, 10, True)}")
        if most is not None and apart and width_of(f"  {rest}  {path}") > most:
            rest += f"\n{' ' * (dtype + 3)}{path}"
        else:
            rest += f"  {path}"
        if not apart:
            rest = f"{padded(first, line)}  {rest}"
        elif first != shown[0]:
            shown[0] = first
            tell(first)
        print(f"  {rest}" if apart else rest, flush=True)

    head = ("problem", "dtype", "want", "ms", "PyTorch ms", "ratio", "GF/s", "workspace", "path")
    show(*(say(word) for word in head))
    for task in asked:
        show(*_cells(measure(task, settings)))


def _cells(timing: Timing) -> tuple[str, ...]:
    task = timing.task
    theirs = "-" if timing.pytorch_ms is None else f"{timing.pytorch_ms:.4f}"
    ratio = "-" if timing.ratio is None else f"{timing.ratio:.2f}"
    return (
        printable(task.line), task.dtype, task.want, f"{timing.ms:.4f}", theirs, ratio, f"{timing.gflops:.2f}",
        f"{task.plan.workspace_bytes / 1024:.0f} KiB", ", ".join(dict.fromkeys(timing.paths)),
    )
