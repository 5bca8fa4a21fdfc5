"""Dumps in the documented form, made here: calls are rebuilt, recomputed, attributed; hostile ones are one sentence."""

import csv
import io
import json
import os
import pickle
import random
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from convgrad.cli.command_line import main
from convgrad.core import rounding, standards
from convgrad.lab.dumps import calls, judging, reading, report
from convgrad.text.terminal import UsageError
from dumped_runs import Recorder, drawn, network

HEADER = (
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,NPU Requires_grad,"
    "Bench Requires_grad,Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One Thousandth Err Ratio,"
    "Five Thousandths Err Ratio,NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm,"
    "Requires_grad Consistent,Result,Err_message,NPU_Stack_Info,Data_name"
)


LINES = [
    "conv n2 c3>4 i16 k3 s1 p1 d1 g1 fp32 math=keep want=wb on=cpu",
    "conv n2 c4>6 i4x4 k3x3 s2 p1 d1 g1 fp32 math=keep want=xw on=cpu",
    "conv n2 c6>6 i2x2 k3x3 s1 p1 d1 g3 fp32 math=keep want=xwb on=cpu",
    "tconv n2 c6>4 i3x3 k2x2 s2 p0 d2 op1 g2 fp32 math=keep want=xwb on=cpu",
    "conv n2 c4>2 i1x4x4 k1x3x3 s1 p0x1x1 d1 g1 fp32 math=keep want=xwb on=cpu",
]


def judged(path, products=("cpu",), math=None, other=None):
    (unit,) = reading.find_units(path)
    partner = None if other is None else reading.read(reading.find_units(other)[0])
    return judging.judge(reading.read(unit), products, math, standards.find_all("mixed"), partner)


def test_calls_are_found_in_order_and_recomputed(tmp_path):
    """Five pairs and nothing else; every gradient that was dumped agrees within float32 accumulation."""
    layers = judged(network(tmp_path).write())
    assert [x.line for x in layers] == LINES
    assert [len(x.gradients) for x in layers] == [2, 2, 3, 3, 3]
    for layer in layers:
        for g in layer.gradients:
            assert g.findings.passed and g.findings.metrics.max_abs < 2e-5 and g.cause == "accumulation"


def test_keywords_defaults_and_padding_words(tmp_path):
    """`same` with the larger half at the end, numbers for all axes, arguments left out, no batch axis."""
    r = Recorder(tmp_path, tensors=False)
    r.call("conv2d", drawn(2, 3, 6, 6), weight=drawn(4, 3, 3, 3), padding="same")
    r.call("conv2d", drawn(2, 3, 6, 6), drawn(4, 3, 2, 4), padding="same", dilation=1)
    r.call("conv2d", drawn(2, 3, 6, 6), drawn(4, 3, 3, 3), None, 1, 1, prefix="Torch")
    r.call("conv1d", drawn(3, 8), drawn(4, 3, 3), padding="valid")
    dump = reading.read(reading.find_units(r.write())[0])
    requests = [str(calls.rebuild(e).request(judging.rules_of("cpu", None))) for e in dump.entries]
    assert requests == [
        "conv n2 c3>4 i6x6 k3x3 s1 p1 d1 g1 fp32 math=keep want=xw on=cpu",
        "conv n2 c3>4 i6x6 k2x4 s1 p0x1x1x2 d1 g1 fp32 math=keep want=xw on=cpu",
        "conv n2 c3>4 i6x6 k3x3 s1 p1 d1 g1 fp32 math=keep want=xw on=cpu",
        "conv n1 c3>4 i8 k3 s1 p0 d1 g1 fp32 math=keep want=xw on=cpu",
    ]


