"""Batch consistency as a test kit checks it: slices of results that share an id must have the same bytes.

A case tells, per output and tensor group, a `batch_seed`, and lists of equal length `batch_axis` and `batch_slice_info`
(start, stop, step). An id is made of seed, axis, length and step of every slice; where a slice starts does not enter,
so that a sample alone and the same sample inside a batch meet. Members of one id must agree; fields that are missing or
do not fit leave a case unsupported, and an id with one member says nothing.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convgrad.core.arrays import AnyArray
from convgrad.lab.cases import ttk_cells
from convgrad.lab.cases.case import Case
from convgrad.lab.cases.reading import Unreadable

_FIELDS = ("batch_seed", "batch_axis", "batch_slice_info")
PASS, FAIL, UNSUPPORTED = "pass", "fail", "unsupported"


@dataclass(frozen=True, slots=True)
class Slices:
    """What one output of a case shares with other cases."""

    identity: str
    cuts: tuple[tuple[int, int, int, int], ...]
    """Axis, start, stop, step of each slice."""

    def digest(self, array: AnyArray) -> str | None:
        """The MD5 of the slices' bytes; `None` where a slice does not fit the array."""
        found = hashlib.md5(usedforsecurity=False)
        for axis, start, stop, step in self.cuts:
            if not (0 <= axis < array.ndim and 0 <= start < stop <= array.shape[axis] and step > 0):
                return None
            index = (slice(None),) * axis + (slice(start, stop, step),)
            found.update(np.ascontiguousarray(array[index]).tobytes())
        return found.hexdigest()


def level(case: Case) -> int:
    """The determinism level a case asks for in its attributes; 0 where it asks for none."""
    row = case.kit.get("ttk")
    value = ttk_cells.attributes(row).get("batch_deterministic_level", 0) if isinstance(row, Mapping) else 0
    return value if isinstance(value, int) and 0 <= value <= 3 else 0


def slices_of(case: Case, output: int = 0) -> Slices | None:
    """The one group of an output that has slices; `None` where the fields are missing or do not fit each other."""
    row = case.kit.get("ttk")
    if not isinstance(row, Mapping):
        return None
    try:
        seeds, axes, infos = (list(ttk_cells.cell(row, name)[output]) for name in _FIELDS)
        active = [group for group in zip(seeds, axes, infos, strict=True) if group[0] is not None and group[1]]
        if len(active) != 1:
            return None
        seed, of_axis, cut = active[0]
        cuts = tuple((int(a), int(s[0]), int(s[1]), int(s[2])) for a, s in zip(of_axis, cut, strict=True))
        words = [f"{seed}_{a}_{len(range(start, stop, step))}_{step}" for a, start, stop, step in cuts]
    except (Unreadable, ValueError, TypeError, IndexError):
        return None
    return Slices(",".join(words), cuts)


def check(cases: Sequence[Case], results: Sequence[AnyArray | None]) -> dict[str, str]:
    """The verdict on every case by name, from the first output of each."""
    members: dict[str, list[tuple[str, str]]] = defaultdict(list)
    verdicts: dict[str, str] = {}
    for case, array in zip(cases, results, strict=True):
        found = slices_of(case)
        digest = None if found is None or array is None else found.digest(array)
        if found is None or digest is None:
            verdicts[case.name] = UNSUPPORTED
        else:
            members[found.identity].append((case.name, digest))
    for group in members.values():
        if len(group) > 1:
            word = PASS if len({digest for _, digest in group}) == 1 else FAIL
            verdicts |= {name: word for name, _ in group}
    return verdicts
