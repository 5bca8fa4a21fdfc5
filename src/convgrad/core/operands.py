"""The operands of one call, as stored arrays."""

from __future__ import annotations

from dataclasses import dataclass

from convgrad.core.arrays import AnyArray


@dataclass(frozen=True, slots=True)
class Operands:
    """Stored arrays of one case, in the caller's own axes; a forward pass has no grad_output."""

    grad_output: AnyArray | None
    input: AnyArray
    weight: AnyArray

    def fine_and_coarse(self, transposed: bool) -> tuple[AnyArray | None, AnyArray | None]:
        return (self.grad_output, self.input) if transposed else (self.input, self.grad_output)
