"""Hostile calls by the million: every public function, its arguments right but for one to three that are anything.

A call is made from the signature of its function, from a seed and a number, so that any of them can be made again:

    python tests/support/hostile_calls.py 100000                 # so many calls from seed 0; exit status 1 on a finding
    python tests/support/hostile_calls.py --seed 3 --only 4711   # one of them, with its traceback

What may come out: a result (of a convolution: compared with PyTorch's in float64, exact on small integers), a
`ConvGradError` that names the argument, a status of the two-phase protocol, a lack of memory. A function whose
documentation promises a ValueError, TypeError or IndexError may raise it by a `raise` of its own. Anything else is a
finding, and so is an operand that changed, or an output of a refused call that did.
"""

from __future__ import annotations

import argparse
import atexit
import inspect
import itertools
import linecache
import random
import resource
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import prod
from operator import index
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch

import convgrad
import convgrad.dask
import convgrad.torch
from convgrad import ConvGradError, Request, Status, Tensor, aclnn, ascendc, golden_functions
from convgrad.aclnn import settings
from convgrad.ascendc.from_line import Gradient
from convgrad.ascendc.line_runs import plan_line
from convgrad.compare import compare
from convgrad.core.geometry import coarse_size, fine_size
from convgrad.core.request import TensorSpec

PACKAGE = str(Path(convgrad.__file__).parent)
SENTINEL = 7.0
Arguments = dict[str, Any]

# ---- values that are anything --------------------------------------------------------------------------------


class Raises:
    """An object with one method that raises."""

    def __new__(cls, method: str, error: type[Exception] = ZeroDivisionError) -> Any:
        def broken(self: object, *arguments: object, **options: object) -> Any:
            raise error(method)

        return object.__new__(type(f"Raises{method.strip('_').title()}", (), {method: broken}))


class Answers:
    """An object with one method that answers nonsense."""

    def __new__(cls, method: str, answer: object) -> Any:
        name = f"Answers{method.strip('_').title()}"
        return object.__new__(type(name, (), {method: lambda self, *arguments, **options: answer}))


class Attribute:
    """An object with one attribute that cannot be looked at."""

    def __new__(cls, name: str) -> Any:
        def broken(self: object) -> Any:
            raise ZeroDivisionError(name)

        return object.__new__(type(f"No{name.strip('_').title()}", (), {name: property(broken)}))


def _endless_list() -> list[Any]:
    inner: list[Any] = [1]
    inner.append(inner)
    return inner


ANYTHING: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: -1, lambda: 1, lambda: 2, lambda: 3, lambda: 64,
    lambda: 2**31 - 1, lambda: 2**31, lambda: 2**32, lambda: 2**62, lambda: 2**63 - 1, lambda: 2**63, lambda: -(2**63),
    lambda: -(2**63) - 1, lambda: 2**64, lambda: 10**30, lambda: 10**40, lambda: -(10**40), lambda: 10**5000,
    lambda: 4096, lambda: 4097, lambda: 5000,
    lambda: 1.0, lambda: 1.5, lambda: float("nan"), lambda: float("inf"), lambda: -0.0, lambda: 1j,
    lambda: Fraction(1), lambda: Decimal(1), lambda: "1", lambda: "", lambda: "same", lambda: "keep",
    lambda: "x" * 100_000,
    lambda: "\ud800", lambda: "a b/c#d=e", lambda: "None", lambda: b"1", lambda: bytearray(b"\1\1"),
    lambda: memoryview(b"\1\1"),
    lambda: np.int64(1), lambda: np.int8(-1), lambda: np.uint64(2**64 - 1), lambda: np.float32(1),
    lambda: np.bool_(True), lambda: np.str_("keep"), lambda: np.datetime64("2026-01-01"), lambda: np.array(1),
    lambda: np.array(-1), lambda: np.array(1.5), lambda: np.array(None), lambda: np.array([]), lambda: np.array([1]),
    lambda: np.array([1, 1]), lambda: np.array([1.0, 1.0]), lambda: np.ones((2, 2), np.int64),
    lambda: np.ones((2, 2, 2)), lambda: np.ma.masked,
    lambda: np.ma.array([1, 1], mask=[True, False]), lambda: np.array([1, None]), lambda: np.array(["a", "b"]),
    lambda: torch.tensor(1), lambda: torch.tensor([1, 1]), lambda: torch.tensor(1.5), lambda: torch.Size([1, 1]),
    lambda: [], lambda: (), lambda: [1], lambda: (1,), lambda: [1, 1], lambda: (1, 1), lambda: [0, 0],
    lambda: [1, 1, 1], lambda: (True, True, True), lambda: [1, 1, 1, 1], lambda: (0, -1), lambda: [2**63, 1],
    lambda: [10**5000, 1],
    lambda: [1.0, 1], lambda: [None, 1], lambda: ["a", 1], lambda: [[1, 1], [1, 1]], lambda: ((1, 2), (0, 1)),
    lambda: ((1, 2, 3), 1), lambda: [1, [2, 3]], lambda: [np.array([1, 1]), 1], lambda: [np.array(1), np.int32(1)],
    lambda: [[[1]]], lambda: [1] * 65, lambda: [1] * 1000, _endless_list, lambda: range(2), lambda: range(10**12),
    lambda: iter([1, 1]), lambda: (1 for _ in range(2)), lambda: itertools.count(), lambda: {}, lambda: {1: 1},
    lambda: {1, 2}, lambda: {"a": object()}, object, lambda: int, lambda: len, lambda: ..., lambda: NotImplemented,
    lambda: Tensor([1.0]), lambda: Request.parse("conv n1 c1>1 i3 k1"), lambda: np.float32, lambda: Status.SUCCESS,
    lambda: ConvGradError("an error"), lambda: np.dtype("float32"), lambda: torch.float32,
    *(lambda m=m: Raises(m) for m in (
        "__index__", "__len__", "__iter__", "__bool__", "__repr__", "__str__", "__hash__", "__eq__", "__array__",
        "__dlpack__", "__dlpack_device__", "__getitem__", "__float__", "__int__", "__contains__",
    )),
    *(lambda m=m: Raises(m, MemoryError) for m in ("__index__", "__array__", "__iter__")),
    *(lambda m=m: Attribute(m) for m in (
        "__array__", "__dlpack__", "__iter__", "__index__", "__array_interface__", "shape", "dtype",
        "__cuda_array_interface__", "__dict__", "is_neg", "detach",
    )),
    lambda: Answers("__index__", 10**5000), lambda: Answers("__index__", "1"), lambda: Answers("__index__", True),
    lambda: Answers("__len__", -1), lambda: Answers("__len__", 10**30), lambda: Answers("__iter__", 5),
    lambda: Answers("__array__", 5), lambda: Answers("__array__", None), lambda: Answers("__bool__", 2),
    lambda: Answers("__repr__", 5), lambda: Answers("__dlpack_device__", None), lambda: Answers("__hash__", "x"),
    lambda: Answers("__eq__", np.array([True, False])),
)  # fmt: skip

