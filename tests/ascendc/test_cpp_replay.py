"""The trace of a C++ kernel through the Python model: the same findings, walks and bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_cpp_kernels import MISTAKES, MISTAKES_OF_ZEROING, PLAIN, ZEROED

from convgrad.ascendc.replay import Replay, Told, read_trace
from kernel_programs import filter_record, input_record, program, run_filter, run_input
from tile_problems import forced_small_filter_tiles, forced_small_tiles, random_problem

CPP_ALONE = ("gm.unknown", "gm.freed", "gm.free", "gm.size", "sync.", "role.", "store.", "object.", "launch.", "note.",
             "kernel.", "memory.", "product.")  # fmt: skip
"""Rules that the Python model does not have."""


def shared(told: list[Told]) -> list[Told]:
    """Findings of rules that both languages have."""
    return [one for one in told if not one.rule.startswith(CPP_ALONE)]


def replayed(trace: Path, contents: dict[str, bytes] | None = None) -> Replay:
    """The only launch of a trace; the model must find what the program found, letter for letter."""
    (launch,) = read_trace(trace)
    replay = Replay(launch, contents)
    assert [one for one in replay.findings if "reduction." not in one.rule] == shared(launch.findings)
    return replay


@pytest.mark.parametrize("mistake", [*MISTAKES, *MISTAKES_OF_ZEROING])
def test_replay_finds_what_the_program_found(mistake: str, tmp_path: Path) -> None:
    """Every mistake an author makes: rule, words, core, count and line are those of the C++ run."""
    binary = program("documented_input.cpp", "-DNUMBER=half", "-DWITH_MISTAKES")
    problem = ZEROED if mistake in MISTAKES_OF_ZEROING else PLAIN
    record = input_record(problem)
    record = record if problem is ZEROED else forced_small_tiles(record, 3)
    trace = tmp_path / "trace.jsonl"
    cores = 1 if mistake == "first_iter" else 2
    ran = run_input(binary, problem, record, cores, tmp_path, MISTAKE=mistake, CONVGRAD_TILE_TRACE=str(trace))
    assert ran.stderr
    replayed(trace)


def test_replay_of_right_kernels_has_their_bits(tmp_path: Path) -> None:
    """Real numbers, both objects, several cores: the model's memory holds the very bytes that the C++ kernel wrote."""
    rng = np.random.default_rng(8)
    for seed in range(6):
        problem = random_problem(seed)
        grad_output, weight, input = (rng.normal(size=one.shape).astype(np.float16) for one in problem.arrays())
        trace = tmp_path / "trace.jsonl"
        record = forced_small_tiles(input_record(problem), seed)
        ran = run_input(program("documented_input.cpp", "-DNUMBER=half"), problem, record, 1 + seed, tmp_path,
                        operands=(grad_output, weight), CONVGRAD_TILE_TRACE=str(trace))  # fmt: skip
        files = [(tmp_path / f"operand{number}.bin").read_bytes() for number in range(3)]
        replay = replayed(trace, dict(zip(("tiling", "weight", "gradOutput"), files, strict=True)))
        assert ran.code == 0 and not replay.findings and len(replay.walks) > 0
        result = next(number for number, region in replay.launch.regions.items() if region.name == "gradInput")
        written = replay.memory[result].view(np.float16)
        assert np.array_equal(written.view(np.uint16), ran.result.reshape(-1).view(np.uint16)), seed

        record = forced_small_filter_tiles(filter_record(problem), seed)[0]
        ran = run_filter(program("documented_filter.cpp", "-DNUMBER=half"), problem, record, 1 + seed, tmp_path,
                         operands=(input, grad_output), CONVGRAD_TILE_TRACE=str(trace))  # fmt: skip
        files = [(tmp_path / f"operand{number}.bin").read_bytes() for number in range(3)]
        replay = replayed(trace, dict(zip(("tiling", "input", "gradOutput"), files, strict=True)))
        assert ran.code == 0 and not replay.findings
        result = next(number for number, region in replay.launch.regions.items() if region.name == "gradWeight")
        assert replay.memory[result].view(np.float32).tobytes() == ran.result.tobytes(), seed


def test_replay_of_several_planes_a_walk(tmp_path: Path) -> None:
    """The older spelling: planes of a walk and columns that run on are in the trace; the model walks and sums alike."""
    rng, most, ran_on = np.random.default_rng(9), 0, 0
    for seed in range(8):
        problem = random_problem(seed)
        grad_output, weight, input = (rng.normal(size=one.shape).astype(np.float16) for one in problem.arrays())
        trace = tmp_path / "trace.jsonl"
        record = forced_small_tiles(input_record(problem), seed)
        ran = run_input(program("operator_input.cpp", "-DNUMBER=half"), problem, record, 1 + seed, tmp_path,
                        operands=(grad_output, weight), CONVGRAD_TILE_TRACE=str(trace))  # fmt: skip
        files = [(tmp_path / f"operand{number}.bin").read_bytes() for number in range(3)]
        replay = replayed(trace, dict(zip(("tiling", "weight", "gradOutput"), files, strict=True)))
        assert ran.code == 0 and not replay.findings
        most = max([most, *(walk.planes for walk in replay.walks)])
        assert len(replay.blocks()) == sum(walk.planes for walk in replay.walks)
        result = next(number for number, region in replay.launch.regions.items() if region.name == "gradInput")
        assert replay.memory[result].tobytes() == ran.result.tobytes(), seed

        sums = forced_small_filter_tiles(filter_record(problem), seed)[0]
        ran = run_filter(program("operator_filter.cpp", "-DNUMBER=half"), problem, sums, 1 + seed, tmp_path,
                         operands=(input, grad_output), CONVGRAD_TILE_TRACE=str(trace))  # fmt: skip
        files = [(tmp_path / f"operand{number}.bin").read_bytes() for number in range(3)]
        replay = replayed(trace, dict(zip(("tiling", "input", "gradOutput"), files, strict=True)))
        assert ran.code == 0 and not replay.findings
        per_plane = sums.cin1 * 16 * sums.hk * sums.wk
        ran_on += any(walk.shape[1] > per_plane for walk in replay.walks)
        columns = sum(walk.shape[1] for walk in replay.walks)
        blocks = replay.blocks()
        assert max(block.N for block in blocks) <= per_plane and sum(block.N for block in blocks) == columns
        result = next(number for number, region in replay.launch.regions.items() if region.name == "gradWeight")
        assert replay.memory[result].view(np.float32).tobytes() == ran.result.tobytes(), seed
    assert most == 2 and ran_on > 1
