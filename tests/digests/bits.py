"""Bits of every result, plans and workspaces: by problem, numbers, layout and instruction set, on 1, 2 and 5 threads.

Recorded (bits.txt): a problem line, below it one line per case:

    conv n2 c5>7 i9x11 k3x3 s1 p1 d1 g1
     fp32 contiguous 0c5a… 91b2… 77fe… 3d10… a4c8… | avx2 . 5b0f… . . .

five digests (grad_input, grad_weight, grad_bias, forward pass, printed plan) of the baseline; then those of each
further instruction set that has another one, `.` where it has not. Cases are read from here; only recording draws them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import problems
import tensors

import convgrad

RECORD = Path(__file__).with_name("bits.txt")
ISAS = ("baseline", "avx2", "avx512", "avx512bf16")
"""In this order: each is compared with the last one before it that has digests of its own."""
COLUMNS = ("grad_input", "grad_weight", "grad_bias", "forward", "plan")
THREADS = 5
"""The default of the processes here: what is not told its number of threads uses so many."""
_WANTS = ("xwb",) * 12 + ("x", "w", "b", "xw", "xb", "wb")
_MOST_WORK_PLAIN = 300_000_000
"""float64 has the plain path alone, which takes seconds for the benchmark's largest."""
_SMALL_WORK = 20_000_000
"""Multiply-adds up to which a case may have infinities (the plain path computes it then) and is in the short form."""
_SHORT = 24
"""The short form takes one small case in so many."""


class Case(NamedTuple):
    """One problem in certain numbers and memory."""

    line: str
    numbers: str
    layout: str

    def __str__(self) -> str:
        return f"{problems.in_numbers(self.line, self.numbers)} {self.layout}"


Digests = tuple[str, ...]
Record = dict[Case, dict[str, Digests]]
"""Digests by the instruction set; one that is left out has those of the one before."""


# ---- one case ----------------------------------------------------------------------------------------------


def compute(case: Case) -> Digests:
    """The five digests of a case; a sentence instead of one where threads or ways to call disagree."""
    asked = convgrad.Request.parse(problems.in_numbers(case.line, case.numbers))
    draw = tensors.Draw(*case)
    fill, wants = "real", "xwb"
    if problems.work(case.line) <= _SMALL_WORK:
        fill = tensors.FILLS[tensors.lot("fill", *case) % len(tensors.FILLS)]
        if asked.operator.value == "conv" and case.numbers != "mixed":
            wants = _WANTS[tensors.lot("want", *case) % len(_WANTS)]
    mask = tuple(letter in wants for letter in "xwb")
    g, x, w = (
        tensors.operand(draw, spec.shape, spec.dtype, case.layout, fill)
        for spec in (asked.grad_output, asked.input, asked.weight) if spec is not None
    )  # fmt: skip
    tail = f" want={wants}" if wants != "xwb" else ""
    plan = convgrad.plan(convgrad.Request.parse(problems.in_numbers(case.line, case.numbers) + tail))
    with_buffers = case.layout not in ("contiguous", "broadcast") and tensors.lot("buffers", *case) % 3 != 0
    r = plan.problem.request
    results = (r.grad_input, r.grad_weight, r.grad_bias)
    options = {"math": r.math, "product": r.product, "conformance": r.conformance}
    attributes = {
        "stride": r.stride, "padding": r.padding, "dilation": r.dilation, "transposed": r.transposed,
        "output_padding": r.output_padding, "groups": r.groups,
    }  # fmt: skip

    def backward(threads: int | None, planned: bool) -> Digests:
        # The same strides for every way: which path computes a result, and so its bits, may follow from them.
        buffers = [
            tensors.Buffer(tensors.Draw(name, *case), spec.shape, spec.dtype, case.layout)
            if with_buffers and want and spec else None
            for name, spec, want in zip(COLUMNS, results, mask, strict=False)
        ]  # fmt: skip
        out = [b and b.given for b in buffers] if with_buffers else None
        if planned:
            found = plan.run(g, x, w, out=out, threads=threads)
        elif r.operator.value == "tbc":
            found = convgrad.conv_tbc_backward(g, x, w, pad=r.pad, out=out, threads=threads, **options)
        else:
            found = convgrad.conv_backward(g, x, w, output_mask=mask, out=out, threads=threads, **attributes, **options)
        if any(b.wrote_outside() for b in buffers if b is not None):
            return ("wrote outside its buffers",) * 3
        return tuple(tensors.digest(result, with_layout=not with_buffers) for result in found)

    channels = r.grad_output.shape[2 if r.operator.value == "tbc" else 1]
    wide = r.grad_output.dtype == "float64"
    bias = tensors.operand(draw, (channels,), "float64" if wide else "float32", "contiguous", "real")

    def forward(threads: int | None) -> str:
        buffer = None
        if with_buffers:
            buffer = tensors.Buffer(tensors.Draw("forward", *case), r.grad_output.shape, r.input.dtype, case.layout)
        keywords = {"out": buffer and buffer.given, "threads": threads, **options}
        if r.operator.value == "tbc":
            found = convgrad.conv_tbc(x, w, bias, pad=r.pad, **keywords)
        else:
            found = convgrad.convolution(x, w, bias, **attributes, **keywords)
        if buffer is not None and buffer.wrote_outside():
            return "wrote outside its buffer"
        return tensors.digest(found, with_layout=not with_buffers)

    ways = {
        "plan.run, 1 thread": backward(1, True), "a call, 2 threads": backward(2, False),
        f"plan.run, {THREADS} threads": backward(None, True), f"a call, {THREADS} threads": backward(None, False),
    }  # fmt: skip
    told = [
        found[0] if len(set(found)) == 1 else "; ".join(f"{way}: {d}" for way, d in zip(ways, found, strict=True))
        for found in zip(*ways.values(), strict=True)
    ]  # fmt: skip
    outputs = [forward(threads) for threads in (1, 2, None)]
    told.append(outputs[0] if len(set(outputs)) == 1 else f"on 1, 2, {THREADS} threads: {', '.join(outputs)}")
    return (*told, tensors.text_digest(str(plan)))


