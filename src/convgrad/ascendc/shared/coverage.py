"""Running an author's own kernel on every core, and the ledger of what it does to each element of its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from inspect import isgenerator
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..device.errors import TileKernelError
from ..device.global_tensor import GlobalMemory, GlobalTensor
from .tiling_record import TilingRecord

RecordType = TypeVar("RecordType", bound=TilingRecord)
KernelType = TypeVar("KernelType")
CoreType = TypeVar("CoreType")


@dataclass(slots=True)
class AnyCore(Generic[RecordType, KernelType]):
    """What an author's kernel gets on either side: its core number, the tiling, gradOutput, and new objects."""

    block_idx: int
    block_num: int
    tiling: RecordType
    gradOutputGm: GlobalTensor
    make_kernel: Callable[[int], KernelType]

    def GetBlockIdx(self) -> int:
        """This core's number."""
        return self.block_idx

    def GetBlockNum(self) -> int:
        """How many cores run the kernel."""
        return self.block_num

    def kernel(self) -> KernelType:
        """A new kernel object for this core."""
        return self.make_kernel(self.block_idx)


Steps = Generator[None, None, None]


def run_on_cores(author: Callable[[CoreType], Steps | None], cores: Sequence[CoreType],
                 enter: Callable[[int, int], None] | None = None,
                 failed: Callable[[TileKernelError], None] | None = None) -> None:  # fmt: skip
    """Run an author's kernel on every core; one that yields waits until every core has come so far (SyncAll)."""
    running: list[tuple[int, Steps]] = []

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
            running.append((number, cast(Steps, started)))
    epoch, end = 0, object()
    while running:
        waiting = []
        for number, one in running:
            if step(number, epoch, lambda one=one: next(one, end)) is None:  # type: ignore[misc]
                waiting.append((number, one))
        running, epoch = waiting, epoch + 1


class Ledger:
    """Watches every store, add and fill of the result, element by element.

    two_cores      stored (not added) by one core over what another had put there, or while another adds
    overwritten    stored over what was stored or added before
    zeroed_late    zeroed after something was stored or added
    added_blind    added to what was neither zeroed nor stored
    racing         zeroed by one core while another touches it, with no meeting of all cores in between

    What a core did at its time `epoch` came before what another does now if that one has heard of a later time of it.
    """

    def __init__(self, size: int) -> None:
        self.core = self.epoch = 0
        self.heard: NDArray[np.int64] = np.zeros(1, np.int64)  # by core; one number stands for all
        self.writers: set[int] = set()
        self.zeroed_before = 0  # elements from the start on that the host, or another launch, had zeroed
        self.stores = np.zeros(size, np.uint32)
        self.adds = np.zeros(size, np.uint32)
        self.last_core = np.full(size, -1, np.int16)
        self.two_cores = np.zeros(size, np.bool_)
        self.overwritten = np.zeros(size, np.bool_)
        self.zeroed_late = np.zeros(size, np.bool_)
        self.added_blind = np.zeros(size, np.bool_)
        self.store_epoch = np.full(size, -1, np.int16)
        self.plain_core = np.full(size, -1, np.int16)
        self.plain_epoch = np.full(size, -1, np.int16)
        self.fill_core = np.full(size, -1, np.int16)
        self.fill_epoch = np.full(size, -1, np.int16)
        self.racing = np.zeros(size, np.bool_)

    def enter(self, core: int, epoch: int, heard: NDArray[np.int64] | None = None) -> None:
        """From now on this core runs, after so many meetings; `heard` by core unless all cores always meet."""
        self.core, self.epoch = core, epoch
        self.heard = np.array([epoch], np.int64) if heard is None else heard

    def _at_once(self, cores: NDArray[np.int16], epochs: NDArray[np.int16]) -> NDArray[np.bool_]:
        """Where another core did something that nothing tells the current one of."""
        heard = self.heard[np.clip(cores, 0, self.heard.size - 1)]
        return np.asarray((cores >= 0) & (cores != self.core) & (epochs >= heard))

    def stored(self, start: int, stop: int, atomic: bool) -> None:
        """A store, or an atomic add, of a range by the current core."""
        part = slice(start, stop)
        earlier = self.last_core[part]
        if atomic:
            blind = self.added_blind[max(start, self.zeroed_before) : stop]
            blind |= ((self.fill_core[part] < 0) & (self.stores[part] == 0))[stop - start - blind.size :]
            self.two_cores[part] |= self._at_once(self.plain_core[part], self.plain_epoch[part])
        else:
            self.plain_core[part], self.plain_epoch[part] = self.core, self.epoch
            self.two_cores[part] |= (earlier >= 0) & (earlier != self.core)
            self.overwritten[part] |= earlier >= 0
        (self.adds if atomic else self.stores)[part] += 1
        self.writers.add(self.core)
        self.last_core[part] = self.core
        self.store_epoch[part] = self.epoch
        self.racing[part] |= self._at_once(self.fill_core[part], self.fill_epoch[part])

    def filled(self, start: int, stop: int) -> None:
        """A fill of a range by the current core."""
        part = slice(start, stop)
        self.zeroed_late[part] |= self.last_core[part] >= 0
        self.racing[part] |= self._at_once(self.last_core[part], self.store_epoch[part])
        self.fill_core[part] = self.core
        self.fill_epoch[part] = self.epoch

    def count_zeros_of_before(self) -> None:
        """Zeros of before the launch stand for a fill."""
        before = self.fill_core[: self.zeroed_before]
        np.maximum(before, 0, out=before)

    @property
    def zeroed(self) -> NDArray[np.bool_]:
        """Elements that were filled."""
        return np.asarray(self.fill_core >= 0)

    @property
    def untouched(self) -> NDArray[np.bool_]:
        """Elements that no tile was stored or added to."""
        return np.asarray((self.stores == 0) & (self.adds == 0))


