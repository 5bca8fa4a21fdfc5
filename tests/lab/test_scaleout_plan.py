"""The planning page: what it counts is what the graph has; what it prints can be read."""

import json

import dask.array as da
import pytest

import convgrad.dask
from convgrad import Request, plan
from convgrad.cli.command_line import main
from convgrad.core.partition import Limits
from convgrad.lab.scaleout import measured_rate, parse_bytes, scale_out
from convgrad.text.terminal import ExitCode
from dask_problems import limits

LINES = (
    "conv n6 c4>6 i12x10 k3x3 s2 p1 g2",
    "conv n1 c4>4 i32x32 k5x5 p2",
    "tconv n2 c4>3 i16x16 k3x3 s2 p1 want=xw",
    "conv n3 c6>8 i9x9 k3x3 want=w",
    "conv n7 c4>6 i6x5 k3x3 s2 p1 g2 det=3",
    "tconv n5 c4>3 i4x4 k3x3 s2 p1 want=xw det=3",
)


@pytest.mark.parametrize("line", LINES)
def test_tasks_and_bytes_are_those_of_the_graph(line):
    """Counts come from the cuts alone; the graph that dask would run has exactly as many tasks."""
    request = Request.parse(line)
    with limits(Limits(1500, 200, 4000)):
        counted = scale_out(plan(request), workers=2)
        chunks = convgrad.dask.chunks(request)
        operands = [
            da.ones(getattr(request, n).shape, chunks=chunks[n], dtype="f4") for n in ("grad_output", "input", "weight")
        ]
        gradients = convgrad.dask.conv_backward(
            *operands, stride=request.stride, padding=request.padding, transposed=request.transposed,
            groups=request.groups, output_mask=request.output_mask, deterministic=request.deterministic,
        )
    keys = {}
    for gradient in gradients:
        if gradient is not None:
            for key in gradient.__dask_graph__():
                name = key[0] if isinstance(key, tuple) else key
                keys.setdefault(name.rsplit("-", 1)[0], set()).add(key)
    made = {name: len(found) for name, found in keys.items()}
    engine = made["convgrad-grad_weight-leaf"] + made.get("convgrad-grad_input", 0)
    halos = sum(count for name, count in made.items() if name.endswith("-halo"))
    assert counted.engine_tasks == engine
    assert counted.blocks["weight"] == made["convgrad-grad_weight"]
    sums = made.get("convgrad-grad_weight-sum", 0)
    assert (counted.leaves - 1) * counted.blocks["weight"] == sums
    ones = sum(counted.blocks.values())
    bias = counted.blocks["grad_output"] * 2 if gradients.bias is not None else 0
    assert counted.tasks == engine + halos + sums + bias + ones


def test_one_worker_moves_nothing_and_more_workers_gain():
    """Efficiency falls slowly with workers while blocks last; time falls; one worker has nobody to send to."""
    made = plan(Request.parse("conv n512 c64>64 i224x224 k3x3 p1"))
    one, two, many = (scale_out(made, workers) for workers in (1, 2, 64))
    assert sum(one.bytes_moved.values()) == 0 < sum(two.bytes_moved.values())
    assert 1 >= one.efficiency >= two.efficiency >= many.efficiency > 0.5
    assert one.expected_seconds > two.expected_seconds > many.expected_seconds
    assert one.depth == two.depth == many.depth == 8


def test_the_memory_of_level_3():
    """Workers hold nodes of the tree too: what the engine asks for a task's block is within what the page counts."""
    for line, nodes in (("conv n64 c64>64 i224x224 k3x3 p1", 2), ("conv n8 c512>512 i7x7 k3x3 p1", 4)):
        usual, tree = (scale_out(plan(Request.parse(line + level)), 4).memory for level in ("", " det=3"))
        assert usual.nodes == 0 and tree.nodes >= nodes * tree.partial
        assert tree.total - tree.nodes == usual.total
    line = "conv n8 c512>512 i7x7 k3x3 p1 want=w"
    engine = [plan(Request.parse(line + level)).workspace_bytes for level in ("", " det=3")]
    assert engine[1] - engine[0] <= tree.nodes


def test_more_workers_than_blocks():
    """Idle cores are the first thing the page names."""
    few = scale_out(plan(Request.parse("conv n8 c256>256 i112x112 k3x3 p1")), 1000, bandwidth=1e12)
    assert few.limited_by == "compute" and few.efficiency < 0.1


def test_the_page(capsys):
    """Blocks, halo, bytes, depth, memory and efficiency of a problem on 64 workers."""
    assert main(["plan", "conv n64 c64>64 i224x224 k3x3 p1", "--workers", "64", "--memory", "32GB"]) == ExitCode.PASS
    told = capsys.readouterr().out
    for part in (
        "on 64 workers of 1 thread and 32 GB each", "32 blocks of up to 2x64x224x224", "halo          0.0 %",
        "moved         at most 836 MB", "32 leaves in pairs of float32, depth 5", "which fits", "efficiency    0.8",
    ):  # fmt: skip
        assert part in told


def test_the_page_as_json_and_with_too_little_memory(capsys):
    """Machines read the same numbers; a worker too small is told."""
    words = ["plan", "conv n64 c64>64 i224x224 k3x3 p1", "--workers", "2", "--memory", "300MB"]
    main(words)
    assert "MORE than 300 MB" in capsys.readouterr().out
    main([*words, "--json"])
    (read,) = json.loads(capsys.readouterr().out)
    assert read["fits"] is False and read["leaves"] == 32 and read["memory"]["total"] > 300e6


def test_refused_problems_have_no_page(capsys):
    """The contract comes first."""
    assert main(["plan", "conv n1 c4>4 i4x4 k3x3 s0", "--workers", "2"]) == ExitCode.REFUSED
    captured = capsys.readouterr()
    assert not captured.out and "161002" in captured.err


@pytest.mark.parametrize(("text", "size"), [("32GB", 32 * 10**9), ("1.5GiB", 3 * 2**29), ("4 mb", 4 * 10**6), ("7", 7)])
def test_sizes(text, size):
    """Decimal and binary units."""
    assert parse_bytes(text) == size


@pytest.mark.parametrize("wrong", [["--memory", "lots"], ["--workers", "0"], ["--rate", "nan"], ["--threads", "-1"]])
def test_wrong_options(wrong, capsys):
    """One line that names the option; exit code 2."""
    assert main(["plan", "conv n1 c4>4 i4x4 k3x3", "--workers", "2", *wrong]) == ExitCode.USAGE
    assert wrong[0] in capsys.readouterr().err


def test_a_rate_can_be_measured():
    """The rate of this machine is a positive number; without a weight gradient there is nothing to measure with."""
    assert measured_rate(plan(Request.parse("conv n2 c8>8 i14x14 k3x3 p1"))) > 0
    with pytest.raises(ValueError, match="--measure"):
        measured_rate(plan(Request.parse("conv n2 c8>8 i14x14 k3x3 p1 want=x")))
