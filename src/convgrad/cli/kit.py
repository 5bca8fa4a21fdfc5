"""`convgrad kit`: the file through which a test kit takes its expected results from here."""

from __future__ import annotations

import argparse
from pathlib import Path

from convgrad.lab.kits import plugin_files
from convgrad.text.terminal import ExitCode, print_json, tell

_USE = {"ttk": "--plugin", "atk": "-p"}


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "kit", help="write the plug-in file of a test kit",
        description="Writes one Python file that the kit loads: its golden functions are this library's, on the "
        "product whose SoC name the kit passes (without one: CONVGRAD_PRODUCT, else A2).",
    )
    parser.add_argument("kit", choices=tuple(plugin_files.KITS), help="the kit")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where the file is written")
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    path = plugin_files.write(arguments.kit, arguments.output)
    if arguments.json:
        print_json({"kit": arguments.kit, "file": str(path), "option": _USE[arguments.kit]})
    else:
        tell(f"{path}: give it to the kit with {_USE[arguments.kit]}")
    return ExitCode.PASS
