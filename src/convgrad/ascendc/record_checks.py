"""Demands on a tiling record as rows: what must hold, in words, and the numbers to show when it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import CapacityError, TilingError
from .platform import PlatformInfo

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Check(Generic[R]):
    """A demand on a record: what must hold, in words, the test, and the numbers to show when it fails."""

    rule: str
    demand: str
    holds: Callable[[R, PlatformInfo], bool]
    got: Callable[[R, PlatformInfo], str]
    capacity: bool = False


def fields_check(rule: str, demand: str, names: str, holds: Callable[[R], bool]) -> Check[R]:
    """A row about a few fields, which are shown when it fails."""
    shown = names.split()
    return Check(
        rule,
        demand,
        lambda record, _: holds(record),
        lambda record, _: ", ".join(f"{name} {getattr(record, name)}" for name in shown),
    )


def positive_check(name: str) -> Check[R]:
    """A row that demands a field above 0."""
    return fields_check("tiling.positive", f"{name} must be above 0", name, lambda r: bool(getattr(r, name) > 0))


def capacity_check(
    store: str, size: Callable[[PlatformInfo], int], bytes_of: Callable[[R], int], arithmetic: Callable[[R], str]
) -> Check[R]:
    """A row about one store: the bytes wanted, how they come about, and the bytes there are."""
    return Check(
        f"capacity.{store}",
        f"the buffers in {store} must fit",
        lambda r, p: bytes_of(r) <= size(p),
        lambda r, p: f"{arithmetic(r)} = {bytes_of(r)} bytes of {size(p)}",
        capacity=True,
    )


def first_broken(groups: Sequence[Sequence[Check[R]]], record: R, platform: PlatformInfo) -> list[tuple[Check[R], str]]:
    """Every broken row of the first group that has one: later groups rely on the earlier ones."""
    for rows in groups:
        broken = [(row, row.got(record, platform)) for row in rows if not row.holds(record, platform)]
        if broken:
            return broken
    return []


def raise_broken(broken: list[tuple[Check[R], str]]) -> None:
    """Raise TilingError, or CapacityError for a store, naming every broken demand; nothing when there is none."""
    if broken:
        kind = CapacityError if broken[0][0].capacity else TilingError
        raise kind("; ".join(f"{row.demand}, got {got}" for row, got in broken), broken[0][0].rule)
