"""Errors against the thresholds of a standard's row: one function per pass rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convgrad.core import standards
from convgrad.core.arrays import AnyArray
from convgrad.core.metrics import Errors, Metrics
from convgrad.core.standards import PassRule, Standard


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of one standard on one result."""

    standard: str
    date: str
    precision: str
    passed: bool | None
    """`None`: the standard says nothing about this precision, or lacks a partner."""
    why: str
    """The numbers found."""
    limits: str
    """The pass rule with its thresholds."""
    ratios: tuple[float, ...] = ()
    """MARE, MERE, RMSE over the partner's, for a double benchmark."""
    used: float | None = None
    """The standard's own margin: found over allowed, of the nearest limit; above 1 fails; `None` where it has none."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What judging needs: errors, their metrics, whether the bits are those of the rounded reference, the partner."""

    errors: Errors
    metrics: Metrics
    bits_equal: bool
    partner_metrics: Metrics | None = None
    partner: Errors | None = None


Finding = tuple[bool, str, tuple[float, ...]]


def judge(standard: Standard, precision: str, m: Measured) -> Judged:
    """The verdict of `standard` on a result of this precision."""
    other = dict(standard.deferred).get(precision)
    row = standards.find(other) if other else standard
    limits = row.limits(precision)
    said = row.says(precision)
    if limits is None:
        return Judged(standard.name, standard.date, precision, None, said, said)
    if _special_values_fail(row, m):
        return Judged(standard.name, standard.date, precision, False, _mismatches(m.errors), said)
    if row.needs_partner and m.partner_metrics is None:
        return Judged(standard.name, standard.date, precision, None, "no partner run to compare with", said)
    passed, why, ratios = _JUDGES[row.rule](m, limits)
    margin = _USED.get(row.rule)
    used = None if margin is None else float(margin(m, limits, ratios))
    return Judged(standard.name, standard.date, precision, passed, why, said, ratios, used)


def _mismatches(e: Errors) -> str:
    if not e.mismatches:
        return "infinities or NaNs of the result and the partner differ"
    why = f"{e.inf_mismatches} infinities and {e.nan_mismatches} NaNs do not match"
    return why + (f", first at element {e.first_mismatches[0]}" if e.first_mismatches else "")


def _special_values_fail(row: Standard, m: Measured) -> bool:
    """Whether an infinity or NaN is where none may be.

    A double benchmark takes a special value that is the partner's, and none that the partner alone has.
    """
    if row.rule not in (PassRule.RATIOS, PassRule.CROSS_CHECK) or m.partner is None:
        return m.errors.mismatches > 0
    (a, g), (p, _) = m.errors.whole, m.partner.whole
    if not m.errors.mismatches and np.isfinite(p).all():
        return False
    with np.errstate(invalid="ignore"):
        special = ~(np.isfinite(a) & np.isfinite(p) & np.isfinite(g))
        same = (a == p) | (np.isnan(a) & np.isnan(p))
        right = ~np.isfinite(g) & ((a == g) | (np.isnan(a) & np.isnan(g)))
    return not bool((same | right)[special].all())


def _share(hits: int, total: int) -> float:
    return hits / total if total else 1.0


def _mean_and_max(m: Measured, limits: tuple[float, ...]) -> Finding:
    (t,) = limits
    ok = m.metrics.mere < t and m.metrics.mare < standards.MARE_FACTOR * t
    return ok, f"MERE {m.metrics.mere:.3g}, MARE {m.metrics.mare:.3g}", ()


def _right_special(e: Errors) -> int:
    """Infinities and NaNs that are where the reference has them: elements within any tolerance."""
    return e.count - e.size.size - e.mismatches


def _within(e: Errors, rtol: float, atol: float) -> int:
    return int((e.size <= atol + rtol * e.golden_size).sum()) + _right_special(e)


def _mixed(m: Measured, limits: tuple[float, ...]) -> Finding:
    rtol, atol, limit = limits
    share = _share(_within(m.errors, rtol, atol), m.errors.count)
    far = int((m.errors.size > limit).sum())
    why = f"{_percent(share)} within tolerance, max abs error {m.metrics.max_abs:.3g} ({m.metrics.max_ulp:.3g} ULP)"
    return share >= standards.MIXED_SHARE and far == 0, why + (f", {far} beyond the limit" if far else ""), ()


def _most_ulps(e: Errors, ulp_at_one: float) -> AnyArray:
    """32 ULP at each g, in the precision judged by: HF32 results are float32 numbers of more bits."""
    most: AnyArray = standards.MIXED_ULPS * e.quantum * (ulp_at_one / e.dtype.eps)
    return most


