"""Progress on standard error: a bar where rich is installed and a person watches, else a plain line now and then.

A test kit's runner may watch a file instead: four lines, no JSON, rewritten about every ten seconds and at the end. A
thread of its own writes it, so that a long case does not let it age.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from convgrad.lab.run.case_run import ERROR, FAIL, REFUSED
from convgrad.text.files import write_text
from convgrad.text.language import say
from convgrad.text.terminal import tell

_EVERY = 5.0
"""Seconds between plain lines."""
_FILE_EVERY = 10.0
"""Seconds between two states of the kit's file ..."""
_JSON_EVERY = 1.0
"""... and of the JSON file."""


class Progress:
    """Counts finished cases and says how far the run is; use as a context manager."""

    def __init__(
        self, total: int, done_before: int = 0, quiet: bool = False, file: Path | None = None,
        json_file: Path | None = None,
    ) -> None:
        self.total = total
        self.outcomes: Counter[str] = Counter()
        self._before = done_before
        self._finished = 0
        self._start = self._spoken = time.monotonic()
        self._quiet = quiet
        self._bar: Any = None if quiet else _rich_bar()
        self._task: Any = None
        self._file, self._json_file = file, json_file
        self._started_at = time.time()
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, daemon=True)

    def __enter__(self) -> Progress:
        self._write()
        if self._file is not None or self._json_file is not None:
            self._writer.start()
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("cases", total=self.total, completed=self._before, found="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._over.set()
        if self._writer.is_alive():
            self._writer.join()
        self._write(finished=self._before + self._finished >= self.total)

    def _keep_writing(self) -> None:
        """States while the run goes on; one that cannot be written is told by the run itself, with the last one."""
        with contextlib.suppress(OSError):
            while not self._over.wait(_FILE_EVERY if self._json_file is None else _JSON_EVERY):
                self._write()

    def _write(self, finished: bool = False) -> None:
        """The states other programs read: the kit's, and ours as one JSON object."""
        if self._json_file is not None:
            write_text(self._json_file, json.dumps(self.state(finished)) + "\n")
        if self._file is not None:
            elapsed = time.monotonic() - self._start
            write_text(self._file, (
                f"StartAt:{int(self._started_at)}\nElapsedTime:{elapsed:.0f}\nTotalCases:{self.total}\n"
                f"CompletedCases:{self._before + self._finished}"
            ))

    def state(self, finished: bool) -> dict[str, Any]:
        """The run in numbers: cases, outcomes so far, seconds, whether it is at its end."""
        seconds = time.monotonic() - self._start
        done = self._before + self._finished
        rate = self._finished / seconds if seconds > 0 else 0.0
        left = (self.total - done) / rate if rate else None
        return {
            "total": self.total, "done": done, "done_before": self._before, "outcomes": dict(self.outcomes),
            "started": round(self._started_at, 3), "elapsed_seconds": round(seconds, 3),
            "left_seconds": 0.0 if done >= self.total else None if left is None else round(left, 3),
            "finished": finished, "pid": os.getpid(),
        }  # fmt: skip

    def count(self, outcome: str) -> None:
        """One more case is finished."""
        self._finished += 1
        self.outcomes[outcome] += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._before + self._finished, found=self.found())
        elif not self._quiet and time.monotonic() - self._spoken > _EVERY:
            self._spoken = time.monotonic()
            tell(self.line(), file=sys.stderr)

    def found(self) -> str:
        """What has gone wrong so far."""
        return ", ".join(f"{self.outcomes[o]} {say(o)}" for o in (FAIL, REFUSED, ERROR) if self.outcomes[o])

    def line(self) -> str:
        """`1200/30000 cases, 3 fail, 41 per second, 11:40 left`."""
        seconds = time.monotonic() - self._start
        rate = self._finished / seconds if seconds > 0 else 0.0
        done = self._before + self._finished
        left = (self.total - done) / rate if rate else 0.0
        parts = [f"{done}/{self.total} cases", self.found(), f"{rate:.3g} per second", f"{clock(left)} left"]
        return ", ".join(say(p) for p in parts if p)


def clock(seconds: float) -> str:
    """`1:02:03`, `2:03`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _rich_bar() -> Any:
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        return None
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[found]}"), TimeRemainingColumn())
    return RichProgress(*columns, console=Console(stderr=True), transient=True)
