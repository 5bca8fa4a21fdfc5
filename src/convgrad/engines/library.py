"""The engine's library: found, loaded, and its functions declared. The only file that loads it."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import convgrad
from convgrad.core.plan import Plan

ABI_VERSION = 2
_OUT_OF_MEMORY = 2


class LibraryError(OSError):
    """The engine's library is missing or of another version."""


@cache
def library_path() -> Path | None:
    """Where the library lies: an editable install spreads the package over two directories."""
    for directory in convgrad.__path__:
        candidate = Path(directory) / "_lib" / "libconvgrad.so"
        if candidate.is_file():
            return candidate
    return None


@cache
def library() -> ctypes.CDLL:
    """The loaded library with its functions declared."""
    path = library_path()
    if path is None:
        raise LibraryError("libconvgrad.so is not beside the package; build it with `pip install .`")
    lib = ctypes.CDLL(str(path))
    if lib.cg_abi_version() != ABI_VERSION:
        raise LibraryError(f"{path} has ABI version {lib.cg_abi_version()}, this package needs {ABI_VERSION}")
    address, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("cg_run", number, (address,)),
        ("cg_workspace_bytes", ctypes.c_int64, (address,)),
        ("cg_last_error", ctypes.c_char_p, ()),
        ("cg_may_overlap_itself", number, (number, address, address, ctypes.c_int64)),
        ("cg_default_threads", number, ()),
        ("cg_borrow_threads", None, (address,)),
        ("cg_isa_name", ctypes.c_char_p, ()),
        ("cg_path_name", ctypes.c_char_p, (number,)),
        ("cg_path_condition", ctypes.c_char_p, (number,)),
        ("cg_path_accepts", number, (address, number, number)),
        ("cg_choose_path", number, (address, number)),
        ("cg_load", number, (address, ctypes.c_int64, address)),
        ("cg_store", number, (address, ctypes.c_int64, address)),
        ("cg_round", number, (number, address, address, ctypes.c_int64)),
    ):
        function = getattr(lib, name, None)
        if function is None:
            raise LibraryError(f"{path} has no {name}: it was built from other sources, build it again")
        function.restype, function.argtypes = result, arguments
    return lib


@cache
def available() -> bool:
    """Whether the library can be loaded here."""
    try:
        library()
    except OSError:
        return False
    return True


def isa() -> str:
    """The instruction set in use."""
    return str(library().cg_isa_name().decode())


def default_threads() -> int:
    """CONVGRAD_NUM_THREADS, else OMP_NUM_THREADS, else the cores this process may use."""
    return int(library().cg_default_threads())


def borrow_threads(team: int | None) -> None:
    """The engine computes on the threads of another runtime: `team` is the address of its GOMP_parallel."""
    library().cg_borrow_threads(team)


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
