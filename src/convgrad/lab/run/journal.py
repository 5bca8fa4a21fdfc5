"""The journal of a run: an append-only file of JSON lines, from which a killed run goes on.

The first line says what is run; every other line is the record of one finished case, written by a single call and
forced to disk at least once a second. A line cut short by a crash is dropped when the run goes on: its case was
not finished. The file is locked while a run writes it; the lock ends with the process, however that ends.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from convgrad.lab.judging.findings import METRIC_NAMES
from convgrad.lab.run.case_run import OUTCOMES, Record
from convgrad.text.files import lock
from convgrad.text.terminal import UsageError, jsonable

NAME = "results.jsonl"
VERSION = 1
MOST_LINE_BYTES = 2**26
_FIELDS: dict[str, type] = {
    "index": int, "name": str, "line": str, "values": str, "seed": int, "product": str, "outcome": str, "status": int,
    "rule": str, "message": str, "reproduce": str, "advice": list, "results": list,
}  # fmt: skip
"""What every record tells; a record without them was not written by a run."""
_RESULT_FIELDS: dict[str, type] = {
    "name": str, "dtype": str, "precision": str, "metrics": dict, "judged": list, "shape": list, "histogram": list,
    "worst": list, "passed": object, "map": object, "anatomy": object,
}  # fmt: skip


class Journal:
    """Appends records; use as a context manager."""

    def __init__(self, path: Path, header: Record, resume: bool = False) -> None:
        self.path = path
        self.done: set[int] = set()
        """Indices of the cases finished before."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            self._begin({"convgrad_run": VERSION, **header}, resume)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._synced = time.monotonic()

    def _begin(self, head: Record, resume: bool) -> None:
        if not lock(self._descriptor):
            raise UsageError(f"{self.path}: another run is writing it; wait for its end, or save elsewhere")
        if os.fstat(self._descriptor).st_size == 0:
            self._append(head)
        elif resume:
            self._continue(head)
        else:
            raise UsageError(f"{self.path} exists: go on with --resume, or save elsewhere")

    def _continue(self, head: Record) -> None:
        content_end = 0
        for number, line in _lines(self.path):
            record = _parsed(line, self.path, number)
            if number == 1:
                _refuse_other_run(record, head, self.path)
            else:
                self.done.add(record["index"])
            content_end += len(line)
        if content_end == 0:
            raise UsageError(f"{self.path} is no journal of a run")
        os.ftruncate(self._descriptor, content_end)

    def append(self, record: Record) -> None:
        """One finished case."""
        self._append(record)
        self.done.add(record["index"])
        if time.monotonic() - self._synced > 1:
            self.sync()

    def _append(self, record: Record) -> None:
        line = json.dumps(jsonable(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        view = memoryview(line.encode("utf-8", "surrogatepass"))
        try:
            while view:  # a regular file takes it in one call; a full disk may take a part before it refuses
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._synced = time.monotonic()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.sync()
        finally:
            os.close(self._descriptor)


def _parsed(line: bytes, path: Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}, line {number}: is no JSON") from None
    if not isinstance(record, dict):
        raise UsageError(f"{path}, line {number}: is no record of a run")
    if number > 1 and (missing := _incomplete(record)):
        raise UsageError(f"{path}, line {number}: is no record of a run: {missing}")
    return record


def _incomplete(record: Record) -> str:
    """What a record lacks to be one; empty for a record that a run wrote."""
    for name, kind in _FIELDS.items():
        if not isinstance(record.get(name), kind):
            return f"no {name}"
    if record["outcome"] not in OUTCOMES:
        return f"its outcome is none of {', '.join(OUTCOMES)}"
    for result in record["results"]:
        if not isinstance(result, dict):
            return "a result is no object"
        for name, kind in _RESULT_FIELDS.items():
            if name not in result or not isinstance(result[name], kind):
                return f"a result has no {name}"
        if not all(_is_number(result["metrics"].get(name)) for name in METRIC_NAMES):
            return "a result lacks a metric"
        if not all(isinstance(j, dict) and {"standard", "passed", "why"} <= j.keys() for j in result["judged"]):
            return "a result lacks a verdict"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or value in ("nan", "inf", "-inf")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a journal; one cut short at the end is not there."""
    with path.open("rb") as file:
        number = 0
        while (line := _line(file, path, number + 1)).endswith(b"\n"):
            number += 1
            yield number, line


def _line(file: BinaryIO, path: Path, number: int) -> bytes:
    line = file.readline(MOST_LINE_BYTES + 1)
    if len(line) > MOST_LINE_BYTES:
        raise UsageError(f"{path}, line {number}: has more than {MOST_LINE_BYTES:,} bytes: is no journal of a run")
    return line


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
        head = _parsed(_line(lines, file, 1), file, 1)
    if head.get("convgrad_run") != VERSION:
        raise UsageError(f"{file} is no journal of a run")
    return head, _records(file)


def _records(file: Path) -> Iterator[Record]:
    return (_parsed(line, file, number) for number, line in _lines(file) if number > 1)


def in_order(path: Path) -> Iterator[Record]:
    """The records by their place in the file of cases; only their places are held in memory."""
    offset, places = 0, []
    for number, line in _lines(path):
        if number > 1:
            places.append((int(_parsed(line, path, number)["index"]), offset, number))
        offset += len(line)
    with path.open("rb") as lines:
        for _, offset, number in sorted(places):
            lines.seek(offset)
            yield _parsed(lines.readline(), path, number)
