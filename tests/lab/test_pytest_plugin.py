"""The pytest plugin and the adversarial sets: right kernels pass, known classes of wrong ones are caught."""

import itertools
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from convgrad.core import rounding
from convgrad.core.problem import prove
from convgrad.lab.cases import adversarial
from convgrad.pytest_plugin import assert_gradients, golden_data

TESTS = '''
import pytest
from convgrad.pytest_plugin import assert_gradients

@pytest.mark.convgrad("cases.txt", "conv n1 c2>2 i8 k3 fp16 on=A2", sets="slack", dtype="fp32")
def test_kernel(convgrad_case, golden):
    data = golden(convgrad_case)
    wrong = "wrong" in convgrad_case.name
    assert_gradients({n: v + wrong for n, v in data.expected.items()}, data)

def test_a_line(golden):
    data = golden("conv n1 c2>2 i8 k3 fp16 want=xw on=A2", seed=3)
    gradients = [data.expected["grad_input"], data.expected["grad_weight"], None]
    assert_gradients(gradients, "conv n1 c2>2 i8 k3 fp16 want=xw on=A2", seed=3, standard="mixed,exact")
'''


def test_cases_become_tests_and_junit_names_them(tmp_path):
    """A file beside the test, a line and a set: a test per case; the failing one says why; no plug-in is named."""
    (tmp_path / "test_kernel.py").write_text(TESTS, "utf-8")
    (tmp_path / "cases.txt").write_text("conv n1 c2>2 i6 k3 fp16  # right\nconv n1 c2>2 i6 k3 fp32  # wrong\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "--junitxml=out.xml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "1 failed, 8 passed" in done.stdout, done.stdout + done.stderr
    assert "grad_input fails mixed (2026-07-15)" in done.stdout and "reproduce: convgrad plan" in done.stdout
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert "test_kernel[right]" in {case.get("name") for case in suite} and suite.get("failures") == "1"
    (tmp_path / "cases.txt").write_text("conv n1 q9\n", "utf-8")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "convgrad: cases.txt" in (done.stdout + done.stderr).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(("marks", "argument", "said"), [
    ('@pytest.mark.convgrad("conv n1 c2>2 i8 k3")', "golden", "takes no argument `convgrad_case`"),
    ('@pytest.mark.convgrad(set="slack")', "convgrad_case", "the marker has no 'set'; it has sets, dtype, product"),
    ("@pytest.mark.convgrad()", "convgrad_case", "the marker names no case file, no line and no set"),
    ('@pytest.mark.convgrad("conv n1 c2>2 i8 k3")\n@pytest.mark.convgrad(sets=["slack", "unwritten"])',
     "convgrad_case", "10 passed"),
], ids=["no argument", "no such keyword", "nothing named", "two markers"])  # fmt: skip
def test_a_marker_that_would_test_nothing_is_refused(tmp_path, marks, argument, said):
    """A misspelt keyword, a case nobody takes, no case at all: told, not passed over; two markers add up."""
    (tmp_path / "test_it.py").write_text(f"import pytest\n{marks}\ndef test_it({argument}):\n    pass\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert said in done.stdout + done.stderr and (done.returncode == 0) == ("passed" in said)


def kernel(data, first_tap=0, fewer_taps=0, skip_zeros=False, forget_slack=False, half_sums=False):
    """Gradients by plain loops over the law, with the mistake that is asked for; results start as NaN."""
    problem = prove(data.request)
    g, r = problem.geometry, data.request
    values = {n: rounding.load(s.dtype, getattr(data, n)).astype(np.float64)
              for n, s in (("grad_output", r.grad_output), ("input", r.input), ("weight", r.weight))}  # fmt: skip

    def five(array, order):
        kept = [a for a in order if a is not None]
        return array.transpose(kept)[tuple(slice(None) if a is not None else None for a in order)]

    x, go = five(values["input"], problem.data_order), five(values["grad_output"], problem.data_order)
    fine, coarse = (go, x) if problem.transposed else (x, go)
    weight = five(values["weight"], problem.weight_order)
    to_fine, to_coarse, to_weight = (np.zeros(a.shape) for a in (fine, coarse, weight))
    per_coarse, per_fine = coarse.shape[1] // g.groups, fine.shape[1] // g.groups
    reached = np.zeros(fine.shape[2:], bool)
    windows = [range(first_tap if a.window > 1 else 0, a.window - (fewer_taps if a.window > 1 else 0)) for a in g.axes]
    with np.errstate(all="ignore"):
        for o in itertools.product(*(range(n) for n in coarse.shape[2:])):
            for k in itertools.product(*windows):
                i = tuple(c * a.stride - a.pad_low + t * a.dilation for c, a, t in zip(o, g.axes, k, strict=True))
                if any(not 0 <= p < n for p, n in zip(i, fine.shape[2:], strict=True)):
                    continue
                reached[i] = True
                for group in range(g.groups):
                    cs = slice(group * per_coarse, (group + 1) * per_coarse)
                    fs = slice(group * per_fine, (group + 1) * per_fine)
                    c, f, w = coarse[(slice(None), cs, *o)], fine[(slice(None), fs, *i)], weight[(cs, slice(None), *k)]
                    to_fine[(slice(None), fs, *i)] += c @ w
                    to_coarse[(slice(None), cs, *o)] += f @ w.T
                    product = np.einsum("nc,nf->cf", c, f)
                    if skip_zeros:
                        product = np.einsum("nc,nf->cf", c, np.where((c == 0).all(axis=1, keepdims=True), 0, f))
                    to_weight[(cs, slice(None), *k)] += product
                    if half_sums:
                        to_weight = to_weight.astype(np.float16).astype(np.float64)
    if forget_slack:
        for axis in range(3):
            end = np.flatnonzero(reached.any(axis=tuple(b for b in range(3) if b != axis))).max(initial=-1)
            to_fine[(slice(None), slice(None), *(slice(None),) * axis, slice(end + 1, None))] = np.nan
    results = {"grad_input": (to_coarse if problem.transposed else to_fine, problem.data_order),
               "grad_weight": (to_weight, problem.weight_order)}  # fmt: skip
    found = {}
    for name, (array, order) in results.items():
        view = array[tuple(slice(None) if a is not None else 0 for a in order)]
        natural = view.transpose(np.argsort([a for a in order if a is not None]))
        found[name] = rounding.store("float32", natural)
    found["grad_bias"] = rounding.store("float32", go.sum(axis=(0, 2, 3, 4)))
    return {s.result.value: found[s.result.value] for s in data.plan.steps}


def caught(**mistake):
    """The sets that a kernel with a mistake fails."""
    failed = set()
    for name in adversarial.SETS:
        for case in adversarial.cases(name):
            data = golden_data(case)
            try:
                assert_gradients(kernel(data, **mistake), data)
            except AssertionError:
                failed.add(name)
    return failed


def test_a_right_kernel_passes_every_set():
    """Plain loops over the law, in float64."""
    assert caught() == set()


@pytest.mark.parametrize(("mistake", "by"), [
    ({"forget_slack": True}, {"slack"}), ({"skip_zeros": True}, {"unwritten"}),
    ({"fewer_taps": 1}, {"slack", "short-sequence", "group-edge", "cancellation", "unwritten"}),
    ({"first_tap": 1}, {"slack", "short-sequence", "group-edge", "cancellation", "unwritten"}),
    ({"half_sums": True}, {"cancellation"}),
], ids=lambda v: next(iter(v)) if isinstance(v, dict) else "")  # fmt: skip
def test_known_wrong_kernels_are_caught(mistake, by):
    """Missing output padding, skipped zeros, off-by-one tap ranges at either end, a narrow accumulator."""
    assert caught(**mistake) >= by


def test_what_is_missing_or_too_much_is_told():
    """A gradient left out, one of another shape, one that nobody wants, an unknown set."""
    data = golden_data("conv n1 c2>2 i8 k3 fp16 want=w on=A2")
    for actual, said in (({}, "grad_weight: is missing"), ([None, np.zeros(3, np.float16)], "has shape"),
                         ([data.input, data.expected["grad_weight"]], "grad_input: is not wanted")):  # fmt: skip
        with pytest.raises(AssertionError, match=said):
            assert_gradients(actual, data)
    with pytest.raises(AssertionError, match="grad_weight: no verdict: requant says nothing about float16"):
        assert_gradients(data.expected, data, standard="requant")
    with pytest.raises(ValueError, match="known: slack"):
        adversarial.cases("nothing")
