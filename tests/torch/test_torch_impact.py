"""`convgrad.torch.impact`: what each compute dtype does to each gradient."""

import json

import numpy as np
import pytest

import convgrad
from convgrad.core import dtypes, rounding

torch = pytest.importorskip("torch")
door = pytest.importorskip("convgrad.torch")

import networks  # noqa: E402

nn = torch.nn
torch.set_num_threads(2)


def small_step(seed=0):
    torch.manual_seed(seed)
    model = networks.Small()
    return model, nn.functional.cross_entropy, (torch.randn(4, 1, 16, 16), torch.randint(0, 4, (4,)))


def test_rows_and_order():
    """A row per layer, gradient and mode in backward order; the first layer's grad_input is not asked for."""
    found = door.impact(*small_step(), modes=("float32", "hf32", "bf16"))
    assert found.modes == ("float32", "hf32", "bfloat16")
    assert [key for key, _ in found.by_gradient()] == [
        ("up", "grad_input"), ("up", "grad_weight"), ("conv2", "grad_input"), ("conv2", "grad_weight"),
        ("conv1", "grad_weight"),
    ]  # fmt: skip
    assert len(found.layers) == 15 and [u.mode for u in found.updates] == list(found.modes)
    for _, by_mode in found.by_gradient():
        assert by_mode["float32"].mere < 1e-5 < by_mode["hf32"].mere < by_mode["bfloat16"].mere
        assert by_mode["bfloat16"].cosine > 0.999
    change = {u.mode: u.change for u in found.updates}
    assert change["float32"] < 1e-6 < change["hf32"] < change["bfloat16"] < 0.1


@pytest.mark.parametrize("mode", ["hf32", "hf32_10", "float16", "bfloat16", "hifloat8", "float8_e4m3fn", "float8_e5m2"])
def test_a_mode_is_rounding_the_operands(mode):
    """One 1x1 layer of one element: grad_weight is the product of the two rounded numbers, for every mode."""
    x, g = 1.2345, 0.7654
    layer = nn.Conv2d(1, 1, 1, bias=False)
    found = door.impact(layer, lambda y: (y * g).sum(), torch.full((1, 1, 1, 1), x), modes=(mode,))
    (row,) = found.layers
    a, b = (float(rounding.round_to(dtypes.find(mode), np.float64(np.float32(v)))) for v in (x, g))
    exact = float(np.float32(x)) * float(np.float32(g))
    want = abs(float(np.float32(a * b)) - exact) / (abs(exact) + 1e-7)
    assert row.gradient == "grad_weight" and row.difference.mere == row.difference.mare
    assert row.difference.mere == pytest.approx(want, rel=1e-12)


def test_small_gradients_vanish_without_a_loss_scale():
    """float16 flushes what is below its range to zero; a loss scale brings it back and is divided out again."""
    torch.manual_seed(0)
    layer, x = nn.Conv2d(1, 1, 3, bias=False), torch.randn(1, 1, 8, 8)
    tiny = lambda y: (y * 1e-9).sum()  # noqa: E731
    plain = door.impact(layer, tiny, x, modes=("float16",))
    scaled = door.impact(layer, tiny, x, modes=("float16",), loss_scale=2.0**24)
    assert plain.layers[0].difference.zeroed == 1 and plain.updates[0].change == 1
    assert scaled.layers[0].difference.zeroed == 0 and scaled.updates[0].change < 1e-2


def test_overflow_is_infinite_error():
    """A finite gradient that becomes infinite or NaN is no small error."""
    layer, x = nn.Conv2d(1, 1, 1, bias=False), torch.full((1, 1, 1, 1), 1e6)
    found = door.impact(layer, lambda y: y.sum(), x, modes=("float16", "bfloat16"))
    assert found.layers[0].difference.mare == float("inf") and found.layers[1].difference.mare < 1e-2


