"""The picture of the filter walk: well-formed, gradWeight covered by the parts of its sum, the input as it is read."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from convgrad.ascendc import TilingError, draw_filter_walk, simulate_filter
from convgrad.ascendc.filter.picture import tiles_of
from tile_problems import forced_small_filter_tiles, random_problem

SVG = "{http://www.w3.org/2000/svg}"


def walk_of(seed: int):
    """A random problem with many small tiles on four cores."""
    problem = random_problem(seed)
    grad_output, _, input = problem.arrays()
    arguments = {"weight_shape": problem.weight_shape, "cores": 4, **problem.attributes()}
    t, block = forced_small_filter_tiles(simulate_filter(input, grad_output, **arguments).tiling, seed)
    return simulate_filter(input, grad_output, tiling=t, basic_block=block, **arguments)


def tips(root, start: str) -> list[tuple[str, float]]:
    """Tooltips of rectangles that start like this, with the area of each."""
    found = []
    for shape in root.iter(f"{SVG}rect"):
        tip = shape.findtext(f"{SVG}title") or ""
        if re.match(start, tip):
            found.append((tip, float(shape.get("width")) * float(shape.get("height"))))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_every_part_of_every_tile_is_drawn_once(seed):
    """The shown window plane has one stripe per block and tile, and together they cover gradWeight; the file is XML."""
    sim = walk_of(seed)
    t, plane = sim.tiling, sim.blocks[-1].window_plane
    root = ElementTree.fromstring(draw_filter_walk(t, sim.blocks, 4, title="<a & b>", plane=plane))
    assert root.find(f"{SVG}text").text == "<a & b>"
    stripes = tips(root, r"core \d+, block \d+, tile")
    expected = [(block.core, block.index, tile.i, tile.j)
                for block in sim.blocks if block.window_plane == plane for tile in tiles_of(t, block)]  # fmt: skip
    found = [tuple(int(number) for number in re.findall(r"\d+", tip)[:4]) for tip, _ in stripes]
    assert sorted(found) == sorted(expected)
    sheet = (720 - 52) * min(370.0, 5.0 * t.weight_cout)
    assert sum(area for _, area in stripes) == pytest.approx(sheet, rel=0.02)


def test_the_small_planes_show_the_sum():
    """Each gradOutput plane of each batch is there; one that the window plane shows no input is left hatched."""
    grad_output, input = np.ones((2, 8, 3, 4, 4)), np.ones((2, 8, 3, 4, 4))
    sim = simulate_filter(input, grad_output, weight_shape=(8, 8, 3, 3, 3), padding=1, cores=3)
    root = ElementTree.fromstring(draw_filter_walk(sim.tiling, sim.blocks, 3, plane=0))
    assert {tip for tip, _ in tips(root, r"batch \d")} == {f"batch {n}, plane {d}" for n in range(2) for d in range(3)}
    pieces = tips(root, r"core \d+, block \d+: batch")
    parts = {re.findall(r"batch (\d), plane (\d)", tip)[0] for tip, _ in pieces}
    assert parts == {(str(n), str(d)) for n in range(2) for d in (1, 2)}  # plane 0 would look before the input


def test_the_window_shows_padding_data_and_what_no_tap_reads():
    """Stride 2 under one tap: every second row and column of the input is read, the pad row above is labelled."""
    sim = simulate_filter(np.ones((1, 4, 1, 9, 9)), np.ones((1, 4, 1, 5, 5)), weight_shape=(4, 4, 1, 1, 1),
                          stride=(1, 2, 2), cores=1)  # fmt: skip
    root = ElementTree.fromstring(draw_filter_walk(sim.tiling, sim.blocks, 1))
    assert len(tips(root, "input row")) == 25
    sim = simulate_filter(np.ones((1, 4, 1, 9, 9)), np.ones((1, 4, 1, 9, 9)), weight_shape=(4, 4, 1, 3, 3),
                          padding=(0, 0, 1, 1, 1, 1), cores=1)  # fmt: skip
    root = ElementTree.fromstring(draw_filter_walk(sim.tiling, sim.blocks, 1))
    positions = min(81, sim.tiling.stepKb * sim.tiling.baseK)
    rows = min(9, (positions - 1) // 9 + 2)
    assert len(tips(root, "input row")) == 9 * rows
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "row -1" in texts and "row 0" in texts


def test_a_window_plane_that_does_not_exist_is_refused():
    """Asking for a window plane that has no tiles raises, and so does a problem where none has any."""
    sim = walk_of(1)
    with pytest.raises(TilingError, match="window plane that meets the input"):
        draw_filter_walk(sim.tiling, sim.blocks, 4, plane=99)
    with pytest.raises(TilingError, match="no window plane meets the input"):
        draw_filter_walk(sim.tiling, (), 4)
