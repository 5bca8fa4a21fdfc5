"""Arguments as callers write them, made plain numbers, flags and names; a refusal names the argument.

Every door reads its arguments here, whatever they are: objects whose methods raise, numbers of a thousand digits,
sequences without an end. Only what the interpreter itself is stopped by (a key press, no memory) passes through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import index
from typing import Any, cast

import numpy as np

from convgrad.core.geometry import INT64_MAX
from convgrad.core.status import ConvGradError, ConvGradTypeError

MOST_ENTRIES = 64
"""Of a sequence: no tensor has more axes."""
MOST_THREADS = 4096
"""What the engine takes (native/engine/engine.cpp)."""
_LONGEST = 120


def told(value: object) -> str:
    """How a message shows a value: as Python does, in a line at most."""
    try:
        text = repr(value)
    except MemoryError:
        raise
    except Exception:  # a broken __repr__, or an integer of more digits than Python prints
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def number(name: str, value: object) -> int:
    """A whole number of 64 bits."""
    if type(value) is int:
        found = value
    else:
        try:
            found = int(index(cast(Any, value)))
        except MemoryError:
            raise
        except Exception:
            raise wrong_type(name, "a whole number", value) from None
    if not -INT64_MAX - 1 <= found <= INT64_MAX:
        raise ConvGradError(f"{name} must fit 64 bits, got {told(found)}", rule=f"{name}.range", value=value)
    return found


def entries(name: str, value: object) -> list[Any] | None:
    """The elements of a sequence or an array; `None` for what is a single value, as text and 0-d arrays are."""
    try:
        single = isinstance(value, (str, bytes, bytearray)) or not isinstance(value, (Sequence, np.ndarray))
    except MemoryError:
        raise
    except Exception:  # a broken __class__
        single = True
    if single or (isinstance(value, np.ndarray) and value.ndim == 0):
        return None
    return listed(name, value)


def listed(name: str, value: object) -> list[Any]:
    """The elements of anything that can be gone through."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        found = list(islice(cast(Iterable[Any], value), MOST_ENTRIES + 1))
    except MemoryError:
        raise
    except Exception:
        raise wrong_type(name, "a sequence", value) from None
    if len(found) > MOST_ENTRIES:
        raise ConvGradError(
            f"{name} must have at most {MOST_ENTRIES} elements, got more", rule=f"{name}.length", value=value
        )
    return found


def numbers(name: str, value: object, rank: int) -> tuple[int, ...]:
    """One number per axis: those of a sequence, or a single one `rank` times, also from a sequence of one."""
    found = entries(name, value)
    given = (number(name, value),) if found is None else tuple(number(name, v) for v in found)
    return given * rank if len(given) == 1 else given


def flag(name: str, value: object) -> bool:
    """A truth value; text has none, or `"False"` would be true."""
    if type(value) is bool:
        return value
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return bool(value)
    except MemoryError:
        raise
    except Exception:  # an array of several elements; a broken __bool__
        pass
    raise wrong_type(name, "true or false", value) from None


def flags(name: str, value: object) -> tuple[bool, ...]:
    """Truth values one after the other."""
    return tuple(flag(name, v) for v in listed(name, value))


def text(name: str, value: object) -> str:
    """A name."""
    if not isinstance(value, str):
        raise wrong_type(name, "a name", value)
    return value


def word(name: str, value: object) -> str:
    """A name, perhaps unknown, that a problem line can say."""
    found = text(name, value)
    if not found or len(found) > _LONGEST or any(c in "/#" or c.isspace() or not c.isprintable() for c in found):
        raise ConvGradError(f"{name} must be one word, got {told(found)}", rule=f"{name}.name", value=value)
    return found


def threads(value: object) -> int | None:
    """A thread count of at least one; `None` leaves it to the engine."""
    if value is None:
        return None
    count = number("threads", value)
    if count < 1:
        raise ConvGradError(f"threads must be at least 1, got {count}", rule="threads.value", value=count)
    if count > MOST_THREADS:
        raise ConvGradError(f"threads must be at most {MOST_THREADS}, got {count}", rule="threads.value", value=count)
    return count


def wrong_type(name: str, wanted: str, value: object) -> ConvGradTypeError:
    """The refusal of an argument that is nothing of the kind."""
    return ConvGradTypeError(f"{name} must be {wanted}, got {told(value)}", rule=f"{name}.type", value=value)
