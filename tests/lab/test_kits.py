"""Test kits: the plug-in files are found and called as the kits do it, for every operator, product and dtype."""

import ast
import importlib.util
import sys
import types
import warnings

import en_dtypes
import ml_dtypes
import numpy as np
import pytest
import torch

import convgrad
from convgrad import golden_functions
from convgrad.cli.command_line import main
from convgrad.core import layouts, rounding
from convgrad.core.request import MATH_NAMES
from convgrad.lab.kits import plugin_files, soc

NAMES = {
    "kernel": {"conv3d_backprop_input_v2", "conv3d_backprop_filter_v2"},
    "aclnn": {"aclnnConvolutionBackward", "aclnnConvTbcBackward"},
    "e2e": {"torch.ops.aten.convolution_backward"},
}
SOCS = {
    "A2": "Ascend910B Ascend910B1 910B2 910B2C 910B3 910B4 910B4-1",
    "A3": "Ascend910_93 Ascend910_9361 Ascend910_9362 Ascend910_9372 Ascend910_9381 Ascend910_9382 Ascend910_9391 "
          "Ascend910_9392 Ascend910C",
    "950": "Ascend950 Ascend950PR Ascend950DT Ascend950PR_9579 Ascend950PR_9589 Ascend950PR_958b Ascend950PR_9599 "
           "Ascend950DT_1 Ascend910_95 Ascend910_9599 A5 Ascend350 Atlas350 ascend-950",
    "910": "Ascend910 Ascend910A Ascend910ProA Ascend910ProB Ascend910PremiumA",
    "310P": "Ascend310P 310P1 310P7 Ascend310P3", "310B": "Ascend310B 310B1 310B4", "310": "Ascend310",
}  # fmt: skip
REFUSED = ("Ascend910_55", "MC62CM12A", "mc62", "KirinX90", "Kirin9030", "Ascend031", "Ascend035", "Ascend610",
           "Ascend610Lite", "BS9SX1A", "SD3403", "OPTG", "TsnsC", "TsnsE", "Hi3796CV300CS", "Hi3796CV300ES",
           "H100")  # fmt: skip
KIT = {"testcase_name": "a", "scalar_dtypes": (), "use_torch": False, "batch_axis": None, "an_attribute": 3}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The plug-in as a kit loads it: literals are parsed, then the file is run under its stem."""
    directory = tmp_path_factory.mktemp("plugin")
    assert main(["kit", "ttk", "-o", str(directory)]) == 0
    (path,) = directory.glob("*.py")
    literals = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Assign) and node.targets[0].id in ("__golden__", "__spec__")
    }
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, literals, module


def function(plugin, name):
    _, literals, module = plugin
    return getattr(module, next(level[name] for level in literals["__golden__"].values() if name in level))


def test_a_loader_that_only_parses_literals_finds_all_names(plugin):
    """Three levels, five names, a class for each; the stem is none that a kit takes for a library."""
    path, literals, module = plugin
    assert {level: set(names) for level, names in literals["__golden__"].items()} == NAMES
    assert set(literals["__spec__"]) == set.union(*NAMES.values())
    assert not path.stem.startswith(("numpy", "torch", "tf", "tensorflow", "_"))
    for name, owner in literals["__spec__"].items():
        golden = getattr(module, owner).golden
        assert isinstance(golden, types.FunctionType) and golden is function(plugin, name)
        assert not golden.__module__.startswith(("numpy", "torch", "tf", "tensorflow"))


@pytest.mark.parametrize("key", SOCS)
def test_soc_names_resolve(key):
    """Every name of a product's SoCs, in any case and with other separators."""
    assert {soc.product_of(None, n) for name in SOCS[key].split() for n in (name, name.lower())} == {key}


@pytest.mark.parametrize(("written", "key"), [
    ("Atlas 350", "950"), (" ATLAS-350 ", "950"), ("Ascend 910_93", "A3"), ("ascend910-93", "A3"),
    ("Ascend910B4_1", "A2"), ("ASCEND 950PR-9579", "950"), ("ascend_310_p_3", "310P"), ("Ascend910B2C", "A2"),
])  # fmt: skip
def test_blanks_dashes_and_case_of_a_name_do_not_matter(written, key):
    """A family's name and a chip's, as platform files, command lines and people write them."""
    assert soc.product_of(None, written) == key