NAMES: tuple[Callable[[], Any], ...] = tuple(
    lambda n=n: n for n in (
        "keep", "allow_down", "fp16", "hf32", "cpu", "A2", "950", "Ascend910B3", "document", "runtime", "nope", "ND",
        "NCHW", "NHWC", "float32", "bf16", "hifloat8", "hf32_10", "en", "zh", "exact", "mixed", "mixed,exact",
        "é", "\0",
    )
)  # fmt: skip

DTYPES = (
    "float64", "float32", "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, "int8",
    "uint8", "int32", "int64", "uint16", "bool", "complex64", "object", "U3", "S2", "M8[s]", "m8[ns]", "longdouble",
    [("a", "f4"), ("b", "f4")], ml_dtypes.int4, ml_dtypes.float8_e4m3b11fnuz, ">f4", ">f8",
)  # fmt: skip


def _cast(array: np.ndarray, dtype: Any) -> np.ndarray:
    try:
        return array.astype(dtype)
    except (TypeError, ValueError):
        return np.zeros(array.shape, dtype)


def _unaligned(array: np.ndarray) -> np.ndarray:
    held = np.empty(array.nbytes + 1, np.uint8)
    moved = held[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def _spaced(array: np.ndarray) -> np.ndarray:
    held = np.zeros((*array.shape, 3), array.dtype)
    held[..., 1] = array
    return held[..., 1]


def _fields(array: np.ndarray) -> np.ndarray:
    held = np.zeros(array.shape, [("a", "i1"), ("b", array.dtype)])  # strides that are no multiple of an element
    held["b"] = array
    return held["b"]


def _flipped(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array[tuple(slice(None, None, -1) for _ in array.shape)])[
        tuple(slice(None, None, -1) for _ in array.shape)
    ]


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _negated(array: np.ndarray) -> torch.Tensor:
    """Equal to the array, by way of PyTorch's negative bit."""
    return torch.complex(torch.zeros(array.shape), torch.from_numpy(-array.astype("float32"))).conj().imag


def _giant(array: np.ndarray) -> np.ndarray:
    """An axis so long that the tensor just fits 63 bits of bytes."""
    return np.broadcast_to(np.float32(1), (*array.shape[:-1], 2**60 // max(prod(array.shape[:-1]), 1)))


def _masked(array: np.ndarray, how: bool) -> Any:
    return np.ma.array(array, mask=np.full(array.shape, how))


class Subclass(np.ndarray):
    """An array of another class."""


SAME: tuple[Callable[[np.ndarray], Any], ...] = (
    np.asfortranarray, _flipped, _unaligned, _spaced, _fields, _frozen, lambda a: a.astype(a.dtype.newbyteorder(">")),
    torch.from_numpy, lambda a: torch.from_numpy(a).requires_grad_(), _negated, Tensor, lambda a: _masked(a, False),
    lambda a: a.view(Subclass), lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1),
    lambda a: memoryview(a),
)  # fmt: skip
"""The same values otherwise held: a call with them is as good as it was."""

OTHER: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda a: a[0], lambda a: a[None], lambda a: a[..., :-1], lambda a: a[:0], lambda a: a[..., :0],
    lambda a: a.ravel(), lambda a: np.float32(1), lambda a: np.broadcast_to(np.float32(1), a.shape),
    lambda a: a.tolist(), _giant, lambda a: np.broadcast_to(np.int8(1), (2**62,)),
    lambda a: np.broadcast_to(np.float32(1), (1,) * 40), lambda a: torch.from_numpy(a).to_sparse(),
    lambda a: torch.from_numpy(a).to("meta"), lambda a: torch.from_numpy(a) * 1j,
    lambda a: torch.from_numpy(a).bfloat16(),
    lambda a: (torch.from_numpy(a) * 1j).conj(), lambda a: torch.nested.nested_tensor([torch.from_numpy(a)]),
    lambda a: torch.quantize_per_tensor(torch.from_numpy(a).float(), 1.0, 0, torch.quint8), lambda a: _masked(a, True),
    lambda a: [_masked(a, True)], lambda a: Tensor(a, format="NHWC"), lambda a: Tensor(a, "hifloat8"),
    lambda a: Tensor(a, format="no such"), lambda a: np.matrix(np.ones((2, 2))), lambda a: a.tobytes(),
    *(lambda a, d=d: _cast(a, d) for d in DTYPES),
)  # fmt: skip


def any_value(rng: random.Random) -> Any:
    return rng.choice(ANYTHING)() if rng.random() < 0.85 else rng.choice(NAMES)()


def any_tensor(rng: random.Random, ordinary: Any) -> Any:
    array = ordinary.detach().numpy() if isinstance(ordinary, torch.Tensor) else ordinary
    if not isinstance(array, np.ndarray) or rng.random() < 0.3:
        return any_value(rng)
    try:
        held = rng.choice(SAME if rng.random() < 0.5 else OTHER)(array)
        return torch.from_numpy(held) if array is not ordinary and isinstance(held, np.ndarray) else held
    except (TypeError, ValueError, RuntimeError, IndexError, ConvGradError):  # the change does not fit this array
        return any_value(rng)


def any_buffers(rng: random.Random, arguments: Arguments) -> Any:
    """For `out`: buffers that would do, with some of them wrong; or no buffers at all."""
    operands = [arguments.get(name) for name in ("input", "weight", "grad_output")]
    if rng.random() < 0.2 or not all(isinstance(a, np.ndarray) for a in operands):
        return any_value(rng)
    x, w, g = operands
    channel = -1 if "pad" in arguments else 1
    bias = np.full(g.shape[channel] if g.ndim > 1 else 1, SENTINEL, g.dtype)
    out: list[Any] = [np.full(x.shape, SENTINEL, x.dtype), np.full(w.shape, SENTINEL, w.dtype), bias]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        i = rng.randrange(3)
        a = out[i]
        if not isinstance(a, np.ndarray):
            continue
        out[i] = rng.choice((
            lambda a=a: None, lambda a=a: any_tensor(rng, a), lambda a=a: np.lib.stride_tricks.as_strided(a, a.shape),
            lambda a=a: np.lib.stride_tricks.as_strided(a, a.shape, (a.itemsize,) * a.ndim), lambda: x, lambda: w,
            lambda a=a: Tensor(a), lambda a=a: _flipped(a), lambda a=a: _spaced(a),
        ))()  # fmt: skip
    return rng.choice((tuple, list, list, iter))(out) if rng.random() < 0.9 else out[: rng.randrange(3)]


# ---- arguments that are right ----------------------------------------------------------------------------------


_TWO = {name: np.dtype(name).type(2) for name in ("float16", "float32", "float64")}


def _integers(rng: random.Random, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    # A generator of NumPy's costs more than the call it is for.
    return (np.frombuffer(rng.randbytes(prod(shape)), np.uint8) % 5).astype(dtype).reshape(shape) - _TWO[dtype]


def conv_arguments(rng: random.Random) -> Arguments:
    """A consistent convolution on small integers."""
    rank, transposed, groups = rng.choice((1, 2, 2, 3)), rng.random() < 0.4, rng.choice((1, 1, 2))
    window, stride, dilation = ([rng.choice((1, 2, 3)) for _ in range(rank)] for _ in range(3))
    pads = [rng.choice((0, 0, 1)) for _ in range(rank)]
    coarse = [rng.choice((2, 3, 4)) for _ in range(rank)]
    axes = list(zip(window, stride, dilation, pads, pads, strict=True))
    fine = [max(fine_size(n, *a), 1) for n, a in zip(coarse, axes, strict=True)]
    coarse = [coarse_size(n, *a) for n, a in zip(fine, axes, strict=True)]
    if min(coarse) < 1:
        return conv_arguments(rng)
    c, f, batch = groups * rng.choice((1, 2)), groups * rng.choice((1, 2)), rng.choice((1, 2))
    dtype = rng.choice(("float32", "float32", "float64", "float16"))
    small, big = _integers(rng, (batch, c, *coarse), dtype), _integers(rng, (batch, f, *fine), dtype)
    weight = _integers(rng, (c, f // groups, *window), dtype)
    g, x = (big, small) if transposed else (small, big)
    return {
        "grad_output": g, "input": x, "weight": weight, "stride": stride, "padding": pads, "dilation": dilation,
        "groups": groups, "transposed": transposed, "output_padding": 0,
    }  # fmt: skip


def forward_arguments(rng: random.Random) -> Arguments:
    arguments = conv_arguments(rng)
    g = arguments.pop("grad_output")
    return arguments | ({"bias": _integers(rng, g.shape[1:2], str(g.dtype))} if rng.random() < 0.5 else {})


def tbc_arguments(rng: random.Random) -> Arguments:
    t, b, c, d, k, pad = (rng.choice((1, 2, 3)) for _ in range(6))
    t += k
    shapes = ((t + 2 * pad - k + 1, b, d), (t, b, c), (k, c, d), (d,))
    g, x, w, bias = (_integers(rng, s) for s in shapes)
    return {"grad_output": g, "input": x, "weight": w, "bias": bias, "pad": pad}


def tbc_forward_arguments(rng: random.Random) -> Arguments:
    arguments = tbc_arguments(rng)
    del arguments["grad_output"]
    return arguments


def vendor_arguments(rng: random.Random) -> Arguments:
    """The same with the vendor's names, outputs included."""
    a = conv_arguments(rng)
    g, x, w, rank = a["grad_output"], a["input"], a["weight"], a["input"].ndim - 2
    return {
        "gradOutput": g, "input": x, "weight": w, "biasSizes": [g.shape[1]], "stride": a["stride"],
        "padding": a["padding"], "dilation": a["dilation"], "transposed": a["transposed"], "outputPadding": [0] * rank,
        "groups": a["groups"], "outputMask": [True] * 3, "cubeMathType": 0,
        "gradInput": np.full(x.shape, SENTINEL, x.dtype), "gradWeight": np.full(w.shape, SENTINEL, w.dtype),
        "gradBias": np.full(g.shape[1], SENTINEL, g.dtype),
    }  # fmt: skip


def vendor_tbc_arguments(rng: random.Random) -> Arguments:
    a = tbc_arguments(rng)
    outputs = {n: np.full(a[t].shape, SENTINEL, np.float32)
               for n, t in (("gradInput", "input"), ("gradWeight", "weight"), ("gradBias", "bias"))}  # fmt: skip
    same = {n: a[n] for n in ("input", "weight", "bias", "pad")}
    return {"self": a["grad_output"], **same, "cubeMathType": 0, **outputs}


def end_to_end_arguments(rng: random.Random) -> Arguments:
    """The framework's names for the same; outputs are none of its parameters."""
    names = ("grad_output", "input", "weight", "bias_sizes", "stride", "padding", "dilation", "transposed",
             "output_padding", "groups", "output_mask")  # fmt: skip
    return dict(zip(names, vendor_arguments(rng).values(), strict=False))


def kernel_arguments(names: tuple[str, str, str]) -> Callable[[random.Random], Arguments]:
    """Tensors of five axes, one of them only told by its size."""
    sizes = {"x": (1, 2, 1, 3, 3), "filter": (2, 2, 1, 2, 2), "out_backprop": (1, 2, 1, 2, 2)}

    def made(rng: random.Random) -> Arguments:
        tensors = {n: np.array(sizes["x" if n == "input_size" else "filter"], np.int32) if n.endswith("size")
                   else _integers(rng, sizes[n]) for n in names}  # fmt: skip
        return {**tensors, "strides": [1] * 5, "pads": [0] * 6, "dilations": [1] * 5, "groups": 1,
                "data_format": "NCDHW", "enable_hf32": False}  # fmt: skip

    return made


def _executor() -> Any:
    ones = np.ones((1, 1, 2, 2), np.float32)
    outputs = (np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 1, 1, 1), np.float32), np.zeros(1, np.float32))
    return aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
        ones, ones, ones[..., :1, :1], [1], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3, 0, *outputs
    )


def phase_two_arguments(rng: random.Random) -> Arguments:
    size, executor, _ = _executor()
    return {"workspace": np.empty(size, np.uint8), "workspaceSize": size, "executor": executor, "stream": None}


def setter_arguments(rng: random.Random) -> Arguments:
    executor = _executor()[1]
    passed = executor.slots[rng.choice(("gradOutput", "input", "weight", "gradInput"))].passed
    return {"executor": executor, "index": 0, "tensor": passed, "addr": np.ones(passed.shape, np.float32)}


def request_arguments(rng: random.Random) -> Arguments:
    line = rng.choice((
        "conv n2 c4>4 i5x5 k3x3 p1 g2 fp16 on=A2", "tconv n1 c2>3 i4 k2 s2", "tbc n2 c3>4 i6 k3 p1",
        "conv n1 c1>1 i3 k1 want=y", "conv n0 c1>1 i3 k1",
    ))  # fmt: skip
    return {"request": Request.parse(line)}


def fields_of_a_request(rng: random.Random) -> Arguments:
    r = request_arguments(rng)["request"]
    return {name: getattr(r, name) for name in inspect.signature(Request).parameters}


def tensor_arguments(rng: random.Random) -> Arguments:
    return {"data": _integers(rng, (2, 3)), "dtype": rng.choice((None, "float32", "bf16", "hifloat8"))}


def create_arguments(rng: random.Random) -> Arguments:
    return {
        "viewDims": [2, 3], "dataType": rng.choice((0, "fp32")), "stride": [3, 1], "offset": 0,
        "format": rng.choice((2, "ND")), "storageDims": [6], "tensorData": np.zeros(6, np.float32),
    }  # fmt: skip


def compare_arguments(rng: random.Random) -> Arguments:
    actual = _integers(rng, (2, 3))
    return {"actual": actual, "golden": actual.astype("float64"), "dtype": None, "standard": "mixed,exact",
            "partner": actual.copy(), "name": "result"}  # fmt: skip


def tile_arguments(rng: random.Random) -> Arguments:
    g, w = _integers(rng, (1, 2, 1, 3, 3), "float16"), _integers(rng, (2, 3, 1, 2, 2), "float16")
    return {"grad_output": g, "weight": w, "stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "cores": 2}


def tile_filter_arguments(rng: random.Random) -> Arguments:
    g, x = _integers(rng, (1, 2, 1, 3, 3), "float16"), _integers(rng, (1, 3, 1, 4, 4), "float16")
    numbers = {"stride": 1, "padding": 0, "dilation": 1, "cores": 2}
    return {"input": x, "grad_output": g, "weight_shape": (2, 3, 1, 2, 2), **numbers}


TILE_LINE = "conv n1 c16>16 i1x6x6 k1x3x3 p0x1x1 fp16"


@cache
def _tile_run(gradient: str) -> Any:
    return plan_line(TILE_LINE, 2, Gradient(gradient))


@cache
def _blocks(gradient: str) -> list[Any]:
    return list(_tile_run(gradient).blocks)


def record_arguments(gradient: str, *names: str) -> Callable[[random.Random], Arguments]:
    """A tiling record and what goes with it."""

    def made(rng: random.Random) -> Arguments:
        run = _tile_run(gradient)
        record = run.plan.record
        every = {
            "t": record, "record": record, "tiling": record, "cores": 2, "platform": ascendc.PlatformInfo(),
            "blocks": _blocks(gradient), "block": getattr(run.plan, "basic_block", None), "title": "a walk",
            "plane": None,
            "record_type": type(record), "content": ascendc.tiling_to_bytes(record), "author": lambda core: None,
            "grad_output_gm": np.zeros(record.grad_output_size, np.float16), "dtype": ascendc.ConvDtype.FLOAT16,
            "weight_gm": np.zeros(record.weight_size, np.float16), "input_gm": np.zeros(record.input_size, np.float16),
        }  # fmt: skip
        return {name: every[name] for name in names}

    return made


def _listed(function: Callable[..., Any]) -> Callable[..., Any]:
    """All that a generator gives; the signature is its own."""

    def listed(*arguments: Any, **options: Any) -> Any:
        return list(function(*arguments, **options))

    listed.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return listed


@cache
def _raw_file() -> Path:
    path = Path(tempfile.mkdtemp(prefix="hostile-")) / "a.bin"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    np.ones(6, np.float16).tofile(path)
    return path


def _read_bin(dtype: Any, shape: Any = None) -> Any:
    return ascendc.read_bin(_raw_file(), dtype, shape)


def _write_bin(tensor: Any) -> Any:
    return ascendc.write_bin(_raw_file().with_name("b.bin"), tensor)


def _entered(*arguments: Any, **options: Any) -> Any:
    """A convolution under emulation."""
    with convgrad.torch.emulate(*arguments, **options):
        x = torch.ones(1, 1, 3, 3, requires_grad=True)
        return torch.nn.functional.conv2d(x, torch.ones(1, 1, 2, 2)).sum().backward()


_entered.__signature__ = inspect.signature(convgrad.torch.emulate)  # type: ignore[attr-defined]


def as_torch(made: Callable[[random.Random], Arguments]) -> Callable[[random.Random], Arguments]:
    def arguments(rng: random.Random) -> Arguments:
        return {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in made(rng).items()}

    return arguments


# ---- what PyTorch says ---------------------------------------------------------------------------------------------


def _values(tensor: Any) -> torch.Tensor:
    if isinstance(tensor, Tensor):
        tensor = tensor.values()
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().resolve_neg().double()
    return torch.from_numpy(np.array(np.asarray(tensor), np.float64))


def _numbers(value: Any, rank: int) -> list[int]:
    found = [index(v) for v in value] if _many(value) else [index(value)]
    return found * rank if len(found) == 1 else found


def _many(value: Any) -> bool:
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, Sequence)


def _operands(a: Arguments, *names: str) -> list[torch.Tensor] | None:
    found = [_values(a[name]).contiguous() for name in names]  # PyTorch's TBC takes no other
    return found if all(t.numel() for t in found) else None


def _attributes(a: Arguments, rank: int) -> tuple[list[int], list[int], list[int]] | None:
    """Stride, padding and dilation as PyTorch takes them."""
    pads = a.get("padding", 0)
    if _many(pads) and (len(pads) not in (1, rank) or any(np.ndim(p) for p in pads)):
        return None  # forms PyTorch has no word for
    numbers = (_numbers(a["stride"], rank), _numbers(pads, rank), _numbers(a["dilation"], rank))
    return numbers if max(map(max, numbers)) < 2**31 else None  # of which PyTorch takes the rest modulo 2^32


def _gradients(a: Arguments) -> Sequence[torch.Tensor] | None:
    operands = _operands(a, "grad_output", "input", "weight")
    numbers = operands and _attributes(a, operands[1].dim() - 2)
    if not operands or not numbers:
        return None
    g, x, w = operands
    slack = [0] * (x.dim() - 2)
    if a["transposed"]:  # what the sizes say: the law has no other use for output_padding
        axes = zip(x.shape[2:], w.shape[2:], *numbers[::2], numbers[1], numbers[1], strict=True)
        slack = [n - fine_size(*axis) for n, axis in zip(g.shape[2:], axes, strict=True)]
    return torch.ops.aten.convolution_backward(
        g, x, w, [g.shape[1]], *numbers, bool(a["transposed"]), slack, int(a["groups"]), [True] * 3
    )


def _output(a: Arguments) -> Sequence[torch.Tensor] | None:
    operands = _operands(a, "input", "weight")
    numbers = operands and _attributes(a, operands[0].dim() - 2)
    if not operands or not numbers:
        return None
    bias = None if a.get("bias") is None else _values(a["bias"]).reshape(-1)
    slack = _numbers(a["output_padding"], operands[0].dim() - 2) if a["transposed"] else [0] * (operands[0].dim() - 2)
    return [torch.ops.aten.convolution(*operands, bias, *numbers, bool(a["transposed"]), slack, int(a["groups"]))]


def _tbc_gradients(a: Arguments) -> Sequence[torch.Tensor] | None:
    operands = _operands(a, "grad_output", "input", "weight")
    bias = operands and operands[0].new_zeros(operands[0].shape[-1])
    return torch.ops.aten.conv_tbc_backward(*operands, bias, index(a.get("pad", 0))) if operands else None


def _tbc_output(a: Arguments) -> Sequence[torch.Tensor] | None:
    operands = _operands(a, "input", "weight")
    if not operands:
        return None
    bias = operands[0].new_zeros(operands[1].shape[-1]) if a.get("bias") is None else _values(a["bias"]).reshape(-1)
    return [torch.ops.aten.conv_tbc(*operands, bias, index(a.get("pad", 0)))]


# ---- the doors ---------------------------------------------------------------------------------------------------

OWN = (ValueError, TypeError, IndexError)


@dataclass(frozen=True)
class Door:
    """A public function with arguments that would be right."""

    name: str
    function: Callable[..., Any]
    ordinary: Callable[[random.Random], Arguments]
    documented: tuple[type[Exception], ...] = ()
    """Exceptions of its own besides ConvGradError."""
    statuses: bool = False
    """It answers with a status and raises nothing."""
    expected: Callable[[Arguments], Sequence[torch.Tensor] | None] | None = None
    """What PyTorch says in float64, for comparison; nothing for forms it has no word for."""
    weight: int = 1


def _lazy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The computed results of a lazy call; its signature is the function's own."""

    def computed(*arguments: Any, **options: Any) -> Any:
        found = function(*arguments, **options)
        return type(found)(*(None if t is None else t.compute(scheduler="synchronous") for t in found))

    computed.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return computed


def _planned_run(grad_output: Any, input: Any, weight: Any, *, out: Any = None, threads: Any = None) -> Any:
    return _PLAN.run(grad_output, input, weight, out=out, threads=threads)


_PLAN = convgrad.plan(Request.parse("conv n1 c2>3 i4x4 k2x2"))


def plan_arguments(rng: random.Random) -> Arguments:
    shapes = {"grad_output": (1, 3, 3, 3), "input": (1, 2, 4, 4), "weight": (3, 2, 2, 2)}
    return {name: _integers(rng, shape) for name, shape in shapes.items()}


def _spec(shape: Any, dtype: Any, format: Any) -> Any:
    return TensorSpec(shape, dtype, format)


def _said(*fields: Any, **named: Any) -> Any:
    """A request of any fields, checked and written."""
    request = Request(*fields, **named)
    verdict = convgrad.check(request)
    assert Request.parse(str(request)) == request, str(request)
    return verdict


_said.__signature__ = inspect.signature(Request)  # type: ignore[attr-defined]

_DASK, _TORCH = convgrad.dask, convgrad.torch
DOORS: tuple[Door, ...] = (
    Door("conv_backward", convgrad.conv_backward, conv_arguments, expected=_gradients, weight=8),
    Door("conv_tbc_backward", convgrad.conv_tbc_backward, tbc_arguments, expected=_tbc_gradients, weight=3),
    Door("convolution", convgrad.convolution, forward_arguments, expected=_output, weight=3),
    Door("conv_tbc", convgrad.conv_tbc, tbc_forward_arguments, expected=_tbc_output, weight=2),
    Door("sample_gradients", convgrad.sample_gradients, conv_arguments, OWN),
    Door("tree_sum", convgrad.tree_sum, lambda rng: {"parts": _integers(rng, (rng.choice((1, 2, 5)), 2, 3))}, OWN),
    Door("plan.run", _planned_run, plan_arguments, weight=2),
    Door("plan", convgrad.plan, request_arguments, OWN),
    Door("check", convgrad.check, request_arguments, OWN),
    Door("explain", convgrad.explain, request_arguments, OWN),
    Door("Request", _said, fields_of_a_request, OWN, weight=3),
    Door("Request.parse", Request.parse, lambda rng: {"line": str(request_arguments(rng)["request"])}, OWN),
    Door("TensorSpec", _spec, lambda rng: {"shape": (1, 2), "dtype": "float32", "format": "ND"}),
    Door("Tensor", Tensor, tensor_arguments, weight=2),
    Door("engine_info", convgrad.engine_info, lambda rng: {}),
    Door("aclnn.aclnnConvolutionBackwardGetWorkspaceSize", aclnn.aclnnConvolutionBackwardGetWorkspaceSize,
         vendor_arguments, statuses=True, weight=4),
    Door("aclnn.aclnnConvTbcBackwardGetWorkspaceSize", aclnn.aclnnConvTbcBackwardGetWorkspaceSize,
         vendor_tbc_arguments, statuses=True, weight=2),
    Door("aclnn.aclnnConvolutionBackward", aclnn.aclnnConvolutionBackward, phase_two_arguments, statuses=True),
    Door("aclnn.aclnnConvTbcBackward", aclnn.aclnnConvTbcBackward, phase_two_arguments, statuses=True),
    Door("aclnn.aclCreateTensor", aclnn.aclCreateTensor, create_arguments, statuses=True, weight=2),
    Door("aclnn.aclDestroyTensor", aclnn.aclDestroyTensor, lambda rng: {"tensor": None}, statuses=True),
    *(Door(f"aclnn.{n}", getattr(aclnn, n), setter_arguments, statuses=True)
      for n in ("aclSetTensorAddr", "aclSetInputTensorAddr", "aclSetOutputTensorAddr")),
    *(Door(f"aclnn.{n}", getattr(aclnn, n), lambda rng: {"executor": _executor()[1]}, statuses=True)
      for n in ("aclSetAclOpExecutorRepeatable", "aclDestroyAclOpExecutor")),
    *(Door(f"aclnn.{n}", getattr(aclnn, n), lambda rng: {"opt": 0, "value": 1}, statuses=True)
      for n in ("aclrtSetSysParamOpt", "aclrtCtxSetSysParamOpt")),
    *(Door(f"aclnn.{n}", getattr(aclnn, n), lambda rng: {"opt": 0}, statuses=True)
      for n in ("aclrtGetSysParamOpt", "aclrtCtxGetSysParamOpt")),
    *(Door(f"aclnn.{n}", getattr(aclnn, n), lambda rng: {"name": None}, OWN)
      for n in ("set_product", "set_conformance")),
    *(Door(f"aclnn.{n}", getattr(aclnn, n), lambda rng: {}) for n in ("product", "conformance", "aclGetRecentErrMsg")),
    Door("torch.conv_backward", _TORCH.conv_backward, as_torch(conv_arguments), expected=_gradients, weight=4),
    Door("torch.conv_tbc_backward", _TORCH.conv_tbc_backward, as_torch(tbc_arguments), expected=_tbc_gradients,
         weight=2),
    Door("torch.convolution", _TORCH.convolution, as_torch(forward_arguments), expected=_output, weight=2),
    Door("torch.conv_tbc", _TORCH.conv_tbc, as_torch(tbc_forward_arguments), expected=_tbc_output),
    Door("dask.conv_backward", _lazy(_DASK.conv_backward), conv_arguments, expected=_gradients, weight=2),
    Door("dask.conv_tbc_backward", _lazy(_DASK.conv_tbc_backward), tbc_arguments, expected=_tbc_gradients),
    Door("dask.chunks", _DASK.chunks, request_arguments, OWN),
    Door("dask.Tensor", _DASK.Tensor, lambda rng: {"data": _integers(rng, (2, 3))}),
    Door("golden_functions.aclnnConvolutionBackward", golden_functions.aclnnConvolutionBackward, vendor_arguments,
         weight=2),
    Door("golden_functions.convolution_backward", golden_functions.convolution_backward, end_to_end_arguments),
    Door("golden_functions.conv3d_backprop_input_v2", golden_functions.conv3d_backprop_input_v2,
         kernel_arguments(("input_size", "filter", "out_backprop"))),
    Door("golden_functions.conv3d_backprop_filter_v2", golden_functions.conv3d_backprop_filter_v2,
         kernel_arguments(("x", "filter_size", "out_backprop"))),
    Door("golden_functions.aclnnConvTbcBackward", golden_functions.aclnnConvTbcBackward, vendor_tbc_arguments),
    Door("compare", compare, compare_arguments, weight=2),
    *(Door(f"ascendc.{n}", getattr(ascendc, n), made, OWN) for n, made in (
        ("to_ndc1hwc0", lambda rng: {"array": _integers(rng, (1, 3, 1, 2, 2)), "c0": 2}),
        ("from_ndc1hwc0", lambda rng: {"packed": np.zeros((1, 1, 2, 2, 2, 2), np.float32), "channels": 3}),
        ("index_ndc1hwc0", lambda rng: {"shape": (1, 3, 1, 2, 2), "c0": 2, "element": (0, 1, 0, 1, 1)}),
        ("element_ndc1hwc0", lambda rng: {"shape": (1, 3, 1, 2, 2), "c0": 2, "flat": 5}),
        ("to_fractal_z_3d", lambda rng: {"weight": _integers(rng, (2, 3, 1, 2, 2)), "c0": 2}),
        ("from_fractal_z_3d",
         lambda rng: {"packed": np.zeros((8, 1, 16, 2), np.float32), "shape": (2, 3, 1, 2, 2), "c0": 2}),
        ("index_fractal_z_3d", lambda rng: {"shape": (2, 3, 1, 2, 2), "c0": 2, "element": (0, 1, 0, 1, 1)}),
        ("element_fractal_z_3d", lambda rng: {"shape": (2, 3, 1, 2, 2), "c0": 2, "flat": 5}),
    )),
    Door("ascendc.simulate", ascendc.simulate, tile_arguments),
    Door("ascendc.simulate_filter", ascendc.simulate_filter, tile_filter_arguments),
    *(Door(f"ascendc.{n}", getattr(ascendc, n), record_arguments(kind, *names), OWN) for n, kind, names in (
        ("check_record", "input", ("record", "platform")), ("check_filter_record", "weight", ("record", "platform")),
        ("tiling_to_bytes", "input", ("record",)), ("tiling_from_bytes", "weight", ("record_type", "content")),
        ("traffic_report", "input", ("t", "blocks", "cores", "platform")),
        ("filter_traffic_report", "weight", ("t", "blocks", "cores", "platform")),
        ("draw_walk", "input", ("t", "blocks", "cores", "title", "plane")),
        ("draw_filter_walk", "weight", ("t", "blocks", "cores", "title", "plane")),
        ("check_kernel", "input", ("author", "tiling", "cores")),
        ("check_filter_kernel", "weight", ("author", "tiling", "cores")),
        ("run_kernel", "input", ("author", "tiling", "grad_output_gm", "weight_gm", "cores", "dtype")),
        ("run_filter_kernel", "weight", ("author", "tiling", "input_gm", "grad_output_gm", "cores", "dtype")),
    )),
    Door("ascendc.flat_blocks", _listed(ascendc.flat_blocks), record_arguments("input", "t", "cores"), OWN),
    Door("ascendc.filter_blocks", _listed(ascendc.filter_blocks), record_arguments("weight", "t", "block", "cores"),
         OWN),
    Door("ascendc.read_bin", _read_bin, lambda rng: {"dtype": "float16", "shape": (2, 3)}, OWN),
    Door("ascendc.write_bin", _write_bin, lambda rng: {"tensor": np.ones((2, 3), np.float16)}, OWN),
    Door("torch.emulate", _entered, lambda rng: {"product": "A2"}, OWN),
)  # fmt: skip
_WEIGHTED = [door for door in DOORS for _ in range(door.weight)]


def jax_doors() -> list[Door]:
    """The functions of `convgrad.jax`, apart: a call compiles for its shapes, which takes a tenth of a second."""
    import convgrad.jax as door

    def without_bias(rng: random.Random) -> Arguments:
        return {name: value for name, value in tbc_arguments(rng).items() if name != "bias"}

    return [
        Door("jax.conv_backward", door.conv_backward, conv_arguments, expected=_gradients),
        Door("jax.conv_tbc_backward", door.conv_tbc_backward, without_bias, expected=_tbc_gradients),
        Door("jax.convolution", door.convolution, forward_arguments, expected=_output),
        Door("jax.conv_tbc", door.conv_tbc, tbc_forward_arguments, expected=_tbc_output),
    ]


# ---- a call and its judgement --------------------------------------------------------------------------------------


@dataclass
class Call:
    """One call: a door, its arguments, and which of them are not the ordinary ones."""

    seed: int
    number: int
    door: Door
    arguments: Arguments
    changed: tuple[str, ...]
    before: dict[str, bytes] = field(default_factory=dict)

    def __str__(self) -> str:
        told = ", ".join(f"{name}={_told(self.arguments[name])}" for name in self.changed if name in self.arguments)
        return f"seed {self.seed} call {self.number}: {self.door.name}(..., {told or 'as it should be'})"


def _told(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return " ".join(text.split())[:100]


@cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, inspect.Parameter], ...]:
    return tuple(inspect.signature(function).parameters.items())


