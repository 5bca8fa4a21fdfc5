"""Conv3DBackpropInput: the Ascend C object with its documented life, computing on the true memory layouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from convgrad.core import rounding
from convgrad.core.dtypes import Overflow

from ..device.call_order import State
from ..device.conv_type import DTYPE_NAMES, SIXTEEN_BIT, ConvDtype, ConvFormat, ConvType, OperandRow
from ..device.cube import multiply_in_chunks
from ..device.errors import CallOrderError, TileKernelError, TilingError
from ..device.global_tensor import GlobalTensor
from ..device.platform import PlatformInfo
from ..shared.pointers import Mistake
from ..shared.tile_object import TileObject
from ..shared.tile_store import store_runs
from .checks import (
    check_record,
    grad_input_mistakes,
    grad_output_mistakes,
    pairing_mistakes,
    weight_mistakes,
    weights_stay,
)
from .math import Matrix, block_runs, expanded_block, gather_positions, raw_run, weight_elements, weight_matrix
from .record import TConv3DBackpropInputTiling
from .staged import StagedCube
from .walk import SingleShape, Tile, make_tile, row_window, single_shape

INPUT_OPERANDS = (
    OperandRow("weight", (ConvFormat.FRACTAL_Z_3D,), SIXTEEN_BIT),
    OperandRow("inputSize", (ConvFormat.ND,), (ConvDtype.INT32,)),
    OperandRow("gradOutput", (ConvFormat.NDC1HWC0,), SIXTEEN_BIT),
    OperandRow("gradInput", (ConvFormat.NDC1HWC0, ConvFormat.NCDHW), SIXTEEN_BIT),
)
RAW_TILES = Mistake(
    "store.ncdhw", "gradInput is declared NCDHW",
    "GetTensorC leaves raw tiles at GetBlockIdx() * baseM * baseN of its pointer; give it a workspace and store the "
    "tile with the vector core, or declare NDC1HWC0",
)  # fmt: skip


class Conv3DBackpropInput(TileObject[TConv3DBackpropInputTiling, Tile]):
    """gradInput of a 3-D convolution, tile by tile.

    staged      load every stepKa and stepKb chunks through L1 and L0 and count the loads, instead of gathering once
    saturate    clamp to the largest finite value before rounding to the stored dtype, instead of infinity
    report      take refusals of order and address one by one instead of raising the first (for checkers)
    dry         check and mark addresses, compute nothing
    """

    record_type = TConv3DBackpropInputTiling
    early_exit = ", a kept weight buffer is never released otherwise"

    def __init__(
        self,
        weight: ConvType,
        inputSize: ConvType,
        gradOutput: ConvType,
        gradInput: ConvType,
        *,
        block_idx: int = 0,
        staged: bool = False,
        saturate: bool = False,
        dry: bool = False,
        platform: PlatformInfo | None = None,
        report: Callable[[TileKernelError], None] | None = None,
    ) -> None:
        super().__init__(INPUT_OPERANDS, (weight, inputSize, gradOutput, gradInput), platform, dry, report)
        self.block_idx = block_idx
        self._dtype = DTYPE_NAMES[gradInput.dtype]
        self._overflow = Overflow.CLAMP if saturate else Overflow.INF
        self._cube = StagedCube() if staged else None
        self._shape: SingleShape | None = None
        self._start: tuple[int, int] | None = None
        self._planes = 1  # gradInput planes of a walk: more only in the older spelling, which has no Python form
        self._weight: GlobalTensor | None = None
        self._position = (0, 0, 0)
        self._row_start = 0
        self._walk_pointers = (0, 0)
        self._weights: dict[tuple[int, int], tuple[NDArray[np.uint16], Matrix]] = {}
        self._raw_tiles = 0
        self._raw_tile_waits = False

    # ---- the documented calls

    def SetSingleShape(self, singleShapeM: int, singleShapeK: int, singleShapeN: int) -> None:
        """Positions, K (depth included) and channels of the next walk. Note the order: M, K, N."""
        if self._enter("SetSingleShape"):
            self._shape = single_shape(self._tiling(), singleShapeM, singleShapeK, singleShapeN)

    def SetStartPosition(self, dinStartIdx: int, hoStartIdx: int) -> None:
        """The gradInput plane of the next walk, and its first row less backpropPadUp (may be negative)."""
        if not self._enter("SetStartPosition"):
            return
        t = self._tiling()
        if not 0 <= dinStartIdx < t.di:
            raise TilingError(
                f"SetStartPosition: din must be a gradInput plane, 0...{t.di - 1}, got {dinStartIdx}",
                "start.plane",
            )
        first, last = -t.backpropPadUp, t.hi - 1
        if not first <= hoStartIdx <= last:
            raise TilingError(
                f"SetStartPosition: hoStart must be a gradInput row less backpropPadUp, "
                f"{first}...{last - t.backpropPadUp}, got {hoStartIdx}",
                "start.range",
            )
        self._start = (dinStartIdx, hoStartIdx)

    def SetWeight(self, weight: GlobalTensor) -> None:
        """The weight pointer: first cin block, no window plane."""
        self._weight = self._taken("SetWeight", weight, 0, self._weight)

    def Iterate(self) -> bool:
        """Compute the next tile into L0C; False when the walk is finished and nothing was computed."""
        self._enter("Iterate")
        self._require_setters(SetSingleShape=self._shape, SetStartPosition=self._start,
                              SetGradOutput=self._grad_output, SetWeight=self._weight)  # fmt: skip
        t, shape = self._tiling(), self._shape
        assert shape is not None
        if self.ctx.isFirstIter_:
            self._begin_walk(shape)
        elif not self._advance(t, shape):
            self._life.move(State.FINISHED)
            self._tile = None
            return False
        i, j, plane = self._position
        if i >= shape.m.count or j >= shape.n.count:  # only stale indices get here
            return True
        tile = self._tile = make_tile(t, shape, i, j, plane)
        window = row_window(t, self._row_start, tile.m_start)
        taps = t.depth_taps(plane)
        if not taps or (window.rows == 0 and t.initOutputFlag == 1):
            self._l0c = None
            self._life.move(State.TILE_SKIPPED)
            return True
        if not self._dry:
            self._l0c = self._compute(t, shape, tile, taps)
        self._life.move(State.TILE_WAITING)
        return True

    def GetTensorC(self, output: GlobalTensor, enAtomic: int = 0, enSequentialWrite: bool = False) -> None:
        """Round the tile once and store it (enAtomic 1: add it). Pass the same pointer for every tile of a walk."""
        if not self._enter("GetTensorC"):
            return
        self._require_atomic_flag(enAtomic)
        if enSequentialWrite:
            raise CallOrderError(
                "GetTensorC: enSequentialWrite is reserved and must be False; with True nothing would "
                "be written and the tile never released",
                "order.sequential",
            )
        self._require_dtype(output, 3, "GetTensorC")
        if self._life.state is State.TILE_SKIPPED or self._tile is None:
            return
        self._check_output_pointer(output, lambda: self._pointer_mistakes(output))
        values = None if self._l0c is None else rounding.store(self._dtype, self._l0c, overflow=self._overflow)
        if self.types[3].format is ConvFormat.NCDHW:
            runs = raw_run(self._tiling(), self._tile, values, self.block_idx)
            self._raw_tiles += self._raw_tile_waits  # the next one lies over it
            self._raw_tile_waits = True
        else:
            runs = block_runs(self._tiling(), self._tile, values)
        store_runs(runs, output, bool(enAtomic), self._life.refuse)
        self._l0c = None
        self._life.move(State.TILE_TAKEN)

    @property
    def cube(self) -> StagedCube | None:
        """Counters of the staged mode."""
        return self._cube

    # ---- inside

    def _left_undone(self) -> CallOrderError | None:
        lost = self._raw_tiles + self._raw_tile_waits
        if not lost:
            return None
        return CallOrderError(
            f"End: {lost} tiles of an NCDHW gradInput stayed raw in the workspace and are lost; call finish_ncdhw "
            "after each GetTensorC, or declare gradInput as NDC1HWC0, as the document's table does",
            "order.raw_tiles",
        )

    def _check_record(self, record: TConv3DBackpropInputTiling) -> None:
        check_record(record, self.platform)
        if record.element_bytes != self.types[0].storage.itemsize:
            raise TilingError(
                f"Init: c0 must be 16 for {DTYPE_NAMES[self.types[0].dtype]} operands, got {record.c0}", "tiling.c0"
            )

    def _begin_walk(self, shape: SingleShape) -> None:
        """First Iterate of a walk: indices, plane and row from the setters; kept weights are loaded anew."""
        assert self._start is not None and self._grad_output is not None and self._weight is not None
        t = self._tiling()
        self.ctx.isFirstIter_ = False
        self._position = (0, 0, self._start[0])
        self._row_start = self._start[1]
        self._output_offset = None
        self._walk_pointers = (self._grad_output.offset, self._weight.offset)
        if self._cube is not None:
            self._cube.begin_walk()
        if self._grad_output.size == t.grad_output_size:
            self._refuse_mistakes(grad_output_mistakes(t, self._grad_output.offset, self._row_start, shape))
        if self._weight.size == t.weight_size:
            self._refuse_mistakes(weight_mistakes(t, self._weight.offset, shape))

    def _advance(self, t: TConv3DBackpropInputTiling, shape: SingleShape) -> bool:
        """Move to the next tile, then to the next plane; False past the last plane of a single shape."""
        assert self._start is not None
        i, j, plane = self._position
        if t.iterateOrder == 1:
            i += 1
            if i >= shape.m.count:
                i, j = 0, j + 1
        else:
            j += 1
            if j >= shape.n.count:
                i, j = i + 1, 0
        if j >= shape.n.count or i >= shape.m.count:
            i, j, plane = 0, 0, plane + 1
        self._position = (i, j, plane)
        return (i, j) != (0, 0) or plane < self._start[0] + self._planes

    def _compute(
        self, t: TConv3DBackpropInputTiling, shape: SingleShape, tile: Tile, taps: list[tuple[int, int]]
    ) -> Matrix:
        """One tile in float32: window planes ascending, inside each one baseK of k after baseK."""
        assert self._grad_output is not None and self._weight is not None
        if self._cube is not None:
            return self._cube.compute(
                t, shape, tile, taps, self._grad_output, self._weight, self._row_start, weights_stay(t)
            )
        window = row_window(t, self._row_start, tile.m_start)
        accumulator: Matrix | None = None
        for kd, plane in taps:
            block = expanded_block(
                t,
                self._grad_output,
                self._row_start,
                window,
                plane,
                0,
                shape.cout1,
                f"Iterate, {tile}, gradOutput plane {plane}",
            )
            a = gather_positions(t, block, tile)
            accumulator = multiply_in_chunks(a, self._weight_matrix(t, shape, tile, kd), t.baseK, accumulator)
        assert accumulator is not None
        return accumulator

    def _weight_matrix(self, t: TConv3DBackpropInputTiling, shape: SingleShape, tile: Tile, kd: int) -> Matrix:
        """B of a tile and window plane; made anew only when the stored weights are not those it was made from."""
        assert self._weight is not None
        doing = f"Iterate, {tile}, window plane {kd}"
        elements = weight_elements(t, self._weight, kd, tile, shape.cout1, doing)
        known = self._weights.get((kd, tile.j))
        bits = elements.view(np.uint16)
        if known is None or not np.array_equal(known[0], bits):
            known = self._weights[kd, tile.j] = bits.copy(), weight_matrix(t, elements, tile, 0, shape.cout1)
        return known[1]

    def _pointer_mistakes(self, output: GlobalTensor) -> list[Mistake]:
        """What is wrong with the gradInput pointer, alone or beside the other two."""
        assert self._tile is not None and self._shape is not None
        assert self._grad_output is not None and self._weight is not None
        t = self._tiling()
        if self.types[3].format is ConvFormat.NCDHW:
            whole = output.size in (t.grad_input_size, t.batch * t.cin * t.di * t.hi * t.wi)
            return [RAW_TILES] if whole and output.memory.name != "workspace" else []
        if output.size != t.grad_input_size:
            return []
        mistakes = grad_input_mistakes(t, output.offset, self._tile.plane, self._row_start, self._shape)
        if mistakes or (self._grad_output.size, self._weight.size) != (t.grad_output_size, t.weight_size):
            return mistakes
        return pairing_mistakes(t, *self._walk_pointers, output.offset)


def finish_ncdhw(kernel: Conv3DBackpropInput, workspace: GlobalTensor, gradInput: GlobalTensor) -> None:
    """Move the raw tile that GetTensorC left in the workspace to its place in an NCDHW tensor; pad lanes are cut.

    `gradInput` stands at batch * Cin * Di * Hi * Wi + first channel * Di * Hi * Wi + first row * Wi. Does nothing for a
    skipped tile.
    """
    t, tile = kernel.tiling, kernel.tile
    if t is None or tile is None or kernel.l0c is not None:
        raise CallOrderError("finish_ncdhw: Iterate and GetTensorC come first", "order.no_tile")
    if not kernel.tile_is_stored:
        return
    kernel._raw_tile_waits = False
    raw = workspace.read(kernel.block_idx * t.baseM * t.baseN, tile.m_length * tile.n_length, f"finish_ncdhw, {tile}")
    channels = raw.reshape(-1, tile.m_length, t.c0).transpose(0, 2, 1).reshape(-1, tile.m_length)
    per_channel = t.di * t.hi * t.wi
    first_channel = gradInput.offset // per_channel % t.cin + tile.n_start
    for lane in range(min(tile.n_length, t.cin - first_channel)):
        at = (tile.n_start + lane) * per_channel + tile.plane * t.hi * t.wi + tile.m_start
        gradInput.write(at, channels[lane], f"finish_ncdhw, {tile}, channel {first_channel + lane}")
