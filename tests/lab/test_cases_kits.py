"""Case files beyond the operator's own rows: kernels, the framework's call, workbooks, archives, benchdnn."""

import csv
import io
import math
import zipfile

import numpy as np
import openpyxl
import pytest

import convgrad
from convgrad import golden_functions
from convgrad.cli.command_line import main
from convgrad.core import layouts, products
from convgrad.lab.cases import experimental, files, generate, values
from convgrad.lab.cases.case import CaseFileError
from convgrad.lab.golden import tensor_files
from convgrad.lab.kits import determinism

KERNEL = {
    "op_name": "conv3d_backprop_filter_v2", "testcase_name": "k",
    "input_shapes": "((2, 8, 1, 6, 6), (5,), (2, 4, 1, 6, 6))", "input_dtypes": "('float16', 'int32', 'float16')",
    "input_formats": "('NCDHW', 'ND', 'NCDHW')", "output_shapes": "((4, 8, 1, 3, 3),)", "output_dtypes": "('float32',)",
    "output_formats": "('NCDHW',)", "attributes": "{'filter_size': [4, 8, 1, 3, 3], 'strides': [1, 1, 1, 1, 1], "
    "'pads': [0, 0, 1, 1, 1, 1], 'dilations': [1, 1, 1, 1, 1], 'groups': 1, 'data_format': 'NCDHW'}",
}  # fmt: skip
END_TO_END = {
    "testcase_name": "e", "api_name": "torch.ops.aten.convolution_backward",
    "tensor_view_shapes": "((2, 4, 6, 6), (2, 8, 6, 6), (4, 8, 3, 3))", "tensor_dtypes": "('float32',)",
    "attributes": "{'bias_sizes': [4], 'stride': [1, 1], 'padding': [1, 1], 'dilation': [1, 1], 'transposed': False, "
    "'output_padding': [0, 0], 'groups': 1, 'output_mask': [True, True, True]}",
}  # fmt: skip
OPERATOR = {
    "testcase_name": "a", "api_name": "aclnnConvolutionBackward", "tensor_dtypes": "float16",
    "tensor_view_shapes": "((2, 4, 6), (2, 8, 6), (4, 8, 1), (2, 8, 6), (4, 8, 1), (4,))",
    "attributes": "{'biasSizes': [4], 'stride': [1], 'padding': [0]}",
    "attributes1": "{'dilation': [1], 'outputPadding': [0], 'transposed': False, 'groups': 1}",
}  # fmt: skip


def table(path, *rows):
    """A CSV file with the columns of its first row."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(out.getvalue(), "utf-8")
    return path


def line_of(tmp_path, row, **changes):
    (case,) = files.read(table(tmp_path / "x.csv", {**row, **changes}))
    return str(case.request)


def test_a_kernels_row_is_the_request_it_computes(tmp_path):
    """The weight gradient alone, in float32, of float16 operands; it can be run."""
    line = line_of(tmp_path, KERNEL)
    assert line == "conv n2 c8>4 i1x6x6 k1x3x3 s1 p0x1x1 d1 g1 fp16 math=keep want=w on=cpu gw=/float32"
    assert main(["run", str(tmp_path / "x.csv"), "-q", "-j", "1"]) == 0


def test_a_kernels_storage_formats_sizes_and_fallbacks(tmp_path):
    """Packed shapes with the original ones beside them; a size of zeros; five numbers in data_format's order; HF32."""
    attributes = ("{'input_size': [0, 0, 0, 0, 0], 'strides': [1, 1, 2, 2, 1], 'pads': [0, 0, 1, 0, 1, 0], "
                  "'data_format': 'NDHWC', '@_op_impl_mode_enum': 64}")  # fmt: skip
    row = {
        "op_name": "conv3d_backprop_input_v2", "testcase_name": "", "soc_series": "('Ascend950',)",
        "input_shapes": "((5,), (9, 1, 16, 8), (2, 1, 1, 3, 3, 8))", "input_dtypes": "('int32', 'float32', 'float32')",
        "input_ori_shapes": "((5,), (4, 1, 3, 3, 8), (2, 1, 3, 3, 4))", "input_ori_formats": "('ND', 'NDHWC', 'NDHWC')",
        "output_shapes": "((2, 1, 6, 6, 8),)", "output_ori_formats": "('NDHWC',)", "output_dtypes": "float32",
        "attributes": attributes, "input_data_ranges": "((0, 1),)",
    }  # fmt: skip
    (case,) = files.read(table(tmp_path / "x.csv", row))
    assert str(case.request) == (
        "conv n2 c8>4 i1x6x6 k1x3x3 s1x2x2 p0:0x1:0x1:0 d1 g1 fp32 math=hf32 want=x on=950")
    assert case.fill_words == "uniform:0:1,uniform:-2:2,uniform:0:1" and case.name == "auto_testcase_name_0"


