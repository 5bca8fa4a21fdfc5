"""The source of an author's kernel: its entry, what each argument is, and the program that launches it.

The author's text is compiled as it is, lines kept; behind it stands a `main` that fills global memory from files,
launches the entry, and writes the memory back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from convgrad.text.terminal import UsageError, did_you_mean

HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
GLOBAL = re.compile(r"\b__global__\b(?:\s+(?:__\w+__(?:\s*\([^)]*\))?|inline|static))*\s+void\s+(\w+)\s*\(")
ROLES = {
    "weight": ("weight", "filter", "w"),
    "gradOutput": ("gradoutput", "outbackprop", "dedy", "dy", "gradout", "dout"),
    "gradInput": ("gradinput", "dx", "y"),
    "input": ("input", "x", "fmap"),
    "gradWeight": ("gradweight", "dw", "gradfilter"),
    "inputSize": ("inputsize",),
    "weightSize": ("weightsize", "filtersize"),
    "workspace": ("workspace", "usrworkspace", "userworkspace"),
    "tiling": ("tiling", "tilingdata", "tilingaddr"),
}
"""What an argument may be, and the names that say so: letters only, without the endings Gm, Addr, Ptr."""
RESULTS = {"input": "gradInput", "weight": "gradWeight"}
"""The result, by the gradient a kernel computes."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry: its type as written (empty when the signature is not seen) and its name."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """Whether memory goes in; a tiling record or a number may come by value."""
        return not self.type or "*" in self.type or "GM_ADDR" in self.type.split()


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel function: how it is called, its parameters, and whether it is a template."""

    name: str
    parameters: tuple[Parameter, ...]
    template: bool = False
    line: int = 0


def blanked(text: str) -> str:
    """The text with comments and literals as blanks: what is left is code, at the same places."""
    return HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def closing(code: str, start: int) -> int:
    """The bracket that closes the one at `start`, or the end of the text."""
    depth = 0
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code)


def split_list(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def entries(text: str) -> list[Entry]:
    """Every __global__ function that is defined in the text."""
    code, found = blanked(text), []
    for match in GLOBAL.finditer(code):
        end = closing(code, match.end() - 1)
        if not code[end + 1 :].lstrip().startswith("{"):
            continue
        before = code[: match.start()].rstrip()
        before = re.sub(r'\bextern\s*$', "", before).rstrip()
        parameters = []
        for part in split_list(code[match.end() : end]):
            words = re.fullmatch(r"(.*?)(\w+)", part.partition("=")[0].strip(), re.S)
            if words and part != "void":
                parameters.append(Parameter(" ".join(words[1].split()), words[2]))
        is_template = bool(re.search(r"\btemplate\s*<[^;{}]*>$", before))
        found.append(Entry(match[1], tuple(parameters), is_template, code.count("\n", 0, match.start()) + 1))
    return found


def find_entry(text: str, name: str | None, arguments: Sequence[str] | None) -> Entry:
    """The entry asked for, or the only one; a name the text does not define needs its arguments told."""
    known = entries(text)
    plain = None if name is None else name.partition("<")[0].strip().rpartition("::")[2]
    chosen = [one for one in known if plain is None or one.name == plain]
    if name is not None and not chosen and arguments:
        return Entry(name, tuple(Parameter("", one) for one in arguments))
    names = [one.name for one in known]
    if not chosen and name is None:
        raise UsageError("the file defines no __global__ function; --entry names one that it includes, with --args")
    if not chosen:
        hint = did_you_mean(plain or "", names)
        raise UsageError(f"the file defines no __global__ function {plain}{hint}; one that it includes needs --args")
    if name is None and len(chosen) > 1:
        raise UsageError(f"the file has {len(chosen)} __global__ functions: --entry one of {', '.join(names)}")
    entry = chosen[0]
    if entry.template and (name is None or "<" not in name):
        raise UsageError(f"{entry.name} is a template: --entry '{entry.name}<half>' names an instance")
    return replace(entry, name=name or entry.name)


def role_of(name: str, gradient: str | None = None) -> str | None:
    """What an argument of this name is; `y` is the result, whichever it is."""
    letters = name.replace("_", "").lower()
    for word in (letters, re.sub(r"(gm|addr|ptr|global)$", "", letters)):
        if word == "y" and gradient is not None:
            return RESULTS[gradient]
        for role, names in ROLES.items():
            if word in names:
                return role
    return None


def arguments_of(entry: Entry, told: Sequence[str] | None, gradient: str) -> list[str]:
    """The role of each argument, or the number it is given."""
    names = [one.name for one in entry.parameters] if told is None else list(told)
    if entry.parameters and len(names) != len(entry.parameters):
        raise UsageError(f"{entry.name} has {len(entry.parameters)} parameters, --args names {len(names)}")
    found = []
    for name in names:
        role = name if told is not None and re.fullmatch(r"-?\d+", name) else role_of(name, gradient)
        if role is None:
            roles = ", ".join(ROLES)
            raise UsageError(f"{entry.name}: what is argument {name}? --args tells, in order: {roles}, or a number")
        found.append(role)
    return found


def gradient_of(text: str, entry: Entry, told: Sequence[str] | None) -> str | None:
    """Which gradient a kernel computes: by its result, else by the object that the text uses."""
    roles = {role_of(name) for name in (told or [one.name for one in entry.parameters])}
    code, both = blanked(text), ("Conv3DBackpropInput", "Conv3DBackpropFilter")
    objects = {name for name in both if re.search(rf"\b{name}\b", code)}
    if "gradWeight" in roles or objects == {"Conv3DBackpropFilter"}:
        return "weight"
    if "gradInput" in roles or objects == {"Conv3DBackpropInput"}:
        return "input"
    return None


def program_text(path: str, text: str, entry: Entry, roles: Sequence[str], tiling_key: int | None) -> str:
    """The author's text, then a main: arguments are the number of blocks, and a file for each piece of memory."""
    memory = [role for role in dict.fromkeys(roles) if role in ROLES]
    declared, passed = [], []
    for number, role in enumerate(memory):
        declared.append(f"    uint8_t *{role} = cgt_driver::filled(arguments[{number + 2}]);")
    parameters = entry.parameters or tuple(Parameter("", role) for role in roles)
    for parameter, role in zip(parameters, roles, strict=True):
        if role not in ROLES or not parameter.type:
            passed.append(role)
        elif parameter.is_pointer:
            passed.append(f"reinterpret_cast<{parameter.type}>({role})")
        else:
            file = f"arguments[{memory.index(role) + 2}]"
            passed.append(f"cgt_driver::value<{parameter.type.removeprefix('const ')}>({role}, {file})")
    key = "" if tiling_key is None else f"    ICPU_SET_TILING_KEY({tiling_key});\n"
    texts = json.dumps(", ".join(["blocks", *roles]))
    call = ", ".join(["static_cast<uint32_t>(std::atoi(arguments[1]))", *passed])
    written = "".join(f"    cgt_driver::kept(arguments[{number + 2}], {role});\n" for number, role in enumerate(memory))
    place = f"{{{json.dumps(path)}, {entry.line}}}" if entry.line else "{nullptr, 0}"
    # g++ takes a file that #line names for a header, and warns of types there that belong to one file.
    return f"""#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif
#define main cgt_main_of_the_author
#line 1 {json.dumps(path)}
{text}
#undef main
#line 1 "the launch"
{DRIVER}
int main(int, char **arguments) {{
{chr(10).join(declared)}
{key}    convgrad_tile::run({entry.name}, {json.dumps(entry.name)}, {texts}, {place}, {call});
{written}    return {ENDED};
}}
"""


