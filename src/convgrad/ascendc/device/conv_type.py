"""Type parameters of the tile kernels: position, layout and dtype of each operand, with the vendor's codes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from convgrad.core import rounding
from convgrad.core.arguments import told

from .errors import TilingError


class TPosition(IntEnum):
    """Logical position of an operand; the tile kernels take every operand from global memory."""

    GM = 0
    A1 = 1
    A2 = 2
    B1 = 3
    B2 = 4
    C1 = 5
    C2 = 6
    CO1 = 7
    CO2 = 8
    VECIN = 9
    VECOUT = 10
    VECCALC = 11
    LCM = 11
    SPM = 12
    SHM = 12
    TSCM = 13
    C2PIPE2GM = 14
    C2PIPE2LOCAL = 15


class ConvFormat(IntEnum):
    """Layout codes of the vendor."""

    ND = 0
    NCHW = 1
    NHWC = 2
    HWCN = 3
    DHWNC = 4
    DHWCN = 5
    NDHWC = 6
    NCDHW = 7
    NC1HWC0 = 8
    NDC1HWC0 = 9
    FRACTAL_Z_3D = 10


class ConvDtype(IntEnum):
    """Dtype codes of the vendor."""

    FLOAT16 = 0
    FLOAT32 = 1
    BF16 = 2
    INT4 = 3
    INT8 = 4
    UINT8 = 5
    INT32 = 6
    INT64 = 7
    UINT64 = 8


half = ConvDtype.FLOAT16
bfloat16_t = ConvDtype.BF16
int32_t = ConvDtype.INT32
float32_t = ConvDtype.FLOAT32

DTYPE_NAMES = {half: "float16", bfloat16_t: "bfloat16", int32_t: "int32", float32_t: "float32"}
SPELLINGS = {
    "half": half, "float16": half, "fp16": half, "bfloat16_t": bfloat16_t, "bfloat16": bfloat16_t, "bf16": bfloat16_t,
    "int32_t": int32_t, "int32": int32_t, "float": float32_t, "float32": float32_t, "fp32": float32_t,
}  # fmt: skip


def find_dtype(given: object) -> ConvDtype:
    """The `ConvDtype` of a NumPy storage type, or of a name such as "half", "bf16" or "bfloat16_t"."""
    if isinstance(given, ConvDtype):
        return given
    try:
        name = given if isinstance(given, str) else np.dtype(given).name  # type: ignore[call-overload]
        return SPELLINGS[name]
    except MemoryError:
        raise
    except Exception:  # what NumPy says of no dtype depends on what it is
        message = f"dtype must be one of half, bfloat16_t, int32_t or float32, got {told(given)}"
        raise TilingError(message, "type.dtype") from None


@dataclass(frozen=True, slots=True)
class ConvType:
    """Position, layout and dtype of one operand: `ConvType(TPosition.GM, ConvFormat.NDC1HWC0, half)`."""

    position: TPosition
    format: ConvFormat
    dtype: ConvDtype

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", TPosition(self.position))
        object.__setattr__(self, "format", ConvFormat(self.format))
        object.__setattr__(self, "dtype", find_dtype(self.dtype))

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy dtype that stores one element."""
        return np.dtype(np.int32) if self.dtype is int32_t else rounding.storage(DTYPE_NAMES[self.dtype])


@dataclass(frozen=True, slots=True)
class OperandRow:
    """What one type parameter may be."""

    role: str
    formats: tuple[ConvFormat, ...]
    dtypes: tuple[ConvDtype, ...]


SIXTEEN_BIT = (ConvDtype.FLOAT16, ConvDtype.BF16)


def check_operands(rows: tuple[OperandRow, ...], types: tuple[ConvType, ...]) -> None:
    """Raise unless every type fits its row and the 16-bit operands all share one dtype."""
    for row, given in zip(rows, types, strict=True):
        if given.position is not TPosition.GM:
            raise TilingError(f"{row.role} must be in GM, got {given.position.name}", "type.position")
        if given.format not in row.formats:
            expected = " or ".join(one.name for one in row.formats)
            raise TilingError(f"{row.role} must have layout {expected}, got {given.format.name}", "type.format")
        if given.dtype not in row.dtypes:
            expected = " or ".join(one.name for one in row.dtypes)
            raise TilingError(f"{row.role} must be {expected}, got {given.dtype.name}", "type.dtype")
    sixteen_bit = {
        row.role: given.dtype.name for row, given in zip(rows, types, strict=True) if given.dtype in SIXTEEN_BIT
    }
    if len(set(sixteen_bit.values())) > 1:
        raise TilingError(f"the 16-bit operands must share one dtype, got {sixteen_bit}", "type.same_dtype")
