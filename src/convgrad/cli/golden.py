"""`convgrad golden`: inputs and expected outputs of cases as files, in the test kits' naming, with checksums."""
from __future__ import annotations

import argparse
from pathlib import Path

from convgrad.cli.numbers import seed
from convgrad.lab.cases import files
from convgrad.lab.cases.case import conformance_name, product_key
from convgrad.lab.golden import layouts
from convgrad.lab.golden.layouts import MANIFEST, SUMS
from convgrad.lab.golden.writing import write_all
from convgrad.text.terminal import ExitCode, UsageError, counted, print_json, tell

_HELP = """\
Writes inputs and expected outputs of cases as files, in the test kits' naming, with checksums.

    DIR/manifest.json                       what was written, from which lines and seeds
    DIR/SHA256SUMS                          for `sha256sum -c`
    DIR/000000_name/input_0_bfloat16.bin    gradOutput, then input, then weight
    DIR/000000_name/golden_0_bfloat16.bin   the wanted gradients, in order

With `--layout ttk` a directory is what the kit replays on a device: DIR/name/golden_0_bfloat16__shape_2x3x4.bin, a
file for every output (`golden_1_none.bin` where none is wanted), nothing else inside; the manifest and the checksums
are beside it, DIR.manifest.json and DIR.SHA256SUMS.

Expected outputs are float64 sums of the operands rounded as planned, with the planned result casts, in the dtype each
gradient is stored in; `--wide` writes the float64 sums themselves.
"""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "golden", help="write inputs and expected outputs", description=_HELP
    )
    parser.add_argument("cases", metavar="CASES", help="a file of cases, `-`, or one problem line")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where the files are written")
    parser.add_argument("--layout", choices=[row.name for row in layouts.ALL], default=layouts.OWN.name,
                        help="directories and file names (default: %(default)s)")  # fmt: skip
    formats = sorted({name for row in layouts.ALL for name in row.formats})
    parser.add_argument("--format", choices=formats, help="default: npy, in the kit's layout bin; pt there only")
    parser.add_argument("--wide", action="store_true", help="expected outputs in float64, before any result rounding")
    parser.add_argument("--product", help="on this product")
    parser.add_argument("--conformance", help="document or runtime")
    parser.add_argument("--seed", type=seed, default=0, help="cases without a seed of their own draw theirs from it")
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    product = None if arguments.product is None else product_key(arguments.product)
    conformance = None if arguments.conformance is None else conformance_name(arguments.conformance)
    cases = [case.moved(product, conformance) for case in files.read_some(arguments.cases)]
    written, refused, count = 0, [], 0
    layout = layouts.find(arguments.layout)
    extension = arguments.format or layout.formats[0]
    if extension not in layout.formats:
        raise UsageError(f"--format {extension} is none of the layout {layout.name}: use {', '.join(layout.formats)}")
    for entry in write_all(arguments.output, cases, arguments.seed, extension, arguments.wide, layout):
        written += len(entry["files"])
        count += 1
        if entry["status"]:
            refused.append(entry)
    if arguments.json:
        print_json({"directory": str(arguments.output), "cases": count, "files": written, "refused": refused})
    else:
        for entry in refused:
            tell(f"refused: {entry['name']}: {entry['message']}\n  reproduce: convgrad check '{entry['line']}'", "  ")
        names = " and ".join(layout.beside(Path(arguments.output.name), n).name for n in (MANIFEST, SUMS))
        tell(f"{counted(count, 'case')}, {counted(written, 'file')} in {arguments.output}; {names} beside them")
    return ExitCode.REFUSED if refused else ExitCode.PASS
