"""What a dump's calls are worth: each product's answer, gradients recomputed, errors attributed.

    cause             when
    accumulation      the result passes its standard, and is as far from the exact sums as an honest run is
    operand rounding  it passes, and is nearer to the sums of rounded operands than to those of the operands as given
    result rounding   it passes, and the last rounding is the largest part
    not explained     it fails the standard against operands rounded as the product's plan says
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convgrad.calls.decide import Decision, decide
from convgrad.calls.requests import Rules
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.operands import Operands
from convgrad.core.plan import Plan, Step
from convgrad.core.standards import Standard
from convgrad.core.tensor import Tensor
from convgrad.lab.cases.reading import Unreadable
from convgrad.lab.dumps.calls import RESULTS, Call, rebuild
from convgrad.lab.dumps.reading import Dump, DumpedTensor, Entry
from convgrad.lab.dumps.tool_table import ERROR, Differences, StatisticsRow, differences, statistics_row
from convgrad.lab.judging import runs
from convgrad.lab.judging.anatomy import Anatomy, anatomy, rms
from convgrad.lab.judging.findings import Findings, find

ACCEPTED, LOWERED, REFUSED = "accepted", "lowered", "refused"
STATISTICS_ONLY = "statistics only"
ONLY_THERE = "is in the other dump only"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a product says to a call."""

    product: str
    word: str
    computed_in: str
    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Gradient:
    """One gradient of a call: as dumped, as recomputed (or as the other dump has it), and judged."""

    name: str
    place: int
    tensor: DumpedTensor
    differences: Differences
    findings: Findings
    cause: str
    other: DumpedTensor | None = None
    """The other dump's tensor, where two are compared."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One call of a dump."""

    entry: Entry
    line: str
    answers: tuple[Answer, ...]
    gradients: tuple[Gradient, ...]
    remark: str
    """Why nothing was recomputed, or why the call could not be rebuilt."""
    statistics: tuple[StatisticsRow, ...] = ()
    """What two dumps say of its gradients where one holds no tensors."""
    unreadable: bool = False
    """Whether a tensor the dump names could not be read."""
    missing: bool = False
    """Whether the other dump lacks the call, or one of its gradients."""

    @property
    def passed(self) -> bool:
        if self.missing or any(row.result == ERROR for row in self.statistics):
            return False
        return all(g.findings.passed for g in self.gradients)


def in_unit(layer: Layer, unit: str) -> Layer:
    """The same call, its layer named with the unit: where several are told together."""
    return replace(layer, entry=replace(layer.entry, layer=f"{unit} {layer.entry.layer}"))


def rules_of(product: str, math: str | None) -> Rules:
    """A framework on the device allows HF32 for convolutions unless told otherwise; on `cpu` nothing is lowered."""
    return Rules(math if math is not None else "keep" if product == "cpu" else "allow_down", product)


def judge(
    dump: Dump, products: Sequence[str], math: str | None, chosen: Sequence[Standard], other: Dump | None = None
) -> list[Layer]:
    """Every call in order; gradients are recomputed on the first product, or taken from the other dump.

    Calls that only the other dump has come last.
    """
    partners = {} if other is None else {e.name: e for e in other.entries}
    layers = [_layer(dump, entry, products, math, chosen, other, partners.get(entry.name)) for entry in dump.entries]
    mine = {e.name for e in dump.entries}
    only = (e for name, e in partners.items() if name not in mine and e.backward_input is not None)
    return [*layers, *(Layer(e, "", (), (), ONLY_THERE, missing=True) for e in only)]


def _layer(
    dump: Dump, entry: Entry, products: Sequence[str], math: str | None, chosen: Sequence[Standard],
    other: Dump | None, partner: Entry | None,
) -> Layer:
    try:
        call = rebuild(entry)
        decisions = [decide(call.request(rules_of(p, math))) for p in products]
    except Unreadable as error:
        return Layer(entry, "", (), (), error.reason)
    answers = tuple(_answer(call, d) for d in decisions)
    line = str(decisions[0].request)
    try:
        if other is not None:
            theirs = _partner(call, partner)
            if not (_holds_tensors(call) and _holds_tensors(theirs)):
                rows = tuple(_statistics(call, theirs))
                return Layer(entry, line, answers, (), STATISTICS_ONLY, rows)
            gradients = _compared(dump, call, other, theirs, chosen)
        elif decisions[0].plan is None:
            return Layer(entry, line, answers, (), f"refused on {products[0]}: not recomputed")
        else:
            gradients = _recomputed(dump, call, decisions[0].plan, chosen)
    except _Missing as error:
        return Layer(entry, line, answers, (), error.reason, missing=True)
    except Unreadable as error:
        only = STATISTICS_ONLY in error.reason
        return Layer(entry, line, answers, (), STATISTICS_ONLY if only else str(error), unreadable=not only)
    return Layer(entry, line, answers, tuple(gradients), "")


def _answer(call: Call, decision: Decision) -> Answer:
    v = decision.verdict
    if decision.plan is None:
        return Answer(decision.request.product, REFUSED, "", v.rule_id, v.message)
    wide = dtypes.find(call.input.dtype).significant_bits
    lowered = dtypes.find(decision.plan.operand).significant_bits < wide
    return Answer(decision.request.product, LOWERED if lowered else ACCEPTED, decision.plan.operand, "", "")


def _batched(tensor: Tensor, rank: int) -> AnyArray:
    return tensor.data if tensor.ndim == rank else tensor.data[None]


