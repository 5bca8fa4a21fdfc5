"""Gradients of arrays larger than memory: the functional API on dask arrays.

Calls are checked at once, by the same rules as everywhere; what they return is lazy. The work is cut into blocks that
depend on the problem only, so results have the same bits for any chunking, any scheduler and any number of workers. At
level 3 of determinism they are the bits of `convgrad`'s own functions.
"""

from __future__ import annotations

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError("convgrad.dask needs Dask: pip install 'convgrad[dask]'") from error

from collections.abc import Sequence
from typing import Any

from convgrad.calls.requests import (
    Attributes,
    Numbers,
    Padding,
    Rules,
    conv_backward_request,
    default_algorithm,
    tbc_backward_request,
)
from convgrad.core import arguments
from convgrad.core.partition import Partition, partition
from convgrad.core.request import DEFAULT_CONFORMANCE, Request
from convgrad.core.status import ConvGradError
from convgrad.dask.collections import Rechunked, Tensor, operand, partitioned
from convgrad.dask.graph import gradients
from convgrad.functional import Gradients, Operand, plan, spec_of

__all__ = ["Rechunked", "Tensor", "chunks", "conv_backward", "conv_tbc_backward"]


def conv_backward(
    grad_output: object, input: object, weight: object, bias_sizes: Sequence[int] | None = None, *,
    stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1, transposed: bool = False,
    output_padding: Numbers = 0, groups: int = 1, output_mask: Sequence[bool] = (True, True, True),
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[object] | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[Any, Any, Any]:
    """Lazy gradients of a 1-D, 2-D or 3-D convolution, plain or transposed; arguments as `convgrad.conv_backward`.

    Operands are dask arrays (or anything the functional API takes), chunked in any way. `threads` is the number of
    engine threads of one task; by default a task has one core when others may run beside it, else all of them.
    At `deterministic=3` a task computes whole samples, and every gradient has the bits of `convgrad.conv_backward`.

    >>> import dask.array as da, convgrad.dask
    >>> x = da.ones((8, 2, 16, 16), chunks=(2, 2, 16, 16), dtype="float32")
    >>> w = da.ones((2, 2, 3, 3), dtype="float32")
    >>> convgrad.dask.conv_backward(x, x, w, padding=1).bias.compute()
    array([2048., 2048.], dtype=float32)
    """
    _refuse_buffers(out)
    g, x, w = operand(grad_output, "grad_output"), operand(input, "input"), operand(weight, "weight")
    asked = Attributes(bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)
    chosen = default_algorithm(product) if algorithm is None else algorithm
    rules = Rules(math, product, conformance, chosen, deterministic=deterministic)
    return _lazy(conv_backward_request(spec_of(g), spec_of(x), spec_of(w), asked, rules), g, x, w, threads)


def conv_tbc_backward(
    grad_output: object, input: object, weight: object, bias: object | None = None, *, pad: int = 0,
    math: str | int = "keep", product: str = "cpu", conformance: str = DEFAULT_CONFORMANCE,
    algorithm: str | None = None, out: Sequence[object] | None = None, threads: int | None = None,
    deterministic: int = 0,
) -> Gradients[Any, Any, Any]:
    """Lazy gradients of the time-batch-channel convolution; arguments as `convgrad.conv_tbc_backward`."""
    _refuse_buffers(out)
    g, x, w = operand(grad_output, "grad_output"), operand(input, "input"), operand(weight, "weight")
    b = None if bias is None else operand(bias, "bias")
    specs = (spec_of(g, "ND"), spec_of(x, "ND"), spec_of(w, "ND"), None if b is None else spec_of(b, "ND"))
    chosen = default_algorithm(product) if algorithm is None else algorithm
    rules = Rules(math, product, conformance, chosen, deterministic=deterministic)
    return _lazy(tbc_backward_request(*specs, pad, rules), g, x, w, threads)


def chunks(request: Request | str) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The chunks a problem is computed in, for arrays to be stored that way: nothing is rechunked then.

    >>> convgrad.dask.chunks("conv n64 c64>64 i224x224 k3x3 p1")["input"][0]
    (2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
    """
    made = partition(plan(Request.parse(request) if isinstance(request, str) else request))
    return partitioned(made)


def _lazy(request: Request, g: Operand, x: Operand, w: Operand, threads: int | None) -> Gradients[Any, Any, Any]:
    count = arguments.threads(threads)
    cut: Partition = partition(plan(request))
    return gradients(cut, g, x, w, count)


def _refuse_buffers(out: Sequence[object] | None) -> None:
    if out is not None:
        raise ConvGradError(
            "out: lazy gradients write nothing by themselves; use dask.array.store(gradients.input, target)",
            rule="out.lazy", value=type(out).__name__,
        )
