"""`convgrad tile LINE`: tiling with reasons, stores, balance, traffic, a picture, and a check against the gradient."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from convgrad.ascendc.device.conv_type import DTYPE_NAMES
from convgrad.ascendc.device.errors import TileKernelError
from convgrad.ascendc.from_line import Gradient
from convgrad.ascendc.line_runs import TileRun, plan_line
from convgrad.ascendc.shared.tiling_report import FieldReport
from convgrad.ascendc.shared.traffic import TrafficReport
from convgrad.cli.numbers import whole_number
from convgrad.text.files import write_text
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, counted, folded, print_json, table, tell, tell_under

DESCRIPTION = """Run the tile kernel of a problem line on every core and say what it does.

conv lines run Conv3DBackpropInput, or Conv3DBackpropFilter with --gradient weight (or want=w in the line); tconv lines
run the transposed convolution through the first.

The data are small integers, so the check against the plain gradient is an equality."""


def add_command(subparsers: Any) -> None:
    """Add the verb `tile`."""
    parser = subparsers.add_parser("tile", help="run the tile kernel on a problem line", description=DESCRIPTION)
    parser.add_argument("line", help='a problem line, e.g. "conv n1 c16>32 i4x12x12 k3x3x3 p1 fp16"')
    parser.add_argument("--gradient", choices=[one.value for one in Gradient],
                        help="which gradient, and so which kernel (what the line wants, input first)")  # fmt: skip
    parser.add_argument("--cores", type=_number, default=24, help="cube cores (24)")
    parser.add_argument("--svg", metavar="FILE", help="write a picture of the walk")
    parser.add_argument("--plane", type=_number, help="the gradInput plane, or window plane, the picture shows")
    parser.add_argument("--golden", metavar="DIR", help="write the expected values of every tile")
    parser.add_argument("--all", action="store_true", help="list every field, not only the chosen and derived ones")
    parser.add_argument("--dry", action="store_true", help="tiling, traffic and picture only: compute nothing")
    parser.set_defaults(run=run)


def _number(text: str) -> int:
    return whole_number(text, 2**31 - 1, "2**31 - 1")


def run(arguments: argparse.Namespace) -> int:
    """The verb."""
    if not 1 <= arguments.cores <= 4096:
        raise UsageError(f"--cores must be 1...4096, got {arguments.cores}")
    gradient = None if arguments.gradient is None else Gradient(arguments.gradient)
    try:
        planned = plan_line(arguments.line, arguments.cores, gradient)
    except ValueError as error:
        if type(error) is ValueError:
            raise UsageError(str(error)) from error
        raise
    try:
        return answer(planned, arguments)
    except TileKernelError as error:
        raise error.with_line(planned.problem.line) from error


def answer(planned: TileRun, arguments: argparse.Namespace) -> int:
    """Write the files asked for, run and check unless --dry, and print."""
    traffic = planned.traffic()
    if arguments.svg:
        write_text(arguments.svg, planned.picture(arguments.plane))
        tell(f"wrote {arguments.svg}", file=sys.stderr)
    checked: dict[str, Any] | None = None
    if not arguments.dry:
        outcome = planned.run()
        checked = equality(outcome.got, outcome.expected)
        if arguments.golden:
            tell(f"wrote {outcome.golden.write(arguments.golden)} tiles to {arguments.golden}", file=sys.stderr)
    if arguments.json:
        print_json(head(planned) | traffic_dict(traffic) | {"check": checked})
    else:
        cores = say(counted(arguments.cores, "core"))
        print(folded(f"{planned.name}  {planned.problem.line}  {cores}\n", "  "))
        print_fields(planned.plan.report, arguments.all)
        if planned.plan.single_shape:
            shape = ", ".join(f"{name} {value}" for name, value in planned.plan.single_shape.items())
            print(folded(f"{say('single shape')}  {shape}\n", "  "))
        print_traffic(traffic)
        print_check(planned.result, checked)
    return exit_code(checked)


def head(planned: TileRun) -> dict[str, Any]:
    """What the JSON answer begins with; the basic block is the filter kernel's alone."""
    fields = {one.name: {"value": one.value, "reason": one.reason} for one in planned.plan.report}
    problem, block = planned.problem, planned.plan.single_shape
    return {
        "line": problem.line, "kernel": planned.name, "dtype": DTYPE_NAMES[problem.dtype],
        "cores": planned.plan.arguments.cores, "tiling": fields, **({"basicBlockTiling": block} if block else {}),
    }  # fmt: skip


