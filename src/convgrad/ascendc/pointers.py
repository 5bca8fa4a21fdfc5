"""Where the three pointers of Conv3DBackpropInput stand, read back from their offsets, and the mistakes that shows.

The object adds depth itself from absolute indices, so no offset may hold a term for a plane:

    gradOutput = batch start + max(0, ceil(hoStart / strideH)) * Wo * C0   (+ first cout block * Ho * Wo * C0)
    weight     = first cin block * Kh * Kw * N1 * 16 * C0                  (+ first cout block * 16 * C0)
    gradInput  = batch start + first cin block * Hi * Wi * C0 + first row * Wi * C0
"""

from __future__ import annotations

from dataclasses import dataclass

from .filter_record import TConv3DDwTiling
from .input_record import TConv3DBackpropInputTiling
from .tiling_record import ceil_div
from .walk import SingleShape


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


def grad_output_mistakes(
    t: TConv3DBackpropInputTiling, offset: int, ho_start: int, shape: SingleShape
) -> list[Mistake]:
    """What is wrong with the gradOutput pointer of a walk that starts at expanded row `ho_start`."""
    place = place_in_ndc1hwc0(offset, t.dout, t.cout1, t.ho, t.wo * t.c0)
    expected_row = max(0, ceil_div(ho_start, t.strideH))
    if place.plane:
        return [
            Mistake(
                "pointer.depth",
                f"SetGradOutput offset {offset} holds a depth term (plane {place.plane})",
                "leave the plane out, the object adds it from SetStartPosition's din",
            )
        ]
    if place.rest:
        return [
            Mistake(
                "pointer.row_start",
                f"SetGradOutput offset {offset} stands {place.rest} elements inside a row",
                f"start at a row: a multiple of wo * c0 = {t.wo * t.c0}",
            )
        ]
    if place.row != expected_row:
        return [
            Mistake(
                "pointer.row",
                f"SetGradOutput offset {offset} stands at row {place.row} of gradOutput",
                f"hoStart {ho_start} needs row max(0, ceil(hoStart / strideH)) = {expected_row}",
            )
        ]
    return past_the_end("pointer.cout_range", "cout blocks of gradOutput", place.block, shape.cout1, t.cout1)


def weight_mistakes(t: TConv3DBackpropInputTiling, offset: int, shape: SingleShape) -> list[Mistake]:
    """What is wrong with the weight pointer."""
    per_cin = t.window_area * t.weight_cout * t.c0
    cin_blocks, rest = divmod(offset, per_cin)
    if cin_blocks >= t.cin1:
        return [
            Mistake(
                "pointer.depth",
                f"SetWeight offset {offset} holds a depth term (window plane {cin_blocks // t.cin1})",
                "leave the window plane out, the object adds it",
            )
        ]
    if rest % (16 * t.c0) or rest >= t.weight_cout * t.c0:
        return [
            Mistake(
                "pointer.weight_block",
                f"SetWeight offset {offset} stands {rest} elements inside a cin block",
                f"start at a cin block: a multiple of hk * wk * N1 * 16 * c0 = {per_cin}",
            )
        ]
    cout_block, cout_blocks = rest // (16 * t.c0), t.weight_cout // 16
    return past_the_end("pointer.cin_range", "cin blocks of weight", cin_blocks, shape.n.total // t.c0, t.cin1) or (
        past_the_end("pointer.cout_range", "cout blocks of weight", cout_block, shape.cout1, cout_blocks)
    )


def start_row_mistakes(t: TConv3DBackpropInputTiling, first_row: int, ho_start: int) -> list[Mistake]:
    """What is wrong with hoStart for a single shape whose first gradInput row is `first_row`."""
    expected = first_row - t.backpropPadUp
    if ho_start == expected:
        return []
    if ho_start == first_row:
        advice = f"subtract the top pad: first row {first_row} - backpropPadUp {t.backpropPadUp} = {expected}"
        return [Mistake("start.top_pad", f"SetStartPosition hoStart {ho_start} is the gradInput row itself", advice)]
    hint = " (hoStart counts expanded rows: do not divide by the stride)" if t.strideH > 1 else ""
    return [
        Mistake(
            "start.row",
            f"SetStartPosition hoStart {ho_start} does not belong to gradInput row {first_row}",
            f"it must be first row {first_row} - backpropPadUp {t.backpropPadUp} = {expected}{hint}",
        )
    ]


def grad_input_mistakes(
    t: TConv3DBackpropInputTiling, offset: int, plane: int, ho_start: int, shape: SingleShape
) -> list[Mistake]:
    """What is wrong with the gradInput pointer of a walk over `plane` that starts at expanded row `ho_start`."""
    place = place_in_ndc1hwc0(offset, t.di, t.cin1, t.hi, t.wi * t.c0)
    if place.plane:
        twice = "; the plane is counted twice" if place.plane == plane else ""
        return [
            Mistake(
                "pointer.depth",
                f"GetTensorC offset {offset} holds a depth term (plane {place.plane}){twice}",
                "leave the plane out, the object adds it from SetStartPosition's din",
            )
        ]
    if place.rest:
        return [
            Mistake(
                "pointer.row_start",
                f"GetTensorC offset {offset} stands {place.rest} elements inside a row",
                f"start at a row: a multiple of wi * c0 = {t.wi * t.c0}",
            )
        ]
    return (
        start_row_mistakes(t, place.row, ho_start)
        or past_the_end("pointer.plane_range", "positions of gradInput", place.row * t.wi, shape.m.total, t.hi * t.wi)
        or past_the_end("pointer.cin_range", "cin blocks of gradInput", place.block, shape.n.total // t.c0, t.cin1)
    )


def pairing_mistakes(t: TConv3DBackpropInputTiling, grad_output: int, weight: int, grad_input: int) -> list[Mistake]:
    """Pointers that are sound alone and do not belong together: other batch, other channel blocks."""
    a = place_in_ndc1hwc0(grad_output, t.dout, t.cout1, t.ho, t.wo * t.c0)
    c = place_in_ndc1hwc0(grad_input, t.di, t.cin1, t.hi, t.wi * t.c0)
    per_cin = t.window_area * t.weight_cout * t.c0
    cin_block, cout_block = weight // per_cin, weight % per_cin // (16 * t.c0)
    found = []
    if a.batch != c.batch:
        found.append(
            Mistake(
                "pointer.batch",
                f"gradOutput stands in batch {a.batch}, gradInput in batch {c.batch}",
                "use the same batch in both offsets",
            )
        )
    if cin_block != c.block:
        found.append(
            Mistake(
                "pointer.cin_block",
                f"weight stands at cin block {cin_block}, gradInput at {c.block}",
                "use the same first cin block in both offsets",
            )
        )
    if cout_block != a.block:
        found.append(
            Mistake(
                "pointer.cout_block",
                f"weight stands at cout block {cout_block}, gradOutput at {a.block}",
                "use the same first cout block in both offsets",
            )
        )
    return found


def filter_mistakes(
    t: TConv3DDwTiling, grad_output: int, input: int, grad_weight: int, ho_start: int, m_total: int, n_total: int
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
    return (
        broken
        or past_the_end("pointer.cin_range", "cin blocks of the input", b.block, cin_blocks, t.cin1G)
        or past_the_end("pointer.cout_range", "channels of gradWeight", a.block * t.c0, m_total, t.weight_cout)
    )