def test_the_frameworks_call_and_its_golden_data(tmp_path):
    """Three tensors, one dtype for all; a kernel's golden data have the size tensor among the inputs."""
    assert line_of(tmp_path, END_TO_END) == "conv n2 c8>4 i6x6 k3x3 s1 p1 d1 g1 fp32 math=keep want=xwb on=A2"
    for row, inputs, outputs in ((END_TO_END, 3, 3), (KERNEL, 3, 1)):
        place = tmp_path / row["testcase_name"]
        path = table(tmp_path / "x.csv", row)
        assert main(["golden", str(path), "-o", str(place), "--layout", "ttk"]) == 0
        names = sorted(p.name for p in (place / row["testcase_name"]).iterdir())
        assert sum(n.startswith("input") for n in names) == inputs and len(names) == inputs + outputs
        assert main(["compare", str(place), str(place)]) == 0
    assert np.fromfile(tmp_path / "k" / "k" / "input_1_int32.bin", np.int32).tolist() == [4, 8, 1, 3, 3]


def test_a_column_the_kit_does_not_have_is_told(tmp_path, capsys):
    """It is kept and counts for nothing, which a misspelt one would not show; every column of the kit's is known."""
    kernel = {**KERNEL, "attributes9": "", "manual_xpu_binaries": "", "output_shape_unknown_indexes": "", "remark": ""}
    for row in (OPERATOR, END_TO_END, kernel):
        files.read(table(tmp_path / "x.csv", row))
    assert not capsys.readouterr().err
    files.read(table(tmp_path / "x.csv", {**OPERATOR, "input_data_range": "3", "b": "", "c": "", "d": ""}))
    assert "4 columns that the kit does not have: 'input_data_range', 'b', 'c', ..." in " ".join(
        capsys.readouterr().err.split())


def test_one_entry_is_for_all_and_attributes_are_merged(tmp_path):
    """A bare word for every dtype, formats by rank, attributes1 added, unfilled ranges as the kit draws them."""
    (case,) = files.read(table(tmp_path / "x.csv", OPERATOR))
    assert str(case.request) == "conv n2 c8>4 i6 k1 s1 p0 d1 g1 fp16 math=keep want=xwb on=A2"
    assert case.fill_words == "uniform:-2:2"
    assert line_of(tmp_path, OPERATOR, tensor_formats="(47, 47, 47, 47, 47, 2)") == str(case.request)
    (one,) = files.read(table(tmp_path / "x.csv", {**OPERATOR, "input_data_ranges": "((0, 1, inf, nan), 3, None)"}))
    assert one.fill_words == "uniform:0:1:inf:nan,constant:3,uniform:-2:2"
    for ranges, filling in (("(0, 1)", "uniform:0:1"), ("(3,)", "constant:3"), ("((None, 5),)", "uniform:-2:5"),
                            ("((-1, None, inf),)", "uniform:-1:2:inf"), ("((None, None),)", "uniform:-2:2")):
        (case,) = files.read(table(tmp_path / "x.csv", {**OPERATOR, "input_data_ranges": ranges}))
        assert case.fill_words == filling
    with pytest.raises(CaseFileError, match="must hold 6 entries"):
        line_of(tmp_path, OPERATOR, tensor_dtypes=repr(("float16",) * 7))


