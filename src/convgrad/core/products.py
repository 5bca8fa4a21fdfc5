"""Rows: every product the documents name, its family and the spellings users know."""

from __future__ import annotations

from dataclasses import dataclass

from convgrad.text.terminal import did_you_mean


@dataclass(frozen=True, slots=True)
class Product:
    """One product (or `cpu`, this project's own: no vendor limits at all)."""

    key: str
    title: str
    """What the documents call it."""
    spellings: tuple[str, ...]
    """Other names people use: SoC names, marketing names, architecture ids. Compared without case, blanks, `-`, `_`."""
    prefixes: tuple[str, ...] = ()
    """SoC names that continue with a variant number, e.g. `ascend910b` + `3`."""
    soc_name: str = ""
    """What `aclrtGetSocName` answers for it."""
    generation: str = ""
    """Rule and precision rows name a generation, not its members: a product of a known one needs no other row."""
    hf32: str = "hf32"
    """The dtype its HF32 is: `hf32` (11 fraction bits) or `hf32_10`."""
    empty_path: bool = False
    """Whether its aclnnConvolutionBackward takes an empty input or weight, by a path of its own."""
    convolution_backward: bool = True
    conv_tbc_backward: bool = True


PRODUCTS: tuple[Product, ...] = (
    Product("cpu", "any CPU, without vendor limits", ("host", "none"), soc_name="CPU"),
    Product(
        "950", "Ascend 950PR / 950DT (910_95)",
        ("950", "A950", "910_95", "arch35", "3510", "Ascend 950", "ascend950pr", "ascend950dt", "dav-3510",
         "A5", "Atlas A5", "Ascend350", "Atlas 350", "Ascend 950PR/Ascend 950DT", "昇腾910_95 AI处理器"),
        ("ascend950", "950", "ascend910_95", "910_95"), "Ascend950PR_9599", "950", "hf32_10", empty_path=True,
    ),
    Product(
        "A3", "Atlas A3 training / inference series",
        ("A3", "Atlas A3", "910_93", "910C", "Atlas 800T A3", "Atlas 800I A3", "Atlas 900 A3",
         "Atlas A3 training series", "Atlas A3 inference series", "Atlas A3 训练系列产品", "Atlas A3 推理系列产品",
         "Atlas A3 训练系列产品/Atlas A3 推理系列产品", "昇腾910_93 AI处理器"),
        ("ascend910_93", "910_93", "ascend910c"),
        "Ascend910_9391", "A2", empty_path=True,
    ),
    Product(
        "A2", "Atlas A2 training series / Atlas 800I A2 / A200I A2 Box",
        ("A2", "Atlas A2", "910B", "Atlas 800T A2", "Atlas 800I A2", "Atlas 900 A2", "A200I A2 Box", "2201", "dav-2201",
         "Atlas A2 training series", "Atlas A2 inference series", "Atlas A2 训练系列产品", "Atlas A2 推理系列产品",
         "Atlas A2 训练系列产品/Atlas A2 推理系列产品", "Atlas 800I A2 推理产品", "A200I A2 Box 异构组件",
         "Atlas A2 训练系列产品/Atlas 800I A2 推理产品/A200I A2 Box 异构组件", "昇腾910B AI处理器"),
        ("ascend910b", "910b"), "Ascend910B3", "A2", empty_path=True,
    ),
    Product(
        "910", "Atlas training series",
        ("910", "910A", "Atlas 800", "Atlas 900", "Atlas training", "ascend910", "ascend910a", "ascend910pro", "1001",
         "Atlas training series", "Atlas 训练系列产品", "昇腾910 AI处理器"),
        ("ascend910pro", "ascend910prem"), "Ascend910A", "910",
    ),
    Product(
        "310P", "Atlas inference series",
        ("310P", "Atlas 300I Pro", "Atlas 300V Pro", "Atlas 300I Duo", "Atlas inference", "2002",
         "Atlas inference series", "Atlas 推理系列产品", "昇腾310P AI处理器"),
        ("ascend310p", "310p"), "Ascend310P3", "910", conv_tbc_backward=False,
    ),
    Product(
        "310B", "Atlas 200I/500 A2 inference",
        ("310B", "Atlas 200I A2", "Atlas 500 A2", "Atlas 200I/500 A2", "3002", "Atlas 200I/500 A2 推理产品"),
        ("ascend310b", "310b"), "Ascend310B1", convolution_backward=False, conv_tbc_backward=False,
    ),
    Product(
        "310", "Atlas 200/300/500 inference",
        ("310", "Atlas 200", "Atlas 300", "Atlas 500", "Atlas 200/300/500", "ascend310",
         "Atlas 200/300/500 推理产品"), (),
        "Ascend310", convolution_backward=False, conv_tbc_backward=False,
    ),
)

