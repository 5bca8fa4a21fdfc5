"""The C library gives the same bytes as the Python package: every dtype, product, layout and kind of view."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_uint64, c_void_p
from dataclasses import replace

import numpy as np
import pytest

from acl_library import DeviceArray, bool_array, int_arrays, library
from convgrad import aclnn, engines
from convgrad.core import dtypes, products, rounding
from convgrad.core.request import CONFORMANCES, MATH_NAMES, Operator, Request, TensorSpec
from convgrad.core.tensor import Tensor
from convgrad.rules.check import check

# Each line says what it is there for.
LINES = """
conv n2 c3>4 i9 k3 s2 p1 d1 g1 fp32 on=A2 | 1-D
conv n2 c4>6 i9x8 k3x2 s2x1 p1x0 d1x2 g2 fp32 on=A2 | 2-D, groups, dilation
conv n2 c4>6 i9x8 k3x3 p1x0x2x1 fp32 on=A2 | four paddings
conv n1 c3>5 i6x7x8 k3x2x3 s1x2x1 p1x0x1 fp32 on=A3 | 3-D
conv n2 c8>8 i12x11 k3x3 p1 g8 fp32 on=A2 | depthwise
conv n3 c16>24 i14x14 k3x3 p1 fp32 on=A2 | large enough for the fast paths
conv n3 c16>24 i14x14 k1x1 fp16 on=A2 | float16, window 1
conv n2 c16>24 i14x14 k3x3 p1 bf16 on=A2 | bfloat16
conv n2 c16>24 i14x14 k3x3 p1 fp32 math=hf32 on=A2 | HF32 with 11 bits
conv n2 c16>24 i14x14 k3x3 p1 fp32 math=allow_down on=950 | HF32 with 10 bits
conv n2 c16>24 i14x14 k3x3 p1 fp32 math=fp16 on=A2 | float32 on float16 operands
conv n2 c6>8 i10x10 k3x3 p1 fp32 math=allow_down on=910 | the older product
conv n2 c6>8 i10x10 k3x3 p1 bf16 math=fp16 on=A2 as=runtime | bfloat16 on float16 operands
tconv n2 c6>4 i9x8 k3x2 s2x1 p1x0 op1x0 g2 fp32 on=A2 | transposed, groups, output padding
tconv n1 c4>3 i5x6x4 k2x3x2 s2 p0x1x0 fp32 on=950 | transposed 3-D
tconv n2 c6>4 i8x8 k3x3 s2 hif8 want=x gw=null gb=null on=950 | HIFLOAT8
tconv n2 c6>4 i8x8 k3x3 s2 fp8_e4m3fn want=x gw=null gb=null on=950 | FLOAT8_E4M3FN
conv n2 c4>6 i9x8 k3x2 want=w fp32 on=A2 | one gradient
conv n2 c4>6 i9x8 k3x2 want=b fp32 on=A2 | the bias alone
conv n2 c4>6 i9x8 k3x2 fp32 gx=/fp16 gw=/bf16 on=A2 as=runtime | results in other dtypes
conv n2 c4>6 i9x8 k3x2 go=/fp16 w=/bf16 fp32 on=A2 as=runtime | mixed operands
conv n0 c4>6 i9x8 k3x2 fp32 on=A2 | empty batch
conv n2 c0>6 i9x8 k3x2 s2 p1 fp16 on=A2 | no input channels: a bias sum
tconv n2 c4>6 i5x5 k0x1 o4x5 g2 want=wb fp32 on=A2 as=runtime | an empty weight, transposed: a bias sum
conv n2 c4>6 i5x4x5 k1x0x1 o5x5x5 want=b fp32 on=cpu | an empty weight, 3-D
conv n0 c4>6 i9x8 k3x2 go=5x6x3x3 fp32 on=A2 as=runtime | a batch of its own: zeros
conv n2 c3>4 i9x9 k3x3 fp64 on=cpu | float64
conv n2 c3>4 i9x9 k3x3 fp8_e5m2 on=cpu | FLOAT8_E5M2
conv n2 c256>256 i7x10 k3x3 p1x0 fp32 on=950 as=runtime | the 950's Winograd, odd sizes
conv n1 c1024>64 i1x6x6 k1x3x3 p0x1x1 fp32 want=w on=950 as=runtime | Winograd in 3-D, the weight alone
tconv n1 c128>512 i8x8 k3x3 p2 fp32 want=wb on=950 as=runtime | Winograd of a transposed call
conv n1 c256>256 i70x76 k3x3 p3 fp32 want=xw on=950 as=runtime | Winograd in bands
tbc n3 c8>12 i20 k3 p1 fp32 on=A2 | TBC
tbc n3 c8>12 i20 k5 p2 fp16 on=910 | TBC float16
tbc n3 c8>12 i20 k5 p2 bf16 on=950 | TBC bfloat16
tbc n3 c2>4 i0 k1 p2 fp32 on=A2 | TBC without input: zeros and a bias sum
""".strip().splitlines()
PROBLEMS = [line.split(" | ")[0] for line in LINES]


def codes(spec: TensorSpec, rng: np.random.Generator, view: str) -> np.ndarray:
    """Random values as stored codes; a strided view lies reversed and spread out in a larger array."""
    row = dtypes.find(spec.dtype)
    shape = spec.shape if view == "contiguous" else tuple(2 * n + 1 for n in spec.shape)
    stored = rounding.store(row, rounding.round_to(row, rng.standard_normal(shape) * 2))
    bits = np.array(stored).view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[stored.dtype.itemsize])
    if view == "contiguous":
        return bits
    return bits[tuple(slice(1, 2 * n + 1, 2) if i % 2 else slice(2 * n, 0, -2) for i, n in enumerate(spec.shape))]


def python_tensor(bits: np.ndarray, spec: TensorSpec) -> Tensor:
    storage = rounding.storage(dtypes.find(spec.dtype))
    return Tensor(bits.view(storage) if bits.dtype != storage else bits, spec.dtype, spec.format)


def run_in_c(r: Request, tensors: dict[str, DeviceArray | None]) -> int:
    """Both phases through the C library; the status."""
    lib = library()
    size, executor = c_uint64(), c_void_p()
    handle = {name: None if t is None else t.tensor for name, t in tensors.items()}
    inputs = (handle["grad_output"], handle["input"], handle["weight"])
    outputs = (handle["grad_input"], handle["grad_weight"], handle["grad_bias"])
    tail = (ctypes.byref(size), ctypes.byref(executor))
    if r.operator is Operator.TBC:
        status = lib.aclnnConvTbcBackwardGetWorkspaceSize(*inputs, handle["bias"], r.pad, r.math, *outputs, *tail)
        return status or lib.aclnnConvTbcBackward(None, 0, executor, None)
    lists = (r.bias_sizes or (), r.stride or (), r.padding or (), r.dilation or (), r.output_padding or ())
    with int_arrays(*lists) as arrays, bool_array(r.output_mask or ()) as mask:  # type: ignore[arg-type]
        bias_sizes, stride, padding, dilation, output_padding = arrays
        status = lib.aclnnConvolutionBackwardGetWorkspaceSize(
            *inputs, bias_sizes, stride, padding, dilation, r.transposed, output_padding, r.groups, mask, r.math,
            *outputs, *tail,
        )  # fmt: skip
    return status or lib.aclnnConvolutionBackward(None, 0, executor, None)


def run_in_python(r: Request, tensors: dict[str, Tensor | None]) -> int:
    aclnn.set_product(r.product)
    aclnn.set_conformance(r.conformance)
    try:
        t = tensors
        outputs = (t["grad_input"], t["grad_weight"], t["grad_bias"])
        if r.operator is Operator.TBC:
            size, executor, status = aclnn.aclnnConvTbcBackwardGetWorkspaceSize(
                t["grad_output"], t["input"], t["weight"], t["bias"], r.pad, r.math, *outputs
            )
            return status or aclnn.aclnnConvTbcBackward(b"", size, executor, None)
        size, executor, status = aclnn.aclnnConvolutionBackwardGetWorkspaceSize(
            t["grad_output"], t["input"], t["weight"], r.bias_sizes, r.stride, r.padding, r.dilation, r.transposed,
            r.output_padding, r.groups, r.output_mask, r.math, *outputs,
        )  # fmt: skip
        return status or aclnn.aclnnConvolutionBackward(b"", size, executor, None)
    finally:
        aclnn.set_product(None)
        aclnn.set_conformance(None)


@pytest.mark.parametrize("view", ["contiguous", "strided"])
@pytest.mark.parametrize("line", PROBLEMS)
def test_same_bytes_as_the_python_package(line: str, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random data, whole storages compared: results are equal bit for bit, and nothing beside them is written."""
    assert_same_bytes(Request.parse(line), line, view, monkeypatch)


