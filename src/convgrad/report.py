"""Cases run from Python, and their report: what `convgrad run` does, for notebooks and scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

from convgrad.core import standards
from convgrad.core.request import Request
from convgrad.lab.cases import files
from convgrad.lab.cases.case import MAX_SEED, Case, conformance_name, product_key
from convgrad.lab.report.page import page, write_page
from convgrad.lab.run import journal, tables
from convgrad.lab.run.case_run import OUTCOMES, PASS, Record, Settings
from convgrad.lab.run.workers import free_memory, jobs_for, run_all
from convgrad.text.fragment import framed
from convgrad.text.terminal import counted

__all__ = ["Report", "read", "run"]


class Report(Sequence[Record]):
    """The records of a run, in the order of its cases: printed as a table, shown by notebooks as the page."""

    def __init__(self, title: str, settings: Record, records: Iterable[Record]) -> None:
        self.title = title
        self.settings = settings
        self.records: tuple[Record, ...] = tuple(sorted(records, key=lambda record: record["index"]))

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Record, ...]: ...
    def __getitem__(self, at: int | slice) -> Record | tuple[Record, ...]:
        return self.records[at]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def outcomes(self) -> Counter[str]:
        """How many cases passed, failed, were refused, could not be run."""
        return Counter(record["outcome"] for record in self.records)

    @property
    def passed(self) -> bool:
        """Every case did."""
        return all(record["outcome"] == PASS for record in self.records)

    def write_page(self, path: str | Path) -> None:
        """One HTML page, readable without a network."""
        write_page(path, self.title, {"settings": self.settings}, self.records)

    def __repr__(self) -> str:
        return f"<Report of {self._counts()}>"

    def __str__(self) -> str:
        return f"{tables.summary_table(list(self.records))}\n{self._counts()}" if self.records else self._counts()

    def _repr_html_(self) -> str:
        """The whole page, in a frame: it has filters and details of its own."""
        return framed(page(self.title, {"settings": self.settings}, self.records))

    def _counts(self) -> str:
        found = self.outcomes
        told = ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome])
        return f"{counted(len(self.records), 'case')}{': ' if told else ''}{told}"


def run(
    cases: str | Path | Request | Iterable[str | Request], *, product: str | None = None,
    conformance: str | None = None, standard: str | Iterable[str] = standards.DEFAULT, seed: int = 0, jobs: int = 1,
    pytorch: bool = False,
) -> Report:
    """Runs cases: the contract's verdict, the gradients under the product's numerics, their precision, the time.

    `cases`: a file of cases of any form, one problem line, a Request, or several lines and Requests. `product` and
    `conformance` move every case there. `jobs`: processes, 0 for one per core where there are many cases.

    >>> from convgrad.report import run
    >>> run(["conv n1 c3>8 i9x9 k3x3 fp16 on=A2", "conv n1 c3>8 i9x9 k3x3 fp32 on=310"])
    <Report of 2 cases: 1 pass, 1 refused>
    """
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed {seed} must lie between 0 and {MAX_SEED}")
    chosen = tuple(s.name for s in standards.find_all(standard if isinstance(standard, str) else tuple(standard)))
    settings = Settings(chosen, seed, pytorch=pytorch, most_bytes=free_memory() // 2)
    product = None if product is None else product_key(product)
    conformance = None if conformance is None else conformance_name(conformance)
    listed = [case.moved(product, conformance) for case in _cases(cases) if case.enabled]
    numbered = [(index, replace(case, kit={})) for index, case in enumerate(listed)]
    title = Path(cases).name if isinstance(cases, (str, Path)) else "cases"
    return Report(title, settings.said(), run_all(numbered, settings, jobs_for(jobs, len(numbered))))


def read(path: str | Path) -> Report:
    """The report of a journal that `convgrad run --save DIR` kept: DIR, or the file in it."""
    kept = Path(path) / journal.NAME if Path(path).is_dir() else Path(path)
    head, records = journal.read(kept)
    return Report(Path(path).name, head["settings"], records)


def _cases(given: str | Path | Request | Iterable[str | Request]) -> Iterator[Case]:
    if isinstance(given, (str, Path)):
        yield from files.read(given)
    else:
        for one in [given] if isinstance(given, Request) else given:
            yield from [Case(str(one), one)] if isinstance(one, Request) else files.read(one)
