"""The record of Conv3DBackpropFilter: the 52 fields of dwTiling, the three of the basic block, the L1 total."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from .input_record import I32, ceil_div, rows_of_tile, tiling_field


@dataclass(frozen=True, slots=True)
class TConv3DDwTiling:
    """What the filter kernel reads. M = cout, N = cin blocks times window, K = positions of gradOutput."""

    batch: int = tiling_field("batch")
    cin: int = tiling_field("channels of the input")
    cout: int = tiling_field("channels of gradOutput")
    cin1G: int = tiling_field("blocks of C0 channels in the input")
    cout1G: int = tiling_field("blocks of C0 channels in gradWeight, cout rounded up to 16")
    dout: int = tiling_field("planes of gradOutput")
    ho: int = tiling_field("rows of gradOutput")
    wo: int = tiling_field("columns of gradOutput")
    di: int = tiling_field("planes of the input")
    hi: int = tiling_field("rows of the input")
    wi: int = tiling_field("columns of the input")
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
    channelSize: int = tiling_field("C0: channels of one block")
    al0Pbuffer: int = tiling_field("buffers in L0A")
    bl0Pbuffer: int = tiling_field("buffers in L0B")
    cl0Pbuffer: int = tiling_field("buffers in L0C")
    al1Pbuffer: int = tiling_field("buffers of gradOutput in L1")
    bl1Pbuffer: int = tiling_field("buffers of the input in L1")
    baseM: int = tiling_field("gradOutput channels of one tile")
    baseK: int = tiling_field("positions of one product")
    baseN: int = tiling_field("columns of one tile: cin block, window row, window column, lane")
    m0: int = tiling_field("rows of one fractal")
    k0: int = tiling_field("depth of one fractal: C0")
    n0: int = tiling_field("columns of one fractal")
    stepM: int = tiling_field("tiles of M in one L1 load")
    stepN: int = tiling_field("tiles of N in one L1 load")
    stepKa: int = tiling_field("products one L1 load of gradOutput feeds")
    stepKb: int = tiling_field("products one L1 load of the input feeds")
    iterateOrder: int = tiling_field("1: M fastest, 0: N fastest")
    bl1Bound: int = tiling_field("elements of one L1 buffer of the input")
    hf32Flag: int = tiling_field("HF32 operands", I32)
    singleCoreDk: int = tiling_field("window planes of one single shape")
    singleCoreGroup: int = tiling_field("groups of one single shape")
    singleCoreCout: int = tiling_field("gradOutput channels of one single shape")
    singleCoreHo: int = tiling_field("gradOutput rows of one single shape")
    singleCoreBatch: int = tiling_field("batches of one single shape")
    singleCoreCin: int = tiling_field("input channels of one single shape")

    @property
    def c0(self) -> int:
        """Channels of one block."""
        return self.channelSize

    @property
    def window_area(self) -> int:
        """Window rows times window columns."""
        return self.hk * self.wk

    @property
    def cout1(self) -> int:
        """Blocks of C0 channels in gradOutput."""
        return ceil_div(self.cout, self.channelSize)

    @property
    def weight_cout(self) -> int:
        """gradOutput channels as FRACTAL_Z_3D stores them: rounded up to 16."""
        return ceil_div(self.cout, 16) * 16

    @property
    def input_size(self) -> int:
        """Elements of the input in NDC1HWC0."""
        return self.batch * self.di * self.cin1G * self.hi * self.wi * self.c0

    @property
    def grad_output_size(self) -> int:
        """Elements of gradOutput in NDC1HWC0."""
        return self.batch * self.dout * self.cout1 * self.ho * self.wo * self.c0

    @property
    def grad_weight_size(self) -> int:
        """Elements of gradWeight in FRACTAL_Z_3D."""
        return self.dk * self.cin1G * self.window_area * self.weight_cout * self.c0

    def input_elements_in_l1(self, k_length: int, columns: int) -> int:
        """Input elements that `k_length` positions and some columns of N touch at most."""
        rows = rows_of_tile(k_length, self.wo)
        input_rows = min(self.hi, (rows - 1) * self.strideH + (self.hk - 1) * self.dilationH + 1)
        per_block = self.window_area * self.c0
        blocks = columns // per_block if columns % per_block == 0 else columns // per_block + 2
        return input_rows * self.wi * min(blocks, self.cin1G) * self.c0

    def as_dict(self) -> dict[str, int]:
        """The 52 fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FilterBasicBlock:
    """How much of each axis one single shape takes."""

    singleCoreM: int = tiling_field("gradOutput channels of one single shape")
    singleCoreN: int = tiling_field("columns of one single shape")
    singleCoreK: int = tiling_field("positions of one single shape, whole rows")


@dataclass(frozen=True, slots=True)
class FilterParams:
    """Totals."""

    totalL1Size: int = tiling_field("L1 bytes in use")


@dataclass(slots=True)
class Conv3DBackpropFilterTilingData:
    """The outer record `GetTiling` fills."""

    params: FilterParams = field(default_factory=FilterParams)
    dwTiling: TConv3DDwTiling = field(default_factory=TConv3DDwTiling)
    basicBlockTiling: FilterBasicBlock = field(default_factory=FilterBasicBlock)