@dataclass(slots=True)
class Finding:
    """Something wrong: which rule, the first text, the core that showed it first, and how often it came up."""

    rule: str
    text: str
    core: int | None
    count: int = 1

    def __str__(self) -> str:
        core = "" if self.core is None else f"core {self.core}: "
        often = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.rule}: {core}{self.text}{often}"


class Findings:
    """What was found, rule by rule; refusals as they come, then what the ledger shows in the end."""

    def __init__(self, ledger: Ledger, name_of: Callable[[int], str]) -> None:
        self.ledger = ledger
        self.name_of = name_of
        self.by_rule: dict[str, Finding] = {}
        self.out_of_range = 0

    def refused(self, error: TileKernelError) -> None:
        """A refusal of the object on the core that runs."""
        self.out_of_range += error.rule == "gm.range"
        if error.rule in self.by_rule:
            self.by_rule[error.rule].count += 1
        else:
            self.by_rule[error.rule] = Finding(error.rule, error.message, self.ledger.core)

    def elements(self, rule: str, where: NDArray[np.bool_], text: str) -> None:
        """Elements for which something holds, if there are any; the first of them is named."""
        if where.any():
            flat = int(np.argmax(where))
            words = f"{text}; {int(where.sum())} elements, first {self.name_of(flat)}, flat {flat}"
            self.by_rule[rule] = Finding(rule, words, max(0, int(self.ledger.last_core[flat])))

    def order_of_zeroing(self, result: str) -> None:
        """Elements not zeroed before they were added to, zeroed too late, or zeroed while others wrote them."""
        ledger = self.ledger
        text = f"elements added to without having been zeroed: Fill {result}, then let all cores meet (yield), then add"
        self.elements("coverage.add_unzeroed", ledger.added_blind, text)
        text = "elements zeroed after tiles were stored to them: zero first, then let all cores meet (yield)"
        self.elements("coverage.zeroed_late", ledger.zeroed_late & ~ledger.racing, text)
        text = "elements that one core zeroes while another stores them: all cores must meet (yield) in between"
        self.elements("coverage.race", ledger.racing, text)

    def counts(self, never_written: NDArray[np.bool_]) -> dict[str, Any]:
        """The fields of `KernelReport`."""
        ledger = self.ledger
        return {
            "elements": ledger.stores.size, "only_zeroed": int(np.count_nonzero(ledger.untouched & ledger.zeroed)),
            "never_written": int(np.count_nonzero(never_written)),
            "written_by_two_cores": int(np.count_nonzero(ledger.two_cores)), "out_of_range": self.out_of_range,
            "cores_used": len(ledger.writers), "findings": self.in_order(),
        }  # fmt: skip

    def in_order(self) -> tuple[Finding, ...]:
        """Refusals first: what they name is usually the cause of what the ledger shows."""
        return tuple(sorted(self.by_rule.values(), key=lambda one: one.rule.startswith(("coverage.", "reduction."))))


@dataclass(frozen=True, slots=True)
class KernelReport:
    """What the checkers of both kernels count, and the mistakes they found."""

    elements: int
    only_zeroed: int
    never_written: int
    written_by_two_cores: int
    out_of_range: int
    cores_used: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    def lines(self, head: str) -> str:
        """The report as text: its figures, then what was found, or that nothing was."""
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)] if self.findings else [head, "  ok"])


def dry_tensor(size: int, storage: np.dtype[Any], name: str, watcher: Ledger | None = None) -> GlobalTensor:
    """A tensor of global memory that nothing is computed in."""
    data: NDArray[Any] = np.zeros(size, storage)
    return GlobalTensor(GlobalMemory(data, name, watcher))
