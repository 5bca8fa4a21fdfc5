"""Every demand on a tiling record of Conv3DBackpropFilter, one row each."""

from __future__ import annotations

from .filter_record import TConv3DDwTiling
from .input_checks import slack
from .input_record import ceil_div
from .platform import PlatformInfo
from .record_checks import Check, capacity_check, fields_check, first_broken, positive_check, raise_broken

Record = TConv3DDwTiling
ELEMENT_BYTES = 2

MUST_BE_POSITIVE = (
    "batch", "cin", "cout", "dout", "ho", "wo", "di", "hi", "wi", "dk", "hk", "wk", "strideD", "strideH", "strideW",
    "dilationD", "dilationH", "dilationW", "channelSize", "baseM", "baseK", "baseN", "stepM", "stepN", "stepKa",
    "stepKb", "singleCoreDk", "singleCoreGroup", "singleCoreCout", "singleCoreHo", "singleCoreBatch", "singleCoreCin",
)  # fmt: skip


def a1_bytes(r: Record) -> int:
    """One L1 buffer of gradOutput."""
    return r.stepM * r.baseM * r.stepKa * r.baseK * ELEMENT_BYTES


def b1_bytes(r: Record) -> int:
    """One L1 buffer of the input."""
    return r.bl1Bound * ELEMENT_BYTES


def l1_bytes(r: Record) -> int:
    """All L1 buffers."""
    return a1_bytes(r) * r.al1Pbuffer + b1_bytes(r) * r.bl1Pbuffer


def l0_buffers(r: Record) -> int:
    """Buffers in L0A and L0B; double buffering needs both to be 2."""
    return min(r.al0Pbuffer, r.bl0Pbuffer)


POSITIVE: tuple[Check[Record], ...] = tuple(positive_check(name) for name in MUST_BE_POSITIVE)
CONSISTENCY: tuple[Check[Record], ...] = (
    fields_check("tiling.c0", "channelSize and k0 must be 16, m0 and n0 16", "channelSize k0 m0 n0",
                 lambda r: r.channelSize == r.k0 == r.m0 == r.n0 == 16),
    fields_check("tiling.group", "group must be 1", "group", lambda r: r.group == 1),
    fields_check("tiling.hf32", "hf32Flag must be 0 with 16-bit operands", "hf32Flag", lambda r: r.hf32Flag == 0),
    fields_check("tiling.cin1", "cin1G must be cin / channelSize rounded up", "cin cin1G channelSize",
                 lambda r: r.cin1G == ceil_div(r.cin, r.channelSize)),
    fields_check("tiling.cout1", "cout1G must be cout rounded up to 16, by channelSize", "cout cout1G channelSize",
                 lambda r: r.cout1G == r.weight_cout // r.channelSize),
    fields_check("tiling.size.d", "di + pads - reach must be (dout - 1) * strideD plus a rest of 0 or more",
                 "di dout dk strideD dilationD padFront padBack",
                 lambda r: slack(r.di, r.dout, r.dk, r.strideD, r.dilationD, r.padFront + r.padBack) >= 0),
    fields_check("tiling.size.h", "hi + pads - reach must be (ho - 1) * strideH plus a rest of 0 or more",
                 "hi ho hk strideH dilationH padUp padDown",
                 lambda r: slack(r.hi, r.ho, r.hk, r.strideH, r.dilationH, r.padUp + r.padDown) >= 0),
    fields_check("tiling.size.w", "wi + pads - reach must be (wo - 1) * strideW plus a rest of 0 or more",
                 "wi wo wk strideW dilationW padLeft padRight",
                 lambda r: slack(r.wi, r.wo, r.wk, r.strideW, r.dilationW, r.padLeft + r.padRight) >= 0),
    fields_check("tiling.base16", "baseM, baseK and baseN must be multiples of 16", "baseM baseK baseN",
                 lambda r: r.baseM % 16 == r.baseK % 16 == r.baseN % 16 == 0),
    fields_check("tiling.buffers", "every Pbuffer must be 1 or 2",
                 "al0Pbuffer bl0Pbuffer cl0Pbuffer al1Pbuffer bl1Pbuffer",
                 lambda r: {r.al0Pbuffer, r.bl0Pbuffer, r.cl0Pbuffer, r.al1Pbuffer, r.bl1Pbuffer} <= {1, 2}),
    fields_check("tiling.order", "iterateOrder must be 0 or 1", "iterateOrder", lambda r: r.iterateOrder in (0, 1)),
    fields_check("tiling.bl1_bound", "bl1Bound must hold the input of stepKb * baseK positions, stepN * baseN columns",
                 "bl1Bound stepKb baseK stepN baseN",
                 lambda r: r.bl1Bound >= r.input_elements_in_l1(r.stepKb * r.baseK, r.stepN * r.baseN)),
    fields_check("tiling.single", "singleCoreDk, singleCoreGroup and singleCoreBatch must be 1",
                 "singleCoreDk singleCoreGroup singleCoreBatch",
                 lambda r: r.singleCoreDk == r.singleCoreGroup == r.singleCoreBatch == 1),
)  # fmt: skip

CAPACITIES: tuple[Check[Record], ...] = (
    capacity_check("L0A", lambda p: p.l0ASize, lambda r: r.baseM * r.baseK * ELEMENT_BYTES * l0_buffers(r),
                   lambda r: f"baseM {r.baseM} * baseK {r.baseK} * {ELEMENT_BYTES} bytes * {l0_buffers(r)} buffers"),
    capacity_check("L0B", lambda p: p.l0BSize, lambda r: r.baseK * r.baseN * ELEMENT_BYTES * l0_buffers(r),
                   lambda r: f"baseK {r.baseK} * baseN {r.baseN} * {ELEMENT_BYTES} bytes * {l0_buffers(r)} buffers"),
    capacity_check("L0C", lambda p: p.l0CSize, lambda r: r.baseM * r.baseN * 4 * r.cl0Pbuffer,
                   lambda r: f"baseM {r.baseM} * baseN {r.baseN} * 4 bytes * {r.cl0Pbuffer} buffers"),
    capacity_check("L1", lambda p: p.l1Size, l1_bytes,
                   lambda r: f"gradOutput {a1_bytes(r)} * {r.al1Pbuffer} + input {b1_bytes(r)} * {r.bl1Pbuffer}"),
)  # fmt: skip


def broken_filter_checks(record: Record, platform: PlatformInfo) -> list[tuple[Check[Record], str]]:
    """Every row that does not hold, with its numbers; capacities only once the fields are consistent."""
    return first_broken((POSITIVE, CONSISTENCY, CAPACITIES), record, platform)


def check_filter_record(record: Record, platform: PlatformInfo) -> None:
    """Raise TilingError or CapacityError naming every demand the record breaks."""
    raise_broken(broken_filter_checks(record, platform))
