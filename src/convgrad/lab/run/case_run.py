"""One case from beginning to end: the contract's verdict, the gradients, their judgement, the time.

What comes out is a record: plain data, one line of the journal, everything a report shows.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from convgrad import engines
from convgrad.calls.decide import decide
from convgrad.core import standards
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan
from convgrad.core.standards import PassRule, Standard
from convgrad.core.status import Status
from convgrad.lab.cases.case import Case
from convgrad.lab.judging import bootstrap, findings, runs
from convgrad.lab.judging.anatomy import anatomy
from convgrad.lab.judging.judge import Judged
from convgrad.lab.run.timing import REPEATS, pytorch_seconds

PASS, FAIL, REFUSED, ERROR = "pass", "fail", "refused", "error"
OUTCOMES = (PASS, FAIL, REFUSED, ERROR)
Record = dict[str, Any]

_BYTES_PER_ELEMENT = 64
"""Float64 copies that live at the same time while a case is judged: operands, references, errors."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run applies to every case."""

    standards: tuple[str, ...] = standards.DEFAULT
    seed: int = 0
    anatomy: bool = True
    recheck: bool = True
    pytorch: bool = False
    threads: int | None = None
    most_bytes: int = 2**34
    """A case that would need more is not started."""

    @property
    def rows(self) -> tuple[Standard, ...]:
        return standards.find_all(self.standards)

    def said(self) -> dict[str, Any]:
        """As journals and reports tell them."""
        return {
            "standards": list(self.standards), "seed": self.seed, "anatomy": self.anatomy, "recheck": self.recheck,
            "pytorch": self.pytorch, "engine": engines.info().engine,
        }


def run_case(index: int, case: Case, settings: Settings) -> tuple[Record, runs.Results]:
    """The record of a case, and its results. Only running out of memory or a fault of ours raises."""
    request = case.request
    decision = decide(request)
    verdict = decision.verdict
    record = _blank(index, case, settings)
    record.update(
        outcome=PASS, status=int(verdict.status), rule=verdict.rule_id, message=verdict.message,
        advice=list(verdict.advice),
    )
    if case.expect is not None and int(verdict.status) != case.expect:
        got = f"{verdict.status.name} {int(verdict.status)}"
        why = verdict.message or "accepted"
        record.update(outcome=FAIL, message=f"expected status {case.expect}, got {got}: {why}")
        return record, {}
    if decision.plan is None:
        record["outcome"] = PASS if case.expect is not None else REFUSED
        return record, {}
    plan = decision.plan
    needed = _bytes_needed(plan)
    if needed > settings.most_bytes:
        text = f"needs about {needed / 2**30:.1f} GiB to judge; at most {settings.most_bytes / 2**30:.1f} GiB are used"
        record.update(outcome=ERROR, message=text)
        return record, {}
    seed = record["seed"]
    tensors = case.tensors(seed)
    results, seconds = runs.subject(plan, tensors, settings.threads)
    record.update(seconds=seconds, compute=plan.operand, multiply_adds=plan.problem.geometry.multiply_adds)
    found = judge_results(plan, tensors, results, settings)
    if settings.recheck:
        found = [_rechecked(f, plan, case, seed, settings) for f in found]
    record["results"] = [f.as_dict() for f in found]
    if not all(f.passed for f in found):
        record["outcome"] = FAIL
        record["message"] = first_failure(found)
    if settings.pytorch:
        theirs = pytorch_seconds(request, tensors, settings.threads or 1)
        if theirs is not None:  # both at their best of a few runs, after a first one
            again = (runs.subject(plan, tensors, settings.threads)[1] for _ in range(REPEATS))
            record.update(seconds=min(seconds, *again), pytorch_seconds=theirs)
    return record, results


def _bytes_needed(plan: Plan) -> int:
    r = plan.problem.request
    specs = (r.grad_output, r.input, r.weight, r.grad_input, r.grad_weight, r.grad_bias)
    return _BYTES_PER_ELEMENT * sum(prod(s.shape) for s in specs if s is not None)


def judge_results(
    plan: Plan, tensors: Operands, subject: runs.Results, settings: Settings
) -> list[findings.Findings]:
    """Every result of a run of ours against its float64 reference."""
    chosen = settings.rows
    exact = any(s.rule is PassRule.EXACT for s in chosen)
    golden = runs.golden(plan, tensors)
    partner = runs.partner(plan, tensors) if any(s.needs_partner for s in chosen) else {}
    parts = anatomy(plan, tensors, golden, subject, threads=settings.threads) if settings.anatomy else {}
    return [
        findings.find(
            step.result.value, runs.values_of(step, subject), golden[step.result], step.stored_as, chosen,
            resolution=runs.resolution_of(step), precision=runs.precision_of(plan, step),
            expected=runs.as_planned(step, golden[step.result]) if exact else None,
            partner=runs.values_of(step, partner) if partner else None, axes=runs.channel_first(plan, step.result),
            anatomy=parts.get(step.result),
        )
        for step in plan.steps
    ]


