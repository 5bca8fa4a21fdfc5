"""Tiling records as the bytes a kernel reads: C structs in the vendor's field order, little-endian, packed to 8."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from convgrad.core.arguments import told

from ..device.errors import TilingError
from .tiling_record import I32, LIMITS, U32, U64, ceil_div

CODES = {U32: "I", I32: "i", U64: "Q"}


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field of a record in memory: its first byte, and its kind or the record it is."""

    name: str
    offset: int
    kind: str | None
    record: type[Any] | None


def places_of(record_type: type[Any]) -> tuple[tuple[FieldPlace, ...], int, int]:
    """Where each field of a record lies, the bytes of the whole, and its alignment: natural, as a C compiler does."""
    places, end, widest = [], 0, 1
    for one in fields(record_type):
        kind = one.metadata.get("kind")
        inner: Any = None if kind else one.default_factory
        size, alignment = (struct.calcsize(CODES[kind]),) * 2 if kind else places_of(inner)[1:]
        start = ceil_div(end, alignment) * alignment
        places.append(FieldPlace(one.name, start, kind, inner))
        end, widest = start + size, max(widest, alignment)
    return tuple(places), ceil_div(end, widest) * widest, widest


def _is_record(kind: object) -> bool:
    """Whether a type is a tiling record, or one that holds them."""
    return isinstance(kind, type) and is_dataclass(kind) and all(
        one.metadata.get("kind") in CODES or _is_record(one.default_factory) for one in fields(kind)
    )


def tiling_to_bytes(record: Any) -> bytes:
    """A tiling record, or one of the outer records `GetTiling` fills, as a kernel's memory holds it."""
    if not _is_record(type(record)):
        raise TilingError(f"record must be a tiling record, got {told(record)}", "argument.record")
    places, size, _ = places_of(type(record))
    content = bytearray(size)
    for place in places:
        value = getattr(record, place.name)
        if place.kind is not None:
            low, high = LIMITS[place.kind]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise TilingError(
                    f"{place.name} must be an integer in [{low}, {high}], got {told(value)}", "tiling.integer"
                )
        part = tiling_to_bytes(value) if place.kind is None else struct.pack("<" + CODES[place.kind], value)
        content[place.offset : place.offset + len(part)] = part
    return bytes(content)


def tiling_from_bytes(record_type: type[Any], content: bytes) -> Any:
    """The record in the bytes of a file or of a device's memory; raises when their number is another record's."""
    if not _is_record(record_type):
        raise TilingError(f"record_type must be the type of a tiling record, got {told(record_type)}",
                          "argument.record_type")  # fmt: skip
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TilingError(f"content must be bytes, got {told(content)}", "argument.content")
    content = bytes(content)
    places, size, _ = places_of(record_type)
    if len(content) != size:
        raise TilingError(f"{record_type.__name__} has {size} bytes, got {len(content)}", "tiling.bytes")
    values = {}
    for place in places:
        if place.record is not None:
            part = content[place.offset : place.offset + places_of(place.record)[1]]
            values[place.name] = tiling_from_bytes(place.record, part)
        else:
            assert place.kind is not None
            values[place.name] = struct.unpack_from("<" + CODES[place.kind], content, place.offset)[0]
    return record_type(**values)
