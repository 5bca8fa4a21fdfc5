"""Files of others, which may be endless: read up to a limit, before memory is taken."""

from __future__ import annotations

from pathlib import Path

from convgrad.text.terminal import UsageError


def read_bytes(path: str | Path, most: int) -> bytes:
    """The bytes of a file, a pipe or a device; a usage error where there are more than `most`."""
    with open(path, "rb") as content:
        read = content.read(most + 1)
    if len(read) > most:
        raise UsageError(f"{path}: has more than {most:,} bytes, which is all that is read")
    return read
