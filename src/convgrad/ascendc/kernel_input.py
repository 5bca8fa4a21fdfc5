"""Conv3DBackpropInput: the Ascend C object with its documented life, computing on the true memory layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from convgrad import rounding
from convgrad.dtypes import Overflow

from .call_order import Context, Life, State
from .conv_type import DTYPE_NAMES, INPUT_OPERANDS, ConvFormat, ConvType, check_operands
from .cube import multiply_in_chunks
from .errors import AddressError, CallOrderError, TileKernelError, TilingError
from .global_tensor import GlobalTensor
from .input_checks import check_record, weights_stay
from .input_math import Matrix, expanded_block, gather_positions, weight_elements, weight_matrix
from .input_record import TConv3DBackpropInputTiling, record_from_dict
from .input_staged import StagedCube
from .input_store import block_runs, raw_run, store_runs
from .platform import PlatformInfo
from .pointers import Mistake, grad_input_mistakes, grad_output_mistakes, pairing_mistakes, weight_mistakes
from .walk import SingleShape, Tile, make_tile, row_window, single_shape


class Conv3DBackpropInput:
    """gradInput of a 3-D convolution, tile by tile.

    staged      load every stepKa and stepKb chunks through L1 and L0 and count the loads, instead of gathering once
    saturate    clamp to the largest finite value before rounding to the stored dtype, instead of infinity
    report      take refusals of order and address one by one instead of raising the first (for checkers)
    dry         check and mark addresses, compute nothing
    """

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
        check_operands(INPUT_OPERANDS, (weight, inputSize, gradOutput, gradInput))
        self.types = (weight, inputSize, gradOutput, gradInput)
        self.block_idx = block_idx
        self.platform = platform or PlatformInfo()
        self._dtype = DTYPE_NAMES[gradInput.dtype]
        self._overflow = Overflow.CLAMP if saturate else Overflow.INF
        self._life = Life(report)
        self._dry = dry
        self._cube = StagedCube() if staged else None
        self._tiling: TConv3DBackpropInputTiling | None = None
        self._shape: SingleShape | None = None
        self._start: tuple[int, int] | None = None
        self._grad_output: GlobalTensor | None = None
        self._weight: GlobalTensor | None = None
        self._grad_input_offset: int | None = None
        self._position = (0, 0, 0)
        self._row_start = 0
        self._walk_pointers = (0, 0)
        self._tile: Tile | None = None
        self._l0c: Matrix | None = None
        self._weights: dict[tuple[int, int], tuple[NDArray[np.uint16], Matrix]] = {}

    # ---- the documented calls

    @property
    def ctx(self) -> Context:
        """The context; set `ctx.isFirstIter_ = True` after each finished walk."""
        return self._life.ctx

    def Init(self, tiling: TConv3DBackpropInputTiling | Mapping[str, int]) -> None:
        """Take a tiling record (or a dict of its 66 fields), check it whole, reserve the buffers."""
        if not self._life.enter("Init"):
            return
        record = (
            tiling
            if isinstance(tiling, TConv3DBackpropInputTiling)
            else record_from_dict(TConv3DBackpropInputTiling, tiling)
        )
        check_record(record, self.platform)
        if record.element_bytes != self.types[0].storage.itemsize:
            raise TilingError(
                f"Init: c0 must be 16 for {DTYPE_NAMES[self.types[0].dtype]} operands, got {record.c0}", "tiling.c0"
            )
        self._tiling = record
        self._life.move(State.READY)
        self.ctx.isFirstIter_ = True

    def SetSingleShape(self, singleShapeM: int, singleShapeK: int, singleShapeN: int) -> None:
        """Positions, K (depth included) and channels of the next walk. Note the order: M, K, N."""
        if self._enter("SetSingleShape") and self._tiling is not None:
            self._shape = single_shape(self._tiling, singleShapeM, singleShapeK, singleShapeN)

    def SetStartPosition(self, dinStartIdx: int, hoStartIdx: int) -> None:
        """The gradInput plane of the next walk, and its first row less backpropPadUp (may be negative)."""
        if not self._enter("SetStartPosition") or self._tiling is None:
            return
        if not 0 <= dinStartIdx < self._tiling.di:
            raise TilingError(
                f"SetStartPosition: din must be a gradInput plane, 0...{self._tiling.di - 1}, got {dinStartIdx}",
                "start.plane",
            )
        first, last = -self._tiling.backpropPadUp, self._tiling.hi - 1
        if not first <= hoStartIdx <= last:
            raise TilingError(
                f"SetStartPosition: hoStart must be a gradInput row less backpropPadUp, "
                f"{first}...{last - self._tiling.backpropPadUp}, got {hoStartIdx}",
                "start.range",
            )
        self._start = (dinStartIdx, hoStartIdx)

    def SetGradOutput(self, gradOutput: GlobalTensor) -> None:
        """The gradOutput pointer: batch start and first row, no plane."""
        if self._enter("SetGradOutput"):
            self._require_dtype(gradOutput, 2, "SetGradOutput")
            self._grad_output = gradOutput

    def SetWeight(self, weight: GlobalTensor) -> None:
        """The weight pointer: first cin block, no window plane."""
        if self._enter("SetWeight"):
            self._require_dtype(weight, 0, "SetWeight")
            self._weight = weight

    def Iterate(self) -> bool:
        """Compute the next tile into L0C; False when the walk is finished and nothing was computed."""
        self._enter("Iterate")
        shape = self._require_setters()
        t = self._require_tiling()
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
        if enAtomic not in (0, 1):
            raise CallOrderError(f"GetTensorC: enAtomic must be 0 or 1, got {enAtomic}", "order.atomic")
        if enSequentialWrite:
            raise CallOrderError(
                "GetTensorC: enSequentialWrite is reserved and must be False; with True nothing would "
                "be written and the tile never released",
                "order.sequential",
            )
        self._require_dtype(output, 3, "GetTensorC")
        if self._life.state is State.TILE_SKIPPED or self._tile is None:
            return
        self._check_output_pointer(output)
        values = None if self._l0c is None else rounding.store(self._dtype, self._l0c, overflow=self._overflow)
        if self.types[3].format is ConvFormat.NCDHW:
            runs = raw_run(self._require_tiling(), self._tile, values, self.block_idx)
        else:
            runs = block_runs(self._require_tiling(), self._tile, values)
        store_runs(runs, output, bool(enAtomic), self._life.refuse)
        self._l0c = None
        self._life.move(State.TILE_TAKEN)

    def End(self) -> None:
        """Release everything; once, after the last walk."""
        if not self._enter("End"):
            return
        if self._life.abandoned:
            self._life.refuse(
                CallOrderError(
                    f"End: {self._life.abandoned}; walk until Iterate returns false, a kept "
                    "weight buffer is never released otherwise",
                    "order.left_early",
                )
            )
        self._life.move(State.ENDED)

    # ---- what a checker may look at

    @property
    def tile(self) -> Tile | None:
        """The tile Iterate last gave, None before the first and after the last."""
        return self._tile

    @property
    def l0c(self) -> NDArray[np.float32] | None:
        """The float32 tile that waits in L0C, None when there is none."""
        return self._l0c

    @property
    def cube(self) -> StagedCube | None:
        """Counters of the staged mode."""
        return self._cube

    @property
    def tiling(self) -> TConv3DBackpropInputTiling | None:
        """The record given to Init."""
        return self._tiling

    @property
    def tile_is_stored(self) -> bool:
        """True when GetTensorC has stored the current tile; False when it was skipped or still waits."""
        return self._life.state is State.TILE_TAKEN

    # ---- inside

    def _enter(self, call: str) -> bool:
        return self._life.enter(call, f", last {self._tile}" if self._tile else "")

    def _refuse_mistakes(self, mistakes: list[Mistake]) -> None:
        for mistake in mistakes:
            self._life.refuse(AddressError(str(mistake), mistake.rule))

    def _require_dtype(self, tensor: GlobalTensor, operand: int, call: str) -> None:
        expected = self.types[operand].storage
        if not isinstance(tensor, GlobalTensor) or tensor.memory.data.dtype != expected:
            got = tensor.memory.data.dtype if isinstance(tensor, GlobalTensor) else type(tensor).__name__
            raise TilingError(f"{call}: expected a GlobalTensor of {expected}, got {got}", "type.operand")

    def _require_tiling(self) -> TConv3DBackpropInputTiling:
        assert self._tiling is not None
        return self._tiling

    def _require_setters(self) -> SingleShape:
        given = {
            "SetSingleShape": self._shape,
            "SetStartPosition": self._start,
            "SetGradOutput": self._grad_output,
            "SetWeight": self._weight,
        }
        missing = [name for name, value in given.items() if value is None]
        if missing or self._shape is None:
            raise CallOrderError(f"Iterate: {', '.join(missing)} must be called first", "order.missing_setter")
        return self._shape

    def _begin_walk(self, shape: SingleShape) -> None:
        """First Iterate of a walk: indices, plane and row from the setters; kept weights are loaded anew."""
        assert self._start is not None and self._grad_output is not None and self._weight is not None
        t = self._require_tiling()
        self.ctx.isFirstIter_ = False
        self._position = (0, 0, self._start[0])
        self._row_start = self._start[1]
        self._grad_input_offset = None
        self._walk_pointers = (self._grad_output.offset, self._weight.offset)
        if self._cube is not None:
            self._cube.begin_walk()
        if self._grad_output.size == t.grad_output_size:
            self._refuse_mistakes(grad_output_mistakes(t, self._grad_output.offset, self._row_start, shape))
        if self._weight.size == t.weight_size:
            self._refuse_mistakes(weight_mistakes(t, self._weight.offset, shape))

    def _advance(self, t: TConv3DBackpropInputTiling, shape: SingleShape) -> bool:
        """Move to the next tile, then to the next plane; False past the one plane of a single shape."""
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
        return (i, j) != (0, 0) or plane <= self._start[0]

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

    def _check_output_pointer(self, output: GlobalTensor) -> None:
        assert self._tile is not None and self._shape is not None
        if self._grad_input_offset is None:
            self._grad_input_offset = output.offset
            t = self._require_tiling()
            if self.types[3].format is ConvFormat.NDC1HWC0 and output.size == t.grad_input_size:
                mistakes = grad_input_mistakes(t, output.offset, self._tile.plane, self._row_start, self._shape)
                if (
                    not mistakes
                    and self._grad_output is not None
                    and self._weight is not None
                    and (self._grad_output.size == t.grad_output_size and self._weight.size == t.weight_size)
                ):
                    mistakes = pairing_mistakes(t, *self._walk_pointers, output.offset)
                self._refuse_mistakes(mistakes)
        elif output.offset != self._grad_input_offset:
            self._refuse_mistakes(
                [
                    Mistake(
                        "pointer.moved",
                        f"GetTensorC offset moved from {self._grad_input_offset} to {output.offset} in one walk",
                        "pass the same pointer for every tile, the object adds the tile's place",
                    )
                ]
            )
