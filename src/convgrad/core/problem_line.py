"""The problem line: the one-line text form of a `Request`, the same in errors, reports, tests and benchmarks.

    conv n2 c8>16 i14x14 k3x3 s1 p1 d1 g1 fp16 math=keep want=xwb on=A2

| word | meaning |
|---|---|
| `conv` `tconv` `tbc` | plain, transposed, time-batch-channel |
| `n2 c8>16 i14x14 k3x3` | batch, input channels > output channels (`c8-16` too: no quotes needed), input size, window |
| `o14x14` | size of grad_output (or of the output); left out when it follows from the rest |
| `s p d op` | stride, padding (`1`, `1x2`, four numbers in 2-D, `low:high` per axis), dilation, output padding |
| `g4` | groups |
| `fp16` | dtype of every tensor |
| `math=` `want=` `on=` `as=` | math type, wanted results (x, w, b; `y` = the forward pass), product, `as=runtime` |
| `alg=fast` | the algorithm: direct (the usual), fast or exact-fast |
| `det=3` | the determinism level, 0 if left out |
| `rev=2026-08-22` | with `as=runtime`: the date of the host code, the newest read if left out |
| `x=2x8x14x14/bf16/NHWC` | one tensor told apart: shape/dtype/format, empty parts as usual; `null` = missing |
| `stride=1x1x1` `mask=11` ... | an attribute told literally, `null` or `none` (empty) included |

Tensor names in a line: x w go (input, weight, grad_output), b (TBC bias), gx gw gb (the gradients).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import fields, replace
from typing import Any

from convgrad.core import arguments, dtypes, products
from convgrad.core.determinism import LEVELS
from convgrad.core.geometry import coarse_size, fine_size
from convgrad.core.request import (
    ALGORITHMS,
    CONFORMANCES,
    DEFAULT_ALGORITHM,
    DEFAULT_CONFORMANCE,
    FORMAT_BY_RANK,
    MATH_NAMES,
    MOST_DIGITS,
    Operator,
    PadEntry,
    Request,
    TensorSpec,
    dtype_name,
    pad_pairs,
)
from convgrad.text.terminal import did_you_mean

# ---- reading -----------------------------------------------------------------------------------------------

_TENSOR_WORDS = {
    "go": "grad_output", "x": "input", "w": "weight", "b": "bias",
    "gx": "grad_input", "gw": "grad_weight", "gb": "grad_bias",
}
KINDS = ("conv", "tconv", "tbc")
_ARRAY_WORDS = ("bias_sizes", "stride", "padding", "dilation", "output_padding")
LEVEL_WORDS = tuple(str(level.number) for level in LEVELS)
_MAX_RANK = 64


def _int(text: str, word: str) -> int:
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > MOST_DIGITS:
        raise ValueError(f"problem line: {word!r}: {text[:40]!r} is not a whole number")
    return int(text)


def _ints(text: str, word: str) -> tuple[int, ...]:
    if re.search("[,*X×]", text):
        raise ValueError(f"problem line: {word[:60]!r}: sizes are written with x between them, as in 14x14")
    return tuple(_int(part, word) for part in text.split("x"))


def _pads(text: str, word: str) -> tuple[PadEntry, ...]:
    def entry(part: str) -> PadEntry:
        if ":" in part:
            low, _, high = part.partition(":")
            return _int(low, word), _int(high, word)
        return _int(part, word)

    return tuple(entry(part) for part in text.split("x"))


def _shape_words(line: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Short words (`n2`) by their letter, and `name=value` words in order."""
    short: dict[str, str] = {}
    named: list[tuple[str, str]] = []
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            named.append((name, value))
            continue
        letter = "op" if word.startswith("op") else word[0]
        is_size = word[len(letter) : len(letter) + 1].lstrip("-").isdigit() or word[len(letter) :][:1] == "-"
        key = letter if letter in ("n", "c", "i", "k", "o", "op", "s", "p", "d", "g") and is_size else "dtype"
        if key in short:
            for one in (short[key], word) if key == "dtype" else ():
                _dtype(one)  # a word nobody knows is told as that
            raise ValueError(f"problem line: {word!r} and {short[key]!r} say the same thing twice")
        short[key] = word
    return short, named


