"""Damaged files of every format the command line reads: an answer and an exit code, never a traceback or a hang.

Whole files are made by the command line itself; each case damages a copy of one and gives it to the command that reads
it. The damage is to bytes, so that text, archives and arrays break in all their parts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import re
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from convgrad.cli.command_line import main
from outcome import Outcome

DATA = Path(__file__).resolve().parents[1] / "data"
KERNEL = DATA.parents[1] / "examples" / "09_ascendc_kernels" / "grad_input.cpp"
LINES = (
    "conv n2 c4>6 i7x7 k3x3 p1 bf16 on=A2 values=uniform:-5:5 seed=3 # a name\ntbc n2 c4>3 i8 k3 fp16 on=A2\n"
    "tconv n1 c2>3 i4 k2 s2 fp32 on=A3\n"
)
ODD = (
    b"=1+1", b"'", b'"', b"\0", b"\x1b[2J", b"(", b"{", b"[[", b"None", b"nan", b"-1", b"1e999", b"9" * 400, b"\\ud800",
    "🙂".encode(), b",", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"true", b"\x80" * 9, b"\x7f\xff\xff\xff",
)  # fmt: skip
SECONDS = 600
"""For one command, which takes hundredths of one: beside ten others, at the lowest priority, four processes of an audit
took minutes."""

Formats = dict[str, tuple[Path, Callable[[Path], list[str]]]]


def whole_files(directory: Path) -> Formats:
    """A file of every format, and the command that reads a damaged copy of it."""
    lines = directory / "cases.txt"
    lines.write_text(LINES, "utf-8")
    found: Formats = {}
    reads: tuple[Callable[[Path], list[str]], ...] = (
        lambda path: ["cases", "list", str(path)], lambda path: ["cases", "convert", str(path), "--to", "json"],
        lambda path: ["run", str(path), "-q", "-j1"],
    )  # fmt: skip
    sources = {"lines": lines, "atk": DATA / "cases_atk.json", "ttk": DATA / "cases_ttk.csv"}
    for name in ("own.json", "book.xlsx"):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert main(["cases", "convert", str(DATA / "cases_ttk.csv"), "-o", str(directory / name)]) == 0
        sources[name] = directory / name
    for name, path in sources.items():
        for i, reader in enumerate(reads):
            found[f"{name} {('list', 'convert', 'run')[i]}"] = path, reader
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["run", str(lines), "--save", str(directory / "saved"), "-q", "-j1"]) == 0
        assert main(["golden", str(lines), "-o", str(directory / "golden")]) == 0
    results = directory / "saved" / "results.jsonl"
    found["journal rerun"] = results, lambda path: ["run", str(lines), "-q", "-j1", "--rerun", str(path)]
    found["journal resume"] = results, lambda path: _resumed(path, lines)
    manifest = directory / "golden" / "manifest.json"
    found["manifest"] = manifest, lambda path: _beside(path, directory / "golden", manifest)
    tensor = next((directory / "golden").rglob("golden_*.npy"))
    found["npy"] = tensor, lambda path: ["compare", str(path), str(tensor)]
    found["npy golden"] = tensor, lambda path: ["compare", str(tensor), str(path)]
    np.arange(12, dtype=np.float32).tofile(directory / "golden_0_float32.bin")
    raw = directory / "golden_0_float32.bin"
    found["bin"] = raw, lambda path: ["compare", str(path), str(raw), "--dtype", "float32"]
    found["npy part"] = tensor, lambda path: ["invariance", "--files", str(tensor), str(path)]
    found |= dumped(directory) | tiling_records(directory)
    with contextlib.suppress(ImportError):
        found["onnx"] = onnx_model(directory / "model.onnx"), lambda path: ["scan", str(path), "--input", "1,3,8,8"]
    return found


def dumped(directory: Path) -> Formats:
    """The files of a dump of a PyTorch run, each read in its place."""
    import torch

    from dumped_runs import Recorder, drawn

    recorder = Recorder(directory / "dump")
    recorder.call("conv1d", drawn(2, 3, 8), drawn(4, 3, 3), layer="first")
    recorder.call("conv2d", drawn(1, 2, 4, 4), drawn(2, 2, 3, 3), None, (1, 1), (1, 1))
    top = recorder.write()
    torch.save(torch.ones(3), directory / "golden_0_float32.pt")
    alone = directory / "golden_0_float32.pt"
    unit = recorder.directory
    tensor = next(iter(sorted((unit / "dump_tensor_data").iterdir())))
    parts = {"dump": unit / "dump.json", "dump names": unit / "construct.json", "dump tensor": tensor}
    inside: Formats = {
        name: (path, lambda damaged, path=path: _in_its_place(damaged, top, path.relative_to(top)))  # type: ignore[misc]
        for name, path in parts.items()
    }
    return {**inside, "pt": (alone, lambda path: ["compare", str(path), str(alone)])}


def _in_its_place(path: Path, top: Path, place: Path) -> list[str]:
    """A dump with one of its files damaged."""
    copy = path.parent / "dump-damaged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(top, copy)
    shutil.copy(path, copy / place)
    return ["dump", str(copy)]


def tiling_records(directory: Path) -> Formats:
    """A tiling record of an author's own, as JSON and as bytes; the kernel is not compiled."""
    from convgrad.ascendc.line_runs import plan_line
    from convgrad.ascendc.shared.record_bytes import tiling_to_bytes

    line = "conv n1 c16>16 i1x6x6 k1x3x3 p0x1x1 fp16"
    record = plan_line(line, 2, None).plan.record
    (directory / "tiling.json").write_text(json.dumps(dataclasses.asdict(record)), "utf-8")
    (directory / "tiling.bin").write_bytes(tiling_to_bytes(record))
    words = ["kernel", str(KERNEL), "--line", line, "--cores", "2", "--cxx", "no-compiler", "--tiling"]
    return {name: (directory / name, lambda path: [*words, str(path)]) for name in ("tiling.json", "tiling.bin")}


