"""`ConvProblem`: a request whose every rule holds, seen through the one law. It cannot be inconsistent."""

from __future__ import annotations

from dataclasses import dataclass

from convgrad.core.geometry import UNIT_AXIS, Axis, Contraction, Geometry
from convgrad.core.request import Operator, Request, TensorSpec, pad_pairs

AxisOrder = tuple[int | None, int | None, int | None, int | None, int | None]
"""For each canonical axis (n, c, d, h, w) the tensor's own axis; `None` is a unit axis that is not stored."""

# Weights are (coarse channel, fine channel, d, h, w) in canonical order.
_DATA_ORDER: dict[int, AxisOrder] = {
    1: (0, 1, None, None, 2),
    2: (0, 1, None, 2, 3),
    3: (0, 1, 2, 3, 4),
}
_TBC_DATA_ORDER: AxisOrder = (1, 2, None, None, 0)
_TBC_WEIGHT_ORDER: AxisOrder = (2, 1, None, None, 0)


@dataclass(frozen=True, slots=True, repr=False)
class ConvProblem:
    """Sizes, dtypes and wants of one proved request."""

    request: Request
    geometry: Geometry
    rank: int
    transposed: bool
    data_order: AxisOrder
    weight_order: AxisOrder
    empty: bool
    """Some operand has no elements: grad_input and grad_weight, where they have any, are zeros."""

    @property
    def wants(self) -> tuple[bool, bool, bool]:
        """grad_input, grad_weight, grad_bias."""
        if self.request.forward:
            return False, False, False
        if not self.request.operator.has_mask:
            return True, True, True
        x, w, b = self.request.output_mask or (False, False, False)
        return x, w, b

    @property
    def input_contraction(self) -> Contraction:
        return Contraction.TO_COARSE if self.transposed else Contraction.TO_FINE

    @property
    def forward_contraction(self) -> Contraction:
        return Contraction.TO_FINE if self.transposed else Contraction.TO_COARSE

    @property
    def line(self) -> str:
        return str(self.request)

    def __repr__(self) -> str:
        return f"<ConvProblem {self.line}>"


def prove(request: Request) -> ConvProblem:
    """The problem behind a request that `check` accepted; calling it on a refused one is our own mistake."""
    go, x, w = request.grad_output, request.input, request.weight
    assert go is not None and x is not None and w is not None
    if request.operator is Operator.TBC:
        return _prove_tbc(request, go, x, w)
    rank = x.rank - 2
    fine, coarse = (go, x) if request.transposed else (x, go)
    stride, dilation, padding = request.stride, request.dilation, request.padding
    assert stride is not None and dilation is not None and padding is not None
    pads = pad_pairs(padding, rank)
    assert pads is not None
    axes = tuple(
        Axis(fine.shape[2 + i], coarse.shape[2 + i], w.shape[2 + i], stride[i], dilation[i], *pads[i])
        for i in range(rank)
    )
    geometry = Geometry(
        x.shape[0], fine.shape[1], coarse.shape[1], request.groups, _three(axes)
    )
    order = _DATA_ORDER[rank]
    empty = x.empty or w.empty or go.empty
    return ConvProblem(request, geometry, rank, request.transposed, order, order, empty)


def _prove_tbc(request: Request, go: TensorSpec, x: TensorSpec, w: TensorSpec) -> ConvProblem:
    axis = Axis(x.shape[0], go.shape[0], w.shape[0], 1, 1, request.pad, request.pad)
    geometry = Geometry(x.shape[1], x.shape[2], go.shape[2], 1, _three((axis,)))
    empty = x.empty or w.empty or go.empty
    return ConvProblem(request, geometry, 1, False, _TBC_DATA_ORDER, _TBC_WEIGHT_ORDER, empty)


def _three(axes: tuple[Axis, ...]) -> tuple[Axis, Axis, Axis]:
    depth, height, width = (*(UNIT_AXIS,) * (3 - len(axes)), *axes)
    return depth, height, width
