"""`convgrad audit`: are the gradients of a CPU stack right?

Whole numbers so small that every order of summation is exact; so one wrong bit is a wrong gradient, never rounding.
Each problem runs in a process of its own, several times over, for every layout, instruction set and number of threads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from convgrad import functional
from convgrad.core import dtypes
from convgrad.core.arrays import AnyArray
from convgrad.core.request import Operator, Request, pad_pairs
from convgrad.lab.referee import children, stacks
from convgrad.lab.referee.stacks import NotRunError, Wanted
from convgrad.text.terminal import counted

EXACT, WRONG, CRASH, HANG, REFUSED, NOT_RUN = "exact", "wrong", "crash", "hang", "refused", "not run"
BAD = (WRONG, CRASH, HANG)
OPERANDS, GRADIENTS = ("grad_output", "input", "weight"), ("grad_input", "grad_weight", "grad_bias")

IN_TURN = (Wanted(weight=True), Wanted(input=True), Wanted(input=True, weight=True, bias=True))
"""What is asked for: each gradient alone first, for a fault of one must not hide in memory another has just used."""

SETS: dict[str, tuple[str, ...]] = {
    "strided-1x1": (
        "conv n32 c4>8 i32x32 k1x1 s2 p0 d1 g1 fp32", "conv n32 c4>8 i64x64 k1x1 s2 p0 d1 g1 fp32",
        "conv n32 c4>8 i128x128 k1x1 s2 p0 d1 g1 fp32", "conv n32 c15>16 i128x128 k1x1 s2 p0 d1 g1 fp32",
        "conv n32 c7>8 i32x32 k1x1 s2 p0 d1 g1 fp32", "conv n32 c8>8 i32x32 k1x1 s2 p0 d1 g1 fp32",
        "conv n32 c16>16 i128x128 k1x1 s2 p0 d1 g1 fp32", "conv n32 c4>8 i32x32 k1x1 s1 p0 d1 g1 fp32",
    ),
    "channels": (
        "conv n1 c24>24 i6x6 k3x3 s2 p1 d1 g24 fp32", "conv n2 c64>17 i8 k3 s2 p1 d1 g1 fp32",
        "conv n1 c16>16 i128 k21 s1 p0 d1 g2 fp32", "conv n2 c16>32 i83x11 k5x1 s3x1 p2x0 d1 g1 fp32",
        "conv n2 c67>67 i12x9 k3x3 s1 p1 d1 g67 fp32", "conv n3 c3>5 i14x14 k3x3 s2 p0 d1 g1 fp32",
    ),
    "layers": (
        "conv n4 c3>32 i32x32 k7x7 s2 p3 d1 g1 fp32", "conv n4 c32>32 i14x14 k3x3 s1 p1 d1 g1 fp32",
        "conv n4 c32>64 i14x14 k3x3 s2 p1 d1 g1 fp32", "conv n4 c64>32 i14x14 k1x1 s1 p0 d1 g1 fp32",
        "conv n4 c32>32 i14x14 k3x3 s1 p1 d1 g32 fp32", "conv n2 c32>32 i14x14 k3x3 s1 p2 d2 g1 fp32",
        "tconv n2 c16>16 i7x7 k4x4 s2 p1 d1 g1 fp32", "conv n2 c8>16 i4x9x9 k3x3x3 s1 p1 d1 g1 fp32",
    ),
}  # fmt: skip
"""Built-in problems: the known faults of public threads and their neighbours, shapes of odd channels, and layers."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a problem is run."""

    layout: str
    isa: str
    """Empty: as the machine likes."""
    threads: int | None
    """None: as the stack likes."""

    def __str__(self) -> str:
        threads = counted(self.threads, "thread") if self.threads else "default threads"
        return f"{self.layout}, {self.isa or 'default'} ISA, {threads}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem run in one way."""

    line: str
    way: Way
    stack: str
    gradient: str
    """grad_input, grad_weight, grad_bias; the first one that is not right, or empty where the process ended."""
    verdict: str
    told: str
    environment: dict[str, str]
    bound: int = 3
    share: float = 1.0
    """The whole numbers it ran on: see `Numbers`."""

    @property
    def bad(self) -> bool:
        return self.verdict in BAD

    def as_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "line": self.line, "stack": self.stack, "layout": self.way.layout, "isa": self.way.isa or "default",
            "threads": self.way.threads, "gradient": self.gradient, "verdict": self.verdict, "told": self.told,
        }
        return {**row, "script": script(self), "descriptor": descriptor(self)} if self.bad else row


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers for a problem: no partial sum of any order leaves what its dtype holds exactly."""

    operands: tuple[AnyArray, AnyArray, AnyArray]
    """grad_output, input, weight."""
    bound: int
    """The largest one drawn."""
    share: float
    """Of grad_output's elements that are not zeroed; every gradient is linear in grad_output."""


