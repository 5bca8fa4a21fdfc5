"""The finishing step of a kernel whose gradInput is NCDHW: raw tiles from the workspace to their place."""

from __future__ import annotations

from .errors import CallOrderError
from .global_tensor import GlobalTensor
from .kernel_input import Conv3DBackpropInput


def finish_ncdhw(kernel: Conv3DBackpropInput, workspace: GlobalTensor, gradInput: GlobalTensor) -> None:
    """Move the raw tile that GetTensorC left in the workspace to its place in an NCDHW tensor; pad lanes are cut.

    `gradInput` stands at batch * Cin * Di * Hi * Wi + first channel * Di * Hi * Wi + first row * Wi. Does nothing for a
    skipped tile.
    """
    t, tile = kernel.tiling, kernel.tile
    if t is None or tile is None or kernel.l0c is not None:
        raise CallOrderError("finish_ncdhw: Iterate and GetTensorC come first", "order.no_tile")
    if not kernel.tile_is_stored:
        return
    raw = workspace.read(kernel.block_idx * t.baseM * t.baseN, tile.m_length * tile.n_length, f"finish_ncdhw, {tile}")
    channels = raw.reshape(-1, tile.m_length, t.c0).transpose(0, 2, 1).reshape(-1, tile.m_length)
    per_channel = t.di * t.hi * t.wi
    first_channel = gradInput.offset // per_channel % t.cin + tile.n_start
    for lane in range(min(tile.n_length, t.cin - first_channel)):
        at = (tile.n_start + lane) * per_channel + tile.plane * t.hi * t.wi + tile.m_start
        gradInput.write(at, channels[lane], f"finish_ncdhw, {tile}, channel {first_channel + lane}")
