"""Run an author's own kernel without arithmetic: which elements it writes, who writes them, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from inspect import isgenerator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from convgrad import layouts

from .conv_type import ConvDtype, ConvFormat, half
from .errors import TileKernelError
from .global_tensor import GlobalMemory, GlobalTensor
from .input_checks import check_record
from .input_record import TConv3DBackpropInputTiling
from .kernel_input import Conv3DBackpropInput
from .platform import PlatformInfo
from .simulate import input_types


@dataclass(slots=True)
class Core:
    """What an author's kernel gets: its core number, the tensors in global memory, the tiling, and new objects."""

    block_idx: int
    block_num: int
    tiling: TConv3DBackpropInputTiling
    gradOutputGm: GlobalTensor
    weightGm: GlobalTensor
    gradInputGm: GlobalTensor
    make_kernel: Callable[[int], Conv3DBackpropInput]

    def GetBlockIdx(self) -> int:
        """This core's number."""
        return self.block_idx

    def GetBlockNum(self) -> int:
        """How many cores run the kernel."""
        return self.block_num

    def kernel(self) -> Conv3DBackpropInput:
        """A new Conv3DBackpropInput for this core."""
        return self.make_kernel(self.block_idx)


AuthorKernel = Callable[[Core], Generator[None, None, None] | None]


def run_on_cores(author: AuthorKernel, cores: list[Core], enter: Callable[[int, int], None] | None = None,
                 failed: Callable[[TileKernelError], None] | None = None) -> None:  # fmt: skip
    """Run an author's kernel on every core; one that yields waits until every core has come so far (SyncAll)."""
    running: list[tuple[int, Generator[None, None, None]]] = []

    def step(number: int, epoch: int, call: Callable[[], Any]) -> Any:
        if enter is not None:
            enter(number, epoch)
        try:
            return call()
        except TileKernelError as error:
            if failed is None:
                raise
            failed(error)
            return None

    for number, core in enumerate(cores):
        started = step(number, 0, lambda core=core: author(core))  # type: ignore[misc]
        if isgenerator(started):
            running.append((number, cast(Generator[None, None, None], started)))
    epoch, end = 0, object()
    while running:
        waiting = []
        for number, one in running:
            if step(number, epoch, lambda one=one: next(one, end)) is None:  # type: ignore[misc]
                waiting.append((number, one))
        running, epoch = waiting, epoch + 1


@dataclass(slots=True)
class Finding:
    """Something wrong: which rule, the first text, the core that showed it first, and how often it came up."""

    rule: str
    text: str
    core: int
    count: int = 1

    def __str__(self) -> str:
        often = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.rule}: core {self.core}: {self.text}{often}"


class Ledger:
    """Watches every store and fill of gradInput, element by element."""

    def __init__(self, size: int) -> None:
        self.core = self.epoch = 0
        self.stores = np.zeros(size, np.uint16)
        self.adds = np.zeros(size, np.uint16)
        self.last_core = np.full(size, -1, np.int16)
        self.two_cores = np.zeros(size, np.bool_)
        self.store_epoch = np.full(size, -1, np.int16)
        self.fill_core = np.full(size, -1, np.int16)
        self.fill_epoch = np.full(size, -1, np.int16)
        self.racing = np.zeros(size, np.bool_)

    def stored(self, start: int, stop: int, atomic: bool) -> None:
        """A store, or an atomic add, of a range by the current core."""
        part = slice(start, stop)
        earlier = self.last_core[part]
        if not atomic:
            self.two_cores[part] |= (earlier >= 0) & (earlier != self.core)
        (self.adds if atomic else self.stores)[part] += 1
        self.last_core[part] = self.core
        self.store_epoch[part] = self.epoch
        self.racing[part] |= (self.fill_epoch[part] == self.epoch) & (self.fill_core[part] != self.core)

    def filled(self, start: int, stop: int) -> None:
        """A fill of a range by the current core."""
        part = slice(start, stop)
        self.racing[part] |= (self.store_epoch[part] == self.epoch) & (self.last_core[part] != self.core)
        self.fill_core[part] = self.core
        self.fill_epoch[part] = self.epoch


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """What a kernel does to gradInput, element by element, and the mistakes it was seen to make."""

    elements: int
    written_once: int
    never_written: int
    only_zeroed: int
    written_twice: int
    written_by_two_cores: int
    out_of_range: int
    cores_used: int
    findings: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        head = (
            f"{self.elements} elements: {self.written_once} written once, {self.only_zeroed} only zeroed, "
            f"{self.never_written} never written, {self.written_twice} written twice, "
            f"{self.written_by_two_cores} by two cores, {self.out_of_range} out of range; {self.cores_used} cores"
        )
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)] if self.findings else [head, "  ok"])


