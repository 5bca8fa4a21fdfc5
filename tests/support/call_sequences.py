"""`make parity`: random call sequences through the C++ objects and through the Python model, answers compared.

Right sequences with mistakes thrown in: calls left out, repeated, exchanged; offsets off by an element, a row, a block,
a plane; shapes and start rows off; records with a field changed; flags set at any time. Equal must be: every answer of
Iterate with its tile, every finding letter for letter, and the bytes of the result. SEQUENCES says how many.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np

from convgrad.ascendc import GlobalTensor, TileKernelError, filter_blocks, flat_blocks, tiling_to_bytes
from convgrad.ascendc.device.call_order import State
from convgrad.ascendc.device.conv_type import bfloat16_t, half
from convgrad.ascendc.device.global_tensor import GlobalMemory
from convgrad.ascendc.filter import coverage as filter_coverage
from convgrad.ascendc.filter.kernel import Conv3DBackpropFilter
from convgrad.ascendc.filter.simulate import filter_types
from convgrad.ascendc.input import coverage as input_coverage
from convgrad.ascendc.input.kernel import Conv3DBackpropInput
from convgrad.ascendc.input.simulate import input_types
from convgrad.ascendc.replay import spoken
from convgrad.ascendc.shared.coverage import Findings, Ledger
from convgrad.ascendc.shared.tiling_record import LIMITS
from kernel_programs import filter_record, input_record, program
from tile_problems import forced_small_filter_tiles, forced_small_tiles, random_problem

Call = tuple[str, int, int, int]
RECORDS = 120
BATCH = 500
NOT_IN_PYTHON = ("object.unended",)


@dataclass(frozen=True)
class CallSequence:
    """One object, its record, the sizes of its tensors, and the calls."""

    kind: int
    number: int
    record: Any
    sizes: tuple[int, int, int]
    seed: int
    calls: tuple[Call, ...]

    def __str__(self) -> str:
        calls = " ".join(f"{letter} {a} {b} {c}" for letter, a, b, c in self.calls)
        sizes = " ".join(map(str, self.sizes))
        content = tiling_to_bytes(self.record).hex()
        return f"S {self.kind} {self.number} {content} {sizes} {self.seed} {len(self.calls)} {calls}"


@cache
def record(kind: int, seed: int) -> tuple[Any, tuple[Any, ...]]:
    """A record in small tiles and the blocks it is walked in."""
    problem = random_problem(seed, transposed=kind == 0 and seed % 4 == 3)
    if kind == 0:
        t = forced_small_tiles(input_record(problem), seed)
        return t, tuple(flat_blocks(t, 3))
    t, block = forced_small_filter_tiles(filter_record(problem), seed)
    return t, tuple(filter_blocks(t, block, 3))


def right_calls(kind: int, t: Any, blocks: list[Any]) -> list[Call]:
    """The documented sequence of some blocks."""
    calls: list[Call] = [("I", 0, 0, 0)]
    for block in blocks:
        shape = (block.M, block.K, block.N) if kind == 0 else (block.M, block.N, block.K)
        start = (block.plane, block.ho_start, 0) if kind == 0 else (block.ho_start, 0, 0)
        calls += [("H", *shape), ("P", *start), ("G", block.offset_a, 0, 0), ("O", block.offset_b, 0, 0)]
        tiles = -(-block.M // t.baseM) * -(-block.N // t.baseN)
        for _ in range(min(tiles, 4)):
            calls += [("T", 0, 0, 0), ("C", block.offset_c, kind, 0)]
        calls += [("T", 0, 0, 0), ("F", 1, 0, 0)]
    return [*calls, ("E", 0, 0, 0)]


def with_mistakes(kind: int, t: Any, calls: list[Call], draw: random.Random) -> list[Call]:
    """The calls with some of them wrong."""
    row_out, row_in = t.wo * t.c0, t.wi * t.c0
    steps = [1, 16, row_out, row_in, t.ho * row_out, t.hi * row_in, t.cout1 * t.ho * row_out, t.cin1 * t.hi * row_in,
             256, t.window_area * t.weight_cout * 16, 1 << 40]  # fmt: skip
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        at = draw.randrange(len(calls))
        letter, one, two, three = calls[at]
        what = draw.randrange(8)
        if what == 0:
            del calls[at : at + draw.choice((1, 1, 2))]
        elif what == 1:
            calls.insert(at, calls[draw.randrange(len(calls))])
        elif what == 2 and at + 1 < len(calls):
            calls[at], calls[at + 1] = calls[at + 1], calls[at]
        elif what == 3:
            calls.insert(at, ("F", draw.randrange(2), 0, 0))
        elif letter in "GOC":
            moved = one + draw.choice((-1, 1)) * draw.choice(steps) * draw.choice((1, 1, 2))
            atomic = draw.choice((two, two, 0, 1, 2)) if letter == "C" else 0
            calls[at] = (letter, moved, atomic, int(letter == "C" and draw.random() < 0.1))
        elif letter == "H":
            numbers = [one, two, three]
            if draw.random() < 0.3:
                draw.shuffle(numbers)
            else:
                which = draw.randrange(3)
                change = draw.choice((-numbers[which], 1, -1, t.wi, t.wo, 16, -16, numbers[which], 1 << 20))
                numbers[which] = max(0, numbers[which] + change)
            calls[at] = (letter, *numbers)
        elif letter == "P" and kind == 0:
            calls[at] = (letter, max(0, one + draw.choice((-1, 0, 1))), two + draw.choice((-1, 1, t.backpropPadUp)), 0)
        elif letter == "P":
            calls[at] = (letter, max(0, one + draw.choice((-1, 1, 2))), 0, 0)
        if not calls:
            break
    return calls


def broken_record(t: Any, draw: random.Random) -> Any:
    """A record with one field changed."""
    one = draw.choice(fields(t))
    low, high = LIMITS[one.metadata["kind"]]
    value = getattr(t, one.name)
    changed = draw.choice((0, 1, value + 1, value - 1, 2 * value, value + 16, high, low, draw.randint(0, 40)))
    return replace(t, **{one.name: min(high, max(low, changed))})


def sequences(count: int, seed: int = 0) -> Iterator[CallSequence]:
    """So many sequences; the same seed, the same ones."""
    draw = random.Random(seed)
    for number in range(count):
        kind = draw.randrange(2)
        t, blocks = record(kind, draw.randrange(min(RECORDS, 8 + count // 20)))
        if not blocks:
            continue
        chosen = draw.sample(blocks, min(len(blocks), draw.choice((1, 1, 2))))
        calls = with_mistakes(kind, t, right_calls(kind, t, chosen), draw)
        sizes = [t.grad_output_size, t.weight_size if kind == 0 else t.input_size,
                 t.grad_input_size if kind == 0 else t.grad_weight_size]  # fmt: skip
        if draw.random() < 0.05:
            sizes[draw.randrange(3)] += draw.choice((-16, 16))
        own = broken_record(t, draw) if draw.random() < 0.15 else t
        yield CallSequence(kind, draw.randrange(2), own, (sizes[0], sizes[1], sizes[2]), number, tuple(calls))


def values(count: int, seed: int, storage: np.dtype[Any]) -> np.ndarray:
    """What the C++ program fills a tensor with."""
    mixed = (np.arange(count, dtype=np.uint64) * 2654435761 + seed * 40503).astype(np.uint32) >> 16
    return ((mixed % 41).astype(np.float32) / np.float32(16) - np.float32(1.25)).astype(storage)


def model_answers(sequence: CallSequence) -> list[str]:
    """What the Python model says to a sequence."""
    code = (half, bfloat16_t)[sequence.number]
    types = input_types(code) if sequence.kind == 0 else filter_types(code)
    t, said = sequence.record, []
    ledger = Ledger(sequence.sizes[2])
    findings = Findings(ledger, str)
    names = "gradOutput", "other", "result"  # as the launch names them; a tensor takes its own name by its first use
    arrays = [values(sequence.sizes[at], sequence.seed + at, types[0].storage) for at in range(2)]
    zeroed = sequence.seed % 2 == 0
    stands = np.full(sequence.sizes[2] * types[3].storage.itemsize, 0 if zeroed else 0x3C, np.uint8)
    arrays.append(stands.view(types[3].storage))
    memories = [GlobalMemory(array, name) for array, name in zip(arrays, names, strict=True)]
    memories[2].watcher = ledger
    ledger.zeroed_before = sequence.sizes[2] if zeroed else 0
    grad_output, other, result = (GlobalTensor(memory) for memory in memories)
    parts: list[Any] = []
    kernel: Any = (
        Conv3DBackpropInput(*types, report=findings.refused)
        if sequence.kind == 0
        else Conv3DBackpropFilter(*types, report=findings.refused, taken=parts.append)
    )
    judged = False
    try:
        for letter, one, two, three in sequence.calls:
            if letter == "I":
                kernel.Init(t)
            elif letter == "H":
                kernel.SetSingleShape(one, two, three)
            elif letter == "P":
                kernel.SetStartPosition(one, two) if sequence.kind == 0 else kernel.SetStartPosition(one)
            elif letter == "G":
                kernel.SetGradOutput(grad_output[one])
            elif letter == "O":
                (kernel.SetWeight if sequence.kind == 0 else kernel.SetInput)(other[one])
                memories[1].name = "weight" if sequence.kind == 0 else "input"
            elif letter == "T":
                more = kernel.Iterate()
                tile = kernel.tile
                plane = getattr(tile, "plane", 0)
                said.append(f"T {tile.i} {tile.j} {plane} {tile.m_length} {tile.n_length}" if more else "T end")
            elif letter == "C":
                if kernel._life.state is State.TILE_WAITING and two in (0, 1) and not three:
                    judged, memories[2].name = True, "gradInput" if sequence.kind == 0 else "gradWeight"
                kernel.GetTensorC(result[one], two, bool(three))
            elif letter == "F":
                kernel.ctx.isFirstIter_ = bool(one)
            else:
                kernel.End()
        said.append("whole")
    except TileKernelError as error:
        findings.refused(error)
    if judged:
        judge(sequence, ledger, findings)
    said += [f"found {spoken(str(one))}" for one in findings.in_order() if not one.rule.startswith("reduction.")]
    words = arrays[2].view(np.uint8).tobytes()
    return [*said, f"bytes {digest(np.frombuffer(words, '<u2').astype(np.uint64))}"]


def judge(sequence: CallSequence, ledger: Ledger, findings: Findings) -> None:
    """What the ledger shows in the end."""
    t = sequence.record
    if sequence.kind == 1 or t.initOutputFlag:
        ledger.count_zeros_of_before()
    whole = t.grad_input_size if sequence.kind == 0 else t.grad_weight_size
    if whole < ledger.stores.size:  # memory beyond the result is not judged
        for name, array in vars(ledger).items():
            if isinstance(array, np.ndarray) and array.size == ledger.stores.size and name != "stores":
                setattr(ledger, name, array[:whole])
        ledger.stores = ledger.stores[:whole]
    module: Any = input_coverage if sequence.kind == 0 else filter_coverage
    findings.name_of = module.element_name(t)
    if sequence.kind == 0:
        module.summarise(t, ledger, findings)
    else:
        module.summarise(t, ledger, None, findings)


def digest(words: np.ndarray) -> int:
    """A sum over words of 16 bits, each mixed with its place, so that numpy takes all at once."""
    mixed = (np.arange(words.size, dtype=np.uint64) << np.uint64(16) | words) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    return int((mixed * np.uint64(0xD6E8FEB86659FD93)).sum(dtype=np.uint64))


def program_answers(batch: list[CallSequence]) -> list[list[str]]:
    """What the C++ program says to each sequence; places are cut off, and what Python has no rule for."""
    environment = {**os.environ, "CONVGRAD_TILE": "ignore"}
    done = subprocess.run([str(program("sequences.cpp", "-O1"))], input="\n".join(map(str, batch)), capture_output=True,
                          text=True, check=True, env=environment)  # fmt: skip
    answers: list[list[str]] = [[]]
    for line in done.stdout.splitlines():
        found = re.fullmatch(r"found (?:[^ ]*:\d+: )?(.*)", line)
        if found is None:
            answers[-1].append(line)
        elif not found[1].startswith(NOT_IN_PYTHON):
            answers[-1].append(f"found {found[1]}")
        if line.startswith("bytes "):
            answers.append([])
    return answers[:-1]


def differences(count: int, seed: int = 0) -> Iterator[tuple[CallSequence, list[str], list[str]]]:
    """Sequences to which the two languages give different answers."""
    every = list(sequences(count, seed))
    for start in range(0, len(every), BATCH):
        batch = every[start : start + BATCH]
        for sequence, theirs in zip(batch, program_answers(batch), strict=True):
            ours = model_answers(sequence)
            if ours != theirs:
                yield sequence, ours, theirs


def main() -> int:
    count = int(os.environ.get("SEQUENCES", "22000"))
    wrong = 0
    for sequence, ours, theirs in differences(count):
        wrong += 1
        if wrong <= 5:
            lines = [f"  python {a}\n  C++    {b}" for a, b in zip([*ours, ""], [*theirs, ""], strict=False) if a != b]
            print(sequence, *lines[:3], sep="\n", flush=True)
    print(f"{len(list(sequences(count)))} call sequences, {wrong} with different answers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