def onnx_model(path: Path) -> Path:
    """Two convolutions."""
    import onnx

    make, kinds = onnx.helper, onnx.TensorProto
    weights = [make.make_tensor("w", kinds.FLOAT, (4, 3, 3, 3), [0.0] * 108)]
    nodes = [make.make_node("Conv", ["x", "w"], ["y"], "first", strides=[2, 2], pads=[1, 1, 1, 1])]
    inputs = [make.make_tensor_value_info("x", kinds.FLOAT, ["n", 3, 8, 8])]
    graph = make.make_graph(nodes, "g", inputs, [make.make_tensor_value_info("y", kinds.FLOAT, None)], weights)
    onnx.save(make.make_model(graph), str(path))
    return path


def _resumed(path: Path, lines: Path) -> list[str]:
    """The damaged journal in the place of one, in a directory of its own."""
    directory = path.parent / "resumed"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shutil.copy(path, directory / "results.jsonl")
    return ["run", str(lines), "-q", "-j1", "--save", str(directory), "--resume"]


def _beside(path: Path, golden: Path, manifest: Path) -> list[str]:
    """The golden directory with a damaged manifest against the whole one."""
    directory = path.parent / "golden-damaged"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(golden, directory)
    shutil.copy(path, directory / manifest.name)
    return ["compare", str(golden), str(directory)]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut, spliced, repeated, bits turned, or with something odd put in."""
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        place, length = rng.randrange(len(content) + 1), rng.randrange(60)
        how = rng.randrange(6)
        if how == 0:
            content = content[:place]
        elif how == 1:
            content = content[:place] + content[place + length :]
        elif how == 2:
            content = content[:place] + rng.choice(ODD) + content[place + rng.randrange(4) :]
        elif how == 3 and content:
            turned = bytearray(content)
            for _ in range(rng.choice((1, 1, 8))):
                turned[rng.randrange(len(turned))] ^= 1 << rng.randrange(8)
            content = bytes(turned)
        elif how == 4:
            # One number for another of the file, which keeps it readable.
            numbers = list(re.finditer(rb"\d+", content[:20000]))
            if numbers:
                at = rng.choice(numbers)
                number = rng.choice((b"0", b"1", b"99", b"4294967296", b"-1", b"1.5", rng.choice(numbers)[0]))
                content = content[: at.start()] + number + content[at.end() :]
        else:
            other = rng.randrange(len(content) + 1)
            content = content[:place] + content[other : other + length] + content[place:]
    return content


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """TimeoutError after so long, as far as Python code runs; a second in which all is stopped does not count."""
    passed = 0

    def tick(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed >= seconds:
            raise TimeoutError(f"no answer in {seconds} seconds")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def complaint(words: list[str]) -> str:
    """What is wrong with the answer of a command; nothing where it is one."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), time_limit(SECONDS):
            code = main(words)
    except BaseException:
        return f"raised: {traceback.format_exc()[-1500:]}"
    shown = out.getvalue() + err.getvalue()
    if code not in (0, 1, 2, 3, 4):
        return f"exit code {code}: {shown[-800:]}"
    if "Traceback" in shown or "internal error" in shown or "no answer in" in shown:
        return f"exit code {code}: {shown[-800:]}"
    if "\x1b" in shown or "\0" in shown:
        return f"control characters: {shown[-800:]!r}"
    if code == 2 and not shown.strip():
        return "exit code 2 without a word"
    return ""


def run(chunk: int, size: int) -> Outcome:
    """So many damaged files, each read once."""
    from hostile_calls import little_memory

    outcome, rng = Outcome(), random.Random(f"files {chunk}")
    with tempfile.TemporaryDirectory(prefix="damaged-") as name:
        formats = whole_files(Path(name))
        place = Path(name) / "damaged"
        place.mkdir()
        for i in range(size):
            kind, (source, words) = rng.choice(sorted(formats.items(), key=lambda item: item[0]))
            path = place / source.name
            path.write_bytes(damaged(source.read_bytes(), rng))
            before = path.read_bytes()
            with little_memory(1 << 30):
                found = complaint(words(path))
            if not found and path.read_bytes() != before:
                found = "the file was changed"
            words_of = f"{found}\n{json.dumps(before[:400].decode('latin1'))}"
            outcome.add(1, f"file {i} of chunk {chunk}, {kind}", words_of, not found)
    return outcome
