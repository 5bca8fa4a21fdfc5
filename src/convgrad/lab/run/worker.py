"""A process that runs cases: pickled batches in on standard input, one pickled record per case out.

It ends when its standard input does, so no worker outlives a killed parent.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from convgrad.lab.cases.case import Case
from convgrad.lab.golden import tensor_files
from convgrad.lab.judging.runs import Results
from convgrad.lab.run.case_run import Record, Settings, guarded

Batch = Sequence[tuple[int, Case]]


def finish(index: int, case: Case, settings: Settings, save: Path | None) -> Record:
    """The record of a case; its results are on disk before it is given."""
    record, results = guarded(index, case, settings)
    if save is not None and results:
        save_results(save / tensor_files.directory_name(index, case.name), record, results)
    return record


def save_results(directory: Path, record: Record, results: Results) -> None:
    """`output_0_…`, in the order gradients are given."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, (found, array) in enumerate(zip(record["results"], results.values(), strict=True)):
        tensor_files.write(directory / tensor_files.file_name("output", number, found["dtype"], "npy"), array, "npy")
    record["saved"] = directory.name


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints to standard error
    settings, save = pickle.load(sys.stdin.buffer)
    while True:
        try:
            batch: Batch = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        for index, case in batch:
            pickle.dump(finish(index, case, settings, save), answers)
            answers.flush()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the parent is gone: nobody to tell
        os._exit(0)
