"""Output files: links, devices and pipes stay what they are, a failure costs nothing, leftovers go."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from convgrad.cli.command_line import main
from convgrad.text import files

LINE = "conv n1 c2>2 i5x5 k3x3 fp16 on=A2"
TILE = "conv n1 c16>16 i1x4x4 k1x3x3 p0x1x1 fp16"


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A model `scan` can import."""
    (tmp_path / "tiny_network.py").write_text("from torch import nn\ndef net():\n    return nn.Conv2d(3, 4, 3)\n")
    monkeypatch.chdir(tmp_path)
    return ["scan", "tiny_network:net", "--input", "1,3,8,8"]


WRITERS = {
    "run --html": ["run", LINE, "-q", "--html"], "run --csv": ["run", LINE, "-q", "--csv"],
    "run --xlsx": ["run", LINE, "-q", "--xlsx"], "cases convert": ["cases", "convert", LINE, "-o"],
    "cases gen": ["cases", "gen", "random", "--count", "1", "-o"], "tile --svg": ["tile", TILE, "--dry", "--svg"],
    "scan --page": ["--page"], "scan --output": ["--output"],
}


def words(writer: str, network: list[str]) -> list[str]:
    return [*network, *WRITERS[writer]] if writer.startswith("scan") else WRITERS[writer]


@pytest.mark.parametrize("writer", WRITERS)
def test_links_are_written_through(writer, network, tmp_path, capsys):
    """A link stays a link and its target is replaced, whether it existed or not; permissions stay."""
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("target")
    dangling.symlink_to("made")
    for name in (link, dangling):
        assert main([*words(writer, network), str(name)]) in (0, 3), capsys.readouterr().err
        assert name.is_symlink()
    assert target.stat().st_size > 3 and stat.S_IMODE(target.stat().st_mode) == 0o640
    assert (tmp_path / "made").is_file() and not list(tmp_path.glob(".convgrad-*"))


