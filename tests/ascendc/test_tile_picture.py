"""The picture of the walk: well-formed, with one shape per tile, coloured by core."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from convgrad.ascendc import TilingError, draw_walk, flat_blocks, simulate
from convgrad.ascendc.input.picture import tile_outline, turns_of
from convgrad.ascendc.input.walk import single_shape, tiles_in_order
from convgrad.ascendc.shared.svg import core_colour
from tile_problems import forced_small_tiles, random_problem

SVG = "{http://www.w3.org/2000/svg}"


def walk_of(seed: int):
    """A random problem with many small tiles on four cores."""
    problem = random_problem(seed)
    grad_output, weight, _ = problem.arrays()
    arguments = {"input_shape": problem.input_shape, "cores": 4, **problem.attributes()}
    tiling = forced_small_tiles(simulate(grad_output, weight, **arguments).tiling, seed)
    return tiling, list(flat_blocks(tiling, 4))


@pytest.mark.parametrize("seed", range(20))
def test_every_tile_of_the_plane_is_drawn_once(seed):
    """The shown plane has one tooltip per tile of its blocks, in the colour family of its core; the file is XML."""
    t, blocks = walk_of(seed)
    plane = next((block.plane for block in blocks if t.depth_taps(block.plane)), 0)
    root = ElementTree.fromstring(draw_walk(t, blocks, 4, title="<a & b>", plane=plane))
    assert root.find(f"{SVG}text").text == "<a & b>"
    tips = [
        shape.find(f"{SVG}title").text for shape in root.iter(f"{SVG}polygon") if shape.find(f"{SVG}title") is not None
    ]
    expected = [
        (block.core, block.index, tile.i)
        for block in blocks if (block.batch, block.plane, block.n_piece) == (0, plane, 0)
        for tile in tiles_in_order(t, single_shape(t, block.M, block.K, block.N), plane) if tile.j == 0
    ]  # fmt: skip
    found = [tuple(int(number) for number in re.findall(r"\d+", tip)[:3]) for tip in tips]
    assert sorted(found) == sorted(expected)


def area(points) -> float:
    """Area inside a closed outline."""
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(points, [*points[1:], points[0]], strict=True))) / 2


def test_outlines_have_the_area_of_their_positions():
    """The outline of any run of positions, with part rows at either end, encloses just that many cells."""
    for columns in (1, 3, 7):
        for first in range(2 * columns):
            for last in range(first, 5 * columns):
                outline = tile_outline(first, last, columns, 0.0, 0.0, (1.0, 1.0))
                assert area(outline) == last - first + 1, (columns, first, last)


def test_cores_have_different_colours():
    """24 cores have 24 colours, and later tiles are darker."""
    assert len({core_colour(core) for core in range(24)}) == 24
    assert core_colour(3, 0.0) != core_colour(3, 1.0)


def test_the_window_shows_padding_data_and_inserted_zeros():
    """With stride 2 the window has data cells for every second row and column, inserted zeros, and hatched padding."""
    sim = simulate(np.ones((1, 4, 1, 5, 5)), np.ones((4, 4, 1, 3, 3)), input_shape=(1, 4, 1, 9, 9), stride=(1, 2, 2),
                   padding=(0, 0, 1, 1, 1, 1), cores=1)  # fmt: skip
    root = ElementTree.fromstring(draw_walk(sim.tiling, sim.blocks, 1))
    data = [
        one for one in root.iter(f"{SVG}rect") if (one.findtext(f"{SVG}title") or "").startswith("gradOutput column")
    ]
    assert len(data) == 25
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "row 2 = 1" in texts and "row -1" in texts


def test_a_plane_that_does_not_exist_is_refused():
    """Asking for a plane outside gradInput raises."""
    t, blocks = walk_of(1)
    with pytest.raises(TilingError, match="gradInput plane"):
        draw_walk(t, blocks, 4, plane=99)


@pytest.mark.parametrize("order", [0, 1])
def test_the_picture_follows_the_order_of_the_walk(order):
    """iterateOrder 1 has M fastest, 0 has N fastest: numbers and shades of the tiles tell when a core gets there."""
    for seed in range(40):
        t, blocks = walk_of(seed)
        t = replace(t, iterateOrder=order)
        plane = next((block.plane for block in blocks if t.depth_taps(block.plane)), 0)
        parts = [b for b in blocks if (b.batch, b.plane, b.n_piece) == (0, plane, 0)]
        shapes = [single_shape(t, b.M, b.K, b.N) for b in parts]
        if not any(s.m.count > 1 and s.n.count > 1 for s in shapes):
            continue
        shape = next(s for s in shapes if s.m.count > 1 and s.n.count > 1)
        rows, columns = range(shape.m.count), range(shape.n.count)
        want = [(i, j) for j in columns for i in rows] if order else [(i, j) for i in rows for j in columns]
        assert [(tile.i, tile.j) for tile in tiles_in_order(t, shape, plane)] == want
        root = ElementTree.fromstring(draw_walk(t, blocks, 4, plane=plane))
        found = [
            (shape.find(f"{SVG}title").text, shape.get("fill"))
            for shape in root.iter(f"{SVG}polygon") if shape.find(f"{SVG}title") is not None
        ]  # fmt: skip
        turn = turns_of(t, blocks)
        for block in parts:
            single = single_shape(t, block.M, block.K, block.N)
            for i in range(single.m.count):
                number = i if order else i * single.n.count
                colour = core_colour(block.core, turn[block.index].shade(number))
                begin = f"core {block.core}, block {block.index}, tile i {i}:"
                assert [fill for tip, fill in found if tip.startswith(begin)] == [colour]
        return
    raise AssertionError("no problem has tiles along both axes")


def test_shades_count_the_blocks_before():
    """A core's second block goes on where its first one ended, from 0 to 1 over all of its tiles."""
    t, blocks = walk_of(3)
    turn = turns_of(t, blocks)
    for core in {block.core for block in blocks}:
        mine = [b for b in blocks if b.core == core]
        counts = [s.m.count * s.n.count for s in (single_shape(t, b.M, b.K, b.N) for b in mine)]
        assert [turn[b.index].before for b in mine] == [sum(counts[:i]) for i in range(len(mine))]
        assert {turn[b.index].in_all for b in mine} == {sum(counts)}
        if sum(counts) > 1:
            assert turn[mine[-1].index].shade(counts[-1] - 1) == 1 and turn[mine[0].index].shade(0) == 0