def largest_exact(request: Request) -> int:
    """Every whole number up to this one is a value of each operand's dtype, and of float32."""
    powers = [24]
    for spec in (request.grad_output, request.input, request.weight):
        assert spec is not None
        dtype = dtypes.find(spec.dtype)
        powers.append(next(e for e in range(64) if dtype.fraction_bits(e) < e))
    return int(2 ** min(powers))


def whole_numbers(request: Request) -> Numbers:
    """Operands whose sums of magnitudes, for every element of every gradient, are at most half of `largest_exact`."""
    shapes = [spec.shape for spec in (request.grad_output, request.input, request.weight) if spec is not None]
    limit, bound, share = largest_exact(request) / 2, 3, 1.0
    while True:
        rng = np.random.default_rng(1)
        g, x, w = (rng.integers(-bound, bound + 1, shape).astype(np.int8) for shape in shapes)
        g[rng.random(g.shape) >= share] = 0
        largest = max(float(np.max(a, initial=0)) for a in _sums(request, abs(g), abs(x), abs(w)).values())
        if largest <= limit:
            return Numbers((g, x, w), bound, share)
        bound, share = 1, share if bound > 1 else share * min(0.8, 0.8 * limit / largest)


def expected(request: Request, numbers: Numbers) -> dict[str, AnyArray]:
    """The exact sums, in float64."""
    return _sums(request, *numbers.operands)


def _sums(request: Request, *operands: AnyArray) -> dict[str, AnyArray]:
    g, x, w = (a.astype(np.float64) for a in operands)
    found: tuple[Any, Any, Any]
    if request.operator is Operator.TBC:
        found = functional.conv_tbc_backward(g, x, w, pad=request.pad)
    else:
        found = functional.conv_backward(g, x, w, **stacks.attributes(request))
    return dict(zip(GRADIENTS, found, strict=True))


def audit(
    requests: Sequence[Request], stack: str, ways: Sequence[Way], seconds: float = 60, repeats: int = 10
) -> Iterator[Finding]:
    """Every problem in every way, each in a process of its own."""
    limits = children.isa_limits(stack)
    for request in requests:
        line = str(request)
        with tempfile.TemporaryDirectory() as directory:
            where = Path(directory) / "numbers.npz"
            numbers = whole_numbers(request)
            kept: dict[str, Any] = dict(zip(OPERANDS, numbers.operands, strict=True))
            np.savez(where, **(kept | expected(request, numbers)))
            for way in ways:
                if way.isa and way.isa not in limits:
                    yield Finding(line, way, stack, "", NOT_RUN, f"this machine has no {way.isa}", {})
                    continue
                environment = limits[way.isa] if way.isa else {}
                job = {
                    "kind": "audit", "stack": stack, "line": line, "layout": way.layout, "threads": way.threads,
                    "repeats": repeats, "numbers": str(where),
                }  # fmt: skip
                ended = children.ask(job, environment, seconds)
                if ended.how == "done":
                    gradient, verdict, told = ended.answer
                else:
                    gradient, verdict, told = "", ended.how, ended.told
                yield Finding(line, way, stack, gradient, verdict, told, environment, numbers.bound, numbers.share)


def work(job: dict[str, Any]) -> tuple[str, str, str]:
    """In the child: the first gradient that is wrong, or that all are exact."""
    request, ask = Request.parse(job["line"]), stacks.find(job["stack"])
    want = np.load(job["numbers"])
    g, x, w = stacks.stored(request, [want[name] for name in OPERANDS], job["layout"])
    for _ in range(job["repeats"]):
        for these in IN_TURN:
            try:
                found = ask(request, g, x, w, these, job["threads"])
            except NotRunError as reason:
                return "", NOT_RUN, str(reason)
            missing = [name for name, on in zip(GRADIENTS, (these.input, these.weight, these.bias), strict=True)
                       if on and name not in found]  # fmt: skip
            if missing:
                return missing[0], REFUSED, f"no {missing[0]} in its answer"
            for name, array in found.items():
                told = difference(np.asarray(array, np.float64), want[name])
                if told:
                    return name, WRONG, told
    return "", EXACT, ""


def difference(found: AnyArray, want: AnyArray) -> str:
    """How many elements differ, the first of them and the largest error; empty where none does."""
    if found.shape != want.shape:
        return f"shape {found.shape}, not {want.shape}"
    wrong = ~(found == want)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    with np.errstate(invalid="ignore"):
        largest = np.nanmax(np.abs(found - want)) if np.isfinite(found - want).any() else np.nan
    return (
        f"{int(wrong.sum())} of {wrong.size} wrong, first {list(first)}: {found[first]:g}, not {want[first]:g}; "
        f"largest error {largest:g}"
    )


# ---- for upstream --------------------------------------------------------------------------------------------