WITHOUT_RULES: tuple[str, ...] = (
    "Ascend910_55", "910_55", "MC62CM12A", "mc62", "KirinX90", "Kirin9030", "Ascend031", "Ascend035", "Ascend610",
    "Ascend610Lite", "BS9SX1A", "SD3403", "OPTG", "TsnsC", "TsnsE", "Hi3796CV300CS", "Hi3796CV300ES",
)
"""SoC names of the same platform files whose convolution gradients no document describes."""
NO_RULES = "a chip on which no document describes convolution gradients, so there are no rules to apply"

KEYS: tuple[str, ...] = tuple(p.key for p in PRODUCTS)
EMPTY_PATH: tuple[str, ...] = tuple(p.key for p in PRODUCTS if p.empty_path)
CONV_VENDOR: tuple[str, ...] = tuple(p.key for p in PRODUCTS if p.generation and p.convolution_backward)
TBC_VENDOR: tuple[str, ...] = tuple(p.key for p in PRODUCTS if p.generation and p.conv_tbc_backward)
ONE_OF_EACH = ("A2", "910", "950")
"""A product of each generation: asked where none is named."""


def of_generation(*names: str) -> tuple[str, ...]:
    """The products of these generations, newest first."""
    return tuple(p.key for p in PRODUCTS if p.generation in names)


A2_A3 = of_generation("A2")
A2_A3_950 = of_generation("950", "A2")
OLDER = of_generation("910")


def plain_name(name: str) -> str:
    """A name as it is compared: lower case, without blanks and strokes."""
    return "".join(c for c in name.lower() if c not in " -_/")


NAMES: dict[str, Product] = {plain_name(name): p for p in PRODUCTS for name in (p.key, p.soc_name, *p.spellings)}
_WITHOUT_RULES = frozenset(map(plain_name, WITHOUT_RULES))
# Longest first, so that `ascend910_93…` is not taken for a shorter family name.
PREFIXES = sorted(((plain_name(x), p) for p in PRODUCTS for x in p.prefixes), key=lambda pair: -len(pair[0]))


def find(name: str | Product) -> Product:
    """The product a name stands for: a key, a SoC name such as `Ascend910B3`, or a marketing name."""
    if isinstance(name, Product):
        return name
    try:
        plain = plain_name(str(name))
    except MemoryError:
        raise
    except Exception:  # an object that does not tell its name
        raise ValueError(f"unknown product of type {type(name).__name__}: use one of {', '.join(KEYS)}") from None
    if plain in NAMES:
        return NAMES[plain]
    if plain in _WITHOUT_RULES:
        raise ValueError(f"product {name!r} is {NO_RULES}: use one of {', '.join(KEYS)}")
    for prefix, product in PREFIXES:
        if plain.startswith(prefix):
            return product
    raise ValueError(
        f"unknown product {name!r}{did_you_mean(str(name), KEYS)}: use one of {', '.join(KEYS)}, or a name such as "
        "Ascend910B3"
    )
