"""The report: one self-contained page from the records of a run."""

from convgrad.lab.report.page import write_page

__all__ = ["write_page"]
