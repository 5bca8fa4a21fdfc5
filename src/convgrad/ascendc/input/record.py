"""The 66 fields of TConv3DBackpropInputTiling, and the shapes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..shared.tiling_record import I32, U64, TilingRecord, rows_of_tile, tiling_field


@dataclass(frozen=True, slots=True)
class TConv3DBackpropInputTiling(TilingRecord):
    """What the kernel reads: sizes, then how they are cut. Vendor spellings."""

    batch: int = tiling_field()
    cin: int = tiling_field("channels of gradInput")
    cout: int = tiling_field()
    cout1: int = tiling_field("blocks of C0 channels in gradOutput")
    cin1: int = tiling_field("blocks of C0 channels in gradInput")
    cout1G: int = tiling_field("cout1 of one group")
    cin1G: int = tiling_field("cin1 of one group")
    c0: int = tiling_field("channels of one block: 32 bytes")
    c0Bits: int = tiling_field("binary logarithm of c0")
    dout: int = tiling_field()
    ho: int = tiling_field()
    wo: int = tiling_field()
    di: int = tiling_field("planes of gradInput")
    hi: int = tiling_field("rows of gradInput")
    wi: int = tiling_field("columns of gradInput")
    dk: int = tiling_field()
    hk: int = tiling_field()
    wk: int = tiling_field()
    group: int = tiling_field()
    strideD: int = tiling_field()
    strideH: int = tiling_field()
    strideW: int = tiling_field()
    padFront: int = tiling_field()
    padBack: int = tiling_field()
    padUp: int = tiling_field()
    padDown: int = tiling_field()
    padLeft: int = tiling_field()
    padRight: int = tiling_field()
    backpropPadTail: int = tiling_field("zero planes behind the expanded gradOutput")
    backpropPadUp: int = tiling_field("zero rows above the expanded gradOutput")
    backpropPadDown: int = tiling_field("zero rows below the expanded gradOutput")
    backpropPadLeft: int = tiling_field("zero columns left of the expanded gradOutput")
    backpropPadRight: int = tiling_field("zero columns right of the expanded gradOutput")
    dilationD: int = tiling_field()
    dilationH: int = tiling_field()
    dilationW: int = tiling_field()
    al0Pbuffer: int = tiling_field()
    bl0Pbuffer: int = tiling_field()
    cl0Pbuffer: int = tiling_field()
    al1Pbuffer: int = tiling_field()
    bl1Pbuffer: int = tiling_field("buffers of weight in L1")
    singleCoreGroup: int = tiling_field()
    singleCoreCout: int = tiling_field()
    singleCoreCout1: int = tiling_field("gradOutput channel blocks of one single shape")
    singleCoreCin1: int = tiling_field("gradInput channel blocks of one single shape")
    singleCoreDin: int = tiling_field("gradInput planes of one core")
    singleCoreHo: int = tiling_field("not read by the kernel")
    baseM: int = tiling_field("positions of one tile")
    baseK: int = tiling_field("K of one product")
    baseN: int = tiling_field("channels of one tile")
    baseD: int = tiling_field("planes of one tile")
    baseBatch: int = tiling_field("batches of one tile")
    baseGroup: int = tiling_field("groups of one tile")
    stepM: int = tiling_field()
    stepN: int = tiling_field()
    stepKa: int = tiling_field()
    stepKb: int = tiling_field("products one L1 load of weight feeds")
    stepBatch: int = tiling_field("batches in one L1 load")
    stepGroup: int = tiling_field("groups in one L1 load")
    iterateOrder: int = tiling_field()
    hf32Flag: int = tiling_field(kind=I32)
    initOutputFlag: int = tiling_field("1: gradInput must be zeroed before the tiles are stored", I32)
    reserved: int = tiling_field("never written", I32)
    singleCoreBatch: int = tiling_field("batches of one core", U64)
    singleCoreM: int = tiling_field("positions of one single shape, whole rows", U64)
    singleCoreCin: int = tiling_field("gradInput channels of one single shape", U64)

    # ---- shapes that follow from the fields

    @property
    def k_of_block(self) -> int:
        """K that one block of C0 gradOutput channels contributes in one plane: hk * wk * c0."""
        return self.window_area * self.c0

    @property
    def expanded_rows(self) -> int:
        """Rows of gradOutput with stride - 1 zero rows between neighbours."""
        return (self.ho - 1) * self.strideH + 1

    @property
    def expanded_columns(self) -> int:
        """Columns of gradOutput with stride - 1 zero columns between neighbours."""
        return (self.wo - 1) * self.strideW + 1

    @property
    def grad_input_size(self) -> int:
        """Elements of gradInput in NDC1HWC0."""
        return self.input_size

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


@dataclass(slots=True)
class Conv3DBackpropInputTilingData:
    """The outer record `GetTiling` fills; the kernel's `Init` takes its one member."""

    conv3DDxTiling: TConv3DBackpropInputTiling = field(default_factory=TConv3DBackpropInputTiling)
