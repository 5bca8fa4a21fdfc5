"""`scan`: every convolution of a model, and what each product says to its backward call. Nothing is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from convgrad.core import dtypes
from convgrad.core.products import ONE_OF_EACH
from convgrad.core.request import DEFAULT_CONFORMANCE, Request
from convgrad.core.status import ConvGradError
from convgrad.rules.check import Verdict, check
from convgrad.rules.explain import Way, explain
from convgrad.rules.precision_grid import compute
from convgrad.text import terminal
from convgrad.text.files import write_text
from convgrad.text.fragment import fragment
from convgrad.text.terminal import counted
from convgrad.torch import calls
from convgrad.torch.calls import Settings
from convgrad.torch.convolutions import Seen
from convgrad.torch.emulation import default_math
from convgrad.torch.memory import dtype_name
from convgrad.torch.model_run import DEVICES, run_model


class Answer(Enum):
    """What a product says to a call, in one word."""

    ACCEPTED = "accepted"
    LOWERED = "lowered"
    """Accepted, and computed with fewer bits than the tensors have."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one product says to one convolution's backward call."""

    verdict: Verdict
    computed_in: str
    """The dtype operands are rounded to; empty when refused."""
    ways_out: tuple[Way, ...]

    @property
    def answer(self) -> Answer:
        if not self.verdict.ok:
            return Answer.REFUSED
        x = self.verdict.request.input
        return Answer.ACCEPTED if x is not None and self.computed_in == x.dtype else Answer.LOWERED

    def __str__(self) -> str:
        v = self.verdict
        words = {
            Answer.ACCEPTED: "ok",
            Answer.LOWERED: self.computed_in,
            Answer.REFUSED: f"{int(v.status)} {v.rule_id}",
        }
        return words[self.answer]

    def as_row(self) -> dict[str, Any]:
        v = self.verdict
        return {
            "answer": self.answer.value, "status": int(v.status), "rule": v.rule_id, "message": v.message,
            "computed_in": self.computed_in, "line": v.line,
            "ways_out": [{"text": w.text, "line": w.line, "accepted": w.accepted} for w in self.ways_out],
        }


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution of a model: its forward shapes, and each product's answer to its backward call."""

    layer: str
    kind: str
    """conv1d ... conv3d, conv_transpose1d ... conv_transpose3d, conv_tbc."""
    input: tuple[int, ...]
    weight: tuple[int, ...]
    output: tuple[int, ...]
    dtype: str
    request: Request | None
    """The backward request, as on the first product asked; `None` when nothing asks for this layer's gradients."""
    findings: Mapping[str, Finding]
    """By product."""

    @property
    def line(self) -> str:
        """Problem line of the backward call."""
        return "" if self.request is None else str(self.request)

    def as_row(self) -> dict[str, Any]:
        return {
            "layer": self.layer, "kind": self.kind, "input": self.input, "weight": self.weight, "output": self.output,
            "dtype": self.dtype, "line": self.line, "products": {p: f.as_row() for p, f in self.findings.items()},
        }


class Scan(Sequence[Convolution]):
    """The convolutions of a model in forward order; printed as a table, written as JSON or as a page."""

    def __init__(self, model: str, products: tuple[str, ...], rows: Sequence[Convolution]) -> None:
        self.model = model
        self.products = products
        self.rows = tuple(rows)

    @overload
    def __getitem__(self, at: int) -> Convolution: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Convolution, ...]: ...
    def __getitem__(self, at: int | slice) -> Convolution | tuple[Convolution, ...]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def count(self, answer: Any) -> int:
        """How many answers of this kind, over all products."""
        return sum(f.answer is answer for row in self.rows for f in row.findings.values())

    def summary(self) -> dict[str, dict[str, int]]:
        """By product: how many calls are accepted, lowered, refused."""
        return {
            p: {a.value: sum(p in r.findings and r.findings[p].answer is a for r in self.rows) for a in Answer}
            for p in self.products
        }

    def refusals(self) -> dict[tuple[str, str], list[Convolution]]:
        """Refused convolutions by (product, rule), the first of each kind first."""
        found: dict[tuple[str, str], list[Convolution]] = {}
        for product in self.products:
            for row in self.rows:
                finding = row.findings.get(product)
                if finding is not None and finding.answer is Answer.REFUSED:
                    found.setdefault((product, finding.verdict.rule_id), []).append(row)
        return found

    def as_dict(self) -> dict[str, Any]:
        rows = [row.as_row() for row in self.rows]
        return {"model": self.model, "products": list(self.products), "summary": self.summary(), "convolutions": rows}

    def write_json(self, path: str | Path) -> None:
        """Everything, for machines."""
        write_text(path, json.dumps(self.as_dict(), ensure_ascii=False, indent=2) + "\n")

    def write_page(self, path: str | Path) -> None:
        """One HTML page in the report's style, readable without a network."""
        from convgrad.torch.page import write_page  # the page knows this class

        write_page(path, self)

    def __repr__(self) -> str:
        counts = (
            f"{product} " + ", ".join(f"{n} {word}" for word, n in found.items() if n)
            for product, found in self.summary().items()
        )
        return f"<Scan of {self.model}, {counted(len(self), 'convolution')}: {'; '.join(counts)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the page's tiles, table and refusals."""
        from convgrad.torch.page import scan_body  # the page knows this class

        return fragment(f"<p><b>{escape(self.model)}</b>: {len(self)} convolutions</p>", *scan_body(self))

    def __str__(self) -> str:
        def shape(sizes: tuple[int, ...]) -> str:
            return "x".join(map(str, sizes))

        width = terminal.columns()
        roomy = width is None or width >= 100  # the output follows from the rest
        rows = [
            (
                row.layer, row.kind, shape(row.input), shape(row.weight), *([shape(row.output)] if roomy else []),
                row.dtype,
                *(str(row.findings[p]) if p in row.findings else "no gradient asked" for p in self.products),
            )
            for row in self.rows
        ]
        head = ("layer", "kind", "input", "weight", *(["output"] if roomy else []), "dtype",
                *(f"on {p}" for p in self.products))  # fmt: skip
        lines = [terminal.table(head, rows), ""]
        for product, counts in self.summary().items():
            found = [row.findings[product] for row in self.rows if product in row.findings]
            to = ", ".join(sorted({f.computed_in for f in found if f.answer is Answer.LOWERED}))
            words = {word: f" to {to}" if word == "lowered" and to else "" for word in counts}
            lines.append(f"{product}: " + ", ".join(f"{n} {word}{words[word]}" for word, n in counts.items()))
        for (product, _), refused in self.refusals().items():
            finding = refused[0].findings[product]
            others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
            lines += ["", f"{product} refuses {refused[0].layer}{others}: {finding.verdict.message}"]
            lines += [f"  to fix: {way.text}" for way in finding.ways_out]
            lines.append(f"  reproduce: {finding.verdict.line}")
        return "\n".join(lines)


