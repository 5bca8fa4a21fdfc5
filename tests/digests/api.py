"""The public names: what each is, its signature and defaults, its members. Annotations are not part of it.

Recorded (api.txt): a line per name and member, `convgrad.conv_backward (grad_output, …)`. Modules outside PUBLIC may
move; the record lists them (`~`) so that one that is gone can be told, but it is no difference.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import convgrad

RECORD = Path(__file__).with_name("api.txt")
PUBLIC = {
    "convgrad": "", "convgrad.aclnn": "", "convgrad.ascendc": "", "convgrad.compare": "",
    "convgrad.golden_functions": "", "convgrad.torch": "torch", "convgrad.jax": "jax",
    "convgrad.dask": "dask",
}  # fmt: skip
"""Modules whose `__all__` is promised, and the package each needs besides."""
_SPECIAL = ("__call__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__", "__array__")


def _value(value: object) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)) if not inspect.isclass(value) else value.__name__


def _signature(thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(?)"
    words = []
    for p in signature.parameters.values():
        words.append(f"{p.kind.name[0] if p.kind is not p.POSITIONAL_OR_KEYWORD else ''}:{p.name}".lstrip(":")
                     + ("" if p.default is p.empty else f"={_value(p.default)}"))  # fmt: skip
    return f"({', '.join(words)})"


def _class(name: str, cls: type) -> Iterator[str]:
    bases = [c for c in cls.__mro__[1:] if c.__module__.split(".")[0] in ("convgrad", "builtins", "torch")]
    line = ", ".join(c.__name__ for c in bases if c is not object)
    yield f"{name} class({line}) {_signature(cls)}" if not issubclass(cls, enum.Enum) else f"{name} enum({line})"
    if issubclass(cls, enum.Enum):
        yield from (f"{name}.{key} = {member.value!r}" for key, member in cls.__members__.items())
    if dataclasses.is_dataclass(cls):
        frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
        yield f"{name} fields{' frozen' * frozen} {' '.join(f.name for f in dataclasses.fields(cls))}"
    seen = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    for owner in cls.__mro__:
        if owner.__module__.split(".")[0] != "convgrad":
            continue
        for key, member in vars(owner).items():
            if key in seen or (key.startswith("_") and key not in _SPECIAL) or isinstance(member, cls):
                continue
            seen.add(key)
            if isinstance(member, (staticmethod, classmethod)):
                yield f"{name}.{key} {type(member).__name__} {_signature(member.__func__)}"
            elif inspect.isfunction(member):
                yield f"{name}.{key} {_signature(member)}"
            elif isinstance(member, property) or inspect.isdatadescriptor(member):
                yield f"{name}.{key} attribute"
            elif not inspect.isclass(member):
                yield f"{name}.{key} = {_value(member)}"


def _module(path: str) -> Iterator[str]:
    module = importlib.import_module(path)
    yield f"{path} all {' '.join(sorted(module.__all__))}"
    for name in sorted(module.__all__):
        thing, full = getattr(module, name), f"{path}.{name}"
        if inspect.isclass(thing):
            yield from sorted(set(_class(full, thing)))
        elif callable(thing):
            yield f"{full} {_signature(thing)}"
        else:
            yield f"{full} = {_value(thing)}"


def snapshot() -> tuple[list[str], list[str]]:
    """The lines, and the modules left out because what they need is not installed."""
    lines, missing = [], []
    for path, needs in PUBLIC.items():
        if needs and importlib.util.find_spec(needs) is None:
            missing.append(path)
            continue
        lines += _module(path)
    return lines, missing


def _modules() -> list[str]:
    return sorted(
        f"~ {m.name}" for m in pkgutil.walk_packages(convgrad.__path__, "convgrad.", onerror=lambda name: None)
        if not any(part.startswith("_") for part in m.name.split("."))
    )  # fmt: skip


def write(jobs: int) -> None:
    lines, missing = snapshot()
    if missing:
        raise SystemExit(f"digests: {', '.join(missing)} cannot be imported here: not recorded")
    RECORD.write_text("\n".join([*lines, *_modules()]) + "\n", "utf-8")


def differences(short: bool, jobs: int) -> Iterator[str]:
    """Lines that are gone or new."""
    recorded = RECORD.read_text("utf-8").splitlines()
    lines, missing = snapshot()
    for path in missing:
        print(f"api: {path} needs {PUBLIC[path]}, which is not installed; that part is left out")
    gone = [line[2:] for line in recorded if line.startswith("~") and line not in _modules()]
    if gone:
        print(f"api: {len(gone)} modules that could be imported are gone, which no name promised: {' '.join(gone[:9])}")
    kept = [
        line for line in recorded
        if not line.startswith("~") and not any(line.startswith((f"{path}.", f"{path} ")) for path in missing)
    ]  # fmt: skip
    yield from (f"gone: {line}" for line in kept if line not in set(lines))
    yield from (f"new: {line}" for line in lines if line not in set(kept))
