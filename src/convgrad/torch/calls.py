"""From the arguments of a torch operator to a decided call, and from a decided call to gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from convgrad import engines, functional
from convgrad.calls import requests
from convgrad.calls.decide import Decision, refusal, remembered
from convgrad.calls.requests import Attributes
from convgrad.core.bounded import Bounded
from convgrad.core.determinism import read_level
from convgrad.core.plan import Plan, Result
from convgrad.core.request import (
    DEFAULT_ALGORITHM,
    DEFAULT_CONFORMANCE,
    FORMAT_BY_RANK,
    Request,
    TensorSpec,
    read_algorithm,
)
from convgrad.core.status import ConvGradError
from convgrad.engines.problem_struct import Packed
from convgrad.torch.memory import (
    Order,
    allocated,
    array_of,
    dtype_name,
    gradient_like,
    orders_of_results,
)

__all__ = [
    "Attributes", "Decision", "Settings", "Three", "conv_request", "decide_conv", "decide_forward", "decide_tbc",
    "gradients", "output", "output_like", "refusal", "spec_of", "tbc_request",
]

TensorOrNone = torch.Tensor | None
Three = tuple[TensorOrNone, TensorOrNone, TensorOrNone]


@dataclass(frozen=True, slots=True)
class Settings:
    """Under which rules and numerics a call is computed."""

    product: str = "cpu"
    math: int = 0
    conformance: str = DEFAULT_CONFORMANCE
    algorithm: str = DEFAULT_ALGORITHM
    compute: str | None = None
    """Operands are rounded to this dtype, whatever the product would do."""
    deterministic: int = 0

    @property
    def rules(self) -> requests.Rules:
        """As a part of a request."""
        return requests.Rules(
            self.math, self.product, self.conformance, self.algorithm, deterministic=self.deterministic
        )

    @staticmethod
    def of(
        product: str, math: str | int, conformance: str, algorithm: str | None = None, deterministic: int = 0
    ) -> Settings:
        """From the names users write; a wrong one raises."""
        return Settings(
            requests.read_product(product), requests.read_math(math), requests.read_conformance(conformance),
            requests.default_algorithm(product) if algorithm is None else read_algorithm("algorithm", algorithm),
            deterministic=read_level("deterministic", deterministic),
        )


def decide_conv(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, attributes: Attributes
) -> Decision:
    """The decision on one aten.convolution_backward."""
    key = (
        settings, attributes, grad_output.shape, grad_output.dtype, input.shape, input.dtype, weight.shape, weight.dtype
    )
    return remembered(
        key, lambda: conv_request(settings, grad_output, input, weight, attributes), settings.compute
    )


def decide_tbc(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
    pad: int,
) -> Decision:
    """The decision on one backward call of torch.conv_tbc."""
    key = (
        settings, pad, grad_output.shape, grad_output.dtype, input.shape, input.dtype, weight.shape, weight.dtype,
        bias.shape, bias.dtype,
    )
    return remembered(
        key, lambda: tbc_request(settings, grad_output, input, weight, bias, pad), settings.compute
    )


def decide_forward(
    settings: Settings, input: torch.Tensor, weight: torch.Tensor, numbers: Attributes | int
) -> Decision:
    """The decision on one forward pass; `numbers` is the padding alone for the time-batch-channel operator."""
    key = (settings, numbers, input.shape, input.dtype, weight.shape, weight.dtype)
    return remembered(key, lambda: _forward_request(settings, input, weight, numbers), settings.compute)


def _forward_request(
    settings: Settings, input: torch.Tensor, weight: torch.Tensor, numbers: Attributes | int
) -> Request:
    if isinstance(numbers, int):
        return requests.forward_request(_nd(input), _nd(weight), None, settings.rules, numbers)
    padded = numbers._replace(padding=_pads(numbers.padding, input.dim() - 2))
    return requests.forward_request(spec_of(input), spec_of(weight), padded, settings.rules)


def conv_request(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, attributes: Attributes
) -> Request:
    """The request behind one aten.convolution_backward."""
    channels = grad_output.shape[1] if grad_output.dim() > 1 else 0
    # Autograd passes [0] for a layer without bias; the device is then told the number of channels.
    sizes: Any = attributes.bias_sizes
    asked = attributes._replace(
        bias_sizes=sizes if sizes and any(sizes) else (channels,),
        padding=_pads(attributes.padding, input.dim() - 2),
    )
    return requests.conv_backward_request(spec_of(grad_output), spec_of(input), spec_of(weight), asked, settings.rules)


def _pads(padding: Any, rank: int) -> Any:
    """One number per axis as they are; two per axis as (low, high) pairs, in 2-D as the vendor's four numbers."""
    if rank != 2 and len(padding) == 2 * rank:
        return tuple(zip(padding[::2], padding[1::2], strict=True))
    return padding