def _mixed_elementwise(m: Measured, limits: tuple[float, ...]) -> Finding:
    rtol, atol, cap, ulp_at_one = limits
    e = m.errors
    share = _share(_within(e, rtol, atol), e.count)
    beyond = (e.size > cap) & (e.size > _most_ulps(e, ulp_at_one))
    far = int(beyond.sum())
    why = f"{_percent(share)} within tolerance, max abs error {m.metrics.max_abs:.3g} ({m.metrics.max_ulp:.3g} ULP)"
    return share >= standards.MIXED_SHARE and far == 0, why + (f", {far} beyond the cap" if far else ""), ()


def _close(m: Measured, limits: tuple[float, ...]) -> Finding:
    rtol, allowed, atol = limits
    total = m.errors.count
    failing = total - _within(m.errors, rtol, atol)
    share = failing / total if total else 0.0
    return share <= allowed, f"{failing} of {total} elements beyond tolerance ({share:.3g})", ()


def _within_one_code(e: Errors) -> int:
    return int((e.code_distance <= 1).sum()) + _right_special(e)


def _requant(m: Measured, limits: tuple[float, ...]) -> Finding:
    share = _share(_within_one_code(m.errors), m.errors.count)
    return share >= standards.REQUANT_SHARE, f"{_percent(share)} within one code", ()


def ratio(error: float, partner: float, least: float) -> float:
    """Error over the partner's, which counts as at least `least`; two exact results are equally good."""
    if error == partner:  # also two infinities
        return 1.0 if error == 0 or np.isinf(error) else error / max(partner, least)
    return error / max(partner, least)


def _ratios(m: Measured, limits: tuple[float, ...]) -> Finding:
    assert m.partner is not None
    *most, small = limits
    ours, theirs = (_large_part(e, m, small) for e in (m.errors, m.partner))
    found = tuple(ratio(a, p, small) for a, p in zip(ours, theirs, strict=True))
    ok = all(r <= limit for r, limit in zip(found, most, strict=True))
    return ok, "ratios MARE {:.3g}, MERE {:.3g}, RMSE {:.3g}".format(*found), found


def _large_part(e: Errors, m: Measured, small: float) -> tuple[float, float, float]:
    """MARE, MERE, RMSE over the elements whose reference is not small and finite with both results."""
    assert m.partner is not None
    (a, g), (p, _) = m.errors.whole, m.partner.whole
    of = e.whole[0]
    with np.errstate(all="ignore"):
        chosen = (np.abs(g) >= small) & np.isfinite(g) & np.isfinite(a) & np.isfinite(p)
        size, reference = np.abs(of[chosen] - g[chosen]), np.abs(g[chosen])
        rel = size / (reference + standards.REL_FLOOR)
        if not size.size:
            return 0.0, 0.0, 0.0
        return float(rel.max()), float(rel.mean()), float(np.sqrt(np.mean(np.square(size))))


def _few(ours: int, theirs: int) -> bool:
    return ours <= standards.SMALL_VALUE_RATIO * max(theirs, 1)


def _cross_check(m: Measured, limits: tuple[float, ...]) -> Finding:
    """Both parts; a partner without a finite element judges no ratios."""
    assert m.partner is not None
    *ratio_limits, error = limits
    small = ratio_limits[-1]
    ok, why, _ = _ratios(m, tuple(ratio_limits))
    if not np.isfinite(m.partner.whole[0]).any():
        ok, why = True, "the partner is not finite anywhere"
    ours, theirs = (int(((e.golden_size < small) & (e.size > error)).sum()) for e in (m.errors, m.partner))
    return ok and _few(ours, theirs), f"{why}; {ours} small values off, the partner has {theirs}", ()


def _normal_and_small(m: Measured, limits: tuple[float, ...]) -> Finding:
    assert m.partner is not None
    *most, small, error, least = limits
    found = [
        _over(a, p, least) for a, p in zip(*(_parts(e, small, error) for e in (m.errors, m.partner)), strict=True)
    ]
    ok = all(not r > limit for r, limit in zip(found, most, strict=True))
    return ok, "ratios max rel {:.3g}, mean rel {:.3g}, RMSE {:.3g}, small errors {:.3g}".format(*found), ()


def _over(error: float, partner: float, least: float) -> float:
    """Error over the partner's, which counts as at least `least`; 0/0 never arises, infinities of both pass as NaN."""
    with np.errstate(all="ignore"):
        return float(np.float64(error) / max(partner, least))


