"""Request → named facts: the only code among the rules. No fact ever raises, however nonsensical the request.

Each fact is one function of the request with one line of documentation; facts are computed when a row asks.
A missing tensor or attribute makes every fact about it `None`. List facts are tuples of integers, one element
per spatial axis (depth, height, width order), shorter in lower ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from convgrad.core.geometry import INT64_MAX
from convgrad.core.precision import promote
from convgrad.core.products import EMPTY_PATH
from convgrad.core.request import Operator, PadEntry, Request, TensorSpec, pad_pairs
from convgrad.rules.vocabulary import Value

EIGHT_BIT_FLOATS = ("hifloat8", "float8_e4m3fn", "float8_e5m2")


class Kind(Enum):
    """How a fact is stored and printed (the C side switches on it)."""

    POINTER = "pointer"
    NUMBER = "number"
    LIST = "list"
    FLAG = "flag"
    DTYPE = "dtype"
    FORMAT = "format"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True)
class Fact:
    """A named reading of a request, with the words messages use for it."""

    name: str
    kind: Kind
    about: str
    """What it is, exactly: the definition the C side transcribes."""
    words: tuple[str, str]
    """How messages call it, in English and Chinese; `{fine}` is the tensor on the fine grid of the row."""
    read: Callable[[Facts], Value]


class Facts(dict[str, Value]):
    """Facts of one request, each computed once, when first asked for."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request

    def __missing__(self, name: str) -> Value:
        value = FACTS[name].read(self)
        self[name] = value
        return value


TENSORS = {
    "grad_output": "gradOutput", "input": "input", "weight": "weight", "bias": "bias",
    "grad_input": "gradInput", "grad_weight": "gradWeight", "grad_bias": "gradBias",
}  # fmt: skip
FACTS: dict[str, Fact] = {}


def _fact(name: str, kind: Kind, about: str, english: str, chinese: str, read: Callable[[Facts], Value]) -> None:
    assert name not in FACTS, name
    FACTS[name] = Fact(name, kind, about, (english, chinese), read)


def _saturated(number: int) -> int:
    return max(-INT64_MAX - 1, min(number, INT64_MAX))


