"""Every demand on a tiling record of Conv3DBackpropInput, one row each; a record is checked, never trusted."""

from __future__ import annotations

from .input_record import TConv3DBackpropInputTiling
from .platform import PlatformInfo
from .record_checks import Check, capacity_check, fields_check, first_broken, raise_broken, rows_of, slack_rows
from .tiling_record import ceil_div

Record = TConv3DBackpropInputTiling

MUST_BE_POSITIVE = ("singleCoreCout1", "singleCoreM", "singleCoreCin1", "singleCoreDin", "c0")


def trailing_pad(size: int, out: int, stride: int, pad_before: int) -> int:
    """Zero cells after the expanded gradOutput; outside 0...255 the unexpanded difference stands instead."""
    exact = size - ((out - 1) * stride + 1) + pad_before
    return exact if 0 <= exact <= 255 else max(0, size - out * stride + pad_before)


def leaves_elements_unwritten(r: Record) -> bool:
    """True when some gradInput plane has no window plane, or some bottom rows lie past the last window."""
    # Between the edges every plane is like the one a stride before it: the edges and one stride beside them tell all.
    first_edge = range(min(r.di, (r.dk - 1) * r.dilationD + r.strideD))
    last_edge = range(max(0, (r.dout - 1) * r.strideD - r.padFront - r.strideD), r.di)
    edges = (plane for edge in (first_edge, last_edge) for plane in edge)
    return slack_rows(r) > r.padDown or any(not r.depth_taps(plane) for plane in edges)


def a1_bytes(r: Record) -> int:
    """One L1 buffer of gradOutput: the window's rows at full expanded width for stepKa products."""
    return (
        min(r.window_rows, r.expanded_rows) * r.wo * r.strideW * (r.stepKa * r.baseK // r.window_area) * r.element_bytes
    )


def b1_bytes(r: Record) -> int:
    """One L1 buffer of weight: baseN channels for stepKb products."""
    return r.stepN * r.baseN * r.stepKb * r.baseK * r.element_bytes


def l1_bytes(r: Record) -> int:
    """All L1 buffers."""
    return a1_bytes(r) * r.al1Pbuffer + b1_bytes(r) * r.bl1Pbuffer


def weights_stay(r: Record) -> bool:
    """True when the weights are loaded once per single shape and kept in L1."""
    return (
        r.dk == 1
        and r.bl1Pbuffer == 1
        and r.baseK * r.stepKb >= r.singleCoreCout * r.window_area
        and r.stepN * r.baseN // r.c0 >= r.singleCoreCin1
    )


CONSISTENCY: tuple[Check[Record], ...] = (
    fields_check(
        "tiling.c0",
        "c0 must be 16 (c0Bits 4), or 8 (c0Bits 3) for float32",
        "c0 c0Bits",
        lambda r: (r.c0, r.c0Bits) in ((16, 4), (8, 3)),
    ),
    fields_check(
        "tiling.cout1",
        "cout1 and cout1G must be cout / c0 rounded up",
        "cout c0 cout1 cout1G",
        lambda r: r.cout1 == r.cout1G == ceil_div(r.cout, r.c0),
    ),
    fields_check(
        "tiling.cin1",
        "cin1 and cin1G must be cin / c0 rounded up",
        "cin c0 cin1 cin1G",
        lambda r: r.cin1 == r.cin1G == ceil_div(r.cin, r.c0),
    ),
    fields_check(
        "tiling.pad_up",
        "backpropPadUp must be (hk - 1) * dilationH - padUp, in 0...255",
        "backpropPadUp hk dilationH padUp",
        lambda r: r.backpropPadUp == (r.hk - 1) * r.dilationH - r.padUp and r.backpropPadUp <= 255,
    ),
    fields_check(
        "tiling.pad_left",
        "backpropPadLeft must be (wk - 1) * dilationW - padLeft, in 0...255",
        "backpropPadLeft wk dilationW padLeft",
        lambda r: r.backpropPadLeft == (r.wk - 1) * r.dilationW - r.padLeft and r.backpropPadLeft <= 255,
    ),
    fields_check(
        "tiling.pad_down",
        "backpropPadDown must follow from hi, ho, strideH and padUp",
        "backpropPadDown hi ho strideH padUp",
        lambda r: r.backpropPadDown == trailing_pad(r.hi, r.ho, r.strideH, r.padUp),
    ),
    fields_check(
        "tiling.pad_right",
        "backpropPadRight must follow from wi, wo, strideW and padLeft",
        "backpropPadRight wi wo strideW padLeft",
        lambda r: r.backpropPadRight == trailing_pad(r.wi, r.wo, r.strideW, r.padLeft),
    ),
    fields_check(
        "tiling.pad_tail",
        "backpropPadTail must follow from di, dout, strideD and padFront",
        "backpropPadTail di dout strideD padFront",
        lambda r: r.backpropPadTail == trailing_pad(r.di, r.dout, r.strideD, r.padFront),
    ),
    fields_check("tiling.step1", "stepM and stepN must be 1", "stepM stepN", lambda r: r.stepM == r.stepN == 1),
    fields_check(
        "tiling.step_ka",
        "stepKa * baseK must be a multiple of hk * wk * c0 and at most 65535",
        "stepKa baseK hk wk c0",
        lambda r: r.stepKa * r.baseK % r.k_of_block == 0 and r.stepKa * r.baseK <= 65535,
    ),
    fields_check(
        "tiling.step_kb",
        "stepKb * baseK must be a multiple of hk * wk * c0",
        "stepKb baseK hk wk c0",
        lambda r: r.stepKb * r.baseK % r.k_of_block == 0,
    ),
    fields_check(
        "tiling.single_m",
        "singleCoreM must be whole gradInput rows",
        "singleCoreM wi",
        lambda r: r.singleCoreM % r.wi == 0,
    ),
    fields_check(
        "tiling.single_cin",
        "singleCoreCin must be the channels in singleCoreCin1 blocks, at most cin",
        "singleCoreCin singleCoreCin1 cin",
        lambda r: r.singleCoreCin == min(r.cin, r.singleCoreCin1 * r.c0),
    ),
    fields_check(
        "tiling.single_cout",
        "singleCoreCout must be the channels in singleCoreCout1 blocks, at most cout",
        "singleCoreCout singleCoreCout1 cout",
        lambda r: r.singleCoreCout == min(r.cout, r.singleCoreCout1 * r.c0),
    ),
    fields_check(
        "tiling.zeroing",
        "initOutputFlag must be 1 when some gradInput elements are never written, else 0 or 1",
        "initOutputFlag",
        lambda r: r.initOutputFlag == 1 or (r.initOutputFlag == 0 and not leaves_elements_unwritten(r)),
    ),
)


L1: Check[Record] = capacity_check(
    "L1",
    lambda p: p.l1Size,
    l1_bytes,
    lambda r: f"gradOutput {a1_bytes(r)} * {r.al1Pbuffer} + weight {b1_bytes(r)} * {r.bl1Pbuffer}",
)
ROWS = rows_of(MUST_BE_POSITIVE, CONSISTENCY, L1)


def broken_checks(record: Record, platform: PlatformInfo) -> list[tuple[Check[Record], str]]:
    """Every row that does not hold, with its numbers; capacities only once the fields are consistent."""
    return first_broken(ROWS, record, platform)


def check_record(record: Record, platform: PlatformInfo) -> None:
    """Raise TilingError or CapacityError naming every demand the record breaks."""
    raise_broken(broken_checks(record, platform))
