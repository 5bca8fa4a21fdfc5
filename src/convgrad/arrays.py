"""Turns whatever a caller holds into a NumPy array that shares its memory.

Accepted: NumPy arrays, anything with `__dlpack__` on the CPU (bfloat16 and float8 included, which
`numpy.from_dlpack` itself refuses), `__array__`, the buffer protocol, nested sequences.
"""

from __future__ import annotations

import ctypes
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]

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
    if hasattr(source, "__dlpack__") and not isinstance(source, np.ndarray):
        return _from_dlpack(source, name)
    try:
        array = np.asarray(cast(Any, source))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: cannot be read as an array: {error}") from error
    return array


def is_channels_last(tensor: AnyArray) -> bool:
    """Whether a cell's channels (axis 1) lie side by side, and the cells in order."""
    if tensor.ndim < 3 or tensor.flags.c_contiguous:
        return False
    return bool(np.moveaxis(tensor, 1, -1).flags.c_contiguous)


def _from_dlpack(source: Any, name: str) -> AnyArray:
    try:
        device = source.__dlpack_device__()
    except (ValueError, RuntimeError, BufferError) as error:
        raise TypeError(f"{name}: has no memory to read: {error}") from error
    if int(device[0]) not in _CPU_DEVICES:
        raise TypeError(f"{name}: lives on a device (DLPack kind {int(device[0])}), not in CPU memory; copy it first")
    if hasattr(source, "detach"):  # an autograd framework refuses to export tensors that require gradients
        source = source.detach()
    try:
        return cast(AnyArray, np.from_dlpack(source))
    except (BufferError, RuntimeError, TypeError) as error:
        capsule = source.__dlpack__()
        array = _from_capsule(capsule)
        if array is None:
            raise TypeError(f"{name}: cannot be read through DLPack: {error}") from error
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
