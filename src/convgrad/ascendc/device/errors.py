"""What the tile kernel refuses, by kind: call order, tiling, capacity, address."""

from __future__ import annotations

from convgrad.core.status import ConvGradError


class TileKernelError(ConvGradError):
    """A refusal of the tile kernel; `.rule` names the check, the text says what was expected and what was got."""

    def __init__(self, message: str, rule: str, line: str = "") -> None:
        super().__init__(message, rule=rule, line=line)

    def with_line(self, line: str) -> TileKernelError:
        """The same refusal with the problem line that reproduces it."""
        return type(self)(self.message, self.rule, line)


class CallOrderError(TileKernelError):
    """A call came in a state where the documented life of the object does not allow it."""


class TilingError(TileKernelError):
    """A tiling record, a type parameter or a single shape contradicts itself or the object."""


class CapacityError(TileKernelError):
    """A buffer (L0A, L0B, L0C or L1) is too small for what the tiling puts into it."""


class AddressError(TileKernelError):
    """A read or a write leaves its tensor, or a pointer stands where the object cannot start."""
