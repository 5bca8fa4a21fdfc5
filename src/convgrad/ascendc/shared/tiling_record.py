"""What both tiling records share: their kinds of field, the fields that mean the same, and sizes that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, asdict, field, fields
from typing import Any

from convgrad.core.arguments import told

from ..device.errors import TilingError

U32, I32, U64 = "uint32", "int32", "uint64"
LIMITS = {U32: (0, 2**32 - 1), I32: (-(2**31), 2**31 - 1), U64: (0, 2**64 - 1)}

# Fields that mean the same in both records; a record declares them in the vendor's order.
SHARED_MEANINGS = {
    "batch": "batch", "cout": "channels of gradOutput",
    "dout": "planes of gradOutput", "ho": "rows of gradOutput", "wo": "columns of gradOutput",
    "dk": "window planes", "hk": "window rows", "wk": "window columns", "group": "groups",
    "strideD": "stride of planes", "strideH": "stride of rows", "strideW": "stride of columns",
    "padFront": "pad before the first plane", "padBack": "pad after the last plane",
    "padUp": "pad above the first row", "padDown": "pad below the last row",
    "padLeft": "pad left of the first column", "padRight": "pad right of the last column",
    "dilationD": "dilation of planes", "dilationH": "dilation of rows", "dilationW": "dilation of columns",
    "al0Pbuffer": "buffers in L0A", "bl0Pbuffer": "buffers in L0B", "cl0Pbuffer": "buffers in L0C",
    "al1Pbuffer": "buffers of gradOutput in L1",
    "stepM": "tiles of M in one L1 load", "stepN": "tiles of N in one L1 load",
    "stepKa": "products one L1 load of gradOutput feeds", "iterateOrder": "1: M fastest, 0: N fastest",
    "singleCoreGroup": "groups of one single shape", "singleCoreCout": "gradOutput channels of one single shape",
    "hf32Flag": "HF32 operands",
}  # fmt: skip
PROBLEM_FIELDS = (
    "batch", "cin", "cout", "dout", "ho", "wo", "di", "hi", "wi", "dk", "hk", "wk", "strideD", "strideH", "strideW",
    "dilationD", "dilationH", "dilationW", "padFront", "padBack", "padUp", "padDown", "padLeft", "padRight",
)  # fmt: skip


def tiling_field(meaning: str = "", kind: str = U32) -> Any:
    """One field of a record: what it means (left out when both records share it) and which C integer holds it."""
    return field(default=0, metadata={"meaning": meaning, "kind": kind})


def meaning_of(one: Field[Any]) -> str:
    """What a field means."""
    return str(one.metadata["meaning"]) or SHARED_MEANINGS[one.name]


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up, for any signs."""
    return -(-numerator // denominator)


def rows_of_tile(positions: int, columns: int) -> int:
    """Rows that so many consecutive positions touch at most, the bound the buffers are reserved for."""
    if positions >= columns:
        return positions // columns + (2 if positions % columns else 0)
    return 1 if columns % positions == 0 else 2


class TilingRecord:
    """The sizes, buffers and tiles of either record, and what follows from them. Vendor spellings."""

    __slots__ = ()

    batch: int
    cin: int
    cout: int
    dout: int
    ho: int
    wo: int
    di: int
    hi: int
    wi: int
    dk: int
    hk: int
    wk: int
    group: int
    strideD: int
    strideH: int
    strideW: int
    padFront: int
    padBack: int
    padUp: int
    padDown: int
    padLeft: int
    padRight: int
    dilationD: int
    dilationH: int
    dilationW: int
    al0Pbuffer: int
    bl0Pbuffer: int
    cl0Pbuffer: int
    al1Pbuffer: int
    bl1Pbuffer: int
    baseM: int
    baseK: int
    baseN: int
    stepM: int
    stepN: int
    stepKa: int
    stepKb: int
    iterateOrder: int
    hf32Flag: int

    @property
    def c0(self) -> int:
        """Channels of one block."""
        raise NotImplementedError

    @property
    def cin1(self) -> int:
        """Blocks of C0 channels in the input."""
        return ceil_div(self.cin, self.c0)

    @property
    def cout1(self) -> int:
        """Blocks of C0 channels in gradOutput."""
        return ceil_div(self.cout, self.c0)

    @property
    def element_bytes(self) -> int:
        """Bytes of one operand element."""
        return 32 // self.c0

    @property
    def window_area(self) -> int:
        """Window rows times window columns."""
        return self.hk * self.wk

    @property
    def weight_cout(self) -> int:
        """gradOutput channels as FRACTAL_Z_3D stores them: rounded up to 16."""
        return ceil_div(self.cout, 16) * 16

    @property
    def grad_output_size(self) -> int:
        """Elements of gradOutput in NDC1HWC0."""
        return self.batch * self.dout * self.cout1 * self.ho * self.wo * self.c0

    @property
    def input_size(self) -> int:
        """Elements of the input, or gradInput, in NDC1HWC0."""
        return self.batch * self.di * self.cin1 * self.hi * self.wi * self.c0

    @property
    def weight_size(self) -> int:
        """Elements of weight, or gradWeight, in FRACTAL_Z_3D."""
        return self.dk * self.cin1 * self.window_area * self.weight_cout * self.c0

    def as_dict(self) -> dict[str, int]:
        """The fields by name."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]


def record_from_dict(record_type: type[Any], given: Mapping[str, int]) -> Any:
    """A tiling record from a mapping that must hold every field, nothing else, and numbers that fit their C type."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TilingError(f"tiling must be a {record_type.__name__} or its fields by name, got {told(given)}",
                          "argument.tiling")  # fmt: skip
    kinds = {one.name: one.metadata["kind"] for one in fields(record_type)}
    missing, unknown = sorted(kinds.keys() - given.keys()), sorted(given.keys() - kinds.keys())
    if missing or unknown:
        raise TilingError(
            f"a tiling record needs exactly {len(kinds)} fields; missing {missing}, unknown {unknown}", "tiling.fields"
        )
    for name, value in given.items():
        low, high = LIMITS[kinds[name]]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise TilingError(f"{name} must be an integer in [{low}, {high}], got {told(value)}", "tiling.integer")
    return record_type(**given)


def require_same_problem(record: TilingRecord, planned: TilingRecord) -> None:
    """Raise unless a record of the user's own is for the problem it is used for."""
    differing = {
        name: (getattr(record, name), getattr(planned, name))
        for name in (*PROBLEM_FIELDS, "c0")
        if getattr(record, name) != getattr(planned, name)
    }
    if differing:
        raise TilingError(f"the tiling record is for another problem; (record, problem): {differing}", "tiling.problem")
