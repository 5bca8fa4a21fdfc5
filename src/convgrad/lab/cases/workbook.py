"""Case files as workbooks (.xlsx) and archives (.zip): the CSV's columns, read as text; sizes are checked first."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from convgrad.lab.cases.case import CaseFileError
from convgrad.lab.cases.reading import MOST_BYTES
from convgrad.text.terminal import UsageError

SUFFIXES = (".xlsx", ".xlsm")
_MOST_RATIO = 200
"""Of unpacked to packed bytes; case files compress some twenty times."""
_HARMLESS = 2**20
_MOST_CELLS = 20_000_000
"""Of a sheet, blank ones included: one cell in a far corner makes billions of them, 100,000 cases 4 million."""


def _checked(path: str) -> zipfile.ZipFile:
    """The archive a file is, if what it unpacks to is within bounds."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise CaseFileError(path, f"is no archive that can be read: {error}") from None
    unpacked = sum(member.file_size for member in archive.infolist())
    packed = max(Path(path).stat().st_size, 1)
    if unpacked > MOST_BYTES or (unpacked > _HARMLESS and unpacked > _MOST_RATIO * packed):
        archive.close()
        raise CaseFileError(path, f"unpacks to {unpacked:,} bytes from {packed:,}: refused")
    return archive


def as_csv(path: str) -> str:
    """The first sheet of a workbook as CSV text; every cell is its text, stripped; blank rows are skipped."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UsageError("a workbook needs openpyxl: pip install 'convgrad[report]'") from None
    _checked(path).close()
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        rows, cells = [], 0
        for row in book.worksheets[0].values:
            cells += len(row)
            if cells > _MOST_CELLS:
                break
            texts = ["" if v is None else str(v).strip() for v in row]
            if any(texts):
                rows.append(texts)
        book.close()
    except Exception as error:  # whatever a library for a foreign format raises
        raise CaseFileError(path, f"is no workbook that can be read: {error}") from None
    if cells > _MOST_CELLS:
        raise CaseFileError(path, f"has more than {_MOST_CELLS:,} cells: refused")
    width = max((i + 1 for i, name in enumerate(rows[0]) if name), default=0) if rows else 0
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(row[:width] for row in rows)  # none beyond the header's last
    return out.getvalue()


def members(path: str) -> Iterator[tuple[str, str]]:
    """The CSV files of an archive by name, read in memory: nothing is unpacked to disk."""
    with _checked(path) as archive:
        names = sorted(name for name in archive.namelist() if name.lower().endswith(".csv"))
        if not names:
            raise CaseFileError(path, "holds no .csv file")
        for name in names:
            try:
                yield f"{path}:{name}", archive.read(name).decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise CaseFileError(f"{path}:{name}", f"is not UTF-8 text (byte {error.start})") from None
            except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
                raise CaseFileError(f"{path}:{name}", f"cannot be read: {error}") from None


def from_csv(text: str) -> bytes:
    """A workbook of one sheet with the cells of a CSV text, each as text."""
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    except ImportError:
        raise UsageError("a workbook needs openpyxl: pip install 'convgrad[report]'") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("cases")
    for row in csv.reader(io.StringIO(text, newline="")):
        cells = [WriteOnlyCell(sheet, value) for value in row]
        for made in cells:
            made.data_type = "s"
        sheet.append(cells)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()
