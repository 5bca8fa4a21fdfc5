"""Tensors as files in the test kits' naming: `input_0_bfloat16.bin`, `golden_0_float32.npy`, `output_0_…`.

A file holds stored elements; `.npy` keeps the shape, and formats NumPy has no name for are kept as unsigned codes.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
import zipfile
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray, as_array
from convgrad.core.dtypes import Dtype
from convgrad.core.status import ConvGradError
from convgrad.lab.cases.reading import shown
from convgrad.text.files import write_bytes
from convgrad.text.terminal import UsageError

SUFFIXES = (".npy", ".bin", ".pt")
_NAME = re.compile(
    r"^(?P<role>[a-z]+)_(?P<number>\d+)_(?P<dtype>[a-z0-9_]+?)(__shape_(?P<shape>scalar|\d+(x\d+)*))?\.(npy|bin|pt)$"
)


def file_name(role: str, number: int, dtype: str, extension: str) -> str:
    """`input_0_bfloat16.bin`."""
    return f"{role}_{number}_{dtype}.{extension}"


def directory_name(index: int, name: str) -> str:
    """The directory of a case: its number, then its name with nothing a file system could mind."""
    return f"{index:06d}_{re.sub(r'[^A-Za-z0-9.-]+', '_', name).strip('._')[:80]}".rstrip("_")


def as_bytes(array: AnyArray, extension: str) -> bytes:
    """What a file of this kind holds."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind not in "fiu" or plain.dtype.name.startswith(("bfloat", "float8")):
        plain = plain.view(f"u{plain.dtype.itemsize}")
    if extension == "bin":
        return plain.astype(plain.dtype.newbyteorder("<"), copy=False).tobytes()
    import io

    out = io.BytesIO()
    np.lib.format.write_array(out, plain, allow_pickle=False)
    return out.getvalue()


def write(path: Path, array: AnyArray, extension: str) -> bytes:
    """Writes a tensor whole or not at all; the bytes written."""
    content = as_bytes(array, extension)
    write_bytes(path, content)
    return content


def named_dtype(path: Path) -> Dtype | None:
    """The dtype a file's name tells."""
    match = _NAME.match(path.name)
    try:
        return dtypes.find(match["dtype"]) if match else None
    except ValueError:
        return None


def named_shape(path: Path) -> tuple[int, ...] | None:
    """The shape a file's name tells, as a kit's raw golden files do."""
    match = _NAME.match(path.name)
    if match is None or match["shape"] is None:
        return None
    return () if match["shape"] == "scalar" else tuple(int(n) for n in match["shape"].split("x"))


def is_nothing(path: Path) -> bool:
    """Whether a file stands for an output that is not there."""
    match = _NAME.match(path.name)
    return match is not None and match["dtype"] == "none"


def role_and_number(path: Path) -> tuple[str, int] | None:
    """`("golden", 0)` of `golden_0_float32.npy`."""
    match = _NAME.match(path.name)
    return (match["role"], int(match["number"])) if match else None


def read(path: str | Path, dtype: str | None = None, shape: Sequence[int] | None = None) -> tuple[AnyArray, Dtype]:
    """The stored elements of a file and their dtype: as asked, else as its name or its contents tell."""
    file = Path(path)
    known = dtypes.find(dtype) if dtype else named_dtype(file)
    if not stat.S_ISREG(file.stat().st_mode):
        raise UsageError(f"{file}: is no regular file")
    if file.suffix == ".npy":
        return _typed(file, read_npy(file), known)
    if file.suffix == ".pt":
        return _from_torch(file, known)
    if known is None:
        raise UsageError(f"{file}: say its dtype (--dtype), or name it like input_0_bfloat16.bin")
    storage = rounding.storage(known)
    size = file.stat().st_size
    if size % storage.itemsize:
        raise UsageError(f"{file}: {size} bytes are no whole number of {known} elements")
    flat = np.fromfile(file, storage)
    named = named_shape(file)
    for told in (named, shape):
        if told is not None and prod(told) != flat.size:
            raise UsageError(f"{file}: holds {flat.size} elements, the shape {tuple(told)} has another count")
    shape = named if shape is None else shape
    return flat if shape is None else flat.reshape(shape), known


