"""Many cases on several processes, each with its share of the cores: engine threads = cores / jobs.

One thread per worker process hands it a batch and collects the records one by one. A worker that dies takes only
the case it was working on with it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from convgrad.lab.cases.case import Case
from convgrad.lab.run.case_run import Record, Settings, failed_record
from convgrad.lab.run.worker import Batch, finish

_BATCH = 8
_MANY = 64
"""From this many cases on, one process per core pays for its start."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Numbered = tuple[int, Case]


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes of memory that are free now; 4 GiB where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 2**32


def jobs_for(asked: int, cases: int) -> int:
    """How many processes: as asked, or (0) one per core for many cases and one for few."""
    if asked:
        return max(1, min(asked, cases))
    return min(cores(), cases) if cases >= _MANY else 1


def run_all(
    cases: Iterable[Numbered], settings: Settings, jobs: int, save: Path | None = None
) -> Iterator[Record]:
    """Records as they are finished, in any order."""
    settings = replace(settings, threads=max(1, cores() // jobs))
    if jobs == 1:
        for index, case in cases:
            yield finish(index, case, settings, save)
        return
    yield from _Crew(cases, settings, jobs, save).records()


class _Crew:
    def __init__(self, cases: Iterable[Numbered], settings: Settings, jobs: int, save: Path | None) -> None:
        self._cases = iter(cases)
        self._settings = settings
        self._save = save
        self._lock = threading.Lock()
        self._stopping = False
        # Bounded, so that memory stays flat when writing is slower than computing.
        self._finished: queue.Queue[Record | BaseException | None] = queue.Queue(maxsize=256)
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(jobs)]

    def records(self) -> Iterator[Record]:
        for thread in self._threads:
            thread.start()
        working = len(self._threads)
        try:
            while working:
                item = self._finished.get()
                if item is None:
                    working -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
        finally:
            self._stopping = True
            self._drain()

    def _drain(self) -> None:
        """Lets threads that wait for room in the queue come to their end."""
        while any(thread.is_alive() for thread in self._threads):
            try:
                self._finished.get(timeout=0.05)
            except queue.Empty:
                continue

    def _next_batch(self) -> list[Numbered]:
        with self._lock:
            batch: list[Numbered] = []
            while len(batch) < _BATCH and not self._stopping:
                item = next(self._cases, None)
                if item is None:
                    break
                batch.append(item)
            return batch

    def _serve(self) -> None:
        worker = None
        try:
            while batch := self._next_batch():
                while batch:
                    worker = worker or self._hire()
                    answered = self._hand_over(worker, batch)
                    batch = batch[answered:]
                    if batch and not self._stopping:  # it died on the first case left
                        code = worker.wait()
                        index, case = batch.pop(0)
                        text = f"the worker process died (exit {code})"
                        self._finished.put(failed_record(index, case, self._settings, text))
                        worker = None
                    elif self._stopping:
                        batch = []
        except BaseException as error:
            self._finished.put(error)
        finally:
            if worker is not None:
                _dismiss(worker, at_once=self._stopping)
            self._finished.put(None)

    def _hire(self) -> subprocess.Popen[bytes]:
        threads = str(self._settings.threads or 1)
        environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, threads)}
        worker = subprocess.Popen(
            [sys.executable, "-m", "convgrad.lab.run.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment,
        )
        _send(worker, (self._settings, self._save))
        return worker

    def _hand_over(self, worker: subprocess.Popen[bytes], batch: Batch) -> int:
        """How many cases of the batch were answered."""
        assert worker.stdout is not None
        if not _send(worker, batch):
            return 0
        for answered in range(len(batch)):
            try:
                self._finished.put(pickle.load(worker.stdout))
            except (EOFError, pickle.UnpicklingError):
                return answered
            if self._stopping:
                return answered + 1
        return len(batch)


def _send(worker: subprocess.Popen[bytes], message: object) -> bool:
    assert worker.stdin is not None
    try:
        pickle.dump(message, worker.stdin)
        worker.stdin.flush()
    except BrokenPipeError:
        return False
    return True


def _dismiss(worker: subprocess.Popen[bytes], at_once: bool) -> None:
    assert worker.stdin is not None and worker.stdout is not None
    if at_once:
        worker.kill()
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.close()
    worker.wait()
    worker.stdout.close()
