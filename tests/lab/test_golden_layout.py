"""Golden data in the layout a test kit replays: a strict reader, written from the kit's rules alone, accepts them."""

import hashlib
import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from convgrad.cli.command_line import main
from convgrad.lab.golden.layouts import kit_directory_name

WORDS = {"float16": 2, "float32": 4, "float64": 8, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "hifloat8": 1}
CUSTOM = {"bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8"}
NAME = re.compile(r"^(input|scalar|golden)_(0|[1-9]\d*)_([a-z0-9_]+?)(?:__shape_(scalar|\d+(?:x\d+)*))?\.(bin|npy|pt)$")


class Rejected(Exception):
    """The kit would not replay this."""


def strict_read(directory: Path, inputs, outputs):
    """The slots of a case's directory by role; `inputs` and `outputs` are the shapes the case file tells."""
    found = {"input": {}, "scalar": {}, "golden": {}}
    if not directory.is_dir():  # data are found by the case's name
        raise Rejected(directory.name)
    for path in directory.iterdir():
        match = NAME.match(path.name)
        if match is None or not path.is_file() or path.is_symlink():
            raise Rejected(path.name)
        role, number, word, shape, extension = match.groups()
        if word != "none" and word not in WORDS:
            raise Rejected(word)
        if (shape is not None) != (role == "golden" and extension == "bin" and word != "none"):
            raise Rejected(f"shape of {path.name}")
        told = None if shape is None else () if shape == "scalar" else tuple(map(int, shape.split("x")))
        found[role][int(number)] = (path, word, told, extension)
    read = {}
    for role, shapes in (("input", inputs), ("golden", outputs)):
        if sorted(found[role]) != list(range(len(shapes))):
            raise Rejected(f"{role} slots {sorted(found[role])}")
        read[role] = [load(*found[role][i], shapes[i], role) for i in range(len(shapes))]
    if found["scalar"]:
        raise Rejected("scalar")
    return read


def load(path, word, told, extension, shape, role):
    if word == "none":
        if path.stat().st_size:
            raise Rejected("a none file with bytes")
        return None
    if role == "golden" and extension == "bin" and told != shape:
        raise Rejected(f"{told} is not {shape}")
    if extension == "bin":
        raw = path.read_bytes()
    elif extension == "npy":
        array = np.load(path, allow_pickle=False)
        if array.shape != shape or array.dtype != (f"V{WORDS[word]}" if word in CUSTOM else word):
            raise Rejected(f"{path.name}: {array.dtype} {array.shape}")
        raw = array.tobytes()
    else:
        held = torch.load(path, weights_only=True)
        if isinstance(held, dict):
            if set(held) != {"ttk_raw_bytes", "ttk_shape"} or tuple(held["ttk_shape"]) != shape or hasattr(torch, word):
                raise Rejected(path.name)
            raw = held["ttk_raw_bytes"].numpy().tobytes()
        else:
            if tuple(held.shape) != shape or held.dtype != getattr(torch, word):
                raise Rejected(path.name)
            raw = held.contiguous().view(torch.uint8).numpy().tobytes() if held.ndim else b""
    if len(raw) != WORDS[word] * int(np.prod(shape)):
        raise Rejected(f"{len(raw)} bytes")
    return word, raw


def written(tmp_path, line, *options, name="a_case"):
    (tmp_path / "cases.txt").write_text(f"{line}  # {name}\n", "utf-8")
    assert main(["golden", str(tmp_path / "cases.txt"), "-o", str(tmp_path / "data"), "--layout", "ttk", *options]) == 0
    return tmp_path / "data" / kit_directory_name(name)


@pytest.mark.parametrize(("name", "directory"), [
    ("a b", "a_b-c8687a08aa5d"), ("_x", "x-a01e47cb4cec"), ("x" * 130, "x" * 96 + "-3afbb132863c"),
    ("卷积", "case-37366144a1b6"), ("a..", "a-aed2eb3f4f4a"), ("plain_name.1-2", "plain_name.1-2"),
])  # fmt: skip
def test_directories_of_cases(name, directory):
    """The name where a file system takes it, else a readable part and twelve digits of its hash."""
    assert kit_directory_name(name) == directory
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._") or "case"
    same = safe == name and len(safe) <= 120
    assert directory == (safe if same else f"{safe[:96]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}")


@pytest.mark.parametrize("extension", ["bin", "npy", "pt"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "hif8", "fp8_e4m3fn"])
def test_the_strict_reader_accepts_every_format_and_dtype(tmp_path, extension, dtype):
    """All outputs in their slots, a zero-byte file for the masked one, the same bytes in every format."""
    place = written(tmp_path, f"conv n2 c3>4 i5x6 k3x3 {dtype} want=xb", "--format", extension)
    shapes = ((2, 4, 3, 4), (2, 3, 5, 6), (4, 3, 3, 3)), ((2, 3, 5, 6), (4, 3, 3, 3), (4,))
    read = strict_read(place, *shapes)
    assert read["golden"][1] is None and read["golden"][0] and read["golden"][2]
    (tmp_path / "other").mkdir()
    other = strict_read(written(tmp_path / "other", f"conv n2 c3>4 i5x6 k3x3 {dtype} want=xb"), *shapes)
    assert read == other


