"""Torch tensors as arrays that share their memory, and fresh torch tensors for results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, cast

import ml_dtypes
import torch

from convgrad.core.arrays import AnyArray
from convgrad.core.status import ConvGradError, Status

# dtypes NumPy has no name for: seen as integers of their width, then as what ml_dtypes calls them.
_SEEN_AS: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}
_ORDINARY = (torch.Tensor, torch.nn.Parameter)
_CHANNELS_LAST = {3: torch.channels_last, 4: torch.channels_last, 5: torch.channels_last_3d}


def dtype_name(tensor: torch.Tensor) -> str:
    """The dtype's name as the rules know it."""
    return str(tensor.dtype).removeprefix("torch.")


def unreadable(tensor: torch.Tensor) -> tuple[str, str, str] | None:
    """Why the CPU cannot read this tensor's elements: (what, got, the way out); `None` when it can."""
    ordinary = type(tensor) in _ORDINARY and tensor.is_cpu and tensor.layout is torch.strided
    if ordinary and not (tensor.is_nested or tensor.is_quantized or tensor.is_complex()):
        return None  # nearly always, and told in a microsecond
    if tensor.is_nested:
        return "layout", "nested", "pad it with torch.nested.to_padded_tensor"
    if tensor.device.type == "meta":
        return "device", "meta", "a meta tensor has no elements; scan() works on shapes alone"
    if tensor.device.type != "cpu":
        return "device", tensor.device.type, "move it with .cpu()"
    if tensor.layout is not torch.strided:
        return "layout", str(tensor.layout).removeprefix("torch."), "make it dense with .to_dense()"
    if tensor.is_quantized:
        return "dtype", dtype_name(tensor), "take its values with .dequantize()"
    if tensor.is_complex():
        return "dtype", dtype_name(tensor), "split it with torch.view_as_real"
    return None


def refuse_unreadable(tensor: object, name: str) -> None:
    """Raises unless `tensor` is a dense real tensor in CPU memory."""
    if tensor is None:
        raise ConvGradError(f"{name} must be given; got null", status=Status.PARAM_NULLPTR, rule=f"null.{name}")
    if not isinstance(tensor, torch.Tensor):
        kind = type(tensor).__name__
        raise ConvGradError(f"{name} must be a torch.Tensor, not {kind}", rule=f"{name}.type", value=kind)
    reason = unreadable(tensor)
    if reason is not None:
        what, got, way_out = reason
        message = f"{name} must be a dense real tensor in CPU memory, got {what} {got}: {way_out}"
        raise ConvGradError(message, rule=f"{name}.{what}", value=got)


def refuse_unwritable(tensor: object, name: str) -> None:
    """Raises unless results can be written into the memory of `tensor`."""
    refuse_unreadable(tensor, name)
    if cast(torch.Tensor, tensor).is_neg():
        message = f"{name} has its negative bit set, so its memory holds other values: give .resolve_neg()"
        raise ConvGradError(message, rule=f"{name}.negative", value="negative bit")


def array_of(tensor: torch.Tensor) -> AnyArray:
    """The tensor's own memory, with its strides; a copy of the values where the negative bit hides them."""
    plain = tensor.detach()
    if plain.is_neg():
        plain = plain.resolve_neg()
    seen_as = _SEEN_AS.get(plain.dtype)
    if seen_as is None:
        return plain.numpy()
    integers, name = seen_as
    return cast(AnyArray, plain.view(integers).numpy().view(name))


class Order(Enum):
    """How the elements of a result lie in memory."""

    PLAIN = "contiguous"
    CHANNELS_LAST = "channels last"
    OWN = "as the operand"


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether PyTorch takes the strides for channels-last ones, those of axes of size 1 included.

    From the channel outwards no stride is below the extent inside it. Where batch and channel could change places
    (strides of a plain tensor of one pixel), the order is plain.
    """
    if tensor.dim() not in _CHANNELS_LAST or tensor.layout is not torch.strided:
        return False
    seen = _seen_in_2d(tensor)
    sizes, strides = seen.shape, seen.stride()
    inside = 0
    for axis in (1, *range(len(sizes) - 1, 1, -1), 0):
        size, stride = sizes[axis], strides[axis]
        if size == 0 or stride < max(inside, 1) or (axis == 0 and inside == strides[1]):
            return False
        inside = stride * max(size, 1)
    return True


def _seen_in_2d(tensor: torch.Tensor) -> torch.Tensor:
    """PyTorch computes 1-D problems as 2-D ones of height 1."""
    return tensor.unsqueeze(2) if tensor.dim() == 3 else tensor


def orders_of_results(
    input: torch.Tensor, weight: torch.Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int,
) -> tuple[Order, Order]:
    """In which order PyTorch would give this convolution's output and grad_input, and its grad_weight.

    Channels last when either operand is; of 1-D operands only the weight counts, for PyTorch copies the input. Its own
    kernels have no such order in 3-D; in 2-D those without dilation leave a weight of one channel or one tap, which is
    in several orders at once, as it is. Without elements nothing is computed: gradients are made like their operands.
    """
    if 0 in input.shape:
        return Order.OWN, Order.OWN
    rank = input.dim() - 2
    if not (is_channels_last(weight) or (rank > 1 and is_channels_last(input))):
        return Order.PLAIN, Order.PLAIN
    last = Order.CHANNELS_LAST
    if len(padding) != rank:
        return last, last
    numbers = (list(stride), list(padding), list(dilation), transposed, list(output_padding), groups)
    chosen = torch._C._select_conv_backend(input, weight, None, *numbers, None)  # type: ignore[call-overload, unused-ignore]
    backend = str(chosen).rpartition(".")[2]
    if not backend.startswith("Slow"):
        return last, last
    if rank == 3:
        return Order.PLAIN, Order.PLAIN
    seen = _seen_in_2d(weight)
    kept = not backend.startswith("SlowDilated") and seen.is_contiguous(memory_format=torch.channels_last)
    return last, Order.OWN if kept else last


def gradient_like(tensor: torch.Tensor, order: Order) -> torch.Tensor:
    """An unwritten tensor of the same shape and dtype, in the memory order asked for."""
    if order is Order.CHANNELS_LAST:
        seen = _seen_in_2d(tensor)
        form = _CHANNELS_LAST[seen.dim()]
        made = allocated(lambda: torch.empty_like(seen, memory_format=form, requires_grad=False))
        return made.squeeze(2) if tensor.dim() == 3 else made
    form = torch.preserve_format if order is Order.OWN else torch.contiguous_format
    return allocated(lambda: torch.empty_like(tensor, memory_format=form, requires_grad=False))


def allocated(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """A tensor made by `make`; PyTorch says RuntimeError where there is no memory for it."""
    try:
        return make()
    except RuntimeError as error:
        raise MemoryError(f"no memory for a result: {error}") from error