def _span(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= max(size, 1)
        if product > INT64_MAX:
            return INT64_MAX
    return product


# ---- tensors ---------------------------------------------------------------------------------------------


def _tensor_facts(field: str) -> None:
    def get(f: Facts) -> TensorSpec | None:
        spec: TensorSpec | None = getattr(f.request, field)
        return spec

    def of(read: Callable[[TensorSpec], Value]) -> Callable[[Facts], Value]:
        def value(f: Facts) -> Value:
            spec = get(f)
            return None if spec is None else read(spec)

        return value

    label = TENSORS[field]
    _fact(field, Kind.POINTER, f"1 unless {label} is null", field, field, lambda f: None if get(f) is None else True)
    _fact(f"{field}.dtype", Kind.DTYPE, "its dtype", f"dtype of {field}", f"{field} 的数据类型", of(lambda t: t.dtype))
    _fact(f"{field}.format", Kind.FORMAT, "its layout", f"format of {field}", f"{field} 的数据格式",
          of(lambda t: t.format))  # fmt: skip
    _fact(f"{field}.rank", Kind.NUMBER, "how many axes its shape has", f"rank of {field}", f"{field} 的维数",
          of(lambda t: len(t.shape)))  # fmt: skip
    _fact(f"{field}.shape", Kind.LIST, "its shape", f"shape of {field}", f"{field} 的 shape", of(lambda t: t.shape))
    _fact(f"{field}.span", Kind.NUMBER, "product of max(size, 1) over its shape, saturated at 2^63-1",
          f"element count of {field}", f"{field} 的元素个数", of(lambda t: _span(t.shape)))  # fmt: skip
    if field in ("grad_output", "input", "weight"):
        _fact(f"{field}.empty", Kind.FLAG, "whether a size of its shape is 0", f"emptiness of {field}",
              f"{field} 是否为空 Tensor", of(lambda t: 0 in t.shape))  # fmt: skip


for _field in TENSORS:
    _tensor_facts(_field)


def _size(field: str, axis: int) -> Callable[[Facts], Value]:
    def read(f: Facts) -> Value:
        shape = f[f"{field}.shape"]
        return shape[axis] if isinstance(shape, tuple) and len(shape) > axis else None

    return read


def _sizes(field: str) -> Callable[[Facts], Value]:
    def read(f: Facts) -> Value:
        shape = f[f"{field}.shape"]
        return shape[2:] if isinstance(shape, tuple) else None

    return read


for _field in ("grad_output", "input"):
    _fact(f"{_field}.batch", Kind.NUMBER, "its shape[0]", f"batch of {_field}", f"{_field} 的 N", _size(_field, 0))
    _fact(f"{_field}.channels", Kind.NUMBER, "its shape[1]", f"channels of {_field}", f"{_field} 的 C",
          _size(_field, 1))  # fmt: skip
    _fact(f"{_field}.size", Kind.LIST, "its shape from axis 2 on", f"spatial size of {_field}", f"{_field} 的空间尺寸",
          _sizes(_field))  # fmt: skip
_fact("weight.first", Kind.NUMBER, "weight.shape[0]", "weight.shape[0]", "weight.shape[0]", _size("weight", 0))
_fact("window", Kind.LIST, "weight.shape from axis 2 on", "window", "卷积核", _sizes("weight"))


def _window_hw(f: Facts) -> Value:
    window = f["window"]
    return window[-2:] if isinstance(window, tuple) else None


_fact("window.hw", Kind.LIST, "the last two elements of window (one in 1-D)", "window H, W (1-D: L)",
      "卷积核 H、W（1D：L）", _window_hw)  # fmt: skip


def _fine_from_weight(f: Facts) -> Value:
    second = _size("weight", 1)(f)
    return _saturated(second * f.request.groups) if isinstance(second, int) else None


_fact("weight.fine_channels", Kind.NUMBER, "groups * weight.shape[1], saturated", "groups * weight.shape[1]",
      "groups * weight.shape[1]", _fine_from_weight)  # fmt: skip
_fact("input.batch_zero", Kind.FLAG, "whether input.shape[0] is 0", "whether the batch is zero", "N 是否为 0",
      lambda f: None if f["input.batch"] is None else f["input.batch"] == 0)  # fmt: skip


def _smaller(f: Facts) -> Value:
    batch, channels = f["input.batch"], f["input.channels"]
    return min(batch, channels) if isinstance(batch, int) and isinstance(channels, int) else None


_fact("input.batch_or_channels", Kind.NUMBER, "the smaller of input.shape[0] and input.shape[1]",
      "the smaller of input's batch and channels", "input 的 N 与 C 中较小者", _smaller)  # fmt: skip


# ---- attributes ------------------------------------------------------------------------------------------


def _flat(padding: tuple[PadEntry, ...] | None) -> tuple[int, ...] | None:
    if padding is None:
        return None
    return tuple(n for p in padding for n in (p if isinstance(p, tuple) else (p,)))


def _length(values: tuple[object, ...] | None) -> int | None:
    return None if values is None else len(values)


def _padding_length(f: Facts) -> Value:
    padding = f.request.padding
    if padding is not None and f["dims"] == 2 and len(padding) == 4:
        return len(_flat(padding) or ())  # four pairs are no form of padding
    return _length(padding)


_fact("bias_sizes", Kind.LIST, "biasSizes", "bias_sizes", "biasSizes", lambda f: f.request.bias_sizes)
_fact("bias_sizes.length", Kind.NUMBER, "length of biasSizes", "length of bias_sizes", "biasSizes 的长度",
      lambda f: _length(f.request.bias_sizes))  # fmt: skip
_fact("stride", Kind.LIST, "stride", "stride", "stride", lambda f: f.request.stride)
_fact("stride.length", Kind.NUMBER, "length of stride", "length of stride", "stride 的长度",
      lambda f: _length(f.request.stride))  # fmt: skip
_fact("padding", Kind.LIST, "every number of padding", "padding", "padding", lambda f: _flat(f.request.padding))
_fact("padding.length", Kind.NUMBER, "length of padding", "length of padding", "padding 的长度", _padding_length)
_fact("padding.pairs", Kind.FLAG, "whether padding has (low, high) pairs; always 0 in C",
      "use of (low, high) pairs in padding", "padding 中的 (low, high) 成对写法",
      lambda f: any(isinstance(p, tuple) for p in f.request.padding or ()))  # fmt: skip
_fact("dilation", Kind.LIST, "dilation", "dilation", "dilation", lambda f: f.request.dilation)
_fact("dilation.length", Kind.NUMBER, "length of dilation", "length of dilation", "dilation 的长度",
      lambda f: _length(f.request.dilation))  # fmt: skip
_fact("output_padding", Kind.LIST, "outputPadding", "output_padding", "outputPadding",
      lambda f: f.request.output_padding)  # fmt: skip
_fact("output_padding.length", Kind.NUMBER, "length of outputPadding", "length of output_padding",
      "outputPadding 的长度", lambda f: _length(f.request.output_padding))  # fmt: skip
_fact("groups", Kind.NUMBER, "groups", "groups", "groups", lambda f: f.request.groups)
_fact("grouped", Kind.FLAG, "whether groups is above 1", "whether groups is above 1", "groups 是否大于 1",
      lambda f: f.request.groups > 1)  # fmt: skip
_fact("math", Kind.NUMBER, "cubeMathType", "math (cubeMathType)", "cubeMathType", lambda f: f.request.math)
_fact("transposed", Kind.FLAG, "transposed", "transposed", "transposed", lambda f: f.request.transposed)
_fact("forward", Kind.FLAG, "whether the forward pass is asked; always 0 in C", "forward", "forward",
      lambda f: f.request.forward)  # fmt: skip
_fact("product", Kind.PRODUCT, "the product", "product", "产品", lambda f: f.request.product)
_fact("pad", Kind.NUMBER, "pad (TBC)", "pad", "pad", lambda f: f.request.pad)
_fact("output_mask", Kind.POINTER, "1 unless outputMask is null", "output_mask", "outputMask",
      lambda f: None if f.request.output_mask is None else True)  # fmt: skip
_fact("output_mask.length", Kind.NUMBER, "length of outputMask", "length of output_mask", "outputMask 的长度",
      lambda f: _length(f.request.output_mask))  # fmt: skip


def _wants(index: int) -> Callable[[Facts], Value]:
    def read(f: Facts) -> Value:
        mask = f.request.output_mask
        return bool(mask[index]) if mask is not None and len(mask) > index else False

    return read


for _index, _gradient in enumerate(("input", "weight", "bias")):
    _fact(f"want.{_gradient}", Kind.FLAG, f"outputMask[{_index}]", f"grad_{_gradient} wanted",
          f"outputMask[{_index}]", _wants(_index))  # fmt: skip
_fact("want.contraction", Kind.FLAG, "outputMask[0] or outputMask[1]", "grad_input or grad_weight wanted",
      "outputMask[0] 或 outputMask[1]", lambda f: bool(f["want.input"] or f["want.weight"]))  # fmt: skip


def _axes(index: slice, name: str) -> Callable[[Facts], Value]:
    def read(f: Facts) -> Value:
        value = f[name]
        return value[index] if isinstance(value, tuple) else None

    return read


for _name in ("stride", "dilation"):
    _fact(f"{_name}.hw", Kind.LIST, f"the last two elements of {_name} (one in 1-D)", f"{_name} H, W (1-D: L)",
          f"{_name} H、W（1D：L）", _axes(slice(-2, None), _name))  # fmt: skip
    _fact(f"{_name}.d", Kind.LIST, f"the first element of {_name}", f"{_name} D", f"{_name} D",
          _axes(slice(0, 1), _name))  # fmt: skip


def _pairs(f: Facts) -> tuple[tuple[int, int], ...] | None:
    dims = f["dims"]
    return pad_pairs(f.request.padding, dims) if f.request.padding is not None and isinstance(dims, int) else None


def _pad_axes(index: slice) -> Callable[[Facts], Value]:
    def read(f: Facts) -> Value:
        pairs = _pairs(f)
        return None if pairs is None else tuple(n for pair in pairs[index] for n in pair)

    return read


_fact("padding.hw", Kind.LIST, "low and high padding of the last two axes (one in 1-D)", "padding H, W (1-D: L)",
      "padding H、W（1D：L）", _pad_axes(slice(-2, None)))  # fmt: skip
_fact("padding.d", Kind.LIST, "low and high padding of the first axis", "padding D", "padding D",
      _pad_axes(slice(0, 1)))  # fmt: skip


def _slack_limit(f: Facts) -> Value:
    stride, length = f.request.stride, f["output_padding.length"]
    if stride is not None and length == 4 and len(stride) == 2:
        return stride[0], stride[0], stride[1], stride[1]
    return stride


_fact("output_padding.limit", Kind.LIST, "stride; each element twice when outputPadding has 4 elements and stride 2",
      "stride", "stride", _slack_limit)  # fmt: skip


def _one_slack_per_axis(f: Facts) -> bool:
    r = f.request
    return (r.output_padding is not None and r.stride is not None and r.dilation is not None
            and len(r.output_padding) == len(r.stride) == len(r.dilation))  # fmt: skip


def _larger_limit(f: Facts) -> Value:
    r = f.request
    return tuple(map(max, r.stride or (), r.dilation or ())) if _one_slack_per_axis(f) else f["output_padding.limit"]


_fact("output_padding.limit.cpu", Kind.LIST, "per axis the larger of stride and dilation where outputPadding, stride "
      "and dilation have one length; else output_padding.limit", "the larger of stride and dilation",
      "stride 与 dilation 中较大者", _larger_limit)  # fmt: skip


def _reaches_stride(f: Facts) -> Value:
    r = f.request
    pairs = zip(r.output_padding or (), r.stride or (), strict=False)
    return r.transposed and _one_slack_per_axis(f) and any(slack >= step for slack, step in pairs)


_fact("output_padding.reaches_stride", Kind.FLAG, "transposed, outputPadding, stride and dilation have one length, and "
      "an element of outputPadding is at least the stride of its axis", "whether output_padding reaches the stride",
      "outputPadding 是否达到 stride", _reaches_stride)  # fmt: skip


# ---- derived ---------------------------------------------------------------------------------------------


def _dims(f: Facts) -> Value:
    rank = f["weight.rank"]
    return rank - 2 if isinstance(rank, int) else None


_fact("dims", Kind.NUMBER, "rank of weight minus 2", "the number of spatial axes", "空间维数", _dims)


def _promoted(f: Facts) -> Value:
    names = [f[f"{field}.dtype"] for field in ("grad_output", "input", "weight")]
    if f.request.forward:
        names = names[1:]
    return promote(*names) if all(isinstance(n, str) for n in names) else None  # type: ignore[arg-type]


_fact("promoted", Kind.DTYPE, "the dtype of grad_output, input and weight if they share one, else float64 if one of "
      "them is, else float32", "promoted dtype", "提升后的数据类型", _promoted)  # fmt: skip


def _any_8_bit(f: Facts) -> Value:
    fields = ("grad_output", "input", "weight", "grad_input", "grad_weight")
    return any(f[f"{field}.dtype"] in EIGHT_BIT_FLOATS for field in fields)


_fact("eight_bit", Kind.FLAG, "whether grad_output, input, weight, grad_input or grad_weight is an 8-bit float",
      "8-bit floats", "8 位浮点", _any_8_bit)  # fmt: skip
for _field in ("weight", "grad_bias"):
    _fact(f"{_field}.eight_bit", Kind.FLAG, f"whether {_field} is an 8-bit float; 0 when null", f"8-bit {_field}",
          f"{_field} 是否为 8 位浮点",
          lambda f, name=_field: f[f"{name}.dtype"] in EIGHT_BIT_FLOATS)  # type: ignore[misc]  # fmt: skip
_fact("both_outputs", Kind.FLAG, "whether neither grad_input nor grad_weight is null",
      "grad_input and grad_weight both given", "gradInput 与 gradWeight 均非空指针",
      lambda f: f.request.grad_input is not None and f.request.grad_weight is not None)  # fmt: skip


def _empty_path(f: Facts) -> Value:
    r = f.request
    if r.conformance != "runtime" or r.product not in EMPTY_PATH or r.operator is Operator.TBC or r.forward:
        return False
    return bool(f["input.empty"] or f["weight.empty"])


_fact("empty_path", Kind.FLAG, "runtime conformance, ConvolutionBackward whose input or weight is empty, on a product "
      "with an empty path (CG_PRODUCT_EMPTY_PATH)", "the empty path", "空 Tensor 路径", _empty_path)  # fmt: skip


def _bias_shape(f: Facts) -> Value:
    channels = f["grad_output.channels"]
    return None if channels is None else (channels,)  # type: ignore[return-value]


_fact("bias_sizes.expected", Kind.LIST, "[grad_output.shape[1]]", "[channels of grad_output]", "[gradOutput 的 C]",
      _bias_shape)  # fmt: skip


def _bias_sizes_ignored(f: Facts) -> Value:
    r = f.request
    runtime = r.conformance == "runtime" and r.operator is Operator.CONV and not f["empty_path"]
    asked = runtime and bool(f["want.bias"]) and f["bias_sizes"] is not None
    return asked and f["bias_sizes"] != f["bias_sizes.expected"]


_fact("bias_sizes.ignored", Kind.FLAG, "runtime conformance, grad_bias wanted, bias_sizes other than its channels",
      "bias_sizes ignored", "biasSizes 被忽略", _bias_sizes_ignored)  # fmt: skip


def _empty_bias_shape(f: Facts) -> Value:
    if not f.request.transposed:
        return f["bias_sizes.expected"]
    channels = f["weight.fine_channels"]
    return None if channels is None else (channels,)  # type: ignore[return-value]


_fact("bias_sizes.expected_when_empty", Kind.LIST, "[grad_output.shape[1]], transposed: [groups * weight.shape[1]]",
      "[channels of the bias]", "[bias 的通道数]", _empty_bias_shape)  # fmt: skip


def _law(f: Facts) -> list[tuple[int, int, int, int, int]] | None:
    """Per axis: fine size, both paddings, window, stride, dilation; `None` when lengths do not fit."""
    r, dims = f.request, f["dims"]
    fine = f["grad_output.size"] if r.transposed else f["input.size"]
    window, pairs = f["window"], _pairs(f)
    if pairs is None or r.stride is None or r.dilation is None:
        return None
    if not isinstance(fine, tuple) or not isinstance(window, tuple):
        return None
    if not len(fine) == len(window) == len(r.stride) == len(r.dilation) == dims or min(r.stride, default=1) < 1:
        return None
    rows = zip(fine, pairs, window, r.stride, r.dilation, strict=True)
    return [(n, low + high, k, s, d) for n, (low, high), k, s, d in rows]


def _expected(f: Facts) -> Value:
    # floor((fine + pads - dilation*(window - 1) - 1) / stride) + 1: not above 0 when the window does not fit
    axes = _law(f)
    if axes is None:
        return None
    return tuple(_saturated((n + p - d * (k - 1) - 1) // s + 1) for n, p, k, s, d in axes)


_fact("coarse.expected", Kind.LIST, "per axis floor((fine + pads - dilation*(window-1) - 1)/stride) + 1, where fine "
      "is the size of input (transposed: of grad_output); floor rounds down, also below 0; 128-bit, then saturated",
      "floor(({fine} + pads - dilation*(window-1) - 1)/stride) + 1 =",
      "floor(({fine} + pads - dilation*(window-1) - 1)/stride) + 1 = ", _expected)  # fmt: skip


def _fine_expected(f: Facts) -> Value:
    axes, coarse, slack = _law(f), f["input.size"], f.request.output_padding
    if axes is None or not isinstance(coarse, tuple) or slack is None or not len(axes) == len(coarse) == len(slack):
        return None
    return tuple(
        _saturated(_saturated((c - 1) * s) + _saturated(d * (k - 1)) + 1 + e - p)
        for (_, p, k, s, d), c, e in zip(axes, coarse, slack, strict=True)
    )


_fact("fine.expected", Kind.LIST, "per axis (input - 1)*stride + dilation*(window-1) + 1 + outputPadding - pads, where "
      "input is its size; both products saturated, then the sum", "(input - 1)*stride + dilation*(window-1) + 1 + "
      "output_padding - pads =", "(input - 1)*stride + dilation*(window-1) + 1 + outputPadding - pads = ",
      _fine_expected)  # fmt: skip


def _padded(f: Facts) -> Value:
    axes = _law(f)
    return None if axes is None else tuple(_saturated(n + p) for n, p, _, _, _ in axes)


def _reach(f: Facts) -> Value:
    axes = _law(f)
    return None if axes is None else tuple(_saturated(d * (k - 1) + 1) for _, _, k, _, d in axes)


_fact("padded", Kind.LIST, "per axis fine + pads, saturated", "the padded input size", "填充后的输入尺寸", _padded)
_fact("reach", Kind.LIST, "per axis dilation*(window-1) + 1, saturated", "reach of the window",
      "卷积核的覆盖范围", _reach)  # fmt: skip


def _work(f: Facts) -> Value:
    r = f.request
    tbc = r.operator is Operator.TBC
    coarse = r.input if r.transposed and not tbc else r.grad_output
    if coarse is None or r.weight is None:
        return None
    taps = r.weight.shape[:2] if tbc else r.weight.shape[1:]
    return min(_span(coarse.shape) * _span(taps), INT64_MAX)


_fact("work", Kind.NUMBER, "span of grad_output (transposed: of input) * span of weight.shape[1:] (TBC: of its first "
      "two sizes, window and input channels), saturated",
      "number of multiply-adds", "乘加次数", _work)  # fmt: skip


# ---- TBC -------------------------------------------------------------------------------------------------


_fact("tbc.window", Kind.NUMBER, "weight.shape[0]", "window (weight.shape[0])", "卷积核 K（weight.shape[0]）",
      _size("weight", 0))  # fmt: skip
_fact("tbc.input_channels", Kind.NUMBER, "input.shape[2]", "input.shape[2]", "input.shape[2]", _size("input", 2))
_fact("tbc.weight_input_channels", Kind.NUMBER, "weight.shape[1]", "weight.shape[1]", "weight.shape[1]",
      _size("weight", 1))  # fmt: skip
_fact("tbc.weight_output_channels", Kind.NUMBER, "weight.shape[2]", "weight.shape[2]", "weight.shape[2]",
      _size("weight", 2))  # fmt: skip
_fact("tbc.bias_channels", Kind.NUMBER, "bias.shape[0]", "bias.shape[0]", "bias.shape[0]", _size("bias", 0))


def _tbc_length(f: Facts) -> Value:
    length, window = _size("input", 0)(f), f["tbc.window"]
    if not isinstance(length, int) or not isinstance(window, int):
        return None
    return _saturated(length + 2 * f.request.pad - window + 1)


_fact("tbc.length", Kind.NUMBER, "input.shape[0] + 2*pad - weight.shape[0] + 1, saturated",
      "T_out = T_in + 2*pad - K + 1", "T_out = T_in + 2*pad - K + 1", _tbc_length)  # fmt: skip


def _tbc_output_shape(f: Facts) -> Value:
    sizes = (f["tbc.length"], _size("input", 1)(f), f["tbc.weight_output_channels"])
    return None if None in sizes else sizes  # type: ignore[return-value]


_fact("tbc.output_shape", Kind.LIST, "[tbc.length, input.shape[1], weight.shape[2]]", "[T_out, B, C_out]",
      "[T_out, B, C_out]", _tbc_output_shape)  # fmt: skip


def _bias_like(f: Facts) -> Value:
    """Shape of the bias; on a product that needs no bias tensor, what it would be."""
    if f.request.bias is not None:
        return f.request.bias.shape
    channels = f["tbc.weight_output_channels"]
    return None if channels is None else (channels,)  # type: ignore[return-value]


_fact("tbc.bias_shape", Kind.LIST, "bias.shape; [weight.shape[2]] when there is no bias", "shape of bias",
      "bias 的 shape", _bias_like)  # fmt: skip
