"""`convgrad doctor`: what this installation is made of, which engine computes, and what to do where something lacks."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

import convgrad
from convgrad.engines import library
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, folded, print_json, table

NEEDED = ("numpy", "ml_dtypes")
OPTIONAL = (
    ("torch", "pip install 'convgrad[torch]'", "scan, emulate, impact; PyTorch's time in run and bench"),
    ("jax", "pip install 'convgrad[jax]'", "gradients inside JAX programs"),
    ("dask", "pip install 'convgrad[dask]'", "arrays larger than memory, runs on many machines"),
    ("rich", "pip install 'convgrad[report]'", "coloured tables"),
    ("openpyxl", "pip install 'convgrad[report]'", "xlsx files"),
    ("onnx", "pip install onnx", "scan of ONNX files"),
)


def findings() -> dict[str, Any]:
    """Everything `convgrad doctor` shows, as plain values."""
    forced = os.environ.get("CONVGRAD_ENGINE", "")
    with warnings.catch_warnings(record=True):  # what it would warn of is told below
        info = convgrad.engine_info()
    advice = []
    if library.why_not():
        advice.append(f"the native engine cannot be loaded: {library.why_not()}")
        advice.append("reinstall: pip install --force-reinstall --no-deps convgrad")
    elif info.engine == "reference":
        advice.append(f"CONVGRAD_ENGINE={forced} asks for the slow reference engine: unset it for speed")
    return {
        "convgrad": convgrad.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        "engine": info.engine,
        "isa": info.isa,
        "threads": info.threads,
        "threadpool": info.threadpool,
        "library": info.library,
        "documents": documents(),
        "reason": library.why_not(),
        "needed": {name: _version(name) for name in NEEDED},
        "optional": {name: _version(name) for name, _, _ in OPTIONAL},
        "environment": {key: value for key, value in sorted(os.environ.items()) if key.startswith("CONVGRAD_")},
        "advice": advice,
    }


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb `doctor`."""
    parser = subparsers.add_parser(
        "doctor", help="show versions, engine, instruction set, threads, optional packages",
        description="Show what this installation is made of and what to do where something lacks. Exit code 4 when the "
        "native engine cannot be loaded.",
    )  # fmt: skip
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    found = findings()
    if arguments.json:
        print_json(found)
    else:
        print("\n".join(_lines(found)))
    return ExitCode.INTERNAL if found["reason"] else ExitCode.PASS


def _lines(found: dict[str, Any]) -> list[str]:
    shown = ("python", "executable", "platform", "engine", "isa", "threads", "threadpool", "library", "documents")
    rows = [(key, found[key]) for key in shown]
    rows += list(found["needed"].items()) + list(found["environment"].items())
    lines = [table(("convgrad", found["convgrad"]), [(say(name), value) for name, value in rows if value != ""])]
    lacks = say("missing")
    optional = [(name, found["optional"][name] or f"{lacks}: {how}", say(what)) for name, how, what in OPTIONAL]
    lines += ["", table(("optional", "", "for"), optional), ""]
    return lines + [folded(say(text)) for text in found["advice"] or ["Nothing to do: the native engine computes."]]


def documents() -> str:
    """The directory whose `docs/` messages name: the source tree's, else the one a wheel brought; empty without any."""
    tree = Path(convgrad.__file__).parents[2]
    if (tree / "docs" / "concepts.md").exists():
        return str(tree)
    pages = [page for page in files("convgrad") or () if page.match("share/doc/convgrad/README.md")]
    return str(Path(str(pages[0].locate())).resolve().parent) if pages else ""


def _version(name: str) -> str:
    """The installed version of a package, without importing it; empty when it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
