"""The tiling report: one line per field, with its meaning and the reason of its value."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .tiling_record import TilingRecord, meaning_of

FIXED_REASONS = {
    "group": "groups other than 1 are not part of this object",
    "al0Pbuffer": "L0A is always halved",
    "bl0Pbuffer": "L0B is always halved",
    "cl0Pbuffer": "one tile at a time fills L0C best",
    "stepM": "one tile of M per load",
    "stepN": "one tile of N per load",
    "hf32Flag": "16-bit operands",
}


@dataclass(frozen=True, slots=True)
class FieldReport:
    """One line of the tiling report."""

    name: str
    value: int
    meaning: str
    reason: str


def field_reports(record: TilingRecord, reasons: dict[str, str]) -> tuple[FieldReport, ...]:
    """Every field of a record, with the reason given, the one that never changes, or that it is as set."""
    known = FIXED_REASONS | reasons
    return tuple(
        FieldReport(one.name, getattr(record, one.name), meaning_of(one), known.get(one.name, "as set"))
        for one in fields(record)  # type: ignore[arg-type]
    )