# ---- many cases, in processes of one instruction set -------------------------------------------------------


def available() -> list[str]:
    """The instruction sets of ISAS this machine has."""
    found = []
    for isa in ISAS:
        words = [sys.executable, "-c", "import convgrad; print(convgrad.engine_info().isa)"]
        done = subprocess.run(words, env={**os.environ, "CONVGRAD_ISA": isa}, capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == isa:
            found.append(isa)
    return found


def compute_all(cases: list[Case], isas: Iterable[str], jobs: int) -> dict[str, dict[Case, Digests]]:
    """The digests of every case, by instruction set; so many processes at a time."""
    waiting = [(isa, part) for isa in isas for part in range(4)]
    found: dict[str, dict[Case, Digests]] = {isa: {} for isa in isas}
    with tempfile.TemporaryDirectory() as scratch:
        running: list[tuple[subprocess.Popen[bytes], str, list[Case], Path]] = []
        while waiting or running:
            while waiting and len(running) < jobs:
                isa, part = waiting.pop(0)
                share = cases[part::4]
                asked, told = (Path(scratch) / f"{isa}.{part}.{kind}" for kind in ("asked", "told"))
                asked.write_text(json.dumps(share), "utf-8")
                environment = {**os.environ, "CONVGRAD_ISA": isa, "CONVGRAD_NUM_THREADS": str(THREADS)}
                words = [sys.executable, str(Path(__file__).parent), "--compute", str(asked), str(told)]
                running.append((subprocess.Popen(words, env=environment), isa, share, told))
            process, isa, share, told = running.pop(0)
            if process.wait() != 0:
                raise SystemExit(f"digests: the process for {isa} ended with {process.returncode}")
            answers = [tuple(digests) for digests in json.loads(told.read_text("utf-8"))]
            found[isa] |= dict(zip(share, answers, strict=True))
    return found


def work(asked: Path, told: Path) -> None:
    """What such a process does."""
    cases = [Case(*fields) for fields in json.loads(asked.read_text("utf-8"))]
    with np.errstate(all="ignore"):  # infinities and NaN are among the operands
        told.write_text(json.dumps([compute(case) for case in cases]), "utf-8")


# ---- the record --------------------------------------------------------------------------------------------


def drawn_cases() -> list[Case]:
    """Every case: the tests' problems in all numbers and layouts, the benchmark's in some, random ones in three."""
    layouts, cases = tensors.LAYOUTS, []
    for line in problems.native_lines():
        cases += [Case(line, numbers, layout) for numbers in problems.NUMBERS for layout in layouts]
    names = list(problems.NUMBERS)
    for place, line in enumerate(problems.benchmark_lines()):
        cases += [Case(line, "fp32", "contiguous"), Case(line, names[2 + place % 9], "contiguous")]
        cases.append(Case(line, "bf16" if place % 2 else "fp32", "channels-last"))
    for place, line in enumerate(problems.random_lines()):
        for turn in range(3):
            combination = (3 * place + turn) % (len(names) * len(layouts))
            cases.append(Case(line, names[combination % len(names)], layouts[combination // len(names)]))
    return [case for case in dict.fromkeys(cases) if _is_wanted(case)]


def _is_wanted(case: Case) -> bool:
    if not convgrad.check(convgrad.Request.parse(problems.in_numbers(case.line, case.numbers))).ok:
        return False
    return case.numbers != "fp64" or problems.work(case.line) <= _MOST_WORK_PLAIN


def read() -> Record:
    record: Record = {}
    line = ""
    for text in RECORD.read_text("utf-8").splitlines():
        if not text.startswith(" "):
            line = text
            continue
        groups = text.split(" | ")
        numbers, layout, *digests = groups[0].split()
        known = tuple(digests)
        sets = record[Case(line, numbers, layout)] = {ISAS[0]: known}
        for group in groups[1:]:
            isa, *digests = group.split()
            known = sets[isa] = tuple(k if d == "." else d for d, k in zip(digests, known, strict=True))
    return record


def recorded_for(sets: dict[str, Digests], isa: str) -> Digests:
    return next(sets[name] for name in reversed(ISAS[: ISAS.index(isa) + 1]) if name in sets)


def write(jobs: int) -> None:
    missing = set(ISAS) - set(available())
    if missing:
        raise SystemExit(f"digests: record where every instruction set runs; here {', '.join(sorted(missing))} do not")
    cases = drawn_cases()
    found = compute_all(cases, ISAS, jobs)
    wrong = {
        case: f"{case}, {isa}: {name}: {digest}" for isa in ISAS for case, digests in found[isa].items()
        for name, digest in zip(COLUMNS, digests, strict=True) if " " in digest
    }  # fmt: skip
    lines, last = [], ""
    for case in cases:
        if case in wrong:
            continue
        if case.line != last:
            lines.append(case.line)
            last = case.line
        known = found[ISAS[0]][case]
        lines.append(f" {case.numbers} {case.layout} {' '.join(known)}")
        for isa in ISAS[1:]:
            digests = found[isa][case]
            if digests != known:
                shown = ("." if d == k else d for d, k in zip(digests, known, strict=True))
                lines[-1] += f" | {isa} {' '.join(shown)}"
                known = digests
    RECORD.write_text("\n".join(lines) + "\n", "utf-8")
    if wrong:
        raise SystemExit("\n".join(["digests: left out, for ways to make the same call disagree:", *wrong.values()]))


def differences(short: bool, jobs: int) -> Iterator[str]:
    """Every digest that is not the recorded one, in words."""
    record, isas = read(), available()
    if set(ISAS) - set(isas):
        print(f"bits: this machine does not run {', '.join(i for i in ISAS if i not in isas)}; that part is left out")
    cases = list(record)
    if short:
        cases = [case for case in cases if tensors.lot("short", *case) % _SHORT == 0]
        cases = [case for case in cases if problems.work(case.line) <= _SMALL_WORK]
    found = compute_all(cases, isas, jobs)
    for case in cases:
        for isa in isas:
            expected = recorded_for(record[case], isa)
            for name, digest, was in zip(COLUMNS, found[isa][case], expected, strict=True):
                if digest != was:
                    yield f"{case}, {isa}: {name} is {digest}, recorded {was}"