def test_layers_are_named_by_their_modules_then_by_their_frame(tmp_path):
    """A module's path may hold dots and the word forward; a frame gives file, line and function, never a path."""
    r = network(tmp_path)
    r.stack = {"0": [["Functional.conv3d.0.forward"],
                     ["File /x/site-packages/torch/f.py, line 1, in g, \n y",
                      "File /secret/net.py, line 9, in run, \n x"]]}  # fmt: skip
    dump = reading.read(reading.find_units(r.write())[0])
    names = [e.layer for e in dump.entries]
    assert names[1:3] == ["layer1.0.conv2", "forward.g2"] and names[4] == "net.py:9 run"
    assert names[0] == "Functional.conv1d.0" and len(dump.entries) == 5 and dump.modules == 2


def test_an_unbatched_call_is_recomputed(tmp_path):
    """Without a batch axis the same numbers come out, in the dumped shape."""
    r = Recorder(tmp_path)
    r.call("conv2d", drawn(3, 6, 6), drawn(4, 3, 3, 3), drawn(4))
    (layer,) = judged(r.write())
    assert len(layer.gradients) == 3 and layer.passed


def test_answers_of_products(tmp_path):
    """HF32 lowers float32 where the framework allows it; 910 has no bfloat16; statistics give the answer alone."""
    r = Recorder(tmp_path, tensors=False)
    r.call("conv1d", drawn(2, 3, 16), drawn(4, 3, 3))
    r.call("conv1d", drawn(2, 3, 16, dtype=torch.bfloat16), drawn(4, 3, 3, dtype=torch.bfloat16))
    first, second = judged(r.write(), ("cpu", "A2", "910"))
    assert [a.word for a in first.answers] == ["accepted", "lowered", "lowered"]
    assert [a.word for a in second.answers] == ["accepted", "accepted", "refused"]
    assert first.remark == second.remark == "statistics only" and not first.gradients


def hf32(gradient, grads, x, w):
    """The weight gradient of operands rounded to HF32, as a device would dump it."""
    g, x = (torch.from_numpy(rounding.round_to("hf32", t.detach().numpy()).astype(np.float64)) for t in (gradient, x))
    rest = ([4], [1], [1], [1], False, [0], 1, [False, True, False])
    weight = torch.ops.aten.convolution_backward(g, x, w.double(), *rest)[1]
    return [grads[0], weight.float(), grads[2]]


def test_errors_are_attributed(tmp_path):
    """What HF32 explains is operand rounding; a missing tap is not explained, on the page and by the exit code."""
    x, w = drawn(4, 8, 64, grad=False), drawn(4, 8, 3)
    r = Recorder(tmp_path / "a")
    r.call("conv1d", x, w, None, 1, 1, spoil=lambda g, grads: hf32(g, grads, x, w))
    path = r.write()
    (layer,) = judged(path, ("A2",), "hf32")
    assert [g.cause for g in layer.gradients] == ["operand rounding"] and layer.passed
    (layer,) = judged(network(tmp_path / "c").write(), ("A2",), "hf32")[:1]
    assert {g.cause for g in layer.gradients} == {"accumulation"}  # computed without rounding, whatever A2 would do
    r = Recorder(tmp_path / "b")
    r.call("conv1d", x, w, None, 1, 1, spoil=lambda g, grads: [None, grads[1] * torch.tensor([1.0, 1.0, 0.0]), None])
    path = r.write()
    (layer,) = judged(path)
    assert [g.cause for g in layer.gradients] == ["not explained"]
    page = tmp_path / "page.html"
    assert main(["dump", str(path), "--html", str(page)]) == 1
    text = page.read_text("utf-8")
    assert "not explained" in text and "http" not in text.replace("http-equiv", "")


def test_the_comparison_table_is_the_tools_own(tmp_path):
    """Its 27 columns in order, ours behind them; it reads back, and equal tensors have no error."""
    path = network(tmp_path).write()
    target = tmp_path / "compare.csv"
    assert main(["dump", str(path), "--csv", str(target), "--json"]) == 0
    rows = list(csv.DictReader(io.StringIO(target.read_text("utf-8"))))
    assert target.read_text("utf-8").splitlines()[0].startswith(HEADER + ",Layer,Product")
    assert ",".join(report.COLUMNS["tensor"]) == HEADER and HEADER.count(",") == 26 and len(rows) == 13
    assert rows[0]["NPU Name"] == "Functional.conv1d.0.backward.output.1" and rows[0]["Result"] == "pass"
    assert rows[0]["Data_name"] == "['Functional.conv1d.0.backward.output.1.pt', '-1']"
    assert float(rows[0]["Cosine"]) > 0.999999 and float(rows[0]["One Thousandth Err Ratio"]) > 0.99
    assert rows[0]["NPU Tensor Shape"] == "[4, 3, 3]" and rows[0]["NPU_Stack_Info"] == "N/A"