def _broadcast(values: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    return values * rank if len(values) == 1 else values


def _dtype(word: str) -> dtypes.Dtype:
    """The dtype a word names; the words of another kind are told too, since that may be what was meant."""
    try:
        return dtypes.find(word)
    except ValueError as error:
        raise ValueError(f"{error}; other words: a letter and a number (n c i k o s p d op g), name=value") from None


def _base(kind: str, short: dict[str, str], want: str) -> Request:
    """The ordinary request that the short words describe: consistent tensors of one dtype, outputs as wanted."""

    def numbers(key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return _ints(short[key][len(key) :], short[key]) if key in short else default

    dtype = _dtype(short["dtype"]).name if "dtype" in short else "float32"
    lacking = [key for key in "ncik" if key not in short]
    if 0 < len(lacking) < 4:
        missing = ", ".join(lacking)
        raise ValueError(f"problem line: {missing} missing: n, c, i and k go together, as in n1 c8>16 i14x14 k3x3")
    known = not lacking
    size, window = numbers("i", ()), numbers("k", ())
    rank = len(size)
    if known and len(window) == 1:
        window = _broadcast(window, rank)
    pads = _pads(short["p"][1:], short["p"]) if "p" in short else (0,)
    stride, dilation = (_broadcast(numbers(key, (1,)), rank) for key in ("s", "d"))
    output_padding = _broadcast(numbers("op", (0,)), rank)
    (batch,), (groups,) = (_one(numbers(key, (1,)), short, key) for key in ("n", "g"))
    transposed = kind == "tconv"
    tbc = kind == "tbc"
    padding: tuple[PadEntry, ...] = _broadcast(pads, rank)
    tensors: tuple[TensorSpec | None, ...] = (None, None, None)
    channels = (0, 0)
    if known:
        left, arrow, right = _channel_words(short["c"][1:])
        channels = (_int(left, short["c"]), _int(right if arrow else left, short["c"]))
        if len(window) != rank or not 1 <= rank <= 3 or (tbc and rank != 1):
            raise ValueError(f"problem line: {short['i']!r} and {short['k']!r} need the same 1, 2 or 3 sizes")
        pairs = pad_pairs(padding, rank)
        if "o" in short:
            out = numbers("o", ())
        elif pairs is None or len(stride) != rank or len(dilation) != rank or min(stride) < 1:
            out = size
        elif transposed:
            slack = output_padding if len(output_padding) == rank else (0,) * rank
            out = tuple(map(fine_size, size, window, stride, dilation, *zip(*pairs, strict=True), slack))
        else:
            out = tuple(map(coarse_size, size, window, stride, dilation, *zip(*pairs, strict=True)))
        tensors = _tensors(kind, batch, channels, size, out, window, groups, dtype)
    grad_output, input_, weight = tensors
    bias = TensorSpec((channels[1],), dtype, "ND") if known else None
    mask = tuple(letter in want for letter in "xwb")
    forward = want == "y"
    outputs = (input_, weight, bias) if known and not forward else (None, None, None)
    if tbc:
        pad = pads[0] if len(pads) == 1 and isinstance(pads[0], int) else 0
        return Request(
            Operator.TBC, grad_output, input_, weight, bias, pad=pad, forward=forward,
            grad_input=outputs[0], grad_weight=outputs[1], grad_bias=outputs[2],
        )
    return Request(
        Operator.CONV, grad_output, input_, weight, None, (channels[1],), stride, padding, dilation, transposed,
        output_padding, groups, mask, forward=forward,
        grad_input=outputs[0] if mask[0] else None,
        grad_weight=outputs[1] if mask[1] else None,
        grad_bias=outputs[2] if mask[2] else None,
    )


def _channel_words(text: str) -> tuple[str, str, str]:
    """Both sides of `8>16`, or of `8-16`, which a shell leaves alone; a first `-` is a sign."""
    if ">" in text:
        return text.partition(">")
    left, arrow, right = text[1:].partition("-")
    return text[:1] + left, arrow, right


def _one(numbers: tuple[int, ...], short: dict[str, str], key: str) -> tuple[int]:
    if len(numbers) != 1:
        raise ValueError(f"problem line: {short[key]!r} must be one number")
    return (numbers[0],)


def _tensors(
    kind: str, batch: int, channels: tuple[int, int], size: tuple[int, ...], out: tuple[int, ...],
    window: tuple[int, ...], groups: int, dtype: str,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    if kind == "tbc":
        shapes = ((*out, batch, channels[1]), (*size, batch, channels[0]), (*window, *channels))
        return tuple(TensorSpec(s, dtype, "ND") for s in shapes)  # type: ignore[return-value]
    per_group = (channels[1] if kind == "tconv" else channels[0]) // max(groups, 1)
    first = channels[0] if kind == "tconv" else channels[1]
    shapes = ((batch, channels[1], *out), (batch, channels[0], *size), (first, per_group, *window))
    layout = FORMAT_BY_RANK.get(2 + len(size), "ND")
    return tuple(TensorSpec(s, dtype, layout) for s in shapes)  # type: ignore[return-value]


def parse(line: str) -> Request:
    """The request a problem line stands for; a `ValueError` names the word that cannot be read."""
    text = arguments.text("a problem line", line).partition("#")[0].strip()
    for word in text.split():  # typed with a Chinese keyboard
        plain = unicodedata.normalize("NFKC", word)
        if plain != word and plain.isascii():
            raise ValueError(f"problem line: {word[:60]!r} has full-width characters: write {plain[:60]!r}")
    kind, rest = (*text.split(None, 1), "", "")[:2]
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise ValueError(f"problem line must start with conv, tconv or tbc, not {kind[:40]!r}{hint}")
    short, named = _shape_words(rest)
    want = dict(named).get("want", "xwb")
    if want != "y" and (set(want) - set("xwb-") or not want):
        raise ValueError(f"problem line: want={want[:40]} must be letters of x, w, b; `-` for none; or y")
    request = _base(kind, short, want)
    for name, value in named:
        if name != "want":
            request = replace(request, **_override(request, name, value))
    return request


def _override(request: Request, name: str, value: str) -> dict[str, Any]:
    """Field values that one `name=value` word sets."""
    word = f"{name}={value}"
    if name in _TENSOR_WORDS:
        return {_TENSOR_WORDS[name]: _tensor_override(getattr(request, _TENSOR_WORDS[name]), value, word)}
    if name in _ARRAY_WORDS:
        read = _pads if name == "padding" else _ints
        return {name: None if value == "null" else () if value == "none" else read(value, word)}
    if name == "mask":
        if value == "null":
            return {"output_mask": None}
        if value != "none" and set(value) - set("01"):
            raise ValueError(f"problem line: {word[:60]!r}: mask is made of 0 and 1, or null, or none")
        return {"output_mask": () if value == "none" else tuple(c == "1" for c in value)}
    if name == "math":
        if value not in MATH_NAMES and not value.lstrip("-").isdigit():
            raise ValueError(f"problem line: {word[:60]!r}: use math={', math='.join(MATH_NAMES)}, or a number")
        return {"math": MATH_NAMES.index(value) if value in MATH_NAMES else _int(value, word)}
    if name == "on":
        return {"product": products.find(value).key}
    if name == "as":
        if value not in CONFORMANCES:
            raise ValueError(f"problem line: {word[:60]!r}: use as=document or as=runtime")
        return {"conformance": value}
    if name == "alg":
        if value not in ALGORITHMS:
            raise ValueError(f"problem line: {word[:60]!r}: use alg={', alg='.join(ALGORITHMS)}")
        return {"algorithm": value}
    if name == "rev":
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            raise ValueError(f"problem line: {word[:60]!r}: use a date, as in rev=2026-08-22")
        return {"revision": value}
    if name == "det":
        if value not in LEVEL_WORDS:
            raise ValueError(f"problem line: {word[:60]!r}: use det={', det='.join(LEVEL_WORDS)}")
        return {"deterministic": int(value)}
    if name in ("groups", "pad"):
        return {name: _int(value, word)}
    if name == "transposed" and value in ("0", "1"):
        return {name: value == "1"}
    raise ValueError(f"problem line: unknown word {word[:60]!r}")


def _tensor_override(base: TensorSpec | None, value: str, word: str) -> TensorSpec | None:
    if value == "null":
        return None
    shape, dtype, layout = ([*value.split("/"), "", ""])[:3]
    if base is None:
        base = TensorSpec((), "float32", "ND")
    spec = TensorSpec(
        base.shape if not shape else () if shape == "scalar" else _ints(shape, word),
        dtype_name(dtype) if dtype else base.dtype,
        layout or base.format,
    )
    if len(spec.shape) > _MAX_RANK:
        raise ValueError(f"problem line: {word[:60]!r}: more than {_MAX_RANK} axes")
    return spec


# ---- printing ----------------------------------------------------------------------------------------------


def _join(values: tuple[Any, ...]) -> str:
    if not values:
        return "none"
    return "x".join(f"{v[0]}:{v[1]}" if isinstance(v, tuple) else str(v) for v in values)


def _squeeze(values: tuple[Any, ...]) -> str:
    """`1x1` is written `1`."""
    return str(values[0]) if len(set(values)) == 1 and not isinstance(values[0], tuple) else _join(values)


def _short_words(r: Request) -> list[str]:
    """The words that describe the request best; whatever they miss is told by overrides."""
    tbc = r.operator is Operator.TBC
    x, w, go = r.input, r.weight, r.grad_output
    words = ["tbc" if tbc else "tconv" if r.transposed else "conv"]
    rank = (x.rank if x else 0) - 2
    if x and w and go and x.rank == w.rank == go.rank and 1 <= rank <= (1 if tbc else 3):
        if tbc:
            (batch, cin), cout, size, window, out = x.shape[1:], go.shape[2], x.shape[:1], w.shape[:1], go.shape[:1]
        else:
            (batch, cin), cout, size, window, out = x.shape[:2], go.shape[1], x.shape[2:], w.shape[2:], go.shape[2:]
        words += [f"n{batch}", f"c{cin}>{cout}", f"i{_join(size)}", f"k{_join(window)}", f"o{_join(out)}"]
    if tbc:
        words.append(f"p{r.pad}")
    else:
        attributes = (("s", r.stride), ("p", r.padding), ("d", r.dilation), ("op", r.output_padding))
        words += [f"{key}{_squeeze(v)}" for key, v in attributes if v and not (key == "op" and not any(v))]
        words.append(f"g{r.groups}")
    first = x or w or go
    words.append(_dtype_word(first.dtype) if first else "fp32")
    return words


def _dtype_word(name: str) -> str:
    """The table's word for a dtype; a dtype it does not know is told by overrides on top of fp32."""
    try:
        return dtypes.find(name).word
    except ValueError:
        return "fp32"


def write(r: Request) -> str:
    """The problem line of a request: `parse(write(r)) == r` for every request."""
    words = _short_words(r)
    mask = r.output_mask
    want = "y" if r.forward else "".join(c for c, on in zip("xwb", mask or (), strict=False) if on) or "-"
    if r.operator is Operator.TBC and not r.forward:
        want = "xwb"
    math = MATH_NAMES[r.math] if 0 <= r.math < len(MATH_NAMES) else str(r.math)
    tail = [f"math={math}", f"want={want}", f"on={r.product}"]
    if r.conformance != DEFAULT_CONFORMANCE:
        tail.append(f"as={r.conformance}")
    if r.algorithm != DEFAULT_ALGORITHM:
        tail.append(f"alg={r.algorithm}")
    if r.deterministic:
        tail.append(f"det={r.deterministic}")
    if r.revision:
        tail.append(f"rev={r.revision}")
    # Leave `o` out when it follows from the rest; then say only what the short words do not.
    for line_words in ([w for w in words if not w.startswith("o") or w.startswith("op")], words):
        line = " ".join(line_words + tail)
        base = _parsed_or_none(line)
        if base is not None and base.grad_output == r.grad_output:
            break
    assert base is not None, line
    overrides = []
    for f in fields(Request):
        asked, said = getattr(r, f.name), getattr(base, f.name)
        if asked != said:
            overrides.append(_override_word(f.name, asked, said))
    return " ".join([line, *overrides])


def _parsed_or_none(line: str) -> Request | None:
    try:
        return parse(line)
    except ValueError:
        return None


def _override_word(field: str, asked: Any, said: Any) -> str:
    for short, name in _TENSOR_WORDS.items():
        if name == field:
            return f"{short}={_tensor_word(asked, said)}"
    if field == "output_mask":
        return "mask=" + ("null" if asked is None else "".join("01"[bool(m)] for m in asked) or "none")
    if isinstance(asked, bool):
        return f"{field}={asked:d}"
    return f"{field}={'null' if asked is None else _join(asked) if isinstance(asked, tuple) else asked}"


def _tensor_word(asked: TensorSpec | None, said: TensorSpec | None) -> str:
    if asked is None:
        return "null"
    said = said or TensorSpec((), "float32", "ND")
    shape = "" if asked.shape == said.shape else _join(asked.shape) if asked.shape else "scalar"
    dtype = "" if asked.dtype == said.dtype else asked.dtype
    layout = "" if asked.format == said.format else asked.format
    return "/".join((shape, dtype, layout)).rstrip("/") or "/"
