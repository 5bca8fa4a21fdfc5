"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_text(path: str | Path, text: str) -> None:
    """Puts a text in a file's place in one step."""
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: str | Path, content: bytes) -> None:
    """Puts bytes in a file's place in one step."""
    file = Path(path)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
