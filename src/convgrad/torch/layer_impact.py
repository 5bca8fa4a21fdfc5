"""`impact`: what each compute dtype does to each layer's gradients, and to the parameter update as a whole.

Per layer, every mode gets the same operands: those of a backward pass whose convolution gradients are computed in
float64. Its result is compared with the float64 one, so a row shows what that layer alone does. For the update as a
whole, the backward pass runs once per mode, and errors travel from layer to layer as they would on the device.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from convgrad.core import dtypes, metrics
from convgrad.core.arrays import AnyArray
from convgrad.core.plan import Plan
from convgrad.core.status import ConvGradError
from convgrad.text import terminal
from convgrad.text.files import write_text
from convgrad.text.fragment import fragment
from convgrad.torch import calls
from convgrad.torch.calls import Attributes, Decision, Settings, Three
from convgrad.torch.emulation import Emulation

MODES = ("float32", "hf32", "hf32_10", "float16", "bfloat16", "hifloat8", "float8_e4m3fn", "float8_e5m2")
RUNTIME_950 = "950-runtime"
"""A mode besides the dtypes: float32 as the 950's runtime sums it, by Winograd where its host code takes that way."""
METRICS = ("mere", "mare", "cosine", "sign_flips", "zeroed")
_REFERENCE = Settings("cpu")


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one gradient is from its float64 reference."""

    mere: float
    """Mean relative error; infinite when finite numbers became inf or NaN."""
    mare: float
    """Largest relative error."""
    cosine: float
    sign_flips: float
    """Share of elements whose sign is the opposite of the reference's."""
    zeroed: float
    """Share of elements that are zero and should not be."""

    @staticmethod
    def between(actual: AnyArray, reference: AnyArray) -> Difference:
        a, g = (np.asarray(v, np.float64).reshape(-1) for v in (actual, reference))
        found = metrics.measure(metrics.errors(a, g, "float32"))
        lost = found.inf_mismatches + found.nan_mismatches
        count = max(a.size, 1)
        with np.errstate(invalid="ignore"):
            flips, zeros = np.count_nonzero(np.sign(a) * np.sign(g) < 0), np.count_nonzero((a == 0) & (g != 0))
        worst = float("inf") if lost else None
        return Difference(
            worst or found.mere, worst or found.mare, float("nan") if lost else found.cosine,
            float(flips / count), float(zeros / count),
        )


@dataclass(frozen=True, slots=True)
class LayerImpact:
    """One gradient of one layer under one mode."""

    layer: str
    line: str
    gradient: str
    """`grad_input` or `grad_weight`."""
    mode: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class UpdateImpact:
    """All parameter gradients together, under one mode, against the float64 backward pass."""

    mode: str
    change: float
    """Norm of the difference over the norm of the reference."""
    difference: Difference


