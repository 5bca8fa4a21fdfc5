"""The reference engine: plain NumPy, slow, exact — the definition of right.

Each result is written from the law itself, never through another gradient. With one tap k fixed, the law ties
a run of coarse cells o to a strided run of fine cells i = o*stride - pad_low + k*dilation, so per tap

    dT/dfine  [b, f, i] += sum over c     of weight[c, f, k] * coarse[b, c, o]
    dT/dcoarse[b, c, o] += sum over f     of weight[c, f, k] * fine  [b, f, i]
    dT/dweight[c, f, k]  = sum over b, o  of fine[b, f, i]   * coarse[b, c, o]

Padding has no cells, so it contributes nothing: a NaN reaches exactly the results the law ties it to.

A weight gradient that the 950 sums by Winograd goes the same way here in float64, for its NaN law is another; chained
sums are direct, for they are what its error is held against.

Two accumulations. FLOAT64 (the default, for golden data): products and sums in float64, one rounding at the end.
FLOAT32 (`chained=True`): one product is added at a time and the sum is rounded to float32 after each. The order is
taps (d, h, w), then channels ascending, for data results; batch, then coarse positions (d, h, w), for weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, cast

import numpy as np

from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.geometry import Contraction, Geometry
from convgrad.core.plan import Plan, Result, bias_is_zero
from convgrad.core.problem import AxisOrder
from convgrad.engines import winograd_950


def run(
    plan: Plan, fine: AnyArray | None, coarse: AnyArray | None, weight: AnyArray | None,
    results: Mapping[Result, AnyArray], *, chained: bool = False,
) -> None:
    """Computes every step of `plan` into `results`; arrays are in the caller's own axes and storage dtypes."""
    problem = plan.problem
    g = problem.geometry
    r = problem.request
    specs = (r.grad_output, r.input) if problem.transposed else (r.input, r.grad_output)
    stored = {"fine": (fine, specs[0]), "coarse": (coarse, specs[1]), "weight": (weight, r.weight)}
    operands: dict[str, AnyArray] = {}
    for name, (array, spec) in stored.items():
        if array is not None and spec is not None:
            values = rounding.load(dtypes.find(spec.dtype), array)
            order = problem.weight_order if name == "weight" else problem.data_order
            operands[name] = canonical(rounding.round_to(dtypes.find(plan.operand), values), order)
    for step in plan.steps:
        if problem.empty and (step.result is not Result.GRAD_BIAS or bias_is_zero(problem)):
            results[step.result][...] = 0
            continue
        if step.result is Result.GRAD_BIAS:
            total = _bias(plan, fine if problem.transposed else coarse)
        elif step.contraction is Contraction.TO_FINE:
            total = to_fine(g, operands["coarse"], operands["weight"], chained)
        elif step.contraction is Contraction.TO_COARSE:
            total = to_coarse(g, operands["fine"], operands["weight"], chained)
        elif plan.winograd and not chained:
            _, h, w = g.axes
            flat = [operands[name][:, :, 0].astype(np.float64) for name in ("fine", "coarse")]
            taps = winograd_950.grad_weight(flat[0], flat[1], (h.pad_low, w.pad_low), winograd_950.by_numpy)
            total = taps[:, :, None]
        else:
            total = to_weight(g, operands["fine"], operands["coarse"], chained)
        value = rounding.round_to(dtypes.find(step.rounded_to), total)
        out = results[step.result]
        if step.result is not Result.GRAD_BIAS:
            order = problem.weight_order if step.result is Result.GRAD_WEIGHT else problem.data_order
            value = natural(value, order)
        out[...] = rounding.store(dtypes.find(step.stored_as), value)


def canonical(array: AnyArray, order: AxisOrder) -> AnyArray:
    """A view with axes (n, c, d, h, w)."""
    kept = [axis for axis in order if axis is not None]
    view = array.transpose(kept)
    return cast(AnyArray, view[tuple(slice(None) if axis is not None else np.newaxis for axis in order)])


def natural(array: AnyArray, order: AxisOrder) -> AnyArray:
    """The inverse of `canonical`: back to the tensor's own axes."""
    view = array[tuple(slice(None) if axis is not None else 0 for axis in order)]
    kept = [axis for axis in order if axis is not None]
    return cast(AnyArray, view.transpose(np.argsort(kept)))


def _bias(plan: Plan, grad_output: AnyArray | None) -> AnyArray:
    problem = plan.problem
    spec = problem.request.grad_output
    assert grad_output is not None and spec is not None
    channel = problem.data_order[1]
    values = rounding.load(dtypes.find(spec.dtype), grad_output).astype(np.float64)
    sums: AnyArray = values.sum(axis=tuple(i for i in range(values.ndim) if i != channel))
    return sums


