"""Conv3DBackpropFilter: gradWeight tile by tile, float32 in FRACTAL_Z_3D, added to what memory holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .call_order import Context, Life, State
from .conv_type import FILTER_OPERANDS, ConvType, check_operands
from .cube import multiply_in_chunks
from .errors import AddressError, CallOrderError, TileKernelError, TilingError
from .filter_checks import check_filter_record
from .filter_math import Matrix, grad_output_matrix, input_matrix
from .filter_record import TConv3DDwTiling
from .global_tensor import GlobalTensor
from .input_record import ceil_div, record_from_dict
from .platform import PlatformInfo
from .pointers import Mistake, filter_mistakes
from .walk import Extent

GATHER_POSITIONS = 4096  # positions gathered at once in the fast mode, to bound memory


@dataclass(frozen=True, slots=True)
class FilterShape:
    """The three axes of one single shape."""

    m: Extent
    n: Extent
    k: Extent


@dataclass(frozen=True, slots=True)
class FilterTile:
    """One tile: its indices, its gradOutput channels and its columns in the single shape."""

    i: int
    j: int
    m_start: int
    m_length: int
    n_start: int
    n_length: int

    def __str__(self) -> str:
        return f"tile (i {self.i}, j {self.j})"


def filter_shape(t: TConv3DDwTiling, M: int, N: int, K: int) -> FilterShape:
    """Counts and tails from `SetSingleShape(M, N, K)`; channels are rounded up to whole blocks, K is whole rows."""
    if min(M, N, K) <= 0:
        raise TilingError(f"SetSingleShape: M, N and K must be above 0, got M {M}, N {N}, K {K}", "shape.positive")
    if N % t.window_area:
        raise TilingError(f"SetSingleShape: N must be a multiple of hk * wk = {t.window_area}, got {N}", "shape.n")
    if K % t.wo:
        swapped = "; the order of the arguments is M, N, K" if N % t.wo == 0 else ""
        raise TilingError(f"SetSingleShape: K must be whole rows of wo = {t.wo}, got {K}{swapped}", "shape.k")
    columns = ceil_div(N // t.window_area, t.c0) * t.c0 * t.window_area
    limits = (("M", M, t.weight_cout), ("N", columns, t.cin1G * t.c0 * t.window_area), ("K", K, t.ho * t.wo))
    for name, value, most in limits:
        if value > most:
            raise TilingError(
                f"SetSingleShape: {name} must be at most {most}, got {value}", f"shape.{name.lower()}_total"
            )
    return FilterShape(Extent(ceil_div(M, 16) * 16, t.baseM), Extent(columns, t.baseN), Extent(K, t.baseK))


def filter_tiles_in_order(t: TConv3DDwTiling, shape: FilterShape) -> list[FilterTile]:
    """Every tile in walk order: L1 blocks of stepM and stepN tiles outside, single tiles inside.

    order 1    N block, M block, n, m (m fastest);   order 0    M block, N block, m, n (n fastest)
    """
    pairs = [(i, j) for i in range(shape.m.count) for j in range(shape.n.count)]
    if t.iterateOrder == 1:
        pairs.sort(key=lambda p: (p[1] // t.stepN, p[0] // t.stepM, p[1], p[0]))
    else:
        pairs.sort(key=lambda p: (p[0] // t.stepM, p[1] // t.stepN, p[0], p[1]))
    return [FilterTile(i, j, i * t.baseM, shape.m.length(i), j * t.baseN, shape.n.length(j)) for i, j in pairs]


class Conv3DBackpropFilter:
    """gradWeight of a 3-D convolution for one batch, one gradOutput plane and one window plane per walk.

    staged    multiply baseK positions at a time, as the cube does, instead of a few thousand
    report    take refusals of order and address one by one instead of raising the first (for checkers)
    """

    def __init__(
        self, input: ConvType, weightSize: ConvType, gradOutput: ConvType, gradWeight: ConvType, *,
        staged: bool = False, platform: PlatformInfo | None = None,
        report: Callable[[TileKernelError], None] | None = None,
    ) -> None:  # fmt: skip
        check_operands(FILTER_OPERANDS, (input, weightSize, gradOutput, gradWeight))
        self.types = (input, weightSize, gradOutput, gradWeight)
        self.platform = platform or PlatformInfo()
        self._staged = staged
        self._life = Life(report)
        self._tiling: TConv3DDwTiling | None = None
        self._shape: FilterShape | None = None
        self._ho_start: int | None = None
        self._input: GlobalTensor | None = None
        self._grad_output: GlobalTensor | None = None
        self._tiles: list[FilterTile] = []
        self._next = 0
        self._tile: FilterTile | None = None
        self._l0c: Matrix | None = None
        self._output_offset: int | None = None
        self._gathered: dict[tuple[int, int], Matrix] = {}  # columns of the current j, as L1 would keep them

    @property
    def ctx(self) -> Context:
        """The context; set `ctx.isFirstIter_ = True` after each finished walk."""
        return self._life.ctx

    @property
    def tile(self) -> FilterTile | None:
        """The tile Iterate last gave."""
        return self._tile

    @property
    def l0c(self) -> NDArray[np.float32] | None:
        """The float32 tile that waits in L0C."""
        return self._l0c

    def Init(self, tiling: TConv3DDwTiling | Mapping[str, int]) -> None:
        """Take a tiling record (or a dict of its 52 fields), check it whole, reserve the buffers."""
        if self._life.enter("Init"):
            record = tiling if isinstance(tiling, TConv3DDwTiling) else record_from_dict(TConv3DDwTiling, tiling)
            check_filter_record(record, self.platform)
            self._tiling = record
            self._life.move(State.READY)
            self.ctx.isFirstIter_ = True

    def SetSingleShape(self, singleShapeM: int, singleShapeN: int, singleShapeK: int) -> None:
        """Channels, columns and positions of the next walk. Note the order: M, N, K."""
        if self._enter("SetSingleShape"):
            self._shape = filter_shape(self._record(), singleShapeM, singleShapeN, singleShapeK)

    def SetStartPosition(self, hoStartIdx: int) -> None:
        """The first gradOutput row of the next walk; it says how much top padding the input has."""
        if self._enter("SetStartPosition"):
            if not 0 <= hoStartIdx < self._record().ho:
                raise TilingError(
                    f"SetStartPosition: hoStart must be in 0...{self._record().ho - 1}, got {hoStartIdx}",
                    "start.range",
                )
            self._ho_start = hoStartIdx

    def SetInput(self, input: GlobalTensor) -> None:
        """The input pointer: batch, plane, first cin block, and input row max(hoStart * strideH - padUp, 0)."""
        if self._enter("SetInput"):
            self._require_dtype(input, 0, "SetInput")
            self._input = input

    def SetGradOutput(self, gradOutput: GlobalTensor) -> None:
        """The gradOutput pointer: batch, plane, first cout block, and row hoStart."""
        if self._enter("SetGradOutput"):
            self._require_dtype(gradOutput, 2, "SetGradOutput")
            self._grad_output = gradOutput

    def Iterate(self) -> bool:
        """Compute the next tile into L0C; False when the walk is finished and nothing was computed."""
        self._enter("Iterate")
        self._require_setters()
        t = self._record()
        assert self._shape is not None and self._ho_start is not None
        if self.ctx.isFirstIter_:
            self.ctx.isFirstIter_ = False
            self._gathered.clear()
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
        self._l0c = self._compute(t, self._tile, self._shape.k.total)
        self._life.move(State.TILE_WAITING)
        return True

    def GetTensorC(self, output: GlobalTensor, enAtomic: int = 1, enSequentialWrite: bool = False) -> None:
        """Add the tile to memory (enAtomic 0: store it); enSequentialWrite puts it densely at the pointer itself."""
        if not self._enter("GetTensorC"):
            return
        if enAtomic not in (0, 1):
            raise CallOrderError(f"GetTensorC: enAtomic must be 0 or 1, got {enAtomic}", "order.atomic")
        self._require_dtype(output, 3, "GetTensorC")
        t, tile = self._record(), self._tile
        assert tile is not None and self._l0c is not None
        if not enSequentialWrite:
            self._check_pointers(t, output)
        start, between = tile.n_start * t.weight_cout + tile.m_start * t.c0, t.weight_cout * t.c0
        if enSequentialWrite:
            start, between = 0, t.baseM * t.c0
        for block in range(tile.n_length // t.c0):
            lanes = np.ascontiguousarray(self._l0c[:, block * t.c0 : (block + 1) * t.c0]).reshape(-1)
            try:
                output.write(
                    start + block * between, lanes, f"GetTensorC, {tile}, column block {block}", bool(enAtomic)
                )
            except AddressError as error:
                self._life.refuse(error)
        self._l0c = None
        self._life.move(State.TILE_TAKEN)

    def End(self) -> None:
        """Release everything; once, after the last walk."""
        if self._enter("End"):
            if self._life.abandoned:
                self._life.refuse(
                    CallOrderError(f"End: {self._life.abandoned}; walk until Iterate returns false", "order.left_early")
                )
            self._life.move(State.ENDED)

    # ---- inside

    def _enter(self, call: str) -> bool:
        return self._life.enter(call, f", last {self._tile}" if self._tile else "")

    def _record(self) -> TConv3DDwTiling:
        assert self._tiling is not None
        return self._tiling

    def _require_dtype(self, tensor: GlobalTensor, operand: int, call: str) -> None:
        expected = self.types[operand].storage
        if tensor.memory.data.dtype != expected:
            raise TilingError(
                f"{call}: expected a GlobalTensor of {expected}, got {tensor.memory.data.dtype}", "type.operand"
            )

    def _require_setters(self) -> None:
        given = {
            "SetSingleShape": self._shape,
            "SetStartPosition": self._ho_start,
            "SetGradOutput": self._grad_output,
            "SetInput": self._input,
        }
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise CallOrderError(f"Iterate: {', '.join(missing)} must be called first", "order.missing_setter")

    def _compute(self, t: TConv3DDwTiling, tile: FilterTile, positions: int) -> Matrix:
        """One tile in float32, positions ascending: baseK at a time when staged, else a few thousand."""
        assert self._input is not None and self._grad_output is not None and self._ho_start is not None
        step = t.baseK if self._staged else max(t.baseK, GATHER_POSITIONS // t.baseK * t.baseK)
        l0c = np.zeros((tile.m_length, tile.n_length), np.float32)
        whole_m = min(tile.m_length, t.cout1 * t.c0 - tile.m_start)
        for k in range(0, positions, step):
            length = min(step, positions - k)
            a = grad_output_matrix(
                t,
                self._grad_output,
                tile.m_start,
                whole_m,
                k,
                length,
                f"Iterate, {tile}, gradOutput positions {k}...{k + length - 1}",
            )
            b = self._gathered.get((tile.j, k))
            if b is None:
                self._gathered = {key: kept for key, kept in self._gathered.items() if key[0] == tile.j}
                b = self._gathered[tile.j, k] = input_matrix(
                    t,
                    self._input,
                    self._ho_start,
                    tile.n_start,
                    tile.n_length,
                    k,
                    length,
                    f"Iterate, {tile}, input under positions {k}...{k + length - 1}",
                )
            multiply_in_chunks(a.T, b, t.baseK, l0c[:whole_m])
        return l0c

    def _check_pointers(self, t: TConv3DDwTiling, output: GlobalTensor) -> None:
        """Once per walk: do the three pointers belong together; then: has the output pointer moved."""
        assert self._shape is not None
        assert self._input is not None and self._grad_output is not None and self._ho_start is not None
        mistakes: list[Mistake] = []
        if self._output_offset is None:
            self._output_offset = output.offset
            if (self._input.size, self._grad_output.size, output.size) == (
                t.input_size,
                t.grad_output_size,
                t.grad_weight_size,
            ):
                mistakes = filter_mistakes(
                    t, self._grad_output.offset, self._input.offset, output.offset, self._ho_start,
                    self._shape.m.total, self._shape.n.total,
                )  # fmt: skip
        elif output.offset != self._output_offset:
            mistakes = [
                Mistake(
                    "pointer.moved",
                    f"GetTensorC offset moved from {self._output_offset} to {output.offset} in one walk",
                    "pass the same pointer for every tile, the object adds the tile's place",
                )
            ]
        for mistake in mistakes:
            self._life.refuse(AddressError(str(mistake), mistake.rule))