@dataclass(frozen=True, slots=True, repr=False)
class Impact:
    """What `impact` found: rows per layer, gradient and mode; and the update as a whole per mode."""

    model: str
    modes: tuple[str, ...]
    layers: tuple[LayerImpact, ...]
    updates: tuple[UpdateImpact, ...]

    def table(self, metric: str = "mere") -> str:
        """One metric as a table: a line per gradient, a column per mode."""
        if metric not in METRICS:
            raise ConvGradError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}", rule="impact.metric")
        rows = [
            (layer, gradient, *(shown(metric, getattr(found[mode], metric)) for mode in self.modes))
            for (layer, gradient), found in self.by_gradient()
        ]
        return terminal.table(("layer", "gradient", *self.modes), rows, right=range(2, 2 + len(self.modes)))

    def by_gradient(self) -> list[tuple[tuple[str, str], dict[str, Difference]]]:
        """Differences by mode of each (layer, gradient), in the order of the backward pass."""
        step = len(self.modes)
        return [
            ((first.layer, first.gradient), {row.mode: row.difference for row in self.layers[at : at + step]})
            for at, first in enumerate(self.layers)
            if at % step == 0
        ]

    def update_table(self) -> str:
        """The update as a whole: a line per mode."""
        rows = [
            (u.mode, shown("change", u.change), *(shown(m, getattr(u.difference, m)) for m in METRICS))
            for u in self.updates
        ]
        return terminal.table(("mode", "change", *METRICS), rows, right=range(1, 2 + len(METRICS)))

    def __repr__(self) -> str:
        changes = ", ".join(f"{u.mode} {shown('change', u.change)}" for u in self.updates)
        return f"<Impact on {self.model}, change of the update: {changes}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the page's tables."""
        from convgrad.torch.page import impact_body  # the page knows this class

        head = f"<p><b>{escape(self.model)}</b>: what each dtype does to its gradients</p>"
        return fragment(head, *impact_body(self))

    def __str__(self) -> str:
        return (
            f"Mean relative error (MERE) of each gradient of {self.model} against float64\n\n{self.table()}\n\n"
            f"The parameter update as a whole\n\n{self.update_table()}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {
            "model": self.model, "modes": list(self.modes), "layers": [asdict(row) for row in self.layers],
            "updates": [asdict(row) for row in self.updates],
        }

    def write_json(self, path: str | Path) -> None:
        """Everything, for machines; infinities and NaN as words."""
        text = json.dumps(terminal.jsonable(self.as_dict()), ensure_ascii=False, indent=2, allow_nan=False)
        write_text(path, text + "\n")

    def write_page(self, path: str | Path) -> None:
        """One HTML page in the report's style, readable without a network."""
        from convgrad.torch.page import write_page  # the page knows this class

        write_page(path, self)


def shown(metric: str, value: float) -> str:
    """A metric as people read it."""
    if metric in ("sign_flips", "zeroed"):
        return f"{value:.2%}"
    return f"{value:.7f}" if metric == "cosine" else f"{value:.1e}"


def impact(
    model: nn.Module, loss_fn: Callable[..., Tensor], batch: object, modes: Sequence[str] = MODES, *,
    loss_scale: float = 1.0, progress: bool | None = None,
) -> Impact:
    """The effect of each compute dtype on every convolution gradient of one training step.

    `batch`: a tensor or (inputs, target ...), as a DataLoader gives it; the loss is `loss_fn(model(inputs), *targets)`.
    `loss_scale` multiplies the loss before the backward pass, as one does for float16 and 8-bit floats; gradients are
    compared after dividing it out. The mode `950-runtime` is float32 as that product's runtime sums it, Winograd
    included. `progress`: a bar on standard error; by default when a person watches.
    The model is copied first and not changed.
    """
    asked = [modes] if isinstance(modes, str) else modes
    names = tuple(mode if mode == RUNTIME_950 else dtypes.find(mode).name for mode in asked)
    if not names:
        raise ConvGradError("modes is empty", rule="impact.modes", value=())
    bar = _Bar(sys.stderr.isatty() if progress is None else progress)
    step = _Step(model, loss_fn, batch, loss_scale)
    observer = _Comparison(names, loss_scale, bar)
    reference = step.gradients(observer)
    if not observer.rows:
        name = type(model).__name__
        raise ConvGradError(f"{name} has no convolution whose gradient is asked for", rule="impact.empty", value=name)
    updates = []
    for number, mode in enumerate(names):
        bar.show(number, len(names), f"whole step in {mode}")
        got = step.gradients(Emulation(_settings_of(mode)))
        change = float(np.linalg.norm(got - reference) / max(float(np.linalg.norm(reference)), 1e-300))
        updates.append(UpdateImpact(mode, change, Difference.between(got, reference)))
    bar.close()
    return Impact(type(model).__name__, names, tuple(observer.rows), tuple(updates))


