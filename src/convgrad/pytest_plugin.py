"""The pytest plugin: case files as tests, golden data as a fixture, gradients judged by named standards.

    @pytest.mark.convgrad("cases.csv", "conv n1 c2>2 i8 k3 fp16 on=A2", sets="slack,unwritten")
    def test_my_kernel(convgrad_case, golden):
        data = golden(convgrad_case)
        assert_gradients(my_kernel(data), data, standard="mixed")

pytest finds it by its entry point; `--junitxml` and the rest are pytest's own. The lab is imported when a test asks for
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from convgrad.core.arrays import AnyArray
    from convgrad.core.plan import Plan
    from convgrad.core.request import Request
    from convgrad.lab.cases.case import Case

__all__ = ["GoldenData", "assert_gradients", "golden_data"]
_NAMES = ("grad_input", "grad_weight", "grad_bias")


@dataclass(frozen=True, slots=True)
class GoldenData:
    """Operands of one case and what is expected of them; stored arrays, `None` where nothing is wanted."""

    line: str
    request: Request
    plan: Plan
    grad_output: AnyArray | None
    input: AnyArray
    weight: AnyArray
    expected: Mapping[str, AnyArray]
    """By name: grad_input, grad_weight, grad_bias, as the product stores them."""


def golden_data(asked: Case | Request | str, seed: int = 0) -> GoldenData:
    """Operands drawn for a case, a request or a problem line, with the expected gradients; a refused one raises."""
    from convgrad.calls.decide import decide
    from convgrad.core.request import Request
    from convgrad.lab.cases.case import Case
    from convgrad.lab.golden.writing import expected

    case = asked if isinstance(asked, Case) else Case("", Request.parse(asked) if isinstance(asked, str) else asked)
    plan = decide(case.request).accepted()
    tensors = case.tensors(case.seed_for(seed))
    return GoldenData(
        str(case.request), case.request, plan, tensors.grad_output, tensors.input, tensors.weight,
        expected(plan, tensors),
    )


def assert_gradients(
    actual: Mapping[str, Any] | Sequence[Any], asked: GoldenData | Case | Request | str, *, standard: str = "mixed",
    seed: int = 0,
) -> None:
    """Fails with every verdict that fails, and where no standard says anything.

    `actual`: gradients by name, or grad_input, grad_weight, grad_bias in order.
    `asked` is what `golden` gave, or a line whose operands were drawn by it with the same seed.
    """
    from convgrad.core import standards
    from convgrad.core.operands import Operands
    from convgrad.core.tensor import read_tensor
    from convgrad.lab.judging import runs
    from convgrad.lab.judging.findings import find

    data = asked if isinstance(asked, GoldenData) else golden_data(asked, seed)
    chosen = standards.find_all(standard)
    given = dict(actual) if isinstance(actual, Mapping) else dict(zip(_NAMES, actual, strict=False))
    tensors = Operands(data.grad_output, data.input, data.weight)
    sums = runs.golden(data.plan, tensors)
    partner = runs.partner(data.plan, tensors) if any(s.needs_partner for s in chosen) else None
    failing = []
    for step in data.plan.steps:
        name, exact = step.result.value, sums[step.result]
        if given.get(name) is None:
            failing.append(f"{name}: is missing")
            continue
        values = read_tensor(name, given[name]).values()
        if values.shape != exact.shape:
            failing.append(f"{name}: has shape {values.shape}, not {exact.shape}")
            continue
        found = find(
            name, values, exact, step.stored_as, chosen, resolution=runs.resolution_of(step),
            precision=runs.precision_of(data.plan, step), expected=runs.as_planned(step, exact),
            partner=None if partner is None else runs.values_of(step, partner),
        )
        if all(j.passed is None for j in found.judged):
            failing.append(f"{name}: no verdict: {'; '.join(j.why for j in found.judged)}")
        wrong = [j for j in found.judged if j.passed is False]
        failing += [f"{name} fails {j.standard} ({j.date}): {j.why}; {j.limits}" for j in wrong]
        worst = found.worst[:3] if wrong else ()
        failing += [f"  worst at {list(i)}: {a:.9g}, expected {g:.9g}" for i, a, g, _ in worst]
    unwanted = [n for n in _NAMES if given.get(n) is not None and n not in {s.result.value for s in data.plan.steps}]
    failing += [f"{name}: is not wanted by the call" for name in unwanted]
    if failing:
        raise AssertionError("\n".join([data.line, *failing, f"reproduce: convgrad plan '{data.line}'"]))


# ---- what pytest calls ---------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Names the marker."""
    config.addinivalue_line(
        "markers", "convgrad(*files_or_lines, sets='', dtype='fp32', product=None): a test per case, as `convgrad_case`"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for every case the markers name, those nearest to the function first."""
    markers = list(metafunc.definition.iter_markers("convgrad"))
    if "convgrad_case" not in metafunc.fixturenames:
        if any(mark.name == "convgrad" for mark in metafunc.definition.own_markers):
            raise _misused(metafunc, "takes no argument `convgrad_case`, so no case would reach it")
        return
    found = [case for marker in markers for case in _cases(metafunc, marker)]
    if markers:
        chosen = [case for case in found if case.enabled]
        metafunc.parametrize("convgrad_case", chosen, ids=[case.name for case in chosen])


_KEYWORDS = ("sets", "dtype", "product")


def _cases(metafunc: pytest.Metafunc, marker: pytest.Mark) -> list[Case]:
    from convgrad.lab.cases import adversarial, files
    from convgrad.lab.cases.case import product_key

    unknown = [name for name in marker.kwargs if name not in _KEYWORDS]
    if unknown:
        raise _misused(metafunc, f"the marker has no {unknown[0]!r}; it has {', '.join(_KEYWORDS)}")
    product, sets = marker.kwargs.get("product"), marker.kwargs.get("sets", "")
    names = [w.strip() for w in (sets.split(",") if isinstance(sets, str) else map(str, sets))]
    if not marker.args and not any(names):
        raise _misused(metafunc, "the marker names no case file, no line and no set")
    found: list[Case] = []
    try:
        for source in marker.args:
            found += files.read(_beside(metafunc, source))
        for name in filter(None, names):
            found += adversarial.cases(name, marker.kwargs.get("dtype", "fp32"), product or "cpu")
        key = None if product is None else product_key(product)
    except ValueError as error:
        raise pytest.UsageError(f"convgrad: {error}") from None
    return [case.moved(key, None) for case in found]


def _misused(metafunc: pytest.Metafunc, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"convgrad: {metafunc.function.__name__}: {why}")


def _beside(metafunc: pytest.Metafunc, source: object) -> str:
    """A problem line as it is; a file beside the test where it is not found from here."""
    text = str(source)
    near = metafunc.definition.path.parent / text
    return str(near) if " " not in text and near.is_file() else text


@pytest.fixture
def golden() -> Any:
    """`golden(case_or_line, seed=0)`: operands and expected gradients."""
    return golden_data
