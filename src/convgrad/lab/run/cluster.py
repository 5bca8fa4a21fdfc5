"""Many cases on a Dask cluster: the same records as on one machine, in any order.

Cases travel in small batches, a bounded number at a time. Dask runs the batches of a lost worker again elsewhere; a
case that takes every worker down that runs it becomes a failed record, and only that case.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, as_completed
from distributed.scheduler import KilledWorker

import convgrad
from convgrad import engines
from convgrad.lab.cases.case import Case
from convgrad.lab.golden import tensor_files
from convgrad.lab.judging.runs import Results
from convgrad.lab.run.case_run import Record, Settings, failed_record, guarded
from convgrad.lab.run.worker import save_results
from convgrad.lab.run.workers import cores
from convgrad.text.terminal import UsageError

Numbered = tuple[int, Case]
_LARGEST_BATCH = 8
_BATCHES_AHEAD = 3
"""Batches per worker thread that are handed over before the first is back: no thread waits, memory stays flat."""
_TIMEOUT = "15s"


def run_batch(batch: list[Numbered], settings: Settings, keep: bool) -> list[tuple[Record, Results]]:
    """What a worker does: every case of the batch, the gradients only where they are kept."""
    finished = [guarded(index, case, settings) for index, case in batch]
    return finished if keep else [(record, {}) for record, _ in finished]


class Cluster:
    """A connected cluster: one at an address, or `workers` processes of one thread on this machine."""

    def __init__(self, address: str | None, workers: int) -> None:
        self._opened = ExitStack()
        try:
            if address is None:
                local = LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                )
                address = self._opened.enter_context(local).scheduler_address
            self._client = self._opened.enter_context(Client(address, timeout=_TIMEOUT, set_as_default=False))
            self._client.wait_for_workers(1, timeout=_TIMEOUT)
        except Exception as error:  # whatever the network says, wrapped in whatever asyncio raises
            self._opened.close()
            raise UsageError(f"no Dask cluster with workers at {address or 'this machine'}: {error}") from error
        self._removed_before = set(self._removals())

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened.close()

    def run(self, cases: Sequence[Numbered], settings: Settings, save: Path | None = None) -> Iterator[Record]:
        """Records as they are finished, in any order; kept gradients are written on this side."""
        settings = self._shared_out(settings)
        ahead = _BATCHES_AHEAD * sum(self._client.nthreads().values())
        size = max(1, min(_LARGEST_BATCH, len(cases) // ahead))
        batches = (list(cases[i : i + size]) for i in range(0, len(cases), size))
        running = as_completed(loop=self._client.loop)
        handed: dict[Any, list[Numbered]] = {}
        suspects: list[Numbered] = []
        for batch in islice(batches, ahead):
            future = self._submit(batch, settings, save)
            handed[future] = batch
            running.add(future)
        for future in running:
            batch = handed.pop(future)
            if isinstance(future.exception(), KilledWorker):
                suspects += batch
            else:
                yield from _records(future, save)
            if (following := next(batches, None)) is not None:
                future = self._submit(following, settings, save)
                handed[future] = following
                running.add(future)
        # Whoever shared a worker with a deadly case is suspected too; alone, each shows what it does.
        for index, case in suspects:
            future = self._submit([(index, case)], settings, save)
            error = future.exception()
            if isinstance(error, KilledWorker):
                yield failed_record(index, case, settings, f"every worker that ran it died: {error}")
            else:
                yield from _records(future, save)

    def _submit(self, batch: list[Numbered], settings: Settings, save: Path | None) -> Any:
        return self._client.submit(run_batch, batch, settings, save is not None, pure=False)

    def losses(self) -> str:
        """Workers lost since the cluster was connected, in words; empty when there were none."""
        lost = {worker: tasks for worker, tasks in self._removals().items() if worker not in self._removed_before}
        if not lost:
            return ""
        names = ", ".join(sorted(lost))
        return f"{len(lost)} workers lost ({names}); Dask ran their {sum(lost.values())} unfinished batches again"

    def _removals(self) -> dict[str, int]:
        """Every worker the scheduler has lost, with the number of batches it was working on."""
        events = [event for _, event in self._client.get_events("all") if isinstance(event, dict)]
        return {
            str(e["worker"]): len(e.get("processing-tasks", ())) for e in events if e.get("action") == "remove-worker"
        }

    def _shared_out(self, settings: Settings) -> Settings:
        """Threads and memory of one case: the least any worker thread has for itself."""
        found = self._client.run(about_this_process)
        here = about_this_process()
        for address, there in found.items():
            if there["version"] != here["version"] or there["engine"] != here["engine"]:
                raise UsageError(
                    f"worker {address} has convgrad {there['version']} with the {there['engine']} engine; "
                    f"here it is {here['version']} with {here['engine']}"
                )
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        on_host: dict[str, int] = {}
        for known in workers.values():
            on_host[known["host"]] = on_host.get(known["host"], 0) + known["nthreads"]
        threads = min(
            max(1, there["cores"] // on_host[workers[address]["host"]])
            for address, there in found.items() if address in workers
        )
        limits = [w["memory_limit"] // w["nthreads"] // 2 for w in workers.values() if w["memory_limit"]]
        return replace(settings, threads=threads, most_bytes=min([settings.most_bytes, *limits]))


def _records(future: Any, save: Path | None) -> Iterator[Record]:
    for record, results in future.result():
        if save is not None and results:
            save_results(save / tensor_files.directory_name(record["index"], record["name"]), record, results)
        yield record


def about_this_process() -> dict[str, Any]:
    """What must agree between here and a worker, and the cores there."""
    return {"version": convgrad.__version__, "engine": engines.info().engine, "cores": cores()}
