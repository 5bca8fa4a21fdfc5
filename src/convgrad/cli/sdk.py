"""`convgrad sdk`: a prefix against which programs written for the vendor's toolkit build and run, without an NPU.

    DIR/include/{acl,aclnn,aclnnop}   headers, clean C11 and C++11
    DIR/lib64                         one real library; every other name is a symlink to it, so it is mapped once
    DIR/set_env.sh, bin/setenv.bash   the environment build and run scripts expect
    DIR/include/...                   kernel_operator.h, lib/conv_backprop, tikicpulib.h: Ascend C kernels, C++17
    DIR/bin/convgrad-cxx              a compiler of kernels: convgrad-cxx FILE.cpp -o PROGRAM
    DIR/share/{cmake,pkgconfig}       find_package(convgrad), find_package(tikicpulib), convgrad-aclnn, convgrad-ascendc
    DIR/share/convgrad/manifest.json  what was installed, for --uninstall
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import convgrad
from convgrad.text.files import write_bytes, write_text
from convgrad.text.terminal import UsageError, print_json, tell

LIBRARY = "libconvgrad.so"
LIBRARY_NAMES = (
    "libascendcl.so", "libacl_rt.so", "libnnopbase.so", "libopapi.so", "libopapi_nn.so", "libopapi_math.so",
    "libcust_opapi.so", "libop_common.so", "libruntime.so", "libhccl.so", "libconvgrad_aclnn.so", "libtiling_api.so",
    "libplatform.so", "libregister.so",
)  # fmt: skip
"""Every name a build script may link; all of them are the one library."""
MANIFEST = Path("share/convgrad/manifest.json")


class SdkError(UsageError):
    """An installation that cannot be made or taken back; the text says why."""


def install(prefix: Path, *, compile_anew: bool = False) -> list[str]:
    """Install into `prefix`; the relative paths of everything written. A file that is not ours is never replaced."""
    sources = _package_directory("_native")
    native = sources / "native"
    files = {path.relative_to(root): path for root in (native / "sdk/prefix",) for path in _files(root)}
    for root in (native / "sdk/include", native / "sdk/kernel"):  # C, and C++ for kernels
        files |= {"include" / path.relative_to(root): path for path in _files(root)}
    links = {Path("lib64") / name: LIBRARY for name in LIBRARY_NAMES} | {Path("opp/lib64"): "../lib64"}
    library = Path("lib64") / LIBRARY
    written = [*files, *links, library]
    _refuse_foreign_files(prefix, written)
    with tempfile.TemporaryDirectory() as scratch:
        built = _library(sources, Path(scratch), compile_anew)
        for target, source in {**files, library: built}.items():
            _replace(prefix / target, source)
    for target, points_to in links.items():
        _link(prefix / target, points_to)
    names = sorted(str(path) for path in written)
    _remove(prefix, sorted(set(_installed(prefix)) - set(names)))  # of an older version
    manifest = prefix / MANIFEST
    manifest.parent.mkdir(parents=True, exist_ok=True)
    write_text(manifest, json.dumps(names, indent=1) + "\n")
    return names


def uninstall(prefix: Path) -> list[str]:
    """Take back what `install` wrote, and the directories it leaves empty; everything else stays."""
    names = _installed(prefix)
    if not names:
        raise SdkError(f"{prefix}: nothing was installed here by `convgrad sdk`")
    _remove(prefix, [*names, str(MANIFEST)])
    return names


def compile_library(sources: Path, scratch: Path, options: Sequence[str] = ()) -> Path:
    """Build the library from its sources with CMake and the C++17 compiler it finds (`CXX` first)."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise SdkError("no built library fits this machine and there is no CMake to build one: install cmake")
    jobs = str(os.cpu_count() or 1)
    for command in (
        [cmake, "-S", str(sources), "-B", str(scratch), *options],
        [cmake, "--build", str(scratch), "--target", "convgrad", "--parallel", jobs],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SdkError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
    return scratch / LIBRARY


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb `sdk`."""
    parser = subparsers.add_parser(
        "sdk", help="install headers and libraries for C and C++ programs",
        description="Install a prefix against which C and C++ programs written for the vendor's toolkit build and run.",
    )  # fmt: skip
    parser.add_argument("--prefix", type=Path, required=True, metavar="DIR", help="directory to install into")
    parser.add_argument("--uninstall", action="store_true", help="take back an earlier installation")
    parser.add_argument("--compile", action="store_true", help="compile the library here even if a built one fits")
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    prefix: Path = arguments.prefix.expanduser().absolute()
    if prefix.exists() and not prefix.is_dir():
        raise SdkError(f"{prefix} is no directory")
    names = uninstall(prefix) if arguments.uninstall else install(prefix, compile_anew=arguments.compile)
    if arguments.json:
        print_json({"prefix": str(prefix), "files": names})
    elif arguments.uninstall:
        tell(f"removed {len(names)} files from {prefix}")
    else:
        tell(f"installed {len(names)} files in {prefix}\nnow: source {shlex.quote(str(prefix / 'set_env.sh'))}")
    return 0


# ---- parts -------------------------------------------------------------------------------------------------


def _package_directory(name: str) -> Path:
    """A directory of the installed package (an editable installation keeps built parts apart from the sources)."""
    for root in convgrad.__path__:
        if (Path(root) / name).is_dir():
            return Path(root) / name
    raise SdkError(f"this installation of convgrad has no {name}: install it anew")


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.is_file())


def _library(sources: Path, scratch: Path, compile_anew: bool) -> Path:
    """The built library when it loads on this machine, otherwise one compiled now."""
    if not compile_anew:
        for root in convgrad.__path__:
            built = Path(root) / "_lib" / LIBRARY
            if built.is_file() and _loads(built):
                return built
    return compile_library(sources, scratch)


def _loads(library: Path) -> bool:
    try:
        ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError:
        return False
    return True


def _installed(prefix: Path) -> list[str]:
    try:
        names = json.loads((prefix / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError) as error:
        raise SdkError(f"{prefix / MANIFEST} is damaged: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SdkError(f"{prefix / MANIFEST} is damaged: not a list of file names")
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise SdkError(f"{prefix / MANIFEST} is damaged: {name} lies outside the prefix")
    return names


def _remove(prefix: Path, names: Sequence[str]) -> None:
    for name in names:
        (prefix / name).unlink(missing_ok=True)
    parents = {parent for name in names for parent in Path(name).parents}
    for path in (prefix / directory for directory in sorted(parents, reverse=True)):  # children first
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _refuse_foreign_files(prefix: Path, targets: Sequence[Path]) -> None:
    ours = set(_installed(prefix))
    for target in targets:
        if str(target) not in ours and os.path.lexists(prefix / target):
            raise SdkError(f"{prefix / target} exists and was not installed by `convgrad sdk`; choose another --prefix")


def _replace(target: Path, source: Path) -> None:
    """A copy that is renamed to the target: a running program keeps the file it has mapped."""
    target.parent.mkdir(parents=True, exist_ok=True)
    content = source.read_bytes()
    if target.suffix == ".pc":
        content = content.replace(b"@VERSION@", convgrad.__version__.encode())
    runs = target.suffix == ".so" or content[:2] == b"#!"
    write_bytes(target, content, 0o755 if runs else 0o644)


def _link(target: Path, points_to: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.symlink_to(points_to)
