"""What a wrong tile of gradInput looks like: recompute it with one thing done wrong, and see what gives the dump."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from convgrad.core import rounding

from ..device.conv_type import DTYPE_NAMES
from ..device.global_tensor import GlobalTensor
from ..shared.golden import explains
from .math import Matrix, expanded_block, gather_positions, weight_elements, weight_matrix
from .simulate import InputSimulation
from .split import Block
from .walk import Tile, row_window, single_shape


def explain_tile(
    sim: InputSimulation, block: Block, tile: Tile, right: Matrix | None, got: NDArray[np.float32]
) -> str:
    """The mistake that reproduces the dumped tile, or that no single one does."""
    assert right is not None
    if np.isnan(got).all():
        return "the tile was never stored: memory still holds NaN"
    if not got.any():
        return "the tile was never stored, or stored before memory was zeroed: memory holds 0"
    name = DTYPE_NAMES[sim.dtype]

    def stored(values: Matrix) -> Matrix:
        return rounding.load(name, rounding.store(name, values))

    for cause, values in suspects(sim, block, tile, right):
        if explains(stored(values), got, stored(right)):
            return cause
    return "no single tap, channel block, window plane or row shift explains it"


def suspects(sim: InputSimulation, block: Block, tile: Tile, right: Matrix) -> Iterator[tuple[str, Matrix]]:
    """Every mistake tried, with the tile it would give; taps are named as the forward convolution counts them."""
    t = sim.tiling
    per_plane = operand_matrices(sim, block, tile)
    for kd, a, b in per_plane:
        whole = np.einsum("mk,kn->mn", a.reshape(a.shape[0], -1), b.reshape(-1, b.shape[-1]))
        yield f"window plane kd {kd} is missing", right - whole
        for r in range(t.hk):
            for s in range(t.wk):
                tap = f"tap (kd {kd}, kh {t.hk - 1 - r}, kw {t.wk - 1 - s})"
                part = a[:, :, r, s].reshape(a.shape[0], -1) @ b[:, r, s].reshape(-1, b.shape[-1])
                yield f"{tap} is missing", right - part
                yield f"{tap} is counted twice", right + part
    for cout_block in range(per_plane[0][1].shape[1] if per_plane else 0):
        part = sum_of(
            a[:, cout_block].reshape(a.shape[0], -1) @ b[cout_block].reshape(-1, b.shape[-1]) for _, a, b in per_plane
        )
        yield f"cout block {cout_block} is missing", right - part
        yield f"cout block {cout_block} is counted twice", right + part
    turned = sum_of(product(a, b[:, ::-1, ::-1]) for _, a, b in per_plane)
    yield "the window is not turned by half a turn in the plane", turned
    swapped = {kd: b for kd, _, b in per_plane}
    if all(t.dk - 1 - kd in swapped for kd in swapped):
        yield (
            "the window is turned in depth, which it must not be",
            sum_of(product(a, swapped[t.dk - 1 - kd]) for kd, a, _ in per_plane),
        )
    for rows in (1, -1, t.backpropPadUp, -t.backpropPadUp):
        if rows:
            shifted = sum_of(product(a, b) for _, a, b in operand_matrices(sim, block, tile, rows))
            yield (
                f"gradOutput is read {abs(rows)} expanded rows too {'low' if rows > 0 else 'high'} (start row)",
                shifted,
            )


def sum_of(parts: Iterator[Matrix]) -> Matrix:
    """The sum of some matrices."""
    return np.asarray(np.sum(list(parts), axis=0), np.float32)


def product(a: Matrix, b: Matrix) -> Matrix:
    """All taps and channel blocks of one window plane."""
    return a.reshape(a.shape[0], -1) @ np.ascontiguousarray(b).reshape(-1, b.shape[-1])


def operand_matrices(
    sim: InputSimulation, block: Block, tile: Tile, shift: int = 0
) -> list[tuple[int, Matrix, Matrix]]:
    """(kd, A[m][co1][r][s][lane], B[co1][r][s][lane][n]) of a tile, with the start row shifted if asked."""
    t = sim.tiling
    shape = single_shape(t, block.M, block.K, block.N)
    first_row = max(0, -(-block.ho_start // t.strideH))
    grad_output = GlobalTensor(sim.grad_output_gm)[block.offset_a - first_row * t.wo * t.c0]
    start = block.ho_start + shift
    window = row_window(t, start, tile.m_start)
    matrices = []
    for kd, plane in t.depth_taps(tile.plane):
        moved = grad_output[max(0, -(-start // t.strideH)) * t.wo * t.c0]
        a = gather_positions(t, expanded_block(t, moved, start, window, plane, 0, shape.cout1, "compare"), tile)
        weight = GlobalTensor(sim.weight_gm)[block.offset_b]
        elements = weight_elements(t, weight, kd, tile, shape.cout1, "compare")
        b = weight_matrix(t, elements, tile, 0, shape.cout1)
        matrices.append((kd, a.reshape(-1, shape.cout1, t.hk, t.wk, t.c0),
                         b.reshape(shape.cout1, t.hk, t.wk, t.c0, -1)))  # fmt: skip
    return matrices
