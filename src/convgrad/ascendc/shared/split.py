"""What the block lists of both kernels share: what a block has, and the run of blocks of each core."""

from __future__ import annotations

from typing import Protocol


class AnyBlock(Protocol):
    """What a block of either kernel has: its core, its number, and where its part of the result begins."""

    @property
    def core(self) -> int: ...

    @property
    def index(self) -> int: ...

    @property
    def offset_c(self) -> int: ...


def flat_share(total: int, cores: int, core: int) -> range:
    """The run of blocks one core takes; the first cores take one more when it does not come out even."""
    used = min(total, cores)
    if core >= used:
        return range(0)
    each, more = divmod(total, used)
    start = core * each + min(core, more)
    return range(start, start + each + (1 if core < more else 0))