def _parts(e: Errors, small: float, error: float) -> tuple[float, float, float, float]:
    """Max rel, mean rel and RMSE of the elements whose reference is not small; of the others the share that is off."""
    normal = e.golden_size > small
    size, count = e.size[normal], e.size.size - int(normal.sum())
    off = int((e.size[~normal] > error).sum()) / count if count else 0.0
    if not size.size:
        return 0.0, 0.0, 0.0, off
    with np.errstate(over="ignore"):
        rel = size / (e.golden_size[normal] + e.dtype.eps)
        return float(rel.max()), float(rel.mean()), float(np.sqrt(np.mean(np.square(size)))), off


def _three_parts(m: Measured, limits: tuple[float, ...]) -> Finding:
    assert m.partner is not None
    t, s, error, b = limits

    def counts(e: Errors) -> tuple[int, int, int]:
        low = e.golden_size < s
        cancelled = ~low & (e.golden_size < b) & (np.abs(e.actual) < b)
        off = e.size > error
        return int((off & low).sum()), int((off & cancelled).sum()), int((~low & ~cancelled & (e.rel >= t)).sum())

    ours, theirs = counts(m.errors), counts(m.partner)
    e = m.errors
    rest = ~((e.golden_size < s) | ((e.golden_size < b) & (np.abs(e.actual) < b)))
    rel = e.rel[rest]
    mere, mare = (float(rel.mean()), float(rel.max())) if rel.size else (0.0, 0.0)
    few = [_few(a, p) for a, p in zip(ours[:2], theirs[:2], strict=True)]
    normal = (mere < t and mare < standards.MARE_FACTOR * t) or ours[2] <= standards.SMALL_VALUE_RATIO * theirs[2]
    why = f"MERE {mere:.3g}, MARE {mare:.3g}; off, small {ours[0]} of {theirs[0]}, cancelled {ours[1]} of {theirs[1]}"
    return normal and all(few), why, ()


def _small_values(m: Measured, limits: tuple[float, ...]) -> Finding:
    assert m.partner_metrics is not None
    ours, theirs = m.metrics.small_value_errors, m.partner_metrics.small_value_errors
    return _few(ours, theirs), f"{ours} small values off, the partner has {theirs}", ()


def _least_share(m: Measured, limits: tuple[float, ...]) -> Finding:
    limit, least = limits
    e = m.errors
    share = _share(int(((e.size < limit * e.golden_size) | (e.size == 0)).sum()), e.size.size)
    return share > least, f"{_percent(share)} with rel < {limit:g}", ()


def _cosine(m: Measured, limits: tuple[float, ...]) -> Finding:
    zero = m.errors.size.size > 0 and not (m.errors.actual.any() and m.errors.golden.any())
    off = 1.0 - m.metrics.cosine
    return not zero and off <= limits[0], "a zero vector has no direction" if zero else f"1 - cosine {off:.3g}", ()


def _quant(m: Measured, limits: tuple[float, ...]) -> Finding:
    far = int((m.errors.size > limits[0]).sum())
    return far == 0, f"{far} of {m.errors.size.size} elements more than {limits[0]:g} off", ()


def _far_in_ulp(e: Errors, most: float) -> tuple[float, float]:
    """Share of elements beyond so many ULP, and the mean; at a reference of zero an ULP is that at 1."""
    if not e.size.size:
        return 0.0, 0.0
    ulp = e.size / np.where(e.golden == 0, e.dtype.eps, e.quantum)
    return float((ulp > most).mean()), float(ulp.mean())


def _ulp(m: Measured, limits: tuple[float, ...]) -> Finding:
    most, allowed, mean, beside = limits
    share, found = _far_in_ulp(m.errors, most)
    ok = share < allowed or found < mean
    if not ok and m.partner is not None:
        ok = share < beside * _far_in_ulp(m.partner, most)[0]
    return ok, f"{_percent(share)} beyond {most:g} ULP, mean {found:.3g} ULP", ()


def _absolute(m: Measured, limits: tuple[float, ...]) -> Finding:
    rtol, small, error = limits
    e = m.errors
    most = np.where(e.golden_size > small, rtol * e.golden_size, error)
    far = int((e.size > most).sum())
    return far == 0, f"{far} of {e.size.size} elements beyond the threshold", ()


def _every(m: Measured, limits: tuple[float, ...]) -> Finding:
    rtol, atol = limits
    total = m.errors.count
    failing = total - _within(m.errors, rtol, atol)
    return failing == 0, f"{failing} of {total} elements beyond tolerance", ()


def _exact(m: Measured, limits: tuple[float, ...]) -> Finding:
    return m.bits_equal, "every bit equal" if m.bits_equal else f"max {m.metrics.max_ulp:.3g} ULP off", ()


