"""Inputs and expected outputs of cases as files, in the test kits' naming, with checksums.

    DIR/manifest.json                       what was written, from which lines and seeds
    DIR/SHA256SUMS                          for `sha256sum -c`
    DIR/000000_name/input_0_bfloat16.bin    gradOutput, then input, then weight
    DIR/000000_name/golden_0_bfloat16.bin   the wanted gradients, in order

(`layouts.py` has a test kit's layout as well.) Expected outputs are float64 sums of the operands rounded as planned,
with the planned result casts, in the dtype each gradient is stored in; `--wide` writes the float64 sums themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convgrad.calls.decide import decide
from convgrad.core import rounding
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan
from convgrad.lab.cases import ttk_cells, ttk_levels
from convgrad.lab.cases.case import Case
from convgrad.lab.cases.own import parse_json
from convgrad.lab.cases.reading import Unreadable, text_of
from convgrad.lab.golden import layouts
from convgrad.lab.golden.layouts import MANIFEST, SUMS, Layout
from convgrad.lab.golden.storage import FRACTAL, Storage
from convgrad.lab.judging import runs
from convgrad.text.files import output_file, write_bytes
from convgrad.text.terminal import UsageError

VERSION = 1
_INPUTS = ("grad_output", "input", "weight")
_OUTPUTS = ("grad_input", "grad_weight", "grad_bias")


def expected(plan: Plan, tensors: Operands, wide: bool = False) -> dict[str, Any]:
    """The expected outputs by name: stored arrays, or float64 sums."""
    sums = runs.golden(plan, tensors)
    return {
        step.result.value: sums[step.result] if wide
        else rounding.store(step.stored_as, rounding.round_to(step.rounded_to, sums[step.result]))
        for step in plan.steps
    }


def write_case(
    directory: Path, index: int, case: Case, run_seed: int, extension: str, wide: bool, layout: Layout = layouts.OWN
) -> dict[str, Any]:
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
    place = directory / layout.directory_name(index, case.name)
    place.mkdir(parents=True, exist_ok=True)
    files = _Files(place, layout, extension)
    kept = case.kit.get("ttk")
    row = kept if layout.every_slot and isinstance(kept, dict) else None
    kernel = row is not None and ttk_levels.is_kernel(row)
    try:
        where = [] if row is None else _storages(row)
    except (Unreadable, UsageError) as error:
        raise UsageError(f"case {index} ({case.name}): {error}") from None
    inputs = _kernel_inputs(case, tensors, row) if kernel and row is not None else _inputs(case, tensors, layout, row)
    written = [
        files.write("input", i, *given, where[i] if i < len(where) else None) for i, given in enumerate(inputs)
    ]
    outputs = expected(plan, tensors, wide)
    stored = {step.result.value: "float64" if wide else step.stored_as for step in plan.steps}
    slots = _OUTPUTS if layout.every_slot and not kernel and not case.request.forward else tuple(outputs)
    stored_as = where[-1] if kernel else None
    written += [
        files.write("golden", i, name, outputs[name], stored[name], stored_as) if name in outputs
        else files.nothing(i, name)
        for i, name in enumerate(slots)
    ]
    return {**entry, "directory": place.name, "compute": plan.operand, "files": written}


Input = tuple[str, Any, str]
"""Name, array, dtype."""


def _storages(row: dict[str, str]) -> list[Storage | None]:
    """What the files of a kit's row hold: a kernel's three inputs and its output, or an operator's inputs."""
    if not ttk_levels.is_kernel(row):
        return [None if given is None else Storage(*given) for given in ttk_cells.storages(row)]
    formats = ttk_levels.stored_formats(row)
    groups = ttk_cells.whole_at(ttk_cells.attributes(row), "groups", 1)
    if groups != 1 and any(name == FRACTAL for _, name in formats):
        raise UsageError(f"{FRACTAL} with {groups} groups packs several groups into a block; not modelled")
    return [None if name == "NCDHW" or len(shape) < 4 else Storage(shape, name) for shape, name in formats]


def _inputs(case: Case, tensors: Operands, layout: Layout, row: dict[str, str] | None) -> list[Input]:
    """The tensors a kit feeds in; a bias, of which only the shape counts, where the kit has a slot for it."""
    r = case.request
    arrays, specs = (tensors.grad_output, tensors.input, tensors.weight), (r.grad_output, r.input, r.weight)
    given = [
        (name, array, spec.dtype) for name, array, spec in zip(_INPUTS, arrays, specs, strict=True)
        if array is not None and spec is not None
    ]
    if layout.every_slot and r.bias is not None:
        given.append(("bias", rounding.store(r.bias.dtype, np.zeros(r.bias.shape)), r.bias.dtype))
    if row is not None and row.get("api_name", "").strip() == ttk_levels.END_TO_END:  # every tensor of the row
        shapes = ttk_levels.end_to_end_shapes(row)
        words = ttk_cells.per_slot(row, "tensor_dtypes", len(shapes))
        for shape, word in zip(shapes[3:], words[3:], strict=True):
            dtype = ttk_cells.dtype(word, "tensor_dtypes")
            given.append(("output", rounding.store(dtype, np.zeros(shape or ())), dtype))
    return given