Tap = tuple[int, int, int]
Run = tuple[Any, ...]
"""An index that picks one strided run per spatial axis: (..., depth, height, width)."""


def taps(g: Geometry) -> Iterator[tuple[Tap, Run, Run]]:
    """Every tap with its tied runs of coarse cells and of fine cells; taps that tie nothing are left out."""
    for tap in product(*(range(a.window) for a in g.axes)):
        runs = [a.tied_coarse(k) for a, k in zip(g.axes, tap, strict=True)]
        if not all(runs):
            continue
        coarse = [slice(o.start, o.stop) for o in runs]
        first = [o.start * a.stride - a.pad_low + k * a.dilation for a, o, k in zip(g.axes, runs, tap, strict=True)]
        fine = [
            slice(i, i + (len(o) - 1) * a.stride + 1, a.stride) for a, o, i in zip(g.axes, runs, first, strict=True)
        ]
        yield (tap[0], tap[1], tap[2]), (..., *coarse), (..., *fine)


def to_fine(g: Geometry, coarse: AnyArray, weight: AnyArray, chained: bool = False) -> AnyArray:
    """dT/dfine."""
    out = np.zeros(g.fine_shape)
    y, w, x = _grouped(g, coarse), _grouped_weight(g, weight), _grouped(g, out)
    for (kd, kh, kw), at_coarse, at_fine in taps(g):
        target = x[at_fine]
        tied, taken = y[at_coarse], w[..., kd, kh, kw]
        _accumulate(target, tied, taken.swapaxes(1, 2), chained)
    return out


def to_coarse(g: Geometry, fine: AnyArray, weight: AnyArray, chained: bool = False) -> AnyArray:
    """dT/dcoarse."""
    out = np.zeros(g.coarse_shape)
    x, w, y = _grouped(g, fine), _grouped_weight(g, weight), _grouped(g, out)
    for (kd, kh, kw), at_coarse, at_fine in taps(g):
        _accumulate(y[at_coarse], x[at_fine], w[..., kd, kh, kw], chained)
    return out


def to_weight(g: Geometry, fine: AnyArray, coarse: AnyArray, chained: bool = False) -> AnyArray:
    """dT/dweight."""
    out = np.zeros(g.weight_shape)
    x, y, w = _grouped(g, fine), _grouped(g, coarse), _grouped_weight(g, out)
    for (kd, kh, kw), at_coarse, at_fine in taps(g):
        tied_fine, tied_coarse = x[at_fine], y[at_coarse]
        # [group, channel, batch * positions]
        f = np.moveaxis(tied_fine, 0, 2).reshape(*tied_fine.shape[1:3], -1)
        c = np.moveaxis(tied_coarse, 0, 2).reshape(*tied_coarse.shape[1:3], -1)
        if chained:
            total = np.zeros((*c.shape[:2], f.shape[1]), np.float32)
            for i in range(f.shape[2]):
                total = (total + c[:, :, None, i] * f[:, None, :, i]).astype(np.float32)
            w[..., kd, kh, kw] = total
        else:
            w[..., kd, kh, kw] = _products(c, f.swapaxes(1, 2))
    return out


def _grouped(g: Geometry, data: AnyArray) -> AnyArray:
    """A view [batch, group, channel, d, h, w]."""
    return data.reshape(data.shape[0], g.groups, data.shape[1] // g.groups, *data.shape[2:])


def _grouped_weight(g: Geometry, weight: AnyArray) -> AnyArray:
    """A view [group, coarse channel, fine channel, d, h, w]."""
    return weight.reshape(g.groups, weight.shape[0] // g.groups, *weight.shape[1:])


def _accumulate(target: AnyArray, data: AnyArray, matrix: AnyArray, chained: bool) -> None:
    """target[b, g, m, ...] += sum over r of matrix[g, m, r] * data[b, g, r, ...]."""
    if chained:
        for r in range(matrix.shape[2]):
            term = matrix[None, :, :, r, None, None, None] * data[:, :, None, r]
            target[...] = (target + term).astype(np.float32)
        return
    flat = data.reshape(*data.shape[:3], -1)
    target += _products(matrix[None], flat).reshape(target.shape)


def _products(a: AnyArray, b: AnyArray) -> AnyArray:
    """Matrix product whose NaN and inf stay where the law puts them."""
    with np.errstate(invalid="ignore", over="ignore"):
        return cast(AnyArray, np.matmul(a, b))
