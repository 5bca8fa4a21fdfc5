"""Turns whatever a caller holds into a NumPy array that shares its memory.

Accepted: NumPy arrays, anything with `__dlpack__` on the CPU (bfloat16 and float8 included, which
`numpy.from_dlpack` itself refuses), `__array__`, the buffer protocol, nested sequences. A masked array is accepted
while nothing in it is masked: a masked element has no value, and to leave its mask aside would invent one.

Whatever goes wrong while another library's object is read is a `ConvGradTypeError` that names the argument.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from convgrad.core.status import ConvGradError, ConvGradTypeError, Status

AnyArray = NDArray[Any]


class SupportsDLPack(Protocol):
    """An array of another library: PyTorch, JAX, CuPy ..."""

    def __dlpack__(self, *args: Any, **options: Any) -> Any: ...


class SupportsArray(Protocol):
    """Whatever NumPy can read; `convgrad.Tensor` among it."""

    def __array__(self, *args: Any, **options: Any) -> Any: ...


Rows = Sequence[float] | Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]
ArrayLike = (
    AnyArray | SupportsDLPack | SupportsArray | Rows | Sequence[Sequence[Sequence[Sequence[float]]]]
    | Sequence[Sequence[Sequence[Sequence[Sequence[float]]]]]
)
"""What a tensor may be given as. Neither a number nor a text is one, which NumPy's own `ArrayLike` would allow."""

# DLPack: kinds of memory the CPU can read (plain, pinned by CUDA or ROCm), and type codes NumPy has no name for.
_CPU_DEVICES = (1, 3, 11)
_DLPACK_TYPES: dict[tuple[int, int], tuple[str, Any]] = {
    (4, 16): ("<u2", ml_dtypes.bfloat16),
    (10, 8): ("|u1", ml_dtypes.float8_e4m3fn),
    (12, 8): ("|u1", ml_dtypes.float8_e5m2),
}


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Exported:
    """Memory of a DLPack capsule under NumPy's array interface; keeps the capsule alive."""

    def __init__(self, capsule: object, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def as_array(source: object, name: str = "array") -> AnyArray:
    """The array behind `source`, without a copy wherever its protocol allows."""
    if type(source) is np.ndarray:
        return source
    return _read(source, name)


def as_memory(source: object, name: str) -> AnyArray:
    """As `as_array`, for memory that is to be written or kept: values that only a copy could show are refused."""
    if type(source) is np.ndarray:
        return source
    if _flipped(source):
        raise _unreadable(name, source, "has its negative bit set: its memory holds other values; resolve_neg() first")
    return _read(source, name)


def _read(source: object, name: str) -> AnyArray:
    if source is None:
        raise ConvGradError(f"{name} must be given; got null", status=Status.PARAM_NULLPTR, rule=f"null.{name}")
    try:
        if isinstance(source, np.ndarray) or not hasattr(source, "__dlpack__"):
            array = _from_numpy(source, name)
        else:
            array = _from_dlpack(source, name)
    except (ConvGradTypeError, MemoryError):
        raise
    except Exception as error:  # code of other libraries: it may raise anything
        raise _unreadable(name, source, f"cannot be read as an array: {_words_of(error)}") from error
    return array


def _unreadable(name: str, source: object, why: str) -> ConvGradTypeError:
    return ConvGradTypeError(f"{name}: {why}", rule=f"{name}.array", value=type(source).__name__)


def _words_of(error: Exception) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _from_numpy(source: Any, name: str) -> AnyArray:
    refuse_masked(source, name)
    if not isinstance(source, np.ndarray) and hasattr(source, "__cuda_array_interface__"):
        raise _unreadable(name, source, "lives on a device (CUDA array interface), not in CPU memory; copy it first")
    return np.asarray(source)


def refuse_masked(source: object, name: str) -> None:
    """Raises for an array, or a sequence of arrays, of which an element is masked."""
    if isinstance(source, np.ma.MaskedArray):
        if np.ma.is_masked(source):
            count = int(np.ma.getmaskarray(source).sum())
            raise _unreadable(name, source, f"{count} of its elements are masked; give them values, as with .filled(0)")
    elif isinstance(source, (list, tuple)):
        for part in source:
            if isinstance(part, (list, tuple, np.ma.MaskedArray)):
                refuse_masked(part, name)


def _flipped(source: object) -> bool:
    """Whether the values are the negatives of what lies in memory (PyTorch's negative bit)."""
    try:
        return bool(cast(Any, source).is_neg())
    except MemoryError:
        raise
    except Exception:
        return False


def is_channels_last(tensor: AnyArray) -> bool:
    """Whether a cell's channels (axis 1) lie side by side, and the cells in order."""
    if tensor.ndim < 3 or tensor.flags.c_contiguous:
        return False
    return bool(np.moveaxis(tensor, 1, -1).flags.c_contiguous)


def may_overlap_itself(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether two elements of a strided array may share a byte; an answer too hard to find counts as yes.

    They are apart where every stride steps over all that the smaller ones reach: so lie all slices and transposes of a
    contiguous array. `cg_may_overlap_itself` of the engine is the same, for the C library.
    """
    if 0 in shape:
        return False
    reach = item
    for step, size in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if step < reach:
            return True
        reach += step * (size - 1)
    return False


def _from_dlpack(source: Any, name: str) -> AnyArray:
    try:
        device = source.__dlpack_device__()
    except (ValueError, RuntimeError, BufferError) as error:
        raise _unreadable(name, source, f"has no memory to read: {error}") from error
    kind = int(device[0])
    if kind not in _CPU_DEVICES:
        raise _unreadable(name, source, f"lives on a device (DLPack kind {kind}), not in CPU memory; copy it first")
    if hasattr(source, "detach"):  # an autograd framework refuses to export tensors that require gradients
        source = source.detach()
    if _flipped(source):  # DLPack has no word for the bit
        source = source.resolve_neg()
    try:
        return cast(AnyArray, np.from_dlpack(source))
    except (BufferError, RuntimeError, TypeError) as error:
        array = _from_capsule(source.__dlpack__())
        if array is None:
            raise _unreadable(name, source, f"cannot be read through DLPack: {error}") from error
        return array


def _from_capsule(capsule: object) -> AnyArray | None:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    t = ctypes.cast(get_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    kind = _DLPACK_TYPES.get((t.code, t.bits))
    if kind is None or t.lanes != 1:
        return None
    typestr, dtype = kind
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] * t.bits // 8 for i in range(t.ndim)) if t.strides else None
    pointer = (t.data or 0) + t.byte_offset
    if 0 in shape:
        return np.empty(shape, dtype)
    interface = {"data": (pointer, False), "shape": shape, "strides": strides, "typestr": typestr, "version": 3}
    return cast(AnyArray, np.asarray(_Exported(capsule, interface)).view(dtype))