ENDED = 120
"""What the program says when its kernel came to its end: one that calls exit says something else."""

DRIVER = """#include "tikicpulib.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
namespace cgt_driver {
inline size_t size_of(const char *path) {
    std::FILE *file = std::fopen(path, "rb");
    if (!file || std::fseek(file, 0, SEEK_END) != 0) std::exit(121);
    const long size = std::ftell(file);
    std::fclose(file);
    return static_cast<size_t>(size);
}
/* Memory of a file's size. What is to be computed comes as all ones, which is what fresh memory holds. */
inline uint8_t *filled(const char *path) {
    const size_t size = size_of(path);
    uint8_t *memory = static_cast<uint8_t *>(AscendC::GmAlloc(size));
    std::FILE *file = std::fopen(path, "rb");
    if (!memory || !file || std::fread(memory, 1, size, file) != size) std::exit(121);
    std::fclose(file);
    return memory;
}
inline void kept(const char *path, const uint8_t *memory) {
    const size_t size = size_of(path);
    std::FILE *file = std::fopen(path, "wb");
    if (!file || std::fwrite(memory, 1, size, file) != size) std::exit(121);
    std::fclose(file);
}
template <class Record>
Record value(const uint8_t *memory, const char *path) {
    Record record;
    const size_t size = size_of(path);
    std::memcpy(static_cast<void *>(&record), memory, size < sizeof record ? size : sizeof record);
    return record;
}
}  // namespace cgt_driver
"""
