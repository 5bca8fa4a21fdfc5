"""Text that spreadsheets must not take for a formula: `=1+1` in a cell is a name, not a sum.

A cell of text that begins like a formula gets a leading apostrophe, as spreadsheets do it; reading takes it off. What
spreadsheets skip before a formula (spaces, a byte order mark) does not hide it, nor does its full-width form.
"""

from __future__ import annotations

import unicodedata

_FORMULA_STARTS = "=+-@"
_ENDS_A_CELL = ("\t", "\r", "\n")


def quoted(text: str) -> str:
    """Text that no spreadsheet computes."""
    return "'" + text if _is_formula(text.lstrip("'")) else text


def unquoted(text: str) -> str:
    """The inverse of `quoted`."""
    return text[1:] if text.startswith("'") and _is_formula(text.lstrip("'")) else text


def _is_formula(text: str) -> bool:
    if text.startswith(_ENDS_A_CELL):
        return True
    for character in text:
        if unicodedata.category(character) not in ("Cc", "Cf", "Zs"):  # not seen: control, format, space
            return unicodedata.normalize("NFKC", character)[0] in _FORMULA_STARTS
    return False