def make(seed: int, number: int, doors: Sequence[Door] | None = None) -> Call:
    """The call of this number, of any function or of these."""
    rng = random.Random(f"{seed}/{number}")
    door = rng.choice(doors or _WEIGHTED)
    arguments = door.ordinary(rng)
    parameters = [name for name, p in _parameters(door.function) if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    changed = tuple(rng.sample(parameters, min(len(parameters), rng.choice((0, 1, 1, 1, 1, 2, 3)))))
    original = dict(arguments)
    for name in changed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arguments[name] = any_buffers(rng, original) if name == "out" else any_tensor(rng, original.get(name))
    before = {name: value.tobytes() for name, value in original.items() if isinstance(value, np.ndarray)}
    call = Call(seed, number, door, arguments, changed, before)
    call.original = original  # type: ignore[attr-defined]
    return call


def judge(call: Call) -> str:
    """`result`, `refused`, `status` or `memory`; anything else is an AssertionError that tells the call."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _called(call)
    except MemoryError:
        return "memory"
    except ConvGradError as error:
        assert not call.door.statuses, f"{call}\n  raised instead of answering a status: {error}"
        _assert_untouched(call, refused=True)
        _assert_named(call, error)
        return "refused"
    except call.door.documented as error:
        assert _own(call, error), f"{call}\n  {type(error).__name__} out of somebody else's code: {error}"
        return "refused"
    except Exception as error:
        if type(error).__name__ == "JaxRuntimeError" and "RESOURCE_EXHAUSTED" in str(error):  # no memory
            return "memory"
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise AssertionError(
            f"{call}\n  {type(error).__name__}: {_told(error)}\n  at {last.filename}:{last.lineno}"
        ) from error
    if call.door.statuses:
        return _judged_status(call, found)
    _assert_untouched(call, refused=False)
    if call.door.expected is not None:
        _assert_as_pytorch(call, found)
    return "result"


def _called(call: Call) -> Any:
    positional = []
    named = dict(call.arguments)
    for name, p in _parameters(call.door.function):
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) or name not in named:
            break
        positional.append(named.pop(name))
    return call.door.function(*positional, **named)


def _own(call: Call, error: Exception) -> bool:
    """Whether a `raise` of this package raised it, or a kernel of the caller's, whose errors are the caller's own."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0)
    of_kernel = "author" in call.changed and "author(core)" in line
    return last.filename.startswith(PACKAGE) and ("raise" in line or of_kernel)


def _assert_untouched(call: Call, refused: bool) -> None:
    for name, value in call.original.items():  # type: ignore[attr-defined]
        output = name.startswith("grad") and name not in ("grad_output", "gradOutput")
        if isinstance(value, np.ndarray) and (refused or not output) and "out" not in call.changed:
            assert value.tobytes() == call.before[name], f"{call}\n  {name} was written"


_ALIASES = {
    "actual": "result", "golden": "reference", "name": "", "line": "", "request": "", "language": "",
    "standard": "", "opt": "", "input_gm": "input", "weight_gm": "weight", "grad_output_gm": "gradOutput",
}  # fmt: skip


def _assert_named(call: Call, error: ConvGradError) -> None:
    """A refusal has the problem line, or at least the name of the one argument that was changed."""
    if error.line or len(call.changed) != 1 or error.rule.startswith(("tiling.", "bin.")):
        return
    (name,) = call.changed
    wanted = _ALIASES.get(name, name)
    assert name in str(error) or wanted in str(error), f"{call}\n  the refusal names another argument: {error}"


def _judged_status(call: Call, found: Any) -> str:
    message = aclnn.aclGetRecentErrMsg() or ""
    assert "mistake of this library" not in message and "internal error" not in message, f"{call}\n  {message}"
    if call.door.name.endswith("aclCreateTensor"):
        assert (found is None) == bool(message), f"{call}\n  {found} with the message {message!r}"
        return "status" if found is None else "result"
    status = found[-1] if isinstance(found, tuple) else found
    assert isinstance(status, int), f"{call}\n  answered {found!r}"
    if status == 0:
        if call.door.name.endswith("GetWorkspaceSize"):
            return _judged_run(call, found)
        return "result"
    if "rt" not in call.door.name:
        setter = "Executor" in call.door.name or "Addr" in call.door.name  # whose word for a dead executor is INNER
        assert isinstance(status, Status) and (setter or status is not Status.INNER), f"{call}\n  {status!r}: {message}"
        assert message, f"{call}\n  status {status!r} without a message"
        _assert_untouched(call, refused=True)
    return "status"


def _judged_run(call: Call, found: Any) -> str:
    size, executor, _ = found
    run = aclnn.aclnnConvTbcBackward if "Tbc" in call.door.name else aclnn.aclnnConvolutionBackward
    status = run(np.empty(min(size, 1 << 20), np.uint8), size, executor, None)
    message = aclnn.aclGetRecentErrMsg() or ""
    assert status in (Status.SUCCESS, Status.RUNTIME_ERROR), f"{call}\n  phase two: {status!r}: {message}"
    return "result" if status is Status.SUCCESS else "status"


def _assert_as_pytorch(call: Call, found: Any) -> None:
    """Results equal PyTorch's in float64 wherever small integers make both exact."""
    if set(call.changed) & {"bias_sizes", "output_mask", "product", "math", "conformance", "algorithm"}:
        return
    assert call.door.expected is not None
    if not isinstance(found, tuple) and 0 in found.shape:
        return  # an empty output, which PyTorch refuses
    try:
        expected = call.door.expected(call.arguments)
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            return  # which is short here on purpose
        raise AssertionError(f"{call}\n  PyTorch refuses what was computed: {error}") from error
    if expected is None:
        return
    many = len(expected) == 3
    names = ("grad_input", "grad_weight", "grad_bias") if many else ("output",)
    for name, got, want in zip(names, found if many else [found], expected, strict=True):
        rounded_to = [got, call.arguments.get("grad_output")] if name == "grad_bias" else [got]
        short = any(isinstance(one, Tensor) or getattr(one, "itemsize", 0) == 1 for one in rounded_to)
        exact = want.abs() <= (8 if short else 256)  # whole numbers that the shortest significands hold
        same = (_values(got) == want) | ~exact
        assert same.all(), f"{call}\n  {name} differs from PyTorch's in {int((~same).sum())} elements"


# ---- campaigns -------------------------------------------------------------------------------------------------------


@contextmanager
def little_memory(spare: int = 256 << 20) -> Iterator[None]:
    """No more address space than `spare` bytes from here on: results of gigabytes are refused at once, not computed."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb", buffering=0) as statm:
        pages = int(statm.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def campaign(
    seed: int, count: int, first: int = 0, doors: Sequence[Door] | None = None, spare: int = 256 << 20
) -> tuple[Counter[str], list[str]]:
    """What came out of so many calls, by door and outcome; and the findings in words."""
    outcomes: Counter[str] = Counter()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waking another costs more than these sums
    parameters = dict(settings._parameters)
    findings: list[str] = []
    for number in range(first, first + count):
        call = make(seed, number, doors)
        try:
            with little_memory(spare):
                outcomes[f"{call.door.name} {judge(call)}"] += 1
        except Exception as finding:
            outcomes[f"{call.door.name} FINDING"] += 1
            own = isinstance(finding, AssertionError)
            findings.append(str(finding) if own else f"{call}\n  the judge itself: {traceback.format_exc()}")
    torch.set_num_threads(threads)
    aclnn.set_product(None)
    aclnn.set_conformance(None)
    settings._parameters.clear()
    settings._parameters.update(parameters)
    return outcomes, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--only", type=int, help="make this one call and show what happens")
    arguments = parser.parse_args()
    if arguments.only is not None:
        call = make(arguments.seed, arguments.only)
        print(call)
        with little_memory():
            print(judge(call))
        return 0
    outcomes, findings = campaign(arguments.seed, arguments.count, arguments.first)
    for name, count in sorted(outcomes.items()):
        print(f"{count:9} {name}")
    for finding in findings:
        print(finding)
    print(f"{arguments.count} calls from seed {arguments.seed}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
