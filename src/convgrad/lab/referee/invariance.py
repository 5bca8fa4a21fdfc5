"""`convgrad invariance`: does a bit of a sample's result depend on what it was computed with?

A batch is computed whole; then every sample alone, the halves, the samples in another order, and the whole batch again
on other numbers of threads, instruction sets and layouts. Input gradients and forward results are compared bit by bit;
the gradients of weight and bias sum over the batch, so they are compared across threads and instruction sets only. At
level 3 of determinism they are a tree over samples: then the whole batch's is compared with the tree of every sample's
own, computed alone, and with that of the tree's two halves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from convgrad import functional
from convgrad.core import dtypes, rounding
from convgrad.core.arrays import AnyArray
from convgrad.core.determinism import TREE, sum_by_tree, tree_sum
from convgrad.core.request import Request, TensorSpec
from convgrad.lab.referee import children, stacks
from convgrad.lab.referee.stacks import NotRunError, Wanted
from convgrad.text.language import say
from convgrad.text.terminal import counted

AXES = ("alone", "halves", "order", "threads", "isa", "layout")
DEFAULT_AXES = AXES[:-1]
"""Memory layouts choose other kernels, in any stack: they are compared where that is asked for."""
SMALLEST_BATCH, MOST_ALONE = 4, 16
THREADS = (1, 2, 3)
SEED = 7
_PER_SAMPLE = Wanted(output=True, input=True)
_ALL = Wanted(output=True, input=True, weight=True, bias=True)
_SUMS = Wanted(weight=True, bias=True)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first bit that depends on something."""

    line: str
    stack: str
    axis: str
    how: str
    """What was compared with the whole batch."""
    result: str
    count: int
    size: int
    first: tuple[int, ...]
    """Index in the whole batch's result."""
    bits: tuple[str, str]
    """In the whole batch, and here."""
    ulps: int
    """The largest distance, in units of the last place."""

    @property
    def reproducer(self) -> str:
        return f"convgrad invariance '{self.line}' --stack {self.stack} --axis {self.axis}"

    def as_row(self) -> dict[str, Any]:
        return {
            "line": self.line, "stack": self.stack, "axis": self.axis, "how": self.how, "result": self.result,
            "differ": self.count, "of": self.size, "first": list(self.first), "bits": list(self.bits),
            "largest_ulps": self.ulps, "reproducer": self.reproducer,
        }

    def __str__(self) -> str:
        return (
            f"{self.axis}: {self.result}, {self.count} of {self.size} values differ ({say(self.how)}); first "
            f"{list(self.first)}: {self.bits[0]} in the batch, {self.bits[1]} here; at most {self.ulps} ulp"
        )


