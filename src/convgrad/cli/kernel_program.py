"""Compiling an author's kernel in a scratch directory, and running it in a process of its own.

What the compiler says, a crash and a loop without end are outcomes, not errors of the command.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from convgrad.cli import sdk
from convgrad.cli.kernel_source import ENDED
from convgrad.text.terminal import UsageError

MOST_OUTPUT = 1 << 20
"""Bytes of a kernel's own output that are kept."""
MOST_WRITTEN = 1 << 28
"""Bytes that a trace or the output may grow to: a loop without end must not fill a disk."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program, or what the compiler said instead; warnings come with either."""

    program: Path | None
    said: str
    seconds: float
    compiler: str


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended: `died` says in words what stopped it, empty when it came to its end."""

    died: str
    output: str
    seconds: float


def compile_kernel(text: str, source: Path, scratch: Path, flags: Sequence[str], compiler: str | None) -> Compiled:
    """Build the program with the headers and the library of this installation."""
    chosen = compiler or os.environ.get("CXX") or "g++"
    name = chosen.partition(" ")[0]
    if shutil.which(name) is None:
        raise UsageError(f"there is no compiler {name}: install g++, or name another with --cxx or CXX")
    sdk.install(scratch / "sdk")
    driver = scratch / "kernel.cpp"
    driver.write_text(text, encoding="utf-8", errors="surrogateescape")
    program = scratch / "program"
    command = [sys.executable, str(scratch / "sdk/bin/convgrad-cxx"), str(driver), "-g", f"-I{source.resolve().parent}",
               *flags, "-o", str(program)]  # fmt: skip
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                          env={**os.environ, "CXX": chosen})  # fmt: skip
    said = done.stderr.replace(str(driver), str(source)).strip()
    return Compiled(program if done.returncode == 0 else None, said, time.perf_counter() - started, chosen)


def run_program(
    program: Path, arguments: Sequence[str], environment: Mapping[str, str], timeout: float, scratch: Path
) -> Ran:
    """Run it with nothing of the caller's settings; a process that does not end is ended, with all its children."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CONVGRAD_", "ASCEND_"))}
    output = scratch / "output.txt"
    started = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen([str(program), *arguments], stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.DEVNULL, env={**clean, **environment}, cwd=scratch,
                                   start_new_session=True)  # fmt: skip
        if hasattr(resource, "prlimit"):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
        try:
            code = process.wait(timeout)
            died = "" if code == ENDED else ended_by(code)
        except subprocess.TimeoutExpired:
            died = f"it did not end within {timeout:g} seconds (--timeout)"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.perf_counter() - started
    with output.open("rb") as kept:
        return Ran(died, kept.read(MOST_OUTPUT).decode("utf-8", "replace"), seconds)


def ended_by(code: int) -> str:
    """An exit status in words."""
    if code >= 0:
        return "it could not get its memory" if code == 121 else f"it ended the process with exit code {code}"
    words = {signal.SIGSEGV: "it crashed: it touched memory that is none (SIGSEGV)",
             signal.SIGABRT: "it aborted (SIGABRT)", signal.SIGFPE: "it crashed: a division by zero (SIGFPE)",
             signal.SIGBUS: "it crashed: it touched memory that is none (SIGBUS)",
             signal.SIGILL: "it crashed: an instruction that is none (SIGILL)",
             signal.SIGXFSZ: f"it was stopped: its calls or its output filled {MOST_WRITTEN >> 20} MiB"}  # fmt: skip
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"signal {-code} ended it"
    return words.get(number, f"{number.name} ended it")
