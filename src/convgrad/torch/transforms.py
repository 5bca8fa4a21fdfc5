"""The operators under torch.func: grad, vmap, jacrev and their compositions.

An operator's own autograd formula is not seen by torch.func, which wants an autograd.Function in two parts; these are
the same formulas (`operators`) in that form, taken while a transform is active. A batch of vmap joins the samples where
one weight serves all of them; otherwise there is a call per entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from convgrad.torch import operators


def active() -> bool:
    """Whether a torch.func transform is being computed."""
    return bool(torch._C._are_functorch_transforms_active())  # type: ignore[attr-defined, unused-ignore]


# ---- vmap --------------------------------------------------------------------------------------------------------


def _entries(size: int, axes: Sequence[int | None], given: Sequence[Any]) -> list[list[Any]]:
    return [
        [a if d is None else a.select(d, i) for a, d in zip(given, axes, strict=True)] for i in range(size)
    ]


def _samples_joined(op: Any, shared: tuple[int, ...], sample: int, data: int) -> Any:
    """The rule of an operator with the batch's samples at an axis; operands at `shared` must be one for all."""
    def rule(info: Any, in_dims: Sequence[Any], *given: Any) -> tuple[Any, Any]:
        size = info.batch_size
        axes: list[int | None] = [d if isinstance(a, Tensor) else None for a, d in zip(given, in_dims, strict=True)]
        if any(axes[i] is not None for i in shared) or axes[data] is None:
            found = [op(*one) for one in _entries(size, axes, given)]
            if isinstance(found[0], Tensor):
                return torch.stack(found), 0
            return tuple(torch.stack(ts) for ts in zip(*found, strict=True)), (0,) * len(found[0])
        moved = [a if d is None else a.movedim(d, sample) for a, d in zip(given, axes, strict=True)]
        joined = op(*(a if d is None else a.flatten(sample, sample + 1) for a, d in zip(moved, axes, strict=True)))
        return joined.unflatten(sample, (size, joined.shape[sample] // size)), sample

    return rule


for _op, _shared, _sample, _data in (
    (operators.convolution_op, (1, 2), 0, 0), (operators.conv_tbc_op, (1, 2), 1, 0),
    # Gradients of a weight and of a bias belong to one entry each: grad_output among `shared` takes them one by one.
    (operators.conv_backward_op, (0, 1, 2), 0, 1), (operators.conv_tbc_backward_op, (0, 1, 2), 1, 1),
    (operators.pytorch_conv_tbc_backward_op, (0, 1, 2), 1, 1),
):
    _op.register_vmap(_samples_joined(_op, _shared, _sample, _data))


# ---- grad --------------------------------------------------------------------------------------------------------


def _form(op: Any, keep: Any, derivative: Any) -> Any:
    """An operator as an autograd.Function in two parts, what its derivative needs being kept by `keep`."""
    members = {
        "generate_vmap_rule": True, "forward": staticmethod(lambda *given: op(*given)),
        "setup_context": staticmethod(keep), "backward": staticmethod(derivative), "__doc__": f"`{op._qualname}`.",
    }
    return type("Form", (torch.autograd.Function,), members)


def _tbc_without_bias(x: Tensor, w: Tensor, *rest: Any) -> Any:
    return _TBC.apply(x, w, None, *rest)


# Each is defined by the other: derivatives of a pass are calls of the opposite one.
_BACKWARD: Any = _form(operators.conv_backward_op, operators.keep_conv_backward, lambda ctx, *cotangents: (
    operators.conv_backward_derivative(ctx, cotangents, _CONVOLUTION.apply, _BACKWARD.apply)))
_CONVOLUTION: Any = _form(operators.convolution_op, operators.keep_convolution, lambda ctx, grad_output: (
    operators.convolution_derivative(ctx, grad_output, _BACKWARD.apply)))
_TBC_BACKWARD: Any = _form(operators.conv_tbc_backward_op, operators.keep_tbc_backward, lambda ctx, *cotangents: (
    operators.tbc_backward_derivative(_TBC_BACKWARD.apply, _tbc_without_bias)(ctx, *cotangents)))
_TBC: Any = _form(operators.conv_tbc_op, operators.keep_tbc, lambda ctx, grad_output: (
    operators.tbc_derivative(ctx, grad_output, _TBC_BACKWARD.apply)))

_FORMS = {
    operators.convolution_op: _CONVOLUTION, operators.conv_backward_op: _BACKWARD, operators.conv_tbc_op: _TBC,
    operators.conv_tbc_backward_op: _TBC_BACKWARD,
}


def call(op: Any, *given: Any) -> Any:
    """An operator's result; in the form torch.func differentiates where one of its transforms is active."""
    form: Any = _FORMS[op]
    return form.apply(*given) if active() else op(*given)
