"""Every demand on a tiling record of Conv3DBackpropFilter, one row each; those of both kernels stand elsewhere."""

from __future__ import annotations

from .filter_record import TConv3DDwTiling
from .platform import PlatformInfo
from .record_checks import Check, capacity_check, fields_check, first_broken, raise_broken, rows_of

Record = TConv3DDwTiling
MUST_BE_POSITIVE = ("channelSize", "singleCoreDk", "singleCoreGroup")


def a1_bytes(r: Record) -> int:
    """One L1 buffer of gradOutput."""
    return r.stepM * r.baseM * r.stepKa * r.baseK * r.element_bytes


def b1_bytes(r: Record) -> int:
    """One L1 buffer of the input."""
    return r.bl1Bound * r.element_bytes


def l1_bytes(r: Record) -> int:
    """All L1 buffers."""
    return a1_bytes(r) * r.al1Pbuffer + b1_bytes(r) * r.bl1Pbuffer


CONSISTENCY: tuple[Check[Record], ...] = (
    fields_check("tiling.c0", "channelSize and k0 must be 16, m0 and n0 16", "channelSize k0 m0 n0",
                 lambda r: r.channelSize == r.k0 == r.m0 == r.n0 == 16),
    fields_check("tiling.cin1", "cin1G must be cin / channelSize rounded up", "cin cin1G channelSize",
                 lambda r: r.cin1G == r.cin1),
    fields_check("tiling.cout1", "cout1G must be cout rounded up to 16, by channelSize", "cout cout1G channelSize",
                 lambda r: r.cout1G == r.weight_cout // r.channelSize),
    fields_check("tiling.bl1_bound", "bl1Bound must hold the input of stepKb * baseK positions, stepN * baseN columns",
                 "bl1Bound stepKb baseK stepN baseN",
                 lambda r: r.bl1Bound >= r.input_elements_in_l1(r.stepKb * r.baseK, r.stepN * r.baseN)),
    fields_check("tiling.single", "singleCoreDk, singleCoreGroup and singleCoreBatch must be 1",
                 "singleCoreDk singleCoreGroup singleCoreBatch",
                 lambda r: r.singleCoreDk == r.singleCoreGroup == r.singleCoreBatch == 1),
)  # fmt: skip

L1: Check[Record] = capacity_check(
    "L1",
    lambda p: p.l1Size,
    l1_bytes,
    lambda r: f"gradOutput {a1_bytes(r)} * {r.al1Pbuffer} + input {b1_bytes(r)} * {r.bl1Pbuffer}",
)
ROWS = rows_of(MUST_BE_POSITIVE, CONSISTENCY, L1)


def broken_filter_checks(record: Record, platform: PlatformInfo) -> list[tuple[Check[Record], str]]:
    """Every row that does not hold, with its numbers; capacities only once the fields are consistent."""
    return first_broken(ROWS, record, platform)


def check_filter_record(record: Record, platform: PlatformInfo) -> None:
    """Raise TilingError or CapacityError naming every demand the record breaks."""
    raise_broken(broken_filter_checks(record, platform))
