"""The engine's library: found, loaded, and its functions declared. The only file that loads it."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import struct
import sys
import warnings
from functools import cache
from pathlib import Path

import convgrad
from convgrad.core.plan import Plan

ABI_VERSION = 4
NAME = "libconvgrad.dylib" if sys.platform == "darwin" else "libconvgrad.so"
_OUT_OF_MEMORY = 2
_log = logging.getLogger(__name__)


class LibraryError(OSError):
    """The engine's library is missing or of another version."""


@cache
def library_path() -> Path | None:
    """Where the library lies: an editable install spreads the package over two directories."""
    for directory in convgrad.__path__:
        candidate = Path(directory) / "_lib" / NAME
        if candidate.is_file():
            return candidate
    return None


@cache
def library() -> ctypes.CDLL:
    """The loaded library with its functions declared."""
    path = library_path()
    if path is None:
        raise LibraryError(f"{NAME} is not beside the package; install a wheel, or build it with `pip install .`")
    _refuse_a_cut_file(path)
    lib = ctypes.CDLL(str(path))
    version = getattr(lib, "cg_abi_version", None)
    if version is None:
        raise LibraryError(f"{path} is another program's library: install convgrad anew")
    if version() != ABI_VERSION:
        raise LibraryError(f"{path} has ABI version {version()}, this package needs {ABI_VERSION}")
    address, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("cg_run", number, (address,)),
        ("cg_workspace_bytes", ctypes.c_int64, (address,)),
        ("cg_last_error", ctypes.c_char_p, ()),
        ("cg_may_overlap_itself", number, (number, address, address, ctypes.c_int64)),
        ("cg_default_threads", number, ()),
        ("cg_threadpool", ctypes.c_char_p, ()),
        ("cg_isa_name", ctypes.c_char_p, ()),
        ("cg_path_name", ctypes.c_char_p, (number,)),
        ("cg_path_condition", ctypes.c_char_p, (number,)),
        ("cg_path_is_exact", number, (number,)),
        ("cg_path_accepts", number, (address, number, number)),
        ("cg_choose_path", number, (address, number)),
        ("cg_load", number, (address, ctypes.c_int64, address)),
        ("cg_store", number, (address, ctypes.c_int64, address)),
        ("cg_round", number, (number, address, address, ctypes.c_int64)),
        ("cgt_product", number, (address, address, *(ctypes.c_int64,) * 4, number, address)),
    ):
        function = getattr(lib, name, None)
        if function is None:
            raise LibraryError(f"{path} has no {name}: it was built from other sources, build it again")
        function.restype, function.argtypes = result, arguments
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("engine %s: %s, %d threads", path, lib.cg_isa_name().decode(), lib.cg_default_threads())
    return lib


_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
"""How a library's head names the processors that wheels are built for."""


def _refuse_a_cut_file(path: Path) -> None:
    """The loader maps a truncated ELF file as it is, and its first missing page ends the process with SIGBUS."""
    with path.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 and head[:4] == b"\x7fELF"[: len(head)]:
            raise LibraryError(f"{path} is truncated ({len(head)} bytes): install convgrad anew")
        if head[:6] != b"\x7fELF\x02\x01":  # not 64-bit little-endian ELF: the loader says what it is
            return
        machine = struct.unpack_from("<H", head, 18)[0]
        if machine != _ELF_MACHINES.get(platform.machine(), machine):  # the loader would miss some other file
            raise LibraryError(f"{path} is of another processor than this {platform.machine()}: install convgrad anew")
        offset, size, count = (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
        file.seek(offset)
        segments = file.read(size * count)
    present = path.stat().st_size
    # Segment: type, flags, offset, address (two), bytes in the file.
    ends = [sum(struct.unpack_from("<8xQ16xQ", segments, at)) for at in range(0, len(segments) - 55, size or 56)]
    if len(ends) < count or max(ends, default=0) > present:
        raise LibraryError(f"{path} is truncated ({present} bytes): install convgrad anew")


@cache
def why_not() -> str:
    """Why the library cannot be loaded here; empty when it can."""
    try:
        library()
    except OSError as error:
        return str(error)
    return ""


@cache
def available() -> bool:
    """Whether the library can be loaded here; where it cannot, the reason is told once."""
    if why_not():
        warnings.warn(
            f"convgrad computes with its slow reference engine: {why_not()} (`convgrad doctor` tells more; "
            "CONVGRAD_ENGINE=reference asks for it without this warning)",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    return not why_not()


def isa() -> str:
    """The instruction set in use."""
    return str(library().cg_isa_name().decode())


def default_threads() -> int:
    """CONVGRAD_NUM_THREADS, else those of the OpenMP runtime in use, else OMP_NUM_THREADS, else the process's cores."""
    return int(library().cg_default_threads())


def threadpool() -> str:
    """Whose threads compute: "own", or the path of an OpenMP runtime that is in the process already."""
    return os.fsdecode(library().cg_threadpool())


@cache
def path_names() -> tuple[str, ...]:
    """The engine's paths; number 0 lets it choose."""
    names: list[str] = []
    while (name := library().cg_path_name(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


def fail(status: int, plan: Plan) -> None:
    """Raises what a failed call of the library means."""
    message = f"{library().cg_last_error().decode()} [{plan.problem.line}]"
    raise MemoryError(message) if status == _OUT_OF_MEMORY else AssertionError(message)
