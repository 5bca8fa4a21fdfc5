"""Global memory around an author's kernel: what it holds before the launch, and what its result is compared with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.ascendc.device.conv_type import DTYPE_NAMES
from convgrad.ascendc.device.errors import TileKernelError, TilingError
from convgrad.ascendc.filter.golden import FilterGolden
from convgrad.ascendc.filter.record import Conv3DBackpropFilterTilingData, FilterBasicBlock, TConv3DBpFilterTiling
from convgrad.ascendc.filter.simulate import FilterSimulation
from convgrad.ascendc.filter.split import FilterBlock
from convgrad.ascendc.input.golden import Golden
from convgrad.ascendc.input.record import Conv3DBackpropInputTilingData, TConv3DBackpropInputTiling
from convgrad.ascendc.input.simulate import InputSimulation
from convgrad.ascendc.input.split import Block
from convgrad.ascendc.line_runs import TileRun
from convgrad.ascendc.replay import Replay
from convgrad.ascendc.shared.compare_dump import compare_dump
from convgrad.ascendc.shared.golden import GoldenTiles
from convgrad.ascendc.shared.record_bytes import places_of, tiling_from_bytes, tiling_to_bytes
from convgrad.ascendc.shared.tiling_record import ceil_div, record_from_dict, require_same_problem
from convgrad.cli.kernel_source import RESULTS
from convgrad.cli.tile import equality
from convgrad.core import layouts, rounding
from convgrad.text import input_files
from convgrad.text.terminal import UsageError

MOST_TILING = 2**20
"""Bytes of a tiling record of one's own."""
OUTER: dict[str, type[Any]] = {"input": Conv3DBackpropInputTilingData, "weight": Conv3DBackpropFilterTilingData}
INNER: dict[str, tuple[str, type[Any]]] = {
    "input": ("conv3DDxTiling", TConv3DBackpropInputTiling),
    "weight": ("dwTiling", TConv3DBpFilterTiling),
}