def read_npy(file: Path) -> AnyArray:
    """The array of a .npy file; its header is believed only when as many bytes follow as it promises."""
    with file.open("rb") as content:
        try:
            version = np.lib.format.read_magic(content)
            reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in reader:
                raise ValueError(f"version {version[0]}.{version[1]} is for structured data")
            shape, fortran, dtype = reader[version](content)
        except Exception as error:  # NumPy lets Python parse the header: MemoryError is one of its many answers
            raise UsageError(f"{file}: is no .npy file that can be read: {error}") from None
        if dtype.hasobject or dtype.fields or dtype.itemsize == 0 or len(shape) > 32:
            raise UsageError(f"{file}: holds {len(shape)} axes of {dtype}, not a tensor of numbers")
        held = os.fstat(content.fileno()).st_size - content.tell()
        if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != held:
            raise UsageError(f"{file}: {held} bytes follow the header, its shape {shown(shape)} of {dtype} has others")
        flat = np.fromfile(content, dtype, prod(shape)).astype(dtype.newbyteorder("="), copy=False)
    return flat.reshape(shape, order="F" if fortran else "C")


def _from_torch(file: Path, known: Dtype | None) -> tuple[AnyArray, Dtype]:
    """A tensor saved by torch; loaded as data only, so that a file can run nothing."""
    try:
        import torch
    except ImportError:
        raise UsageError(f"{file}: a .pt file needs torch to be read: pip install 'convgrad[torch]'") from None
    _refuse_bomb(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a foreign file's pickle looks like is told by the refusal
            held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its reader meets; none of it has been executed
        # Its first sentence: what follows is how to have the code run all the same, in colours.
        reason = re.split(r"[.:,]?\s*\n|[.:,] ", str(error))[0] or type(error).__name__
        raise UsageError(f"{file}: is no tensor file that can be read without running code: {reason[:200]}") from None
    if isinstance(held, dict) and set(held) == {"ttk_raw_bytes", "ttk_shape"}:
        codes, shape = held["ttk_raw_bytes"], held["ttk_shape"]
        if known is None or not isinstance(codes, torch.Tensor) or codes.dtype != torch.uint8:
            raise UsageError(f"{file}: holds raw bytes; name it like golden_0_hifloat8.pt")
        flat = codes.numpy().reshape(-1).view(rounding.storage(known))
        if flat.size != np.prod(shape, dtype=object):
            raise UsageError(f"{file}: holds {flat.size} elements, the shape {tuple(shape)} has another count")
        return flat.reshape(shape), known
    if not isinstance(held, torch.Tensor):
        raise UsageError(f"{file}: holds no tensor but {type(held).__name__}")
    if held.layout != torch.strided or held.numel() * held.element_size() > held.untyped_storage().nbytes():
        raise UsageError(f"{file}: its tensor of {shown(tuple(held.shape))} is not stored in full")
    try:
        array = as_array(held.detach().contiguous(), "tensor")
    except ConvGradError as error:
        raise UsageError(f"{file}: {error.message}") from None
    return _typed(file, array, known)


def _refuse_bomb(file: Path) -> None:
    """torch stores tensors as they are: an archive that unpacks to more than it holds is none of its making."""
    try:
        if not zipfile.is_zipfile(file):  # which raises too, of an archive in several parts
            return
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise UsageError(f"{file}: is no archive that can be read: {error}") from None
    if unpacked > 2 * file.stat().st_size + 2**20:
        raise UsageError(f"{file}: unpacks to {unpacked:,} bytes from {file.stat().st_size:,}: refused")


def _typed(file: Path, array: AnyArray, known: Dtype | None) -> tuple[AnyArray, Dtype]:
    if known is None:
        try:
            known = dtypes.find(array.dtype.name)
        except ValueError:
            raise UsageError(f"{file}: say its dtype (--dtype); {array.dtype} alone does not tell") from None
    storage = rounding.storage(known)
    if array.dtype == storage:
        return array, known
    if array.dtype.kind in "uV" and array.dtype.itemsize == storage.itemsize:
        return np.ascontiguousarray(array).view(storage), known
    raise UsageError(f"{file}: holds {array.dtype}, not {known}")
