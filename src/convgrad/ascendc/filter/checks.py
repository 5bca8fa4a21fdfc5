"""Every demand on a tiling record of Conv3DBackpropFilter, one row each, and on the pointers of a walk."""

from __future__ import annotations

from ..device.platform import PlatformInfo
from ..shared.arguments import instance
from ..shared.pointers import Mistake, past_the_end, place_in_ndc1hwc0
from ..shared.record_checks import Check, capacity_check, fields_check, first_broken, raise_broken, rows_of
from .record import TConv3DBpFilterTiling

Record = TConv3DBpFilterTiling
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


def input_of_one_load(r: Record) -> int:
    """Input elements that one L1 load touches at most."""
    return r.input_elements_in_l1(r.stepKb * r.baseK, r.stepN * r.baseN)


CONSISTENCY: tuple[Check[Record], ...] = (
    fields_check("tiling.c0", "channelSize and k0 must be 16, m0 and n0 16", "channelSize k0 m0 n0",
                 "channelSize == k0 == m0 == n0 == 16"),
    fields_check("tiling.cin1", "cin1G must be cin / channelSize rounded up", "cin cin1G channelSize",
                 "cin1G == ceil_div(cin, channelSize)"),
    fields_check("tiling.cout1", "cout1G must be cout rounded up to 16, by channelSize", "cout cout1G channelSize",
                 "cout1G == weight_cout // channelSize"),
    fields_check("tiling.bl1_bound", "bl1Bound must hold the input of stepKb * baseK positions, stepN * baseN columns",
                 "bl1Bound stepKb baseK stepN baseN", "bl1Bound >= input_of_one_load",
                 input_of_one_load=input_of_one_load),
    fields_check("tiling.single", "singleCoreDk, singleCoreGroup and singleCoreBatch must be 1",
                 "singleCoreDk singleCoreGroup singleCoreBatch",
                 "singleCoreDk == singleCoreGroup == singleCoreBatch == 1"),
)  # fmt: skip

L1: Check[Record] = capacity_check(
    "L1", "l1Size", "gradOutput {a1_bytes} * {al1Pbuffer} + input {b1_bytes} * {bl1Pbuffer}",
    l1_bytes=l1_bytes, a1_bytes=a1_bytes, b1_bytes=b1_bytes,
)  # fmt: skip
ROWS = rows_of(MUST_BE_POSITIVE, CONSISTENCY, L1)


def broken_filter_checks(record: Record, platform: PlatformInfo) -> list[tuple[Check[Record], str]]:
    """Every row that does not hold, with its numbers; capacities only once the fields are consistent."""
    return first_broken(ROWS, record, platform)


def check_filter_record(record: Record, platform: PlatformInfo) -> None:
    """Raise TilingError or CapacityError naming every demand the record breaks."""
    instance(record, Record, "record")
    instance(platform, PlatformInfo, "platform")
    raise_broken(broken_filter_checks(record, platform))


# ---- pointers


def filter_mistakes(
    t: TConv3DBpFilterTiling, grad_output: int, input: int, grad_weight: int, ho_start: int, m_total: int, n_total: int
) -> list[Mistake]:
    """What is wrong with the pointers of Conv3DBackpropFilter; here depth and batch are the caller's."""
    a = place_in_ndc1hwc0(grad_output, t.dout, t.cout1, t.ho, t.wo * t.c0)
    b = place_in_ndc1hwc0(input, t.di, t.cin1G, t.hi, t.wi * t.c0)
    per_cin = t.window_area * t.weight_cout * t.c0
    cin_place, rest = divmod(grad_weight, per_cin)
    kd, cin_block = divmod(cin_place, t.cin1G)
    expected_row = max(ho_start * t.strideH - t.padUp, 0)
    expected_plane = a.plane * t.strideD - t.padFront + kd * t.dilationD
    rows: list[tuple[bool, str, str, str]] = [
        (a.rest != 0 or a.row != ho_start, "pointer.row", f"SetGradOutput offset {grad_output} stands at row {a.row}, "
         f"element {a.rest}", f"start at row hoStart = {ho_start}"),
        (b.rest == 0 and b.row == ho_start * t.strideH != expected_row, "pointer.top_pad",
         f"SetInput offset {input} stands at row hoStart * strideH = {b.row}",
         f"subtract the top pad: max(hoStart * strideH - padUp, 0) = {expected_row}"),
        (b.rest != 0 or b.row != expected_row, "pointer.row", f"SetInput offset {input} stands at row {b.row}, element "
         f"{b.rest}", f"start at row max(hoStart * strideH - padUp, 0) = {expected_row}"),
        (rest % t.c0 != 0 or rest // t.c0 >= t.weight_cout, "pointer.weight_block",
         f"GetTensorC offset {grad_weight} stands {rest} elements inside a cin block",
         f"start at a cin block (multiples of {per_cin}) and a channel (multiples of c0)"),
        (a.batch != b.batch, "pointer.batch", f"gradOutput stands in batch {a.batch}, the input in batch {b.batch}",
         "use the same batch in both offsets"),
        (b.plane == expected_plane + t.padFront != expected_plane, "pointer.front_pad",
         f"SetInput offset {input} stands in plane dout * strideD + kd * dilationD = {b.plane}",
         f"subtract the front pad: dout * strideD - padFront + kd * dilationD = {expected_plane}"),
        (b.plane != expected_plane, "pointer.depth",
         f"input plane {b.plane}, gradOutput plane {a.plane} and window plane {kd} do not belong together",
         f"din = dout * strideD - padFront + kd * dilationD = {expected_plane}"),
        (b.block != cin_block, "pointer.cin_block", f"input stands at cin block {b.block}, gradWeight at {cin_block}",
         "use the same first cin block in both offsets"),
        (rest // t.c0 != a.block * t.c0, "pointer.cout_block",
         f"gradOutput stands at channel {a.block * t.c0}, gradWeight at {rest // t.c0}",
         "use the same first channel in both offsets"),
    ]  # fmt: skip
    broken = [Mistake(rule, found, advice) for broken, rule, found, advice in rows if broken][:1]
    cin_blocks = n_total // (t.window_area * t.c0)
    planes = min(t.dk - kd, t.di - b.plane) if cin_blocks > t.cin1G else 1  # columns may run on in the older spelling
    return (
        broken
        or past_the_end("pointer.cin_range", "cin blocks of the input", b.block, cin_blocks, planes * t.cin1G)
        or past_the_end("pointer.cout_range", "channels of gradWeight", a.block * t.c0, m_total, t.weight_cout)
    )