def first_failure(found: Sequence[findings.Findings]) -> str:
    """The first failed standard in words."""
    for f in found:
        for j in f.judged:
            if j.passed is False:
                return f"{f.name} fails {j.standard} ({j.date}, {j.precision}): {j.why}; {j.limits}"
    return ""


def _blank(index: int, case: Case, settings: Settings) -> Record:
    """What every record says before anything is known; the line is written once, it is the dearest part."""
    line, fill = str(case.request), case.fill_words
    seed = case.seed_for(settings.seed, line)
    again = f"convgrad run {shlex.quote(line)} --values {shlex.quote(fill)} --seed {seed}"
    return {
        "index": index, "name": case.name, "line": line, "key": case.fingerprint(line), "values": fill, "seed": seed,
        "product": case.request.product, "outcome": ERROR, "status": int(Status.RUNTIME_ERROR), "rule": "",
        "message": "", "advice": [], "results": [],
        "reproduce": f"{again} --standard {','.join(settings.standards)}",
    }


# ---- the re-check of a failed double benchmark -------------------------------------------------------------


_MOST_TO_DRAW_AGAIN = 10_000_000
"""Multiply-adds of a problem whose partner runs often enough in a minute or so."""


def _rechecked(
    f: findings.Findings, plan: Plan, case: Case, seed: int, settings: Settings
) -> findings.Findings:
    """A failed ratio is drawn again with other seeds; the bootstrap of the median ratio decides."""
    failed = [j for j in f.judged if j.passed is False and j.ratios]
    if not failed:
        return f
    if plan.problem.geometry.multiply_adds > _MOST_TO_DRAW_AGAIN:
        said = "; too large to draw again with other seeds"
        return replace(f, judged=tuple(replace(j, why=j.why + said) if j in failed else j for j in f.judged))
    by_ratio = list(zip(*(_ratios(f.name, plan, case, seed + 1 + i) for i in range(standards.RECHECK_SEEDS)),
                        strict=True))
    checks = [bootstrap.recheck(ratios, seed) for ratios in by_ratio]
    judged = []
    for j in f.judged:
        if j in failed:
            limits = standards.find(j.standard).limits(j.precision) or ()
            over = [c for c, r, limit in zip(checks, j.ratios, limits[:3], strict=True) if r > limit]
            judged.append(_settled(j, over))
        else:
            judged.append(j)
    return replace(f, judged=tuple(judged))


def _settled(j: Judged, over: Sequence[bootstrap.Recheck]) -> Judged:
    return replace(j, passed=all(c.passed for c in over), why="; re-check ".join([j.why, *map(str, over)]))


def _ratios(name: str, plan: Plan, case: Case, seed: int) -> tuple[float, ...]:
    """MARE, MERE, RMSE ratios of one result under another seed."""
    tensors = case.tensors(seed % 2**63)
    step = next(s for s in plan.steps if s.result.value == name)
    alone = replace(plan, steps=(step,), paths=())
    subject, _ = runs.subject(alone, tensors)
    row = next(s for s in standards.ALL if s.rule is PassRule.RATIOS)
    f = findings.find(
        name, runs.values_of(step, subject), runs.golden(alone, tensors)[step.result], step.stored_as, (row,),
        resolution=runs.resolution_of(step),
        partner=runs.values_of(step, runs.partner(alone, tensors)),
    )
    return f.judged[0].ratios or (np.inf,) * 3


def failed_record(index: int, case: Case, settings: Settings, reason: str) -> Record:
    """The record of a case that could not be finished."""
    return {**_blank(index, case, settings), "message": reason}


def guarded(index: int, case: Case, settings: Settings) -> tuple[Record, runs.Results]:
    """`run_case`, with every exception turned into the record of a failed case."""
    start = time.perf_counter()
    try:
        record, results = run_case(index, case, settings)
    except MemoryError:
        record, results = failed_record(index, case, settings, "not enough memory"), {}
    except Exception as error:
        record, results = failed_record(index, case, settings, f"{type(error).__name__}: {error}"), {}
    record["case_seconds"] = time.perf_counter() - start
    return record, results
