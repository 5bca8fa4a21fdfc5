"""`Way`: how a product's runtime goes about one gradient, and the conditions its host code asks before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """One condition of a predicate: what it says, the numbers it met, whether it holds."""

    step: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Way:
    """How one gradient is computed, and the conditions asked for the ways that come first."""

    result: str
    path: str
    asked: tuple[tuple[str, tuple[Asked, ...]], ...]
    """By path: its conditions up to the first that does not hold."""
    inferred: bool = False
    note: str = ""

    @property
    def told(self) -> str:
        """The way, and why the one asked last was taken or not."""
        text = self.path + (" (inferred)" if self.inferred else "")
        if self.asked:
            path, conditions = self.asked[-1]
            last = conditions[-1]
            held = f": all {len(conditions)} conditions hold"
            text += held if last.holds else f": no {path}, {last.step} ({last.found})"
        return text + (f"; {self.note}" if self.note else "")