def test_tbc_and_untouched_model():
    """torch.conv_tbc layers are measured too; parameters, statistics and random state stay as they were."""
    model = nn.Sequential(networks.ConvTbc(3, 4, 3, 1), nn.Dropout(0.5))
    nn.init.normal_(model[0].weight)
    before = [t.clone() for t in model.state_dict().values()]
    x = torch.randn(6, 2, 3)
    state = torch.get_rng_state()
    found = door.impact(model, lambda y: y.pow(2).sum(), x, modes=("hf32",))
    assert [(r.layer, r.gradient) for r in found.layers] == [("0", "grad_input"), ("0", "grad_weight")]
    assert found.layers[0].line.startswith("tbc n2 c3>4 i6 k3 p1 fp32")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    assert model[0].weight.grad is None


def test_table_json_and_page(tmp_path):
    """Every metric has a table; JSON has words for infinities; the page is one file."""
    found = door.impact(*small_step(), modes=("hf32", "float8_e5m2"))
    for metric in ("mere", "mare", "cosine", "sign_flips", "zeroed"):
        assert len(found.table(metric).splitlines()) == 6
    assert "conv2" in str(found) and "as a whole" in str(found)
    found.write_json(tmp_path / "impact.json")
    read = json.loads((tmp_path / "impact.json").read_text("utf-8"))
    assert len(read["layers"]) == len(found.layers) and read["updates"][0]["mode"] == "hf32"
    found.write_page(tmp_path / "impact.html")
    text = (tmp_path / "impact.html").read_text("utf-8")
    assert "http:" not in text and "https:" not in text and text.count("<table>") == 6
    with pytest.raises(convgrad.ConvGradError, match="metric must be"):
        found.table("speed")


def test_progress_bar(capsys):
    """A bar on standard error when asked for; nothing on standard output; nothing at all when nobody watches."""
    door.impact(*small_step(), modes=("hf32",), progress=True)
    shown = capsys.readouterr()
    assert "conv2 in hf32" in shown.err and not shown.out
    door.impact(*small_step(), modes=("hf32",))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modes": ()}, "modes is empty"),
        ({"modes": ("float7",)}, "float7"),
        ({"model": nn.Linear(2, 2), "batch": torch.ones(1, 2), "loss_fn": lambda y: y.sum()}, "no convolution"),
        ({"model": len}, "torch.nn.Module"),
        ({"loss_fn": lambda y, t: y}, "one number"),
        ({"loss_scale": 0.0}, "loss_scale must be positive"),
    ],
)
def test_bad_input(change, words):
    """Each is refused in one sentence."""
    model, loss_fn, batch = small_step()
    call = {"model": model, "loss_fn": loss_fn, "batch": batch, "modes": ("hf32",), **change}
    with pytest.raises(ValueError, match=words):
        door.impact(**call)


def test_signs_and_zeros_are_counted_apart():
    """A zero has no sign: it is no flip, on either side; -1 against 1 is one."""
    found = door.layer_impact.Difference.between(np.array([0.0, -1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert (found.sign_flips, found.zeroed) == (0.25, 0.25)


def test_a_loss_scale_is_divided_out_exactly():
    """Tiny gradients in bfloat16, whose range needs no scale: a power of two changes no number of the report."""
    torch.manual_seed(0)
    layer, x = nn.Conv2d(1, 1, 3, bias=False), torch.randn(1, 1, 8, 8)
    loss = lambda y: (y * 1e-9).sum()  # noqa: E731
    plain, scaled = (door.impact(layer, loss, x, modes=("bfloat16",), loss_scale=s) for s in (1.0, 2.0**20))
    assert plain.layers == scaled.layers and plain.updates == scaled.updates
    assert plain.layers[0].difference.mere > 0


def test_the_950s_winograd_beside_the_direct_sum():
    """The mode 950-runtime errs otherwise than float32 where the host code takes Winograd, and only there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 256, 1), nn.Conv2d(256, 256, 3, padding=1, bias=False))
    found = door.impact(model, lambda y: y.square().mean(), torch.randn(2, 8, 8, 8), modes=("float32", "950-runtime"))
    differences = {key: (d["float32"], d["950-runtime"]) for key, d in found.by_gradient()}
    assert {key for key, (plain, other) in differences.items() if plain != other} == {("1", "grad_weight")}
    assert "950-runtime" in str(found)
