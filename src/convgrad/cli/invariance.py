"""`convgrad invariance`: does a bit of a stack's results depend on the batch?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from convgrad.cli.scan import MODEL_DEVICE, convolutions_of, shape_of
from convgrad.core.arrays import AnyArray
from convgrad.core.determinism import LEVELS
from convgrad.lab.cases import files
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, coloured, folded, print_json, printable, tell

_HELP = """\
Computes a batch whole, then each sample alone, the halves, the samples in reverse order, and the batch on other numbers
of threads and instruction sets, and names the first bit of an input gradient or a forward result that differs. At level
3 of determinism gradients of weight and bias count too: they are the tree of every sample's own, computed alone.

  convgrad invariance 'conv n8 c64>64 i14 k3 p1 fp32'   convgrad itself
  convgrad invariance lines.txt --stack torch           PyTorch on the CPU
  convgrad invariance cases.csv --axis alone            some of it
  convgrad invariance cases.csv --deterministic 3       weight and bias too, as det=3 in a line
  convgrad invariance --model nets.py:Net -i 8,3,64,64  the convolutions of a model
  convgrad invariance --files all.npy part.npy --at 3   results of other runs: part = samples 3, ...

Problems of fewer than four samples are tried with four. Exit code 1 when a bit depends on something, 0 when none does.
"""


def add_command(subparsers: Any) -> None:
    """Adds the verb `invariance`."""
    parser = subparsers.add_parser("invariance", help="do a stack's bits depend on the batch", description=_HELP)
    parser.add_argument("cases", nargs="*", metavar="CASES", help="files of cases or problem lines")
    parser.add_argument("--stack", default="convgrad", metavar="NAME",
                        help="convgrad, torch, or path/to/file.py:function")  # fmt: skip
    parser.add_argument("--axis", action="append", choices=("alone", "halves", "order", "threads", "isa", "layout"),
                        help="what may not show (default: all but layout)")  # fmt: skip
    parser.add_argument("--deterministic", type=int, choices=range(len(LEVELS)), metavar="LEVEL",
                        help="level of determinism, 0 to 3, instead of each line's own det=")  # fmt: skip
    parser.add_argument("--model", metavar="MODEL", help="module:name or file.py:name: its distinct convolutions")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="N,C,H,W", type=shape_of,
                        help="shape of its input")  # fmt: skip
    parser.add_argument("--device", **MODEL_DEVICE)
    parser.add_argument("--files", nargs=2, type=Path, metavar=("WHOLE", "PART"), help="two .npy files of results")
    parser.add_argument("--at", type=int, default=0, metavar="SAMPLE", help="with --files: the part's first sample")
    parser.add_argument("--batch-axis", type=int, default=0, metavar="AXIS", help="with --files: the samples' axis")
    parser.add_argument("--seconds", type=float, default=300, metavar="S", help="for a problem at most (300)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from convgrad.lab.referee import invariance, stacks

    if arguments.files:
        if arguments.cases or arguments.model:
            raise UsageError("--files compares two files of results: no cases and no --model beside it")
        return _files(arguments)
    if arguments.at or arguments.batch_axis:
        raise UsageError("--at and --batch-axis belong to --files")
    requests = [case.request for name in arguments.cases for case in files.read_some(name)]
    if arguments.model:
        requests += convolutions_of(arguments.model, arguments.input, arguments.device)
    if not requests:
        raise UsageError("give a problem line, a file of cases, --model or --files")
    if arguments.stack == "torch" and find_spec("torch") is None:
        raise UsageError("PyTorch is not installed: nothing to compare")
    if arguments.stack not in stacks.NAMES:
        stacks.find(arguments.stack)
    if arguments.deterministic is not None:
        requests = [replace(request, deterministic=arguments.deterministic) for request in requests]
    distinct = list({str(r): r for r in requests}.values())
    axes = arguments.axis or list(invariance.DEFAULT_AXES)
    rows, differ, judged, not_run = [], 0, 0, 0
    for line, found in invariance.referee(distinct, arguments.stack, axes, arguments.seconds):
        if isinstance(found, str):
            not_run += 1
            rows.append({"line": line, "not_run": found})
            if not arguments.json:
                print(folded(f"{say('not run')}  {line}: {say(printable(found))}", "  "))
            continue
        judged += 1
        differ += bool(found)
        rows.append({"line": line, "differences": [d.as_row() for d in found]})
        if arguments.json:
            continue
        print(f"{coloured(say('depends'), 'red') if found else coloured(say('same'), 'green')}  {line}")
        for difference in found:
            print(folded(f"  {say(str(difference))}", "    "))
            print(f"    {difference.reproducer}")
    if arguments.json:
        print_json({"stack": arguments.stack, "axes": axes, "problems": rows})
    else:
        depend = ", ".join(axes)
        tell(f"{len(distinct)} on {arguments.stack}: {differ} with bits that depend on {depend}; {not_run} not run")
    return ExitCode.PRECISION_FAIL if differ else ExitCode.PASS if judged else ExitCode.USAGE


def _elements(path: Path, array: AnyArray) -> AnyArray:
    """Numbers of up to eight bytes; formats NumPy has no name for, such as bfloat16, arrive as plain bytes."""
    if array.dtype.itemsize not in (1, 2, 4, 8) or array.dtype.kind not in "fiubV":
        raise UsageError(f"{path}: holds {array.ndim} axes of {array.dtype}, not a tensor of numbers")
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _files(arguments: argparse.Namespace) -> int:
    from convgrad.lab.golden import tensor_files
    from convgrad.lab.referee import invariance

    try:
        whole, part = (_elements(path, tensor_files.read_npy(path)) for path in arguments.files)
        if not 0 <= arguments.batch_axis < min(whole.ndim, part.ndim):
            raise UsageError(f"--batch-axis {arguments.batch_axis} is no axis of {whole.shape} and {part.shape}")
        found = invariance.compare_files(whole, part, arguments.at, arguments.batch_axis)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if arguments.json:
        print_json({"differences": [] if found is None else [found]})
    elif found is None:
        tell("same  every bit of the part is that of the batch")
    else:
        count, size, first, bits, ulps = (found[name] for name in ("count", "size", "first", "bits", "ulps"))
        tell(
            f"depends  {count} of {size} differ, first {first}: {bits[0]} in the batch, {bits[1]} in the part; "
            f"at most {ulps} ulp"
        )
    return ExitCode.PASS if found is None else ExitCode.PRECISION_FAIL