def bits_of(array: AnyArray) -> AnyArray:
    """The bits of an array's elements; every NaN alike."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind not in "iu":
        plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain).astype(plain.dtype)
    return plain.view(f"u{plain.itemsize}")


def first_difference(whole: AnyArray, here: AnyArray) -> dict[str, Any] | None:
    """Count, first place, both bit patterns and the largest distance in units of the last place."""
    if whole.shape != here.shape or whole.dtype != here.dtype:
        raise ValueError(f"{whole.shape} {whole.dtype} and {here.shape} {here.dtype} cannot be compared")
    a, b = bits_of(whole), bits_of(here)
    wrong = a != b
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    width = 2 * a.itemsize
    sign = 1 << (8 * a.itemsize - 1)

    def ordered(bits: AnyArray) -> AnyArray:
        """Floats of either sign on one line of whole numbers."""
        wide = bits.astype(object)
        return np.where(wide >= sign, sign - wide, wide)

    ulps = int(np.max(np.abs(ordered(a[wrong]) - ordered(b[wrong]))))
    return {
        "count": int(wrong.sum()), "size": int(wrong.size), "first": list(first),
        "bits": [f"0x{int(a[first]):0{width}x}", f"0x{int(b[first]):0{width}x}"], "ulps": ulps,
    }  # fmt: skip


def with_batch(request: Request, batch: int) -> Request:
    """The same problem for so many samples."""
    axis = stacks.batch_axis(request)

    def changed(spec: TensorSpec | None) -> TensorSpec | None:
        if spec is None:
            return None
        return replace(spec, shape=(*spec.shape[:axis], batch, *spec.shape[axis + 1 :]))

    return replace(
        request, grad_output=changed(request.grad_output), input=changed(request.input),
        grad_input=changed(request.grad_input), output_mask=(True, True, True), forward=False,
    )  # fmt: skip


def batch_of(request: Request) -> int:
    assert request.input is not None
    return request.input.shape[stacks.batch_axis(request)]


def referee(requests: Sequence[Request], stack: str, axes: Sequence[str], seconds: float) -> Iterator[Any]:
    """For each problem its differences, or the words why it, or a way to compute it, was not run."""
    for asked in requests:
        request = with_batch(asked, max(SMALLEST_BATCH, batch_of(asked)))
        line = str(request)
        found: list[Difference] = []
        with tempfile.TemporaryDirectory() as directory:
            job = {"kind": "invariance", "stack": stack, "line": line, "axes": list(axes), "layout": "contiguous"}
            ended = children.ask({**job, "save": f"{directory}/whole.npz"}, {}, seconds)
            if ended.how != "done" or isinstance(ended.answer, str):
                yield line, _reason(ended)
                continue
            found += [Difference(line, stack, **row) for row in map(_tuples, ended.answer)]
            whole = dict(np.load(Path(directory) / "whole.npz"))
            others: list[tuple[str, str, dict[str, str], str]] = []
            if "isa" in axes:
                others += [("isa", name, env, "contiguous") for name, env in children.isa_limits(stack).items()]
            if "layout" in axes:
                others.append(("layout", "channels_last", {}, "channels_last"))
            for axis, name, environment, layout in others:
                save = f"{directory}/{name}.npz"
                other = {**job, "axes": [], "layout": layout, "save": save}
                ended = children.ask(other, environment, seconds)
                if ended.how != "done" or isinstance(ended.answer, str):
                    yield line, f"{axis} {name}: {_reason(ended)}"
                    continue
                for result, array in np.load(save).items():
                    differ = first_difference(whole[result], array)
                    if differ is not None:
                        found.append(Difference(line, stack, axis, name, result, **_tuples(differ)))
        yield line, found


def _reason(ended: children.Ended) -> str:
    """Why there is nothing to compare."""
    return str(ended.answer) if ended.how == "done" else f"{ended.how}: {ended.told}"


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "first": tuple(row["first"]), "bits": tuple(row["bits"])}


def work(job: dict[str, Any]) -> list[dict[str, Any]] | str:
    """In the child: the whole batch is computed and saved, then all that does not need another process."""
    try:
        return _compared(job)
    except NotRunError as reason:
        return str(reason)


def _compared(job: dict[str, Any]) -> list[dict[str, Any]] | str:
    """The differences that one process sees."""
    request, ask = Request.parse(job["line"]), _in_shape(stacks.find(job["stack"]))
    reason = _without_tree(request, job["stack"])
    if reason:
        return reason
    g, x, w = stacks.operands(request, job["layout"], SEED)
    axis, batch = stacks.batch_axis(request), batch_of(request)
    whole = ask(request, g, x, w, _ALL, None)
    if not {"output", "grad_input"} & {*whole}:
        return "neither output nor grad_input in its answer"
    kept: dict[str, Any] = {name: bits_of(a) for name, a in whole.items()}  # dtypes without a name in NumPy too
    with Path(job["save"]).open("wb") as file:
        np.savez(file, **kept)
    rows: list[dict[str, Any]] = []

    def compare(which: str, how: str, found: dict[str, AnyArray], pick: Callable[[AnyArray], AnyArray]) -> None:
        if any(row["axis"] == which for row in rows):
            return  # the first one tells
        for name, array in found.items():
            of_batch = name in ("output", "grad_input")
            differ = first_difference(pick(whole[name]) if of_batch else whole[name], array)
            if differ is not None:
                rows.append({"axis": which, "how": how, "result": name, **differ})
                return

    def samples(which: Sequence[int], wanted: Wanted = _PER_SAMPLE) -> dict[str, AnyArray]:
        # As they lie in the batch: copied samples could have another layout.
        part = slice(which[0], which[-1] + 1) if list(which) == list(range(which[0], which[-1] + 1)) else list(which)
        index = (slice(None),) * axis + (part,)
        gs, xs = g[index], x[index]
        if axis:  # TBC: a part of the middle axis is not contiguous as the batch is
            gs, xs = np.ascontiguousarray(gs), np.ascontiguousarray(xs)
        part_request = with_batch(request, len(which))
        if wanted is _SUMS and not _is_unrounded(request):
            return {name: tree_sum(found) for name, found in stacks.leaves(part_request, gs, xs, w).items()}
        return ask(part_request, gs, xs, w, wanted, None)

    def picked(which: Sequence[int]) -> Callable[[AnyArray], AnyArray]:
        return lambda array: np.take(array, list(which), axis)

    def compare_tree(which: str, how: str, parts: Sequence[Sequence[int]]) -> None:
        """The sums over the batch against the tree of those of its parts, which are nodes of it."""
        names = [name for name in ("grad_weight", "grad_bias") if name in whole]

        def node(i: int) -> AnyArray:
            found = samples(parts[i], _SUMS)
            return np.concatenate([found[name].reshape(-1) for name in names])

        if names and request.deterministic == TREE:
            flat = np.split(sum_by_tree(node, 0, len(parts)), [whole[names[0]].size])
            compare(which, how, _rounded(request, whole, dict(zip(names, flat, strict=False))), lambda array: array)

    if "alone" in job["axes"]:
        for sample in sorted({*range(min(batch, MOST_ALONE)), batch - 1}):
            compare("alone", f"sample {sample} alone", samples([sample]), picked([sample]))
        compare_tree("alone", "the tree of every sample alone", [[sample] for sample in range(batch)])
    if "halves" in job["axes"]:
        for part in (range(batch // 2), range(batch // 2, batch)):
            compare("halves", f"samples {part[0]} to {part[-1]}", samples(part), picked(part))
        half = 1 << (batch - 1).bit_length() - 1
        compare_tree("halves", f"the tree of the first {half} samples and the rest", [range(half), range(half, batch)])
    if "order" in job["axes"]:
        turned = list(range(batch))[::-1]
        compare("order", "the batch in reverse order", samples(turned), picked(turned))
    if "threads" in job["axes"]:
        for threads in THREADS:
            compare("threads", counted(threads, "thread"), ask(request, g, x, w, _ALL, threads), lambda array: array)
    return rows


def _in_shape(ask: stacks.Stack) -> stacks.Stack:
    """The stack, whose results have the shapes of what they are the gradients of, or are none."""

    def asked(r: Request, g: AnyArray, x: AnyArray, w: AnyArray, wanted: Wanted, threads: int | None) -> stacks.Found:
        found = ask(r, g, x, w, wanted, threads)
        for name, shape in (("output", g.shape), ("grad_input", x.shape), ("grad_weight", w.shape)):
            if name in found and found[name].shape != shape:
                raise NotRunError(f"{name} has the shape {found[name].shape}, not {shape}")
        return found

    return asked


def _is_unrounded(request: Request) -> bool:
    """Whether gradients of weight and bias are stored as they were summed."""
    names = {spec.dtype for spec in (request.grad_output, request.input, request.weight) if spec is not None}
    return names in ({"float32"}, {"float64"})


def _without_tree(request: Request, stack: str) -> str:
    """Why a stack's sums at level 3 cannot be judged; empty where they can, or where another level is asked for."""
    if request.deterministic != TREE or stack == "convgrad":
        return ""
    if stack == "torch":
        return f"PyTorch has no determinism level {TREE}"
    if _is_unrounded(request):
        return ""
    return f"level {TREE} of one's own stack is judged in fp32 and fp64, where a sample's gradients are not rounded"


def _rounded(request: Request, whole: dict[str, AnyArray], sums: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Sums in the shape and dtype of the whole batch's results, rounded once."""
    found = {name: total.reshape(whole[name].shape) for name, total in sums.items()}
    if _is_unrounded(request):
        return found
    casts = {step.result.value: (step.rounded_to, step.stored_as) for step in functional.plan(request).steps}
    return {
        name: rounding.store(dtypes.find(casts[name][1]), rounding.round_to(dtypes.find(casts[name][0]), total))
        for name, total in found.items()
    }


def compare_files(whole: AnyArray, part: AnyArray, first: int, axis: int) -> dict[str, Any] | None:
    """Results of somebody else's runs: samples from `first` on of a batch against the same ones computed in a part."""
    count, batch = part.shape[axis], whole.shape[axis]
    if not 0 <= first <= batch - count:
        raise ValueError(f"a part of {counted(count, 'sample')} at {first} is not inside a batch of {batch}")
    if not part.size:
        raise ValueError(f"a part of shape {part.shape} has no value to compare")
    index = (slice(None),) * axis + (slice(first, first + count),)
    return first_difference(whole[index], part)
