"""Which file is compared with which: two files, two directories, or results with a golden directory.

In directories, `output_0_…`, `actual_0_…` and `golden_0_…` go together by their number, other files by their name.
A golden directory that has a manifest also has the inputs: the float64 reference, the error anatomy and the partner
of a double benchmark are then computed from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from convgrad.calls.decide import decide
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.dtypes import Dtype
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan, Step
from convgrad.core.request import Request
from convgrad.core.standards import Standard
from convgrad.lab.golden import layouts, storage, tensor_files
from convgrad.lab.golden import writing as golden
from convgrad.lab.judging import runs
from convgrad.lab.judging.anatomy import anatomy
from convgrad.lab.judging.findings import Findings, find
from convgrad.text.terminal import UsageError

_RESULT_ROLES = ("output", "actual", "golden")


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair, judged; `line` is set where the case behind it is known."""

    name: str
    findings: Findings
    line: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """An expected result without a file to judge; in a case that has other results, that is a failure."""

    name: str
    in_case: bool = False


def compare_paths(
    actual: Path, expected: Path, chosen: tuple[Standard, ...], *, dtype: str | None = None, partner: Path | None = None
) -> Iterator[Compared | Missing]:
    """Every pair of two files or two directories, and what has no partner."""
    for path in (actual, expected):
        if not path.exists():
            raise UsageError(f"{path}: no such file or directory")
    if actual.is_dir() != expected.is_dir():
        raise UsageError(f"{actual} and {expected}: compare two files, or two directories")
    if not actual.is_dir():
        yield Compared(actual.name, _files(actual, expected, chosen, dtype, partner))
        return
    manifest = golden.read_manifest(expected)
    if manifest is not None:
        yield from _golden_directory(actual, expected, manifest, chosen)
        return
    pairs = list(_pairs(actual, expected))
    if all(mine is None for _, mine, _ in pairs):
        raise UsageError(f"{actual} and {expected} have no tensor files in common")
    for name, mine, theirs in pairs:
        yield Missing(name) if mine is None else Compared(name, _files(mine, theirs, chosen, dtype, None))


def _files(
    actual: Path, expected: Path, chosen: tuple[Standard, ...], dtype: str | None, partner: Path | None
) -> Findings:
    theirs, their_dtype = tensor_files.read(expected, None if tensor_files.named_dtype(expected) else dtype)
    shape = None if expected.suffix == ".bin" and tensor_files.named_shape(expected) is None else theirs.shape
    mine, my_dtype = tensor_files.read(actual, dtype, shape)
    if mine.shape != theirs.shape and mine.size != theirs.size:
        raise UsageError(f"{actual} has shape {mine.shape}, {expected} {theirs.shape}")
    other = None
    if partner is not None:
        other, other_dtype = tensor_files.read(partner, dtype, shape)
        other = rounding.load(other_dtype, other)
    return find(
        actual.stem, rounding.load(my_dtype, mine).reshape(theirs.shape), rounding.load(their_dtype, theirs),
        my_dtype.name, chosen, partner=other,
    )


def _key(path: Path) -> Any:
    known = tensor_files.role_and_number(path)
    return known[1] if known and known[0] in _RESULT_ROLES else path.name


def _tensor_paths(directory: Path) -> list[Path]:
    found = (p for p in directory.rglob("*") if p.suffix in tensor_files.SUFFIXES and p.is_file())
    results = (p for p in found if (tensor_files.role_and_number(p) or ("",))[0] not in ("input", "scalar"))
    return sorted(p for p in results if not tensor_files.is_nothing(p))


def _pairs(actual: Path, expected: Path) -> Iterator[tuple[str, Path | None, Path]]:
    ours = {(p.parent.relative_to(actual), _key(p)): p for p in _tensor_paths(actual)}
    for path in _tensor_paths(expected):
        mine = ours.get((path.parent.relative_to(expected), _key(path)))
        yield str(path.relative_to(expected) if mine is None else mine.relative_to(actual)), mine, path


# ---- golden directories ------------------------------------------------------------------------------------


