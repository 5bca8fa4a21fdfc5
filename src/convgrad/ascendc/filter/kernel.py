"""Conv3DBackpropFilter: gradWeight tile by tile, float32 in FRACTAL_Z_3D, added to what memory holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..device.call_order import State
from ..device.conv_type import SIXTEEN_BIT, ConvDtype, ConvFormat, ConvType, OperandRow
from ..device.cube import multiply_in_chunks
from ..device.errors import TileKernelError, TilingError
from ..device.global_tensor import GlobalTensor
from ..device.platform import PlatformInfo
from ..shared.pointers import Mistake
from ..shared.tile_object import TileObject
from ..shared.tile_store import store_runs
from .checks import check_filter_record, filter_mistakes
from .math import Matrix, grad_output_matrix, input_matrix, weight_runs
from .record import TConv3DBpFilterTiling
from .staged import StagedFilterCube
from .walk import FilterShape, FilterTile, filter_shape, filter_tiles_in_order

FILTER_OPERANDS = (
    OperandRow("input", (ConvFormat.NDC1HWC0,), SIXTEEN_BIT),
    OperandRow("weightSize", (ConvFormat.ND,), (ConvDtype.INT32,)),
    OperandRow("gradOutput", (ConvFormat.NDC1HWC0,), SIXTEEN_BIT),
    OperandRow("gradWeight", (ConvFormat.FRACTAL_Z_3D,), (ConvDtype.FLOAT32,)),
)

GATHER_POSITIONS = 4096  # positions gathered at once in the fast mode, to bound memory


@dataclass(frozen=True, slots=True)
class PartOfSum:
    """What one GetTensorC adds to gradWeight: which gradOutput rows, and where it goes."""

    tile: FilterTile
    grad_output_offset: int
    rows: range
    output: GlobalTensor


class Conv3DBackpropFilter(TileObject[TConv3DBpFilterTiling, FilterTile]):
    """gradWeight of a 3-D convolution for one batch, one gradOutput plane and one window plane per walk.

    staged    load every stepKa and stepKb chunks through L1 and L0 and count the loads, instead of gathering once
    report    take refusals of order and address one by one instead of raising the first (for checkers)
    dry       check and mark addresses, compute nothing
    taken     told of every tile that GetTensorC takes in its place, after it was stored (for checkers)
    """

    record_type = TConv3DBpFilterTiling

    def __init__(
        self, input: ConvType, weightSize: ConvType, gradOutput: ConvType, gradWeight: ConvType, *,
        staged: bool = False, dry: bool = False, platform: PlatformInfo | None = None,
        report: Callable[[TileKernelError], None] | None = None, taken: Callable[[PartOfSum], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(FILTER_OPERANDS, (input, weightSize, gradOutput, gradWeight), platform, dry, report)
        self._cube = StagedFilterCube() if staged else None
        self._told = taken
        self._shape: FilterShape | None = None
        self._ho_start: int | None = None
        self._planes = 1  # window planes that N may run on into: only in the older spelling, which has no Python form
        self._input: GlobalTensor | None = None
        self._tiles: list[FilterTile] = []
        self._next = 0
        self._gathered: dict[tuple[int, int], Matrix] = {}  # columns of the current j, as L1 would keep them

    @property
    def cube(self) -> StagedFilterCube | None:
        """Counters of the staged mode."""
        return self._cube

    # ---- the documented calls

    def SetSingleShape(self, singleShapeM: int, singleShapeN: int, singleShapeK: int) -> None:
        """Channels, columns and positions of the next walk. Note the order: M, N, K."""
        if self._enter("SetSingleShape"):
            self._shape = filter_shape(self._tiling(), singleShapeM, singleShapeN, singleShapeK, self._planes)

    def SetStartPosition(self, hoStartIdx: int) -> None:
        """The first gradOutput row of the next walk; it says how much top padding the input has."""
        if self._enter("SetStartPosition"):
            if not 0 <= hoStartIdx < self._tiling().ho:
                raise TilingError(
                    f"SetStartPosition: hoStart must be in 0...{self._tiling().ho - 1}, got {hoStartIdx}",
                    "start.range",
                )
            self._ho_start = hoStartIdx

    def SetInput(self, input: GlobalTensor) -> None:
        """The input pointer: batch, plane, first cin block, and input row max(hoStart * strideH - padUp, 0)."""
        self._input = self._taken("SetInput", input, 0, self._input)

    def Iterate(self) -> bool:
        """Compute the next tile into L0C; False when the walk is finished and nothing was computed."""
        self._enter("Iterate")
        self._require_setters(SetSingleShape=self._shape, SetStartPosition=self._ho_start,
                              SetGradOutput=self._grad_output, SetInput=self._input)  # fmt: skip
        t = self._tiling()
        assert self._shape is not None and self._ho_start is not None
        if self.ctx.isFirstIter_:
            self.ctx.isFirstIter_ = False
            self._gathered.clear()
            if self._cube is not None:
                self._cube.begin_walk()
            self._tiles, self._next, self._output_offset = filter_tiles_in_order(t, self._shape), 0, None
            if (self._ho_start * t.wo + self._shape.k.total) > t.ho * t.wo:
                raise TilingError(
                    f"Iterate: rows {self._ho_start} and K {self._shape.k.total} pass the last of {t.ho} "
                    "gradOutput rows",
                    "shape.k_total",
                )
        if self._next >= len(self._tiles):
            self._tile = None
            self._life.move(State.FINISHED)
            return False
        self._tile = self._tiles[self._next]
        self._next += 1
        if not self._dry:
            self._l0c = self._compute(t, self._shape, self._tile)
        self._life.move(State.TILE_WAITING)
        return True

    def GetTensorC(self, output: GlobalTensor, enAtomic: int = 1, enSequentialWrite: bool = False) -> None:
        """Add the tile to memory (enAtomic 0: store it); enSequentialWrite puts it densely at the pointer itself."""
        if not self._enter("GetTensorC"):
            return
        self._require_atomic_flag(enAtomic)
        self._require_dtype(output, 3, "GetTensorC")
        t, tile = self._tiling(), self._tile
        assert tile is not None
        if not enSequentialWrite:
            self._check_output_pointer(output, lambda: self._pointer_mistakes(output))
        store_runs(weight_runs(t, tile, self._l0c, enSequentialWrite), output, bool(enAtomic), self._life.refuse)
        self._l0c = None
        self._life.move(State.TILE_TAKEN)
        if self._told is not None and not enSequentialWrite:
            assert self._grad_output is not None and self._ho_start is not None and self._shape is not None
            rows = range(self._ho_start, self._ho_start + self._shape.k.total // t.wo)
            self._told(PartOfSum(tile, self._grad_output.offset, rows, output))

    # ---- inside

    def _check_record(self, record: TConv3DBpFilterTiling) -> None:
        check_filter_record(record, self.platform)

    def _compute(self, t: TConv3DBpFilterTiling, shape: FilterShape, tile: FilterTile) -> Matrix:
        """One tile in float32, baseK positions after baseK, gathered a few thousand at a time unless staged."""
        assert self._input is not None and self._grad_output is not None and self._ho_start is not None
        if self._cube is not None:
            return self._cube.compute(t, shape, tile, self._grad_output, self._input, self._ho_start)
        positions, step = shape.k.total, max(t.baseK, GATHER_POSITIONS // t.baseK * t.baseK)
        l0c = np.zeros((tile.m_length, tile.n_length), np.float32)
        for k in range(0, positions, step):
            length = min(step, positions - k)
            where = f"positions {k}...{k + length - 1}"
            a = grad_output_matrix(t, self._grad_output, tile.m_start, tile.m_length, k, length,
                                   f"Iterate, {tile}, gradOutput {where}")  # fmt: skip
            b = self._gathered.get((tile.j, k))
            if b is None:
                self._gathered = {key: kept for key, kept in self._gathered.items() if key[0] == tile.j}
                b = input_matrix(t, self._input, self._ho_start, tile.n_start, tile.n_length, k, length,
                                 f"Iterate, {tile}, input under {where}")  # fmt: skip
                self._gathered[tile.j, k] = b
            multiply_in_chunks(a.T, b, t.baseK, l0c)
        return l0c

    def _pointer_mistakes(self, output: GlobalTensor) -> list[Mistake]:
        """What is wrong with the three pointers of this walk."""
        assert self._shape is not None
        assert self._input is not None and self._grad_output is not None and self._ho_start is not None
        t = self._tiling()
        sizes = (self._input.size, self._grad_output.size, output.size)
        if sizes != (t.input_size, t.grad_output_size, t.grad_weight_size):
            return []
        return filter_mistakes(
            t, self._grad_output.offset, self._input.offset, output.offset, self._ho_start,
            self._shape.m.total, self._shape.n.total,
        )  # fmt: skip
