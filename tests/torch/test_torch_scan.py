"""`convgrad.torch.scan`: every convolution, each product's answer, and nothing allocated."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import convgrad

torch = pytest.importorskip("torch")
door = pytest.importorskip("convgrad.torch")

import networks  # noqa: E402
from convgrad.cli import command_line  # noqa: E402

nn = torch.nn
torch.set_num_threads(2)
Answer = door.Answer


SUPPORT = str(Path(__file__).parents[1] / "support")

def profiled(model, *inputs):
    """How many convolution backward calls PyTorch itself makes."""
    output = model(*inputs)
    loss = sum(t.sum() for t in (output.values() if isinstance(output, dict) else [output]))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss.backward()
    return sum(e.count for e in profile.key_averages() if e.key == "aten::convolution_backward")


def test_resnet50():
    """All 53 convolutions under their names, HF32 on A2, float16 on 910, ten-bit HF32 on 950."""
    found = door.scan(networks.resnet50(), (1, 3, 224, 224))
    assert len(found) == 53 and len(list(found)) == 53 and found.products == ("A2", "910", "950")
    stem = found[0]
    assert (stem.layer, stem.kind, stem.output) == ("stem.0", "conv2d", (1, 64, 112, 112))
    assert stem.line == "conv n1 c3>64 i224x224 k7x7 s2 p3 d1 g1 fp32 math=allow_down want=w on=A2"
    assert found[-1].layer == "layers.15.conv3" and found[-1].input == (1, 512, 7, 7)
    for row in found:
        assert [row.findings[p].computed_in for p in found.products] == ["hf32", "float16", "hf32_10"]
    assert found.summary()["910"] == {"accepted": 0, "lowered": 53, "refused": 0}


def test_switches_change_the_answers():
    """Without HF32 A2 keeps float32 and 910 refuses with a way out; in bfloat16 910 refuses the dtype."""
    found = door.scan(networks.resnet18(), torch.empty(2, 3, 64, 64, device="meta"), ("A2", "910"), allow_hf32=False)
    assert len(found) == 20
    first = found[0].findings
    assert first["A2"].answer is Answer.ACCEPTED
    assert first["910"].answer is Answer.REFUSED and first["910"].verdict.rule_id == "math.float32.910"
    assert any(way.accepted for way in first["910"].ways_out)
    found = door.scan(networks.resnet18(), (2, 3, 64, 64), ("Ascend910B3", "910"), dtype="bfloat16")
    assert found.products == ("A2", "910") and found[0].dtype == "bfloat16"
    assert found[0].findings["A2"].answer is Answer.ACCEPTED
    assert found[0].findings["910"].answer is Answer.REFUSED
    assert "910 refuses stem.0 and 19 more" in str(found)


def test_unet():
    """Transposed convolutions and outputs in a dict; as many backward calls as PyTorch makes."""
    model = networks.UNet()
    found = door.scan(model, (1, 1, 32, 32))
    assert [row.kind for row in found] == ["conv2d"] * 3 + ["conv_transpose2d"] * 2 + ["conv2d"]
    assert found[4].layer == "up1" and found[4].line.startswith("tconv n1 c32>8 i16x16 k3x3 s2 p1 d1 op1 g1 fp32")
    assert sum(row.request is not None for row in found) == profiled(model, torch.ones(1, 1, 32, 32)) == 6


def test_video():
    """Three spatial axes are refused on 910, with the way out."""
    found = door.scan(networks.Video(), {"clip": (2, 3, 8, 32, 32)})
    assert [row.layer for row in found] == ["stem", "space", "time", "grouped"]
    for row in found:
        assert row.findings["910"].verdict.rule_id == "dims.910" and row.findings["910"].ways_out
        assert row.findings["A2"].answer is Answer.LOWERED


def test_tbc_and_limits():
    """torch.conv_tbc is found though PyTorch dispatches no backward for it; a long window breaks a limit of A2."""
    found = door.scan(networks.Speech(), [(40, 2, 16)], ("A2", "310P"))
    assert [row.kind for row in found] == ["conv_tbc"] * 3 + ["conv1d"]
    assert found[1].layer == "layers.1" and found[1].line.startswith("tbc n2 c16>32 i40 k3 p1 fp32")
    assert found[0].findings["310P"].verdict.rule_id == "tbc.product"
    assert found[3].findings["A2"].verdict.rule_id == "limit.window.a2"
    found = door.scan(networks.Speech(), [(40, 2, 16)], "A2", conformance="runtime")
    assert int(found[3].findings["A2"].verdict.status) == 561103


def test_frozen_layers_and_untouched_models():
    """A layer nothing differentiates has no backward request; the model's state does not change."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Conv2d(2, 2, 3))
    model[0].requires_grad_(False)
    model[1].requires_grad_(False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    found = door.scan(model, torch.ones(1, 1, 8, 8))
    assert found[0].request is None and not found[0].findings and "no gradient asked" in str(found)
    assert found[1].request.output_mask == (False, True, True)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before.items())
    assert all(p.grad is None and p.device.type == "cpu" for p in model.parameters())