def _golden_directory(
    actual: Path, expected: Path, manifest: dict[str, Any], chosen: tuple[Standard, ...]
) -> Iterator[Compared | Missing]:
    """Results laid out like the golden directory, judged against the float64 reference of its inputs."""
    compared = 0
    try:
        for entry in manifest["cases"]:
            if not entry["files"]:
                continue
            place = actual / "tensors" if (actual / "tensors").is_dir() else actual  # a run's --save directory
            mine = place / entry["directory"]
            if not mine.is_dir():
                yield Missing(str(entry["directory"]))
                continue
            for item in _case(mine, expected / entry["directory"], entry, chosen):
                compared += isinstance(item, Compared)
                yield item
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{layouts.manifest_of(expected)}: an entry is incomplete") from None
    if not compared:
        raise UsageError(f"{actual} holds no results of the cases in {expected}")


def _case(
    mine: Path, theirs: Path, entry: dict[str, Any], chosen: tuple[Standard, ...]
) -> Iterator[Compared | Missing]:
    plan = decide(Request.parse(entry["line"])).accepted()
    tensors = _operands(theirs, entry, plan)
    paths = {_key(p): p for p in _tensor_paths(mine)}
    foreign: runs.Results = {}
    golden_files = [f for f in entry["files"] if f["file"].startswith("golden_")]
    numbers = {f["tensor"]: i for i, f in enumerate(golden_files)}
    for step in plan.steps:
        number = numbers[step.result.value]
        if number in paths:
            stored, dtype = _read(paths[number], None, golden_files[number], runs.spec_of(plan, step.result).shape)
            foreign[step.result] = rounding.load(dtype, stored)
    sums = runs.golden(plan, tensors)
    ours, _ = runs.subject(plan, tensors)
    parts = anatomy(plan, tensors, sums, ours, foreign=foreign)
    needs_partner = any(s.needs_partner for s in chosen)
    for step in plan.steps:
        if step.result not in foreign:
            yield Missing(f"{mine.name}/{step.result.value}", in_case=True)
        else:
            found = _found(plan, step, foreign, sums, ours if needs_partner else None, chosen, parts[step.result])
            yield Compared(f"{mine.name}/{step.result.value}", found, entry["line"])


def _found(
    plan: Plan, step: Step, foreign: runs.Results, sums: runs.Results, partner: runs.Results | None,
    chosen: tuple[Standard, ...], parts: Any,
) -> Findings:
    return find(
        step.result.value, foreign[step.result], sums[step.result], step.stored_as, chosen,
        resolution=runs.resolution_of(step), precision=runs.precision_of(plan, step),
        expected=runs.as_planned(step, sums[step.result]),
        partner=None if partner is None else runs.values_of(step, partner), axes=runs.channel_first(plan, step.result),
        anatomy=parts,
    )


def _read(path: Path, dtype: str | None, record: dict[str, Any], shape: tuple[int, ...]) -> tuple[AnyArray, Dtype]:
    """The tensor of a file; where the kit's case has a storage of its own, in that."""
    kept = record.get("storage")
    if kept is None:
        return tensor_files.read(path, dtype, shape)
    stored, found = tensor_files.read(path, dtype, kept["shape"])
    if stored.size != prod(kept["shape"]):
        raise UsageError(f"{path}: has shape {stored.shape}, its storage {tuple(kept['shape'])}")
    return storage.read(kept).view(stored, shape), found


def _operands(directory: Path, entry: dict[str, Any], plan: Plan) -> Operands:
    """The operands a golden directory holds; a kernel's case has one only by its size, which no result depends on."""
    found: dict[str, Any] = {}
    for name in ("input", "weight"):
        spec = getattr(plan.problem.request, name)
        found[name] = np.zeros(spec.shape, rounding.storage(dtypes.find(spec.dtype)))
    for f in entry["files"]:
        if f["file"].startswith("input_") and f["tensor"] in ("grad_output", "input", "weight"):
            path = directory / Path(f["file"]).name
            spec = getattr(plan.problem.request, f["tensor"])
            found[f["tensor"]], _ = _read(path, f["dtype"], f, spec.shape)
    return Operands(found.get("grad_output"), found["input"], found["weight"])
