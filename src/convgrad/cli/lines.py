"""What else arrives where problem lines are asked for: the pieces of one, or the name of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from convgrad.core.problem_line import KINDS
from convgrad.text.terminal import QUOTE, UsageError


def refuse_others(words: Sequence[str], to_read_a_file: str) -> None:
    """Tells how to write a line whose words came without quotes, and which command reads a file."""
    if len(words) > 1 and words[0] in KINDS and not any(word.split(" ")[0] in KINDS for word in words[1:]):
        raise UsageError(QUOTE)
    if words and words[0] not in KINDS and Path(words[0]).is_file():
        raise UsageError(f"{words[0]} is a file, not a problem line; it is read by `{to_read_a_file} {words[0]}`")