def test_an_empty_result_and_a_wide_one(tmp_path):
    """No elements: no bytes, its dtype and shape told; float64 goldens are wider than the output, as a kit allows."""
    place = written(tmp_path, "conv n0 c2>2 i4 k1 fp16", "--wide")
    read = strict_read(place, ((0, 2, 4), (0, 2, 4), (2, 2, 1)), ((0, 2, 4), (2, 2, 1), (2,)))
    assert read["golden"][0] == ("float64", b"") and (place / "golden_0_float64__shape_0x2x4.bin").exists()


def test_an_empty_tensor_is_viewed_as_bytes(tmp_path):
    """A .pt file without elements: its strides are those of its shape, so that a kit's view as bytes is taken."""
    place = written(tmp_path, "conv n0 c2>2 i4 k1 fp32", "--format", "pt")
    read = strict_read(place, ((0, 2, 4), (0, 2, 4), (2, 2, 1)), ((0, 2, 4), (2, 2, 1), (2,)))
    assert read["golden"][0] == ("float32", b"") and read["input"][1] == ("float32", b"")


def test_our_own_layout_is_none_the_kit_replays(tmp_path):
    """Numbers before the name, a masked output left out, bfloat16 as unsigned numbers: each is another's data to it."""
    place = written(tmp_path, "conv n1 c2>2 i4 k1 bf16 want=xb")
    assert main(["golden", str(tmp_path / "cases.txt"), "-o", str(tmp_path / "own")]) == 0
    (own,) = (p for p in (tmp_path / "own").iterdir() if p.is_dir())
    shapes = ((1, 2, 4), (1, 2, 4), (2, 2, 1)), ((1, 2, 4), (2, 2, 1), (2,))
    for directory in (tmp_path / "own" / place.name, own):
        with pytest.raises(Rejected):
            strict_read(directory, *shapes)
    assert own.name != place.name and strict_read(place, *shapes)


def test_tbc_has_four_inputs(tmp_path):
    """gradOutput, input, weight, bias; the bias counts by its shape."""
    place = written(tmp_path, "tbc n2 c3>4 i8 k3 p1 fp32")
    assert len(strict_read(place, ((8, 2, 4), (8, 2, 3), (3, 3, 4), (4,)), ((8, 2, 3), (3, 3, 4), (4,)))["input"]) == 4


@pytest.mark.parametrize("spoil", [
    lambda d: (d / "golden_0_float32__shape_1x2x4.bin").rename(d / "golden_0_float32.bin"),
    lambda d: (d / "manifest.json").write_text("{}"),
    lambda d: (d / "golden_2_float32__shape_2.bin").rename(d / "golden_3_float32__shape_2.bin"),
    lambda d: (d / "golden_1_none.bin").unlink(),
    lambda d: (d / "golden_2_float32__shape_2.bin").write_bytes(b"123"),
    lambda d: (d / "sub").mkdir(),
    lambda d: (d / "golden_2_float32__shape_2.bin").rename(d / "golden_1_none.bin"),
    lambda d: (d / "golden_00_float32__shape_1x2x4.bin").symlink_to(d / "golden_0_float32__shape_1x2x4.bin"),
    lambda d: d.rename(d.with_name(f"000000_{d.name}")),
])  # fmt: skip
def test_the_strict_reader_rejects_what_a_kit_rejects(tmp_path, spoil):
    """A missing shape, a side file, a wrong number, a left-out slot, a wrong size, a sub-directory, slots counted anew
    without the masked one, a leading zero, a link, a number before the case's name."""
    place = written(tmp_path, "conv n1 c2>2 i4 k1 fp32 want=xb")
    shapes = ((1, 2, 4), (1, 2, 4), (2, 2, 1)), ((1, 2, 4), (2, 2, 1), (2,))
    strict_read(place, *shapes)
    spoil(place)
    with pytest.raises(Rejected):
        strict_read(place, *shapes)


def test_the_strict_reader_rejects_unsigned_codes(tmp_path):
    """Our own layout keeps bfloat16 as unsigned numbers; the kit's has raw bytes."""
    place = written(tmp_path, "conv n1 c2>2 i4 k1 bf16", "--format", "npy")
    path = place / "golden_0_bfloat16.npy"
    np.save(path, np.load(path).view(np.uint16))
    with pytest.raises(Rejected):
        strict_read(place, ((1, 2, 4), (1, 2, 4), (2, 2, 1)), ((1, 2, 4), (2, 2, 1), (2,)))


