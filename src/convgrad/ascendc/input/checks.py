"""Every demand on a tiling record of Conv3DBackpropInput, one row each, and on the pointers of a walk.

A record is checked, never trusted. The object adds depth itself from absolute indices, so no offset may hold a term for
a plane:

    gradOutput = batch start + max(0, ceil(hoStart / strideH)) * Wo * C0   (+ first cout block * Ho * Wo * C0)
    weight     = first cin block * Kh * Kw * N1 * 16 * C0                  (+ first cout block * 16 * C0)
    gradInput  = batch start + first cin block * Hi * Wi * C0 + first row * Wi * C0
"""

from __future__ import annotations

from ..device.platform import PlatformInfo
from ..shared.arguments import instance
from ..shared.pointers import Mistake, past_the_end, place_in_ndc1hwc0
from ..shared.record_checks import Check, capacity_check, fields_check, first_broken, raise_broken, rows_of, slack_rows
from ..shared.tiling_record import ceil_div
from .record import TConv3DBackpropInputTiling
from .walk import SingleShape

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


def trailing_pad_rows(r: Record) -> int:
    """backpropPadDown as it follows from the sizes."""
    return trailing_pad(r.hi, r.ho, r.strideH, r.padUp)


def trailing_pad_columns(r: Record) -> int:
    """backpropPadRight as it follows from the sizes."""
    return trailing_pad(r.wi, r.wo, r.strideW, r.padLeft)


def trailing_pad_planes(r: Record) -> int:
    """backpropPadTail as it follows from the sizes."""
    return trailing_pad(r.di, r.dout, r.strideD, r.padFront)


CONSISTENCY: tuple[Check[Record], ...] = (
    fields_check("tiling.c0", "c0 must be 16 (c0Bits 4), or 8 (c0Bits 3) for float32", "c0 c0Bits",
                 "c0 == 16 and c0Bits == 4 or c0 == 8 and c0Bits == 3"),
    fields_check("tiling.cout1", "cout1 and cout1G must be cout / c0 rounded up", "cout c0 cout1 cout1G",
                 "cout1 == cout1G == ceil_div(cout, c0)"),
    fields_check("tiling.cin1", "cin1 and cin1G must be cin / c0 rounded up", "cin c0 cin1 cin1G",
                 "cin1 == cin1G == ceil_div(cin, c0)"),
    fields_check("tiling.pad_up", "backpropPadUp must be (hk - 1) * dilationH - padUp, in 0...255",
                 "backpropPadUp hk dilationH padUp", "backpropPadUp == (hk - 1) * dilationH - padUp <= 255"),
    fields_check("tiling.pad_left", "backpropPadLeft must be (wk - 1) * dilationW - padLeft, in 0...255",
                 "backpropPadLeft wk dilationW padLeft", "backpropPadLeft == (wk - 1) * dilationW - padLeft <= 255"),
    fields_check("tiling.pad_down", "backpropPadDown must follow from hi, ho, strideH and padUp",
                 "backpropPadDown hi ho strideH padUp", "backpropPadDown == trailing_pad_rows",
                 trailing_pad_rows=trailing_pad_rows),
    fields_check("tiling.pad_right", "backpropPadRight must follow from wi, wo, strideW and padLeft",
                 "backpropPadRight wi wo strideW padLeft", "backpropPadRight == trailing_pad_columns",
                 trailing_pad_columns=trailing_pad_columns),
    fields_check("tiling.pad_tail", "backpropPadTail must follow from di, dout, strideD and padFront",
                 "backpropPadTail di dout strideD padFront", "backpropPadTail == trailing_pad_planes",
                 trailing_pad_planes=trailing_pad_planes),
    fields_check("tiling.step1", "stepM and stepN must be 1", "stepM stepN", "stepM == stepN == 1"),
    fields_check("tiling.step_ka", "stepKa * baseK must be a multiple of hk * wk * c0 and at most 65535",
                 "stepKa baseK hk wk c0", "stepKa * baseK % k_of_block == 0 and stepKa * baseK <= 65535"),
    fields_check("tiling.step_kb", "stepKb * baseK must be a multiple of hk * wk * c0", "stepKb baseK hk wk c0",
                 "stepKb * baseK % k_of_block == 0"),
    fields_check("tiling.single_m", "singleCoreM must be whole gradInput rows", "singleCoreM wi",
                 "singleCoreM % wi == 0"),
    fields_check("tiling.single_cin",
                 "singleCoreCin must be the channels in singleCoreCin1 blocks, at most cin, or these blocks whole",
                 "singleCoreCin singleCoreCin1 cin",
                 "singleCoreCin in (min(cin, singleCoreCin1 * c0), singleCoreCin1 * c0)"),
    fields_check("tiling.single_cout",
                 "singleCoreCout must be the channels in singleCoreCout1 blocks, at most cout, or these blocks whole",
                 "singleCoreCout singleCoreCout1 cout",
                 "singleCoreCout in (min(cout, singleCoreCout1 * c0), singleCoreCout1 * c0)"),
    fields_check("tiling.zeroing",
                 "initOutputFlag must be 1 when some gradInput elements are never written, else 0 or 1",
                 "initOutputFlag", "initOutputFlag == 1 or initOutputFlag == 0 and not leaves_elements_unwritten",
                 leaves_elements_unwritten=leaves_elements_unwritten),
)  # fmt: skip


