"""A dump's directory as calls: `dump.json` in one pass, tensors only when they are asked for.

    DIR/step0/rank0/dump.json  construct.json  stack.json  dump_tensor_data/*.pt

An entry is `Functional.conv2d.0.forward`, with the backward entry of the same number behind it. Modules' entries carry
no stride, padding or groups and are not counted again; they give a call its layer's name. A dump is data of others:
tensors are loaded without running code, file names stay inside the dump's own directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convgrad.core.tensor import Tensor
from convgrad.lab.cases.reading import Unreadable, shown
from convgrad.lab.golden import tensor_files
from convgrad.text.terminal import UsageError

JSON_NAME, DATA = "dump.json", "dump_tensor_data"
MOST_BYTES = 2**30
_STEP = re.compile(r"^step\d+$")
_ENTRY = re.compile(r"^(Functional|Torch)\.(?P<api>conv(_transpose)?[123]d)\.(?P<number>\d+)\.forward$")
_FRAME = re.compile(r"File (?P<path>.*), line (?P<line>\d+), in (?P<function>[^,]*)")


@dataclass(frozen=True, slots=True)
class DumpedTensor:
    """A tensor of a dump: what its record says; `name` is its file, empty in a dump of statistics."""

    shape: tuple[int, ...]
    dtype: str
    statistics: tuple[Any, Any, Any, Any]
    """Max, min, mean, 2-norm as dumped."""
    requires_grad: bool
    name: str
    crc: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A forward call and, where gradients were computed, its backward one, as their records."""

    name: str
    """`Functional.conv2d.0`."""
    api: str
    arguments: list[Any]
    keywords: Mapping[str, Any]
    output: list[Any]
    backward_input: list[Any] | None
    backward_output: list[Any] | None
    layer: str


@dataclass(frozen=True, slots=True)
class Dump:
    """One unit of a dump (a rank, a process, or the directory itself)."""

    directory: Path
    task: str
    level: str
    entries: tuple[Entry, ...]
    modules: int
    """Entries of modules that are convolutions."""

    @property
    def unit(self) -> str:
        """`step0/rank0`, `proc123`."""
        step = self.directory.parent.name
        return f"{step}/{self.directory.name}" if _STEP.match(step) else self.directory.name

    def load(self, tensor: DumpedTensor) -> Tensor:
        """A tensor's values; a sentence says why it cannot be read."""
        if not tensor.name:
            raise Unreadable("the tensor", "was not dumped: statistics only")
        path = self.directory / DATA / tensor.name
        if Path(tensor.name).name != tensor.name or tensor.name in (".", "..") or path.is_symlink():
            raise Unreadable(shown(tensor.name), "is no plain file name inside the dump")
        if not path.is_file():
            raise Unreadable(shown(tensor.name), f"is missing in {DATA}")
        try:
            stored, dtype = tensor_files.read(path, tensor.dtype)
        except (UsageError, ValueError) as error:
            raise Unreadable(shown(tensor.name), str(error).removeprefix(f"{path}: ")) from None
        if stored.shape != tensor.shape:
            raise Unreadable(shown(tensor.name), f"has shape {stored.shape}, the dump says {tensor.shape}")
        return Tensor(stored, dtype)


def _by_number(path: Path) -> list[tuple[str, int]]:
    """So that step2 comes before step10."""
    return [(m[1], int(m[2] or 0)) for m in re.finditer(r"(\D+)(\d*)", str(path))]


def find_units(path: Path) -> list[Path]:
    """Every directory at or below a path that holds a dump, in order; two levels (step, unit) deep."""
    if not path.is_dir():
        raise UsageError(f"{path}: no such directory")
    directories = (p.parent for depth in ("", "*/", "*/*/") for p in path.glob(f"{depth}{JSON_NAME}"))
    found = sorted(directories, key=_by_number)
    if not found:
        raise UsageError(f"{path}: holds no {JSON_NAME}; give a dump's directory, or a step or unit of it")
    return found