class _Step:
    """One forward and backward pass, the same each time: fresh copy of the model, same random numbers."""

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Tensor], batch: object, loss_scale: float) -> None:
        if not isinstance(model, nn.Module):
            kind = type(model).__name__
            raise ConvGradError(f"model must be a torch.nn.Module, not {kind}", rule="impact.model", value=kind)
        if not 0 < loss_scale < float("inf"):
            raise ConvGradError(f"loss_scale must be positive, got {loss_scale}", rule="impact.loss_scale")
        self._model, self._loss_fn, self._scale = model, loss_fn, loss_scale
        self._inputs, *self._targets = batch if isinstance(batch, (tuple, list)) else (batch,)

    def gradients(self, emulation: Emulation) -> AnyArray:
        """Every parameter gradient in one vector."""
        model = copy.deepcopy(self._model)
        model.zero_grad()
        with torch.random.fork_rng(devices=()), torch.enable_grad(), emulation:
            torch.manual_seed(0)
            output = model(**self._inputs) if isinstance(self._inputs, dict) else model(self._inputs)
            loss = self._loss_fn(output, *self._targets)
            if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise ConvGradError("loss_fn must return one number that requires a gradient", rule="impact.loss")
            (loss * self._scale).backward()  # type: ignore[no-untyped-call]
        found = [p.grad.detach().double().reshape(-1).numpy() for p in model.parameters() if p.grad is not None]
        return np.concatenate(found) / self._scale


class _Comparison(Emulation):
    """Computes every gradient in float64 and passes it on; beside it, the same one in every mode."""

    def __init__(self, modes: tuple[str, ...], loss_scale: float, bar: _Bar) -> None:
        super().__init__(_REFERENCE)
        self.rows: list[LayerImpact] = []
        self._modes, self._scale, self._bar = modes, loss_scale, bar
        self._calls = 0

    def conv_backward(self, func: Any, g: Tensor, x: Tensor, w: Tensor, *numbers: Any) -> Any:
        attributes = Attributes.of(numbers)
        return self._compared((g, x, w), lambda s, o: calls.decide_conv(s, *o, attributes))

    def conv_tbc_backward(self, func: Any, g: Tensor, x: Tensor, w: Tensor, b: Tensor, pad: int) -> Any:
        return self._compared((g, x, w), lambda s, o: calls.decide_tbc(s, *o, b.to(o[0].dtype), pad))

    def _compared(
        self, operands: tuple[Tensor, Tensor, Tensor],
        decide: Callable[[Settings, tuple[Tensor, Tensor, Tensor]], Decision],
    ) -> Three:
        layer = self.layers.of_backward()
        self._calls += 1
        g, x, w = (t.double() for t in operands)
        reference = calls.gradients(_accepted(decide(_REFERENCE, (g, x, w))), g, x, w)
        per_mode: list[tuple[str, str, Three]] = []
        for number, mode in enumerate(self._modes):
            self._bar.show(number, len(self._modes), f"call {self._calls}, {layer} in {mode}")
            decision = decide(_settings_of(mode), operands)
            per_mode.append((mode, str(decision.request), calls.gradients(_accepted(decision), *operands)))
        for at, name in enumerate(("grad_input", "grad_weight")):
            golden = reference[at]
            if golden is None:
                continue
            for mode, line, found in per_mode:
                actual = found[at]
                assert actual is not None
                difference = Difference.between(
                    actual.double().numpy() / self._scale, golden.numpy() / self._scale
                )
                self.rows.append(LayerImpact(layer, line, name, mode, difference))
        x_ref, w_ref, b_ref = (None if t is None else t.to(operands[0].dtype) for t in reference)
        return x_ref, w_ref, b_ref


def _settings_of(mode: str) -> Settings:
    return Settings("950", conformance="runtime") if mode == RUNTIME_950 else Settings("cpu", compute=mode)


def _accepted(decision: Decision) -> Plan:
    if decision.plan is None:
        raise calls.refusal(decision.verdict)
    return decision.plan


class _Bar:
    """A bar on standard error, redrawn in place."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def show(self, done: int, total: int, what: str) -> None:
        if self._wanted:
            filled = "#" * (20 * done // total)
            print(f"\r[{filled:20}] {what[:60]:60}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._wanted:
            print(f"\r{'':84}\r", end="", file=sys.stderr, flush=True)
