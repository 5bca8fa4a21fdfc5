"""Inputs and expected outputs of cases as files, in the test kits' naming, with checksums.

    DIR/manifest.json                       what was written, from which lines and seeds
    DIR/SHA256SUMS                          for `sha256sum -c`
    DIR/000000_name/input_0_bfloat16.bin    gradOutput, then input, then weight
    DIR/000000_name/golden_0_bfloat16.bin   the wanted gradients, in order

Expected outputs are float64 sums of the operands rounded as planned, with the planned result casts, in the dtype each
gradient is stored in; `--wide` writes the float64 sums themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convgrad.calls.decide import decide
from convgrad.core import rounding
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan
from convgrad.lab.cases.case import Case
from convgrad.lab.cases.own import parse_json
from convgrad.lab.cases.reading import text_of
from convgrad.lab.golden import tensor_files
from convgrad.lab.judging import runs
from convgrad.text.files import output_file
from convgrad.text.terminal import UsageError

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
VERSION = 1
_INPUTS = ("grad_output", "input", "weight")


def expected(plan: Plan, tensors: Operands, wide: bool = False) -> dict[str, Any]:
    """The expected outputs by name: stored arrays, or float64 sums."""
    sums = runs.golden(plan, tensors)
    return {
        step.result.value: sums[step.result] if wide
        else rounding.store(step.stored_as, rounding.round_to(step.rounded_to, sums[step.result]))
        for step in plan.steps
    }


def write_case(directory: Path, index: int, case: Case, run_seed: int, extension: str, wide: bool) -> dict[str, Any]:
    """Writes the files of one case; its entry of the manifest."""
    decision = decide(case.request)
    verdict = decision.verdict
    line = str(case.request)
    seed = case.seed_for(run_seed, line)
    entry: dict[str, Any] = {
        "index": index, "name": case.name, "line": line, "values": case.fill_words, "seed": seed,
        "status": int(verdict.status),
    }
    if decision.plan is None:
        return {**entry, "rule": verdict.rule_id, "message": verdict.message, "files": []}
    plan = decision.plan
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
    # Sums are renamed first: a manifest means that everything is there.
    with output_file(directory / MANIFEST) as manifest, output_file(directory / SUMS) as checks:
        manifest.write(f'{{"convgrad_golden": {VERSION}, "seed": {run_seed}, "cases": ['.encode())
        first = True
        for index, case in enumerate(cases):
            if not case.enabled:
                continue
            entry = write_case(directory, index, case, run_seed, extension, wide)
            manifest.write((("\n" if first else ",\n") + json.dumps(entry, ensure_ascii=False)).encode())
            for f in entry["files"]:
                checks.write(f"{f['sha256']}  {entry['directory']}/{f['file']}\n".encode())
            first = False
            yield entry
        manifest.write(b"\n]}\n")


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of a golden directory, or `None` where there is none."""
    path = directory / MANIFEST
    if not path.is_file():
        return None
    manifest = parse_json(str(path), text_of(path))
    if not isinstance(manifest, dict) or manifest.get("convgrad_golden") != VERSION:
        raise UsageError(f"{path}: is no manifest of golden data")
    return manifest
