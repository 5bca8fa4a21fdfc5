"""Run an author's own Conv3DBackpropFilter kernel without arithmetic: what it adds where, what is lost or doubled.

gradWeight of a window plane is a sum over batches, gradOutput planes and rows; every row must come in once. A term is
one gradOutput row summed into one block of 16 channels x 16 columns, and `Reduction` is the ledger of terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import layouts
from convgrad.core.arrays import as_array

from ..device.conv_type import ConvDtype, half
from ..device.global_tensor import GlobalTensor
from ..device.platform import PlatformInfo
from ..shared.arguments import launched
from ..shared.coverage import AnyCore, Finding, Findings, KernelReport, Ledger, Steps, dry_tensor, run_on_cores
from ..shared.pointers import place_in_ndc1hwc0
from ..shared.tiling_record import ceil_div
from .checks import check_filter_record
from .kernel import Conv3DBackpropFilter, PartOfSum
from .record import TConv3DBpFilterTiling
from .simulate import filter_types

Span = tuple[int, int]


@dataclass(slots=True)
class FilterCore(AnyCore[TConv3DBpFilterTiling, Conv3DBackpropFilter]):
    """What an author's kernel gets: its core number, the tensors in global memory, the tiling, and new objects."""

    inputGm: GlobalTensor
    gradWeightGm: GlobalTensor


FilterAuthorKernel = Callable[[FilterCore], Steps | None]


@dataclass(frozen=True, slots=True)
class FilterCoverageReport(KernelReport):
    """What a kernel does to gradWeight, element by element and term by term, and the mistakes it was seen to make.

    A term is one gradOutput row summed into 16 channels x 16 columns; each must come in once.
    """

    summed: int
    overwritten: int
    terms: int
    terms_missing: int
    terms_twice: int

    def __str__(self) -> str:
        terms = f"{self.terms} terms: {self.terms_missing} missing, {self.terms_twice} more than once"
        head = (
            f"{self.elements} elements: {self.summed} summed, {self.only_zeroed} only zeroed, {self.never_written} "
            f"never written, {self.overwritten} overwritten, {self.written_by_two_cores} stored by two cores, "
            f"{self.out_of_range} out of range\n{terms if self.terms else 'terms were not counted'}; "
            f"{self.cores_used} cores"
        )
        return self.lines(head)


def check_filter_kernel(
    author: FilterAuthorKernel, tiling: TConv3DBpFilterTiling, *, cores: int = 24, dtype: ConvDtype = half,
    platform: PlatformInfo | None = None,
) -> FilterCoverageReport:  # fmt: skip
    """Run the author's offsets, start positions and call order on every core, computing nothing, and report.

    `author(core)` is the kernel of one core; `yield` in it stands for SyncAll. Only tiles added or stored in gradWeight
    itself count: an ordered sum through a workspace (enSequentialWrite) is not followed.
    """
    cores, sizes = launched(author, tiling, TConv3DBpFilterTiling, cores, platform)
    check_filter_record(tiling, sizes)
    storage = filter_types(dtype)[0].storage
    ledger, reduction = Ledger(tiling.grad_weight_size), Reduction(tiling)
    findings = Findings(ledger, element_name(tiling))
    grad_weight = dry_tensor(tiling.grad_weight_size, np.dtype(np.float32), "gradWeight", ledger)

    def taken(part: PartOfSum) -> None:
        if part.output.memory is grad_weight.memory:
            reduction.summed(part)

    def new_kernel(core: int) -> Conv3DBackpropFilter:
        return Conv3DBackpropFilter(*filter_types(dtype), dry=True, report=findings.refused, taken=taken,
                                    platform=sizes)  # fmt: skip

    grad_output = dry_tensor(tiling.grad_output_size, storage, "gradOutput")
    others = (dry_tensor(tiling.input_size, storage, "input"), grad_weight)
    all_cores = [FilterCore(number, cores, tiling, grad_output, new_kernel, *others) for number in range(cores)]
    run_on_cores(author, all_cores, ledger.enter, findings.refused)
    return summarise(tiling, ledger, reduction, findings)