LEVEL_3 = ["conv n9 c6>8 i12x11 k3x3 p1 g2 fp32 on=A2", "conv n5 c256>256 i7x10 k3x3 p1x0 fp32 on=950 as=runtime"]


@pytest.mark.parametrize("view", ["contiguous", "strided"])
@pytest.mark.parametrize("line", PROBLEMS + LEVEL_3)
def test_the_tree_of_level_3_in_both_languages(line: str, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's level at phase 1 decides in both: the tree over samples, bit for bit."""
    assert_same_bytes(Request.parse(f"{line} det=3"), line, view, monkeypatch)


@pytest.mark.parametrize("line", LEVEL_3)
def test_level_3_is_another_sum(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What levels 0 to 2 have in common, level 3 has not: weight gradients in C differ from theirs."""
    found = [assert_same_bytes(Request.parse(f"{line} det={n}"), line, "contiguous", monkeypatch) for n in range(4)]
    assert found[0] == found[1] == found[2]
    assert found[3]["grad_input"] == found[0]["grad_input"] and found[3]["grad_weight"] != found[0]["grad_weight"]


HAVE_IT = [key for key in products.KEYS if check(Request.parse(f"conv n2 c4>6 i9 k3 p1 fp16 on={key}")).ok]


@pytest.mark.parametrize("product", HAVE_IT)
def test_same_bytes_on_every_product_under_every_math(product: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product's own compute dtype for each math and dtype: a row of another product has other bits or a status."""
    met = 0
    for dtype, math, shape in itertools.product(("fp32", "fp16", "bf16"), MATH_NAMES, ("i7x6 k3x2 p1x0", "i9 k3 p1")):
        for words, conformance in itertools.product(("conv n2 c4>6", "tconv n2 c4>6"), CONFORMANCES):
            line = f"{words} {shape} {dtype} math={math} on={product}"
            request = replace(Request.parse(line), conformance=conformance)
            if check(request).ok:
                assert_same_bytes(request, line, "contiguous", monkeypatch)
                met += 1
    assert met > 10


NEAR_WINOGRAD = """
conv n1 c256>256 i8x8 k3x3 p1 fp16 want=w | no float32
conv n1 c256>256 i8x8 k3x3 p1 fp32 math=hf32 want=w | HF32
conv n1 c256>256 i8x8 k3x3 p1 fp32 math=fp16 want=w | float16 operands
conv n1 c256>256 i2x8x8 k1x3x3 p0x1x1 fp32 want=w | depth
conv n1 c256>256 i8x8 k3x3 p1 s1x2 fp32 want=w | stride
conv n1 c256>256 i8x8 k3x3 p1 d2x1 fp32 want=w | dilation
conv n1 c512>512 i8x8 k3x3 p1 g2 fp32 want=w | groups
conv n1 c256>256 i8x8 k3x3 p1x1x1x2 fp32 want=w | uneven padding
conv n1 c256>256 i8x8 k3x2 p1 fp32 want=w | window
conv n1 c256>256 i44x44 k3x3 p8 fp32 want=w | padding of 8
conv n1 c256>256 i44x44 k3x3 p8x9 fp32 want=w | padding of 9
conv n1 c256>255 i8x8 k3x3 p1 fp32 want=w | 12 blocks
conv n1 c64>1023 i8x8 k3x3 p1 fp32 want=w | 15 blocks
conv n1 c256>256 i3x3 k3x3 p0 fp32 want=w | a window over the input: matmul
conv n1 c256>256 i3x4 k3x3 p0 fp32 want=w | one column more
tconv n1 c256>256 i1x1 k3x3 p0 fp32 want=w | the same window, transposed
conv n1 c256>256 i2x8 k3x3 p1x0 fp32 want=w | input below 3
conv n1 c256>256 i6x5 k3x3 p1 fp32 want=w | less than half of the tiles
conv n1 c256>256 i7x7 k3x3 p1 fp32 want=w | more than half
""".strip().splitlines()


@pytest.mark.parametrize("line", [line.split(" | ")[0] for line in NEAR_WINOGRAD])
def test_the_950_goes_the_same_way_in_both_languages(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls on either side of every condition, under runtime: other sums would be other bits."""
    assert_same_bytes(Request.parse(f"{line} on=950 as=runtime"), line, "contiguous", monkeypatch)


def test_winograd_starts_again_after_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """33,489 tiles are more than one segment: bands and the two sums' taps are added in the same order."""
    few = np.random.default_rng(1).standard_normal(99_991)
    monkeypatch.setattr(__name__ + ".codes", lambda spec, rng, view: np.resize(few.astype("f4"), spec.shape).view("u4"))
    line = "conv n9 c256>256 i122x122 k3x3 p1 fp32 want=w on=950 as=runtime"
    assert_same_bytes(Request.parse(line), line, "contiguous", monkeypatch)


def assert_same_bytes(
    request: Request, line: str, view: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    """The results, which are those of both."""
    monkeypatch.setenv("CONVGRAD_PRODUCT", request.product)
    monkeypatch.setenv("CONVGRAD_CONFORMANCE", request.conformance)
    assert engines.chosen() == "native"
    library().aclFinalize()
    assert library().aclInit(None) == 0
    rng = np.random.default_rng(list(line.encode()))
    names = ("grad_output", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias")
    specs: dict[str, TensorSpec | None] = {name: getattr(request, name) for name in names}
    bits = {name: None if spec is None else codes(spec, rng, view) for name, spec in specs.items()}
    device = {
        name: None if spec is None else DeviceArray(bits[name], spec.dtype, spec.format) for name, spec in specs.items()
    }
    arrays = {name: None if spec is None else python_tensor(bits[name], spec) for name, spec in specs.items()}
    message = b""
    for set_level in (library().aclrtCtxSetSysParamOpt, aclnn.aclrtSetSysParamOpt):
        assert set_level(aclnn.ACL_OPT_DETERMINISTIC, request.deterministic) == 0
    try:
        status = run_in_c(request, device)
        if status:
            message = library().aclGetRecentErrMsg()
        assert status == 0, message
        assert run_in_python(request, arrays) == 0
    finally:
        for set_level in (library().aclrtSetSysParamOpt, aclnn.aclrtCtxSetSysParamOpt):
            assert set_level(aclnn.ACL_OPT_DETERMINISTIC, 0) == 0
    found: dict[str, bytes] = {}
    for name, spec in specs.items():
        if spec is not None:
            base = bits[name] if bits[name].base is None else bits[name].base
            read = device[name].read()
            assert np.array_equal(read, np.ascontiguousarray(base).view(np.uint8).reshape(-1)), name
            found[name] = read.tobytes()
            device[name].close()
    return found