@pytest.mark.parametrize(("series", "product"), [
    ("", "A2"), ("950", "950"), ("('Ascend910_93', 'Ascend950')", "A3"), ("('Ascend950', 'Ascend910B')", "A2"),
    ("('-Ascend910B',)", "950"), ("('Ascend950', 'Ascend910', '-Ascend950')", "910"),
    ("Ascend950, Ascend910_93", "950"), ("-Ascend910B,-Ascend950", "A3"), ("'Ascend950'", "950"),
])  # fmt: skip
def test_a_series_is_a_filter(tmp_path, series, product):
    """A2 where it is admitted, else the first product that is; a minus leaves one out."""
    assert line_of(tmp_path, OPERATOR, soc_series=series).endswith(f"on={product}")
    assert product in products.KEYS


def test_bad_rows_are_all_named_and_forward_operators_are_told_apart(tmp_path):
    """Each bad cell of a file with good rows; a forward pass is refused in a sentence."""
    rows = [KERNEL, {**KERNEL, "input_shapes": "((1, 2),)"}, {**KERNEL, "op_name": "conv3d"}]
    with pytest.raises(CaseFileError) as error:
        files.read(table(tmp_path / "x.csv", *rows))
    text = str(error.value)
    assert "row 3, column 'input_shapes'" in text and "row 4, column 'op_name'" in text and "forward pass" in text
    with pytest.raises(CaseFileError, match="'aclnnConvolution'; cases of a forward pass have no gradients"):
        line_of(tmp_path, OPERATOR, api_name="aclnnConvolution")
    with pytest.raises(CaseFileError, match="is no Python literal"):
        line_of(tmp_path, OPERATOR, attributes="__import__('os').system('true')")


def test_workbooks_and_archives_hold_the_same_cases(tmp_path):
    """A CSV as .xlsx and back, text in every cell; a zip of CSVs is read without unpacking."""
    path = table(tmp_path / "x.csv", OPERATOR)
    assert main(["cases", "convert", str(path), "-o", str(tmp_path / "x.xlsx")]) == 0
    cells = [c for row in openpyxl.load_workbook(tmp_path / "x.xlsx").worksheets[0].values for c in row]
    assert all(c is None or isinstance(c, str) for c in cells)
    again = files.read(tmp_path / "x.xlsx")
    assert [str(c.request) for c in again] == [str(c.request) for c in files.read(path)]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(path, "../../x.csv")
    assert [c.name for c in files.read(tmp_path / "x.zip")] == ["a"]
    assert main(["cases", "convert", str(path), "--to", "xlsx"]) == 2


def test_sheets_are_read_as_far_as_their_header(tmp_path):
    """Blank rows above and between, cells of any kind, columns without a name; a cell in a far corner is refused."""
    book = openpyxl.Workbook()
    sheet = book.active
    kinds = {"is_enabled": False, "absolute_precision": 1e-8, "input_data_ranges": 3, "priority": 1, "remark": None}
    header, row = [*OPERATOR, *kinds], [*OPERATOR.values(), *kinds.values()]
    for cells in ([None], [f" {name} " for name in header], [], [*row, "no column"], ["", None]):
        sheet.append(cells)
    book.save(tmp_path / "x.xlsx")
    (case,) = files.read(tmp_path / "x.xlsx")
    assert (case.name, case.enabled, case.fill_words) == ("a", False, "constant:3")
    assert str(case.request) == line_of(tmp_path, OPERATOR)
    sheet["XFD1048576"] = "far"
    book.save(tmp_path / "x.xlsm")
    with pytest.raises(CaseFileError, match="has more than 20,000,000 cells: refused"):
        files.read(tmp_path / "x.xlsm")


def test_bombs_and_broken_archives_are_refused(tmp_path):
    """What unpacks to far more than it is, what is no archive, a workbook without a sheet of cases: one sentence."""
    for name in ("x.xlsx", "x.zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", b"0" * 50_000_000)
        with pytest.raises(CaseFileError, match="unpacks to 50,000,000 bytes"):
            files.read(tmp_path / name)
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(CaseFileError, match="no archive"):
            files.read(tmp_path / name)


