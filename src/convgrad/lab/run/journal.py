"""The journal of a run: an append-only file of JSON lines, from which a killed run goes on.

The first line says what is run; every other line is the record of one finished case, written by a single call and
forced to disk at least once a second. A line cut short by a crash is dropped when the run goes on: its case was
not finished.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convgrad.text.terminal import UsageError, jsonable

Record = dict[str, Any]
NAME = "results.jsonl"
VERSION = 1


class Journal:
    """Appends records; use as a context manager."""

    def __init__(self, path: Path, header: Record, resume: bool = False) -> None:
        self.path = path
        self.done: set[int] = set()
        """Indices of the cases finished before."""
        head = {"convgrad_run": VERSION, **header}
        if path.exists() and path.stat().st_size:
            if not resume:
                raise UsageError(f"{path} exists: go on with --resume, or save elsewhere")
            self._continue(head)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        else:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            self._append(head)
        self._synced = time.monotonic()

    def _continue(self, head: Record) -> None:
        with self.path.open("rb+") as file:
            content_end = 0
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break
                record = _parsed(line, self.path, number + 1)
                if number == 0:
                    _refuse_other_run(record, head, self.path)
                else:
                    self.done.add(int(record["index"]))
                content_end += len(line)
            file.truncate(content_end)
        if content_end == 0:
            raise UsageError(f"{self.path} is no journal of a run")

    def append(self, record: Record) -> None:
        """One finished case."""
        self._append(record)
        self.done.add(record["index"])
        if time.monotonic() - self._synced > 1:
            self.sync()

    def _append(self, record: Record) -> None:
        line = json.dumps(jsonable(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        view = memoryview(line.encode("utf-8", "surrogatepass"))
        while view:  # a regular file takes it in one call; a full disk may take a part before it refuses
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        os.fsync(self._descriptor)
        self._synced = time.monotonic()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.sync()
        os.close(self._descriptor)


def _parsed(line: bytes, path: Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}, line {number}: is no JSON") from None
    if not isinstance(record, dict) or (number > 1 and not isinstance(record.get("index"), int)):
        raise UsageError(f"{path}, line {number}: is no record of a run")
    return record


def _refuse_other_run(found: Record, head: Record, path: Path) -> None:
    plain = json.loads(json.dumps(jsonable(head)))
    if found.get("convgrad_run") != VERSION:
        raise UsageError(f"{path} is no journal of a run")
    changed = [key for key in plain if found.get(key) != plain[key]]
    if changed:
        raise UsageError(f"{path} belongs to another run: {', '.join(changed)} changed; save elsewhere to run anew")


def read(path: str | Path) -> tuple[Record, Iterator[Record]]:
    """The header and the finished cases, one at a time; a directory stands for the journal in it."""
    file = Path(path)
    file = file / NAME if file.is_dir() else file
    with file.open("rb") as lines:
        head = _parsed(lines.readline(), file, 1)
    if head.get("convgrad_run") != VERSION:
        raise UsageError(f"{file} is no journal of a run")
    return head, _records(file)


def _records(file: Path) -> Iterator[Record]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if number > 1 and line.endswith(b"\n"):
                yield _parsed(line, file, number)
