"""The contract a second time, as straight-line code: no rows, no facts, nothing imported from the rules.

Written from the contract's own text, so that an edit of a row needs two hands.
"""

from __future__ import annotations

from math import prod
from operator import ge

from convgrad.core.request import Operator, Request, TensorSpec

OK, NULL, INVALID, INNER = 0, 161001, 161002, 561103
LARGEST, MOST, MOST_WORK = 2**40, 2**60 - 1, 2**56
EIGHT_BIT = {"hifloat8", "float8_e4m3fn", "float8_e5m2"}
F16 = {"float32", "float16"}
BF16 = {"float32", "float16", "bfloat16"}
ALL = BF16 | EIGHT_BIT | {"float64"}
RECENT = {"950", "A2", "A3"}


def status(r: Request) -> int:
    """What the contract answers."""
    return _conv(r) if r.operator is Operator.CONV else _tbc(r)


def _uncountable(t: TensorSpec) -> bool:
    return any(not 0 <= n <= LARGEST for n in t.shape) or prod(max(n, 1) for n in t.shape) > MOST


def _promoted(*dtypes: str) -> str:
    if len(set(dtypes)) == 1:
        return dtypes[0]
    return "float64" if "float64" in dtypes else "float32"


def _math(r: Request, promoted: str, document: bool, without_float32: tuple[str, ...]) -> int:
    if not 0 <= r.math <= 3:
        return INVALID
    if r.product in without_float32 and promoted == "float32" and r.math in (0, 3):
        return INVALID
    if r.product in RECENT and promoted == "bfloat16" and r.math == 2 and document:
        return INVALID
    if r.operator is Operator.TBC and r.product == "910" and r.math == 3 and document:
        return INVALID
    return OK


# ---- aclnnConvolutionBackward ----------------------------------------------------------------------------


def _conv(r: Request) -> int:
    cpu, document = r.product == "cpu" or r.forward, r.conformance == "document"
    if r.grad_output is None or r.input is None or r.weight is None:
        return NULL
    if r.bias_sizes is None and document and not cpu:
        return NULL
    if None in (r.stride, r.padding, r.dilation, r.output_padding, r.output_mask):
        return NULL
    if len(r.output_mask) != 3:
        return NULL
    outputs = (r.grad_input, r.grad_weight, r.grad_bias)
    if any(wanted and output is None for wanted, output in zip(r.output_mask, outputs, strict=False)):
        return NULL
    if not cpu and r.product in ("310B", "310"):
        return INVALID
    for part in (_conv_dtypes, _conv_formats, _conv_values):
        if part(r, cpu, document):
            return INVALID
    dtypes = [t.dtype for t in (r.grad_output, r.input, r.weight)][1 if r.forward else 0 :]
    promoted = _promoted(*dtypes)
    if _math(r, promoted, document, ("910", "310P")):
        return INVALID
    empty_path = not cpu and not document and r.product in RECENT and (0 in r.input.shape or 0 in r.weight.shape)
    if _conv_shapes(r, cpu, document, empty_path):
        return INVALID
    if empty_path:
        return OK
    return OK if cpu else _conv_kernels(r, document, promoted)


