"""The Ascend C objects in C++ and in Python: random call sequences get the same answers."""

from __future__ import annotations

import re
from dataclasses import replace

from call_sequences import differences, model_answers, program_answers, sequences
from kernel_programs import has_chinese


def test_random_call_sequences_get_the_same_answers() -> None:
    """Tiles, findings letter for letter and bytes of 600 sequences are equal; many rules are met, each in Chinese."""
    assert [(str(one), ours, theirs) for one, ours, theirs in differences(600)] == []
    answers = [line for sequence in sequences(600) for line in model_answers(sequence)]
    rules = {found[1] for line in answers if (found := re.match(r"found ([\w.]+):", line))}
    assert len(rules) >= 25, sorted(rules)
    assert [line for line in answers if line.startswith("found ") and not has_chinese(line[6:])] == []
    assert sum(line == "T end" for line in answers) > 200


def test_a_difference_is_seen() -> None:
    """A gradOutput pointer moved by 16 elements in one language only: the answers are no longer equal."""
    sequence = next(one for one in sequences(40) if "T end" in model_answers(one))
    at = next(number for number, call in enumerate(sequence.calls) if call[0] == "G")
    calls = list(sequence.calls)
    calls[at] = ("G", calls[at][1] + 16, 0, 0)
    assert program_answers([replace(sequence, calls=tuple(calls))])[0] != model_answers(sequence)
