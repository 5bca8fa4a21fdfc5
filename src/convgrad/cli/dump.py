"""`convgrad dump`: the convolution calls of a run dumped by the vendor's debugging tool."""

from __future__ import annotations

import argparse
from pathlib import Path

from convgrad.cli import outputs
from convgrad.core import standards
from convgrad.core.request import MATH_NAMES
from convgrad.lab.cases.case import product_key
from convgrad.lab.dumps import judging, reading, report
from convgrad.text.files import write_text
from convgrad.text.terminal import ExitCode, UsageError, counted, print_json, tell

PRODUCTS = ("950", "A3", "A2")
_HELP = """\
Rebuilds every convolution call of a PyTorch dump (statistics or tensors; a dump's directory, a step or a unit of it),
and says what each product answers. Where tensors were dumped, the gradients are computed again on the product given
with --on, judged, and their errors attributed: to operand rounding, accumulation, result rounding, or not explained.
With OTHER, the gradients of the same calls in two dumps are compared instead: their values, or, where one holds no
tensors, their statistics or checksums by the dump tool's own rules.

  convgrad dump run/step0 --html dump.html --csv compare.csv
  convgrad dump npu/step0 cpu/step0 --standard mixed,mere-mare

Tensors are read without running code. Exit codes: 1 a gradient fails or is in one dump only, 2 a tensor cannot be read,
3 a product refuses a call.
"""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("dump", help="judge the convolution calls of a dump", description=_HELP)
    parser.add_argument("dump", metavar="DIR", type=Path, help="a dump, a step or a unit of it")
    parser.add_argument("other", metavar="OTHER", type=Path, nargs="?", help="another dump, to compare with")
    parser.add_argument("--product", default=",".join(PRODUCTS), help="asked about each call (default: %(default)s)")
    parser.add_argument("--on", default="cpu", metavar="PRODUCT", help="recompute on it (default: %(default)s)")
    parser.add_argument("--math", choices=MATH_NAMES,
                        help="default: keep on cpu, allow_down elsewhere, as the framework allows")  # fmt: skip
    default = ",".join(standards.DEFAULT)
    parser.add_argument("--standard", default=default, help="names with commas (default: %(default)s)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the dump tool's own comparison table")
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    try:
        chosen = standards.find_all(arguments.standard)
    except ValueError as error:
        raise UsageError(str(error)) from None
    outputs.look_at((arguments.csv, arguments.html), ())
    on = product_key(arguments.on)
    asked = [product_key(name) for name in arguments.product.split(",") if name.strip()]
    products = list(dict.fromkeys([on, *asked]))
    units = reading.find_units(arguments.dump)
    others: list[Path] = reading.find_units(arguments.other) if arguments.other is not None else []
    if others and len(others) != len(units):
        raise UsageError(f"{arguments.dump} has {len(units)} units, {arguments.other} {len(others)}: give one of each")
    layers = []
    found = []
    for i, directory in enumerate(units):
        dump = reading.read(directory)
        judged = judging.judge(
            dump, products, arguments.math, chosen, reading.read(others[i]) if others else None
        )
        found.append((dump, judged))
        layers += judged if len(units) == 1 else [judging.in_unit(layer, dump.unit) for layer in judged]
    if arguments.csv is not None:
        write_text(arguments.csv, report.csv_text(layers, on))
    if arguments.html is not None:
        write_text(arguments.html, report.html(f"Dump {arguments.dump.name}", layers, on))
    if arguments.json:
        print_json({
            **judging.summary(layers),
            "units": [
                {"unit": dump.unit, "task": dump.task, "level": dump.level, "module_entries": dump.modules,
                 "calls": [judging.as_dict(x) for x in judged]} for dump, judged in found
            ],
        })
    else:
        _print(found)
    return _exit_code(layers)


def _print(found: list[tuple[reading.Dump, list[judging.Layer]]]) -> None:
    for dump, judged in found:
        calls = counted(len(judged), "call")
        tell(f"{dump.unit}: task {dump.task or 'unknown'}, level {dump.level or 'unknown'}, {calls}")
        if judged:
            print(report.text(judged))
        elif dump.modules:
            tell(f"  {dump.modules} module entries hold no stride, padding or groups: dump level L1 or mix", "  ")


def _exit_code(layers: list[judging.Layer]) -> int:
    if not all(layer.passed for layer in layers):
        return ExitCode.PRECISION_FAIL
    if any(layer.unreadable for layer in layers):
        return ExitCode.USAGE
    refused = any(a.word == judging.REFUSED for layer in layers for a in layer.answers)
    return ExitCode.REFUSED if refused else ExitCode.PASS