def _outside(m: Measured, rtol: float, atol: float, least: float) -> float:
    """The share of elements beyond a tolerance over the share that may be."""
    return (1 - _share(_within(m.errors, rtol, atol), m.errors.count)) / (1 - least)


def _largest(values: AnyArray) -> float:
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(values, nan=0.0).max(initial=0.0))


def _elementwise(m: Measured, limits: tuple[float, ...], _: tuple[float, ...]) -> float:
    rtol, atol, cap, ulp_at_one = limits
    far = _largest(np.minimum(m.errors.size / cap, m.errors.size / _most_ulps(m.errors, ulp_at_one)))
    return max(_outside(m, rtol, atol, standards.MIXED_SHARE), far)


def _ulp_used(m: Measured, limits: tuple[float, ...], _: tuple[float, ...]) -> float:
    most, allowed, mean, _beside = limits
    share, found = _far_in_ulp(m.errors, most)
    return min(share / allowed, found / mean if mean else np.inf)


def _absolute_used(m: Measured, limits: tuple[float, ...], _: tuple[float, ...]) -> float:
    rtol, small, error = limits
    return _largest(m.errors.size / np.where(m.errors.golden_size > small, rtol * m.errors.golden_size, error))


Used = Callable[[Measured, tuple[float, ...], tuple[float, ...]], float]
_USED: dict[PassRule, Used] = {
    PassRule.MEAN_AND_MAX: lambda m, t, _: max(m.metrics.mere / t[0], m.metrics.mare / (standards.MARE_FACTOR * t[0])),
    PassRule.MIXED: lambda m, t, _: max(_outside(m, t[0], t[1], standards.MIXED_SHARE), m.metrics.max_abs / t[2]),
    PassRule.MIXED_ELEMENTWISE: _elementwise,
    PassRule.CLOSE: lambda m, t, _: _outside(m, t[0], t[2], 1 - t[1]),
    PassRule.REQUANT: lambda m, t, _: (
        (1 - _share(_within_one_code(m.errors), m.errors.count)) / (1 - standards.REQUANT_SHARE)),
    PassRule.RATIOS: lambda m, t, ratios: max(r / limit for r, limit in zip(ratios, t[:-1], strict=True)),
    PassRule.SMALL_VALUES: lambda m, t, _: m.metrics.small_value_errors / (
        standards.SMALL_VALUE_RATIO * max(m.partner_metrics.small_value_errors if m.partner_metrics else 0, 1)),
    PassRule.SHARE: lambda m, t, _: (
        1 - _share(int(((m.errors.size < t[0] * m.errors.golden_size) | (m.errors.size == 0)).sum()),
                   m.errors.size.size)) / (1 - t[1]),
    PassRule.COSINE: lambda m, t, _: (1 - m.metrics.cosine) / t[0],
    PassRule.QUANT: lambda m, t, _: m.metrics.max_abs / t[0],
    PassRule.ULP: _ulp_used,
    PassRule.ABSOLUTE: _absolute_used,
    PassRule.EVERY: lambda m, t, _: _largest(m.errors.size / (t[1] + t[0] * m.errors.golden_size)),
    PassRule.EXACT: lambda m, t, _: 0.0 if m.bits_equal else np.inf,
}  # fmt: skip
"""By pass rule: what the number found is of the limit, the largest where there are several; rules of several counts
beside a partner's have no such number."""


def _percent(share: float) -> str:
    """A share that never rounds up to 100 % unless it is."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    return f"{min(np.floor(share * 1e5) / 1e3, 99.999):.3f} %"


_JUDGES: dict[PassRule, Callable[[Measured, tuple[float, ...]], Finding]] = {
    PassRule.MEAN_AND_MAX: _mean_and_max,
    PassRule.MIXED: _mixed,
    PassRule.MIXED_ELEMENTWISE: _mixed_elementwise,
    PassRule.COSINE: _cosine,
    PassRule.QUANT: _quant,
    PassRule.ULP: _ulp,
    PassRule.ABSOLUTE: _absolute,
    PassRule.CLOSE: _close,
    PassRule.REQUANT: _requant,
    PassRule.RATIOS: _ratios,
    PassRule.SMALL_VALUES: _small_values,
    PassRule.CROSS_CHECK: _cross_check,
    PassRule.NORMAL_AND_SMALL: _normal_and_small,
    PassRule.THREE_PARTS: _three_parts,
    PassRule.SHARE: _least_share,
    PassRule.EVERY: _every,
    PassRule.EXACT: _exact,
}
