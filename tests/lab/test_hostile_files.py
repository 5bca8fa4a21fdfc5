"""Files that lie about what they are, and input without an end: a usage error of the file's name, nothing else."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import convgrad
from convgrad.cli.command_line import main
from convgrad.lab.cases import files, reading
from convgrad.lab.cases.case import CaseFileError
from convgrad.text.spreadsheet import quoted, unquoted

LINE = "conv n1 c2>2 i5x5 k3x3 fp16 on=A2"


def npy(header: str, data: bytes = b"\0" * 16, version: int = 1) -> bytes:
    """A .npy file with any header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("arr_0.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}"))
    return out.getvalue()


DAMAGED = {
    "a zip": zipped(), "an empty zip": b"PK\x05\x06" + b"\0" * 18, "nothing": b"", "a pickle": b"\x80\x04N.",
    "a shape of 10**23": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**23},)}}"),
    "a shape of 2**62": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62}, 2)}}"),
    "a product that wraps to 4": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62 + 1}, 4)}}"),
    "a negative shape": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2)}"),
    "70 axes": npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1,) * 69 + (4,)}}}"),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"),
    "a record": npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}"),
    "no element": npy("{'descr': '<V0', 'fortran_order': False, 'shape': (4,)}"),
    "too few bytes": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}"),
    "too many bytes": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"),
    "no dict": npy("__import__('os')"), "deep": npy("(" * 3000), "a version": npy("{}", version=9),
    "no dtype": npy("{'descr': 'x9', 'fortran_order': False, 'shape': (4,)}"),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_compare_with_what_is_no_npy(tmp_path, capsys, content):
    """On either side: exit code 2 and the file by name, never an internal error."""
    bad, good = tmp_path / "bad.npy", tmp_path / "good.npy"
    bad.write_bytes(content)
    np.save(good, np.zeros(4, np.float32))
    for pair in ((bad, good), (good, bad)):
        assert main(["compare", *map(str, pair)]) == 2
        err = capsys.readouterr().err
        assert str(bad) in err and "internal error" not in err
        assert content != DAMAGED["too many bytes"] or "bytes follow the header" in err


def test_an_archive_in_several_parts_is_no_tensor(tmp_path, capsys):
    """A .pt file whose archive says it spans nine disks: exit code 2 and the file by name."""
    torch = pytest.importorskip("torch")
    bad, good = tmp_path / "bad.pt", tmp_path / "good.pt"
    torch.save(torch.zeros(4), good)
    data = bytearray(good.read_bytes())
    count = data.rindex(b"PK\x06\x07") + 16  # of disks, in the locator of the long form's directory
    data[count : count + 4] = struct.pack("<I", 9)
    bad.write_bytes(data)
    assert main(["compare", str(bad), str(good)]) == 2
    err = capsys.readouterr().err
    assert str(bad) in err.replace("\n", "") and "internal error" not in err


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.float32(3), np.zeros((0, 2), np.float16),
                                   np.arange(4, dtype=">f4")], ids=str)
def test_whole_npy_files_are_read(tmp_path, capsys, array, order):
    """Either order, a scalar, nothing at all, the other byte order: equal to themselves."""
    path = tmp_path / "x.npy"
    np.save(path, np.asarray(array, order=order))
    from convgrad.lab.golden import tensor_files

    read, _ = tensor_files.read(path)
    assert read.shape == np.shape(array) and (read == array).all()


@pytest.mark.parametrize("text", [
    '{"convgrad_cases": 1, "cases": [], "cases": []}', '[{"name": "a", "name": "b"}]',
    '{"convgrad_cases": 1, "cases": [{"line": "conv n1 c1>1 i3 k3 fp16", "seed": 1, "seed": 2}]}',
])
def test_keys_said_twice_are_refused(tmp_path, capsys, text):
    """The last one does not silently win."""
    path = tmp_path / "x.json"
    path.write_text(text)
    assert main(["cases", "list", str(path)]) == 2
    assert "is there twice in one object" in capsys.readouterr().err


