"""Which layer a convolution belongs to: module names while the model runs forward, kept until its backward call.

Autograd numbers its nodes. The number of the node a forward call made is known inside that call (the node is made
just before the operator runs), and inside the backward call it is the number of the node being evaluated.
"""

from __future__ import annotations

import sys
import threading
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_MOST_NODES = 1 << 16


class LayerNames:
    """A context in which `current()` is the innermost module running forward, by its name in the outermost one."""

    def __init__(self) -> None:
        self._running = threading.local()
        self._by_node: dict[int, str] = {}
        self._hooks: list[tuple[Any, Any]] = []
        self._failed: tuple[BaseException | None, str] = (None, "")

    def __enter__(self) -> LayerNames:
        before = register_module_forward_pre_hook(self._entered)
        self._hooks.append((before, register_module_forward_hook(self._left, always_call=True)))
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks.pop():
            hook.remove()
        if not self._hooks:
            self._running = threading.local()

    def current(self) -> str:
        """Name of the layer running forward on this thread; empty outside of any module."""
        stack = self._stack()
        return stack[-1][1] if stack else ""

    def failed_in(self, error: BaseException) -> str:
        """Name of the innermost module whose forward raised this; empty when none did."""
        raised, name = self._failed
        return name if raised is error else ""

    def keep(self, tensors: tuple[object, ...]) -> None:
        """Called inside a forward operator: the node it was made for belongs to the current layer."""
        differentiable = any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors)
        if differentiable and torch.is_grad_enabled():
            self.keep_node(torch._C._autograd._get_sequence_nr() - 1)

    def keep_node(self, number: int) -> None:
        """The node of this number belongs to the current layer."""
        if len(self._by_node) >= _MOST_NODES:
            del self._by_node[next(iter(self._by_node))]
        self._by_node[number] = self.current()

    def of_backward(self) -> str:
        """Called inside a backward operator: the layer whose node is being evaluated."""
        number = node_number()
        return "" if number is None else self._by_node.get(number, "")

    def _stack(self) -> list[tuple[Module, str]]:
        if not hasattr(self._running, "stack"):
            self._running.stack = []
            self._running.names = WeakKeyDictionary()
        stack: list[tuple[Module, str]] = self._running.stack
        return stack

    def _entered(self, module: Module, inputs: Any) -> None:
        stack = self._stack()
        if not stack:
            self._running.names = WeakKeyDictionary({m: _name(n, m) for n, m in module.named_modules()})
        stack.append((module, self._running.names.get(module, type(module).__name__)))

    def _left(self, module: Module, inputs: Any, output: Any) -> None:
        stack = self._stack()
        raised = sys.exc_info()[1]  # hooks of a module that raises run while its exception is handled
        if raised is not None and raised is not self._failed[0]:
            self._failed = (raised, self.current())
        while stack and stack.pop()[0] is not module:
            pass  # a module whose forward raised never says that it was left


def _name(path: str, module: Module) -> str:
    """The path without the wrappers of torch.compile; the outermost module goes by its type."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod") or type(module).__name__


def node_number() -> int | None:
    """Number of the autograd node being evaluated on this thread."""
    node: Any = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())
