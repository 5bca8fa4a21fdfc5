"""Problem descriptors of oneDNN's benchdnn: `g32mb2ic64ih56oc64oh56kh3ph1n"name"`, with its options before them.

Dilation counts the cells left out (0 is dense). An output size gives the padding at the far end. `--dir` says which
gradients are wanted, `--dt` the dtype, `--mb` overrules the batch, each a value or a list with commas. Options about
layouts, algorithms, timing and running say nothing about a problem; every other one is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from convgrad.core.geometry import coarse_size
from convgrad.lab.cases.case import Case, CaseFileError, make
from convgrad.lab.cases.reading import Unreadable, read_each, shown
from convgrad.text.terminal import did_you_mean

_PART = re.compile(r"(mb|ic|oc|[iokspd][dhw]|g)(\d{1,12})")
_WANT = {"BWD_D": "x", "BWD_W": "w", "BWD_WB": "wb"}
_WORDS = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "f8_e5m2": "fp8_e5m2", "f8_e4m3": "fp8_e4m3fn", "f64": "fp64"}
_OPTIONS = {"dir": "BWD_WB", "dt": "f32", "mb": "0"}
"""What counts before an option says otherwise; a batch of 0 is the descriptor's own."""
_PASSED_OVER = frozenset((
    "alg", "allow-enum-tags-only", "canonical", "check-ref-impl", "cold-cache", "conv", "cpu-isa-hints", "ctx-exe",
    "ctx-init", "dtag", "engine", "execution-mode", "fast-ref", "fast-ref-gpu", "fix-times-per-prb", "impl", "inplace",
    "match", "max-ms-per-prb", "memory-kind", "mode", "mode-modifier", "num-streams", "perf-template",
    "repeats-per-prb", "skip-impl", "stag", "start", "summary", "trivial-strides", "verbose", "wtag",
    "attr-deterministic", "attr-scratchpad",
))  # fmt: skip
"""Options that change neither the problem nor its numbers."""
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_BATCH = re.compile(r"[0-9]{1,12}")
_LINE = re.compile(r"^(--[a-z]|(?:g\d+_?)?(?:mb\d+_?)?(?:ic\d+))")


def looks_like(content: str) -> bool:
    """Whether a text's first line that says anything is an option or a descriptor."""
    first = next((s for line in content.splitlines() if (s := line.split("#")[0].strip())), "")
    return bool(_LINE.match(first))


def read(path: str, content: str) -> list[Case]:
    """Cases of descriptors, a file's options counting from where they stand."""
    options = dict(_OPTIONS)
    return read_each(path, _records(content, options), lambda record: _case(*record))


def write(path: str, cases: Sequence[Case]) -> str:
    """Descriptors are read, never written: they cannot say a product, a filling or a transposed problem."""
    raise CaseFileError(path, "benchdnn descriptors are only read")


def _records(content: str, options: dict[str, str]) -> Iterator[tuple[str, tuple[str, dict[str, str], str]]]:
    for number, line in enumerate(content.splitlines(), 1):
        for word in _WORD.findall(line):
            if word.startswith("#"):
                break
            if word.startswith("--"):
                name, _, value = word[2:].partition("=")
                if name == "reset":
                    options.update(_OPTIONS)
                elif name in options:
                    options[name] = value
                elif name not in _PASSED_OVER:
                    yield f"line {number}", (word, dict(options), "")
            else:
                # Options are lists, of which every combination is a problem.
                for values in itertools.product(*(value.split(",") for value in options.values())):
                    yield f"line {number}", (word, dict(zip(options, values, strict=True)), _told(options, values))


def _told(options: dict[str, str], values: tuple[str, ...]) -> str:
    """Of a combination the values that are one of several, for the case's name."""
    return "".join(f" {v}" for v, written in zip(values, options.values(), strict=True) if v != written)


def _case(word: str, options: dict[str, str], told: str) -> Case:
    if word.startswith("--batch"):
        raise Unreadable(shown(word), "other files are not opened: give the file itself")
    if word.startswith("--"):
        hint = did_you_mean(word[2:].partition("=")[0], _OPTIONS)
        raise Unreadable(shown(word), f"is no known option{hint}; read are --dir, --dt, --mb and --reset")
    body, _, name = word.partition('n"') if 'n"' in word else (word, "", "")
    found: dict[str, int] = {}
    place = 0
    for match in _PART.finditer(body.replace("_", "")):
        if match.start() != place or match[1] in found:
            break
        found[match[1]] = int(match[2])
        place = match.end()
    if place != len(body.replace("_", "")) or "ic" not in found or "oc" not in found:
        raise Unreadable(shown(word), "is no problem descriptor (such as mb2ic16ih7oc16oh7kh3ph1)")
    direction = options["dir"]
    if direction not in _WANT:
        raise Unreadable(f"--dir={shown(direction)[1:-1]}", f"is no backward pass; known: {', '.join(_WANT)}")
    dtype = options["dt"].split(":")[0]
    if dtype not in _WORDS:
        raise Unreadable(f"--dt={shown(dtype)[1:-1]}", f"is unknown; known: {', '.join(_WORDS)}")
    if not _BATCH.fullmatch(options["mb"]):
        raise Unreadable(f"--mb={shown(options['mb'])[1:-1]}", "is no batch")
    batch = int(options["mb"]) or found.get("mb", 2)
    line = _line(found, batch, word)
    return make((name.rstrip('"') or word) + told, f"{line} {_WORDS[dtype]} want={_WANT[direction]}")


def _line(found: dict[str, int], batch: int, word: str) -> str:
    axes = [a for a in "dhw" if any(f"{kind}{a}" in found for kind in "iko")]
    if not axes:
        raise Unreadable(shown(word), "tells no size of any axis")
    first = "dhw".index(axes[0])
    # One axis named alone stands for all after it: ih7kh3 is a square image, unless w is told.
    axes = list("dhw"[first:]) if axes[0] != "w" else ["w"]
    columns = []
    for a in axes:
        size, window, stride, dilation, low = (
            _value(found, kind, a, default) for kind, default in (("i", None), ("k", 1), ("s", 1), ("d", 0), ("p", 0))
        )
        if size is None or window is None or stride is None or dilation is None or low is None:
            raise Unreadable(shown(word), f"tells no size of the axis {a}")
        high = low
        out = _value(found, "o", a, None)
        if out is not None:
            high = (out - 1) * stride + (window - 1) * (dilation + 1) + 1 - size - low
            if high != low and coarse_size(size, window, stride, dilation + 1, low, low) == out:
                high = low  # the division leaves cells over; the same output without them
        columns.append((size, window, stride, low if high == low else (low, high), dilation + 1))
    sizes, windows, strides, pads, dilations = zip(*columns, strict=True)
    words = ["x".join(map(str, column)) for column in (sizes, windows, strides, dilations)]
    padding = "x".join(str(p) if isinstance(p, int) else f"{p[0]}:{p[1]}" for p in pads)
    return (
        f"conv n{batch} c{found['ic']}>{found['oc']} i{words[0]} k{words[1]} s{words[2]} p{padding} d{words[3]} "
        f"g{found.get('g', 1)}"
    )


def _value(found: dict[str, int], kind: str, axis: str, default: int | None) -> int | None:
    """A number of an axis: its own, else that of the axis before it which the descriptor names."""
    for a in reversed("dhw"[: "dhw".index(axis) + 1]):
        if f"{kind}{a}" in found:
            return found[f"{kind}{a}"]
    return default