def test_benchdnn_options_are_lists(tmp_path):
    """Every combination is a problem, named by what differs; a batch of 0 is the descriptor's own, a word is none."""
    (tmp_path / "a.txt").write_text('mb3_ic4ih5oc4oh5kh3ph1n"a"\n--dir=BWD_D,BWD_WB --mb=1,0\n'
                                    'mb3ic4ih5oc4oh5kh3ph1n"b"\n--reset --mb=0\nic4ih5oc4oh5kh3ph1\n', "utf-8")
    lines = [(c.name, str(c.request)) for c in files.read(str(tmp_path / "a.txt"))]
    told = [(name, line.split()[1], line.partition("want=")[2].split()[0]) for name, line in lines]
    assert told == [("a", "n3", "wb"), ("b BWD_D 1", "n1", "x"), ("b BWD_D 0", "n3", "x"), ("b BWD_WB 1", "n1", "wb"),
                    ("b BWD_WB 0", "n3", "wb"), ("ic4ih5oc4oh5kh3ph1", "n2", "wb")]  # fmt: skip
    (tmp_path / "a.txt").write_text("--mb=all ic4ih5oc4oh5kh3ph1\n", "utf-8")
    with pytest.raises(CaseFileError, match="--mb=all: is no batch"):
        files.read(str(tmp_path / "a.txt"))


def test_benchdnn_descriptors(tmp_path):
    """Options count from where they stand, dilation 0 is dense, an output size gives the far padding; an option that
    may change what is computed is refused."""
    path = tmp_path / "shapes.txt"
    path.write_text(
        '--dir=BWD_W --dt=bf16\nmb4ic16ih7oc16oh7kh3ph1n"layer one"\n--mb=1 g2ic4iw9oc4kw3dw1  # a comment\n'
        "--reset --dir=BWD_D\nic3id4ih8iw9oc2od2oh4ow5kd3kh3kw3sh2sw2ph1pw1\n", "utf-8")  # fmt: skip
    assert [(c.name.startswith("layer"), str(c.request)) for c in files.read(path)] == [
        (True, "conv n4 c16>16 i7x7 k3x3 s1 p1 d1 g1 bf16 math=keep want=w on=cpu"),
        (False, "conv n1 c4>4 i9 k3 s1 p0 d2 g2 bf16 math=keep want=w on=cpu"),
        (False, "conv n2 c3>2 i4x8x9 k3x3x3 s1x2x2 p0x1x1 d1 g1 fp32 math=keep want=x on=cpu"),
    ]
    path.write_text("--stag=axb --alg=direct --skip-impl=ref --dir=BWD_W --conv ic3ih8oc2kh3\n", "utf-8")
    assert [str(c.request).split()[1:3] for c in files.read(path)] == [["n2", "c3>2"]]
    path.write_text("--dri=BWD_W --attr-fpmath=bf16 ic3ih8oc2kh3\n", "utf-8")
    with pytest.raises(CaseFileError, match=r"'--dri=BWD_W': is no known option \(did you mean dir\?\)") as error:
        files.read(path)
    assert "'--attr-fpmath=bf16': is no known option; read are" in str(error.value)
    path.write_text("--dir=FWD_B\nic3ih8oc2kh3\nic3ih8oc2kh3zz\n", "utf-8")
    with pytest.raises(CaseFileError, match="line 2, --dir=FWD_B: is no backward pass"):
        files.read(path)


def test_the_kits_progress_file(tmp_path):
    """Four lines without a final newline, the counts of the run."""
    (tmp_path / "x.txt").write_text("conv n1 c1>1 i4 k1\nconv n1 c1>1 i5 k1\n", "utf-8")
    assert main(["run", str(tmp_path / "x.txt"), "-q", "-j", "1", "--po", str(tmp_path / "po")]) == 0
    lines = (tmp_path / "po").read_text("utf-8").split("\n")
    assert [line.split(":")[0] for line in lines] == ["StartAt", "ElapsedTime", "TotalCases", "CompletedCases"]
    assert lines[2:] == ["TotalCases:2", "CompletedCases:2"] and int(lines[0].split(":")[1]) > 1_000_000_000


