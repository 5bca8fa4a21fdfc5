"""What both tile kernel objects share: types, the order of calls, operand checks, the tile that waits in L0C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..device.call_order import Context, Life, State
from ..device.conv_type import ConvType, OperandRow, check_operands
from ..device.errors import AddressError, CallOrderError, TileKernelError, TilingError
from ..device.global_tensor import GlobalTensor
from ..device.platform import PlatformInfo
from .pointers import Mistake
from .tiling_record import TilingRecord, record_from_dict

RecordType = TypeVar("RecordType", bound=TilingRecord)
TileType = TypeVar("TileType")


class TileObject(Generic[RecordType, TileType]):
    """The life of an object from Init to End; what a walk computes and stores is each kernel's own business."""

    record_type: type[RecordType]
    early_exit = ""  # what a walk left early costs on hardware, for the refusal of End

    def __init__(
        self, operands: tuple[OperandRow, ...], types: tuple[ConvType, ...], platform: PlatformInfo | None, dry: bool,
        report: Callable[[TileKernelError], None] | None,
    ) -> None:  # fmt: skip
        check_operands(operands, types)
        self.types = types
        self.platform = platform or PlatformInfo()
        self._life = Life(report)
        self._dry = dry
        self._record: RecordType | None = None
        self._grad_output: GlobalTensor | None = None
        self._tile: TileType | None = None
        self._l0c: NDArray[np.float32] | None = None
        self._output_offset: int | None = None

    # ---- what an author and a checker may look at

    @property
    def ctx(self) -> Context:
        """The context; set `ctx.isFirstIter_ = True` after each finished walk."""
        return self._life.ctx

    @property
    def tile(self) -> TileType | None:
        """The tile Iterate last gave, None before the first and after the last."""
        return self._tile

    @property
    def l0c(self) -> NDArray[np.float32] | None:
        """The float32 tile that waits in L0C, None when there is none."""
        return self._l0c

    @property
    def tiling(self) -> RecordType | None:
        """The record given to Init."""
        return self._record

    @property
    def tile_is_stored(self) -> bool:
        """True when GetTensorC has stored the current tile; False when it was skipped or still waits."""
        return self._life.state is State.TILE_TAKEN

    # ---- the calls both have

    def Init(self, tiling: RecordType | Mapping[str, int]) -> None:
        """Take a tiling record (or a dict of all its fields), check it whole, reserve the buffers."""
        if self._enter("Init"):
            record = tiling if isinstance(tiling, self.record_type) else record_from_dict(self.record_type, tiling)  # type: ignore[arg-type]
            self._check_record(record)
            self._record = record
            self._life.move(State.READY)
            self.ctx.isFirstIter_ = True

    def SetGradOutput(self, gradOutput: GlobalTensor) -> None:
        """The gradOutput pointer: batch, first cout block and first row; the filter kernel's also has the plane."""
        self._grad_output = self._taken("SetGradOutput", gradOutput, 2, self._grad_output)

    def End(self) -> None:
        """Release everything; once, after the last walk."""
        if self._enter("End"):
            if self._life.abandoned:
                text = f"End: {self._life.abandoned}; walk until Iterate returns false{self.early_exit}"
                self._life.refuse(CallOrderError(text, "order.left_early"))
            undone = self._left_undone()
            if undone is not None:
                self._life.refuse(undone)
            self._life.move(State.ENDED)

    # ---- inside

    def _left_undone(self) -> CallOrderError | None:
        """What a kernel that ends here would never have written, however complete its walks."""
        return None

    def _check_record(self, record: RecordType) -> None:
        raise NotImplementedError

    def _tiling(self) -> RecordType:
        assert self._record is not None
        return self._record

    def _enter(self, call: str) -> bool:
        return self._life.enter(call, f", last {self._tile}" if self._tile else "")

    def _taken(
        self, call: str, given: GlobalTensor, operand: int, before: GlobalTensor | None
    ) -> GlobalTensor | None:
        """An operand a setter was given, checked; the one before when the call is refused."""
        if not self._enter(call):
            return before
        self._require_dtype(given, operand, call)
        return given

    def _require_dtype(self, tensor: GlobalTensor, operand: int, call: str) -> None:
        expected = self.types[operand].storage
        if not isinstance(tensor, GlobalTensor) or tensor.memory.data.dtype != expected:
            got = tensor.memory.data.dtype if isinstance(tensor, GlobalTensor) else type(tensor).__name__
            raise TilingError(f"{call}: expected a GlobalTensor of {expected}, got {got}", "type.operand")

    def _require_setters(self, **given: Any) -> None:
        """Raise unless each setter has been called; `given` is what each of them keeps."""
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise CallOrderError(f"Iterate: {', '.join(missing)} must be called first", "order.missing_setter")

    def _require_atomic_flag(self, enAtomic: int) -> None:
        if enAtomic not in (0, 1):
            raise CallOrderError(f"GetTensorC: enAtomic must be 0 or 1, got {enAtomic}", "order.atomic")

    def _refuse_mistakes(self, mistakes: list[Mistake]) -> None:
        for mistake in mistakes:
            self._life.refuse(AddressError(str(mistake), mistake.rule))

    def _check_output_pointer(self, output: GlobalTensor, mistakes: Callable[[], list[Mistake]]) -> None:
        """Once per walk: do the pointers belong together; then: has the output pointer moved."""
        if self._output_offset is None:
            self._output_offset = output.offset
            self._refuse_mistakes(mistakes())
        elif output.offset != self._output_offset:
            found = f"GetTensorC offset moved from {self._output_offset} to {output.offset} in one walk"
            advice = "pass the same pointer for every tile, the object adds the tile's place"
            self._refuse_mistakes([Mistake("pointer.moved", found, advice)])
