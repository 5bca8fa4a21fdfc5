"""A model run for its convolutions, forward and backward: on the meta device from shapes alone, or on the CPU.

On the meta device parameters, buffers and inputs are replaced by tensors that have shapes and no memory, and whatever
the model makes on the way is made there too. A model that asks for values (`Tensor.item()`, a mask as an index) runs on
the CPU: on copies of its own tensors, with normal numbers for inputs given as shapes. The model itself is not changed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from convgrad.core.status import ConvGradError
from convgrad.torch.calls import Attributes
from convgrad.torch.convolutions import Seen
from convgrad.torch.emulation import ReplaceConvTbc
from convgrad.torch.layers import LayerNames, node_number

_aten = torch.ops.aten


DEVICES = ("meta", "cpu")


def run_model(model: nn.Module, inputs: object, dtype: torch.dtype | None, device: str = "meta") -> list[Seen]:
    """Every convolution in forward order, with its backward call where the model's outputs ask for one."""

    def converted(tensor: Tensor) -> Tensor:
        kept = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        if device == "meta":
            # detach: a non-leaf input would drag its own graph along
            made = torch.empty_like(tensor.detach(), device="meta", dtype=kept)
        elif tensor.is_meta:
            made = torch.zeros_like(tensor.detach(), device=device, dtype=kept)
        else:
            made = tensor.detach().to(device, kept, copy=True)
        return made.requires_grad_(tensor.requires_grad)

    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise ConvGradError(
            "the model has lazy parameters without a shape: run it once first", rule="scan.lazy", value=type(model)
        )
    state = {n: converted(t) for n, t in (*model.named_parameters(), *model.named_buffers())}
    own = next((t.dtype for t in state.values() if t.is_floating_point()), torch.float32)
    args, kwargs = _arguments(inputs, dtype or own, converted, device)
    observer = (_Observer if device == "meta" else _Watcher)(LayerNames())
    try:
        with torch.device(device), torch.enable_grad(), observer.layers, ReplaceConvTbc(observer.tbc_made), observer:
            outputs = torch.func.functional_call(model, state, args, kwargs)
            ends = [t for t in _tensors(outputs) if t.requires_grad and t.is_floating_point()]
            if ends:
                torch.autograd.backward(ends, [torch.empty_like(t) for t in ends])
    except ConvGradError:
        raise
    except Exception as error:
        where = f" (in {name})" if (name := observer.layers.failed_in(error)) else ""
        kind, words = type(error).__name__, str(error).removesuffix(".")
        if device == "meta":
            message = (
                f"the model cannot run on shapes alone{where}: {kind}: {words}. If it asks for the value of a tensor, "
                'run it on real ones: scan(..., device="cpu"), --device cpu'
            )
        else:
            message = f"the model cannot run on the CPU{where}: {kind}: {words}"
        raise ConvGradError(message, rule="scan.run", value=kind) from error
    return observer.seen


def _arguments(
    inputs: object, dtype: torch.dtype, converted: Any, device: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments on the device; normal numbers, the same every time, where there is a shape."""
    random = torch.Generator().manual_seed(0)

    def is_shape(value: object) -> bool:
        return isinstance(value, (tuple, list)) and len(value) > 0 and all(type(n) is int for n in value)

    def on_device(value: Any) -> Any:
        if is_shape(value):
            if min(value) < 0:
                message = f"a shape has no negative sizes, got {tuple(value)}"
                raise ConvGradError(message, rule="scan.inputs", value=tuple(value))
            if device == "meta":
                return torch.empty(value, dtype=dtype, device="meta")
            return torch.randn(value, generator=random).to(dtype)
        return tree_map(lambda t: converted(t) if isinstance(t, Tensor) else t, value)

    if inputs is None:
        raise ConvGradError("inputs is missing: a tensor, a shape, or a sequence of them", rule="scan.inputs")
    if isinstance(inputs, dict):
        return (), {name: on_device(value) for name, value in inputs.items()}
    if isinstance(inputs, Tensor) or is_shape(inputs):
        return (on_device(inputs),), {}
    if isinstance(inputs, (tuple, list)):
        return tuple(on_device(value) for value in inputs), {}
    kind = type(inputs).__name__
    raise ConvGradError(
        f"inputs must be a tensor, a shape, or a sequence or dict of them, not {kind}", rule="scan.inputs", value=kind
    )


def _tensors(outputs: object) -> list[Tensor]:
    """Tensors of whatever a model returns, also inside objects of its own."""
    found: list[Tensor] = []
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dict__"):
            found += [t for t in tree_leaves(list(vars(leaf).values())) if isinstance(t, Tensor)]
    return found


class _Watcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down convolutions."""

    def __init__(self, layers: LayerNames) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layers = layers
        self.seen: list[Seen] = []
        self._by_node: dict[int, Seen] = {}

    def tbc_made(self, node: int) -> None:
        """The last convolution seen is a torch.conv_tbc with this autograd node."""
        self._by_node[node] = self.seen[-1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _aten.convolution.default:
            return self._forward(func, args, f"conv{'_transpose' if args[6] else ''}{args[0].dim() - 2}d")
        if func is _aten.conv_tbc.default:
            return self._forward(func, args, "conv_tbc")
        node = node_number()
        seen = None if node is None else self._by_node.get(node)
        if seen is not None and func is _aten.convolution_backward.default:
            seen.backward = (*_on_meta(args[:3]), Attributes.of(args[3:]))
        elif seen is not None and func is torch.ops.convgrad.pytorch_conv_tbc_backward.default:
            seen.backward = _on_meta(args)
        return func(*args, **kwargs)

    def _forward(self, func: Any, args: Any, kind: str) -> Any:
        seen = Seen(self.layers.current(), kind, *_on_meta(args[:2]))
        self.seen.append(seen)
        if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            self._by_node[torch._C._autograd._get_sequence_nr() - 1] = seen
        output = func(*args)
        seen.output = tuple(output.shape)
        return output


class _Observer(_Watcher):  # type: ignore[no-untyped-call]
    """Writes down convolutions, and keeps every tensor on the meta device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = _on_meta(args), _on_meta(dict(kwargs or {}))
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("meta")
        return super().__torch_dispatch__(func, types, args, kwargs)


def _on_meta(values: Any) -> Any:
    """Tensors from elsewhere (constants a model holds outside of its buffers) without their memory."""
    return tree_map(
        lambda t: torch.empty_like(t, device="meta") if isinstance(t, Tensor) and not t.is_meta else t, values
    )
