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


STORES = {"L0_A": 65536, "L0_B": 65536, "L0_C": 131072, "L1": 524288, "L2": 201326592, "UB": 196608, "FB": 2048,
          "BT": 1024}  # fmt: skip
"""Nominal bytes of the stores of one core of A2 and A3, by the vendor's names; L2 is the chip's."""
SOC_VERSIONS = {"910": 0, "A2": 1, "310P": 2, "310B": 3, "950": 4, "A3": 13}
"""Numbers of `platform_ascendc::SocVersion` by product. The tile kernels run on A2 and A3; others have none."""