L1: Check[Record] = capacity_check(
    "L1", "l1Size", "gradOutput {a1_bytes} * {al1Pbuffer} + weight {b1_bytes} * {bl1Pbuffer}",
    l1_bytes=l1_bytes, a1_bytes=a1_bytes, b1_bytes=b1_bytes,
)  # fmt: skip
ROWS = rows_of(MUST_BE_POSITIVE, CONSISTENCY, L1)


def broken_checks(record: Record, platform: PlatformInfo) -> list[tuple[Check[Record], str]]:
    """Every row that does not hold, with its numbers; capacities only once the fields are consistent."""
    return first_broken(ROWS, record, platform)


def check_record(record: Record, platform: PlatformInfo) -> None:
    """Raise TilingError or CapacityError naming every demand the record breaks."""
    instance(record, Record, "record")
    instance(platform, PlatformInfo, "platform")
    raise_broken(broken_checks(record, platform))


# ---- pointers


def grad_output_mistakes(t: Record, offset: int, ho_start: int, shape: SingleShape) -> list[Mistake]:
    """What is wrong with the gradOutput pointer of a walk that starts at expanded row `ho_start`."""
    place = place_in_ndc1hwc0(offset, t.dout, t.cout1, t.ho, t.wo * t.c0)
    expected_row = max(0, ceil_div(ho_start, t.strideH))
    if place.plane:
        found = f"SetGradOutput offset {offset} holds a depth term (plane {place.plane})"
        return [Mistake("pointer.depth", found, "leave the plane out, the object adds it from SetStartPosition's din")]
    if place.rest:
        found = f"SetGradOutput offset {offset} stands {place.rest} elements inside a row"
        return [Mistake("pointer.row_start", found, f"start at a row: a multiple of wo * c0 = {t.wo * t.c0}")]
    if place.row != expected_row:
        found = f"SetGradOutput offset {offset} stands at row {place.row} of gradOutput"
        advice = f"hoStart {ho_start} needs row max(0, ceil(hoStart / strideH)) = {expected_row}"
        return [Mistake("pointer.row", found, advice)]
    return past_the_end("pointer.cout_range", "cout blocks of gradOutput", place.block, shape.cout1, t.cout1)


