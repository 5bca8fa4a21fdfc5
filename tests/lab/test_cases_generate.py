"""Generated cases: by seed, consistent, on both sides of every limit; fillings with the promised properties."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad import check
from convgrad.cli.command_line import main
from convgrad.core import dtypes, rounding
from convgrad.core.status import Status
from convgrad.lab.cases import files, generate, values


@pytest.mark.parametrize("shape", sorted(generate.NETWORKS))
@pytest.mark.parametrize("product", ["A2", "950"])
def test_network_layers_are_accepted(shape, product):
    """Every layer in every dtype is a call the recent products take."""
    for case in generate.generate([shape], product):
        assert check(case.request).ok, (case.name, check(case.request).message)


def test_random_problems_are_consistent_and_repeat():
    """Hundreds of random problems: all accepted, all different enough, and the same for the same seed."""
    cases = generate.generate(["random"], "A2", dtypes=("fp16",), count=400, seed=5)
    assert all(check(c.request).ok for c in cases)
    kinds = {str(c.request).split()[0] for c in cases}
    assert kinds == {"conv", "tconv", "tbc"} and len({str(c.request) for c in cases}) > 370
    assert cases == generate.generate(["random"], "A2", dtypes=("fp16",), count=400, seed=5)
    assert cases != generate.generate(["random"], "A2", dtypes=("fp16",), count=400, seed=6)


@pytest.mark.parametrize("product", ["A2", "A3", "950", "910", "310P", "cpu"])
@pytest.mark.parametrize("conformance", ["document", "runtime"])
def test_boundaries_stand_on_both_sides(product, conformance):
    """For every range there is a case the rule accepts and one whose verdict names that very rule."""
    cases = generate.generate(["boundary"], product, dtypes=("fp16",), conformance=conformance)
    refused = {check(c.request).rule_id for c in cases}
    accepted = [c for c in cases if check(c.request).ok]
    assert accepted and {"stride.positive", "dilation.positive", "groups.positive"} <= refused
    for case in cases:
        rule = case.name.split()[1]
        if rule in refused and not check(case.request).ok:
            assert check(case.request).status in (Status.PARAM_INVALID, Status.INNER_NULLPTR)
    if product == "A2":
        assert {"limit.stride.a2", "limit.padding.a2", "limit.dilation.a2"} <= refused


def draw(word: str, dtype: str = "float32", size: int = 20_000, seed: int = 1) -> np.ndarray:
    return rounding.load(dtype, values.fill(values.parse(word), (size,), dtype, seed, 0)).astype(np.float64)


def test_fillings_have_the_promised_shape():
    """Ranges, means, outliers, integers, cancellation, special values."""
    wide, narrow, shifted = draw("wide"), draw("narrow"), draw("shifted")
    assert -5 <= wide.min() < -4.9 and 4.9 < wide.max() <= 5
    assert np.abs(narrow).max() <= 0.001
    assert abs(shifted.mean() - 100) < 1 and abs(shifted.std() - 25) < 1
    large = np.abs(draw("outliers")) > 5
    assert 10 <= large.sum() <= 20, "0.1 % of 20,000, some of them drawn twice or small"
    whole = draw("integers")
    assert set(np.unique(whole)) == {-3, -2, -1, 0, 1, 2, 3}
    pairs = draw("cancellation").reshape(-1, 2)
    assert np.abs(pairs.sum(axis=1)).max() < 0.01 * np.abs(pairs).mean()
    special = draw("special", "float16")
    assert np.isinf(special).any() and np.isnan(special).any() and (np.abs(special) == 65504).any()


@pytest.mark.parametrize("dtype", [row.name for row in dtypes.ALL if row.is_tensor_dtype])
@pytest.mark.parametrize("word", [*values.STANDARD_SETS, "constant:2"])
def test_fillings_repeat_by_seed(dtype, word):
    """The same seed gives the same bits, another seed or stream others; one element and none at all work."""
    filling = values.parse(word)
    first = values.fill(filling, (3, 5), dtype, 9, 0)
    assert first.tobytes() == values.fill(filling, (3, 5), dtype, 9, 0).tobytes()
    if not word.startswith("constant"):
        others = (values.fill(filling, (40, 50), dtype, s, t).tobytes() for s, t in ((9, 0), (10, 0), (9, 1)))
        assert len(set(others)) == 3
    assert values.fill(filling, (0, 2), dtype, 1, 0).size == 0 and values.fill(filling, (1,), dtype, 1, 0).size == 1


def test_text_forms_of_fillings_repeat():
    """parse(str(v)) == v for every kind."""
    for word in (*values.STANDARD_SETS, *(k.name for k in values.KINDS), "uniform:-1e-30:0.1"):
        filling = values.parse(word)
        assert values.parse(str(filling)) == filling


def test_the_command_writes_what_it_names(tmp_path, capsys):
    """`cases gen` to a file of each form; unknown words are usage errors."""
    for name in ("x.json", "x.csv", "x.txt"):
        target = tmp_path / name
        assert main(["cases", "gen", "resnet50", "--dtype", "bf16", "-o", str(target)]) == 0
        assert len(files.read(target)) == len(generate.NETWORKS["resnet50"])
    capsys.readouterr()
    for words in (["--dtype", "fp7"], ["--values", "x"], ["--math", "x"], ["--count", "-1"], ["--product", "H100"]):
        assert main(["cases", "gen", "random", *words]) == 2
    assert main(["cases", "gen", "alexnet"]) == 2
