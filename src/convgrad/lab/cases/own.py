"""Our own two forms of a case file: JSON (with a schema for editors) and plain problem lines.

    # a comment
    conv n4 c64>64 i56x56 k3x3 p1 bf16 on=A2 values=uniform:-5:5 seed=3   # the rest of the line names the case
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from convgrad.core import products, standards
from convgrad.core.status import Status
from convgrad.lab.cases import values
from convgrad.lab.cases.case import MAX_SEED, Case, CaseFileError, make
from convgrad.lab.cases.reading import Unreadable, read_each, shown, text, truth, whole

VERSION = 1
_FIELDS = ("name", "line", "values", "seed", "enabled", "expect", "kit")

# ---- problem lines -----------------------------------------------------------------------------------------


def read_lines(path: str, content: str) -> list[Case]:
    """Cases from problem lines; blank lines and comment lines are skipped."""
    records = []
    for i, line in enumerate(content.splitlines(), 1):
        if line.partition("#")[0].strip():
            records.append((f"line {i}", (i, line)))
    return read_each(path, records, _read_line)


def _read_line(record: tuple[int, str]) -> Case:
    place, line = record
    before, _, comment = line.partition("#")
    own: dict[str, str] = {}
    words = []
    for word in before.split():
        key, equals, value = word.partition("=")
        if equals and key in ("values", "seed", "expect"):
            if key in own:
                raise Unreadable(shown(word), f"{key} is said twice")
            own[key] = value
        else:
            words.append(word)
    seed, expect = (_digits(own[k], k) if k in own else None for k in ("seed", "expect"))
    return make(comment.strip() or f"line {place}", " ".join(words), own.get("values", ""), seed, expect=expect)


def _digits(word: str, name: str) -> int:
    if not (word.isascii() and word.isdigit()) or len(word) > 19:
        raise Unreadable(f"{name}={shown(word)}", "must be a whole number")
    return int(word)


def write_lines(cases: Sequence[Case]) -> str:
    """Problem lines with their own words after them; what a test kit kept has no place here."""
    lines = []
    for case in cases:
        words = [str(case.request)]
        if case.fill != (values.DEFAULT,):
            words.append(f"values={case.fill_words}")
        if case.seed is not None:
            words.append(f"seed={case.seed}")
        if case.expect is not None:
            words.append(f"expect={case.expect}")
        name = " ".join(case.name.split())
        lines.append(f"{'' if case.enabled else '# '}{' '.join(words)}   # {name}")
    return "\n".join(lines) + "\n"


# ---- JSON --------------------------------------------------------------------------------------------------


def parse_json(path: str, content: str) -> Any:
    """JSON as data, or an error that names line and column. NaN, Infinity and a key said twice are not JSON."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {shown(twice)} is there twice in one object")
        return made

    try:
        return json.loads(content, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise CaseFileError(path, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise CaseFileError(path, "is nested too deeply") from None
    except ValueError as error:
        raise CaseFileError(path, str(error)[:200]) from None


def read_json(path: str, document: dict[str, Any]) -> list[Case]:
    """Cases of our own JSON."""
    version = document.get("convgrad_cases")
    if version != VERSION or isinstance(version, bool):
        raise CaseFileError(path, f'"convgrad_cases" must be {VERSION}, not {shown(version)}')
    unknown = sorted(set(document) - {"$schema", "convgrad_cases", "cases"})
    if unknown:
        raise CaseFileError(path, f"unknown field {shown(unknown[0])}")
    cases = document.get("cases")
    if not isinstance(cases, list):
        raise CaseFileError(path, f'"cases" must be a list, not {shown(cases)}')
    return read_each(path, ((f"case {i}", record) for i, record in enumerate(cases)), _read_record)


def _read_record(record: Any) -> Case:
    if not isinstance(record, dict):
        raise Unreadable("the case", f"must be an object, not {shown(record)}")
    unknown = sorted(set(record) - set(_FIELDS))
    if unknown:
        raise Unreadable(shown(unknown[0]), f"is none of {', '.join(_FIELDS)}")
    if "line" not in record:
        raise Unreadable("line", "is missing")
    line = text(record["line"], "line")
    seed = record.get("seed")
    expect = record.get("expect")
    kit = record.get("kit", {})
    if not isinstance(kit, dict):
        raise Unreadable("kit", f"must be an object, not {shown(kit)}")
    if expect is not None and whole(expect, "expect") not in {int(s) for s in Status}:
        raise Unreadable("expect", f"must be one of {', '.join(str(int(s)) for s in Status)}, not {shown(expect)}")
    return make(
        text(record.get("name", line), "name"), line, text(record.get("values", ""), "values"),
        None if seed is None else whole(seed, "seed"), enabled=truth(record.get("enabled", True), "enabled"),
        expect=expect, kit=kit,
    )


def write_json(cases: Iterable[Case]) -> str:
    """Our own JSON, one case per line."""
    records = []
    for case in cases:
        record: dict[str, Any] = {"name": case.name, "line": str(case.request)}
        if case.fill != (values.DEFAULT,):
            record["values"] = case.fill_words
        if case.seed is not None:
            record["seed"] = case.seed
        if not case.enabled:
            record["enabled"] = False
        if case.expect is not None:
            record["expect"] = case.expect
        if case.kit:
            record["kit"] = dict(case.kit)
        records.append("    " + json.dumps(record, ensure_ascii=False, allow_nan=False))
    body = ",\n".join(records)
    return f'{{\n  "convgrad_cases": {VERSION},\n  "cases": [\n{body}\n  ]\n}}\n'


def schema() -> dict[str, Any]:
    """The JSON Schema of our own form, from the rows it speaks of; editors complete and check with it."""
    words = "|".join([*(k.name for k in values.KINDS), *values.STANDARD_SETS])
    filling = f"(?:{words})(?::(?:[-+0-9.eE]+|nan|-?inf))*"
    case = {
        "type": "object",
        "required": ["line"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "maxLength": 10000, "description": "what reports call the case"},
            "line": {
                "type": "string", "maxLength": 10000, "pattern": r"^\s*(conv|tconv|tbc)(\s|$)",
                "description": "the problem line: conv n2 c8>16 i14x14 k3x3 p1 bf16 math=keep want=xwb on=A2; "
                f"on= takes {', '.join(products.KEYS)}",
                "examples": ["conv n2 c8>16 i14x14 k3x3 s1 p1 d1 g1 fp16 math=keep want=xwb on=A2"],
            },
            "values": {
                "type": "string", "pattern": f"^$|^{filling}(?:,{filling},{filling})?$",
                "description": "what fills the tensors: "
                + "; ".join(":".join([k.name, *(p for p, _ in k.parameters)]) + " " + k.help for k in values.KINDS)
                + ". One filling, or three with commas for grad_output, input, weight",
                "examples": list(values.STANDARD_SETS.values()),
            },
            "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_SEED},
            "enabled": {"type": "boolean", "description": "false: listed, but not run"},
            "expect": {"enum": [None, *(int(s) for s in Status)], "description": "the status the contract should give"},
            "kit": {"type": "object", "description": "what a test kit's file said beyond this; written back to it"},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "convgrad cases",
        "description": f"Cases for `convgrad run`. Standards: {', '.join(s.name for s in standards.ALL)}.",
        "type": "object",
        "required": ["convgrad_cases", "cases"],
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string"},
            "convgrad_cases": {"const": VERSION, "type": "integer"},
            "cases": {"type": "array", "items": case},
        },
    }
