"""Run an author's own Conv3DBackpropFilter kernel without arithmetic: what it adds where, what is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.core import layouts

from .conv_type import ConvDtype, half
from .coverage import AnyCore, Finding, Findings, KernelReport, Ledger, Steps, dry_tensor, run_on_cores
from .filter_checks import check_filter_record
from .filter_record import TConv3DDwTiling
from .global_tensor import GlobalTensor
from .kernel_filter import Conv3DBackpropFilter, PartOfSum
from .platform import PlatformInfo
from .reduction import Reduction
from .simulate_filter import filter_types


@dataclass(slots=True)
class FilterCore(AnyCore[TConv3DDwTiling, Conv3DBackpropFilter]):
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
        head = (
            f"{self.elements} elements: {self.summed} summed, {self.only_zeroed} only zeroed, {self.never_written} "
            f"never written, {self.overwritten} overwritten, {self.written_by_two_cores} stored by two cores, "
            f"{self.out_of_range} out of range\n{self.terms} terms: {self.terms_missing} missing, {self.terms_twice} "
            f"more than once; {self.cores_used} cores"
        )
        return self.lines(head)


def check_filter_kernel(
    author: FilterAuthorKernel, tiling: TConv3DDwTiling, *, cores: int = 24, dtype: ConvDtype = half,
    platform: PlatformInfo | None = None,
) -> FilterCoverageReport:  # fmt: skip
    """Run the author's offsets, start positions and call order on every core, computing nothing, and report.

    `author(core)` is the kernel of one core; `yield` in it stands for SyncAll. Only tiles added or stored in gradWeight
    itself count: an ordered sum through a workspace (enSequentialWrite) is not followed.
    """
    sizes = platform or PlatformInfo()
    check_filter_record(tiling, sizes)
    storage = filter_types(dtype)[0].storage
    shape = (tiling.cout, tiling.cin, tiling.dk, tiling.hk, tiling.wk)

    def name_of(flat: int) -> str:
        return "(cout {}, cin {}, kd {}, kh {}, kw {})".format(*layouts.element_fractal_z_3d(shape, tiling.c0, flat))

    ledger, reduction = Ledger(tiling.grad_weight_size), Reduction(tiling)
    findings = Findings(ledger, name_of)
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


def summarise(
    t: TConv3DDwTiling, ledger: Ledger, reduction: Reduction, findings: Findings
) -> FilterCoverageReport:
    """Counts from both ledgers, and the findings that only show when everything is over."""
    due = np.repeat([len(t.planes_met(kd)) > 0 for kd in range(t.dk)], t.grad_weight_size // t.dk)
    never, unzeroed = ledger.untouched & due, ledger.untouched & ~due & ~ledger.zeroed
    findings.elements("coverage.never_written", never, "elements that no tile is added to")
    text = "window planes that never meet the input have no tiles: zero them"
    findings.elements("coverage.zeroing", unzeroed, text)
    findings.order_of_zeroing("gradWeight")
    text = "elements stored (enAtomic 0) over the sums already there: add them (enAtomic 1)"
    findings.elements("coverage.overwritten", ledger.overwritten & ~ledger.two_cores, text)
    text = "elements that one core stores (enAtomic 0) and another stores or adds to: only atomic adds may meet"
    findings.elements("coverage.two_cores", ledger.two_cores, text)
    counts = reduction.count()
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
    author: FilterAuthorKernel, tiling: TConv3DDwTiling, input_gm: NDArray[Any], grad_output_gm: NDArray[Any], *,
    cores: int = 24, dtype: ConvDtype = half, platform: PlatformInfo | None = None,
) -> NDArray[np.float32]:  # fmt: skip
    """Run the same kernel with arithmetic, strictly; gradWeight in FRACTAL_Z_3D, NaN wherever nothing was zeroed."""
    grad_weight = np.full(tiling.grad_weight_size, np.nan, np.float32)
    grad_output = GlobalTensor(grad_output_gm, name="gradOutput")
    others = (GlobalTensor(input_gm, name="input"), GlobalTensor(grad_weight, name="gradWeight"))

    def new_kernel(core: int) -> Conv3DBackpropFilter:
        return Conv3DBackpropFilter(*filter_types(dtype), platform=platform)

    all_cores = [FilterCore(number, cores, tiling, grad_output, new_kernel, *others) for number in range(cores)]
    run_on_cores(author, all_cores)
    return grad_weight