def test_two_dumps_are_compared(tmp_path):
    """The same dump twice has no error; another gradient fails; a call that is missing is named."""
    one = network(tmp_path / "a").write()
    assert all(g.findings.metrics.max_abs == 0 for x in judged(one, other=one) for g in x.gradients)
    r = Recorder(tmp_path / "b")
    r.call("conv1d", drawn(2, 3, 16, grad=False), drawn(4, 3, 3), drawn(4), (1,), (1,), (1,), 1,
           spoil=lambda g, grads: [None, grads[1] + 1, grads[2]])  # fmt: skip
    other = r.write()
    layers = judged(one, other=other)
    assert [g.findings.passed for g in layers[0].gradients] == [False, True]
    assert "not in the other dump" in layers[1].remark
    turned = judged(other, other=one)
    assert [x.remark for x in turned[1:]] == ["is in the other dump only"] * 4 and not turned[1].passed
    target = tmp_path / "two.csv"
    assert main(["dump", str(one), str(other), "--csv", str(target)]) == 1
    page = tmp_path / "two.html"
    assert main(["dump", str(one), str(other), "--html", str(page)]) == 1
    shown = page.read_text("utf-8")
    assert "beside those of the other dump" in shown and "recomputed on" not in shown and "not explained" not in shown
    first, second = list(csv.DictReader(io.StringIO(target.read_text("utf-8"))))
    assert first["Result"] == "error" and second["Result"] == "pass"
    assert second["Data_name"] == str(["Functional.conv1d.0.backward.output.2.pt"] * 2)


def of_statistics(directory, change=None, **more):
    """A dump of one call without tensors; `change` edits the record of its weight gradient."""
    r = Recorder(directory, tensors=False)
    r.call("conv1d", drawn(2, 3, 16, grad=False), drawn(4, 3, 3), drawn(4))
    for record in (x for kind in r.data.values() for part in kind.values() for x in part if isinstance(x, dict)):
        record.update({k: v for k, v in more.items() if "shape" in record})
    if change is not None:
        change(r.data["Functional.conv1d.0.backward"]["output"][1])
    return r.write()


@pytest.mark.parametrize(("change", "result", "said"), [
    (None, "pass", "[]"), (lambda t: t.update(Norm=t["Norm"] * 1.4), "pass", "[]"),
    (lambda t: t.update(Norm=t["Norm"] * 1.6), "error", "the norm is off by 0.6"),
    (lambda t: t.update(Max=float("inf")), "error", "infinities or NaNs"),
    (lambda t: t.update(dtype="torch.float16"), "error", "dtype differs"),
    (lambda t: t.update(requires_grad=True), "error", "requires_grad differs"),
])  # fmt: skip
def test_two_dumps_of_statistics_are_compared_by_the_tools_rules(tmp_path, change, result, said):
    """Four numbers per tensor: its columns in its order, its verdicts, the exit code that follows."""
    paths = [str(of_statistics(tmp_path / "a", change)), str(of_statistics(tmp_path / "b"))]
    target = tmp_path / "two.csv"
    assert main(["dump", *paths, "--csv", str(target)]) == (result == "error")
    first, second = csv.DictReader(io.StringIO(target.read_text("utf-8")))
    assert first["Result"] == result and said in first["Err_message"] and second["Result"] == "pass"
    head = HEADER.split(",")
    relative = [f"{name}RelativeErr" for name in ("Max", "Min", "Mean", "Norm")]
    assert list(first) == [*head[:8], "Max diff", "Min diff", "Mean diff", "L2norm diff", *relative, *head[14:26],
                           "Layer"]  # fmt: skip
    assert second["MaxRelativeErr"] == "0.0000%" and float(second["Max diff"]) == 0


