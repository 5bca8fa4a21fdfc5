"""The two tile kernels as models of one kind; a tiling is searched for once, and not at all when it is given."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from convgrad import ascendc as ac
from convgrad.ascendc.filter import MODEL as FILTER
from convgrad.ascendc.filter import tiling as filter_tiling
from convgrad.ascendc.input import MODEL as INPUT
from convgrad.ascendc.input import tiling as input_tiling
from convgrad.cli.command_line import main
from tile_problems import random_problem

LINE = "conv n1 c20>24 i3x9x8 k2x3x3 s1x2x1 p0x1x1 fp16"


@pytest.fixture
def searches(monkeypatch):
    """The kernels that were searched for, in order."""
    seen = []

    def counted(module, name, kernel):
        search = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: seen.append(kernel) or search(*given))

    counted(input_tiling, "search", "input")
    counted(filter_tiling, "filter_search", "weight")
    return seen


@pytest.mark.parametrize("model", [INPUT, FILTER], ids=["input", "filter"])
def test_a_model_offers_each_file_under_its_own_name(model):
    """What a model calls `traffic` is in the file `traffic` of its kernel's folder, and so on."""
    folder = {"input": "input", "weight": "filter"}[model.gradient]
    names = {one.name for one in fields(model)} - {"gradient", "reads"}
    assert names == {"tiling", "split", "kernel", "simulate", "golden", "traffic", "picture"}
    for name in names:
        assert getattr(model, name).__module__ == f"convgrad.ascendc.{folder}.{name}"


@pytest.mark.parametrize("more", [[], ["--dry"], ["--json"], ["--svg", "walk.svg", "--golden", "tiles"]])
@pytest.mark.parametrize("gradient", ["input", "weight"])
def test_the_command_searches_once(searches, capsys, tmp_path, monkeypatch, gradient, more):
    """`convgrad tile` plans a line once, whatever it then prints, draws, runs and writes."""
    monkeypatch.chdir(tmp_path)
    assert main(["tile", LINE, "--gradient", gradient, "--cores", "5", *more]) == 0
    assert searches == [gradient]


def test_a_given_input_tiling_is_not_searched_for(searches):
    """`simulate(tiling=)` runs on the record it is given, with the same bits, and searches for no other."""
    problem = random_problem(7)
    grad_output, weight, _ = problem.arrays()
    given = problem.attributes() | {"input_shape": problem.input_shape, "cores": problem.cores}
    first = ac.simulate(grad_output, weight, **given)
    assert searches == ["input"]
    for own in (first.tiling, first.tiling.as_dict()):
        again = ac.simulate(grad_output, weight, tiling=own, **given)
        assert np.array_equal(again.grad_input, first.grad_input) and again.report == ()
    assert searches == ["input"]


def test_a_given_filter_tiling_is_searched_for_only_where_it_is_incomplete(searches):
    """With record and basic block nothing is left to search for; with one of them, the other is."""
    problem = random_problem(7)
    grad_output, _, input = problem.arrays()
    given = problem.attributes() | {"weight_shape": problem.weight_shape, "cores": problem.cores}
    first = ac.simulate_filter(input, grad_output, **given)
    assert searches == ["weight"]
    both = ac.simulate_filter(input, grad_output, tiling=first.tiling, basic_block=first.basic_block, **given)
    assert searches == ["weight"]
    record = ac.simulate_filter(input, grad_output, tiling=first.tiling, **given)
    block = ac.simulate_filter(input, grad_output, basic_block=first.basic_block, **given)
    assert searches == ["weight"] * 3
    assert all(one.tiling == first.tiling and one.basic_block == first.basic_block for one in (both, record, block))
    assert all(np.array_equal(one.grad_weight, first.grad_weight) for one in (both, record, block))


def test_a_given_tiling_does_not_excuse_what_the_tiling_object_refuses():
    """Pads beyond the window are refused with GetTiling's own words before a given record is looked at."""
    problem = random_problem(7)
    grad_output, weight, _ = problem.arrays()
    given = problem.attributes() | {"input_shape": problem.input_shape, "cores": problem.cores}
    own = ac.simulate(grad_output, weight, **given).tiling
    with pytest.raises(ac.TilingError, match="GetTiling returned -1: D: ") as caught:
        ac.simulate(grad_output, weight, tiling=own, **(given | {"padding": 9}))
    assert caught.value.rule == "tiling.refused"
