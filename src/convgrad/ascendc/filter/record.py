"""The record of Conv3DBackpropFilter: the 52 fields of dwTiling, the three of the basic block, the L1 total."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..shared.tiling_record import U64, TilingRecord, ceil_div, rows_of_tile, tiling_field


@dataclass(frozen=True, slots=True)
class TConv3DBpFilterTiling(TilingRecord):
    """What the filter kernel reads. M = cout, N = cin blocks times window, K = positions of gradOutput."""

    batch: int = tiling_field()
    cin: int = tiling_field("channels of the input")
    cout: int = tiling_field()
    cin1G: int = tiling_field("blocks of C0 channels in the input")
    cout1G: int = tiling_field("blocks of C0 channels in gradWeight, cout rounded up to 16")
    dout: int = tiling_field()
    ho: int = tiling_field()
    wo: int = tiling_field()
    di: int = tiling_field("planes of the input")
    hi: int = tiling_field("rows of the input")
    wi: int = tiling_field("columns of the input")
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
    dilationD: int = tiling_field()
    dilationH: int = tiling_field()
    dilationW: int = tiling_field()
    channelSize: int = tiling_field("C0: channels of one block")
    al0Pbuffer: int = tiling_field()
    bl0Pbuffer: int = tiling_field()
    cl0Pbuffer: int = tiling_field()
    al1Pbuffer: int = tiling_field()
    bl1Pbuffer: int = tiling_field("buffers of the input in L1")
    baseM: int = tiling_field("gradOutput channels of one tile")
    baseK: int = tiling_field("positions of one product")
    baseN: int = tiling_field("columns of one tile: cin block, window row, window column, lane")
    m0: int = tiling_field("rows of one fractal")
    k0: int = tiling_field("depth of one fractal: C0")
    n0: int = tiling_field("columns of one fractal")
    stepM: int = tiling_field()
    stepN: int = tiling_field()
    stepKa: int = tiling_field()
    stepKb: int = tiling_field("products one L1 load of the input feeds")
    iterateOrder: int = tiling_field()
    bl1Bound: int = tiling_field("elements of one L1 buffer of the input")
    hf32Flag: int = tiling_field()
    singleCoreDk: int = tiling_field("window planes of one single shape")
    singleCoreGroup: int = tiling_field()
    singleCoreCout: int = tiling_field()
    singleCoreHo: int = tiling_field("gradOutput rows of one single shape")
    singleCoreBatch: int = tiling_field("batches of one single shape", U64)
    singleCoreCin: int = tiling_field("input channels of one single shape", U64)

    @property
    def c0(self) -> int:
        """Channels of one block."""
        return self.channelSize

    @property
    def grad_weight_size(self) -> int:
        """Elements of gradWeight in FRACTAL_Z_3D."""
        return self.weight_size

    def input_plane(self, plane: int, window_plane: int) -> int | None:
        """The input plane that a window plane shows a gradOutput plane; None outside the input.

        din = plane * strideD - padFront + kd * dilationD
        """
        din = plane * self.strideD - self.padFront + window_plane * self.dilationD
        return din if 0 <= din < self.di else None

    def planes_met(self, window_plane: int) -> range:
        """The gradOutput planes that a window plane shows a plane of the input: 0 <= din < di."""
        reach = self.padFront - window_plane * self.dilationD
        return range(max(0, ceil_div(reach, self.strideD)), min(self.dout, (self.di - 1 + reach) // self.strideD + 1))

    def cin_blocks(self, first_column: int, columns: int) -> int:
        """Blocks of input channels that some columns of N touch."""
        per_block = self.window_area * self.c0
        return (first_column + columns - 1) // per_block - first_column // per_block + 1

    def input_elements_in_l1(self, k_length: int, columns: int) -> int:
        """Input elements that `k_length` positions and some columns of N touch at most."""
        rows = rows_of_tile(k_length, self.wo)
        input_rows = min(self.hi, (rows - 1) * self.strideH + (self.hk - 1) * self.dilationH + 1)
        per_block = self.window_area * self.c0
        blocks = columns // per_block if columns % per_block == 0 else columns // per_block + 2
        return input_rows * self.wi * min(blocks, self.cin1G) * self.c0


TConv3DDwTiling = TConv3DBpFilterTiling  # the name operators give the same record


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
    dwTiling: TConv3DBpFilterTiling = field(default_factory=TConv3DBpFilterTiling)
    basicBlockTiling: FilterBasicBlock = field(default_factory=FilterBasicBlock)
