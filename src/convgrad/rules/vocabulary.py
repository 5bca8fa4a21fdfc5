"""The words a rule is made of: seven demands, each able to test and to say itself; pure data, no functions in it.

A row about something missing holds: only `Present` judges a null. Integer lists (stride, shapes) are judged
element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from convgrad.core import products
from convgrad.core.status import Status
from convgrad.text.language import LANGUAGES as LANGUAGES

Value = bool | int | str | tuple[int, ...] | None
"""What a fact can be: missing, a flag, a number, a name (dtype, layout, product) or a list of numbers."""

LARGEST_NUMBER = 2**40
"""Largest size, stride, padding, dilation and group count accepted anywhere ..."""
MOST_ELEMENTS = 2**60 - 1
"""... most elements of a tensor ..."""
MOST_WORK = 2**56
"""... and most multiply-adds: whatever is derived from accepted numbers fits 63 bits."""


class Stage(Enum):
    """What a row looks at. The order of rows is their place in the table: the first broken row names the status."""

    NULL = "null pointers"
    PRODUCT = "product"
    DTYPE = "dtypes"
    FORMAT = "formats and ranks"
    SIZE = "sizes"
    VALUE = "attribute values"
    MATH = "cubeMathType"
    SHAPE = "shapes and lengths"
    CHANNEL = "channels, groups, batch"
    SPATIAL = "spatial law"
    KERNEL = "what kernels exist"
    LIMIT = "documented limits"


class Conformance(Enum):
    """Which reading of the contract a row belongs to."""

    BOTH = "both"
    DOCUMENT = "document"
    RUNTIME = "runtime"

    def covers(self, name: str) -> bool:
        return self is Conformance.BOTH or self.value == name


def say_value(value: Value) -> str:
    """A value as messages print it; the C side prints the same."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def _elements(value: Value) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, slots=True)
class Present:
    """The pointer is not null."""

    def holds(self, value: Value, other: Value) -> bool:
        return value is not None

    def say(self, language: str) -> str:
        return {"en": "must be given", "zh": "不能为空指针"}[language]


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value is in a list."""

    options: tuple[int | str | bool, ...]

    def holds(self, value: Value, other: Value) -> bool:
        return value is None or value in self.options

    def say(self, language: str) -> str:
        options = ", ".join(say_value(o) for o in self.options)
        if len(self.options) == 1:
            return {"en": f"must be {options}", "zh": f"必须为 {options}"}[language]
        return {"en": f"must be one of {options}", "zh": f"必须是 {options} 之一"}[language]


@dataclass(frozen=True, slots=True)
class Between:
    """Every element is at least `low` and at most `high`; `None` leaves a side open."""

    low: int | None
    high: int | None = None

    def holds(self, value: Value, other: Value) -> bool:
        if value is None:
            return True
        elements: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
        for element in elements:
            if (self.low is not None and element < self.low) or (self.high is not None and element > self.high):
                return False
        return True

    def say(self, language: str) -> str:
        if self.low == self.high:
            return {"en": f"must be {self.low}", "zh": f"必须为 {self.low}"}[language]
        if self.high is None:
            return {"en": f"must be at least {self.low}", "zh": f"必须大于等于 {self.low}"}[language]
        if self.low is None:
            return {"en": f"must be at most {self.high}", "zh": f"必须小于等于 {self.high}"}[language]
        interval = f"[{self.low}, {self.high}]"
        return {"en": f"must be in {interval}", "zh": f"必须在 {interval} 范围内"}[language]


@dataclass(frozen=True, slots=True)
class SameAs:
    """Equal to another fact."""

    other: str

    def holds(self, value: Value, other: Value) -> bool:
        return value is None or other is None or value == other

    def say(self, language: str) -> str:
        return {"en": "must equal {}", "zh": "必须等于{}"}[language]


@dataclass(frozen=True, slots=True)
class Below:
    """Every element is below the element of the same place in another fact."""

    other: str

    def holds(self, value: Value, other: Value) -> bool:
        if value is None or other is None:
            return True
        return all(a < b for a, b in zip(_elements(value), _elements(other), strict=False))

    def say(self, language: str) -> str:
        return {"en": "must be below {}", "zh": "必须小于{}"}[language]


@dataclass(frozen=True, slots=True)
class UpTo:
    """No element is above the element of the same place in another fact."""

    other: str

    def holds(self, value: Value, other: Value) -> bool:
        if value is None or other is None:
            return True
        return all(a <= b for a, b in zip(_elements(value), _elements(other), strict=False))

    def say(self, language: str) -> str:
        return {"en": "must not exceed {}", "zh": "不能超过{}"}[language]


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """A multiple of another fact, which is at least 1."""

    other: str

    def holds(self, value: Value, other: Value) -> bool:
        if not isinstance(value, int) or not isinstance(other, int) or other < 1:
            return True
        return value % other == 0

    def say(self, language: str) -> str:
        return {"en": "must be a multiple of {}", "zh": "必须是{}的整数倍"}[language]


Demand = Present | OneOf | Between | SameAs | Below | UpTo | MultipleOf
Condition = tuple[str, tuple[Any, ...]]
DEMANDS: tuple[type, ...] = (Present, OneOf, Between, SameAs, Below, UpTo, MultipleOf)

CPU = ("cpu",)
EVERY = products.KEYS


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: on these products, under these conditions, a fact must meet a demand, or the call ends in `status`."""

    id: str
    stage: Stage
    fact: str
    must: Demand
    status: Status = Status.PARAM_INVALID
    products: tuple[str, ...] = EVERY
    conformance: Conformance = Conformance.BOTH
    when: tuple[Condition, ...] = ()
    """Conditions: each named fact is one of the values; a missing fact meets no condition."""
    source: str = ""
    note: str = ""
    """Where the sources disagree: what each says."""
    conflict: str = ""
    """Id of the disagreement (C1..C31, T1..T17), for the table of contradictions."""

    @property
    def other(self) -> str | None:
        return getattr(self.must, "other", None)