def check_kernel(
    author: AuthorKernel, tiling: TConv3DBackpropInputTiling, *, cores: int = 24, dtype: ConvDtype = half,
    platform: PlatformInfo | None = None,
) -> CoverageReport:  # fmt: skip
    """Run the author's offsets, start positions and call order on every core, computing nothing, and report.

    `author(core)` is the kernel of one core; `yield` in it stands for SyncAll.
    """
    sizes = platform or PlatformInfo()
    check_record(tiling, sizes)
    storage = input_types(dtype)[0].storage
    ledger, findings = Ledger(tiling.grad_input_size), dict[str, Finding]()
    out_of_range = [0]

    def report(error: TileKernelError) -> None:
        out_of_range[0] += error.rule == "gm.range"
        if error.rule in findings:
            findings[error.rule].count += 1
        else:
            findings[error.rule] = Finding(error.rule, error.message, ledger.core)

    def enter(core: int, epoch: int) -> None:
        ledger.core, ledger.epoch = core, epoch

    def new_kernel(core: int) -> Conv3DBackpropInput:
        return Conv3DBackpropInput(*input_types(dtype, ConvFormat.NDC1HWC0), block_idx=core, dry=True, report=report,
                                   platform=sizes)  # fmt: skip

    def tensor(size: int, name: str, watcher: Ledger | None = None) -> GlobalTensor:
        data: NDArray[Any] = np.zeros(size, storage)
        return GlobalTensor(GlobalMemory(data, name, watcher))

    tensors = (tensor(tiling.grad_output_size, "gradOutput"), tensor(tiling.weight_size, "weight"),
               tensor(tiling.grad_input_size, "gradInput", ledger))  # fmt: skip
    run_on_cores(author, [Core(number, cores, tiling, *tensors, new_kernel) for number in range(cores)], enter, report)
    return summarise(tiling, ledger, findings, out_of_range[0])


def summarise(
    t: TConv3DBackpropInputTiling, ledger: Ledger, findings: dict[str, Finding], out_of_range: int
) -> CoverageReport:
    """Counts from the ledger, and the findings that only show when everything is over."""
    zeroed = ledger.fill_core >= 0
    untouched = (ledger.stores == 0) & (ledger.adds == 0)
    never = untouched & ~zeroed
    twice = (ledger.stores > 1) | ((ledger.stores > 0) & (ledger.adds > 0))
    blind_adds = (ledger.adds > 0) & ~zeroed & (ledger.stores == 0)
    shape = (t.batch, t.cin, t.di, t.hi, t.wi)

    def found(rule: str, where: NDArray[np.bool_], text: str) -> None:
        if where.any():
            flat = int(np.argmax(where))
            n, c, d, h, w = layouts.element_ndc1hwc0(shape, t.c0, flat)
            findings[rule] = Finding(
                rule, f"{text}; {int(where.sum())} elements, first (n {n}, c {c}, d {d}, h {h}, w {w}), flat {flat}",
                max(0, int(ledger.last_core[flat])))  # fmt: skip

    if t.initOutputFlag == 1:
        text = "initOutputFlag is 1 and gradInput was not zeroed: Fill it, then let all cores meet (yield), then store"
        found("coverage.zeroing", never, text)
    else:
        found("coverage.never_written", never, "elements that no tile writes")
    found("coverage.twice", twice & ~ledger.two_cores, "elements that one core stores more than once")
    found("coverage.two_cores", ledger.two_cores, "elements that two cores store; use enAtomic when K is split")
    found("coverage.add_unzeroed", blind_adds, "elements added to without having been zeroed")
    text = "elements that one core zeroes while another stores them: all cores must meet (yield) in between"
    found("coverage.race", ledger.racing, text)
    order = sorted(findings.values(), key=lambda finding: finding.rule.startswith("coverage."))
    return CoverageReport(
        elements=ledger.stores.size,
        written_once=int(np.count_nonzero((ledger.stores == 1) & (ledger.adds == 0))),
        never_written=int(np.count_nonzero(never)),
        only_zeroed=int(np.count_nonzero(untouched & zeroed)),
        written_twice=int(np.count_nonzero(twice)),
        written_by_two_cores=int(np.count_nonzero(ledger.two_cores)),
        out_of_range=out_of_range,
        cores_used=len(set(np.unique(ledger.last_core).tolist()) - {-1}),
        findings=tuple(order),
    )


def run_kernel(
    author: AuthorKernel, tiling: TConv3DBackpropInputTiling, grad_output_gm: NDArray[Any], weight_gm: NDArray[Any], *,
    cores: int = 24, dtype: ConvDtype = half, platform: PlatformInfo | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Run the same kernel with arithmetic, strictly; gradInput in NDC1HWC0, NaN wherever nothing was written."""
    storage = input_types(dtype)[0].storage
    grad_input: NDArray[Any] = np.full(tiling.grad_input_size, np.nan, storage)
    tensors = (GlobalTensor(grad_output_gm, name="gradOutput"), GlobalTensor(weight_gm, name="weight"),
               GlobalTensor(grad_input, name="gradInput"))  # fmt: skip

    def new_kernel(core: int) -> Conv3DBackpropInput:
        return Conv3DBackpropInput(*input_types(dtype), block_idx=core, platform=platform)

    run_on_cores(author, [Core(number, cores, tiling, *tensors, new_kernel) for number in range(cores)])
    return grad_input