@pytest.mark.parametrize("name", REFUSED)
def test_socs_without_rules_are_refused_by_name(name):
    """One sentence: the name, why, the keys there are; also where a kit passes it."""
    with pytest.raises(ValueError, match=f"{name}.*no convolution gradient rules are known for it.*950, A3, A2"):
        call(ones("float32"), short_soc_version=name)


def test_without_a_soc_the_product_is_told_by_the_environment_else_a2_with_a_warning(monkeypatch):
    """An explicit product goes before a SoC name; A2 is named once."""
    monkeypatch.setattr(soc, "_warned", [])
    with pytest.warns(UserWarning, match="product A2"):
        assert soc.product_of(None, "") == "A2"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert soc.product_of(None) == "A2"
    monkeypatch.setenv("CONVGRAD_PRODUCT", "Ascend950")
    assert soc.product_of("", None) == "950" and soc.product_of("A3", "Ascend910") == "A3"


def ones(dtype):
    """A length-4 line of the value 1 + 2**-11, which HF32 keeps on A2 and rounds up on 950."""
    return np.full((1, 1, 4), 1 + 2**-11, dtype)


def call(x, math=3, mask=(True, True, True), outputs=(None, None, None), golden=None, **kit):
    weight = x[:, :, :1] * 0 + 1
    golden = golden or golden_functions.aclnnConvolutionBackward
    return golden(x, x, weight, [1], [1], [0], [1], False, [0], 1, list(mask), math, *outputs, **{**KIT, **kit})


def test_the_soc_name_decides_the_numbers(plugin):
    """The same call on A2 and on 950: HF32 has 11 fraction bits on one and 10 on the other."""
    golden = function(plugin, "aclnnConvolutionBackward")
    sums = [call(ones("float32"), golden=golden, short_soc_version=s)[1].item() for s in ("Ascend910B", "Ascend950")]
    assert sums == [float(np.float32(4 * v * v)) for v in (1 + 2**-11, 1 + 2**-10)]


def test_outputs_by_position_and_masked_ones_as_none():
    """Fifteen and nine arguments; the shape and dtype of an output tensor count, None for a masked one is accepted."""
    x = ones("float16")
    buffers = (np.empty_like(x), np.empty((1, 1, 1), np.float16), np.empty(1, np.float16))
    assert [r.dtype for r in call(x, 0, outputs=buffers, short_soc_version="910B")] == [np.float16] * 3
    got = call(x, 0, (False, True, False), (None, buffers[1], None), short_soc_version="910B")
    assert got[0] is None and got[2] is None and got[1].shape == (1, 1, 1)
    t = np.ones((5, 2, 3), np.float32)
    w, b = np.ones((3, 3, 3), np.float32), np.zeros(3, np.float32)
    got = golden_functions.aclnnConvTbcBackward(t, t, w, b, 1, 0, t, w, b, **KIT, short_soc_version="910B")
    assert [g.shape for g in got] == [(5, 2, 3), (3, 3, 3), (3,)] and got[2].tolist() == [10.0] * 3


@pytest.mark.parametrize(("product", "math"), [
    ("cpu", 3), ("950", 3), ("A3", 3), ("A2", 3), ("910", 1), ("310P", 1), ("A2", 0), ("950", 2),
])  # fmt: skip
def test_widened_float32_is_rounded_as_float32_and_given_back_unrounded(product, math):
    """Float64 operands, exact in float32: the plan of the float32 call, float64 sums."""
    rng = np.random.default_rng(0)
    g, x = (rng.standard_normal((2, 3, 6)).astype(np.float32) for _ in range(2))
    w = rng.standard_normal((3, 3, 1)).astype(np.float32)
    rest = ([3], [1], [0], [1], False, [0], 1, [True] * 3, math)
    wide = [t.astype(np.float64) for t in (g, x, w)]
    got = golden_functions.aclnnConvolutionBackward(*wide, *rest, product=product)
    expected = golden_functions.aclnnConvolutionBackward(g, x, w, *rest, product=product, wide=True)
    assert all(a.dtype == np.float64 and np.array_equal(a, e) for a, e in zip(got, expected, strict=True))
    line = f"conv n2 c3>3 i6 k1 fp32 math={MATH_NAMES[math]} on={product}"
    compute = convgrad.plan(convgrad.Request.parse(line)).operand
    rounded = [rounding.round_to(compute, t).astype(np.float64) for t in (g, x, w)]
    assert np.allclose(got[1][:, :, 0], np.einsum("ncl,nfl->cf", *rounded[:2]), rtol=1e-12)


