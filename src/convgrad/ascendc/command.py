"""`convgrad tile LINE`: tiling with reasons, stores, balance, traffic, a picture, and a check against the gradient."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from convgrad.terminal import ExitCode, UsageError, coloured, print_json, table

from .conv_type import DTYPE_NAMES
from .errors import TileKernelError
from .filter_checks import l1_bytes as filter_l1_bytes
from .from_line import LineProblem, plain_input_gradient, plain_weight_gradient, plan_line, problem_of, walk_picture
from .golden_input import Golden
from .platform import PlatformInfo
from .simulate import simulate
from .simulate_filter import simulate_filter
from .tiling_report import FieldReport
from .traffic import TrafficReport
from .traffic_input import traffic_report

DESCRIPTION = """Run the tile kernel of a problem line on every core and say what it does.

conv lines run Conv3DBackpropInput (with want=w: Conv3DBackpropFilter); tconv lines run the transposed convolution
through the same object. The data are small integers, so the check against the plain gradient is an equality."""


def add_command(subparsers: Any) -> None:
    """Add the verb `tile`."""
    parser = subparsers.add_parser("tile", help="run the tile kernel on a problem line", description=DESCRIPTION)
    parser.add_argument("line", help='a problem line, e.g. "conv n1 c16>32 i4x12x12 k3x3x3 p1 fp16"')
    parser.add_argument("--cores", type=int, default=24, help="cube cores (24)")
    parser.add_argument("--svg", metavar="FILE", help="write a picture of the walk")
    parser.add_argument("--plane", type=int, help="the gradInput plane the picture shows")
    parser.add_argument("--golden", metavar="DIR", help="write the expected values of every tile")
    parser.add_argument("--all", action="store_true", help="list every field, not only the chosen and derived ones")
    parser.add_argument("--dry", action="store_true", help="tiling, traffic and picture only: compute nothing")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """The verb."""
    if not 1 <= arguments.cores <= 4096:
        raise UsageError(f"--cores must be 1...4096, got {arguments.cores}")
    try:
        problem = problem_of(arguments.line)
    except ValueError as error:
        if type(error) is ValueError:
            raise UsageError(str(error)) from error
        raise
    try:
        return run_kernel(problem, arguments)
    except TileKernelError as error:
        raise error.with_line(problem.line) from error


def run_kernel(problem: LineProblem, arguments: argparse.Namespace) -> int:
    """The kernel that the line wants."""
    if problem.wants_input:
        return run_input(problem, arguments)
    if arguments.svg or arguments.golden or arguments.dry:
        raise UsageError("--svg, --golden and --dry are for Conv3DBackpropInput; the line wants only gradWeight")
    return run_filter(problem, arguments)


def run_input(problem: LineProblem, arguments: argparse.Namespace) -> int:
    """Conv3DBackpropInput, or the transposed convolution through it."""
    attributes: dict[str, Any] = {"stride": problem.stride, "padding": problem.padding, "dilation": problem.dilation}
    shape = None if problem.transposed else problem.input_shape
    record, report, blocks = plan_line(problem, arguments.cores)
    traffic = traffic_report(record, blocks, arguments.cores)
    if arguments.svg:
        picture = walk_picture(problem.line, arguments.cores, arguments.plane)
        Path(arguments.svg).write_text(picture, encoding="utf-8")
        print(f"wrote {arguments.svg}", file=sys.stderr)
    checked: dict[str, Any] | None = None
    if not arguments.dry:
        grad_output, weight = problem.integers(problem.output_shape, 1), problem.integers(problem.weight_shape, 2)
        result = simulate(grad_output, weight, input_shape=shape, output_padding=problem.output_padding,
                          cores=arguments.cores, dtype=problem.dtype, **attributes)  # fmt: skip
        storage = result.grad_input.dtype
        expected = plain_input_gradient(problem, grad_output.astype(storage), weight.astype(storage))
        checked = equality(result.grad_input, expected)
        if arguments.golden:
            print(f"wrote {Golden(result).write(arguments.golden)} tiles to {arguments.golden}", file=sys.stderr)
    name = "Conv3DBackpropInput, transposed" if problem.transposed else "Conv3DBackpropInput"
    if arguments.json:
        print_json(head(problem, name, arguments.cores, report) | traffic_dict(traffic) | {"check": checked})
    else:
        print(f"{name}  {problem.line}  {arguments.cores} cores\n")
        print_fields(report, arguments.all)
        print_traffic(traffic)
        print_check("output" if problem.transposed else "gradInput", checked)
    return exit_code(checked)


def run_filter(problem: LineProblem, arguments: argparse.Namespace) -> int:
    """Conv3DBackpropFilter."""
    input, grad_output = problem.integers(problem.input_shape, 1), problem.integers(problem.output_shape, 2)
    result = simulate_filter(
        input, grad_output, weight_shape=problem.weight_shape, stride=problem.stride, padding=problem.padding,
        dilation=problem.dilation, cores=arguments.cores, dtype=problem.dtype,
    )  # fmt: skip
    checked = equality(result.grad_weight, plain_weight_gradient(problem, input, grad_output))
    used, sizes = filter_l1_bytes(result.tiling), PlatformInfo()
    block = asdict(result.basic_block)
    if arguments.json:
        extra = {"basicBlockTiling": block, "blocks": len(result.blocks), "cores_used": result.cores_used,
                 "stores": {"L1": [used, sizes.l1Size]}, "check": checked}  # fmt: skip
        print_json(head(problem, "Conv3DBackpropFilter", arguments.cores, result.report) | extra)
    else:
        print(f"Conv3DBackpropFilter  {problem.line}  {arguments.cores} cores\n")
        print_fields(result.report, arguments.all)
        print("single shape  " + ", ".join(f"{name} {value}" for name, value in block.items()))
        print(f"L1            {used} of {sizes.l1Size} bytes")
        print(f"cores         {result.cores_used} of {arguments.cores}, {len(result.blocks)} blocks")
        print_check("gradWeight", checked)
    return exit_code(checked)


def head(problem: LineProblem, name: str, cores: int, report: Sequence[FieldReport]) -> dict[str, Any]:
    """What the JSON answers of both kernels share."""
    fields = {one.name: {"value": one.value, "reason": one.reason} for one in report}
    return {"line": problem.line, "kernel": name, "dtype": DTYPE_NAMES[problem.dtype], "cores": cores, "tiling": fields}


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
    print(table(("field", "value", "why"), [(one.name, one.value, one.reason) for one in shown], right=(1,)))
    if len(shown) < len(report):
        print(f"({len(report) - len(shown)} more fields are as set: --all lists them)")
    print()


def print_traffic(report: TrafficReport) -> None:
    """Stores, balance and traffic."""
    stores = [(name, used, size, f"{used / size:.0%}") for name, (used, size) in report.fill.items()]
    print(table(("store", "bytes", "of", "fill"), stores, right=(1, 2, 3)))
    total, (a_name, b_name), (a_note, b_note, c_note) = report.total, report.names, report.notes
    print()
    print(f"cores     {report.cores_used} of {report.cores} work on {report.blocks} blocks; "
          f"the mean core has {report.balance:.0%} of the busiest one's work")  # fmt: skip
    print(f"tiles     {total.tiles}, of which {total.skipped_tiles} are skipped")
    print(f"loads     {a_name} {total.a_loads} ({total.gm_to_a1} bytes, {a_note}), "
          f"{b_name} {total.b_loads} ({total.gm_to_b1} bytes, {b_note})")  # fmt: skip
    print(f"L1 to L0  A {total.a1_to_l0a} bytes, B {total.b1_to_l0b} bytes")
    print(f"products  {total.multiply_adds} multiply-adds, {report.products_per_byte:.1f} per byte of global memory")
    print(f"stores    {total.l0c_to_gm} bytes, {c_note}")
    for warning in report.warnings:
        print(coloured(f"warning   {warning}", "yellow"))


def print_check(result: str, checked: dict[str, Any] | None) -> None:
    """The last line: is it the gradient."""
    if checked is None:
        print("check     not run (--dry)")
    elif checked["equal"]:
        print(
            coloured(
                f"check     {result} == what the functional API gives, all {checked['elements']} elements", "green"
            )
        )
    else:
        wrong = f"{checked['wrong']} of {checked['elements']} elements of {result}"
        print(
            coloured(f"check     {wrong} differ from what the functional API gives, first at {checked['first']}", "red")
        )