def test_the_preset_obeys_the_documents_rules():
    """Sizes 2^k and 2^k - 1, half uniform and half normal, the special cases for every dtype."""
    cases = generate.generate([experimental.NAME], "cpu", dtypes=("fp16", "fp32"), count=48)
    assert cases == generate.generate([experimental.NAME], "cpu", dtypes=("fp16", "fp32"), count=48)
    ordinary = cases[:96]
    assert sum(c.fill_words == "uniform:-5:5" for c in ordinary) == 48
    for c in ordinary:
        for n in (*c.request.input.shape, c.request.grad_output.shape[1]):
            assert n & (n - 1) == 0 or n & (n + 1) == 0
        for v in c.fill if c.fill[0].kind == "normal" else ():
            assert -5 <= v.numbers[0] <= 5 and 0.1 <= v.numbers[1] <= 2
    special = {c.fill_words for c in cases[96:]}
    assert {"constant:nan", "constant:inf", "constant:-inf", "infinities"} < special and len(cases) == 96 + 18
    empty = [c.request for c in cases if "empty" in c.name and "fp16" in c.name]
    assert [[0 in s.shape for s in (r.grad_output, r.input, r.weight)] for r in empty] == [
        [True, True, False], [False, True, True], [True, False, True]]
    assert all(convgrad.check(c.request).ok for c in ordinary)
    assert np.isinf(values.fill(values.parse("infinities"), (3,), "float16", 0, 0)).all()
    assert math.isnan(values.parse("constant:nan").numbers[0])


def test_the_preset_combines_every_class_of_the_attributes():
    """Rank, transposed, stride, dilation, groups with every mask; output padding where any may be; all are accepted."""
    cases = generate.generate([experimental.NAME], "cpu", dtypes=("fp16",), count=336)[:336]
    requests = [c.request for c in cases]
    seen = {(len(r.stride), r.transposed, max(r.stride), max(r.dilation), r.groups, r.output_mask) for r in requests}
    assert len(seen) == 3 * 2**4 * 7 and all(convgrad.check(r).ok for r in requests)
    slack = {(r.transposed, max(r.stride)) for r in requests if any(r.output_padding)}
    assert slack == {(True, 2)} and {max(r.padding) for r in requests} == {0, 1}


def determined(tmp_path, name, slices):
    fields = {"batch_seed": "((100,),)", "batch_axis": "(([0],),)", "batch_slice_info": f"(([{slices}],),)"}
    (case,) = files.read(table(tmp_path / "x.csv", {**OPERATOR, "testcase_name": name, **fields}))
    return case


def test_batch_consistency_as_the_kit_checks_it(tmp_path):
    """A sample alone and inside a batch share an id and their bytes; a planted bit fails; what does not fit is told."""
    rng = np.random.default_rng(0)
    g, x, w = (rng.standard_normal(s).astype(np.float16) for s in ((5, 4, 6), (5, 8, 6), (4, 8, 1)))
    whole = convgrad.conv_backward(g, x, w, product="A2").input
    alone = convgrad.conv_backward(g[3:4], x[3:4], w, product="A2").input
    batch, single = determined(tmp_path, "batch", [3, 4, 1]), determined(tmp_path, "single", [0, 1, 1])
    assert determinism.slices_of(batch).identity == determinism.slices_of(single).identity == "100_0_1_1"
    assert determinism.check([batch, single], [whole, alone]) == {"batch": "pass", "single": "pass"}
    spoilt = alone.copy()
    spoilt.view(np.uint16)[0, 0, 0] ^= 1
    assert determinism.check([batch, single], [whole, spoilt]) == {"batch": "fail", "single": "fail"}
    outside = determined(tmp_path, "outside", [0, 9, 1])
    assert determinism.check([outside, single], [whole, alone]) == {"outside": "unsupported"}
    (plain,) = files.read(table(tmp_path / "x.csv", OPERATOR))
    assert determinism.slices_of(plain) is None and determinism.level(plain) == 0


def test_special_constants_stand_in_the_kits_ranges(tmp_path):
    """NaN and the infinities as bare numbers of input_data_ranges: written, and read back as the same filling."""
    lines = tmp_path / "cases.json"
    assert main(["cases", "gen", "experimental-2026-07", "--dtype", "fp32", "--count", "2", "-o", str(lines)]) == 0
    table = tmp_path / "cases.csv"
    assert main(["cases", "convert", str(lines), "-o", str(table)]) == 0
    fillings = {c.name.split(" ")[1]: str(c.fill[0]) for c in files.read(str(table)) if "constant" in c.name}
    assert fillings == {f"constant:{word}": f"constant:{word}" for word in ("nan", "inf", "-inf")}


