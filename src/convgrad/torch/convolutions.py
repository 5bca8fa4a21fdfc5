"""A convolution found in a model, before any product has judged it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(slots=True)
class Seen:
    """One convolution by its shapes (meta tensors), and the arguments of its backward call."""

    layer: str
    kind: str
    """conv1d ... conv3d, conv_transpose1d ... conv_transpose3d, conv_tbc."""
    input: Tensor
    weight: Tensor
    output: tuple[int, ...] = ()
    backward: tuple[Any, ...] | None = None
    """(grad_output, input, weight, Attributes), for conv_tbc (grad_output, input, weight, bias, pad); `None` when
    nothing asks for the gradients."""