class Careless(nn.Module):
    """Makes tensors on the CPU by name, and holds one outside of its buffers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 3)
        self.scale = torch.ones(1, 1, 1)

    def forward(self, x):
        noise = torch.zeros(x.shape, device="cpu") + torch.arange(x.shape[-1])
        return self.conv((x * self.scale + noise).cpu())


def test_constants_of_the_cpu():
    """Tensors a model makes or holds on the CPU do not stop the scan."""
    assert len(door.scan(Careless(), (1, 1, 8))) == 1


def test_a_hundred_layers_below_a_gigabyte():
    """A process of its own never holds 1 GB, whatever the model's tensors would need (each activation: 40 GB)."""
    code = (
        "import torch, convgrad.torch as door, networks\n"
        "with torch.device('meta'):\n    model = networks.deep()\n"
        "found = door.scan(model, (2500, 64, 256, 256))\n"
        # `ru_maxrss` would count the parent's memory: it outlives fork and exec.
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM:'))\n"
        "print(len(found), int(peak.split()[1]) / 2**20)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=SUPPORT)
    count, gigabytes = map(float, done.stdout.split())
    assert count == 100 and gigabytes < 1


class LooksAtValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 3)

    def forward(self, x):
        return self.conv(x) if x.sum().item() > 0 else x


@pytest.mark.parametrize(
    ("model", "inputs", "rule", "words"),
    [
        (nn.Linear(2, 2), (1, 2), "scan.empty", "Linear has no convolution"),
        (nn.Conv1d(1, 1, 3), None, "scan.inputs", "inputs is missing"),
        (nn.Conv1d(1, 1, 3), "1,1,8", "scan.inputs", "not str"),
        (nn.Conv1d(1, 1, 3), (1, -1, 8), "scan.inputs", "negative"),
        (nn.Conv1d(1, 1, 3), (1, 2, 8), "scan.run", "cannot run on shapes alone"),
        (nn.LazyConv1d(1, 3), (1, 2, 8), "scan.lazy", "run it once"),
        (LooksAtValues(), (1, 1, 8), "scan.run", "cannot run on shapes alone"),
        (print, (1, 2), "scan.model", "torch.nn.Module"),
    ],
)
def test_bad_input(model, inputs, rule, words):
    """Each is refused in one sentence."""
    with pytest.raises(convgrad.ConvGradError, match=words) as caught:
        door.scan(model, inputs)
    assert caught.value.rule == rule


def test_bad_switches():
    """Unknown products and dtypes are named."""
    for options in ({"products": ("A9",)}, {"products": ()}, {"dtype": "bfloat17"}, {"math": "most"}):
        with pytest.raises(convgrad.ConvGradError):
            door.scan(nn.Conv1d(1, 1, 3), (1, 1, 8), **options)


def test_json(tmp_path):
    """The file holds every row, and its lines parse back."""
    found = door.scan(networks.UNet(), (1, 1, 32, 32))
    found.write_json(tmp_path / "scan.json")
    read = json.loads((tmp_path / "scan.json").read_text("utf-8"))
    assert read["model"] == "UNet" and len(read["convolutions"]) == 6
    for row, kept in zip(found, read["convolutions"], strict=True):
        assert convgrad.Request.parse(kept["line"]) == row.request
        assert kept["products"]["910"]["computed_in"] == "float16"


@pytest.fixture
def beside_networks(monkeypatch):
    monkeypatch.chdir(SUPPORT)


