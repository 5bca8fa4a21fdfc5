"""Tensors as a kit's case stores them: axes in another order, channels in blocks, a view inside a larger buffer.

A kit's data files hold the storage of a tensor, not its view. What a case says about it is kept in the manifest, so
that results and inputs are read back as the tensors they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from convgrad.core import layouts
from convgrad.core.arrays import AnyArray
from convgrad.text.terminal import UsageError

BLOCKS, FRACTAL = "NDC1HWC0", "FRACTAL_Z_3D"


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the elements of a tensor lie: in a format of five axes or in blocks, or at strides of a buffer."""

    shape: tuple[int, ...]
    """Of what a file holds."""
    format: str = ""
    strides: tuple[int, ...] | None = None
    offset: int = 0

    def stored(self, view: AnyArray) -> AnyArray:
        """The array a file holds; elements of a buffer that no view reaches are zero."""
        if self.strides is not None:
            buffer = np.zeros(self.shape, view.dtype)
            self._window(buffer, view.shape)[...] = view
            return buffer
        found = self._formatted(view)
        if found.shape != self.shape:
            right = _x(found.shape)
            raise UsageError(
                f"a storage shape is {_x(self.shape)}, but {self.format} of a tensor {_x(view.shape)} has shape {right}"
            )
        return found

    def view(self, stored: AnyArray, shape: Sequence[int]) -> AnyArray:
        """The tensor of this shape in the array of a file."""
        if self.strides is not None:
            return np.ascontiguousarray(self._window(stored.reshape(self.shape), tuple(shape)))
        if self.format == BLOCKS:
            return layouts.from_ndc1hwc0(stored.reshape(self.shape), shape[1], check=False)
        if self.format == FRACTAL:
            n, c, d, h, w = shape
            return layouts.from_fractal_z_3d(stored.reshape(self.shape), (n, c, d, h, w), self.shape[-1], check=False)
        order = [self.format.index(axis) for axis in layouts.CANONICAL]
        return np.ascontiguousarray(stored.reshape(self.shape).transpose(order))

    def _formatted(self, view: AnyArray) -> AnyArray:
        if self.format == BLOCKS:
            return layouts.to_ndc1hwc0(view, self.shape[-1])
        if self.format == FRACTAL:
            return layouts.to_fractal_z_3d(view, self.shape[-1])
        return np.ascontiguousarray(view.transpose([layouts.CANONICAL.index(axis) for axis in self.format]))

    def _window(self, buffer: AnyArray, shape: tuple[int, ...]) -> AnyArray:
        strides = self.strides or ()
        if len(strides) != len(shape):
            raise UsageError(f"view strides {_x(strides)} do not fit a view of {_x(shape)}")
        if not prod(shape):
            return np.zeros(shape, buffer.dtype)
        reach = self.offset + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        if min(strides, default=1) < 0 or self.offset < 0 or reach >= buffer.size:
            seen, steps, kept = _x(shape), _x(strides), _x(self.shape)
            said = f"a view of {seen} at strides {steps} from {self.offset} does not fit its storage of {kept}"
            raise UsageError(said)
        walked = sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1)
        covered = 1
        for stride, size in walked:
            if stride < covered:
                raise UsageError(f"elements of a view of {_x(shape)} at strides {_x(strides)} share their memory")
            covered = stride * (size - 1) + covered
        item = buffer.dtype.itemsize
        flat = buffer.reshape(-1)[self.offset :]
        return np.lib.stride_tricks.as_strided(flat, shape, [s * item for s in strides])

    def as_dict(self) -> dict[str, Any]:
        """For the manifest; `read` is its way back."""
        if self.strides is None:
            return {"shape": list(self.shape), "format": self.format}
        return {"shape": list(self.shape), "strides": list(self.strides), "offset": self.offset}


def read(record: Mapping[str, Any]) -> Storage:
    """What a manifest says of a tensor's storage."""
    strides = record.get("strides")
    return Storage(
        tuple(map(int, record["shape"])), str(record.get("format", "")),
        None if strides is None else tuple(map(int, strides)), int(record.get("offset", 0)),
    )


def _x(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"