def _conv_dtypes(r: Request, cpu: bool, document: bool) -> bool:
    go, x, w = r.grad_output.dtype, r.input.dtype, r.weight.dtype
    gx, gw, gb = (None if t is None else t.dtype for t in (r.grad_input, r.grad_weight, r.grad_bias))
    given = [d for d in (go, x, w, gx, gw, gb) if d is not None]
    if cpu:
        return any(d not in ALL for d in given)
    if r.product in ("910", "310P", "A2", "A3"):
        allowed = F16 if r.product in ("910", "310P") else BF16
        if any(d not in allowed for d in given):
            return True
        return document and ((gx or x) != x or (gw or w) != w or (gb or go) != go)
    any_8 = any(d in EIGHT_BIT for d in (go, x, w, gx, gw))
    if (gx or x) != x or (w not in EIGHT_BIT and (gw or w) != w) or (gb or go) != go:
        return True
    if document:
        with_8_bit = BF16 | {"hifloat8", "float8_e4m3fn"} if r.transposed and r.output_mask[0] else BF16
        if any(d not in with_8_bit for d in (go, x, w, gx or x)):
            return True
        if (gw or "float32") not in BF16 or (gb or "float32") not in BF16:
            return True
        return any_8 and not go == x == w
    if any(d not in BF16 | {"hifloat8"} for d in given):
        return True
    if not any_8:
        return False
    if not r.transposed:
        return gx is not None and gw is not None
    if r.output_mask[0] and not go == x == w == "hifloat8":
        return True
    return r.output_mask[1] and (gw != "float32" or r.groups != 1 or any(r.output_padding))


def _conv_formats(r: Request, cpu: bool, document: bool) -> bool:
    for t in (r.grad_output, r.input, r.weight, r.grad_input, r.grad_weight):
        if t is None:
            continue
        allowed = {3: ["NCL", "ND"], 4: ["NCHW"], 5: ["NCDHW"]}.get(len(t.shape), [])
        if t.format not in allowed + (["ND"] if cpu and allowed else []):
            return True
    if cpu:
        return False
    if document:
        ranks = [len(t.shape) for t in (r.grad_output, r.input, r.grad_input) if t is not None]
        if len(set(ranks)) > 1 or (r.grad_weight and len(r.grad_weight.shape) != len(r.weight.shape)):
            return True
    looked_at = document or (not r.transposed and r.product in RECENT)
    return r.grad_bias is not None and looked_at and r.grad_bias.format != "ND"


def _conv_values(r: Request, cpu: bool, document: bool) -> bool:
    tensors = (r.grad_output, r.input, r.weight, r.grad_input, r.grad_weight, r.grad_bias)
    if any(t is not None and _uncountable(t) for t in tensors):
        return True
    pads = [n for p in r.padding for n in (p if isinstance(p, tuple) else (p,))]
    if not cpu and any(isinstance(p, tuple) for p in r.padding):
        return True
    if any(n < 1 for n in (*r.stride, *r.dilation, r.groups)) or any(n < 0 for n in (*pads, *r.output_padding)):
        return True
    if any(n > LARGEST for n in (*r.stride, *r.dilation, *pads, r.groups)):
        return True
    if not r.transposed:
        return any(r.output_padding)
    stride = r.stride
    if cpu and len(stride) == len(r.dilation) == len(r.output_padding):
        return any(e >= s and e >= d for e, s, d in zip(r.output_padding, stride, r.dilation, strict=True))
    if len(r.output_padding) == 4 and len(stride) == 2:
        stride = (stride[0], stride[0], stride[1], stride[1])
    return any(slack >= step for slack, step in zip(r.output_padding, stride, strict=False))


