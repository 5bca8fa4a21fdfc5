"""Numbers on the command line: a wrong one is told in words, not by the name of a type."""

from __future__ import annotations

import argparse


def whole_number(text: str, most: int, most_said: str) -> int:
    """A number without a sign up to `most`."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
        raise argparse.ArgumentTypeError(f"must be a whole number between 0 and {most_said}, not {text!r}")
    return int(text)


def number(text: str) -> float:
    """Any number, `nan` and `inf` included."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def seed(text: str) -> int:
    """A seed of random numbers."""
    return whole_number(text, 2**63 - 1, "2**63 - 1")
