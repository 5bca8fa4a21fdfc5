"""The one sequence behind every call: check the rules, prove the problem, plan it, let the engine prepare it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from convgrad import engines
from convgrad.core.bounded import Bounded
from convgrad.core.plan import Plan, make_plan
from convgrad.core.problem import prove
from convgrad.core.request import Request
from convgrad.core.status import ConvGradError
from convgrad.rules import algorithms_950
from convgrad.rules.check import Verdict, check

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say to a request, and how it is computed if they accept it."""

    request: Request
    verdict: Verdict
    plan: Plan | None

    @property
    def computed_in(self) -> str:
        """The dtype operands are rounded to; empty when refused."""
        return self.plan.operand if self.plan else ""

    def accepted(self) -> Plan:
        """The plan; a refusal raises."""
        if self.plan is None:
            raise refusal(self.verdict)
        return self.plan


def decide(request: Request, compute: str | None = None) -> Decision:
    """The decision on a request; `compute` overrules the dtype operands are rounded to."""
    verdict = check(request)
    if not verdict.ok:
        _log.debug("%r", verdict)
        return Decision(request, verdict, None)
    advice = verdict.advice if compute is None else ()
    plan = make_plan(prove(request), advice, compute)
    if compute is None and algorithms_950.known(request) and not plan.problem.empty:
        plan = replace(plan, ways=algorithms_950.ways_of(plan.problem, algorithms_950.revision_of(request)))
    plan = engines.prepared(plan)
    _log.debug("%r by %s", plan, plan.paths)
    return Decision(request, verdict, plan)


_decisions: Bounded[Any, Decision] = Bounded(4096)
"""Decisions by what a door reads of a call: a training loop asks for the same few again and again."""


def decided_before(key: Any) -> Decision | None:
    """The decision kept under a key; none for a key without a hash (an array among the attributes)."""
    try:
        return _decisions.get(key)
    except MemoryError:
        raise
    except Exception:  # an object that cannot be hashed or compared
        return None


def keep(key: Any, decision: Decision) -> Decision:
    """Keeps a decision, if its key can be one."""
    try:
        return _decisions.keep(key, decision)
    except MemoryError:
        raise
    except Exception:
        return decision


def remembered(key: Any, request: Callable[[], Request], compute: str | None = None) -> Decision:
    """The decision on the request that `key` stands for, from memory when the same call was decided before."""
    return decided_before(key) or keep(key, decide(request(), compute))


def refusal(verdict: Verdict, layer: str = "") -> ConvGradError:
    """The error of a refused call."""
    message = f"{layer}: {verdict.message}" if layer else verdict.message
    return ConvGradError(
        message, status=verdict.status, rule=verdict.rule_id, value=verdict.value, line=verdict.line
    )
