"""What a series of cases came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Cases that were run, and the words of each that went wrong."""

    cases: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, cases: int, name: str, words: str, good: bool) -> None:
        self.cases += cases
        if not good:
            self.wrong.append(f"{name}: {words[-3000:]}")
