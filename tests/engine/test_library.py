"""A library that is missing, cut short or of another kind: told once with the reason, and computed without."""

from __future__ import annotations

import _ctypes
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from convgrad.engines import library

pytestmark = pytest.mark.skipif(not library.available(), reason="the native library is not built")

GRADIENT = """
import json, warnings
import numpy as np
import convgrad
from pathlib import Path
from convgrad.engines import library
library.library_path = lambda: {path!r} and Path({path!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = np.ones((1, 1, 4, 4), np.float32)
    total = [float(convgrad.conv_backward(x, x, x[:, :, :1, :1]).weight.sum()) for _ in range(2)]
print(json.dumps([total, [[w.category.__name__, str(w.message)] for w in caught]]))
"""
DOCTOR = """
import sys
from pathlib import Path
from convgrad.cli.command_line import main
from convgrad.engines import library
library.library_path = lambda: Path({path!r})
sys.exit(main(["doctor", *{words!r}]))
"""


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("CONVGRAD_")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, check=False)


def library_with(tmp_path: Path, content: bytes | None) -> str | None:
    """The path of a library with this content."""
    path = tmp_path / library.NAME
    if content is not None:
        path.write_bytes(content)
    return None if content is None else str(path)


def whole() -> bytes:
    path = library.library_path()
    assert path is not None
    return path.read_bytes()


@pytest.mark.parametrize(("part", "says"), [
    (None, "is not beside the package"), (0.0, "is truncated"), (1e-5, "is truncated"), (0.01, "is truncated"),
    (0.5, "is truncated"), (0.9, "is truncated"),
])  # fmt: skip
def test_without_a_whole_library_the_reference_engine_computes(tmp_path: Path, part: float | None, says: str) -> None:
    """One RuntimeWarning with the reason, the right answer, no signal: a cut file used to end the process (SIGBUS)."""
    content = None if part is None else whole()[: int(part * len(whole()))]
    done = child(GRADIENT.format(path=library_with(tmp_path, content)))
    assert done.returncode == 0, (done.returncode, done.stderr)
    total, warned = json.loads(done.stdout)
    assert total == [16.0, 16.0]
    assert len(warned) == 1 and warned[0][0] == "RuntimeWarning" and says in warned[0][1], warned


def test_a_library_of_another_processor_is_told_as_that(tmp_path: Path) -> None:
    """Its loader would miss some other file and name that; the number of the processor in its head is looked at."""
    other = bytearray(whole())
    other[18:20] = (62 if platform.machine() == "aarch64" else 183).to_bytes(2, "little")
    done = child(GRADIENT.format(path=library_with(tmp_path, bytes(other))))
    total, warned = json.loads(done.stdout)
    assert total == [16.0, 16.0] and len(warned) == 1 and "is of another processor" in warned[0][1], warned


def test_a_library_that_is_not_ours_is_told_as_that(tmp_path: Path) -> None:
    """A whole library of another program under our name loads, and has none of our functions."""
    others = Path(_ctypes.__file__).read_bytes()
    done = child(GRADIENT.format(path=library_with(tmp_path, others)))
    assert done.returncode == 0, done.stderr
    total, warned = json.loads(done.stdout)
    assert total == [16.0, 16.0] and len(warned) == 1 and "is another program's library" in warned[0][1], warned


def test_the_reference_engine_that_was_asked_for_is_no_reason_to_warn(tmp_path: Path) -> None:
    """CONVGRAD_ENGINE=reference: nothing is loaded, nothing is said."""
    done = child(GRADIENT.format(path=library_with(tmp_path, None)), CONVGRAD_ENGINE="reference")
    assert json.loads(done.stdout) == [[16.0, 16.0], []], done.stderr


def test_doctor_tells_the_reason_and_what_to_do(tmp_path: Path) -> None:
    """Exit code 4, the reason and the command that mends it, in words and as JSON."""
    path = library_with(tmp_path, b"text")
    done = child(DOCTOR.format(path=path, words=[]))
    assert done.returncode == 4 and "cannot be loaded" in done.stdout and "pip install" in done.stdout, done
    done = child(DOCTOR.format(path=path, words=["--json"]))
    found = json.loads(done.stdout)
    assert found["engine"] == "reference" and library.NAME in found["reason"] and found["advice"]


def test_doctor_of_a_whole_installation() -> None:
    """Exit code 0; engine, instruction set, threads and the versions of what is needed."""
    done = child("import sys; from convgrad.cli.command_line import main; sys.exit(main(['doctor', '--json']))")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["engine"] == "native" and found["isa"] == library.isa()
    assert found["threads"] >= 1 and all(found["needed"].values()) and found["advice"] == []


AS_ON_WINDOWS = """
import ctypes, os, sys, warnings
import numpy, ml_dtypes, subprocess, tempfile, concurrent.futures  # what is not ours sees this system as it is

class PyDLL(ctypes.PyDLL):
    def __init__(self, name, *arguments, **options):
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        super().__init__(name, *arguments, **options)

for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None  # importing it raises ImportError
for name in ("sched_getaffinity", "fork", "register_at_fork", "getuid", "geteuid"):
    vars(os).pop(name, None)
ctypes.PyDLL, sys.platform = PyDLL, "win32"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import convgrad
    from convgrad.engines import library
    library.library_path = lambda: None
    x = numpy.ones((1, 1, 4, 4), numpy.float32)
    print(float(convgrad.conv_backward(x, x, x[:, :, :1, :1]).weight.sum()), convgrad.engine_info().engine)
    from convgrad.cli.command_line import main
    code = main(["run", "conv n1 c2>3 i5x5 k3x3 fp16 on=A2", "--html", "report.html", "-q"])
told = [str(w.message) for w in caught if w.category is RuntimeWarning]
print(code, os.path.getsize("report.html") > 10_000, len(told), "reference engine" in told[0])
"""


def test_where_windows_has_no_handle_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `PyDLL(None)`, no POSIX modules, no library: import, gradients, a run and its page work, warned of once."""
    monkeypatch.chdir(tmp_path)
    done = child(AS_ON_WINDOWS)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == "16.0 reference" and lines[-1] == "0 True 1 True", done
