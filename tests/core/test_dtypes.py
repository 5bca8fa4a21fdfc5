"""The rows of number formats agree with NumPy, ml_dtypes and the engine's header; words find their row."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from convgrad.core import dtypes
from convgrad.core.dtypes import Dtype, Overflow, Ties

HEADER = Path(__file__).resolve().parents[2] / "native" / "include" / "convgrad.h"


def test_names_and_words_are_the_agreed_ones() -> None:
    """Names, and the words of problem lines, are exactly the public ones, in order."""
    names = "float64 float32 hf32 hf32_10 float16 bfloat16 float8_e4m3fn float8_e5m2 hifloat8"
    assert [row.name for row in dtypes.ALL] == names.split()
    words = "fp64 fp32 hf32 hf32_10 fp16 bf16 fp8_e4m3fn fp8_e5m2 hif8"
    assert [row.word for row in dtypes.ALL] == words.split()


def test_every_spelling_finds_its_own_row() -> None:
    """No spelling belongs to two rows, and each is found in any case and behind every prefix."""
    spelt = [(word, row) for row in dtypes.ALL for word in {row.name, row.word, *row.aliases}]
    assert len({word for word, _ in spelt}) == len(spelt)
    for word, row in spelt:
        for spelling in (
            word,
            word.upper(),
            f" {word} ",
            f"torch.{word}",
            f"ACL_{word.upper()}",
            f"DT_{word}",
        ):
            assert dtypes.find(spelling) is row


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("float", "float32"), ("double", "float64"), ("half", "float16"), ("torch.half", "float16"),
        ("BF16", "bfloat16"), ("ACL_BF16", "bfloat16"), ("HIFLOAT8", "hifloat8"), ("DT_HIFLOAT8", "hifloat8"),
        ("FLOAT8_E4M3FN", "float8_e4m3fn"), ("ACL_FLOAT8_E5M2", "float8_e5m2"), ("DT_FLOAT", "float32"),
    ],
)  # fmt: skip
def test_spellings_of_other_libraries(spelling: str, name: str) -> None:
    """What PyTorch and the vendor's headers write is understood."""
    assert dtypes.find(spelling).name == name


def test_a_row_is_its_own_spelling() -> None:
    """Functions that take a spelling also take the row itself."""
    assert all(dtypes.find(row) is row for row in dtypes.ALL)


@pytest.mark.parametrize("spelling", ["int8", "", "torch.", "float128", "complex64", "f"])
def test_unknown_spelling_is_refused_with_the_known_names(spelling: str) -> None:
    """The error names what was asked and what there is."""
    with pytest.raises(ValueError, match=re.escape(repr(spelling))) as caught:
        dtypes.find(spelling)
    assert all(row.name in str(caught.value) for row in dtypes.ALL)


def test_acl_codes() -> None:
    """Tensor dtypes carry their aclDataType and are found by it; hf32 is no tensor dtype."""
    codes = {row.name: row.acl_code for row in dtypes.ALL}
    assert codes == {
        "float64": 11, "float32": 0, "hf32": None, "hf32_10": None, "float16": 1, "bfloat16": 27,
        "float8_e4m3fn": 36, "float8_e5m2": 35, "hifloat8": 34,
    }  # fmt: skip
    for row in dtypes.ALL:
        assert row.is_tensor_dtype == (not row.name.startswith("hf32"))
        if row.acl_code is not None:
            assert dtypes.from_acl(row.acl_code) is row
    with pytest.raises(ValueError, match="aclDataType 3 "):
        dtypes.from_acl(3)


def test_engine_codes_are_those_of_the_header() -> None:
    """Each row's engine code is the value of its name in enum cg_dtype."""
    enum = HEADER.read_text(encoding="utf-8").split("enum cg_dtype {")[1].split("}")[0]
    header = {name: int(value) for name, value in re.findall(r"CG_(\w+) = (\d+)", enum)}
    spelt = {"hf32": "HF32_11", "hf32_10": "HF32_10"}
    assert header == {spelt.get(row.name, row.name.upper()): row.engine_code for row in dtypes.ALL}


@pytest.mark.parametrize("row", [row for row in dtypes.ALL if row.name == row.storage], ids=str)
def test_rows_agree_with_finfo(row: Dtype) -> None:
    """Largest and smallest value, precision and width equal what NumPy and ml_dtypes publish."""
    info = ml_dtypes.finfo(getattr(ml_dtypes, row.storage, row.storage))
    assert (row.bits, row.bytes) == (info.bits, info.bits // 8)
    assert row.max_finite == float(info.max)
    assert row.smallest == float(info.smallest_subnormal)
    assert row.eps == float(info.eps)
    assert 2.0**row.min_exponent == float(info.tiny)
    assert row.significant_bits == info.nmant + 1
    assert row.max_exponent == int(np.frexp(np.float64(info.max))[1]) - 1


def test_derived_values_of_the_formats_numpy_lacks() -> None:
    """hf32 keeps 11 or 10 fraction bits of a float32; hifloat8 loses precision as |exponent| grows."""
    wide, narrow, tapered = dtypes.find("hf32"), dtypes.find("hf32_10"), dtypes.find("hif8")
    assert (wide.eps, narrow.eps) == (2.0**-11, 2.0**-10)
    assert (wide.smallest, narrow.smallest) == (2.0**-137, 2.0**-136)
    assert (wide.max_finite, narrow.max_finite) == ((2 - 2.0**-11) * 2.0**127, (2 - 2.0**-10) * 2.0**127)
    assert [tapered.fraction_bits(e) for e in (0, -3, 4, 7, -8, 15, -16, -22)] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert (tapered.smallest, tapered.max_exponent, tapered.significant_bits) == (2.0**-22, 15, 4)
    assert [row.name for row in dtypes.ALL if row.is_tapered] == ["hifloat8"]


def test_defaults_of_a_cast() -> None:
    """Ties go to even except for hf32 and hifloat8; only e4m3fn lacks infinities."""
    away = {row.name for row in dtypes.ALL if row.ties is Ties.AWAY}
    assert away == {"hf32", "hf32_10", "hifloat8"}
    assert {row.name for row in dtypes.ALL if row.overflow is not Overflow.INF} == {"float8_e4m3fn"}
    assert [row.name for row in dtypes.ALL if not row.has_infinities] == ["float8_e4m3fn"]
