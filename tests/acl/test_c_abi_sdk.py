"""`convgrad sdk`: what it installs, that it takes back just that, and that whole projects build against it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from c_programs import ROOT, SOURCES, build, made_once, prefix, run
from convgrad.cli import sdk
from convgrad.cli.command_line import main

EXAMPLE = ROOT / "examples/08_from_c"
PRINTS = {
    "conv1d": "gradInput   1 2 3 3 3 3 2 1\ngradWeight  6 6 6\n",
    "conv2d": "gradInput   16 to 36\ngradWeight  49 to 64\ngradBias    64 to 64\n",
    "conv3d": "gradInput   3 to 24\ngradWeight  54 to 54\n",
    "transposed": "gradInput   12 to 27\ngradWeight  16 to 25\ngradBias    100 to 100\n",
    "time_batch_channel": "gradInput   8 to 12\ngradWeight  18 to 20\ngradBias    20 to 20\n",
    "repeatable": "gradBias    5 to 5\ngradBias    50 to 50\n",
    "two_streams": "first       5 to 5\nsecond      10 to 10\n",
}


def shell(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CONVGRAD_", "ASCEND_", "LD_LIBRARY"))}
    command = ["bash", "-ec", script]
    return subprocess.run(command, cwd=directory, env=clean, capture_output=True, text=True, check=False)


def test_install_and_uninstall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One real library, every other name a link to it; uninstalling leaves what was there before, and nothing else."""
    home = tmp_path / "a home"  # with a space
    home.mkdir()
    (home / "mine.txt").write_text("keep")
    assert main(["sdk", "--prefix", str(home), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    real = [path for path in (home / "lib64").iterdir() if not path.is_symlink()]
    assert [path.name for path in real] == [sdk.LIBRARY]
    for name in ("ascendcl", "acl_rt", "nnopbase", "opapi", "opapi_nn", "opapi_math", "cust_opapi"):
        assert (home / f"lib64/lib{name}.so").samefile(real[0])
    assert (home / "opp/lib64").samefile(home / "lib64")
    for name in ("acl/acl.h", "aclnn/aclnn_base.h", "aclnn/opdev/op_errno.h", "aclnnop/aclnn_convolution_backward.h",
                 "aclnnop/level2/aclnn_convolution_backward.h"):  # fmt: skip
        assert (home / "include" / name).is_file() and f"include/{name}" in files
    assert main(["sdk", "--prefix", str(home)]) == 0  # again, over itself
    assert f"source {shlex.quote(f'{home}/set_env.sh')}\n" in capsys.readouterr().out, "a line to paste"
    assert main(["sdk", "--prefix", str(home), "--uninstall"]) == 0
    assert [path.name for path in home.iterdir()] == ["mine.txt"]
    assert main(["sdk", "--prefix", str(home), "--uninstall"]) == 2
    assert "nothing was installed here" in capsys.readouterr().err


def test_a_foreign_installation_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A prefix with somebody else's library is refused before anything is written."""
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/libascendcl.so").write_text("the vendor's")
    assert main(["sdk", "--prefix", str(tmp_path)]) == 2
    assert "was not installed by `convgrad sdk`" in capsys.readouterr().err
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["lib64", "lib64/libascendcl.so"]


def test_a_damaged_manifest_cannot_remove_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A manifest that names a path outside the prefix is refused."""
    (tmp_path / "precious").write_text("keep")
    home = tmp_path / "home"
    (home / "share/convgrad").mkdir(parents=True)
    for content in ('["../precious"]', f'["{tmp_path}/precious"]', "{", "[1]"):
        (home / "share/convgrad/manifest.json").write_text(content)
        assert main(["sdk", "--prefix", str(home), "--uninstall"]) == 2
        assert "is damaged" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "keep"


def test_without_a_fitting_library_it_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that does not load here is not installed: one is built from the sources in the package."""
    compiled: list[Path] = []
    built = prefix() / "lib64" / sdk.LIBRARY

    def compile_library(sources: Path, scratch: Path, options: object = ()) -> Path:
        assert (sources / "CMakeLists.txt").is_file() and (sources / "native/acl/operators/operators.cpp").is_file()
        compiled.append(scratch)
        return Path(shutil.copy(built, scratch / "fresh.so"))

    monkeypatch.setattr(sdk, "compile_library", compile_library)
    monkeypatch.setattr(sdk, "_loads", lambda library: False)
    sdk.install(tmp_path)
    assert len(compiled) == 1 and (tmp_path / "lib64" / sdk.LIBRARY).is_file()
    monkeypatch.undo()
    monkeypatch.setattr(sdk.shutil, "which", lambda name: None)
    with pytest.raises(sdk.SdkError, match="install cmake"):
        sdk.compile_library(ROOT, tmp_path)


@pytest.mark.parametrize("script", ["set_env.sh", "bin/setenv.bash"])
def test_environment_scripts(script: str, tmp_path: Path) -> None:
    """Both scripts set the vendor's variables to the prefix, from any directory, and keep an older library path."""
    done = shell(
        f"LD_LIBRARY_PATH=/older; source {prefix()}/{script}; "
        'echo "$ASCEND_HOME_PATH|$ASCEND_TOOLKIT_HOME|$ASCEND_OPP_PATH|$LD_LIBRARY_PATH"', tmp_path,
    )  # fmt: skip
    home = prefix()
    assert done.stdout == f"{home}|{home}|{home}/opp|{home}/lib64:/older\n", done.stderr


def built_example() -> Path:
    """The example project, built as its readers are told to."""

    def make(directory: Path) -> None:
        script = f"""
            source {prefix()}/set_env.sh
            cmake -S {EXAMPLE} -B {directory}/build -DCMAKE_SKIP_RPATH=TRUE -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
            cmake --build {directory}/build --parallel 2
        """
        done = shell(script, directory)
        assert done.returncode == 0, done.stdout + done.stderr

    return made_once("example", [prefix().name, *sorted(EXAMPLE.iterdir())], make) / "build"


def test_example_project() -> None:
    """Every program of examples/08_from_c prints its exact gradients, also in strict mode, without a report."""
    assert {path.stem for path in EXAMPLE.glob("*.c*")} == {*PRINTS, "refused"}
    for strict in ("0", "1"):
        for name, printed in PRINTS.items():
            done = run(built_example() / name, environment={"CONVGRAD_STRICT": strict})
            assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0), name


def test_example_of_a_refusal_is_what_the_page_shows() -> None:
    """docs/c_abi.md shows the very text the program prints."""
    done = run(built_example() / "refused")
    assert done.returncode == 0 and done.stdout.startswith("status 161002\naclnnConvolutionBackward: ")
    assert done.stdout in (ROOT / "docs/c_abi.md").read_text("utf-8")


def test_find_package_and_pkg_config(tmp_path: Path) -> None:
    """The prefix's own CMake package and pkg-config file build a program."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.14)\nproject(p CXX)\nfind_package(convgrad REQUIRED)\n"
        f"add_executable(program {EXAMPLE}/time_batch_channel.cpp)\n"
        "target_link_libraries(program PRIVATE convgrad::aclnn)\n"
    )
    done = shell(f"source {prefix()}/set_env.sh; cmake -S . -B b; cmake --build b; b/program", tmp_path)
    assert PRINTS["time_batch_channel"] in done.stdout, done.stdout + done.stderr
    if shutil.which("pkg-config"):
        flags = "$(pkg-config --cflags --libs convgrad-aclnn)"
        script = f"source {prefix()}/set_env.sh; g++ {EXAMPLE}/time_batch_channel.cpp {flags} -o p; ./p"
        assert shell(script, tmp_path).stdout == PRINTS["time_batch_channel"]


@pytest.mark.parametrize("strict", ["0", "1"])
def test_random_call_sequences_return(strict: str) -> None:
    """Thousands of calls in any order with null, stale and made-up handles: every one comes back."""
    program = build(SOURCES / "call_sequences.cpp", flags=("-DSTANDALONE",))
    done = run(program, "7", "3000", environment={"CONVGRAD_STRICT": strict})
    assert done.stdout.startswith("3000 sequences, ") and done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("strict", ["0", "1"])
def test_call_sequences_of_several_threads_return(strict: str) -> None:
    """The same from four threads that use and destroy each other's handles."""
    program = build(SOURCES / "call_sequences.cpp", flags=("-DSTANDALONE",))
    done = run(program, "7", "400", "4", environment={"CONVGRAD_STRICT": strict})
    assert done.stdout.startswith("1600 sequences, ") and done.returncode == 0, done.stderr[-2000:]
