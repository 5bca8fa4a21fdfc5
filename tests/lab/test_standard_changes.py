"""Which verdicts changed with the standards' new rows: the old rules, written here, beside the new ones on one set."""

import numpy as np
import pytest

from convgrad.calls.decide import decide
from convgrad.core import metrics, standards
from convgrad.engines import library
from convgrad.lab.cases.case import make
from convgrad.lab.judging import runs
from convgrad.lab.judging.judge import Measured, judge

CHANGED = ("mixed", "dual-1000", "double-benchmark:L0", "double-benchmark:L1", "double-benchmark:L2")


def measured():
    """Every result of the set: its filling, dtype, precision and errors, our partner's beside them."""
    for filling, words in standards.CHANGES_FILLINGS.items():
        for dtype in standards.CHANGES_DTYPES:
            for seed, line in enumerate(standards.CHANGES_LINES):
                case = make(line, f"{line} {dtype} on=A2", words, 100 + seed)
                plan = decide(case.request).accepted()
                tensors = case.tensors(case.seed)
                ours, golden, partner = (
                    runs.subject(plan, tensors)[0], runs.golden(plan, tensors), runs.partner(plan, tensors)
                )
                for step in plan.steps:
                    precision = runs.precision_of(plan, step)
                    small = standards.find("small-values").limits(precision)
                    e, p = (
                        metrics.errors(runs.values_of(step, r), golden[step.result], runs.resolution_of(step))
                        for r in (ours, partner)
                    )
                    m = Measured(e, metrics.measure(e, small), False, metrics.measure(p, small), p)
                    yield filling, dtype, precision, m


def old_verdict(name, precision, m):
    """The rule a row had: 32 ULP at g; a floor under rel; plain ratios over all elements."""
    if name == "mixed":
        return judge(standards.find("mixed-elementwise"), precision, m).passed
    limits = standards.find(name).limits(precision)
    if limits is None:
        return None
    if name == "dual-1000":
        return not m.errors.size.size or np.mean(m.errors.rel <= 1e-3) > 0.999
    ours, theirs = ((x.mare, x.mere, x.rmse) for x in (m.metrics, m.partner_metrics))
    found = [1.0 if a == p else np.inf if p == 0 else a / p for a, p in zip(ours, theirs, strict=True)]
    return all(r <= limit for r, limit in zip(found, limits[:3], strict=True))


@pytest.mark.skipif(not library.isa().startswith("avx"), reason="recorded with AVX2 and AVX-512, which have one's bits")
def test_the_page_tells_every_verdict_that_changed():
    """Counts of results that passed before and pass now, by standard, values and dtype: those of the page."""
    counts = {}
    for filling, dtype, precision, m in measured():
        for name in CHANGED:
            now = judge(standards.find(name), precision, m).passed
            if now is not None:
                of = counts.setdefault((name, filling, dtype), [0, 0, 0])
                of[0] += 1
                of[1] += bool(old_verdict(name, precision, m))
                of[2] += now
    changed = [(*key, *of) for key, of in counts.items() if of[1] != of[2]]
    assert sorted(changed) == sorted(standards.CHANGED_VERDICTS)
    assert sum(of[0] for of in counts.values()) == standards.CHANGES_JUDGED
