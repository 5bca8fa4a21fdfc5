"""The one writer of output files: a file is there whole or as it was before.

A regular file is written beside its place under a temporary name and renamed into it, so neither a full disk nor
kill -9 costs the old one. Links are written through; devices, pipes and our own standard streams are written into.
A temporary file is locked while its writer lives: one that can be locked was left behind, and the next file written
to that directory removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":  # which has no such locks: nothing is taken for a leftover there
    import fcntl

_PREFIX, _SUFFIX = ".convgrad-", ".part"


def write_text(path: str | Path, text: str) -> None:
    """Puts a text, as UTF-8, in a file's place in one step."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, content: bytes, mode: int | None = None) -> None:
    """Puts bytes in a file's place in one step; `mode` for other permissions than those the file has or gets."""
    with output_file(path, mode) as out:
        out.write(content)


@contextlib.contextmanager
def output_file(path: str | Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place when the block ends without an error; errors name `path`."""
    try:
        try:
            found = os.stat(path)
        except FileNotFoundError:
            found = None
        if found is None or stat.S_ISREG(found.st_mode):
            stream = _own_stream(found)
            place = _replaced(Path(path), found, mode) if stream is None else _opened(os.dup(stream))
        else:
            place = _opened(os.open(path, os.O_WRONLY))  # a directory says that it is one
        with place as out:
            yield out
    except OSError as error:
        if error.errno is None or (error.filename is not None and not _is_temporary(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _own_stream(found: os.stat_result | None) -> int | None:
    """1 or 2 where the file is our standard output or error: renaming would part it from what is printed."""
    sys.stdout.flush()
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if found is not None and os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


@contextlib.contextmanager
def _opened(descriptor: int) -> Iterator[BinaryIO]:
    with os.fdopen(descriptor, "wb") as out:
        yield out


@contextlib.contextmanager
def _replaced(path: Path, found: os.stat_result | None, mode: int | None) -> Iterator[BinaryIO]:
    """A temporary file beside the target, through links, that is renamed to it at the end."""
    target = Path(os.path.realpath(path))
    if found is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    remove_leftovers(target.parent)
    descriptor, name = _temporary(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            if mode is not None or found is not None:
                os.chmod(name, stat.S_IMODE(found.st_mode) if mode is None and found is not None else mode or 0)
            if sys.platform != "win32":
                os.replace(name, target)  # before the lock is given up
        if sys.platform == "win32":
            os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _temporary(directory: Path) -> tuple[int, Path]:
    """A new locked file; another writer may take one that is not locked yet for a leftover and remove it."""
    while True:
        name = directory / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)


def _is_temporary(name: object) -> bool:
    base = os.path.basename(os.fspath(name)) if isinstance(name, (str, os.PathLike)) else ""
    return base.startswith(_PREFIX) and base.endswith(_SUFFIX)


def remove_leftovers(directory: Path) -> None:
    """Removes temporary files whose writers are gone."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        for name in filter(_is_temporary, os.listdir(directory)):
            with contextlib.suppress(OSError):
                descriptor = os.open(directory / name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if lock(descriptor):
                        os.unlink(directory / name)
                finally:
                    os.close(descriptor)


def lock(descriptor: int, wait: bool = False) -> bool:
    """Locks an open file until it is closed, however its process ends; whether no other process holds it.

    A file system without locks counts as not locked.
    """
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
    return True
