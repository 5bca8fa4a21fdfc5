"""A mapping that forgets its oldest entries: what calls are planned by must not grow without end."""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """At most `most` entries; room is made by dropping the oldest eighth. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: Key, value: Value) -> Value:
        """Adds an entry, and gives its value back."""
        if len(self) >= self.most:
            try:
                for old in list(islice(self, self.most // 8 + 1)):
                    self.pop(old, None)
            except RuntimeError:  # another thread adds at this moment, and makes room as well
                pass
        self[key] = value
        return value
