"""Sizes of the stores around the cube unit, the only hardware figures the model knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlatformInfo:
    """Bytes of each store, and the number of cube cores. 128 bytes of the nominal 512 KiB of L1 are reserved."""

    l1Size: int = 524160
    l0ASize: int = 65536
    l0BSize: int = 65536
    l0CSize: int = 131072
    ubSize: int = 196608
    btSize: int = 1024
    fbSize: int = 2048
    l2Size: int = 150994944
    cores: int = 24
