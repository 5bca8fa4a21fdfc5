"""Determinism levels: what each promises, as the device's switch numbers them, and the switches themselves.

Level 3 of weight and bias gradients is a fixed tree over samples; `tree_sum` is that tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from convgrad.core import arguments
from convgrad.core.arrays import AnyArray, as_array
from convgrad.core.status import ConvGradError


@dataclass(frozen=True, slots=True)
class Level:
    """A value of the switch: its name, what the device promises, what convgrad does, in both languages."""

    number: int
    name: tuple[str, str]
    device: tuple[str, str]
    samples: tuple[str, str]
    """Of input gradients and forward results."""
    sums: tuple[str, str]
    """Of the gradients of weight and bias, which sum over the batch."""


_SAMPLES = ("as level 3", "同级别 3")
_SUMS = ("as level 0", "同级别 0")
LEVELS = (
    Level(
        0, ("off", "关闭"), ("nothing: A2 and A3 may add in another order on every run",
                             "不保证：A2、A3 每次运行的累加顺序可能不同"), _SAMPLES,
        ("the same bits on every run, on any number of threads, on AVX2 and on AVX-512",
         "每次运行、任意线程数、AVX2 与 AVX-512 上结果逐比特相同"),
    ),
    Level(
        1, ("deterministic", "确定性"), ("the same inputs on the same device: the same bits on every run",
                                         "同一设备、相同输入：每次运行结果逐比特相同"), _SAMPLES, _SUMS,
    ),
    Level(
        2, ("strong consistency", "强一致性"), ("level 1, and equal data give equal results wherever they stand",
                                               "级别 1，且相同数据无论处于什么位置结果都相同"), _SAMPLES, _SUMS,
    ),
    Level(
        3, ("batch consistency", "batch 一致性"),
        ("level 2, and a sample's result does not depend on its batch; no convolution gradient has it",
         "级别 2，且一个样本的结果与其所在 batch 无关；卷积梯度不支持"),
        ("a sample's bits do not depend on its batch, on its place in it, or on how the batch is cut into calls",
         "一个样本的比特与所在 batch、在 batch 中的位置以及 batch 如何拆分无关"),
        ("a fixed tree over the samples' own gradients, whoever computed each of them",
         "对各样本自己的梯度做固定的树形累加，无论它们在何处计算"),
    ),
)  # fmt: skip
TREE = 3
"""The level of the tree."""


@dataclass(frozen=True, slots=True)
class SystemParameter:
    """An option of aclrtSetSysParamOpt: its number and name, and the largest value; 0 is the smallest of each."""

    number: int
    name: str
    largest: int
    meaning: str


SYSTEM_PARAMETERS = (
    SystemParameter(0, "ACL_OPT_DETERMINISTIC", LEVELS[-1].number, "the determinism level; phase 1 reads it"),
    SystemParameter(1, "ACL_OPT_ENABLE_DEBUG_KERNEL", 1, "remembered, nothing else"),
    SystemParameter(2, "ACL_OPT_STRONG_CONSISTENCY", 1, "deprecated for ACL_OPT_DETERMINISTIC 2; remembered"),
    SystemParameter(3, "ACL_OPT_ENABLE_KERNEL_EARLY_START", 1, "remembered, nothing else"),
)


def read_level(name: str, value: object) -> int:
    """A level; True is 1, as the switch was before it had levels."""
    if type(value) is int and 0 <= value < len(LEVELS):
        return value
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    found = arguments.number(name, value)
    if 0 <= found < len(LEVELS):
        return found
    known = ", ".join(str(level.number) for level in LEVELS)
    message = f"{name} must be one of {known}, got {arguments.told(value)}"
    raise ConvGradError(message, rule="deterministic.level", value=value)


def sum_by_tree(leaf: Callable[[int], AnyArray], first: int, count: int) -> AnyArray:
    """The tree over the leaves [first, first + count): the largest power of two below `count` is on the left.

    That is the same as adding neighbours in pairs, level by level, with an odd last one going up as it is.
    """
    if count == 1:
        return leaf(first)
    half = 1 << (count - 1).bit_length() - 1
    with np.errstate(all="ignore"):
        return np.asarray(sum_by_tree(leaf, first, half) + sum_by_tree(leaf, first + half, count - half))


def tree_sum(parts: Sequence[object] | AnyArray) -> AnyArray:
    """The sum of arrays of one shape by the tree of level 3: neighbours in pairs, an odd last one as it is.

    Of `sample_gradients` it is the gradient of the batch before its rounding. Samples i * 2^k to (i + 1) * 2^k are a
    node of the tree: batches cut there (the last may be shorter) can be summed one by one, their sums by this again.

    >>> float(tree_sum(np.float32([1, 2**24, -(2**24)])))
    0.0
    """
    if isinstance(parts, (list, tuple)):
        nodes = [as_array(part, "parts") for part in parts]
    else:
        whole = as_array(parts, "parts")
        nodes = [*whole] if whole.ndim else []
    nodes = [np.asarray(node) for node in nodes]
    wrong = next((str(a.dtype) for a in nodes if a.dtype.kind not in "iuf"), "")
    if wrong:
        raise ConvGradError(f"parts must be arrays of numbers, got {wrong}", rule="parts.dtype", value=wrong)
    if not nodes:
        raise ConvGradError("parts must hold one array at least", rule="parts.length", value=0)
    if len({(a.shape, a.dtype) for a in nodes}) > 1:
        shapes = ", ".join(sorted({f"{a.shape} {a.dtype}" for a in nodes}))
        raise ConvGradError(f"parts must have one shape and dtype, got {shapes}", rule="parts.shape", value=shapes)
    return sum_by_tree(nodes.__getitem__, 0, len(nodes))
