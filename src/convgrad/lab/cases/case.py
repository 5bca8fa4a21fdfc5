"""`Case`: a request together with what fills its tensors, and how a file of cases named it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from convgrad.core import products
from convgrad.core.operands import Operands
from convgrad.core.request import CONFORMANCES, Request
from convgrad.lab.cases import values
from convgrad.lab.cases.values import Values
from convgrad.text.terminal import UsageError, did_you_mean

MAX_SEED = 2**63 - 1


class CaseFileError(UsageError):
    """A file of cases that cannot be read: where, and why."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where}: {reason}")


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `fill` has one entry for every tensor, or one per tensor: grad_output, input, weight."""

    name: str
    request: Request
    fill: tuple[Values, ...] = (values.DEFAULT,)
    seed: int | None = None
    """Drawn from the run's seed and the problem line when it is not given."""
    enabled: bool = True
    expect: int | None = None
    """The status the contract should answer, for cases that are meant to be refused."""
    kit: Mapping[str, Any] = field(default_factory=dict)
    """What a test kit's file says about the case beyond this: kept, and written back."""

    def filling(self, tensor: int) -> Values:
        return self.fill[tensor if len(self.fill) > 1 else 0]

    def seed_for(self, run_seed: int, line: str = "") -> int:
        """The case's own seed; else one that depends on the run's seed and the case alone, not on its place."""
        if self.seed is not None:
            return self.seed
        return crc32(f"{run_seed} {line or self.request} {self.fill_words}".encode())

    @property
    def fill_words(self) -> str:
        """The text form of `fill`."""
        return ",".join(map(str, self.fill))

    def tensors(self, seed: int) -> Operands:
        """The operands, drawn from this seed."""
        r = self.request
        specs = (None if r.forward else r.grad_output, r.input, r.weight)
        made = [
            None if s is None else values.fill(self.filling(i), s.shape, s.dtype, seed, i) for i, s in enumerate(specs)
        ]
        assert made[1] is not None and made[2] is not None
        return Operands(made[0], made[1], made[2])

    def moved(self, product: str | None, conformance: str | None, algorithm: str | None = None) -> Case:
        """The same case on another product, under the other conformance, by another algorithm."""
        if product is None and conformance is None and algorithm is None:
            return self
        changes: dict[str, Any] = {}
        if product is not None:
            changes["product"] = product
        if conformance is not None:
            changes["conformance"] = conformance
        if algorithm is not None:
            changes["algorithm"] = algorithm
        return replace(self, request=replace(self.request, **changes))

    def fingerprint(self, line: str = "") -> str:
        """Sixteen characters that change with whatever the case computes; `line` saves writing the request."""
        text = f"{line or self.request}|{self.fill_words}|{self.seed}|{self.expect}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def make(
    name: str, line: str, fill: str = "", seed: int | None = None, *, enabled: bool = True, expect: int | None = None,
    kit: Mapping[str, Any] | None = None,
) -> Case:
    """A case from its words; a `ValueError` names the one that cannot be read."""
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed {seed} must lie between 0 and {MAX_SEED}")
    return Case(name, Request.parse(line), parse_fill(fill), seed, enabled, expect, kit or {})


def parse_fill(text: str) -> tuple[Values, ...]:
    """One filling for all tensors, or three with commas: grad_output, input, weight."""
    if not text:
        return (values.DEFAULT,)
    fill = tuple(values.parse(word) for word in text.split(","))
    if len(fill) not in (1, 3):
        raise ValueError(f"values {text[:60]!r}: give one filling, or three for grad_output, input, weight")
    return (fill[0],) if len(set(fill)) == 1 else fill


def product_key(name: str) -> str:
    """The key of a product's name, as an error a command line can show."""
    try:
        return products.find(name).key
    except ValueError as error:
        raise UsageError(str(error)) from None


def conformance_name(name: str) -> str:
    """One of the two conformances."""
    if name not in CONFORMANCES:
        hint = did_you_mean(name, CONFORMANCES)
        raise UsageError(f"conformance must be one of {', '.join(CONFORMANCES)}, not {name!r}{hint}")
    return name