def element_name(t: TConv3DBpFilterTiling) -> Callable[[int], str]:
    """Names an element of the result by its place in memory."""
    shape = (t.cout, t.cin, t.dk, t.hk, t.wk)
    words = "(cout {}, cin {}, kd {}, kh {}, kw {})"
    return lambda flat: words.format(*layouts.element_fractal_z_3d(shape, t.c0, flat))


def summarise(
    t: TConv3DBpFilterTiling, ledger: Ledger, reduction: Reduction | None, findings: Findings
) -> FilterCoverageReport:
    """Counts from both ledgers, and the findings that only show when everything is over; terms may go uncounted."""
    size, per_plane = ledger.stores.size, t.grad_weight_size // t.dk  # memory that is too small holds the first of them
    due = np.repeat([len(t.planes_met(kd)) > 0 for kd in range(min(t.dk, ceil_div(size, per_plane)))], per_plane)[:size]
    never, unzeroed = ledger.untouched & due, ledger.untouched & ~due & ~ledger.zeroed
    findings.elements("coverage.never_written", never, "elements that no tile is added to")
    text = "window planes that never meet the input have no tiles: zero them"
    findings.elements("coverage.zeroing", unzeroed, text)
    findings.order_of_zeroing("gradWeight")
    text = "elements stored (enAtomic 0) over the sums already there: add them (enAtomic 1)"
    findings.elements("coverage.overwritten", ledger.overwritten & ~ledger.two_cores, text)
    text = "elements that one core stores (enAtomic 0) and another stores or adds to: only atomic adds may meet"
    findings.elements("coverage.two_cores", ledger.two_cores, text)
    counts = reduction.count() if reduction is not None else TermCounts(0, 0, 0, "", "")
    for rule, first, number, words in (
        ("reduction.missing", counts.first_missing, counts.missing, "rows that are never summed"),
        ("reduction.twice", counts.first_twice, counts.twice, "rows that are summed more than once"),
    ):
        if first:
            findings.by_rule[rule] = Finding(rule, f"{words}; {number} terms of {counts.terms}, first {first}", None)
    return FilterCoverageReport(
        **findings.counts(never | unzeroed),
        summed=int(np.count_nonzero(~ledger.untouched)),
        overwritten=int(np.count_nonzero(ledger.overwritten)),
        terms=counts.terms,
        terms_missing=counts.missing,
        terms_twice=counts.twice,
    )


def run_filter_kernel(
    author: FilterAuthorKernel, tiling: TConv3DBpFilterTiling, input_gm: NDArray[Any], grad_output_gm: NDArray[Any], *,
    cores: int = 24, dtype: ConvDtype = half, platform: PlatformInfo | None = None,
) -> NDArray[np.float32]:  # fmt: skip
    """Run the same kernel with arithmetic, strictly; gradWeight in FRACTAL_Z_3D, NaN wherever nothing was zeroed."""
    cores, sizes = launched(author, tiling, TConv3DBpFilterTiling, cores, platform)
    grad_weight = np.full(tiling.grad_weight_size, np.nan, np.float32)
    grad_output = GlobalTensor(as_array(grad_output_gm, "grad_output_gm"), name="gradOutput")
    others = (GlobalTensor(as_array(input_gm, "input_gm"), name="input"), GlobalTensor(grad_weight, name="gradWeight"))

    def new_kernel(core: int) -> Conv3DBackpropFilter:
        return Conv3DBackpropFilter(*filter_types(dtype), platform=sizes)

    all_cores = [FilterCore(number, cores, tiling, grad_output, new_kernel, *others) for number in range(cores)]
    run_on_cores(author, all_cores)
    return grad_weight


