"""tests/native/exactness.cpp around the library that Python loads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import c_programs
from convgrad.engines import library

SOURCE = c_programs.ROOT / "tests" / "native" / "exactness.cpp"


def program() -> Path:
    """Built once for a source and a library; CONVGRAD_ISA chooses the instruction set."""

    def build(directory: Path) -> None:
        found = library.library_path()
        command = ["g++", "-std=gnu++17", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{c_programs.NATIVE / 'include'}"]
        command += [str(SOURCE), f"-L{found.parent}", "-lconvgrad", f"-Wl,-rpath,{found.parent}"]
        subprocess.run([*command, "-o", str(directory / "exactness")], check=True)

    return c_programs.made_once("exactness", [SOURCE, library.library_path()], build) / "exactness"