@pytest.mark.usefixtures("beside_networks")
def test_command(capsys, tmp_path):
    """`convgrad scan module:factory` prints the table; --json the rows; exit code 3 when something is refused."""
    assert command_line.main(["scan", "networks:UNet", "--input", "1,1,32,32"]) == 0
    assert "up1" in capsys.readouterr().out
    words = ["scan", "networks:Video", "--input", "2,3,8,32,32", "-p", "A2,910", "-o", str(tmp_path / "a.json")]
    assert command_line.main([*words, "--json"]) == 3
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert printed["summary"]["910"]["refused"] == 4


def test_page(tmp_path):
    """One file without outside addresses; names from the model are escaped; refusals come with their ways out."""
    model = networks.Video()
    model.add_module("<b>", model.time)
    found = door.scan(model, (1, 3, 8, 32, 32))
    found.write_page(tmp_path / "scan.html")
    text = (tmp_path / "scan.html").read_text("utf-8")
    assert "src=" not in text and "http:" not in text and "https:" not in text and "url(" not in text
    assert "dims.910" in text and "fold the depth" in text and "<b></b>" not in text
    assert text.count("<tr><td>") == len(found)


@pytest.mark.usefixtures("beside_networks")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["networks"], "module:name"),
        (["nowhere:x", "--input", "1,1"], "cannot import nowhere"),
        (["networks:Nothing", "--input", "1,1"], "has no Nothing"),
        (["networks:UNet"], "--input 1,3,224,224"),
        (["networks:UNet", "--input", "1,a"], "a shape is positive numbers"),
        (["networks:ConvTbc", "--input", "1,1"], "cannot be made without arguments"),
        (["networks:torch", "--input", "1,1"], "neither a torch.nn.Module"),
        (["networks:torch.get_num_threads", "--input", "1,1"], "made a int"),
    ],
)
def test_command_errors(words, said, capsys):
    """A wrong command line is one sentence and exit code 2."""
    assert command_line.main(["scan", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("code", "said"), [("x = 3abc", "SyntaxError: invalid"), ("1 / 0", "ZeroDivisionError")])
def test_a_model_file_that_fails_is_no_internal_error(code, said, tmp_path, capsys):
    """What a model's file raises when it is imported is told as that, by scan and by the referees: exit code 2."""
    file = tmp_path / "a_model_that_fails.py"
    file.write_text(code)
    assert command_line.main(["scan", f"{file}:Net", "-i", "1,3,8,8"]) == 2
    assert said in (error := capsys.readouterr().err) and "internal error" not in error
    assert command_line.main(["invariance", "conv n2 c4-4 i8x8 k3x3 fp32", "--stack", f"{file}:call"]) == 2
    assert said in (error := capsys.readouterr().err) and "internal error" not in error


# ---- ONNX --------------------------------------------------------------------------------------------------


def onnx_model(path, batch=None, auto_pad=None):
    """relu(conv) -> transposed conv -> one-sided conv, written by hand."""
    onnx = pytest.importorskip("onnx")
    make, kinds = onnx.helper, onnx.TensorProto

    def weight(name, shape):
        return make.make_tensor(name, kinds.FLOAT, shape, [0.0] * torch.Size(shape).numel())

    first = {"auto_pad": auto_pad} if auto_pad else {"pads": [1, 1, 1, 1]}
    nodes = [
        make.make_node("Conv", ["x", "w1", "b1"], ["h"], "first", strides=[2, 2], **first),
        make.make_node("Relu", ["h"], ["r"]),
        make.make_node("ConvTranspose", ["r", "w2"], ["u"], "up", strides=[2, 2], group=2, output_padding=[1, 1]),
        make.make_node("Conv", ["u", "w3"], ["y"], "", pads=[0, 1, 2, 1]),
    ]
    graph = make.make_graph(
        nodes, "g", [make.make_tensor_value_info("x", kinds.FLOAT, [batch or "n", 3, 8, 8])],
        [make.make_tensor_value_info("y", kinds.FLOAT, None)],
        [weight("w1", (4, 3, 3, 3)), weight("b1", (4,)), weight("w2", (4, 3, 2, 2)), weight("w3", (2, 6, 3, 3))],
    )
    onnx.save(make.make_model(graph), str(path))
    return path


def test_onnx_file(tmp_path):
    """Conv and ConvTranspose of a file, with strides, groups, one-sided padding and the bias they have."""
    found = door.scan(onnx_model(tmp_path / "m.onnx", batch=2))
    assert [row.layer for row in found] == ["first", "up", "y"]
    first, up, last = (row.request for row in found)
    assert str(first).startswith("conv n2 c3>4 i8x8 k3x3 s2 p1 d1 g1 fp32") and first.output_mask == (False, True, True)
    assert up.transposed and up.groups == 2 and up.output_mask == (True, True, False)
    assert up.grad_output.shape == (2, 6, 9, 9) and up.output_padding == (1, 1)
    assert last.padding == (0, 2, 1, 1) and last.grad_output.shape == (2, 2, 9, 9)
    assert all(f.verdict.ok for row in found for f in row.findings.values())


def test_onnx_shapes_and_padding(tmp_path):
    """An open batch size is asked for; automatic padding is worked out; 16-bit on request."""
    path = onnx_model(tmp_path / "m.onnx", auto_pad="SAME_UPPER")
    with pytest.raises(convgrad.ConvGradError, match="is not known"):
        door.scan(path)
    found = door.scan(path, {"x": (5, 3, 8, 8)}, dtype="float16")
    assert found[0].request.padding == (0, 1, 0, 1) and found[0].dtype == "float16"
    assert found[0].request.input.shape == (5, 3, 8, 8)
    with pytest.raises(convgrad.ConvGradError, match="no input 'z'"):
        door.scan(path, {"z": (1,)})


def test_onnx_errors(tmp_path):
    """Files that are missing or something else are said to be so."""
    pytest.importorskip("onnx")
    (tmp_path / "text.onnx").write_text("no model")
    for name in ("missing.onnx", "text.onnx"):
        with pytest.raises(convgrad.ConvGradError) as caught:
            door.scan(tmp_path / name, (1, 3, 8, 8))
        assert caught.value.rule in ("scan.onnx", "scan.empty")


def test_onnx_not_installed(tmp_path, monkeypatch):
    """Without onnx the error says what to install."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        door.scan(tmp_path / "m.onnx")


class AsksForAValue(nn.Module):
    """Whether it adds one depends on numbers, which shapes alone do not have."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.convolution(x))
        return y + 1 if y.mean().item() > 0 else y


class Gated(nn.Module):
    """A module that asks for a value, inside another."""

    def __init__(self):
        super().__init__()
        self.stem, self.gate = nn.Conv2d(3, 3, 3), AsksForAValue()

    def forward(self, x):
        return self.gate(self.stem(x))


def test_a_model_that_asks_for_a_value_is_named_and_scanned_on_the_cpu():
    """The refusal names the module and the way out, which finds what a model without the question has."""
    model = Gated()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(convgrad.ConvGradError, match=r"\(in gate\).*item.*device=\"cpu\""):
        door.scan(model, (2, 3, 9, 9))
    found = door.scan(model, (2, 3, 9, 9), device="cpu")
    plain = door.scan(nn.Sequential(model.stem, model.gate.convolution, model.gate.norm), (2, 3, 9, 9))
    assert [row.line for row in found] == [row.line for row in plain]
    assert [row.layer for row in found] == ["stem", "gate.convolution"]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_scan_on_the_cpu_from_the_command_line(tmp_path, capsys):
    """--device cpu makes the model there and runs it; without it the refusal says so; other devices are refused."""
    file = tmp_path / "gated.py"
    file.write_text(
        "import torch\n"
        "class Gated(torch.nn.Conv2d):\n"
        "    def __init__(self): super().__init__(3, 4, 3)\n"
        "    def forward(self, x):\n"
        "        y = super().forward(x)\n"
        "        return y if y.sum() > 0 else -y\n"
    )
    line = ["scan", f"{file}:Gated", "--input", "1,3,8,8", "--product", "A2"]
    assert command_line.main(line) != 0
    assert "--device cpu" in capsys.readouterr().err
    assert command_line.main([*line, "--device", "cpu"]) == 0
    assert "conv2d" in capsys.readouterr().out
    with pytest.raises(convgrad.ConvGradError, match="device must be meta or cpu"):
        door.scan(nn.Conv2d(3, 4, 3), (1, 3, 8, 8), device="npu")
