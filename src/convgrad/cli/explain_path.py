"""`convgrad explain LINE --path`: which way the 950's runtime goes for each gradient, and what Winograd costs."""

from __future__ import annotations

from dataclasses import replace

from convgrad.core import metrics
from convgrad.core.plan import Result
from convgrad.core.request import Request, read_revision
from convgrad.core.status import ConvGradError
from convgrad.functional import plan
from convgrad.lab.cases.case import Case
from convgrad.lab.judging import runs
from convgrad.rules import algorithms_950
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, folded, print_json, tell

_MOST_WORK = 2**31
"""Of 16 points times channels times tiles: more is not modelled here in seconds."""


def show(request: Request, revision_text: str | None, as_json: bool) -> int:
    """Prints the ways; a Winograd weight gradient with its errors beside the direct sum's."""
    try:
        if revision_text:
            request = replace(request, revision=read_revision("--revision", revision_text))
        revision = algorithms_950.revision_of(request)
        ways = algorithms_950.ways(request)
    except ConvGradError as error:
        raise UsageError(error.message) from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    errors = _errors(request) if any(w.path == "winograd" for w in ways) else None
    if as_json:
        print_json({
            "line": str(request), "revision": str(revision), "winograd_errors": errors,
            "ways": [
                {"result": w.result, "path": w.path, "inferred": w.inferred, "note": w.note,
                 "asked": {path: [{"step": a.step, "found": a.found, "holds": a.holds} for a in asked]
                           for path, asked in w.asked}} for w in ways
            ],
        })  # fmt: skip
        return ExitCode.PASS
    print(request)
    tell(f"  the host code of {revision}; sums are float32, the bits of a direct sum's order are not known", "  ")
    for way in ways:
        print(f"  {way.result:12} {way.path}{'  (' + say('inferred') + ')' if way.inferred else ''}")
        if way.note:
            tell(f"    {way.note}", "    ")
        for path, asked in way.asked:
            last = asked[-1]
            word = say("all hold") if last.holds else f"{say('no')}: {say(last.step)} ({say(str(last.found))})"
            print(folded(f"    {path:14} {len(asked):2} {say('asked')}, {word}", " " * 19))
    if errors is not None:
        said = ", ".join(f"{name} {value:.3g}" for name, value in errors.items())
        tell(f"  winograd on random numbers, its error over the engine's direct sum's: {said}", "  ")
    return ExitCode.PASS


def _errors(request: Request) -> dict[str, float] | None:
    """MERE, MARE and RMSE of the modelled Winograd over those of the engine, on normal numbers of seed 0."""
    made = plan(request)
    g = made.problem.geometry
    _, h, w = g.axes
    tiles = -(-h.coarse // 2) * -(-w.coarse // 2) * g.batch
    if 16 * g.fine_channels * g.coarse_channels * tiles > _MOST_WORK:
        return None
    tensors = Case("", request).tensors(0)
    direct = replace(made, ways=())
    exact = runs.golden(direct, tensors)[Result.GRAD_WEIGHT]
    sums, plain = (runs.subject(p, tensors)[0][Result.GRAD_WEIGHT] for p in (made, direct))
    found = metrics.measure(metrics.errors(sums, exact, "float32"))
    beside = metrics.measure(metrics.errors(plain, exact, "float32"))
    return {n.upper(): getattr(found, n) / max(getattr(beside, n), 1e-300) for n in ("mere", "mare", "rmse")}
