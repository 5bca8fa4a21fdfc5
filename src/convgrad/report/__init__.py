"""The report: one self-contained page from the records of a run."""

from convgrad.report.page import write_page

__all__ = ["write_page"]