def weight_mistakes(t: Record, offset: int, shape: SingleShape) -> list[Mistake]:
    """What is wrong with the weight pointer."""
    per_cin = t.window_area * t.weight_cout * t.c0
    cin_blocks, rest = divmod(offset, per_cin)
    if cin_blocks >= t.cin1:
        found = f"SetWeight offset {offset} holds a depth term (window plane {cin_blocks // t.cin1})"
        return [Mistake("pointer.depth", found, "leave the window plane out, the object adds it")]
    if rest % (16 * t.c0) or rest >= t.weight_cout * t.c0:
        found = f"SetWeight offset {offset} stands {rest} elements inside a cin block"
        advice = f"start at a cin block: a multiple of hk * wk * N1 * 16 * c0 = {per_cin}"
        return [Mistake("pointer.weight_block", found, advice)]
    cout_block, cout_blocks = rest // (16 * t.c0), t.weight_cout // 16
    return past_the_end("pointer.cin_range", "cin blocks of weight", cin_blocks, shape.n.total // t.c0, t.cin1) or (
        past_the_end("pointer.cout_range", "cout blocks of weight", cout_block, shape.cout1, cout_blocks)
    )


def start_row_mistakes(t: Record, first_row: int, ho_start: int) -> list[Mistake]:
    """What is wrong with hoStart for a single shape whose first gradInput row is `first_row`."""
    expected = first_row - t.backpropPadUp
    if ho_start == expected:
        return []
    if ho_start == first_row:
        advice = f"subtract the top pad: first row {first_row} - backpropPadUp {t.backpropPadUp} = {expected}"
        return [Mistake("start.top_pad", f"SetStartPosition hoStart {ho_start} is the gradInput row itself", advice)]
    hint = " (hoStart counts expanded rows: do not divide by the stride)" if t.strideH > 1 else ""
    found = f"SetStartPosition hoStart {ho_start} does not belong to gradInput row {first_row}"
    advice = f"it must be first row {first_row} - backpropPadUp {t.backpropPadUp} = {expected}{hint}"
    return [Mistake("start.row", found, advice)]


def grad_input_mistakes(t: Record, offset: int, plane: int, ho_start: int, shape: SingleShape) -> list[Mistake]:
    """What is wrong with the gradInput pointer of a walk over `plane` that starts at expanded row `ho_start`."""
    place = place_in_ndc1hwc0(offset, t.di, t.cin1, t.hi, t.wi * t.c0)
    if place.plane:
        twice = "; the plane is counted twice" if place.plane == plane else ""
        found = f"GetTensorC offset {offset} holds a depth term (plane {place.plane}){twice}"
        return [Mistake("pointer.depth", found, "leave the plane out, the object adds it from SetStartPosition's din")]
    if place.rest:
        found = f"GetTensorC offset {offset} stands {place.rest} elements inside a row"
        return [Mistake("pointer.row_start", found, f"start at a row: a multiple of wi * c0 = {t.wi * t.c0}")]
    return (
        start_row_mistakes(t, place.row, ho_start)
        or past_the_end("pointer.plane_range", "positions of gradInput", place.row * t.wi, shape.m.total, t.hi * t.wi)
        or past_the_end("pointer.cin_range", "cin blocks of gradInput", place.block, shape.n.total // t.c0, t.cin1)
    )


def pairing_mistakes(t: Record, grad_output: int, weight: int, grad_input: int) -> list[Mistake]:
    """Pointers that are sound alone and do not belong together: other batch, other channel blocks."""
    a = place_in_ndc1hwc0(grad_output, t.dout, t.cout1, t.ho, t.wo * t.c0)
    c = place_in_ndc1hwc0(grad_input, t.di, t.cin1, t.hi, t.wi * t.c0)
    per_cin = t.window_area * t.weight_cout * t.c0
    cin_block, cout_block = weight // per_cin, weight % per_cin // (16 * t.c0)
    found = []
    if a.batch != c.batch:
        what = f"gradOutput stands in batch {a.batch}, gradInput in batch {c.batch}"
        found.append(Mistake("pointer.batch", what, "use the same batch in both offsets"))
    if cin_block != c.block:
        what = f"weight stands at cin block {cin_block}, gradInput at {c.block}"
        found.append(Mistake("pointer.cin_block", what, "use the same first cin block in both offsets"))
    if cout_block != a.block:
        what = f"weight stands at cout block {cout_block}, gradOutput at {a.block}"
        found.append(Mistake("pointer.cout_block", what, "use the same first cout block in both offsets"))
    return found
