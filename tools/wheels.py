"""Build, audit and try the wheels of both processors: `make wheels`.

    python tools/wheels.py [--arch x86_64 aarch64] [--output dist]

Every wheel loads on any Linux with glibc 2.28 (openEuler 20.03, RHEL 8, Debian 10 and later): zig links it against the
symbols of that version and carries LLVM's C++ library inside. The kernels are compiled by GCC, which the benchmark is
recorded with; their objects call nothing of a C++ library, so that the two compilers meet at plain functions. Beside a
build by GCC alone (benchmarks/builds.py, idle machine) a call takes 0.99 of the time, the benchmark 1.003 of it.

Then, per wheel: `auditwheel repair` (nothing to bundle), `twine check --strict`, `check-wheel-contents`; installed into
an empty environment outside the tree, manual and documents are there, the README's example, `convgrad run`, `convgrad
sdk` with the programs of examples/08_from_c, and tests/native/exactness.cpp against the wheel's library run. A foreign
processor is emulated by QEMU over a root of Debian packages (`apt-get`, no privileges needed).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "wheels"
GLIBC = "2.28"
GCC = {"x86_64": "x86_64-linux-gnu-g++", "aarch64": "aarch64-linux-gnu-g++"}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
PROBLEMS = {True: "3000", False: "60"}
"""Random problems of the exactness program, on this machine's processor and on an emulated one."""
CASES = "conv n2 c8>16 i14x14 k3x3 p1 fp32 on=A2\nconv n1 c4>4 i9 k3 s2 fp16 on=A2\ntbc n3 c4>8 i40 k5 p2 fp32 on=A2\n"


def do(*command: object, quiet: bool = False, **options: object) -> str:
    """Run a command, show it, stop at its failure; what it printed."""
    words = [str(word) for word in command]
    print("$", " ".join(word if len(word) < 200 else word[:200] + " …" for word in words), flush=True)
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)  # type: ignore[call-overload]
    if not quiet or done.returncode:
        print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(f"wheels: {words[0]} failed with {done.returncode}")
    return str(done.stdout)


def gcc_for(arch: str) -> str:
    """GCC for a processor."""
    found = shutil.which(GCC[arch]) or (shutil.which("g++") if arch == platform.machine() else None)
    if found is None:
        sys.exit(f"wheels: no {GCC[arch]} to compile the kernels; Debian: apt-get install g++-{arch}-linux-gnu")
    return found


def compiler(arch: str) -> Path:
    """A compiler command: kernels to GCC, everything else to zig for the chosen glibc."""
    script = BUILD / f"c++-{arch}"
    script.write_text(
        "#!/bin/sh\n"
        f'for word; do case $word in */kernels.cpp) exec "{gcc_for(arch)}" "$@";; esac; done\n'
        f'exec "{sys.executable}" -m ziglang c++ -target {arch}-linux-gnu.{GLIBC} "$@"\n'
    )
    script.chmod(0o755)
    return script


def bill_of_materials() -> Path:
    """What is inside the library besides our sources, as CycloneDX."""
    llvm = [{"type": "library", "name": name, "supplier": {"name": "LLVM"},
             "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
             "description": f"as carried by zig {version('ziglang')}, linked statically"}
            for name in ("libc++", "libc++abi", "libunwind")]  # fmt: skip
    gcc = {"type": "library", "name": "libgcc", "supplier": {"name": "GNU"},
           "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
           "description": "of the GCC that compiled the kernels, linked statically"}  # fmt: skip
    ours = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/convgrad/__init__.py").read_text(), re.MULTILINE)
    assert ours is not None
    own = {"type": "library", "name": "convgrad", "version": ours[1], "licenses": [{"expression": "Apache-2.0"}]}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
                "metadata": {"component": own}, "components": [*llvm, gcc]}  # fmt: skip
    path = BUILD / "convgrad.cdx.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def build(arch: str, output: Path) -> Path:
    """The audited wheel of a processor."""
    plain = BUILD / f"plain-{arch}"
    shutil.rmtree(plain, ignore_errors=True)
    settings = {
        "wheel.tags": f"py3-none-linux_{arch}",
        "build-dir": str(BUILD / f"cmake-{arch}"),
        "install.strip": "false",  # the linker strips: this machine's `strip` may not know the processor
        "cmake.define.CMAKE_CXX_COMPILER": str(compiler(arch)),
        "cmake.define.CMAKE_SHARED_LINKER_FLAGS": "-s",
        # Which instructions the processor has (__cpu_model), which zig's own support library does not know.
        "cmake.define.CMAKE_CXX_STANDARD_LIBRARIES": do(gcc_for(arch), "-print-libgcc-file-name", quiet=True).strip(),
        "cmake.define.CG_KNOWS_BF16_PAIRS": "ON",  # GCC does
        "cmake.define.CONVGRAD_SBOM": str(bill_of_materials()),
    }
    if arch != platform.machine():
        settings |= {"cmake.define.CMAKE_SYSTEM_NAME": "Linux", "cmake.define.CMAKE_SYSTEM_PROCESSOR": arch}
    flags = [word for key, value in settings.items() for word in ("-C", f"{key}={value}")]
    do(sys.executable, "-m", "build", "--wheel", ROOT, "--outdir", plain, *flags, quiet=True)
    (wheel,) = plain.glob("*.whl")
    output.mkdir(exist_ok=True)
    for old in output.glob(f"*{arch}.whl"):
        old.unlink()
    # The oldest platform its symbols allow; `--plat NAME` knows this machine's processor only.
    do("auditwheel", "repair", "--plat", "auto", "--only-plat", "--wheel-dir", output, wheel)
    (repaired,) = output.glob(f"*{arch}.whl")
    minor = re.search(r"manylinux_2_(\d+)_", repaired.name)
    assert minor is not None and int(minor[1]) <= int(GLIBC.split(".")[1]), repaired.name
    do("auditwheel", "show", repaired)
    do("twine", "check", "--strict", repaired)
    do("check-wheel-contents", repaired)
    return repaired


