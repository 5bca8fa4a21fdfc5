"""The drop-in library in this process, as an adapter loads it: opened by name, functions looked up, tensors by hand."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_bool, c_char_p, c_int, c_int8, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache

import numpy as np

from c_programs import prefix
from convgrad.core import dtypes, layouts


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(prefix() / "lib64/libopapi.so"))
    for name, result, arguments in (
        ("aclInit", c_int, (c_char_p,)),
        ("aclrtMalloc", c_int, (c_void_p, c_size_t, c_int)),
        ("aclrtFree", c_int, (c_void_p,)),
        ("aclrtMemcpy", c_int, (c_void_p, c_size_t, c_void_p, c_size_t, c_int)),
        ("aclCreateTensor", c_void_p,
         (c_void_p, c_uint64, c_int, c_void_p, c_int64, c_int, c_void_p, c_uint64, c_void_p)),
        ("aclDestroyTensor", c_int, (c_void_p,)),
        ("aclCreateIntArray", c_void_p, (c_void_p, c_uint64)),
        ("aclDestroyIntArray", c_int, (c_void_p,)),
        ("aclCreateBoolArray", c_void_p, (c_void_p, c_uint64)),
        ("aclDestroyBoolArray", c_int, (c_void_p,)),
        ("aclGetRecentErrMsg", c_char_p, ()),
        ("aclrtSetSysParamOpt", c_int, (c_int, c_int64)), ("aclrtCtxSetSysParamOpt", c_int, (c_int, c_int64)),
        ("aclnnConvolutionBackwardGetWorkspaceSize", c_int,
         (*[c_void_p] * 7, c_bool, c_void_p, c_int, c_void_p, c_int8, *[c_void_p] * 5)),
        ("aclnnConvTbcBackwardGetWorkspaceSize", c_int, (*[c_void_p] * 4, c_int64, c_int8, *[c_void_p] * 5)),
        ("aclnnConvolutionBackward", c_int, (c_void_p, c_uint64, c_void_p, c_void_p)),
        ("aclnnConvTbcBackward", c_int, (c_void_p, c_uint64, c_void_p, c_void_p)),
    ):  # fmt: skip
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class DeviceArray:
    """Device memory with the bytes of an array; strides of the array (in elements) become the tensor's."""

    def __init__(self, codes: np.ndarray, dtype: str, layout: str) -> None:
        self.codes = codes
        lib = library()
        base = codes if codes.base is None else codes.base
        self.storage = np.array(base, order="C").view(np.uint8).reshape(-1)  # a copy: what is read back goes here
        address = c_void_p()
        assert lib.aclrtMalloc(ctypes.byref(address), max(self.storage.nbytes, 1), 0) == 0
        self.address = address.value
        self._copy(self.address, self.storage.ctypes.data, 1)
        shape, strides = (_numbers(v) for v in (codes.shape, [s // codes.itemsize for s in codes.strides]))
        offset = (codes.ctypes.data - base.ctypes.data) // codes.itemsize if codes.size else 0
        self.tensor = lib.aclCreateTensor(
            shape, codes.ndim, dtypes.find(dtype).acl_code, strides, offset, layouts.find(layout).acl_code,
            _numbers([base.size]), 1, self.address,
        )  # fmt: skip
        assert self.tensor

    def _copy(self, target: int | None, source: int | None, kind: int) -> None:
        size = self.storage.nbytes
        assert library().aclrtMemcpy(target, size, source, size, kind) == 0

    def read(self) -> np.ndarray:
        """The whole storage as it is on the device now."""
        self._copy(self.storage.ctypes.data, self.address, 2)
        return self.storage

    def close(self) -> None:
        library().aclDestroyTensor(self.tensor)
        library().aclrtFree(self.address)


def _numbers(values: Sequence[int]) -> ctypes.Array[c_int64]:
    return (c_int64 * max(len(values), 1))(*values)


@contextmanager
def int_arrays(*lists: Sequence[int]) -> Iterator[list[int]]:
    handles = [library().aclCreateIntArray(_numbers(values), len(values)) for values in lists]
    yield handles
    for handle in handles:
        library().aclDestroyIntArray(handle)


@contextmanager
def bool_array(values: Sequence[bool]) -> Iterator[int]:
    handle = library().aclCreateBoolArray((c_bool * 3)(*values), len(values))
    yield handle
    library().aclDestroyBoolArray(handle)