def test_an_error_ten_times_that_of_the_inputs_is_a_warning(tmp_path):
    """Norms: the gradient's is off by 30 %, that of what it was computed from by 1 %."""
    def grown(data):
        data["Functional.conv1d.0.backward"]["output"][1]["Norm"] *= 1.3
        data["Functional.conv1d.0.backward"]["input"][0]["Norm"] *= 1.01

    dumps = []
    for name in "ab":
        r = Recorder(tmp_path / name, tensors=False)
        r.call("conv1d", drawn(2, 3, 16, grad=False), drawn(4, 3, 3))
        if name == "a":
            grown(r.data)
        dumps.append(r.write())
    (layer,) = judged(dumps[0], other=dumps[1])
    assert [row.result for row in layer.statistics] == ["warning"] and layer.passed
    assert "times that of the inputs" in layer.statistics[0].message[0]


def test_a_dump_of_tensors_beside_one_of_statistics(tmp_path):
    """Statistics are in both: they are compared."""
    whole = network(tmp_path / "a").write()
    layers = judged(whole, other=network(tmp_path / "b", tensors=False).write())
    assert [len(x.statistics) for x in layers] == [2, 2, 3, 3, 3] and all(x.passed for x in layers)


def test_two_dumps_of_checksums_are_compared(tmp_path):
    """What the tool calls MD5 is a CRC-32: another one is an error, in its own columns."""
    one, same = of_statistics(tmp_path / "a", md5="00c0ffee"), of_statistics(tmp_path / "b", md5="00c0ffee")
    other = of_statistics(tmp_path / "c", lambda t: t.update(md5="00c0ffef"), md5="00c0ffee")
    target = tmp_path / "two.csv"
    assert main(["dump", str(one), str(same)]) == 0
    assert main(["dump", str(one), str(other), "--csv", str(target)]) == 1
    first, second = csv.DictReader(io.StringIO(target.read_text("utf-8")))
    head = HEADER.split(",")
    assert list(first) == [*head[:8], "NPU MD5", "BENCH MD5", *head[22:26], "Layer"]
    assert (first["NPU MD5"], first["BENCH MD5"], first["Result"]) == ("00c0ffee", "00c0ffef", "error")
    assert second["Result"] == "pass" and "CRC-32 differs" in first["Err_message"]


def test_steps_are_in_order_and_named(tmp_path, capsys):
    """step2 before step10, each with its unit; a call that another dump lacks is no pass, nor is a damaged tensor."""
    for step in (10, 2):
        r = Recorder(tmp_path / f"x{step}")
        r.call("conv1d", drawn(2, 3, 16, grad=False), drawn(4, 3, 3))
        r.write()
        (tmp_path / f"x{step}" / "step0").rename(tmp_path / f"step{step}")
        (tmp_path / f"x{step}").rmdir()
    table = tmp_path / "all.csv"
    assert main(["dump", str(tmp_path), "--csv", str(table)]) == 0
    rows = csv.DictReader(io.StringIO(table.read_text("utf-8")))
    assert [row["Layer"] for row in rows] == [f"step{n}/proc7 Functional.conv1d.0" for n in (2, 10)]
    heads = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if "task tensor" in line]
    assert heads == ["step2/proc7", "step10/proc7"]
    empty = Recorder(tmp_path / "empty").write()
    assert main(["dump", str(tmp_path / "step2"), str(empty)]) == 1
    (tmp_path / "step2/proc7/dump_tensor_data/Functional.conv1d.0.backward.input.0.pt").write_bytes(b"PK")
    assert main(["dump", str(tmp_path / "step2")]) == 2