def emulated_root(arch: str) -> Path:
    """A root with Python, libc and libstdc++ of the processor, from Debian's packages."""
    root = BUILD / f"root-{arch}"
    if (root / ".made").exists():
        return root
    state = BUILD / f"apt-{arch}"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    apt = ["apt-get", "-qq", "-o", f"APT::Architecture={DEBIAN[arch]}", "-o", f"APT::Architectures={DEBIAN[arch]}",
           "-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::State::status={state}/status",
           "-o", f"Dir::Cache={state}/cache"]  # fmt: skip
    do(*apt, "update", quiet=True)
    do(*apt, "install", "--download-only", "--yes", "--no-install-recommends", "python3", "libstdc++6", quiet=True)
    for package in sorted((state / "cache/archives").glob("*.deb")):
        do("dpkg", "-x", package, root, quiet=True)
    (root / ".made").touch()
    return root


class Machine:
    """Where a wheel is tried: this machine, or one of another processor under the emulator."""

    def __init__(self, arch: str, directory: Path) -> None:
        self.arch, self.directory, self.native = arch, directory, arch == platform.machine()
        self.root = Path("/") if self.native else emulated_root(arch)
        self.emulator = [] if self.native else [f"qemu-{arch}", "-L", str(self.root)]
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("CONVGRAD_", "PYTHON", "VIRTUAL"))}

    def install(self, wheel: Path) -> None:
        """The wheel and what it needs, in an empty environment."""
        if self.native:
            do(sys.executable, "-m", "venv", self.directory / "venv")
            do(self.directory / "venv/bin/pip", "install", "-q", wheel)
            self.python, self.prefix = [str(self.directory / "venv/bin/python")], self.directory / "venv"
            return
        (python,) = (self.root / "usr/bin").glob("python3.[0-9]*")
        release = python.name.removeprefix("python")
        known = range(17, int(GLIBC.split(".")[1]) + 1)  # pip asks to be told each: it cannot look at that machine
        platforms = [word for minor in known for word in ("--platform", f"manylinux_2_{minor}_{self.arch}")]
        site = self.directory / "site"
        do(sys.executable, "-m", "pip", "install", "-q", "--target", site, "--only-binary=:all:", "--python-version",
           release, "--platform", f"manylinux2014_{self.arch}", *platforms, wheel)  # fmt: skip
        self.python, self.prefix = [*self.emulator, str(python)], site
        self.environment["PYTHONPATH"] = str(site)

    def run(self, *command: object, **options: object) -> str:
        return do(*command, cwd=self.directory, env=self.environment, **options)

    def compile(self, *words: object) -> None:
        """A program as a user of this machine would build it."""
        compiler = "g++" if self.native else GCC[self.arch]
        self.run(compiler, "-std=c++17", "-O1", *words, "-pthread")


def try_wheel(arch: str, wheel: Path) -> None:
    """What a new user does, outside the tree; every figure printed is compared."""
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(arch, Path(scratch))
        machine.install(wheel)
        python = machine.python
        share = machine.prefix / "share"
        for page in ("man/man1/convgrad.1", "man/zh_CN/man1/convgrad.1", "doc/convgrad/docs/generated/rules.md"):
            assert (share / page).stat().st_size > 10_000, page
        machine.run(*python, "-W", "error", "-c", "import convgrad, platform; i = convgrad.engine_info(); "
                    "print(convgrad.__version__, platform.machine(), *platform.libc_ver(), i.engine, i.isa); "
                    "assert i.engine == 'native'")  # fmt: skip
        blocks = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
        (machine.directory / "six_lines.py").write_text(blocks[0])
        assert machine.run(*python, "six_lines.py") == blocks[1], "the README shows another answer"
        (machine.directory / "cases.txt").write_text(CASES)
        machine.run(*python, "-m", "convgrad", "run", "cases.txt", "--html", "report.html")
        assert (machine.directory / "report.html").stat().st_size > 10_000
        machine.run(*python, "-m", "convgrad", "sdk", "--prefix", "prefix")
        lib64 = machine.directory / "prefix/lib64"
        machine.environment["LD_LIBRARY_PATH"] = str(lib64)
        includes = [f"-I{machine.directory}/prefix/include{tail}" for tail in ("", "/aclnn", "/aclnnop")]
        link = [f"-L{lib64}", "-lascendcl", "-lnnopbase", "-lopapi"]
        for source in sorted((ROOT / "examples/08_from_c").glob("*.cpp")):
            machine.compile(*includes, source, "-o", source.stem, *link)
            machine.run(*machine.emulator, f"./{source.stem}")
        machine.compile(f"-I{ROOT}/native/include", ROOT / "tests/native/exactness.cpp", "-o", "exactness",
                        f"-L{lib64}", "-lconvgrad")  # fmt: skip
        machine.run(*machine.emulator, "./exactness", PROBLEMS[machine.native])


def main() -> None:
    parser = argparse.ArgumentParser(description="Build, audit and try the wheels.")
    parser.add_argument("--arch", nargs="+", choices=sorted(GCC), default=["x86_64", "aarch64"])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for arch in arguments.arch:
        wheel = build(arch, arguments.output)
        try_wheel(arch, wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB, {len(zipfile.ZipFile(wheel).namelist())} files")


if __name__ == "__main__":
    main()
