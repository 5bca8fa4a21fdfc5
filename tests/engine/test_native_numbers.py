"""The engine's conversions against the rows: every 8- and 16-bit code, and float32 around every boundary."""

import ctypes
import struct

import numpy as np
import pytest

from convgrad.core import dtypes, rounding
from convgrad.engines import library

pytestmark = [
    pytest.mark.skipif(not library.available(), reason="the native library is not built"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),  # NaN, on purpose
]
STORED = [row for row in dtypes.ALL if row.is_tensor_dtype]


def tensor(array, dtype, cast):
    """struct cg_tensor over a one-dimensional array."""
    fields = struct.pack("=Qii5q", array.ctypes.data, dtype.engine_code, cast.engine_code, 0, 0, 0, 0, 1)
    return ctypes.create_string_buffer(fields, len(fields))


def engine_load(array, dtype, cast):
    out = np.full(array.size + 16, 77, np.float32)
    assert library.library().cg_load(ctypes.addressof(tensor(array, dtype, cast)), array.size, out.ctypes.data) == 0
    assert (out[array.size :] == 77).all(), "written behind the last element"
    return out[: array.size]


def engine_store(values, dtype, cast):
    out = np.zeros(values.size + 16, rounding.storage(dtype))
    out.view(np.uint8)[...] = 0x55
    assert library.library().cg_store(ctypes.addressof(tensor(out, dtype, cast)), values.size, values.ctypes.data) == 0
    assert (out[values.size :].view(np.uint8) == 0x55).all(), "written behind the last element"
    return out[: values.size]


def same(a, b):
    return np.array_equal(np.asarray(a, np.float64), np.asarray(b, np.float64), equal_nan=True)


def hard_floats():
    """Float32 numbers: every upper half with several lower halves, so that every tie of every short format occurs."""
    upper = np.arange(65536, dtype=np.uint32) << 16
    lowers = (0, 1, 0x7FF, 0x800, 0x801, 0xFFF, 0x1000, 0x1001, 0x1800, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
    return np.concatenate([(upper | low).view(np.float32) for low in lowers])


@pytest.mark.parametrize("dtype", [row for row in STORED if row.bits <= 16], ids=str)
def test_every_code_loads_as_its_value(dtype):
    """All 256 or 65536 codes, through vectors and scalars alike, equal the Python table."""
    codes = np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}")
    stored = codes.view(rounding.storage(dtype))
    want = rounding.decode(dtype, codes)
    assert same(engine_load(stored, dtype, dtype), want)
    for start in (1, 3, 7):  # other lanes, scalar tails
        piece = np.ascontiguousarray(stored[start : start + 9])
        assert same(engine_load(piece, dtype, dtype), want[start : start + 9])


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_results_are_rounded_once_as_the_rows_say(dtype):
    """Every float32 boundary stores as the rounding module stores it, sign of zero included."""
    values = hard_floats()
    got, want = (rounding.load(dtype, s) for s in (engine_store(values, dtype, dtype), rounding.store(dtype, values)))
    assert same(got, want)
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("cast", dtypes.ALL, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.find("float32"), dtypes.find("float16"), dtypes.find("hifloat8")], ids=str)
def test_operands_are_rounded_to_the_compute_dtype(dtype, cast):
    """Stored dtype by compute dtype: one rounding, ties as in the row, NaN and inf kept."""
    if cast.name == "float64":
        return  # operands of a float64 plan are never float32
    values = hard_floats() if dtype.bits == 32 else rounding.decode(dtype, np.arange(1 << dtype.bits))
    stored = rounding.store(dtype, values)
    with np.errstate(over="ignore"):
        want = rounding.round_to(cast, rounding.load(dtype, stored)).astype(np.float32)
    assert same(engine_load(stored, dtype, cast), want)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_scalar_rounding_starts_from_float64(dtype):
    """cg_round equals round_to on float64 numbers that float32 cannot hold."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(4000) * 2.0 ** rng.integers(-150, 140, 4000), hard_floats()[::17]])
    x = np.concatenate([x, np.nextafter(x, np.inf), [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(np.float64)
    out = np.empty_like(x)
    assert library.library().cg_round(dtype.engine_code, x.ctypes.data, out.ctypes.data, x.size) == 0
    with np.errstate(over="ignore"):
        assert same(out, rounding.round_to(dtype, x))


@pytest.mark.parametrize("cast", dtypes.ALL, ids=str)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_every_dtype_loads_and_stores_under_every_cast(dtype, cast):
    """Both ways, float64 and float16 included: rounded to the cast, then as stored; vectors and their tails."""
    rng = np.random.default_rng([dtype.engine_code, cast.engine_code])
    edge = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 1e-8, 3.4e38, -448.0, 464.0, 1e-45, 2.0**-126]
    values = np.concatenate([edge, rng.standard_normal(84) * 2.0 ** rng.integers(-30, 30, 84)]).astype(np.float32)
    stored = rounding.store(dtype, values)
    with np.errstate(over="ignore"):
        read = rounding.round_to(cast, rounding.load(dtype, stored)).astype(np.float32)
        written = rounding.store(dtype, rounding.round_to(cast, values))
    for length in (1, 3, 4, 7, 8, 15, 17, values.size):
        piece = np.ascontiguousarray(stored[-length:])
        assert same(engine_load(piece, dtype, cast), read[-length:]), length
        got = engine_store(np.ascontiguousarray(values[-length:]), dtype, cast)
        assert same(rounding.load(dtype, got), rounding.load(dtype, written[-length:])), length


def test_float64_is_read_as_the_nearest_float32():
    """Numbers between two float32 values go to the nearer one, ties to even."""
    one = np.float64(1)
    values = np.array([one + 2.0**-25, one + 2.0**-24, one + 3 * 2.0**-24, one + 2.0**-24 + 2.0**-50,
                       -(one + 2.0**-24)])
    row = dtypes.find("float64")
    assert engine_load(values, row, dtypes.find("float32")).tolist() == values.astype(np.float32).tolist()