PACKED = {
    "testcase_name": "packed", "op_name": "conv3d_backprop_input_v2",
    "input_shapes": "((5,), (9, 1, 16, 8), (2, 2, 1, 6, 6, 8))", "input_dtypes": "('int32', 'float32', 'float32')",
    "input_formats": "('ND', 'FRACTAL_Z_3D', 'NCDHW')", "input_ori_shapes": "((5,), (4, 8, 1, 3, 3), (2, 4, 2, 6, 6))",
    "input_ori_formats": "('ND', 'NCDHW', 'NCDHW')", "output_shapes": "((2, 2, 6, 6, 8),)", "output_dtypes": "float32",
    "output_formats": "('NDHWC',)", "output_ori_shapes": "((2, 8, 2, 6, 6),)", "output_ori_formats": "('NCDHW',)",
    "attributes": "{'strides': [1, 1, 1], 'pads': [0, 0, 1, 1, 1, 1], 'data_format': 'NCDHW'}",
}  # fmt: skip


@pytest.mark.parametrize("extension", ["bin", "npy", "pt"])
def test_golden_files_hold_the_storage_of_a_case(tmp_path, extension):
    """Blocks of channels, packed weights, axes in another order: what the kernel would be given, and read back so."""
    path = table(tmp_path / "x.csv", PACKED)
    assert main(["golden", str(path), "-o", str(tmp_path / "g"), "--layout", "ttk", "--format", extension]) == 0
    (w,), (g,), (y,) = ([tensor_files.read(p)[0] for p in (tmp_path / "g" / "packed").glob(name)]
                        for name in ("input_1_*", "input_2_*", "golden_0_*"))  # fmt: skip
    shapes = ((9, 1, 16, 8), (2, 2, 1, 6, 6, 8), (2, 2, 6, 6, 8))
    w, g, y = (t.reshape(s) for t, s in zip((w, g, y), shapes, strict=True))
    weight, gradient = layouts.from_fractal_z_3d(w, (4, 8, 1, 3, 3), 8), layouts.from_ndc1hwc0(g, 4)
    told = {"pads": [0, 0, 1, 1, 1, 1], "data_format": "NCDHW", "short_soc_version": "Ascend910B"}
    (right,) = golden_functions.conv3d_backprop_input_v2(np.array([2, 8, 2, 6, 6]), weight, gradient, **told)
    assert np.array_equal(y, right.transpose(0, 2, 3, 4, 1))
    device = tmp_path / "device" / "packed"
    device.mkdir(parents=True)
    if extension == "npy":
        np.save(device / "output_0_float32.npy", y)
        assert main(["compare", str(tmp_path / "device"), str(tmp_path / "g")]) == 0
        np.save(device / "output_0_float32.npy", right.reshape(y.shape))  # the right numbers in another order
        assert main(["compare", str(tmp_path / "device"), str(tmp_path / "g")]) == 1


@pytest.mark.parametrize(("changes", "said"), [
    ({"input_shapes": "((5,), (9, 1, 16, 8), (2, 2, 1, 6, 6, 16))"}, ""),
    ({"input_shapes": "((5,), (9, 1, 16, 8), (2, 2, 2, 6, 6, 8))"}, "NDC1HWC0 of a tensor 2x4x2x6x6 has shape"),
    ({"attributes": PACKED["attributes"].replace("}", ", 'groups': 2}"),
      "input_ori_shapes": "((5,), (4, 4, 1, 3, 3), (2, 4, 2, 6, 6))"}, "with 2 groups packs several groups"),
])  # fmt: skip
def test_storage_that_does_not_fit_is_one_sentence(tmp_path, capsys, changes, said):
    """Lanes of another count are the case's own; a shape that is none of its format is named."""
    path = table(tmp_path / "x.csv", {**PACKED, **changes})
    code = main(["golden", str(path), "-o", str(tmp_path / "g"), "--layout", "ttk"])
    assert code == (2 if said else 0) and said in capsys.readouterr().err


