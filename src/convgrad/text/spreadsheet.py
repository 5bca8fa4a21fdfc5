"""Text that spreadsheets must not take for a formula: `=1+1` in a cell is a name, not a sum.

A cell of text that begins like a formula gets a leading apostrophe, as spreadsheets do it; reading takes it off.
"""

from __future__ import annotations

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def quoted(text: str) -> str:
    """Text that no spreadsheet computes."""
    body = text.lstrip("'")
    return "'" + text if body.startswith(_FORMULA_STARTS) else text


def unquoted(text: str) -> str:
    """The inverse of `quoted`."""
    body = text.lstrip("'")
    return text[1:] if text.startswith("'") and body.startswith(_FORMULA_STARTS) else text
