"""Cases: what to run, how it is filled, and the files that hold them."""

from convgrad.lab.cases.case import Case, CaseFileError
from convgrad.lab.cases.files import read, write

__all__ = ["Case", "CaseFileError", "read", "write"]