@dataclass(frozen=True, slots=True)
class Box:
    """What one tile sums: rows of one gradOutput plane, into channels and columns of one window plane."""

    window_plane: int
    batch: int
    plane: int
    channels: Span
    columns: Span
    rows: Span


@dataclass(frozen=True, slots=True)
class TermCounts:
    """Terms of a whole problem: how many there are, how many are missing or too many, and the first of these."""

    terms: int
    missing: int
    twice: int
    first_missing: str
    first_twice: str


class Reduction:
    """Boxes as they are summed; counted at the end on the grid that their edges make."""

    def __init__(self, tiling: TConv3DBpFilterTiling) -> None:
        self.tiling = tiling
        self.boxes: list[Box] = []

    def summed(self, part: PartOfSum) -> None:
        """A tile was added to gradWeight; where it lies follows from the pointers."""
        t, tile = self.tiling, part.tile
        place = place_in_ndc1hwc0(part.grad_output_offset, t.dout, t.cout1, t.ho, t.wo * t.c0)
        cin_place, rest = divmod(part.output.offset, t.window_area * t.weight_cout * t.c0)
        window_plane, cin_block = divmod(cin_place, t.cin1)
        channel, column = rest // t.c0 + tile.m_start, cin_block * t.window_area * t.c0 + tile.n_start
        box = Box(window_plane, place.batch, place.plane, (channel, channel + tile.m_length),
                  (column, column + tile.n_length), (part.rows.start, part.rows.stop))  # fmt: skip
        if 0 <= box.window_plane < t.dk and 0 <= box.batch < t.batch:  # otherwise the pointers were refused
            self.boxes.append(box)

    def count(self) -> TermCounts:
        """Every term that should be there once: how often it is."""
        t = self.tiling
        channels = cuts((box.channels for box in self.boxes), t.weight_cout)
        columns = cuts((box.columns for box in self.boxes), t.cin1 * t.window_area * t.c0)
        rows = cuts((box.rows for box in self.boxes), t.ho)
        counts = np.zeros((t.dk, t.batch, t.dout, len(channels) - 1, len(columns) - 1, len(rows) - 1), np.uint32)
        for box in self.boxes:
            counts[box.window_plane, box.batch, box.plane, between(channels, box.channels),
                   between(columns, box.columns), between(rows, box.rows)] += 1  # fmt: skip
        meets = np.array([[plane in t.planes_met(kd) for plane in range(t.dout)] for kd in range(t.dk)])
        due = np.broadcast_to(meets[:, None, :, None, None, None], counts.shape)
        started = counts.any(axis=(1, 2, 5), keepdims=True)  # where no term came in at all, the elements tell it
        weights = (np.diff(channels)[:, None, None] // 16) * (np.diff(columns)[:, None] // 16) * np.diff(rows)

        def terms(where: NDArray[np.bool_]) -> int:
            return int((where * weights).sum())

        def first(where: NDArray[np.bool_]) -> str:
            if not where.any():
                return ""
            kd, n, d, m, c, r = (int(place) for place in np.argwhere(where)[0])
            return (
                f"window plane {kd}, channels {channels[m]}...{channels[m + 1] - 1}, columns {columns[c]}..."
                f"{columns[c + 1] - 1}: batch {n}, gradOutput plane {d}, rows {rows[r]}...{rows[r + 1] - 1}"
            )

        missing, twice = due & (counts == 0) & started, counts > 1
        return TermCounts(terms(due), terms(due & (counts == 0)), terms(twice), first(missing), first(twice))


def cuts(spans: Iterable[Span], size: int) -> NDArray[np.int64]:
    """Every edge of the spans inside an axis, and both its ends."""
    edges = {edge for span in spans for edge in span if 0 < edge < size}
    return np.array([0, *sorted(edges), size], np.int64)


def between(edges: NDArray[np.int64], span: Span) -> slice:
    """The cells of a cut axis that a span covers."""
    first, last = np.searchsorted(edges, span)
    return slice(int(first), int(last))