def _conv_shapes(r: Request, cpu: bool, document: bool, empty: bool) -> bool:
    go, x, w = r.grad_output.shape, r.input.shape, r.weight.shape
    rank = len(w) - 2
    if not len(go) == len(x) == len(w):
        return True
    if not cpu and not empty and any(0 in shape for shape in (go, x, w)):
        # The document: an empty input by its batch, in plain calls also by its channels; weight[0] stays above 0.
        if not document or r.product not in RECENT or 0 not in x or w[0] == 0:
            return True
        if x[0] != 0 and (r.transposed or x[1] != 0):
            return True
    if (r.grad_input and r.grad_input.shape != x) or (r.grad_weight and r.grad_weight.shape != w):
        return True
    if r.grad_bias and not empty and r.grad_bias.shape != (go[1],):
        return True
    if len(r.stride) != rank or len(r.dilation) != rank:
        return True
    if len(r.padding) == 4 and rank == 2:
        if any(isinstance(p, tuple) for p in r.padding):
            return True
        pads = [r.padding[0] + r.padding[1], r.padding[2] + r.padding[3]]
    elif len(r.padding) == rank:
        pads = [sum(p) if isinstance(p, tuple) else 2 * p for p in r.padding]
    else:
        return True
    if len(r.output_padding) != rank and not (rank == 2 and len(r.output_padding) == 4 and not document):
        return True
    if _conv_bias_sizes(r, document, empty, go, w):
        return True
    coarse, fine = (x, go) if r.transposed else (go, x)
    if empty:
        return _conv_empty(r, go, x, w, pads)
    if coarse[1] != w[0] or fine[1] != w[1] * r.groups or w[0] % r.groups or go[0] != x[0]:
        return True
    far = r.transposed and len(r.output_padding) == rank and any(map(ge, r.output_padding, r.stride))
    for i in range(rank):
        room = fine[2 + i] + pads[i] - r.dilation[i] * (w[2 + i] - 1) - 1
        if not cpu and not r.transposed and 0 in x and room < 0:
            return True
        if far:  # as PyTorch has it: the sizes follow from output_padding
            if room != (coarse[2 + i] - 1) * r.stride[i] + r.output_padding[i]:
                return True
        elif coarse[2 + i] != room // r.stride[i] + 1:
            return True
    return prod(max(n, 1) for n in (*coarse, *w[1:])) > MOST_WORK


def _conv_bias_sizes(r: Request, document: bool, empty: bool, go: tuple, w: tuple) -> bool:
    channels = w[1] * r.groups if empty and r.transposed else go[1]
    if document:
        if r.bias_sizes is None:
            return False
        return len(r.bias_sizes) != 1 or (r.output_mask[2] and r.bias_sizes != (channels,))
    return empty and r.output_mask[2] and r.bias_sizes != (channels,)


def _conv_empty(r: Request, go: tuple, x: tuple, w: tuple, pads: list) -> bool:
    if r.output_mask[0] and x[0] and x[1]:
        return True
    if w[0] % r.groups:
        return True
    fine_channels = go[1] if r.transposed else x[1]
    if not (r.transposed and x[0] == 0) and fine_channels != w[1] * r.groups:
        return True
    if r.transposed:
        return w[0] == 0 or w[0] != x[1]
    return any(x[i] + p < (w[i] - 1) * d + 1 for i, (p, d) in enumerate(zip(pads, r.dilation, strict=False), start=2))


def _conv_kernels(r: Request, document: bool, promoted: str) -> int:
    rank = len(r.weight.shape) - 2
    if r.product in ("910", "310P"):
        return INVALID if rank == 3 else OK
    grouped_3d = rank == 3 and r.output_mask[1] and r.groups > 1 and r.grad_weight.dtype == "float32"
    if not document and r.product in ("A2", "A3") and grouped_3d and (r.math == 2 or promoted != "float32"):
        return INVALID
    if not document and r.product == "950":
        tensors = (r.grad_output, r.input, r.weight, r.grad_input, r.grad_weight)
        any_8 = any(t is not None and t.dtype in EIGHT_BIT for t in tensors)
        if any_8 and not r.transposed and (r.output_mask[0] or r.output_mask[1]):
            return INNER
        if r.output_mask[2] and r.grad_bias.dtype in EIGHT_BIT:
            return INNER
    wide = max(r.weight.shape[2:][-2:]) > 255
    if wide and (not r.transposed if r.product in ("A2", "A3") else r.transposed):
        return INVALID if document else INNER
    hw_pads = r.padding if rank < 3 else r.padding[1:]
    far = (rank == 3 and max(r.stride[1:]) > 63) or max(hw_pads) > 255 or max(r.dilation) > 255
    if r.product in ("A2", "A3") and not r.transposed and far:
        return INNER
    if r.groups > 65535:
        return INNER
    if r.product == "950" and r.transposed:
        if rank == 3 and max(r.stride[0], r.padding[0], r.dilation[0]) > 1_000_000:
            return INNER
        if max(*r.stride[-2:], *hw_pads, *r.dilation[-2:]) > 2147483646:
            return INNER
    return OK