def test_calls_of_other_prefixes_are_not_counted_again(tmp_path):
    """The same convolution may stand there as the dispatcher saw it: only Functional and Torch are calls."""
    r = network(tmp_path, tensors=False)
    for kind in ("forward", "backward"):
        for prefix in ("Aten", "NPU", "VF", "Module"):
            r.data[f"{prefix}.conv1d.0.{kind}"] = r.data[f"Functional.conv1d.0.{kind}"]
    assert len(judged(r.write())) == 5


def test_two_dumps_that_differ_in_dtype(tmp_path):
    """The tool's table holds each side's own dtype, and that they differ is an error."""
    paths = []
    for name, dtype in (("a", torch.float32), ("b", torch.bfloat16)):
        r = Recorder(tmp_path / name)
        r.call("conv1d", drawn(2, 3, 16, grad=False, dtype=dtype), torch.ones(4, 3, 3, dtype=dtype).requires_grad_())
        paths.append(str(r.write()))
    target = tmp_path / "two.csv"
    main(["dump", *paths, "--csv", str(target)])
    (row,) = csv.DictReader(io.StringIO(target.read_text("utf-8")))
    assert (row["NPU Dtype"], row["Bench Dtype"]) == ("torch.float32", "torch.bfloat16")
    assert row["Result"] == "error" and "dtype differs" in row["Err_message"]


def test_what_is_printed_fits_a_terminal(tmp_path, capsys):
    """Layer, line, answers and verdict of a call in lines of at most 100 columns."""
    assert main(["dump", str(network(tmp_path).write())]) == 0
    shown = capsys.readouterr().out
    assert "layer1.0.conv2  Functional.conv2d.0\n  " + LINES[1] in shown
    assert "950 lowered (hf32_10), A3 lowered (hf32), A2 lowered (hf32)\n  gradients: pass (accumulation)" in shown
    assert max(map(len, shown.splitlines())) <= 100


