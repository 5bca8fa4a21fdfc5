"""`convgrad golden`: inputs and expected outputs of cases as files, in the test kits' naming, with checksums.

    DIR/manifest.json                       what was written, from which lines and seeds
    DIR/SHA256SUMS                          for `sha256sum -c`
    DIR/000000_name/input_0_bfloat16.bin    gradOutput, then input, then weight
    DIR/000000_name/golden_0_bfloat16.bin   the wanted gradients, in order

Expected outputs are float64 sums of the operands rounded as planned, with the planned result casts, in the dtype each
gradient is stored in; `--wide` writes the float64 sums themselves.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convgrad import functional, rounding, tensor_files
from convgrad.cases import files
from convgrad.cases.case import Case, conformance_name, product_key
from convgrad.compare import runs
from convgrad.planning import Plan
from convgrad.rules.check import check
from convgrad.terminal import ExitCode, UsageError, print_json

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
VERSION = 1
_INPUTS = ("grad_output", "input", "weight")


def expected(plan: Plan, tensors: runs.Operands, wide: bool = False) -> dict[str, Any]:
    """The expected outputs by name: stored arrays, or float64 sums."""
    sums = runs.golden(plan, tensors)
    return {
        step.result.value: sums[step.result] if wide
        else rounding.store(step.stored_as, rounding.round_to(step.rounded_to, sums[step.result]))
        for step in plan.steps
    }


def write_case(directory: Path, index: int, case: Case, run_seed: int, extension: str, wide: bool) -> dict[str, Any]:
    """Writes the files of one case; its entry of the manifest."""
    verdict = check(case.request)
    line = str(case.request)
    seed = case.seed_for(run_seed, line)
    entry: dict[str, Any] = {
        "index": index, "name": case.name, "line": line, "values": case.fill_words, "seed": seed,
        "status": int(verdict.status),
    }
    if not verdict.ok:
        return {**entry, "rule": verdict.rule_id, "message": verdict.message, "files": []}
    plan = functional.plan(case.request)
    tensors = case.tensors(seed)
    place = directory / tensor_files.directory_name(index, case.name)
    place.mkdir(parents=True, exist_ok=True)
    given = [(n, t) for n, t in zip(_INPUTS, (tensors.grad_output, tensors.input, tensors.weight), strict=True)]
    written = [
        _write(place, "input", i, name, array, spec.dtype, extension)
        for i, (name, array) in enumerate(given)
        if array is not None and (spec := getattr(case.request, name)) is not None
    ]
    outputs = expected(plan, tensors, wide)
    written += [
        _write(place, "golden", i, name, outputs[name], "float64" if wide else step.stored_as, extension)
        for i, (name, step) in enumerate(zip(outputs, plan.steps, strict=True))
    ]
    return {**entry, "directory": place.name, "compute": plan.operand, "files": written}


def _write(
    place: Path, role: str, number: int, tensor: str, array: Any, dtype: str, extension: str
) -> dict[str, Any]:
    name = tensor_files.file_name(role, number, dtype, extension)
    content = tensor_files.write(place / name, array, extension)
    return {
        "file": name, "tensor": tensor, "dtype": dtype, "shape": list(array.shape),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def write_all(
    directory: Path, cases: list[Case], run_seed: int = 0, extension: str = "npy", wide: bool = False
) -> Iterator[dict[str, Any]]:
    """Writes every enabled case, then the manifest and the checksums; entries as they are written."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / MANIFEST).exists():
        raise UsageError(f"{directory / MANIFEST} exists: choose an empty directory")
    partial, sums = directory / f".{MANIFEST}.part", directory / f".{SUMS}.part"
    with partial.open("w", encoding="utf-8") as manifest, sums.open("w", encoding="utf-8") as checks:
        manifest.write(f'{{"convgrad_golden": {VERSION}, "seed": {run_seed}, "cases": [')
        first = True
        for index, case in enumerate(cases):
            if not case.enabled:
                continue
            entry = write_case(directory, index, case, run_seed, extension, wide)
            manifest.write(("\n" if first else ",\n") + json.dumps(entry, ensure_ascii=False))
            for f in entry["files"]:
                checks.write(f"{f['sha256']}  {entry['directory']}/{f['file']}\n")
            first = False
            yield entry
        manifest.write("\n]}\n")
    os.replace(sums, directory / SUMS)
    os.replace(partial, directory / MANIFEST)  # last: a manifest means that everything is there


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of a golden directory, or `None` where there is none."""
    path = directory / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("convgrad_golden") != VERSION:
        raise UsageError(f"{path}: is no manifest of golden data")
    return manifest


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "golden", help="write inputs and expected outputs", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", metavar="CASES", help="a file of cases, `-`, or one problem line")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--format", choices=tensor_files.EXTENSIONS, default="npy", help="default: %(default)s")
    parser.add_argument("--wide", action="store_true", help="expected outputs in float64, before any result rounding")
    parser.add_argument("--product", help="on this product")
    parser.add_argument("--conformance", help="document or runtime")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    product = None if arguments.product is None else product_key(arguments.product)
    conformance = None if arguments.conformance is None else conformance_name(arguments.conformance)
    if not 0 <= arguments.seed < 2**63:
        raise UsageError("--seed must be between 0 and 2**63 - 1")
    cases = [case.moved(product, conformance) for case in files.read(arguments.cases)]
    written, refused, count = 0, [], 0
    for entry in write_all(arguments.output, cases, arguments.seed, arguments.format, arguments.wide):
        written += len(entry["files"])
        count += 1
        if entry["status"]:
            refused.append(entry)
    if arguments.json:
        print_json({"directory": str(arguments.output), "cases": count, "files": written, "refused": refused})
    else:
        for entry in refused:
            print(f"refused: {entry['name']}: {entry['message']}\n  reproduce: convgrad check '{entry['line']}'")
        print(f"{count} cases, {written} files in {arguments.output}; {MANIFEST} and {SUMS} beside them")
    return ExitCode.REFUSED if refused else ExitCode.PASS