def read(directory: Path) -> Dump:
    """The convolution calls of one unit."""
    document = _document(directory / JSON_NAME)
    if not isinstance(document, dict) or not isinstance(document.get("data"), dict):
        raise UsageError(f"{directory / JSON_NAME}: is no dump: `data` must be an object of entries")
    framework = document.get("framework", "pytorch")
    if framework != "pytorch":
        raise UsageError(f"{directory / JSON_NAME}: a dump of {shown(framework)}, not of pytorch")
    data = document["data"]
    names = _Names(directory)
    entries = tuple(_entries(data, names))
    modules = sum(bool(re.match(r"^Module\..*\.Conv(Transpose)?[123]d\.forward\.\d+$", key)) for key in data)
    return Dump(directory, str(document.get("task", "")), str(document.get("level", "")), entries, modules)


def _document(path: Path) -> Any:
    if not path.is_file():  # a pipe would never end, nor would a link to a device
        raise UsageError(f"{path}: is no regular file")
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(f"{path}: has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read")
    try:
        return json.loads(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is no JSON that can be read (truncated?): {error}") from None


def _entries(data: dict[str, Any], names: _Names) -> Iterator[Entry]:
    for key, forward in data.items():
        match = _ENTRY.match(key)
        if match is None or not isinstance(forward, dict):
            continue
        name = key.removesuffix(".forward")
        backward = data.get(f"{name}.backward")
        given = backward if isinstance(backward, dict) else {}
        yield Entry(
            name, match["api"], _list(forward.get("input_args")), _object(forward.get("input_kwargs")),
            _list(forward.get("output")), _list(given["input"]) if "input" in given else None,
            _list(given["output"]) if "output" in given else None, names.layer(key),
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Names:
    """What a call's layer is called: its module's path, else the first frame of its stack outside libraries."""

    def __init__(self, directory: Path) -> None:
        self._parents = self._read(directory / "construct.json")
        self._frames: dict[str, str] = {}
        for record in self._read(directory / "stack.json").values():
            if isinstance(record, list) and len(record) == 2 and all(isinstance(part, list) for part in record):
                place = self._place(record[1])
                self._frames.update((str(entry), place) for entry in record[0])

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        return _object(_document(path)) if path.is_file() else {}

    @staticmethod
    def _place(frames: list[Any]) -> str:
        """File name, line and function only: a machine's paths are nobody's business."""
        for frame in frames:
            match = _FRAME.search(str(frame))
            if match and "site-packages" not in match["path"] and "dist-packages" not in match["path"]:
                name = match["path"].replace("\\", "/").rpartition("/")[2]
                return f"{name}:{match['line']} {match['function']}"
        return ""

    def layer(self, entry: str) -> str:
        """The name of an entry's layer; the entry itself where nothing tells."""
        parent = self._parents.get(entry)
        if isinstance(parent, str) and parent.startswith("Module."):
            path = re.sub(r"\.[^.]+\.(forward|backward)\.\d+$", "", parent.removeprefix("Module."))
            if path:
                return path
        return self._frames.get(entry) or entry.removesuffix(".forward")


def tensor_of(record: Any) -> DumpedTensor | None:
    """The tensor a record describes; `None` for a null argument or anything else."""
    if not isinstance(record, dict) or record.get("type") != "torch.Tensor":
        return None
    shape = record.get("shape")
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise Unreadable("shape", f"must be a list of sizes, not {shown(shape)}")
    statistics = tuple(record.get(name) for name in ("Max", "Min", "Mean", "Norm"))
    return DumpedTensor(
        tuple(shape), str(record.get("dtype", "")).removeprefix("torch."), statistics,  # type: ignore[arg-type]
        bool(record.get("requires_grad", False)), str(record.get("data_name") or ""), str(record.get("md5") or ""),
    )


def value_of(record: Any) -> Any:
    """The plain value of a record: a number, a word, a list of them, `None`."""
    if isinstance(record, list):
        return [value_of(r) for r in record]
    if isinstance(record, dict):
        return value_of(record["value"]) if "value" in record else None
    return record
