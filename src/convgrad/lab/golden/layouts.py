"""How golden data lie on disk: our own layout, and the one a test kit replays on the device.

    convgrad   DIR/000000_name/golden_0_bfloat16.npy              wanted gradients only, in order; manifest inside DIR
    ttk        DIR/name/golden_0_bfloat16__shape_2x3x4.bin        a slot per output, `golden_1_none.bin` where there is
                                                                  none; nothing else inside: the manifest is beside DIR

A kit finds data by a case's name alone and rejects a directory that holds anything else.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from convgrad.core.arrays import AnyArray
from convgrad.lab.golden import tensor_files
from convgrad.text.terminal import UsageError

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
_LONGEST_NAME, _KEPT = 120, 96
_CUSTOM = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8")


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout and what its kit can read."""

    name: str
    formats: tuple[str, ...]
    every_slot: bool
    """Whether outputs that are not wanted keep their number."""

    def directory_name(self, index: int, name: str) -> str:
        """The directory of a case."""
        return kit_directory_name(name) if self.every_slot else tensor_files.directory_name(index, name)

    def file_name(self, role: str, number: int, dtype: str, shape: tuple[int, ...], extension: str) -> str:
        """The file of a tensor."""
        if self.every_slot and role == "golden" and extension == "bin":
            dtype += "__shape_" + ("x".join(map(str, shape)) or "scalar")
        return tensor_files.file_name(role, number, dtype, extension)

    def as_bytes(self, array: AnyArray, dtype: str, extension: str) -> bytes:
        """What a tensor's file holds."""
        if extension == "pt":
            return _torch_bytes(array, dtype)
        if self.every_slot and extension == "npy" and dtype in _CUSTOM:
            out = io.BytesIO()  # as raw bytes of the element's size, not as unsigned numbers
            np.save(out, np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}"), allow_pickle=False)
            return out.getvalue()
        return tensor_files.as_bytes(array, extension)

    def beside(self, directory: Path, name: str) -> Path:
        """Where a file about the whole directory lies."""
        return directory.parent / f"{directory.name}.{name}" if self.every_slot else directory / name


OWN = Layout("convgrad", ("npy", "bin"), every_slot=False)
TTK = Layout("ttk", ("bin", "npy", "pt"), every_slot=True)
ALL = (OWN, TTK)


def find(name: str) -> Layout:
    """The layout of a name."""
    return next(row for row in ALL if row.name == name)


def manifest_of(directory: Path) -> Path:
    """Where a directory's manifest is, if it has one: inside, or beside it."""
    own = OWN.beside(directory, MANIFEST)
    return own if own.is_file() else TTK.beside(directory.resolve(), MANIFEST)


def kit_directory_name(name: str) -> str:
    """The kit's formula: the name itself if a file system takes it, else its readable part and a hash of the whole."""
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._") or "case"
    if safe == name and len(safe) <= _LONGEST_NAME:
        return safe
    return f"{safe[:_KEPT]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _torch_bytes(array: AnyArray, dtype: str) -> bytes:
    try:
        import torch
    except ImportError:
        raise UsageError("--format pt needs torch: pip install 'convgrad[torch]'") from None
    plain = np.ascontiguousarray(array)
    out = io.BytesIO()
    if dtype in _CUSTOM:
        codes = torch.from_numpy(plain.reshape(-1).view(np.uint8).copy())
        if hasattr(torch, dtype):
            torch.save(codes.view(getattr(torch, dtype)).reshape(array.shape), out)
        else:
            torch.save({"ttk_raw_bytes": codes, "ttk_shape": list(array.shape)}, out)
    else:
        # NumPy gives an array without elements strides of 0, which a view as bytes refuses: clone has proper ones.
        torch.save(torch.from_numpy(plain).reshape(array.shape).clone(memory_format=torch.contiguous_format), out)
    return out.getvalue()
