"""Cases: what to run, how it is filled, and the files that hold them."""

from convgrad.cases.case import Case, CaseFileError
from convgrad.cases.files import read, write

__all__ = ["Case", "CaseFileError", "read", "write"]
