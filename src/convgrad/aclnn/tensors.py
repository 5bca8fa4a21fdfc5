"""Tensors of the two-phase calls: a view (shape, strides, offset) of storage that may be re-pointed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from convgrad.aclnn.error_text import fail, words_of
from convgrad.core import dtypes, layouts, rounding
from convgrad.core.arguments import listed, number
from convgrad.core.arrays import AnyArray, as_array, as_memory
from convgrad.core.request import FORMAT_BY_RANK, TensorSpec
from convgrad.core.status import Status
from convgrad.core.tensor import Tensor, UnsaidFormat

_COMPUTED = frozenset(row.name for row in dtypes.ALL if row.is_tensor_dtype)
_COMPUTE_ONLY = frozenset(row.name for row in dtypes.ALL if not row.is_tensor_dtype)


class Unreadable(Exception):
    """An argument that cannot be what the call asks for; the two-phase door turns it into a status."""


@dataclass(slots=True, eq=False)
class aclTensor:
    """What `aclCreateTensor` gives. The storage is flat; the view says where its elements are."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    format: str
    storage_shape: tuple[int, ...]
    storage: AnyArray

    def fits(self, storage: AnyArray) -> bool:
        """Whether every element of the view lies inside `storage`."""
        if 0 in self.shape:
            return True
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        first = self.offset + sum(r for r in reach if r < 0)
        last = self.offset + sum(r for r in reach if r > 0)
        return first >= 0 and last < storage.size

    def array(self) -> AnyArray:
        """The view itself, sharing the storage."""
        if 0 in self.shape:
            return np.empty(self.shape, self.storage.dtype)
        strides = tuple(s * self.storage.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(self.storage[self.offset :], self.shape, strides)


def aclCreateTensor(
    viewDims: Sequence[int], dataType: int | str, stride: Sequence[int] | None, offset: int, format: int | str,
    storageDims: Sequence[int] | None, tensorData: object,
) -> aclTensor | None:  # fmt: skip
    """A tensor over `tensorData`; `None`, with a message, when the view does not lie inside the data.

    `dataType` and `format` are the vendor's codes or names, or ours. Data of another NumPy type of the same width is
    taken as codes, as the vendor takes memory. A dtype that no operator here computes in (integers, complex numbers,
    bool, ...) gives a tensor as well, of any data: phase 1 answers 161002 to it.
    """
    try:
        return _created(viewDims, dataType, stride, offset, format, storageDims, tensorData)
    except (Unreadable, ValueError, TypeError) as error:
        fail(Status.PARAM_INVALID, f"aclCreateTensor: {words_of(error)}")
        return None


def _created(
    view: Sequence[int], dtype: int | str, stride: Sequence[int] | None, offset: int, layout: int | str,
    storage_dims: Sequence[int] | None, data: object,
) -> aclTensor:  # fmt: skip
    shape = _sizes("viewDims", view)
    kind = dtypes.name_of(dtype if isinstance(dtype, str) else number("dataType", dtype))
    name = layouts.name_of(layout if isinstance(layout, str) else number("format", layout))
    if kind in _COMPUTE_ONLY or any(n < 0 for n in shape):
        raise Unreadable(f"no tensor has dtype {kind} and shape {shape}")
    strides = _contiguous(shape) if stride is None else _sizes("stride", stride)
    if len(strides) != len(shape):
        raise Unreadable(f"{len(strides)} strides for {len(shape)} sizes")
    storage_shape = shape if storage_dims is None else _sizes("storageDims", storage_dims)
    first, storage = number("offset", offset), flat_storage(data, kind)
    tensor = aclTensor(shape, kind, strides, first, name, storage_shape, storage)
    if kind not in _COMPUTED:
        return tensor  # no call reads it: phase 1 refuses the dtype
    if tensor.storage.size < prod(storage_shape):
        raise Unreadable(f"storage shape {storage_shape} needs more than the {tensor.storage.size} elements given")
    if not tensor.fits(tensor.storage):
        raise Unreadable(f"the view {shape}, strides {strides}, offset {offset} leaves its storage")
    return tensor


def _sizes(name: str, values: object) -> tuple[int, ...]:
    return tuple(number(name, n) for n in listed(name, values))


def aclDestroyTensor(tensor: aclTensor | None) -> Status:
    """Nothing to free in Python; always success, as for a null tensor."""
    return Status.SUCCESS


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def flat_storage(data: object, dtype: str) -> AnyArray:
    """The memory behind `data` as one line of elements, shared."""
    array = data.data if isinstance(data, Tensor) else as_memory(data, "tensorData")
    if not array.flags.c_contiguous:
        raise Unreadable("tensorData must be one contiguous piece of memory")
    flat = array.reshape(-1)
    if dtype not in _COMPUTED:
        return flat
    wanted = rounding.storage(dtypes.find(dtype))
    if flat.dtype == wanted:
        return flat
    if flat.dtype.itemsize != wanted.itemsize or flat.dtype.kind not in "uiV":
        raise Unreadable(f"tensorData holds {flat.dtype.name}, not {dtype}")
    return flat.view(wanted)


@dataclass(slots=True)
class Slot:
    """One tensor argument of a call, as the caller passed it."""

    name: str
    passed: object
    spec: TensorSpec
    pointed: AnyArray | None = None
    """The array an address setter put in place of a plain array."""

    def array(self) -> AnyArray:
        """The elements at this moment."""
        if self.pointed is not None:
            return self.pointed
        if isinstance(self.passed, aclTensor):
            return self.passed.array()
        return self.passed.data if isinstance(self.passed, Tensor) else _seen(self.passed, self.name)

    def point_to(self, address: object) -> None:
        """Takes the elements from `address` from now on."""
        if isinstance(self.passed, aclTensor):
            point_tensor(self.passed, address)
            return
        array = address.data if isinstance(address, Tensor) else _seen(address, self.name)
        if array.shape != self.spec.shape or array.dtype != self.array().dtype:
            raise Unreadable(f"{self.name} needs {self.spec.dtype} {self.spec.shape}, not {array.dtype} {array.shape}")
        self.pointed = array


def point_tensor(tensor: aclTensor, address: object) -> None:
    """Puts other storage under a tensor; its view must lie inside it."""
    storage = flat_storage(address, tensor.dtype)
    if not tensor.fits(storage):
        raise Unreadable(f"a view of shape {tensor.shape} leaves the {storage.size} elements at the new address")
    tensor.storage = storage


def _is_memory(passed: object) -> bool:
    return isinstance(passed, np.ndarray) or hasattr(passed, "__dlpack__") or hasattr(passed, "__array_interface__")


def _is_output(name: str) -> bool:
    return name.startswith("grad") and name != "gradOutput"


def _seen(passed: object, name: str) -> AnyArray:
    """An argument's elements; an output's own memory."""
    return np.asarray((as_memory if _is_output(name) else as_array)(passed, name))


def slot(name: str, passed: object, default_format: str = "") -> Slot | None:
    """The slot of one argument; `None` for null. An output must be memory that can be written."""
    if passed is None:
        return None
    if isinstance(passed, aclTensor):
        made = Slot(name, passed, TensorSpec(passed.shape, passed.dtype, passed.format))
        memory = passed.storage
    elif isinstance(passed, Tensor):
        unsaid = default_format or FORMAT_BY_RANK.get(passed.ndim, "ND")
        layout = unsaid if isinstance(passed.format, UnsaidFormat) else passed.format
        made = Slot(name, passed, TensorSpec(passed.shape, passed.dtype.name, layout))
        memory = passed.data
    else:
        memory = _seen(passed, name)
        layout = default_format or FORMAT_BY_RANK.get(memory.ndim, "ND")
        made = Slot(name, passed, TensorSpec(memory.shape, memory.dtype.name, layout))
    held = isinstance(passed, (aclTensor, Tensor)) or _is_memory(passed)
    if _is_output(name) and not (held and memory.flags.writeable):
        raise Unreadable(f"{name} cannot be written: it must be a writable array, a Tensor or an aclTensor")
    return made
