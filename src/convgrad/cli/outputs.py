"""The files a command is to write, looked at before the work: none replaces what is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Iterable
from pathlib import Path

from convgrad.text.terminal import UsageError


def look_at(written: Iterable[str | Path | None], read: Iterable[str | Path | None]) -> None:
    """A usage error where a directory is missing, where a file is read too, and where two outputs are one file."""
    sources = {_identity(path) for path in read if path is not None and os.path.isfile(path)}
    seen: set[Hashable] = set()
    for path in written:
        if path is None:
            continue
        if not Path(path).absolute().parent.is_dir():
            raise UsageError(f"{Path(path).parent} is no directory")
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            continue  # a device, a pipe
        if _identity(path) in sources:
            raise UsageError(f"{path} is what is read: give another file to write")
        if _identity(path) in seen:
            raise UsageError(f"{path} would be written twice: give each output a file of its own")
        seen.add(_identity(path))


def _identity(path: str | Path) -> Hashable:
    """The file itself where it is there, whatever links lead to it; else its place."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