def scan(
    model: nn.Module | str | Path, inputs: object = None, products: Sequence[str] = ONE_OF_EACH, *,
    math: str | int | None = None, allow_hf32: bool = True, conformance: str = DEFAULT_CONFORMANCE,
    dtype: torch.dtype | str | None = None, device: str = "meta",
) -> Scan:
    """What each product says to every convolution of `model`, without computing or allocating anything.

    `inputs`: a tensor, a shape, a sequence of either (positional arguments), or a dict of them (keyword arguments).
    `model` may also be the path of an ONNX file (with `onnx` installed; its own input shapes unless `inputs` is given).
    `math` and `allow_hf32` as for `emulate`. `dtype` asks about the model as if it were converted to that dtype first.
    `device="cpu"` runs the model on copies of its tensors, for one that asks for values on the way (`Tensor.item()`).
    """
    settings = [
        Settings.of(p, default_math(math, allow_hf32), conformance)
        for p in ([products] if isinstance(products, str) else products)
    ]
    if not settings:
        raise ConvGradError("products is empty", rule="scan.products", value=())
    if device not in DEVICES:
        message = f"device must be {' or '.join(DEVICES)}, got {device!r}"
        raise ConvGradError(message, rule="scan.device", value=device)
    wanted = _dtype(dtype)
    if isinstance(model, (str, Path)):
        from convgrad.torch.onnx_file import convolutions_of

        name, seen = Path(model).name, convolutions_of(Path(model), inputs, wanted)
    elif isinstance(model, nn.Module):
        name, seen = type(model).__name__, run_model(model, inputs, wanted, device)
    else:
        kind = type(model).__name__
        message = f"model must be a torch.nn.Module or the path of an ONNX file, not {kind}"
        raise ConvGradError(message, rule="scan.model", value=kind)
    if not seen:
        raise ConvGradError(f"{name} has no convolution", rule="scan.empty", value=name)
    return Scan(name, tuple(s.product for s in settings), [_judged(one, settings) for one in seen])


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    try:
        found = getattr(torch, dtypes.find(dtype).name, None)
    except (TypeError, ValueError) as error:
        raise ConvGradError(str(error), rule="scan.dtype", value=dtype) from None
    if not isinstance(found, torch.dtype):
        raise ConvGradError(f"PyTorch has no dtype {dtype!r}", rule="scan.dtype", value=dtype)
    return found


def _judged(seen: Seen, settings: Sequence[Settings]) -> Convolution:
    findings: dict[str, Finding] = {}
    first: Request | None = None
    if seen.backward is not None:
        g, x, w, *numbers = seen.backward
        for one in settings:
            request = (
                calls.tbc_request(one, g, x, w, *numbers) if seen.kind == "conv_tbc"
                else calls.conv_request(one, g, x, w, numbers[0])
            )
            first = first or request
            verdict = check(request)
            ways = () if verdict.ok else explain(request).ways
            findings[one.product] = Finding(verdict, compute(request) if verdict.ok else "", ways)
    return Convolution(
        seen.layer, seen.kind, tuple(seen.input.shape), tuple(seen.weight.shape), seen.output,
        dtype_name(seen.input), first, findings,
    )