def test_a_manifest_with_a_key_twice_is_refused(tmp_path, capsys):
    """The manifest of golden data is read as strictly as cases."""
    (tmp_path / "manifest.json").write_text('{"convgrad_golden": 1, "cases": [], "cases": []}')
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "is there twice" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["cases", "list"], ["run"], ["golden", "-o", "nowhere"], ["bench", "--file"]])
def test_endless_input_has_a_limit(words, capsys, monkeypatch):
    """A device without an end is read up to the limit that the message tells."""
    monkeypatch.setattr(reading, "MOST_BYTES", 10_000)
    assert main([*words, "/dev/zero"]) == 2
    assert "/dev/zero: has more than 10,000 bytes" in capsys.readouterr().err


def test_endless_standard_input_has_the_same_limit(monkeypatch):
    """Exactly the limit is read, one byte more is not."""
    monkeypatch.setattr(reading, "MOST_BYTES", 100)
    assert reading.text_from("x", io.BytesIO(b"#" * 100)) == "#" * 100
    with pytest.raises(CaseFileError, match="more than 100 bytes"):
        reading.text_from("x", io.BytesIO(b"#" * 101))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#" * 101)))
    with pytest.raises(CaseFileError, match="standard input: has more than"):
        files.read("-")


def test_raw_tensor_files_are_regular_files(tmp_path, capsys):
    """A device in the place of a .bin file is not read for ever."""
    link = tmp_path / "golden_0_float32.bin"
    link.symlink_to("/dev/zero")
    assert main(["compare", str(link), str(link)]) == 2
    assert f"{link}: is no regular file" in capsys.readouterr().err


@pytest.mark.parametrize("text", [
    "=1+1", "+1", "-1", "@SUM(A1)", "＝1+1", "＋1", "－1", "＠SUM(A1)", "\ufeff=1+1", "\u200b=1", " =1", "\x00=1",
    "\ufeff＝1", "﹦1", "'=1", "''＝1", "\t1", "\r1", "\n1", "\xa0@x",
])
def test_formulas_are_quoted(text):
    """Also in their full-width and small forms and behind what is not seen; reading takes the apostrophe off."""
    assert quoted(text) == "'" + text and unquoted(quoted(text)) == text


@pytest.mark.parametrize("text", ["", "a", "1+1", "'", "''", "'a", "\ufeffa", " a", "\ufeff", "（=）", "a=b"])
def test_other_text_is_left_alone(text):
    """No apostrophe where none is needed."""
    assert quoted(text) == text and unquoted(text) == text


def test_tables_with_full_width_formulas(tmp_path):
    """A case named ＝1+1 is text in the CSV."""
    path, table = tmp_path / "cases.txt", tmp_path / "x.csv"
    path.write_text(f"{LINE} # ＝1+1\n{LINE} # \ufeff=2\n")
    assert main(["run", str(path), "-q", "--csv", str(table)]) == 0
    assert "'＝1+1" in table.read_text("utf-8") and "'\ufeff=2" in table.read_text("utf-8")


@pytest.mark.parametrize("name, value, said", [
    ("CONVGRAD_ISA", "sse9", "CONVGRAD_ISA=sse9 is no instruction set of this machine; "),
    ("CONVGRAD_NUM_THREADS", "many", "CONVGRAD_NUM_THREADS=many is no number from 1 to 4096; "),
    ("CONVGRAD_NUM_THREADS", "0", "CONVGRAD_NUM_THREADS=0 is no number from 1 to 4096; "),
    ("CONVGRAD_NUM_THREADS", "4x", "CONVGRAD_NUM_THREADS=4x is no number from 1 to 4096; "),
])
def test_settings_that_are_not_heeded_are_warned_of(name, value, said, monkeypatch):
    """Once, on standard error; the call is made as without the setting."""
    monkeypatch.setenv(name, value)
    script = "import convgrad; [convgrad.engine_info() for _ in range(3)]; print(convgrad.engine_info().engine)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "native\n" and done.stderr.startswith(f"convgrad: warning: {said}")
    assert done.stderr.count("\n") == 1


def test_settings_that_are_heeded_are_not_warned_of(monkeypatch):
    """An instruction set of this machine and a number of threads: silence."""
    monkeypatch.setenv("CONVGRAD_ISA", convgrad.engine_info().isa)
    monkeypatch.setenv("CONVGRAD_NUM_THREADS", "3")
    script = "import convgrad; print(convgrad.engine_info().threads)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")