def tbc_request(
    settings: Settings, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
    pad: int,
) -> Request:
    """The request behind one backward call of torch.conv_tbc."""
    g, x, w, b = (_nd(t) for t in (grad_output, input, weight, bias))
    return requests.tbc_backward_request(g, x, w, b, pad, settings.rules)


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Shape, dtype and layout of a tensor; channels_last is a memory order, not another layout."""
    return TensorSpec(tuple(tensor.shape), dtype_name(tensor), FORMAT_BY_RANK.get(tensor.dim(), "ND"))


def _nd(tensor: torch.Tensor) -> TensorSpec:
    return replace(spec_of(tensor), format="ND")


@dataclass(frozen=True, slots=True)
class _Form:
    """What a call on tensors of certain strides knows in advance."""

    plan: Plan
    orders: tuple[Order, Order]
    """Of the gradients of input and weight."""
    packed: Packed | None

    def takes(self, tensors: tuple[torch.Tensor, ...]) -> bool:
        """Whether the engine can read and write these where they lie."""
        return not any(t.data_ptr() % t.element_size() or t.is_neg() for t in tensors)


# By plan (its identity: a form keeps it alive), strides of the operands, and whether oneDNN chooses the memory order.
_forms: Bounded[tuple[Any, ...], _Form] = Bounded(4096)


def gradients(
    plan: Plan, grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, threads: int | None = None
) -> Three:
    """grad_input, grad_weight and grad_bias of an accepted call, in the memory order PyTorch would give them."""
    one_dnn = torch._C._get_mkldnn_enabled()  # type: ignore[attr-defined, unused-ignore]
    key = (id(plan), grad_output.stride(), input.stride(), weight.stride(), one_dnn)
    form = _forms.get(key)
    orders = _orders(plan, input, weight) if form is None else form.orders
    made: dict[Result, torch.Tensor] = {}
    for step in plan.steps:
        if step.result is Result.GRAD_BIAS:
            spec = plan.problem.request.grad_bias
            assert spec is not None
            made[step.result] = torch.empty(spec.shape, dtype=getattr(torch, step.stored_as))
        else:
            like, order = (input, orders[0]) if step.result is Result.GRAD_INPUT else (weight, orders[1])
            made[step.result] = gradient_like(like, order)
    count = threads or torch.get_num_threads()
    on_grids = (grad_output, input) if plan.problem.transposed else (input, grad_output)
    tensors = (*on_grids, weight, *made.values())
    found = made.get(Result.GRAD_INPUT), made.get(Result.GRAD_WEIGHT), made.get(Result.GRAD_BIAS)
    if form is not None and form.packed is not None and form.takes(tensors) and engines.run_packed(
        plan, form.packed, [t.data_ptr() for t in tensors], count
    ):
        return found
    fine, coarse, w = (array_of(t) for t in tensors[:3])
    results = {result: array_of(t) for result, t in made.items()}
    if form is None:
        _forms.keep(key, _Form(plan, orders, engines.packed_for(plan, fine, coarse, w, results)))
    engines.run(plan, fine, coarse, w, results, threads=count)
    return found


def output(
    plan: Plan, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, threads: int | None = None
) -> torch.Tensor:
    """The forward pass of an accepted call, in the memory order PyTorch would give it."""
    problem = plan.problem
    spec = problem.request.grad_output
    assert spec is not None
    values = None
    if bias is not None:
        channels = spec.shape[problem.data_order[1] or 0]
        if tuple(bias.shape) != (channels,):
            message = f"bias must have shape ({channels},), got {tuple(bias.shape)}"
            raise ConvGradError(message, rule="bias.shape", value=tuple(bias.shape), line=problem.line)
        values = functional.bias_values(array_of(bias), dtype_name(bias), problem.line)
    made = output_like(input, spec.shape, _orders(plan, input, weight)[0])
    x = array_of(input)
    fine, coarse = (None, x) if problem.transposed else (x, None)
    engines.run_forward(
        plan, fine, coarse, array_of(weight), values, array_of(made), threads=threads or torch.get_num_threads()
    )
    return made


def output_like(input: torch.Tensor, shape: tuple[int, ...], order: Order) -> torch.Tensor:
    """An unwritten output of this shape."""
    plain = allocated(lambda: input.new_empty(shape))
    return gradient_like(plain, order) if order is Order.CHANNELS_LAST else plain


def _orders(plan: Plan, input: torch.Tensor, weight: torch.Tensor) -> tuple[Order, Order]:
    """Of results that are like the input, and like the weight."""
    r = plan.problem.request
    if not r.operator.has_mask:
        return Order.PLAIN, Order.PLAIN
    padding = [p for p in r.padding or () if isinstance(p, int)]
    return orders_of_results(
        input, weight, r.stride or (), padding, r.dilation or (), r.transposed, r.output_padding or (), r.groups
    )