@pytest.mark.parametrize("writer", WRITERS)
def test_devices_and_pipes_are_written_into(writer, network, tmp_path, capsys):
    """A pipe gets the bytes and stays a pipe; a full device is an error of its name and stays a device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert main([*words(writer, network), str(pipe)]) in (0, 3)
    reader.join()
    assert len(got[0]) > 50 and stat.S_ISFIFO(pipe.stat().st_mode)
    full = tmp_path / "full"
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full.open("wb").close()
    except PermissionError:
        full = Path("/dev/full")  # which a user cannot replace anyway
    capsys.readouterr()
    assert main([*words(writer, network), str(full)]) == 2
    assert f"{full}: {os.strerror(errno.ENOSPC)}" in capsys.readouterr().err
    assert stat.S_ISCHR(full.stat().st_mode)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_keeps_the_old_file(writer, network, tmp_path, capsys, monkeypatch):
    """Writing fails in the middle: the old file is as it was, the message names it, nothing lies beside it."""
    old = tmp_path / "old"
    old.write_text("precious")

    class Full:
        def __init__(self, stream):
            self._stream = stream

        def __getattr__(self, name):
            return getattr(self._stream, name)

        def write(self, content):
            self._stream.write(bytes(content)[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = files._replaced

    @files.contextlib.contextmanager
    def full(*arguments):
        with real(*arguments) as out:
            yield Full(out)

    monkeypatch.setattr(files, "_replaced", full)
    assert main([*words(writer, network), str(old)]) == 2
    assert f"{old}: {os.strerror(errno.ENOSPC)}" in capsys.readouterr().err
    assert old.read_text() == "precious" and not list(tmp_path.glob(".convgrad-*"))


def test_a_disk_that_is_really_full(tmp_path):
    """A limit of the process on file sizes: exit code 2, the file by name, the old table as it was."""
    old = tmp_path / "table.csv"
    old.write_text("precious")
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from convgrad.text.files import write_bytes\n"
        "from convgrad.cli import command_line\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: write_bytes(sys.argv[1], b'x' * 1000)\n"
        "except OSError as error: sys.exit(command_line._failed(error, False))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(old)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == f"convgrad: {old}: {os.strerror(errno.EFBIG)}\n"
    assert old.read_text() == "precious" and [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_leftovers_of_a_killed_run_go(tmp_path, capsys):
    """kill -9 while a file is written: the next file written there removes what was left, and only that."""
    script = (
        "import sys, time; from convgrad.text.files import output_file\n"
        "with output_file(sys.argv[1]) as out: out.write(b'half'); out.flush(); print('half', flush=True); "
        "time.sleep(60)"
    )
    target = tmp_path / "page.html"
    command = [sys.executable, "-c", script, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as dead, \
            subprocess.Popen(command, stdout=subprocess.PIPE) as alive:
        assert dead.stdout.readline() == alive.stdout.readline() == b"half\n"
        assert len(list(tmp_path.glob(".convgrad-*"))) == 2
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert main(["cases", "convert", LINE, "-o", str(tmp_path / "x.json")]) == 0
        assert len(list(tmp_path.glob(".convgrad-*"))) == 1, "one writer is alive"
        alive.send_signal(signal.SIGKILL)
    assert main(["cases", "convert", LINE, "-o", str(tmp_path / "x.json")]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_our_own_output_is_not_parted_from_its_file(tmp_path):
    """`--csv /dev/stdout > file`: the table and what is printed after it are both in that file."""
    command = [sys.executable, "-m", "convgrad", "run", LINE, "-q", "--csv", "/dev/stdout"]
    with (tmp_path / "out").open("wb") as out:
        assert subprocess.run(command, stdout=out, check=False).returncode == 0
    text = (tmp_path / "out").read_text()
    assert text.startswith("index,name,") and "1 case: 1 pass" in text


@pytest.mark.parametrize("bad", ["directory", "loop", "readonly"])
def test_what_cannot_be_written_is_named(bad, tmp_path, capsys):
    """A directory, a ring of links, a file without write permission: exit code 2, the asked name, nothing changed."""
    path = tmp_path / bad
    if bad == "directory":
        path.mkdir()
    elif bad == "loop":
        path.symlink_to(bad)
    else:
        path.write_text("kept")
        path.chmod(0o444)
        if os.access(path, os.W_OK):
            pytest.skip("the superuser may write anything")
    assert main(["cases", "convert", LINE, "-o", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"convgrad: {path}: ")
    assert [p.name for p in tmp_path.iterdir()] == [bad]


def test_a_pipe_whose_reader_left_is_an_error(tmp_path, capsys):
    """Quiet is only standard output's closed pipe; a lost table is said."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError) as lost, files.output_file(pipe) as out:
        os.close(reader)
        out.write(b"x" * 100_000)
    assert lost.value.filename == str(pipe)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_said(unbuffered):
    """`convgrad rules > /dev/full`: exit code 2 and one line, no traceback, whenever the disk is found full."""
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "convgrad", "rules"]
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert done.returncode == 2 and done.stderr == f"convgrad: standard output: {os.strerror(errno.ENOSPC)}\n"


def test_what_is_read_is_not_overwritten(network, tmp_path, capsys) -> None:
    """An output that is the file of cases, an earlier journal, the model or another output: refused, all as it was."""
    cases = tmp_path / "cases.txt"
    cases.write_text(f"{LINE}\n")
    (tmp_path / "link.csv").symlink_to(cases)
    os.link(cases, tmp_path / "same.json")
    model = Path("tiny_network.py").read_text()
    for option in ("--html", "--csv", "--xlsx", "--junit", "--progress-file", "--po"):
        for name in ("cases.txt", "link.csv", "same.json", "./sub/../cases.txt"):
            (tmp_path / "sub").mkdir(exist_ok=True)
            assert main(["run", str(cases), "-q", option, name]) == 2, (option, name)
            assert f"{Path(name)} is what is read" in " ".join(capsys.readouterr().err.split())
    assert main(["run", LINE, "-q", "--csv", "new", "--junit", "./new"]) == 2
    assert "new would be written twice" in capsys.readouterr().err and not Path("new").exists()
    assert main(["scan", "tiny_network.py:net", "--input", "1,3,8,8", "--page", "tiny_network.py"]) == 2
    assert main(["dump", str(tmp_path), "--csv", "new", "--html", "new"]) == 2
    assert cases.read_text() == f"{LINE}\n" and Path("tiny_network.py").read_text() == model
    assert main(["run", str(cases), "-q", "--csv", "/dev/null", "--junit", "/dev/null"]) == 0
    assert main(["cases", "convert", "cases.txt", "-o", "cases.txt"]) == 0 and LINE.split()[0] in cases.read_text()