def packed(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """An operand in the layout that the kernels read."""
    return layouts.to_fractal_z_3d(array, 16) if name == "weight" else layouts.to_ndc1hwc0(array, 16)


def packed_size(shape: Sequence[int], is_weight: bool) -> int:
    """Elements of a tensor in that layout: channels in blocks of 16."""
    first, channels, *rest = shape
    return (ceil_div(first, 16) * 16 if is_weight else first) * ceil_div(channels, 16) * 16 * int(np.prod(rest))


def storage_of(planned: TileRun, role: str) -> np.dtype[Any]:
    """The dtype of an operand or of the result."""
    return np.dtype(np.float32) if role == "gradWeight" else rounding.storage(DTYPE_NAMES[planned.problem.dtype])


def memory(planned: TileRun, roles: Sequence[str], workspace: int, tiling: str | None) -> dict[str, bytes]:
    """What each piece of memory holds before the launch; results and workspaces are all ones, which is NaN."""
    problem = planned.problem
    arrays = dict(zip(planned.model.reads, planned.integers(), strict=True))
    made: dict[str, bytes] = {}
    for role in dict.fromkeys(roles):
        if role in ("gradOutput", "input", "weight"):
            name = {"gradOutput": "grad_output"}.get(role, role)
            array = arrays.get(name)
            if array is None:  # an operand the kernel has no use for
                array = problem.integers(problem.shapes[name], 3).astype(storage_of(planned, role))
            made[role] = np.ascontiguousarray(packed(name, array)).tobytes()
        elif role in ("gradInput", "gradWeight"):
            shape = problem.input_shape if role == "gradInput" else problem.weight_shape
            elements = packed_size(shape, role == "gradWeight")
            made[role] = b"\xff" * (elements * storage_of(planned, role).itemsize)
        elif role in ("inputSize", "weightSize"):
            shape = problem.input_shape if role == "inputSize" else problem.weight_shape
            made[role] = np.array(shape, np.int32).tobytes()
        elif role == "workspace":
            made[role] = b"\xff" * workspace
        elif role == "tiling":
            made[role] = tiling_bytes(tiling, planned)
    return made


def tiling_bytes(path: str | None, planned: TileRun) -> bytes:
    """The record as the kernel reads it: searched for, or the author's own, which is run, not judged."""
    gradient, record = planned.model.gradient, planned.plan.record
    outer, (inner_name, inner) = OUTER[gradient], INNER[gradient]
    data = outer()
    setattr(data, inner_name, record)
    if gradient == "weight":
        data.basicBlockTiling = FilterBasicBlock(**planned.plan.single_shape)
    if path is None:
        return tiling_to_bytes(data)
    content = input_files.read_bytes(path, MOST_TILING)
    own: Any = None
    if content.lstrip()[:1] == b"{":
        try:
            given = json.loads(content)
        except RecursionError:
            raise UsageError(f"{path}: is nested too deeply") from None
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error
        own = record_from_dict(inner, given.get(inner_name, given))
        setattr(data, inner_name, own)
        content = tiling_to_bytes(data)
    elif len(content) == places_of(outer)[1]:
        own = getattr(tiling_from_bytes(outer, content), inner_name)
    elif len(content) == places_of(inner)[1]:
        own = tiling_from_bytes(inner, content)
    if own is not None:
        require_same_problem(own, record)
    return content


def compared(planned: TileRun, replay: Replay, content: bytes) -> tuple[dict[str, Any], str]:
    """The result against the functional API; where they differ, what the error looks like."""
    name = RESULTS[planned.model.gradient]
    storage, problem = storage_of(planned, name), planned.problem
    flat = np.frombuffer(content, storage)
    if name == "gradWeight":
        cout, cin, *window = problem.weight_shape
        got = layouts.from_fractal_z_3d(flat, (cout, cin, window[0], window[1], window[2]), 16, check=False)
    elif replay.ncdhw:
        got = flat[: int(np.prod(problem.input_shape))].reshape(problem.input_shape)
    else:
        n, c, d, h, w = problem.input_shape
        got = layouts.from_ndc1hwc0(flat.reshape(n, d, ceil_div(c, 16), h, w, 16), c, check=False)
    checked = equality(got, planned.expected(storage))
    if checked["equal"] or replay.ncdhw:
        return checked, ""
    try:
        first = compare_dump(golden_tiles(planned, replay), flat).first
        return checked, "" if first is None else str(first)
    except TileKernelError:  # walks that go wrong have no golden tiles
        return checked, ""


def golden_tiles(planned: TileRun, replay: Replay) -> GoldenTiles[Any]:
    """The expected tiles of the author's own walks, on the same integers."""
    record, blocks, cores = replay.record, replay.blocks(), planned.plan.arguments.cores
    if record is None or not blocks:
        raise TilingError("the kernel walks nothing: there are no tiles", "golden.none")
    first, second = (
        np.ascontiguousarray(packed(name, array)).reshape(-1)
        for name, array in zip(planned.model.reads, planned.integers(), strict=True)
    )
    nothing, dtype = np.zeros(0, np.float32), planned.problem.dtype
    if isinstance(record, TConv3DBackpropInputTiling):
        result = np.zeros(record.grad_input_size, first.dtype)
        input_blocks = tuple(one for one in blocks if isinstance(one, Block))
        return Golden(InputSimulation(nothing, record, (), input_blocks, cores, result, first, second, dtype))
    sums, filter_blocks = np.zeros(record.grad_weight_size, np.float32), blocks_of_filter(blocks)
    whole = FilterBasicBlock()  # the walks have cut the problem already
    return FilterGolden(FilterSimulation(nothing, record, whole, (), filter_blocks, cores, sums, first, second, dtype))


def blocks_of_filter(blocks: Sequence[Block | FilterBlock]) -> tuple[FilterBlock, ...]:
    """Those of the filter kernel."""
    return tuple(one for one in blocks if isinstance(one, FilterBlock))
