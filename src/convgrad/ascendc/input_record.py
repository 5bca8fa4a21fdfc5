"""The 66 fields of TConv3DBackpropInputTiling, and the shapes that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .errors import TilingError

U32, I32, U64 = "uint32", "int32", "uint64"
LIMITS = {U32: (0, 2**32 - 1), I32: (-(2**31), 2**31 - 1), U64: (0, 2**64 - 1)}


def tiling_field(meaning: str, kind: str = U32) -> Any:
    """One field of a tiling record: what it means and which C integer holds it."""
    return field(default=0, metadata={"meaning": meaning, "kind": kind})


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up, for any signs."""
    return -(-numerator // denominator)


def rows_of_tile(base_m: int, columns: int) -> int:
    """Rows that `base_m` consecutive positions touch at most, the bound the buffers are reserved for."""
    if base_m >= columns:
        return base_m // columns + (2 if base_m % columns else 0)
    return 1 if columns % base_m == 0 else 2


@dataclass(frozen=True, slots=True)
class TConv3DBackpropInputTiling:
    """What the kernel reads: sizes, then how they are cut. Vendor spellings."""

    batch: int = tiling_field("batch")
    cin: int = tiling_field("channels of gradInput")
    cout: int = tiling_field("channels of gradOutput")
    cout1: int = tiling_field("blocks of C0 channels in gradOutput")
    cin1: int = tiling_field("blocks of C0 channels in gradInput")
    cout1G: int = tiling_field("cout1 of one group")
    cin1G: int = tiling_field("cin1 of one group")
    c0: int = tiling_field("channels of one block: 32 bytes")
    c0Bits: int = tiling_field("binary logarithm of c0")
    dout: int = tiling_field("planes of gradOutput")
    ho: int = tiling_field("rows of gradOutput")
    wo: int = tiling_field("columns of gradOutput")
    di: int = tiling_field("planes of gradInput")
    hi: int = tiling_field("rows of gradInput")
    wi: int = tiling_field("columns of gradInput")
    dk: int = tiling_field("window planes")
    hk: int = tiling_field("window rows")
    wk: int = tiling_field("window columns")
    group: int = tiling_field("groups")
    strideD: int = tiling_field("stride of planes")
    strideH: int = tiling_field("stride of rows")
    strideW: int = tiling_field("stride of columns")
    padFront: int = tiling_field("pad before the first plane")
    padBack: int = tiling_field("pad after the last plane")
    padUp: int = tiling_field("pad above the first row")
    padDown: int = tiling_field("pad below the last row")
    padLeft: int = tiling_field("pad left of the first column")
    padRight: int = tiling_field("pad right of the last column")
    dilationD: int = tiling_field("dilation of planes")
    dilationH: int = tiling_field("dilation of rows")
    dilationW: int = tiling_field("dilation of columns")
    backpropPadTail: int = tiling_field("zero planes behind the expanded gradOutput")
    backpropPadUp: int = tiling_field("zero rows above the expanded gradOutput")
    backpropPadDown: int = tiling_field("zero rows below the expanded gradOutput")
    backpropPadLeft: int = tiling_field("zero columns left of the expanded gradOutput")
    backpropPadRight: int = tiling_field("zero columns right of the expanded gradOutput")
    al0Pbuffer: int = tiling_field("buffers in L0A")
    bl0Pbuffer: int = tiling_field("buffers in L0B")
    cl0Pbuffer: int = tiling_field("buffers in L0C")
    al1Pbuffer: int = tiling_field("buffers of gradOutput in L1")
    bl1Pbuffer: int = tiling_field("buffers of weight in L1")
    baseM: int = tiling_field("positions of one tile")
    baseK: int = tiling_field("K of one product")
    baseN: int = tiling_field("channels of one tile")
    baseD: int = tiling_field("planes of one tile")
    baseBatch: int = tiling_field("batches of one tile")
    baseGroup: int = tiling_field("groups of one tile")
    stepM: int = tiling_field("tiles of M in one L1 load")
    stepN: int = tiling_field("tiles of N in one L1 load")
    stepKa: int = tiling_field("products one L1 load of gradOutput feeds")
    stepKb: int = tiling_field("products one L1 load of weight feeds")
    stepBatch: int = tiling_field("batches in one L1 load")
    stepGroup: int = tiling_field("groups in one L1 load")
    iterateOrder: int = tiling_field("1: M fastest, 0: N fastest")
    singleCoreGroup: int = tiling_field("groups of one single shape")
    singleCoreCout: int = tiling_field("gradOutput channels of one single shape")
    singleCoreCout1: int = tiling_field("gradOutput channel blocks of one single shape")
    singleCoreCin1: int = tiling_field("gradInput channel blocks of one single shape")
    singleCoreDin: int = tiling_field("gradInput planes of one core")
    singleCoreHo: int = tiling_field("not read by the kernel")
    hf32Flag: int = tiling_field("HF32 operands", I32)
    initOutputFlag: int = tiling_field("1: gradInput must be zeroed before the tiles are stored", I32)
    reserved: int = tiling_field("never written", I32)
    singleCoreBatch: int = tiling_field("batches of one core", U64)
    singleCoreM: int = tiling_field("positions of one single shape, whole rows", U64)
    singleCoreCin: int = tiling_field("gradInput channels of one single shape", U64)

    # ---- shapes that follow from the fields

    @property
    def window_area(self) -> int:
        """Window rows times window columns."""
        return self.hk * self.wk

    @property
    def k_of_block(self) -> int:
        """K that one block of C0 gradOutput channels contributes in one plane: hk * wk * c0."""
        return self.window_area * self.c0

    @property
    def element_bytes(self) -> int:
        """Bytes of one operand element."""
        return 32 // self.c0

    @property
    def expanded_rows(self) -> int:
        """Rows of gradOutput with stride - 1 zero rows between neighbours."""
        return (self.ho - 1) * self.strideH + 1

    @property
    def expanded_columns(self) -> int:
        """Columns of gradOutput with stride - 1 zero columns between neighbours."""
        return (self.wo - 1) * self.strideW + 1

    @property
    def weight_cout(self) -> int:
        """gradOutput channels as FRACTAL_Z_3D stores them: rounded up to 16."""
        return ceil_div(self.cout, 16) * 16

    @property
    def grad_output_size(self) -> int:
        """Elements of gradOutput in NDC1HWC0."""
        return self.batch * self.dout * self.cout1 * self.ho * self.wo * self.c0

    @property
    def weight_size(self) -> int:
        """Elements of weight in FRACTAL_Z_3D."""
        return self.dk * self.cin1 * self.window_area * self.weight_cout * self.c0

    @property
    def grad_input_size(self) -> int:
        """Elements of gradInput in NDC1HWC0."""
        return self.batch * self.di * self.cin1 * self.hi * self.wi * self.c0

    @property
    def tile_rows(self) -> int:
        """gradInput rows one tile touches at most: the bound the buffers are reserved for."""
        return rows_of_tile(self.baseM, self.wi)

    @property
    def window_rows(self) -> int:
        """Expanded gradOutput rows one tile reads at most."""
        return self.tile_rows - 1 + (self.hk - 1) * self.dilationH + 1

    def depth_taps(self, plane: int) -> list[tuple[int, int]]:
        """The (window plane, gradOutput plane) pairs that reach a gradInput plane, window planes ascending.

        plane + padFront - kd * dilationD = do * strideD,   0 <= do < dout
        """
        pairs = []
        for kd in range(self.dk):
            reach = plane + self.padFront - kd * self.dilationD
            if reach >= 0 and reach % self.strideD == 0 and reach // self.strideD < self.dout:
                pairs.append((kd, reach // self.strideD))
        return pairs

    def as_dict(self) -> dict[str, int]:
        """The 66 fields by name."""
        return asdict(self)


@dataclass(slots=True)
class Conv3DBackpropInputTilingData:
    """The outer record `GetTiling` fills; the kernel's `Init` takes its one member."""

    conv3DDxTiling: TConv3DBackpropInputTiling = field(default_factory=TConv3DBackpropInputTiling)


def record_from_dict(record_type: type[Any], given: Mapping[str, int]) -> Any:
    """A tiling record from a mapping that must hold every field, nothing else, and numbers that fit their C type."""
    kinds = {one.name: one.metadata["kind"] for one in fields(record_type)}
    missing, unknown = sorted(kinds.keys() - given.keys()), sorted(given.keys() - kinds.keys())
    if missing or unknown:
        raise TilingError(
            f"a tiling record needs exactly {len(kinds)} fields; missing {missing}, unknown {unknown}", "tiling.fields"
        )
    for name, value in given.items():
        low, high = LIMITS[kinds[name]]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise TilingError(f"{name} must be an integer in [{low}, {high}], got {value!r}", "tiling.integer")
    return record_type(**given)
