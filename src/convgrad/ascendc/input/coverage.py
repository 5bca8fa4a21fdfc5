"""Run an author's own Conv3DBackpropInput kernel without arithmetic: which elements it writes, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable
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
from ..shared.coverage import AnyCore, Findings, KernelReport, Ledger, Steps, dry_tensor, run_on_cores
from .checks import check_record
from .kernel import Conv3DBackpropInput
from .record import TConv3DBackpropInputTiling
from .simulate import input_types


@dataclass(slots=True)
class Core(AnyCore[TConv3DBackpropInputTiling, Conv3DBackpropInput]):
    """What an author's kernel gets: its core number, the tensors in global memory, the tiling, and new objects."""

    weightGm: GlobalTensor
    gradInputGm: GlobalTensor


AuthorKernel = Callable[[Core], Steps | None]


@dataclass(frozen=True, slots=True)
class CoverageReport(KernelReport):
    """What a kernel does to gradInput, element by element, and the mistakes it was seen to make."""

    written_once: int
    written_twice: int

    def __str__(self) -> str:
        head = (
            f"{self.elements} elements: {self.written_once} written once, {self.only_zeroed} only zeroed, "
            f"{self.never_written} never written, {self.written_twice} written twice, "
            f"{self.written_by_two_cores} by two cores, {self.out_of_range} out of range; {self.cores_used} cores"
        )
        return self.lines(head)


def check_kernel(
    author: AuthorKernel, tiling: TConv3DBackpropInputTiling, *, cores: int = 24, dtype: ConvDtype = half,
    platform: PlatformInfo | None = None,
) -> CoverageReport:  # fmt: skip
    """Run the author's offsets, start positions and call order on every core, computing nothing, and report.

    `author(core)` is the kernel of one core; `yield` in it stands for SyncAll.
    """
    cores, sizes = launched(author, tiling, TConv3DBackpropInputTiling, cores, platform)
    check_record(tiling, sizes)
    storage = input_types(dtype)[0].storage
    ledger = Ledger(tiling.grad_input_size)
    findings = Findings(ledger, element_name(tiling))

    def new_kernel(core: int) -> Conv3DBackpropInput:
        return Conv3DBackpropInput(*input_types(dtype), block_idx=core, dry=True, report=findings.refused,
                                   platform=sizes)  # fmt: skip

    grad_output = dry_tensor(tiling.grad_output_size, storage, "gradOutput")
    others = (dry_tensor(tiling.weight_size, storage, "weight"),
              dry_tensor(tiling.grad_input_size, storage, "gradInput", ledger))  # fmt: skip
    all_cores = [Core(number, cores, tiling, grad_output, new_kernel, *others) for number in range(cores)]
    run_on_cores(author, all_cores, ledger.enter, findings.refused)
    return summarise(tiling, ledger, findings)


def element_name(t: TConv3DBackpropInputTiling) -> Callable[[int], str]:
    """Names an element of the result by its place in memory."""
    shape = (t.batch, t.cin, t.di, t.hi, t.wi)
    return lambda flat: "(n {}, c {}, d {}, h {}, w {})".format(*layouts.element_ndc1hwc0(shape, t.c0, flat))


def summarise(t: TConv3DBackpropInputTiling, ledger: Ledger, findings: Findings) -> CoverageReport:
    """Counts from the ledger, and the findings that only show when everything is over."""
    never = ledger.untouched & ~ledger.zeroed
    twice = (ledger.stores > 1) | ((ledger.stores > 0) & (ledger.adds > 0))
    if t.initOutputFlag == 1:
        text = "initOutputFlag is 1 and gradInput was not zeroed: Fill it, then let all cores meet (yield), then store"
        findings.elements("coverage.zeroing", never, text)
    else:
        findings.elements("coverage.never_written", never, "elements that no tile writes")
    findings.elements("coverage.twice", twice & ~ledger.two_cores, "elements that one core stores more than once")
    findings.elements(
        "coverage.two_cores", ledger.two_cores, "elements that two cores store; use enAtomic when K is split"
    )
    findings.order_of_zeroing("gradInput")
    return CoverageReport(
        **findings.counts(never),
        written_once=int(np.count_nonzero((ledger.stores == 1) & (ledger.adds == 0))),
        written_twice=int(np.count_nonzero(twice)),
    )


def run_kernel(
    author: AuthorKernel, tiling: TConv3DBackpropInputTiling, grad_output_gm: NDArray[Any], weight_gm: NDArray[Any], *,
    cores: int = 24, dtype: ConvDtype = half, platform: PlatformInfo | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Run the same kernel with arithmetic, strictly; gradInput in NDC1HWC0, NaN wherever nothing was written."""
    cores, sizes = launched(author, tiling, TConv3DBackpropInputTiling, cores, platform)
    storage = input_types(dtype)[0].storage
    grad_input: NDArray[Any] = np.full(tiling.grad_input_size, np.nan, storage)
    grad_output = GlobalTensor(as_array(grad_output_gm, "grad_output_gm"), name="gradOutput")
    others = (GlobalTensor(as_array(weight_gm, "weight_gm"), name="weight"), GlobalTensor(grad_input, name="gradInput"))

    def new_kernel(core: int) -> Conv3DBackpropInput:
        return Conv3DBackpropInput(*input_types(dtype), block_idx=core, platform=sizes)

    run_on_cores(author, [Core(number, cores, tiling, grad_output, new_kernel, *others) for number in range(cores)])
    return grad_input