def _kernel_inputs(case: Case, tensors: Operands, row: dict[str, str]) -> list[Input]:
    """A kernel's three inputs in its own order, the size tensor among them."""
    r = case.request
    place, dtype, sizes = ttk_levels.size_tensor(row, r)
    name, array, spec = ("weight", tensors.weight, r.weight) if place == 0 else ("input", tensors.input, r.input)
    assert spec is not None and r.grad_output is not None
    given = [(name, array, spec.dtype), ("grad_output", tensors.grad_output, r.grad_output.dtype)]
    given.insert(place, ("size", np.array(sizes, dtype), dtype))
    return given


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one case; each write is an entry of the manifest."""

    place: Path
    layout: Layout
    extension: str

    def write(
        self, role: str, number: int, tensor: str, array: Any, dtype: str, storage: Storage | None = None
    ) -> dict[str, Any]:
        if storage is not None:
            try:
                array = storage.stored(array)
            except (UsageError, ValueError) as error:
                raise UsageError(f"{self.place.name}, {role} {number}: {error}") from None
        name = self.layout.file_name(role, number, dtype, array.shape, self.extension)
        content = self.layout.as_bytes(array, dtype, self.extension)
        entry = self._written(name, content, tensor, dtype, list(array.shape))
        return entry if storage is None else {**entry, "storage": storage.as_dict()}

    def nothing(self, number: int, tensor: str) -> dict[str, Any]:
        """The slot of an output that is not wanted."""
        return self._written(f"golden_{number}_none.{self.extension}", b"", tensor, "none", None)

    def _written(self, name: str, content: bytes, tensor: str, dtype: str, shape: Any) -> dict[str, Any]:
        write_bytes(self.place / name, content)
        return _entry(name, content, tensor, dtype, shape)


def _entry(name: str, content: bytes, tensor: str, dtype: str, shape: Any) -> dict[str, Any]:
    return {
        "file": name, "tensor": tensor, "dtype": dtype, "shape": shape,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def write_all(
    directory: Path, cases: list[Case], run_seed: int = 0, extension: str = "npy", wide: bool = False,
    layout: Layout = layouts.OWN,
) -> Iterator[dict[str, Any]]:
    """Writes every enabled case, then the manifest and the checksums; entries as they are written."""
    directory.mkdir(parents=True, exist_ok=True)
    directory = directory.resolve()
    whole = layout.beside(directory, MANIFEST)
    if whole.exists():
        raise UsageError(f"{whole} exists: choose an empty directory")
    if layout.every_slot:
        _refuse_same_names(cases)
    # Sums are renamed first: a manifest means that everything is there.
    with output_file(whole) as manifest, output_file(layout.beside(directory, SUMS)) as checks:
        manifest.write(f'{{"convgrad_golden": {VERSION}, "seed": {run_seed}, "cases": ['.encode())
        first = True
        for index, case in enumerate(cases):
            if not case.enabled:
                continue
            entry = write_case(directory, index, case, run_seed, extension, wide, layout)
            manifest.write((("\n" if first else ",\n") + json.dumps(entry, ensure_ascii=False)).encode())
            for f in entry["files"]:
                checks.write(f"{f['sha256']}  {entry['directory']}/{f['file']}\n".encode())
            first = False
            yield entry
        manifest.write(b"\n]}\n")


def _refuse_same_names(cases: list[Case]) -> None:
    """A kit finds data by a case's name: of two that share it, the second would never be read."""
    seen: dict[str, int] = {}
    for i, case in enumerate(c for c in cases if c.enabled):
        name = layouts.kit_directory_name(case.name)
        if name in seen:
            raise UsageError(f"cases {seen[name]} and {i} are both named {case.name!r}: the kit finds data by name")
        seen[name] = i


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of a golden directory, or `None` where there is none."""
    path = layouts.manifest_of(directory)
    if not path.is_file():
        return None
    manifest = parse_json(str(path), text_of(path))
    if not isinstance(manifest, dict) or manifest.get("convgrad_golden") != VERSION:
        raise UsageError(f"{path}: is no manifest of golden data")
    return manifest