def test_an_operators_inputs_are_stored_as_its_row_says(tmp_path, capsys):
    """Every second element of a wider buffer; outputs are plain; views that leave it or meet themselves are refused."""
    strided = {
        **OPERATOR, "tensor_storage_shapes": "((2, 4, 13), None, None, None, None, None)",
        "tensor_view_strides": "((52, 13, 2), None, None, None, None, None)",
        "tensor_view_offsets": "(1, 0, 0, 0, 0, 0)",
    }
    path = table(tmp_path / "x.csv", strided)
    assert main(["golden", str(path), "-o", str(tmp_path / "g"), "--layout", "ttk"]) == 0
    place = tmp_path / "g" / "a"
    buffer = np.fromfile(place / "input_0_float16.bin", np.float16).reshape(2, 4, 13)
    (case,) = files.read(path)
    drawn = case.tensors(case.seed_for(0, str(case.request))).grad_output
    assert np.array_equal(buffer[:, :, 1::2], drawn) and not buffer[:, :, ::2].any()
    device = tmp_path / "device" / "a"
    device.mkdir(parents=True)
    for golden in place.glob("golden_*"):
        (device / golden.name.replace("golden", "output")).write_bytes(golden.read_bytes())
    assert main(["compare", str(tmp_path / "device"), str(tmp_path / "g")]) == 0
    for changes, said in (({"tensor_view_offsets": "(3, 0, 0, 0, 0, 0)"}, "does not fit its storage"),
                          ({"tensor_view_strides": "((8, 2, 1), None, None, None, None, None)"}, "share their memory"),
                          ({"tensor_view_strides": "((8, 2), None, None, None, None, None)"}, "do not fit a view")):
        path = table(tmp_path / "x.csv", {**strided, **changes})
        assert main(["golden", str(path), "-o", str(tmp_path / said[:5]), "--layout", "ttk"]) == 2
        assert said in capsys.readouterr().err


def test_what_a_kits_file_means(tmp_path, capsys):
    """Axes by data_format where nothing else names them, outputs listed behind the framework's tensors, one format for
    all, a name met twice, values that must occur, infinities as a range."""
    last = {
        **KERNEL, "input_shapes": "((2, 1, 6, 6, 8), (5,), (2, 1, 6, 6, 4))", "input_formats": "", "output_formats": "",
        "attributes": "{'filter_size': [0, 0, 0, 0, 0], 'pads': [0, 0, 1, 1, 1, 1]}",
        "output_shapes": "((4, 1, 3, 3, 8),)",
    }  # fmt: skip
    assert line_of(tmp_path, last).startswith("conv n2 c8>4 i1x6x6 k1x3x3 s1 p0x1x1")
    listed = {**END_TO_END, "output_tensor_indexes": "(3, 4, 5)", "tensor_view_shapes":
              "((2, 4, 6, 6), (2, 8, 6, 6), (4, 8, 3, 3), (2, 8, 6, 6), (4, 8, 3, 3), (4,))"}  # fmt: skip
    assert line_of(tmp_path, listed) == line_of(tmp_path, END_TO_END)
    assert main(["golden", str(table(tmp_path / "x.csv", listed)), "-o", str(tmp_path / "g"), "--layout", "ttk"]) == 0
    assert (tmp_path / "g" / "e" / "input_5_float32.bin").read_bytes() == bytes(16)
    assert line_of(tmp_path, OPERATOR, tensor_formats="('NCL',)") == line_of(tmp_path, OPERATOR)
    rows = (OPERATOR, {**OPERATOR, "tensor_dtypes": "bf16"}, {**OPERATOR, "testcase_name": "b"})
    twice = table(tmp_path / "x.csv", *rows)
    assert [(c.name, c.request.input.dtype) for c in files.read(twice)] == [("a", "float16"), ("b", "float16")]
    assert "1 case under a name met before" in capsys.readouterr().err
    ranges = "((0, 1, inf, nan), (nan, nan), (-inf, -inf))"
    (case,) = files.read(table(tmp_path / "x.csv", {**OPERATOR, "input_data_ranges": ranges}))
    assert case.fill_words == "uniform:0:1:inf:nan,constant:nan,constant:-inf"
    drawn = case.tensors(3).grad_output.astype(np.float64)
    assert np.isinf(drawn).sum() == 1 and np.isnan(drawn).sum() == 1 and drawn.size == 48
    files.write(tmp_path / "again.csv", [case])
    assert files.read(tmp_path / "again.csv")[0].fill_words == case.fill_words
    assert str(values.parse("constant:-0.0")) == "constant:-0.0"
