"""Pointers read back from their offsets as indices, and the mistakes that shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A recognised mistake: its name, what was found, and what to write instead."""

    rule: str
    found: str
    advice: str

    def __str__(self) -> str:
        return f"{self.found}: {self.advice}"


@dataclass(frozen=True, slots=True)
class Place:
    """A pointer read back as indices; `rest` is what is left below the finest index and must be 0."""

    batch: int
    plane: int
    block: int
    row: int
    rest: int


def place_in_ndc1hwc0(offset: int, planes: int, blocks: int, rows: int, row_size: int) -> Place:
    """The (batch, plane, channel block, row) an offset into an NDC1HWC0 tensor points to."""
    above, rest = divmod(offset, row_size)
    above, row = divmod(above, rows)
    above, block = divmod(above, blocks)
    batch, plane = divmod(above, planes)
    return Place(batch, plane, block, row, rest)


def past_the_end(rule: str, what: str, first: int, count: int, most: int) -> list[Mistake]:
    """A single shape that starts inside an axis and ends beyond it: it would touch the next block or plane."""
    if first + count <= most:
        return []
    found = f"the single shape has {count} {what} from {first} on, the tensor {most}"
    return [Mistake(rule, found, "start earlier, or give SetSingleShape what is left")]
