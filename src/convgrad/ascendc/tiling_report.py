"""The tiling report: one line per field, with its meaning and the reason of its value."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .input_record import TConv3DBackpropInputTiling
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


def input_report(
    record: TConv3DBackpropInputTiling, reasons: dict[str, str], zeroing: str, transposed: bool
) -> tuple[FieldReport, ...]:
    """The report of Conv3DBackpropInput; `reasons` are those of the search, `zeroing` why gradInput must be zeroed."""
    derived = {
        "backpropPadUp": "(hk - 1) * dilationH - padUp",
        "backpropPadLeft": "(wk - 1) * dilationW - padLeft",
        "backpropPadDown": "hi - expanded rows + padUp",
        "backpropPadRight": "wi - expanded columns + padLeft",
        "backpropPadTail": "di - expanded planes + padFront",
        "initOutputFlag": zeroing or "every element of gradInput is written by a tile",
        "cout1": "cout / c0 rounded up",
        "cin1": "cin / c0 rounded up",
        "cout1G": "cout1, one group",
        "cin1G": "cin1, one group",
        "c0": "32 bytes of channels",
        "c0Bits": "log2(c0)",
        "iterateOrder": "M fastest: weights change least",
        "reserved": "never written",
        "singleCoreHo": "not read by the kernel",
        "singleCoreDin": "a walk covers one plane",
        "singleCoreBatch": "a single shape covers one batch",
    }
    if transposed:
        derived |= dict.fromkeys(("di", "hi", "wi"), "inferred from gradOutput, transpose mode")
    once = {one.name: "always 1 here" for one in fields(record) if one.name.startswith(("base", "step", "single"))}
    return field_reports(record, once | FIXED_REASONS | derived | reasons)