class Trap:
    """A pickle that would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_hostile_tensors_are_one_sentence_and_run_nothing(tmp_path):
    """Code, no tensor, a missing file, another shape, a name that leaves the dump, a bomb, a tensor of no memory."""
    r = Recorder(tmp_path)
    r.call("conv1d", drawn(2, 3, 16, grad=False), drawn(4, 3, 3))
    data = r.directory / "dump_tensor_data"
    path = data / "Functional.conv1d.0.backward.output.1.pt"
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", b"0" * 20_000_000)
    for make, said in (
        (lambda: torch.save(Trap(tmp_path / "trapped"), path), "without running code"),
        (lambda: torch.save(torch.nn.Linear(2, 2), path), "code: Weights only load failed"),
        (lambda: torch.save({"a": 1}, path), "holds no tensor but dict"),
        (lambda: path.write_bytes(pickle.dumps(Trap(tmp_path / "trapped"))), "without running code"),
        (lambda: path.write_bytes(path.read_bytes()[:100]), "without running code"),
        (lambda: path.write_bytes(bomb.getvalue()), "unpacks to 20,000,000 bytes"),
        (lambda: torch.save(torch.zeros(1).expand(4, 3, 3), path), "is not stored in full"),
        (lambda: torch.save(torch.zeros(4, 3, 2), path), "the dump says (4, 3, 3)"),
        (lambda: torch.save(torch.zeros(4, 3, 3, device="meta"), path), "has no memory to read"),
        (path.unlink, "is missing in dump_tensor_data"),
    ):
        make()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            (layer,) = judged(r.write())
        assert not warned, "a library's words about a foreign pickle"
        assert said in layer.remark and "\n" not in layer.remark, layer.remark
        assert "weights_only" not in layer.remark and "\x1b" not in layer.remark, "advice to run what was refused"
    r.data["Functional.conv1d.0.backward"]["output"][1]["data_name"] = "../../../etc/passwd"
    (layer,) = judged(r.write())
    assert "no plain file name" in layer.remark and not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(("content", "said"), [
    ('{"data": []}', "`data` must be an object"), ('{"data": {', "truncated"), ("[]", "is no dump"),
    ('{"framework": "mindspore", "data": {}}', "not of pytorch"), ('"\\ud800', "no JSON"),
])  # fmt: skip
def test_broken_dump_files_are_refused(tmp_path, capsys, content, said):
    """Truncated, of another shape, of another framework: exit code 2 and a sentence."""
    (tmp_path / "dump.json").write_text(content, "utf-8")
    assert main(["dump", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_a_dump_that_is_no_file_is_refused(tmp_path, capsys, kind):
    """A link to an endless device, a pipe nobody writes to, a directory: refused, not waited for."""
    place = tmp_path / "dump.json"
    {"device": lambda: place.symlink_to("/dev/zero"), "pipe": lambda: os.mkfifo(place), "folder": place.mkdir}[kind]()
    assert main(["dump", str(tmp_path)]) == 2
    assert "dump.json: is no regular file" in capsys.readouterr().err


def test_entries_that_cannot_be_rebuilt_say_why(tmp_path):
    """No backward pass, a gradient of another shape, odd attributes, modules alone, nothing at all."""
    r = network(tmp_path, tensors=False)
    del r.data["Functional.conv1d.0.backward"]
    r.data["Functional.conv2d.0.backward"]["input"][0]["shape"] = [2, 6, 9, 9]
    r.data["Functional.conv2d.1.forward"]["input_args"][6] = {"type": "str", "value": "many"}
    r.data["Functional.conv_transpose2d.0.forward"]["input_args"][3] = {"type": "float", "value": 0.5}
    remarks = [x.remark for x in judged(r.write())]
    assert "no backward entry" in remarks[0] and "the gradient has shape" in remarks[1]
    assert "groups must be a whole number" in remarks[2] and "stride must be whole numbers" in remarks[3]
    assert remarks[4] == "statistics only"
    assert main(["dump", str(tmp_path / "nowhere")]) == 2


def test_a_large_dump_is_read_without_its_tensors(tmp_path):
    """Ten thousand entries: every call found, in memory some times that of the file; tensors are not touched."""
    r = Recorder(tmp_path)
    r.call("conv1d", drawn(2, 3, 16), drawn(4, 3, 3))
    first = {kind: r.data[f"Functional.conv1d.0.{kind}"] for kind in ("forward", "backward")}
    r.data = {f"Functional.conv1d.{i}.{kind}": entry for i in range(5000) for kind, entry in first.items()}
    path = r.write()
    for file in (r.directory / "dump_tensor_data").iterdir():
        file.unlink()
    (unit,) = reading.find_units(path)
    tracemalloc.start()
    try:
        entries = len(reading.read(unit).entries)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert entries == 5000 and most < 6 * (unit / "dump.json").stat().st_size


ODD = (None, True, -1, 1.5, "x", "", [], {}, [[]], 2**70, -(2**63), float("nan"), "torch.complex64", "torch.float64",
       [1, 2], {"type": "torch.Tensor"}, "../x", "a\x00b")  # fmt: skip


def places(found, path=()):
    """Every place inside a document."""
    for key in found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ():
        yield (*path, key)
        yield from places(found[key], (*path, key))


def test_damaged_documents_end_in_a_sentence(tmp_path):
    """Any entry lost or of another kind: a remark or a usage error, and every report can still be written."""
    path = network(tmp_path).write()
    (unit,) = reading.find_units(path)
    whole = (unit / "dump.json").read_text("utf-8")
    rng = random.Random(0)
    everywhere = list(places(json.loads(whole)))
    for _ in range(40):
        document = json.loads(whole)
        *way, last = rng.choice(everywhere)
        holder = document
        for key in way:
            holder = holder[key]
        if rng.random() < 0.3:
            del holder[last]
        else:
            holder[last] = rng.choice(ODD)
        (unit / "dump.json").write_text(json.dumps(document), "utf-8")
        try:
            layers = judged(path, ("cpu", "A2"))
        except UsageError:
            continue
        assert all("\n" not in x.remark for x in layers)
        assert report.csv_text(layers, "cpu").startswith(HEADER) and "</html>" in report.html("x", layers, "cpu")
        report.text(layers)