def equality(got: Any, expected: Any) -> dict[str, Any]:
    """Whether two arrays are equal, and where they first differ."""
    same = np.asarray(got == expected)
    first = None if same.all() else [int(place) for place in np.argwhere(~same)[0]]
    return {
        "equal": bool(same.all()),
        "elements": int(same.size),
        "wrong": int(np.count_nonzero(~same)),
        "first": first,
    }


def exit_code(checked: dict[str, Any] | None) -> int:
    """0, or 1 when the gradient differs."""
    return ExitCode.PASS if checked is None or checked["equal"] else ExitCode.PRECISION_FAIL


def traffic_dict(report: TrafficReport) -> dict[str, Any]:
    """Traffic, balance and fill for JSON."""
    return {
        "blocks": report.blocks, "cores_used": report.cores_used, "balance": report.balance,
        "work_per_core": list(report.per_core), "stores": {name: list(pair) for name, pair in report.fill.items()},
        "traffic": asdict(report.total), **report.ratios, "multiply_adds_per_byte": report.products_per_byte,
        "warnings": list(report.warnings),
    }  # fmt: skip


def print_fields(report: Sequence[FieldReport], every: bool) -> None:
    """The tiling table: every field, or those that were chosen or derived."""
    plain = ("as set", "always 1 here", "never written", "not read by the kernel")
    shown = [one for one in report if every or one.reason not in plain]
    print(table(("field", "value", "why"), [(one.name, one.value, say(one.reason)) for one in shown], right=(1,)))
    if len(shown) < len(report):
        tell(f"({len(report) - len(shown)} more fields are as set: --all lists them)")
    print()


def print_traffic(report: TrafficReport) -> None:
    """Stores, balance and traffic."""
    stores = [(name, used, size, f"{used / size:.0%}") for name, (used, size) in report.fill.items()]
    print(table(("store", "bytes", "of", "fill"), stores, right=(1, 2, 3)))
    print()
    for line in traffic_lines(report):
        print(folded(say(line), " " * 10))
    for warning in report.warnings:
        tell_under("warning", warning, "yellow")


def traffic_lines(report: TrafficReport) -> list[str]:
    """Balance, loads, products and stores, each under a word of ten columns."""
    total, (a_name, b_name), (a_note, b_note, c_note) = report.total, report.names, report.notes
    return [
        f"cores     {report.cores_used} of {report.cores} work on {report.blocks} blocks; "
        f"the mean core has {report.balance:.0%} of the busiest one's work",
        f"tiles     {total.tiles}, of which {total.skipped_tiles} are skipped",
        f"loads     {a_name} {total.a_loads} ({total.gm_to_a1} bytes, {a_note}), "
        f"{b_name} {total.b_loads} ({total.gm_to_b1} bytes, {b_note})",
        f"L1 to L0  A {total.a1_to_l0a} bytes, B {total.b1_to_l0b} bytes",
        f"products  {total.multiply_adds} multiply-adds, {report.products_per_byte:.1f} per byte of global memory",
        f"stores    {total.l0c_to_gm} bytes, {c_note}",
    ]


def print_check(result: str, checked: dict[str, Any] | None) -> None:
    """The last line: is it the gradient."""
    if checked is None:
        tell_under("check", "not run (--dry)")
    elif checked["equal"]:
        tell_under("check", f"{result} == what the functional API gives, all {checked['elements']} elements", "green")
    else:
        wrong = f"{checked['wrong']} of {checked['elements']} elements of {result}"
        tell_under("check", f"{wrong} differ from what the functional API gives, first at {checked['first']}", "red")