def _recomputed(dump: Dump, call: Call, plan: Plan, chosen: Sequence[Standard]) -> list[Gradient]:
    rank = len(call.weight.shape)
    operands = Operands(*(_batched(dump.load(t), rank) for t in (call.grad_output, call.input, call.weight)))
    theirs: runs.Results = {}
    held = {}
    for step in plan.steps:
        place = RESULTS.index(step.result.value)
        tensor = call.results[place]
        assert tensor is not None  # the mask is made of these
        values = dump.load(tensor).values()
        spec = runs.spec_of(plan, step.result)
        if values.size != np.prod(spec.shape, dtype=object):
            raise Unreadable(call.entry.name, f"{RESULTS[place]} has shape {values.shape}, not {spec.shape}")
        held[step.result] = (place, tensor)
        theirs[step.result] = values.reshape(spec.shape)
    sums = runs.golden(plan, operands)
    exact = runs.unrounded(plan, operands) if runs.rounds_operands(plan) else sums
    ours, _ = runs.subject(plan, operands)
    parts = anatomy(plan, operands, sums, ours, foreign=theirs)
    made = []
    for step in plan.steps:
        place, tensor = held[step.result]
        found = _found(plan, step, theirs[step.result], sums[step.result], chosen, parts[step.result])
        mine = rounding.load(step.stored_as, ours[step.result])
        cause = _cause(found, parts[step.result], theirs[step.result], sums[step.result], exact[step.result])
        apart = differences(theirs[step.result], mine)
        made.append(Gradient(RESULTS[place], place, tensor, apart, found, cause))
    return made


def _found(
    plan: Plan, step: Step, theirs: AnyArray, sums: AnyArray, chosen: Sequence[Standard], parts: Anatomy
) -> Findings:
    return find(
        step.result.value, theirs, sums, step.stored_as, chosen, resolution=runs.resolution_of(step),
        precision=runs.precision_of(plan, step), expected=runs.as_planned(step, sums),
        axes=runs.channel_first(plan, step.result), anatomy=parts,
    )


def _cause(found: Findings, parts: Anatomy, theirs: AnyArray, sums: AnyArray, exact: AnyArray) -> str:
    if not found.passed:
        return "not explained"
    noise = max(parts.accumulation, parts.result_rounding)
    wide = np.asarray(theirs, np.float64)
    if parts.operand_rounding > 2 * noise and rms(wide - sums) < rms(wide - exact):
        return "operand rounding"
    return "result rounding" if parts.result_rounding > parts.accumulation else "accumulation"


class _Missing(Unreadable):
    """The other dump has no such call, or not the same gradients of it."""


def _partner(call: Call, partner: Entry | None) -> Call:
    """The same call in the other dump."""
    if partner is None:
        raise _Missing(call.entry.name, "is not in the other dump")
    theirs = rebuild(partner)
    for name, mine, reference in zip(RESULTS, call.results, theirs.results, strict=True):
        if (mine is None) != (reference is None):
            raise _Missing(call.entry.name, f"{name} is in one dump only")
    return theirs


def _holds_tensors(call: Call) -> bool:
    return any(t is not None and t.name for t in call.results)


def _statistics(call: Call, theirs: Call) -> Iterator[StatisticsRow]:
    """The gradients of two dumps, one of which holds no tensors, by their four numbers or their checksums."""
    inputs = [(call.grad_output, theirs.grad_output), (call.input, theirs.input), (call.weight, theirs.weight)]
    for place, (mine, reference) in enumerate(zip(call.results, theirs.results, strict=True)):
        if mine is not None and reference is not None:
            yield statistics_row(RESULTS[place], place, mine, reference, inputs)


def _compared(dump: Dump, call: Call, other: Dump, theirs: Call, chosen: Sequence[Standard]) -> list[Gradient]:
    """The gradients of two dumps side by side."""
    made = []
    for place, (mine, reference) in enumerate(zip(call.results, theirs.results, strict=True)):
        if mine is None or reference is None:
            continue
        a, g = dump.load(mine).values(), other.load(reference).values()
        if a.shape != g.shape:
            raise Unreadable(call.entry.name, f"{RESULTS[place]} has shape {a.shape}, in the other dump {g.shape}")
        found = find(RESULTS[place], a, g, mine.dtype, chosen)
        made.append(Gradient(RESULTS[place], place, mine, differences(a, g), found, "", reference))
    return made


def summary(layers: Sequence[Layer]) -> dict[str, Any]:
    """Counts: calls, per product and answer, gradients that pass and fail, causes."""
    answers: dict[str, dict[str, int]] = {}
    causes: dict[str, int] = {}
    gradients = [g for layer in layers for g in layer.gradients]
    for layer in layers:
        for answer in layer.answers:
            counts = answers.setdefault(answer.product, {ACCEPTED: 0, LOWERED: 0, REFUSED: 0})
            counts[answer.word] += 1
    for g in gradients:
        causes[g.cause] = causes.get(g.cause, 0) + 1
    return {
        "calls": len(layers), "answers": answers, "gradients": len(gradients),
        "passed": sum(g.findings.passed for g in gradients), "causes": causes,
    }


def as_dict(layer: Layer) -> dict[str, Any]:
    """Plain data, for JSON."""
    return {
        "entry": layer.entry.name, "layer": layer.entry.layer, "line": layer.line, "remark": layer.remark,
        "answers": [
            {"product": a.product, "answer": a.word, "computed_in": a.computed_in, "rule": a.rule, "message": a.message}
            for a in layer.answers
        ],
        "gradients": [{**g.findings.as_dict(), "cause": g.cause} for g in layer.gradients],
        "statistics": [
            {"name": row.name, "result": row.result, "message": list(row.message)} for row in layer.statistics
        ],
    }
