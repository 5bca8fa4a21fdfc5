"""Demands on a tiling record as rows: what must hold, in words, and the numbers to show when it does not.

The rows below hold for both kernels' records; each kernel adds its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from ..device.errors import CapacityError, TilingError
from ..device.platform import PlatformInfo
from .expressions import OfRecord, compiled, filled
from .tiling_record import TilingRecord

R = TypeVar("R", contravariant=True)
POSITIVE_IN_BOTH = (
    "batch", "cin", "cout", "dout", "ho", "wo", "di", "hi", "wi", "dk", "hk", "wk", "strideD", "strideH", "strideW",
    "dilationD", "dilationH", "dilationW", "baseM", "baseK", "baseN", "stepM", "stepN", "stepKa", "stepKb",
    "singleCoreCout", "singleCoreHo", "singleCoreBatch", "singleCoreCin",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check(Generic[R]):
    """A demand on a record: what must hold, in words, as an expression, and the numbers to show when it fails.

    holds       the condition, or for a store the bytes wanted
    shown       the numbers in words, each {expression} of them
    of_record   functions that expressions name beside the record's own fields and properties
    store       the field of PlatformInfo that a capacity is compared with
    """

    rule: str
    demand: str
    holds: str
    shown: str
    of_record: OfRecord
    store: str = ""

    def broken(self, record: R, platform: PlatformInfo) -> str | None:
        """The numbers when the demand does not hold, else None."""
        value, words = compiled_row(self.holds, self.shown, tuple(self.of_record.items()))
        if not self.store:
            return None if value(record) else words(record)
        size = getattr(platform, self.store)
        return None if value(record) <= size else f"{words(record)} = {value(record)} bytes of {size}"


@cache
def compiled_row(
    holds: str, shown: str, of_record: tuple[tuple[str, Callable[[Any], Any]], ...]
) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
    """The condition and the words of a row as functions of a record, compiled once."""
    return compiled(holds, dict(of_record)), filled(shown, dict(of_record))


def fields_check(rule: str, demand: str, names: str, holds: str, **of_record: Callable[[Any], Any]) -> Check[R]:
    """A row about a few fields, which are shown when it fails."""
    return Check(rule, demand, holds, ", ".join(f"{name} {{{name}}}" for name in names.split()), of_record)


def positive_check(name: str) -> Check[R]:
    """A row that demands a field above 0."""
    return fields_check("tiling.positive", f"{name} must be above 0", name, f"{name} > 0")


def capacity_check(store: str, size: str, arithmetic: str, **of_record: Callable[[Any], Any]) -> Check[R]:
    """A row about one store: the bytes wanted (the first function), how they come about, and the bytes there are."""
    wanted = next(iter(of_record))
    return Check(f"capacity.{store}", f"the buffers in {store} must fit", wanted, arithmetic, of_record, size)


# ---- the rows of both records


def slack(size: int, out: int, window: int, stride: int, dilation: int, pads: int) -> int:
    """Cells past the last window: the remainder of the forward division, or the output padding."""
    return size + pads - ((window - 1) * dilation + 1) - (out - 1) * stride


def slack_planes(r: TilingRecord) -> int:
    """Slack of the plane axis."""
    return slack(r.di, r.dout, r.dk, r.strideD, r.dilationD, r.padFront + r.padBack)


def slack_rows(r: TilingRecord) -> int:
    """Slack of the row axis."""
    return slack(r.hi, r.ho, r.hk, r.strideH, r.dilationH, r.padUp + r.padDown)


def slack_columns(r: TilingRecord) -> int:
    """Slack of the column axis."""
    return slack(r.wi, r.wo, r.wk, r.strideW, r.dilationW, r.padLeft + r.padRight)


def l0_buffers(r: TilingRecord) -> int:
    """Buffers in L0A and L0B; double buffering needs both al0Pbuffer and bl0Pbuffer to be 2."""
    return min(r.al0Pbuffer, r.bl0Pbuffer)


def l0a_bytes(r: TilingRecord) -> int:
    """L0A buffers."""
    return r.baseM * r.baseK * r.element_bytes * l0_buffers(r)


def l0b_bytes(r: TilingRecord) -> int:
    """L0B buffers."""
    return r.baseK * r.baseN * r.element_bytes * l0_buffers(r)


def l0c_bytes(r: TilingRecord) -> int:
    """L0C buffers: float32 tiles."""
    return r.baseM * r.baseN * 4 * r.cl0Pbuffer


CONSISTENT_IN_BOTH: tuple[Check[TilingRecord], ...] = (
    fields_check("tiling.group", "group must be 1", "group", "group == 1"),
    fields_check("tiling.hf32", "hf32Flag must be 0 with 16-bit operands", "hf32Flag", "hf32Flag == 0"),
    fields_check("tiling.size.d", "di + pads - reach must be (dout - 1) * strideD plus a rest of 0 or more",
                 "di dout dk strideD dilationD padFront padBack", "slack_planes >= 0", slack_planes=slack_planes),
    fields_check("tiling.size.h", "hi + pads - reach must be (ho - 1) * strideH plus a rest of 0 or more",
                 "hi ho hk strideH dilationH padUp padDown", "slack_rows >= 0", slack_rows=slack_rows),
    fields_check("tiling.size.w", "wi + pads - reach must be (wo - 1) * strideW plus a rest of 0 or more",
                 "wi wo wk strideW dilationW padLeft padRight", "slack_columns >= 0", slack_columns=slack_columns),
    fields_check("tiling.base16", "baseM, baseK and baseN must be multiples of 16", "baseM baseK baseN",
                 "baseM % 16 == baseK % 16 == baseN % 16 == 0"),
    fields_check("tiling.buffers", "every Pbuffer must be 1 or 2",
                 "al0Pbuffer bl0Pbuffer cl0Pbuffer al1Pbuffer bl1Pbuffer",
                 "1 <= min(al0Pbuffer, bl0Pbuffer, cl0Pbuffer, al1Pbuffer, bl1Pbuffer) and "
                 "max(al0Pbuffer, bl0Pbuffer, cl0Pbuffer, al1Pbuffer, bl1Pbuffer) <= 2"),
    fields_check("tiling.order", "iterateOrder must be 0 or 1", "iterateOrder", "iterateOrder in (0, 1)"),
)  # fmt: skip

L0_CAPACITIES: tuple[Check[TilingRecord], ...] = (
    capacity_check("L0A", "l0ASize", "baseM {baseM} * baseK {baseK} * {element_bytes} bytes * {l0_buffers} buffers",
                   l0a_bytes=l0a_bytes, l0_buffers=l0_buffers),
    capacity_check("L0B", "l0BSize", "baseK {baseK} * baseN {baseN} * {element_bytes} bytes * {l0_buffers} buffers",
                   l0b_bytes=l0b_bytes, l0_buffers=l0_buffers),
    capacity_check("L0C", "l0CSize", "baseM {baseM} * baseN {baseN} * 4 bytes * {cl0Pbuffer} buffers",
                   l0c_bytes=l0c_bytes),
)  # fmt: skip


# ---- asking the rows


def rows_of(
    must_be_positive: Sequence[str], consistency: Sequence[Check[R]], l1: Check[R]
) -> tuple[tuple[Check[Any], ...], ...]:
    """A kernel's rows in groups, with those of both: later groups rely on the earlier ones."""
    positive: tuple[Check[Any], ...] = tuple(positive_check(name) for name in (*POSITIVE_IN_BOTH, *must_be_positive))
    return positive, (*CONSISTENT_IN_BOTH, *consistency), (*L0_CAPACITIES, l1)


def first_broken(groups: Sequence[Sequence[Check[R]]], record: R, platform: PlatformInfo) -> list[tuple[Check[R], str]]:
    """Every broken row of the first group that has one: later groups rely on the earlier ones."""
    for rows in groups:
        broken = [(row, got) for row in rows if (got := row.broken(record, platform)) is not None]
        if broken:
            return broken
    return []


def raise_broken(broken: list[tuple[Check[R], str]]) -> None:
    """Raise TilingError, or CapacityError for a store, naming every broken demand; nothing when there is none."""
    if broken:
        kind = CapacityError if broken[0][0].store else TilingError
        raise kind("; ".join(f"{row.demand}, got {got}" for row, got in broken), broken[0][0].rule)