# ---- aclnnConvTbcBackward --------------------------------------------------------------------------------


def _tbc(r: Request) -> int:
    cpu, document = r.product == "cpu" or r.forward, r.conformance == "document"
    if r.grad_output is None or r.input is None or r.weight is None or (r.bias is None and not cpu):
        return NULL
    if not r.forward and None in (r.grad_input, r.grad_weight, r.grad_bias):
        return NULL
    if not cpu and r.product in ("310P", "310B", "310"):
        return INVALID
    if _tbc_types(r, cpu, document) or _tbc_shapes(r, cpu, document):
        return INVALID
    dtypes = [t.dtype for t in (r.grad_output, r.input, r.weight)][1 if r.forward else 0 :]
    if _math(r, _promoted(*dtypes), document, ("910",)):
        return INVALID
    if cpu:
        return OK
    gw = r.grad_weight.dtype
    eight_bit_result = document and r.product == "950" and gw in ("hifloat8", "float8_e4m3fn")
    if r.grad_input.dtype != r.input.dtype or r.grad_bias.dtype != r.bias.dtype:
        return INVALID
    if gw != r.weight.dtype and not eight_bit_result:
        return INVALID
    largest = max(*r.grad_output.shape, *r.input.shape, *r.weight.shape)
    if document and r.product in ("A2", "A3") and largest > 2147483646:
        return INVALID
    if r.weight.shape[0] > 255:
        if document and r.product != "910":
            return INVALID
        if not document and r.product in ("A2", "A3"):
            return INNER
    if not document and r.product != "950" and r.pad > 255:
        return INNER
    return OK


def _tbc_types(r: Request, cpu: bool, document: bool) -> bool:
    inputs = [t for t in (r.grad_output, r.input, r.weight, r.bias) if t is not None]
    outputs = [t for t in (r.grad_input, r.grad_weight, r.grad_bias) if t is not None]
    allowed = ALL if cpu else F16 if r.product == "910" else BF16
    for t in (*inputs, *outputs):
        eight_bit = document and not cpu and r.product == "950" and t is r.grad_weight
        if t.dtype not in allowed and not (eight_bit and t.dtype in ("hifloat8", "float8_e4m3fn")):
            return True
    if document and not cpu and len({t.dtype for t in inputs}) > 1:
        return True
    for t in (*inputs, *outputs):
        nd_only = (t is r.bias or t is r.grad_bias) and not document and not cpu
        if t.format not in (("ND",) if nd_only else ("ND", "NCL")):
            return True
    return False


def _tbc_shapes(r: Request, cpu: bool, document: bool) -> bool:
    for t in (r.grad_output, r.input, r.weight, r.grad_input, r.grad_weight):
        if t is not None and (len(t.shape) != 3 or _uncountable(t)):
            return True
    for t in (r.bias, r.grad_bias):
        if t is not None and (len(t.shape) != 1 or _uncountable(t)):
            return True
    (length, batch, channels), (window, fine, coarse) = r.input.shape, r.weight.shape
    if channels != fine or (r.bias and r.bias.shape[0] != coarse):
        return True
    highest = 255 if document else 2147483647 if r.product == "950" else None
    if r.pad < 0 or (not cpu and highest is not None and r.pad > highest):
        return True
    out = length + 2 * r.pad - window + 1
    if out < 0 or r.grad_output.shape != (out, batch, coarse):
        return True
    if r.grad_input and r.grad_input.shape != r.input.shape:
        return True
    if r.grad_weight and r.grad_weight.shape != r.weight.shape:
        return True
    if r.grad_bias and r.grad_bias.shape != (coarse,):
        return True
    return prod(max(n, 1) for n in (*r.grad_output.shape, window, fine)) > MOST_WORK
