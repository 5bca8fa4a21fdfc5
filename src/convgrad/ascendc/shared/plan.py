"""A problem that is cut: what was asked, the tiling record, and the reason of each of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .arguments import TileArguments
from .tiling_record import TilingRecord
from .tiling_report import FieldReport

RecordType = TypeVar("RecordType", bound=TilingRecord)


@dataclass(frozen=True, slots=True)
class Plan(Generic[RecordType]):
    """A tiling, searched for or a caller's own: whoever has it runs without a second search.

    report    one line per field; empty when the record is a caller's own
    """

    arguments: TileArguments
    record: RecordType
    report: tuple[FieldReport, ...]

    @property
    def single_shape(self) -> dict[str, int]:
        """What stands beside the record, by name."""
        return {}