def test_widened_half_precision_keeps_its_values():
    """float32 operands exact in 16 bits: float16 math makes nothing infinite, and 910 takes them for float16."""
    x = np.array([[[1.0, 70144.0, -2.0, 3.0]]], np.float32)  # 70144 is a bfloat16, beyond float16
    got = call(x, 2, short_soc_version="Ascend910B")
    assert got[0].tolist() == x.tolist() and got[1].item() == np.float32(1 + 70144.0**2 + 4 + 9)
    assert got[2].item() == 70146.0 and got[0].dtype == np.float32
    small = np.array([[[1.0, 0.5, -2.0, 3.0]]], np.float32)
    assert call(small, 0, short_soc_version="Ascend910")[1].item() == 14.25
    with pytest.raises(convgrad.ConvGradError):  # no 16-bit call: the product has no float32 math
        call(ones("float32") + np.float32(2**-20), 0, short_soc_version="Ascend910")


def test_torch_in_torch_out_numpy_in_numpy_out():
    """bfloat16 stays bfloat16 in either library; views are read; a hifloat8 comes back in the dtype it came in."""
    x = torch.arange(8, dtype=torch.bfloat16).reshape(1, 1, 8)[:, :, ::2]
    got = call(x, 0, short_soc_version="910B")
    assert [type(r) for r in got] == [torch.Tensor] * 3 and {r.dtype for r in got} == {torch.bfloat16}
    assert all(r.is_contiguous() for r in got) and got[0].tolist() == x.tolist()
    array = call(np.arange(4).reshape(1, 1, 4).astype(ml_dtypes.bfloat16), 0, short_soc_version="910B")
    assert all(type(r) is np.ndarray and r.dtype == ml_dtypes.bfloat16 for r in array)
    ones8 = np.ones((1, 1, 4), en_dtypes.hifloat8)
    rest = ([1], [1], [0], [1], True, [0], 1, [True, False, False], 0)
    found = golden_functions.aclnnConvolutionBackward(
        ones8, ones8, ones8[:, :, :1], *rest, short_soc_version="Ascend950", tensor_dtypes=("hifloat8",) * 5)
    assert found[0].dtype == ones8.dtype and found[1:] == [None, None]
    assert found[0].astype(np.float32).tolist() == [[[1.0] * 4]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("product", ["950", "A3", "A2", "910", "310P"])
def test_every_level_is_called_for_every_product_and_dtype(plugin, product, dtype):
    """Small integers through all five entries: exact, whichever the level; what a product lacks is refused in words."""
    rng = np.random.default_rng(3)
    soc_name = next(iter(SOCS[product].split()))
    g, x, w = (rng.integers(-2, 3, s).astype(np.float32) for s in ((2, 4, 6, 6), (2, 8, 6, 6), (4, 8, 3, 3)))
    g, x, w = (torch.from_numpy(t).to(getattr(torch, dtype)) for t in (g, x, w))
    rest = ([4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True])
    right = torch.ops.aten.convolution_backward(g.double(), x.double(), w.double(), *rest)
    math = 1 if product in ("910", "310P") else 0
    told = {**KIT, "short_soc_version": soc_name}
    aclnn = function(plugin, "aclnnConvolutionBackward")
    if dtype == "bfloat16" and product in ("910", "310P"):
        with pytest.raises(ValueError, match="must be one of float32, float16"):
            aclnn(g, x, w, *rest, math, x, w, g[0, :, 0, 0], **told)
        return
    results = [aclnn(g, x, w, *rest, math, x, w, g[0, :, 0, 0], **told)]
    if math == 0 or dtype == "float16":
        results.append(function(plugin, "torch.ops.aten.convolution_backward")(
            g, x, w, *rest, backend="npu", use_numpy=False, tensor_formats=("NCHW",), tensor_dtypes=(dtype,), **told))
    for got in results:
        for ours, exact in zip(got, right, strict=True):
            assert ours.dtype == g.dtype and torch.equal(ours.double(), exact.to(g.dtype).double())
    five = {"strides": [1] * 5, "pads": [0, 0, 1, 1, 1, 1], "data_format": "NCDHW", **told}
    deep = [rounding.store(dtype, t.double().numpy())[:, :, None] for t in (g, x, w)]
    y = function(plugin, "conv3d_backprop_input_v2")(
        np.array([2, 8, 1, 6, 6], np.int32), deep[2], deep[0], output_dtypes=(dtype,), **five)[0]
    assert np.array_equal(rounding.load(dtype, y)[:, :, 0], right[0].to(g.dtype).float().numpy())
    y = function(plugin, "conv3d_backprop_filter_v2")(deep[1], np.zeros(5, np.int32), deep[0],
                                                      output_ori_shapes=((4, 8, 1, 3, 3),), **five)[0]
    assert y.dtype == np.float32 and np.array_equal(y[:, :, 0], right[1].float().numpy())
    if product != "310P":
        tbc = function(plugin, "aclnnConvTbcBackward")
        t, k = torch.ones(5, 2, 3).to(g.dtype), torch.ones(3, 3, 3).to(g.dtype)
        got = tbc(t, t, k, k[0, 0], 1, math, t, k, k[0, 0], **told)
        assert got[2].tolist() == [10.0] * 3 and got[0].dtype == g.dtype


@pytest.mark.parametrize("order", ["NCDHW", "NDHWC", "DHWCN"])
def test_kernels_read_and_write_every_storage_format(order):
    """Axes in any order, channel blocks and packed weights: the same numbers; strides follow data_format."""
    rng = np.random.default_rng(5)
    x, w, g = (rng.integers(-2, 3, s).astype(np.float16) for s in ((2, 5, 2, 6, 6), (4, 5, 1, 3, 3), (2, 4, 2, 3, 3)))
    pads = [0, 0, 1, 1, 1, 1]
    plain = {"pads": pads, "strides": [1, 1, 1, 2, 2], "data_format": "NCDHW", "short_soc_version": "Ascend910B"}
    right = golden_functions.conv3d_backprop_input_v2(np.array(x.shape), w, g, **plain)[0]
    shuffle = ["NCDHW".index(a) for a in order]
    strides = [plain["strides"][i] for i in shuffle]
    other = {**plain, "strides": strides, "data_format": order, "output_formats": (order,)}
    sizes = np.array([x.shape[i] for i in shuffle])
    moved = golden_functions.conv3d_backprop_input_v2(sizes, w.transpose(shuffle), g.transpose(shuffle), **other)[0]
    assert np.array_equal(moved, right.transpose(shuffle)) and moved.flags.c_contiguous
    packed = {**plain, "input_ori_shapes": ((5,), w.shape, g.shape), "input_ori_formats": ("ND", "NCDHW", "NCDHW"),
              "output_formats": ("NDC1HWC0",)}  # fmt: skip
    weight, gradient = layouts.to_fractal_z_3d(w, 16), layouts.to_ndc1hwc0(g, 16)
    y = golden_functions.conv3d_backprop_input_v2(np.array(x.shape), weight, gradient, **packed)[0]
    assert np.array_equal(layouts.from_ndc1hwc0(y, 5), right)


@pytest.mark.parametrize(("given", "wide"), [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64")])
def test_kernels_give_widened_operands_unrounded_sums(given, wide):
    """golden_mode Promote: the sums of the narrow operands in the dtype received, whatever output_dtypes says."""
    rng = np.random.default_rng(7)
    x, g = (rounding.store(given, rounding.round_to(given, rng.standard_normal(s))) for s in ((2, 5, 1, 6, 6),
                                                                                              (2, 4, 1, 6, 6)))
    w = rounding.store(given, rounding.round_to(given, rng.standard_normal((4, 5, 1, 3, 3))))
    told = {"pads": [0, 0, 1, 1, 1, 1], "strides": [1] * 5, "data_format": "NCDHW", "golden_mode": "Promote",
            "input_dtypes": (wide,), "output_dtypes": (given,), "short_soc_version": "Ascend910B"}  # fmt: skip
    x, g, w = (rounding.load(given, t).astype(wide) for t in (x, g, w))
    rest = ([4], [1] * 3, [0, 1, 1], [1] * 3, False, [0] * 3, 1, [True, True, False])
    right = torch.ops.aten.convolution_backward(*(torch.from_numpy(t).double() for t in (g, x, w)), *rest)
    y = golden_functions.conv3d_backprop_input_v2(np.array(x.shape), w, g, **told)[0]
    assert y.dtype == wide and np.allclose(y, right[0].numpy(), rtol=1e-6, atol=1e-6)
    if given != "float32":  # an output in 16 bits would be some thousandths off
        assert np.abs(y - right[0].numpy()).max() < 1e-5 < np.abs(rounding.round_to(given, y) - y).max()
    y = golden_functions.conv3d_backprop_filter_v2(x, np.array(w.shape), g, **told)[0]
    assert y.dtype == wide and np.allclose(y, right[1].numpy(), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("given", "wide", "lanes"), [("float16", "float32", 16), ("float32", "float64", 8)])
def test_widened_results_have_the_blocks_of_the_case(given, wide, lanes):
    """The device's tensors keep their dtype: 16 or 8 channels to a block, not what the wide one would have."""
    rng = np.random.default_rng(11)
    x, w, g = (rng.integers(-2, 3, s).astype(wide) for s in ((2, 20, 1, 4, 4), (4, 20, 1, 3, 3), (2, 4, 1, 2, 2)))
    told = {"data_format": "NCDHW", "golden_mode": "Promote", "input_dtypes": (wide,), "short_soc_version": "A5"}
    plain = golden_functions.conv3d_backprop_input_v2(np.array(x.shape), w, g, **told)[0]
    for output in ({}, {"output_dtypes": (given,)}, {"output_dtypes": (wide,)}):
        y = golden_functions.conv3d_backprop_input_v2(
            np.array(x.shape), w, g, output_formats=("NDC1HWC0",), **told, **output)[0]  # fmt: skip
        assert y.dtype == wide and y.shape[-1] == lanes and np.array_equal(layouts.from_ndc1hwc0(y, 20), plain)
    for output in ({}, {"output_dtypes": ("float32",)}, {"output_dtypes": ("float64",)}):
        y = golden_functions.conv3d_backprop_filter_v2(
            x, np.array(w.shape), g, output_formats=("FRACTAL_Z_3D",), **told, **output)[0]  # fmt: skip
        assert y.shape[-1] == 8


@pytest.mark.parametrize("formats", [("NDHWC", "ND", "NDHWC"), (27, 2, 27), ("ndhwc", "nd", "ndhwc")])
def test_kernels_read_formats_by_name_and_by_number(formats):
    """Storage in another order than data_format's, told by name in either case or by the vendor's number."""
    rng = np.random.default_rng(9)
    x, g = (rng.integers(-2, 3, s).astype(np.float16) for s in ((2, 8, 1, 6, 6), (2, 4, 1, 6, 6)))
    told = {"pads": [0, 0, 1, 1, 1, 1], "data_format": "NCDHW", "short_soc_version": "Ascend910B"}
    sizes = np.array([4, 8, 1, 3, 3])
    right = golden_functions.conv3d_backprop_filter_v2(x, sizes, g, **told)[0]
    last = [np.ascontiguousarray(t.transpose(0, 2, 3, 4, 1)) for t in (x, g)]
    found = golden_functions.conv3d_backprop_filter_v2(last[0], sizes, last[1], input_formats=formats, **told)[0]
    assert np.array_equal(found, right)
    with pytest.raises(ValueError, match="input_formats: unknown aclFormat 999"):
        golden_functions.conv3d_backprop_filter_v2(x, sizes, g, input_formats=(999, 2, 30), **told)


def test_end_to_end_takes_no_bias_sizes():
    """They are optional in the framework's schema: null with or without a bias gradient."""
    x = ones("float32")
    args = (x, x, x[:, :, :1] * 0 + 1, None, [1], [0], [1], False, [0], 1)
    for mask in ([True, True, False], [True, True, True]):
        found = golden_functions.convolution_backward(*args, mask, short_soc_version="Ascend910B")
        assert [r is None for r in found] == [not m for m in mask]


def test_what_a_runtime_takes_is_modelled_when_asked(plugin, monkeypatch):
    """bfloat16 with float16 math is refused by documents; CONVGRAD_CONFORMANCE=runtime, or the keyword, computes it."""
    call = function(plugin, "aclnnConvolutionBackward")
    one = torch.ones(1, 2, 3, dtype=torch.bfloat16)
    args = (one, one, torch.ones(2, 2, 1, dtype=torch.bfloat16), [2], [1], [0], [1], False, [0], 1, [True] * 3, 2)
    told = {**KIT, "short_soc_version": "Ascend910B"}
    with pytest.raises(ValueError, match="cubeMathType"):
        call(*args, **told)
    monkeypatch.setenv("CONVGRAD_CONFORMANCE", "runtime")
    assert [r.float().unique().tolist() for r in call(*args, **told)] == [[2.0], [3.0], [3.0]]
    with pytest.raises(ValueError, match="cubeMathType"):
        call(*args, conformance="document", **told)
    monkeypatch.setenv("CONVGRAD_CONFORMANCE", "nothing")
    with pytest.raises(ValueError, match="conformance"):
        call(*args, **told)


def test_end_to_end_models_hf32_when_asked(monkeypatch):
    """torch_npu allows HF32 by default; the golden does under CONVGRAD_KIT_HF32=1."""
    x = ones("float32")
    args = (x, x, x[:, :, :1] * 0 + 1, [1], [1], [0], [1], False, [0], 1, [True, False, False])
    told = {"short_soc_version": "Ascend950"}
    assert golden_functions.convolution_backward(*args, **told)[0].tolist() == x.tolist()
    monkeypatch.setenv("CONVGRAD_KIT_HF32", "1")
    assert golden_functions.convolution_backward(*args, **told)[0][0, 0, 0] == 1 + 2**-10


# ---- the executor file ---------------------------------------------------------------------------------------


@pytest.fixture
def executors(tmp_path, monkeypatch):
    """The registered classes of the executor file, over a stub of the five names it imports."""
    registered = {}

    class BaseApi:
        def __init__(self, task_result):
            self.task_result, self.device = task_result, "cpu"

    stubs = {
        "atk.configs.dataset_config": {"InputDataset": object}, "atk.configs.results_config": {"TaskResult": object},
        "atk.tasks.api_execute": {"register": lambda name: lambda cls: registered.setdefault(name, cls)},
        "atk.tasks.api_execute.base_api": {"BaseApi": BaseApi},
        "atk.tasks.backends.lib_interface.acl_wrapper": {
            "AclFormat": types.SimpleNamespace(ACL_FORMAT_NCHW=0, ACL_FORMAT_ND=2, ACL_FORMAT_NCL=47)},
    }  # fmt: skip
    for name in stubs:
        parts = name.split(".")
        for i in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), types.ModuleType(parts[i - 1]))
    for name, members in stubs.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    path = plugin_files.write("atk", tmp_path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return registered


def test_the_executor_file_gives_zeros_for_masks_and_grad_outputs_dtype(executors, monkeypatch):
    """Both registered names; HF32 and float16 math are modelled; formats by place."""
    assert set(executors) == {"golden_conv_backward", "golden_convtbc_backward"}
    monkeypatch.setenv("CONVGRAD_PRODUCT", "950")
    x = torch.from_numpy(ones("float32"))
    given = {"gradOutput": x, "input": x, "weight": torch.ones(1, 1, 1), "biasSizes": [1], "stride": [1],
             "padding": [0], "dilation": [1], "transposed": False, "outputPadding": [0], "groups": 1,
             "outputMask": [True, False, False], "cubeMathType": 3, "format": "NCL"}  # fmt: skip
    data = types.SimpleNamespace(kwargs=given)
    api = executors["golden_conv_backward"](None)
    got = api(data)
    assert got[0][0, 0, 0].item() == 1 + 2**-10 and got[0].dtype == torch.float32
    assert torch.equal(got[1], torch.zeros(1, 1, 1)) and torch.equal(got[2], torch.zeros(1))
    given["cubeMathType"] = 2  # float16 ties to even: 1 + 2**-11 becomes 1
    assert api(data, with_output=True)[0][0, 0, 0].item() == 1.0
    assert [api.get_format(data, index=i) for i in range(3)] == [47, 47, 2]
    assert [api.get_format(data, name=n) for n in ("gradOutput", "input", "weight")] == [47, 47, 2]
    t = torch.ones(5, 2, 3)
    tbc = executors["golden_convtbc_backward"](None)
    data = types.SimpleNamespace(kwargs={"self": t, "input": t, "weight": torch.ones(3, 3, 3), "bias": torch.zeros(3),
                                         "pad": 1, "cubeMathType": 0, "format": "ND"})  # fmt: skip
    assert tbc(data)[2].tolist() == [10.0] * 3 and tbc.get_format(data, index=0) == 2
