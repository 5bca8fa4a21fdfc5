"""Who is timed on a problem: the engine, PyTorch, JAX. Each is a function without arguments, made once.

PyTorch and JAX are imported when they are first asked for; where one is missing or cannot do a problem there is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from convgrad import engines
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.plan import Result
from convgrad.core.request import FORMAT_BY_RANK, Operator, Request, pad_pairs
from convgrad.core.tensor import Tensor
from convgrad.functional import ExecutablePlan

Call = Callable[[], Any]
Operands = Sequence[AnyArray | Tensor]
"""grad_output, input, weight."""


def has_pytorch() -> bool:
    """Whether PyTorch is installed; it is not imported."""
    return find_spec("torch") is not None


def operands(made: ExecutablePlan, channels_last: bool = False) -> list[AnyArray | Tensor]:
    """Normal numbers in the plan's dtypes, the same on every call; data tensors channels last where asked."""
    rng = np.random.default_rng(0)
    r = made.problem.request
    tensors: list[AnyArray | Tensor] = []
    for spec in (r.grad_output, r.input, r.weight):
        assert spec is not None
        array = rounding.store(dtypes.find(spec.dtype), rng.standard_normal(spec.shape, np.float32))
        if channels_last and spec is not r.weight and r.operator is Operator.CONV:
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        tensors.append(Tensor(array, spec.dtype) if spec.dtype == "hifloat8" else array)
    return tensors


def engine_call(made: ExecutablePlan, tensors: Operands, fresh: bool = True) -> Call:
    """The plan run on these tensors, results in fresh arrays as PyTorch's are, and in the operands' layout as well.

    Not fresh, the same arrays every time: what is timed is the engine without the system that hands out memory.
    """
    if fresh:
        return lambda: made.run(*tensors)
    kept = made.run(*tensors)
    return lambda: made.run(*tensors, out=kept)


def engine_paths(made: ExecutablePlan, tensors: Operands) -> tuple[str, ...]:
    """The paths the engine takes on these tensors, results as it makes them."""
    g, x, w = (t.data if isinstance(t, Tensor) else t for t in tensors)
    found = zip((Result.GRAD_INPUT, Result.GRAD_WEIGHT, Result.GRAD_BIAS), made.run(*tensors), strict=True)
    results = {result: a.data if isinstance(a, Tensor) else a for result, a in found if a is not None}
    fine, coarse = (g, x) if made.problem.transposed else (x, g)
    return engines.paths_of(made, fine, coarse, w, results)


# ---- PyTorch -----------------------------------------------------------------------------------------------


def pytorch_call(request: Request, tensors: Operands) -> Call | None:
    """PyTorch's own gradients of the same tensors, in float32 where it has no such dtype (HF32, HIFLOAT8)."""
    if request.forward or not _plain_form(request):
        return None
    try:
        import torch
    except ImportError:
        return None
    g, x, w = (_as_torch(torch, tensor) for tensor in tensors)
    if request.operator is Operator.TBC:
        bias = torch.zeros(g.shape[2], dtype=g.dtype)
        call: Call = lambda: torch.ops.aten.conv_tbc_backward(g, x, w, bias, request.pad)  # noqa: E731
    else:
        rank = x.ndim - 2
        pads = [low for low, _ in pad_pairs(request.padding or (0,) * rank, rank) or ()]
        attributes = (
            [g.shape[1]], request.stride, pads, request.dilation, request.transposed, request.output_padding,
            request.groups, request.output_mask,
        )
        call = lambda: torch.ops.aten.convolution_backward(g, x, w, *attributes)  # noqa: E731
    try:
        call()
    except RuntimeError:  # a dtype or a shape it has no kernel for
        return None
    return call


def _plain_form(request: Request) -> bool:
    """Whether PyTorch can be asked the same: channels first, the same padding on both sides."""
    specs = [spec for spec in (request.grad_output, request.input, request.weight) if spec is not None]
    if len(specs) < 3 or request.operator is Operator.TBC:
        return len(specs) == 3
    rank = len(specs[1].shape) - 2
    pairs = pad_pairs(request.padding or (0,) * rank, rank)
    return (
        all(spec.format in ("ND", FORMAT_BY_RANK.get(len(spec.shape))) for spec in specs)
        and pairs is not None and all(low == high for low, high in pairs)
    )  # fmt: skip


def _as_torch(torch: Any, tensor: AnyArray | Tensor) -> Any:
    """The same memory as a torch tensor; numbers PyTorch has no dtype for as float32."""
    if isinstance(tensor, Tensor):
        return torch.from_numpy(tensor.values())
    if tensor.dtype.name in ("float32", "float64"):
        return torch.from_numpy(tensor)
    return torch.from_numpy(tensor.view(f"i{tensor.itemsize}")).view(getattr(torch, tensor.dtype.name))


# ---- JAX ---------------------------------------------------------------------------------------------------


def jax_call(request: Request, tensors: Operands) -> Call | None:
    """The vector-Jacobian product, compiled; only where JAX says the same (no transposed, no TBC, no HF32)."""
    if request.math or request.transposed or request.operator is Operator.TBC or not _plain_form(request):
        return None
    try:
        import jax as installed
    except ImportError:
        return None
    jax: Any = installed  # typed or not, depending on its version
    rank = tensors[1].ndim - 2
    letters = "DHW"[3 - rank :]
    numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    wants_input, wants_weight, _ = request.output_mask or (True, True, True)

    def gradients(g: Any, x: Any, w: Any) -> tuple[Any, Any]:
        def forward(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(
                x, w, request.stride, pad_pairs(request.padding or (), rank), rhs_dilation=request.dilation,
                feature_group_count=request.groups, dimension_numbers=numbers,
            )

        dx, dw = jax.vjp(forward, x, w)[1](g)
        return (dx if wants_input else None), (dw if wants_weight else None)

    compiled = jax.jit(gradients)
    given = [jax.numpy.asarray(t.values() if isinstance(t, Tensor) else t) for t in tensors]
    return lambda: jax.block_until_ready(compiled(*given))