def descriptor(finding: Finding) -> str:
    """The problem in the words of oneDNN's benchdnn; empty where it has none (transposed, TBC, other dtypes)."""
    r = Request.parse(finding.line)
    if r.operator is Operator.TBC or r.transposed or r.grad_output is None or r.input is None or r.weight is None:
        return ""
    dtype = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(r.input.dtype)
    if dtype is None:
        return ""
    rank = len(r.input.shape) - 2
    pads = [low for low, _ in pad_pairs(r.padding or (0,) * rank, rank) or ()]
    words = f"g{r.groups}" * (r.groups > 1) + f"mb{r.input.shape[0]}ic{r.input.shape[1]}oc{r.weight.shape[0]}"
    strides, dilations = r.stride or (1,) * rank, r.dilation or (1,) * rank
    for a, axis in enumerate("dhw"[3 - rank:]):
        numbers = {"i": r.input.shape[a + 2], "o": r.grad_output.shape[a + 2], "k": r.weight.shape[a + 2],
                   "s": strides[a], "p": pads[a], "d": dilations[a] - 1}  # fmt: skip
        words += "".join(f"{letter}{axis}{value}" for letter, value in numbers.items() if value or letter == "p")
    direction = {"grad_input": "BWD_D", "grad_bias": "BWD_WB"}.get(finding.gradient, "BWD_W")
    tag = "axb" if finding.way.layout == "channels_last" else "abx"
    return f"--conv --dir={direction} --dt={dtype} --stag={tag} --wtag=any --dtag={tag} {words}"


def report(finding: Finding) -> str:
    """The script under what was seen, as comments."""
    words = [f"{finding.verdict}: {finding.told}", finding.line, str(finding.way)]
    words += [f"benchdnn {text}" for text in [descriptor(finding)] if text]
    return "".join(f"# {word}\n" for word in words) + script(finding)


def script_suffix(finding: Finding) -> str:
    """Of a file with the script: a program, or a command."""
    return ".py" if _has_program(finding) else ".sh"


def _has_program(finding: Finding) -> bool:
    return finding.stack == "torch" and Request.parse(finding.line).operator is not Operator.TBC


def script(finding: Finding) -> str:
    """A program without convgrad that shows the finding on PyTorch; a command for any other stack."""
    r = Request.parse(finding.line)
    if not _has_program(finding):
        threads = f" --threads {finding.way.threads}" if finding.way.threads else ""
        way = f"--layout {finding.way.layout} --isa {finding.way.isa or 'default'}{threads}"
        return f"convgrad audit {finding.stack} '{finding.line}' {way}\n"
    assert r.grad_output is not None and r.input is not None and r.weight is not None
    rank = len(r.input.shape) - 2
    pads = [low for low, _ in pad_pairs(r.padding or (0,) * rank, rank) or ()]
    masks = [[finding.gradient == name for name in GRADIENTS]]
    if not finding.gradient:  # the process ended: what it was asked for, in the same turn
        masks = [[these.input, these.weight, these.bias] for these in IN_TURN]
    asked, sizes = [any(on) for on in zip(*masks, strict=True)], [r.grad_output.shape[1]]
    last = {2: "torch.channels_last", 3: "torch.channels_last_3d"}.get(rank)
    numbers = (
        f"{list(r.stride or (1,) * rank)}, {pads}, {list(r.dilation or (1,) * rank)}, {r.transposed}, "
        f"{list(r.output_padding or (0,) * rank)}, {r.groups}, mask"
    )
    lines = ["import os", *(f'os.environ["{k}"] = "{v}"' for k, v in finding.environment.items()), "import torch"]
    if finding.way.threads:
        lines.append(f"torch.set_num_threads({finding.way.threads})")
    lines += ["torch.manual_seed(0)", "def whole(*shape):",
              f"    return torch.randint({-finding.bound}, {finding.bound + 1}, shape).to(torch.{r.input.dtype})"]
    for name, spec in (("g", r.grad_output), ("x", r.input), ("w", r.weight)):
        form = f".to(memory_format={last})" if finding.way.layout == "channels_last" and last else ""
        kept = f" * (torch.rand{spec.shape} < {finding.share:.3g})" if name == "g" and finding.share < 1 else ""
        lines.append(f"{name} = (whole{spec.shape}{kept}){form}" if kept else f"{name} = whole{spec.shape}{form}")
    lines += [
        "def gradients(g, x, w, mask):", f"    return torch.ops.aten.convolution_backward(g, x, w, {sizes}, {numbers})",
        "with torch.backends.mkldnn.flags(enabled=False):  # whole numbers: float64 is exact",
        f"    want = gradients(g.double(), x.double(), w.double(), {asked})",
        f"for mask in {masks} * 10:",
        "    for got, right in zip(gradients(g, x, w, mask), want):",
        "        if got is not None and not torch.equal(got.double(), right):",
        '            print("wrong:", int((got.double() != right).sum()), "of", got.numel())',
        'print("done", torch.__version__)',
    ]
    return "\n".join(lines) + "\n"


def on_cpu_rules(request: Request) -> Request:
    """The request with all gradients wanted, on the CPU's own rules: what any stack can be asked."""
    return replace(request, product="cpu", math=0, output_mask=(True, True, True))