def test_manifest_and_checksums_are_beside_the_directory(tmp_path):
    """Nothing but case directories inside; the sums are those of the files; a second run is refused."""
    written(tmp_path, "conv n1 c2>2 i4 k1 bf16 want=xw")
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["a_case"]
    manifest = json.loads((tmp_path / "data.manifest.json").read_text("utf-8"))
    assert [f["file"] for f in manifest["cases"][0]["files"]][-1] == "golden_2_none.bin"
    for line in (tmp_path / "data.SHA256SUMS").read_text("utf-8").splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "data" / name).read_bytes()).hexdigest() == digest
    command = ["golden", str(tmp_path / "cases.txt"), "-o", str(tmp_path / "data"), "--layout", "ttk"]
    assert main(command) == 2


def test_names_are_unique_in_the_kits_layout(tmp_path, capsys):
    """Two cases of one name would share a directory: refused before anything is written."""
    (tmp_path / "cases.txt").write_text("conv n1 c1>1 i4 k1  # same\nconv n1 c1>1 i5 k1  # same\n", "utf-8")
    assert main(["golden", str(tmp_path / "cases.txt"), "-o", str(tmp_path / "data"), "--layout", "ttk"]) == 2
    assert "finds data by name" in capsys.readouterr().err and not list((tmp_path / "data").iterdir())
    assert main(["golden", str(tmp_path / "cases.txt"), "-o", str(tmp_path / "own"), "--format", "pt"]) == 2


@pytest.mark.parametrize("extension", ["bin", "npy", "pt"])
def test_compare_reads_the_kits_layout(tmp_path, capsys, extension):
    """Against a directory with its manifest (float64 reference), and without (files as they are); an error shows."""
    place = written(tmp_path, "conv n2 c3>4 i5x6 k3x3 bf16 want=xb on=A2", "--format", extension)
    device = tmp_path / "device" / place.name
    device.mkdir(parents=True)
    for path in place.glob("golden_*"):
        (device / path.name.replace("golden", "output")).write_bytes(path.read_bytes())
    assert main(["compare", str(tmp_path / "device"), str(tmp_path / "data")]) == 0
    assert "2 results: 2 pass" in capsys.readouterr().out
    (tmp_path / "data.manifest.json").rename(tmp_path / "elsewhere.json")
    assert main(["compare", str(tmp_path / "device"), str(tmp_path / "data"), "--standard", "exact"]) == 0
    if extension == "bin":
        (wrong,) = device.glob("output_2_*")
        array = np.fromfile(wrong, ml_dtypes.bfloat16)
        array[0] += 64
        array.tofile(wrong)
        assert main(["compare", str(tmp_path / "device"), str(tmp_path / "data")]) == 1


@pytest.mark.filterwarnings("error")
def test_a_signalling_nan_is_a_failure_and_nothing_else(tmp_path, capsys):
    """One bit of a float16 file flipped: the NaN is counted, on either route, and NumPy has nothing to remark."""
    place = written(tmp_path, "conv n1 c4>4 i9 k3 fp16 want=b on=A2")
    device = tmp_path / "device" / place.name
    device.mkdir(parents=True)
    (golden,) = place.glob("golden_2_*")
    codes = np.fromfile(golden, np.uint16)
    codes[0] = 0x7D01
    codes.tofile(device / golden.name)
    for _ in ("float64 sums", "files as they are"):
        assert main(["compare", str(tmp_path / "device"), str(tmp_path / "data")]) == 1
        assert "nan_mismatches 1" in capsys.readouterr().out
        (tmp_path / "data.manifest.json").unlink(missing_ok=True)


@pytest.mark.parametrize("told", ["9999999999999999999999x9", "2x5", "1x2x4x0", "scalar"])
def test_a_name_that_tells_another_count_is_refused(tmp_path, capsys, told):
    """On either side, of two files or two directories: the shape in a raw file's name is held to what it holds."""
    place = written(tmp_path, "conv n1 c2>2 i4 k1 fp32 want=x")
    right, wrong = place / "golden_0_float32__shape_1x2x4.bin", tmp_path / "d" / place.name
    wrong.mkdir(parents=True)
    liar = wrong / f"golden_0_float32__shape_{told}.bin"
    liar.write_bytes(right.read_bytes())
    for words in ((liar, right), (right, liar), (tmp_path / "d", tmp_path / "data")):
        assert main(["compare", *map(str, words)]) == 2
        assert "holds 8 elements, the shape" in capsys.readouterr().err


def test_a_pt_file_that_runs_code_is_refused(tmp_path, capsys):
    """Nothing of a pickle is executed, and what holds no tensor is said so."""
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "trapped",))

    torch.save(Trap(), tmp_path / "golden_0_float32.pt")
    torch.save([1, 2], tmp_path / "output_0_float32.pt")
    for name in ("golden_0_float32.pt", "output_0_float32.pt"):
        np.save(tmp_path / "x.npy", np.zeros(2, np.float32))
        assert main(["compare", str(tmp_path / "x.npy"), str(tmp_path / name)]) == 2
    assert not (tmp_path / "trapped").exists()
    assert "without running code" in capsys.readouterr().err
