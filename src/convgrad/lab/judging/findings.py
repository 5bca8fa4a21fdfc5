"""Everything there is to say about one result: metrics, verdicts, where the errors sit, where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np

from convgrad.core import dtypes, metrics, rounding, standards
from convgrad.core.arrays import AnyArray
from convgrad.core.metrics import Metrics
from convgrad.core.standards import Standard
from convgrad.lab.judging.anatomy import Anatomy
from convgrad.lab.judging.error_map import ErrorMap, error_map
from convgrad.lab.judging.judge import Judged, Measured, judge
from convgrad.text.fragment import entries, fragment

METRIC_NAMES = tuple(f.name for f in fields(Metrics))
_WORDS = {True: "pass", False: "fail", None: "not judged"}
Worst = tuple[tuple[int, ...], float, float, float]


@dataclass(frozen=True, slots=True, repr=False)
class Findings:
    """One result under test, judged."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    precision: str
    metrics: Metrics
    judged: tuple[Judged, ...]
    histogram: tuple[int, ...]
    """Counts per bin of `metrics.ULP_EDGES`."""
    worst: tuple[Worst, ...]
    """Index, result, reference, ULP of the elements furthest off."""
    map: ErrorMap | None
    anatomy: Anatomy | None = None

    @property
    def passed(self) -> bool:
        """No standard fails it."""
        return not any(j.passed is False for j in self.judged)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{j.standard} {_WORDS[j.passed]}" for j in self.judged)
        size = "x".join(map(str, self.shape))
        return f"<Findings {self.name} {size} {self.dtype}: {verdicts}; {self.metrics.max_ulp:.3g} ULP at most>"

    def _repr_html_(self) -> str:
        """What a notebook shows: each standard's verdict with the numbers, and the metrics."""
        word = "pass" if self.passed else "fail"
        size = "x".join(map(str, self.shape))
        head = f'<p><span class="badge {word}">{word}</span> <b>{escape(self.name)}</b> {size} {self.dtype}</p>'
        told = [(f"{j.standard}: {_WORDS[j.passed]}", [t for t in (j.why, j.limits) if t]) for j in self.judged]
        m = self.metrics
        numbers = ", ".join(f"{name} {getattr(m, name):.4g}" for name in METRIC_NAMES)
        return fragment(head, entries([*told, ("metrics", [numbers])]))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; thresholds follow from a standard's name and the precision."""
        m = self.metrics
        return {
            "name": self.name, "shape": list(self.shape), "dtype": self.dtype, "precision": self.precision,
            "passed": self.passed, "metrics": {name: getattr(m, name) for name in METRIC_NAMES},
            "judged": [
                {"standard": j.standard, "date": j.date, "passed": j.passed, "why": j.why, "used": j.used}
                for j in self.judged
            ],
            "histogram": list(self.histogram),
            "worst": [[list(index), a, g, ulp] for index, a, g, ulp in self.worst],
            "map": None if self.map is None else {
                "channels": self.map.channels, "plane": list(self.map.plane)
            },
            "anatomy": None if self.anatomy is None else dict(self.anatomy.parts),
        }


def find(
    name: str, actual: AnyArray, golden: AnyArray, dtype: str, chosen: Sequence[Standard], *,
    resolution: str | None = None, precision: str | None = None, expected: AnyArray | None = None,
    partner: AnyArray | None = None, axes: tuple[int, ...] | None = None, anatomy: Anatomy | None = None,
) -> Findings:
    """Judges the values of a result stored in `dtype` against its float64 reference.

    Errors are counted in ULP of `resolution` (by default `dtype`); `precision` is the standards' column.
    `expected` is the reference with the planned casts (by default rounded once to `dtype`), for `exact`.
    """
    unit = resolution or dtype
    used = dtypes.find(precision or dtype).name
    small = standards.find("small-values").limits(used)
    e = metrics.errors(actual, golden, unit)
    measured = metrics.measure(e, small)
    bits_equal = measured.max_ulp == 0 and not e.mismatches
    if any(s.rule is standards.PassRule.EXACT for s in chosen):
        bits_equal = same_bits(actual, rounding.round_to(unit, golden) if expected is None else expected)
    theirs = None if partner is None else metrics.errors(partner, golden, unit)
    other = None if theirs is None else metrics.measure(theirs, small)
    m = Measured(e, measured, bits_equal, other, theirs)
    shape = tuple(np.shape(golden))
    if axes is None:
        axes = (1, 0, *range(2, len(shape))) if len(shape) > 1 else tuple(range(len(shape)))
    return Findings(
        name, shape, dtypes.find(dtype).name, used, measured, tuple(judge(s, used, m) for s in chosen),
        metrics.ulp_histogram(e),
        tuple((tuple(int(i) for i in np.unravel_index(w[0], shape)), *w[1:]) for w in metrics.worst(e)),
        error_map(e, shape, axes) if shape else None, anatomy,
    )


def same_bits(actual: AnyArray, expected: AnyArray) -> bool:
    """Equal values, signs of zeros included; any NaN equals any NaN."""
    with np.errstate(invalid="ignore"):
        a, b = (np.asarray(v, np.float64).reshape(-1) for v in (actual, expected))
        equal = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return bool(equal.all())
