"""Verdicts at their very limits, and the literal numbers a report shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from convgrad.cli.command_line import main
from convgrad.cli.compare import _rechecks
from convgrad.cli.run import exit_code
from convgrad.core import standards
from convgrad.core.metrics import errors, measure
from convgrad.core.request import Request
from convgrad.lab.cases import files
from convgrad.lab.cases.case import Case, make
from convgrad.lab.judging.bootstrap import Recheck, recheck
from convgrad.lab.judging.judge import Judged, Measured, judge
from convgrad.lab.report.page import _percent, _time, collect, page, share, worst
from convgrad.lab.run import case_run, tables, workers
from convgrad.lab.run.case_run import Settings, guarded
from convgrad.rules.check import check

HEAD = {"settings": {"standards": ["mixed"], "seed": 0, "engine": "native"}}


# ---- judging -------------------------------------------------------------------------------------------------


def measured(**changes) -> Measured:
    """Four exact elements whose metrics are then set by hand."""
    found = errors(np.ones(4), np.ones(4), "float16")
    partner = changes.pop("partner", None)
    metrics = replace(measure(found), **changes)
    return Measured(found, metrics, True, None if partner is None else replace(measure(found), **partner))


def passes(standard: str, precision: str = "float16", **changes):
    return judge(standards.find(standard), precision, measured(**changes)).passed


def test_mere_and_mare_fail_at_their_limit():
    """Both limits are exclusive: T itself fails, the number below it passes."""
    t = 2.0**-10
    below = float(np.nextafter(t, 0))
    assert passes("mere-mare", mere=below) and not passes("mere-mare", mere=t)
    assert passes("mere-mare", mare=10 * t * (1 - 2**-50)) and not passes("mere-mare", mare=10 * t)


@pytest.mark.parametrize("ours, theirs, good", [(0, 0, True), (2, 0, True), (3, 0, False), (4, 2, True), (5, 2, False)])
def test_small_values_against_a_partner_without_any(ours, theirs, good):
    """At most twice the partner's count, which counts as one when it is none."""
    assert passes("small-values", small_value_errors=ours, partner={"small_value_errors": theirs}) is good


def shifted(share_off: int, total: int, off: float) -> Measured:
    """`share_off` of `total` ones are off by a relative error."""
    a = np.ones(total)
    a[:share_off] += off
    found = errors(a, np.ones(total), "float16")
    return Measured(found, measure(found), False)


def test_shares_at_their_limits():
    """99 % within tolerance passes, one element less does not; one element beyond cap and 32 ULP fails alone."""
    row = standards.find("mixed")
    assert judge(row, "float16", shifted(1, 100, 2**-7)).passed
    assert not judge(row, "float16", shifted(2, 100, 2**-7)).passed
    assert not judge(row, "float16", shifted(1, 1000, 0.25)).passed, "far beyond the cap"
    close = standards.find("close")
    assert judge(close, "float16", shifted(1, 1000, 2**-7)).passed
    assert not judge(close, "float16", shifted(2, 1000, 2**-7)).passed
    assert judge(standards.find("torch"), "float16", shifted(0, 9, 1)).passed
    assert not judge(standards.find("torch"), "float16", shifted(1, 9, 2**-7)).passed


def test_an_interval_fails_only_above_one_altogether():
    """The lower bound decides; 1 itself passes, whatever the median."""
    assert Recheck(200, 1.5, 1.0, 2.0).passed and not Recheck(200, 1.5, 1.0 + 2**-50, 2.0).passed
    assert Recheck(200, 1.5, 0.9, 9.0).passed


def test_the_bounds_of_the_bootstrap():
    """Half the ratios 0.5, half 2: the 95 % interval of the median reaches from one to the other."""
    found = recheck([0.5, 2.0] * 100)
    assert (found.low, found.median, found.high, found.passed) == (0.5, 1.25, 2.0, True)
    high = recheck([1.5] * 190 + [0.5] * 10)
    assert (high.low, high.high, high.passed) == (1.5, 1.5, False)
    ramp = recheck(list(np.linspace(1, 3, 201)))
    assert 1.6 < ramp.low < 1.9 < ramp.median < 2.1 < ramp.high < 2.4, "a median of 201 is known to a tenth or two"


def test_one_ratio_that_fails_again_fails_the_benchmark():
    """Of the ratios above their limits, every one must pass its re-check."""
    j = Judged("double-benchmark:L1", "2026", "float16", False, "ratios", "limits", (9.0, 2.0, 1.0))
    good, bad = Recheck(200, 1.0, 0.9, 1.1), Recheck(200, 2.0, 1.9, 2.1)
    assert case_run._settled(j, [good, good]).passed
    assert not case_run._settled(j, [good, bad]).passed and not case_run._settled(j, [bad, good]).passed


def test_the_worst_ratio_of_each_seed_is_drawn_again():
    """Of one line under many seeds the largest of the three ratios counts: two good ones do not hide a bad one."""
    j = Judged("double-benchmark:L1", "2026", "float16", False, "ratios", "limits", (0.5, 3.0, 0.5))
    compared = [SimpleNamespace(line="a line", findings=SimpleNamespace(name="grad_input", judged=(j,)))] * 200
    (found,) = _rechecks(compared).values()
    assert (found.median, found.low, found.passed) == (3.0, 3.0, False) and not _rechecks(compared[1:])


def test_only_ratios_above_their_limit_are_drawn_again(monkeypatch):
    """MARE fails and passes again, RMSE was within its limit though its interval lies above 1: the case passes."""
    case = make("x", "conv n1 c2>2 i5x5 k3x3 fp16 on=A2", seed=1)
    _, plan = case.request, case_run.decide(case.request).plan
    tensors = case.tensors(1)
    results, _ = case_run.runs.subject(plan, tensors)
    (f, *_) = case_run.judge_results(plan, tensors, results, Settings(("double-benchmark:L1",)))
    j = replace(f.judged[0], passed=False, ratios=(9.0, 1.2, 1.2))
    monkeypatch.setattr(case_run, "_ratios", lambda *_: (0.5, 1.2, 1.2))
    again = case_run._rechecked(replace(f, judged=(j,)), plan, case, 1, Settings())
    assert again.judged[0].passed
    monkeypatch.setattr(case_run, "_ratios", lambda *_: (1.2, 0.5, 0.5))
    assert not case_run._rechecked(replace(f, judged=(j,)), plan, case, 1, Settings()).judged[0].passed


def test_the_gravest_outcome_is_the_exit_code():
    """A case that could not be run outranks a failed precision, which outranks a refusal."""
    assert exit_code(Counter({"error": 1, "fail": 5, "refused": 2, "pass": 9})) == 4
    assert exit_code(Counter({"fail": 1, "refused": 2, "pass": 9})) == 1
    assert exit_code(Counter({"refused": 1, "pass": 9})) == 3 and exit_code(Counter({"pass": 9})) == 0


def test_a_case_expected_to_pass_that_is_refused_fails():
    """Expected status 0 is an expectation like any other."""
    refused = make("x", "conv n1 c1>1 i300 k300 fp16 on=A2", expect=0)
    record, _ = case_run.run_case(0, refused, Settings())
    assert record["outcome"] == "fail" and record["message"].startswith("expected status 0, got ")


def test_one_failing_gradient_fails_the_case(monkeypatch):
    """Two good gradients do not outvote a bad one."""
    real = case_run.runs.subject

    def spoiled(plan, tensors, threads=None):
        results, seconds = real(plan, tensors, threads)
        last = list(results)[-1]
        return {k: (v * 2 if k is last else v).astype(v.dtype) for k, v in results.items()}, seconds

    monkeypatch.setattr(case_run.runs, "subject", spoiled)
    record, _ = case_run.run_case(0, make("x", "conv n1 c2>2 i5x5 k3x3 fp16 on=A2", "constant:1"), Settings())
    assert record["outcome"] == "fail" and [f["passed"] for f in record["results"]] == [True, True, False]


def test_a_case_beyond_the_memory_is_not_started():
    """It is an error with the numbers, and nothing was computed."""
    record, results = case_run.run_case(0, make("x", "conv n1 c2>2 i5x5 k3x3 fp16 on=A2"), Settings(most_bytes=1000))
    assert record["outcome"] == "error" and "GiB to judge" in record["message"] and not results


# ---- comparing directories -----------------------------------------------------------------------------------


def test_inputs_in_compared_directories_are_not_results(tmp_path, capsys):
    """Two directories whose inputs differ and whose outputs are equal: one result, which passes."""
    for name, number in (("mine", 1.0), ("theirs", 2.0)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "input_0_float32.npy", np.full(4, number, np.float32))
        np.save(tmp_path / name / "output_0_float32.npy", np.ones(4, np.float32))
    assert main(["compare", str(tmp_path / "mine"), str(tmp_path / "theirs"), "--json"]) == 0
    assert [r["name"] for r in json.loads(capsys.readouterr().out)["results"]] == ["output_0_float32.npy"]


def test_roles_go_together_by_number(tmp_path, capsys):
    """output_1 is compared with golden_1, not with golden_0."""
    for role, name in (("output", "mine"), ("golden", "theirs")):
        (tmp_path / name).mkdir()
        for number in (0, 1):
            np.save(tmp_path / name / f"{role}_{number}_float32.npy", np.full(4, number + 1, np.float32))
    assert main(["compare", str(tmp_path / "mine"), str(tmp_path / "theirs")]) == 0
    assert "2 results: 2 pass, 0 fail" in capsys.readouterr().out


def test_a_file_is_not_compared_with_a_directory(tmp_path, capsys):
    """Either way round, in these words; the same elements in another shape are compared."""
    np.save(tmp_path / "a.npy", np.arange(4, dtype=np.float32))
    np.save(tmp_path / "b.npy", np.arange(4, dtype=np.float32).reshape(2, 2))
    for pair in (("a.npy", "."), (".", "a.npy")):
        assert main(["compare", *(str(tmp_path / name) for name in pair)]) == 2
        assert "compare two files, or two directories" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]) == 0


def test_a_golden_directory_judges_bits_and_ratios(tmp_path, capsys):
    """Its inputs give the exact bits and the partner; a directory without results of its cases is an error."""
    line = "conv n1 c2>2 i5x5 k3x3 fp32 math=fp16 on=A2"  # grad_input is rounded to float16 and stored as float32
    golden, run, empty = (str(tmp_path / name) for name in ("golden", "run", "empty"))
    (tmp_path / "empty").mkdir()
    assert main(["golden", line, "-o", golden]) == 0
    assert main(["compare", empty, golden]) == 2
    assert "holds no results of the cases" in capsys.readouterr().err
    files.write(tmp_path / "x.json", files.read(line))
    assert main(["run", str(tmp_path / "x.json"), "--save", run, "-q"]) == 0
    capsys.readouterr()
    judged = {}
    for standard in ("exact", "double-benchmark:L1"):
        main(["compare", run, golden, "--json", "--standard", standard])
        found = json.loads(capsys.readouterr().out)["results"]
        judged[standard] = {j["passed"] for result in found for j in result["judged"]}
        assert len(found) == 3
    assert judged == {"exact": {True}, "double-benchmark:L1": {True}}


def test_raw_files_hold_whole_elements(tmp_path, capsys):
    """Five bytes are no float32 tensor: nothing is cut off in silence."""
    for name in ("output_0_float32.bin", "golden_0_float32.bin"):
        (tmp_path / name).write_bytes(b"\0" * 5)
    assert main(["compare", str(tmp_path / "output_0_float32.bin"), str(tmp_path / "golden_0_float32.bin")]) == 2
    assert "5 bytes are no whole number of float32 elements" in capsys.readouterr().err


def test_golden_data_of_a_seed_and_of_enabled_cases(tmp_path):
    """Another --seed draws other inputs, the same one the same; a disabled case is not written."""
    files.write(tmp_path / "x.json", [replace(ZEROS, seed=None, expect=None, enabled=e) for e in (True, False)])
    found = []
    for name, seed in (("a", "1"), ("b", "2"), ("c", "1")):
        assert main(["golden", str(tmp_path / "x.json"), "-o", str(tmp_path / name), "--seed", seed]) == 0
        found.append(sorted((p.name, p.read_bytes()) for p in (tmp_path / name).rglob("input_*")))
        assert len(json.loads((tmp_path / name / "manifest.json").read_text())["cases"]) == 1
    assert found[0] == found[2] != found[1] and len(found[0]) == 3


# ---- the literal numbers of the page -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record() -> dict:
    return json.loads(json.dumps(guarded(0, make("a case", "conv n1 c2>2 i5x5 k3x3 fp16 on=A2"), Settings())[0]))


def timed(record: dict, index: int, seconds: float, theirs: float, **changes) -> dict:
    return {**record, "index": index, "seconds": seconds, "pytorch_seconds": theirs, **changes}


def test_ratio_and_geometric_mean(record):
    """PyTorch's time over ours: 8 and 0.5 in the rows, 2.00 as their geometric mean."""
    text = page("x", HEAD, [timed(record, 0, 0.001, 0.008), timed(record, 1, 0.004, 0.002)])
    rows = re.findall(r'<tr class="case".*?</tr>', text, re.S)
    assert '<td class="num">8.00</td>' in rows[0] and 'data-r="8"' in rows[0]
    assert '<td class="num">0.50</td>' in rows[1] and 'data-r="0.5"' in rows[1]
    assert "<b>2.00×</b><span>as fast as PyTorch (2 measured)</span>" in text
    assert '<td class="num">1 ms</td>' in rows[0] and "<b>5 ms</b><span>computing</span>" in text


def test_the_worst_of_a_case_is_shown(record):
    """Of three results with mean errors 0.25, 0.75 and 0.5 ULP the row shows 0.75; nothing judged shows a dash."""
    results = [
        {**f, "metrics": {**f["metrics"], "mean_ulp": u, "over_one_ulp": u / 100, "mare": u / 1000}}
        for f, u in zip(record["results"], (0.25, 0.75, 0.5), strict=True)
    ]
    changed = {**record, "results": results}
    assert worst(changed, "mean_ulp") == 0.75
    text = page("x", HEAD, [changed, {**record, "index": 1, "results": []}])
    first, second = re.findall(r'<tr class="case".*?</tr>', text, re.S)
    assert '<td class="num">0.75</td><td class="num">0.75 %</td><td class="num">7.5e-04</td>' in first
    assert '<td class="num">–</td><td class="num">–</td><td class="num">–</td>' in second


@pytest.mark.parametrize("part, whole, said", [
    (9996, 10000, "99.9 %"), (99999, 100000, "99.9 %"), (10000, 10000, "100 %"), (0, 7, "0.0 %"), (1, 3, "33.3 %"),
    (0, 0, "–"), (1, 2, "50.0 %"),
])
def test_a_pass_rate_is_never_rounded_up_to_all(part, whole, said):
    """99.96 % is not 100 %."""
    assert _percent(part, whole) == said


def test_counts_and_outcomes_of_the_page(record):
    """The tiles count every outcome; failing cases are kept first when there are too many."""
    outcomes = ["pass", "fail", "refused", "error", "pass"]
    text = page("x", HEAD, [{**record, "index": i, "outcome": o} for i, o in enumerate(outcomes)])
    for name, count in Counter(outcomes).items():
        assert f'data-only="{name}"><b>{count}</b>' in text
    assert 'data-only=""><b>5</b>' in text and "40.0 %" in text
    many = ({**record, "index": i, "outcome": "fail" if i >= 1600 else "pass"} for i in range(1610))
    found = collect(many)
    assert found.total == 1610 and len(found.shown) == 1500
    assert sum(r["outcome"] == "fail" for r in found.shown) == 10


def test_tables_count_milliseconds(record):
    """Two milliseconds are 2.0 in the table, three of PyTorch's 3.0."""
    (first, *_) = tables.rows(timed(record, 0, 0.002, 0.003))
    row = dict(zip(tables.COLUMNS, first, strict=True))
    assert (row["milliseconds"], row["pytorch_milliseconds"]) == (2.0, 3.0)


@pytest.mark.parametrize("seconds, said", [
    (None, "–"), (5e-6, "5 µs"), (0.0025, "2.5 ms"), (1.5, "1.5 s"), (119.0, "119 s"), (180.0, "3.0 min"),
])
def test_times_are_said_in_their_unit(seconds, said):
    """Micro-, milliseconds, seconds, minutes."""
    assert _time(seconds) == said and share(0) == "0" and share(0.00012) == "0.012 %"


def test_data_cannot_end_its_script_element(record):
    """A message with `</script>` and line separators stays inside the JSON, and reads back."""
    evil = "</script><script>alert(1)</script>\u2028\u2029"
    text = page("x", HEAD, [{**record, "outcome": "fail", "message": evil}])
    data = re.search(r'id="details">(.*?)</script>', text, re.S)[1]
    assert json.loads(data)["0"]["m"] == evil and text.count("<script") == 3 and "\u2028" not in data


# ---- advice and limits ---------------------------------------------------------------------------------------


def test_advice_about_bias_sizes_that_are_ignored():
    """The runtime accepts other bias_sizes and says so; right ones, and no wanted bias, are not spoken of."""
    request = replace(Request.parse("conv n1 c2>3 i5x5 k3x3 fp16 on=A2"), conformance="runtime")
    said = "bias_sizes is not [channels of grad_output]; the runtime ignores it"
    assert said in check(replace(request, bias_sizes=(7,))).advice
    assert said not in check(replace(request, bias_sizes=(3,))).advice
    assert said not in check(replace(request, bias_sizes=(7,), grad_bias=None, output_mask=(True, True, False))).advice


@pytest.mark.parametrize("slack, ok", [
    ((1, 1, 2, 2), True), ((2, 0, 0, 0), False), ((0, 2, 0, 0), False), ((0, 0, 3, 0), False), ((0, 0, 0, 3), False),
    ((0, 0, 2, 2), True), ((1, 1, 0, 0), True),
])
def test_four_elements_of_output_padding_against_two_strides(slack, ok):
    """Stride 2x3 under the runtime's rules: the first two stay below 2, the last two below 3."""
    request = replace(
        Request.parse("tconv n1 c2>2 i4x4 k3x3 s2x3 fp16 on=A2 want=xw"), conformance="runtime", output_padding=slack
    )
    assert (check(request).rule_id != "output_padding.below_stride") is ok


# ---- case files ----------------------------------------------------------------------------------------------


ZEROS = Case("zeros", Request.parse("conv n1 c1>1 i3 k3 fp16 on=A2"), seed=0, expect=0, enabled=False)


def test_zeros_and_disabled_cases_survive_json(tmp_path):
    """Seed 0, expected status 0 and enabled false are values, not their absence."""
    files.write(tmp_path / "x.json", [ZEROS])
    (again,) = files.read(tmp_path / "x.json")
    assert (again.seed, again.expect, again.enabled) == (0, 0, False) and again == ZEROS


def test_zeros_survive_lines(tmp_path):
    """`seed=0 expect=0` are written; a disabled case is a comment."""
    files.write(tmp_path / "x.txt", [replace(ZEROS, enabled=True), ZEROS])
    text = (tmp_path / "x.txt").read_text()
    assert text.splitlines()[1].startswith("# conv ")
    (again,) = files.read(tmp_path / "x.txt")
    assert (again.seed, again.expect, again.enabled) == (0, 0, True)


def test_a_disabled_case_survives_the_kits_table(tmp_path):
    """`is_enabled` goes out and comes back."""
    files.write(tmp_path / "x.csv", [ZEROS, replace(ZEROS, enabled=True)])
    assert [c.enabled for c in files.read(tmp_path / "x.csv")] == [False, True]


def test_a_byte_order_mark_is_no_text(tmp_path):
    """Files that begin with one are read like those that do not."""
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbfconv n1 c1>1 i3 k3 fp16 on=A2   # first\n")
    assert [c.name for c in files.read(tmp_path / "x.txt")] == ["first"]


def test_a_seed_of_zero_is_the_cases_own():
    """Seed 0 does not mean: draw one."""
    assert ZEROS.seed_for(5) == 0 and replace(ZEROS, seed=None).seed_for(5) != replace(ZEROS, seed=None).seed_for(6)


def test_a_refusal_holds_the_value_it_is_about():
    """What was got, not only the sentence: a window of 300."""
    verdict = check(Request.parse("conv n1 c1>1 i300 k300 fp16 on=A2"))
    assert verdict.value is not None and "300" in str(verdict.value)


def test_processes_share_the_cores(monkeypatch):
    """Eight cores, two processes: four engine threads each."""
    seen = []
    monkeypatch.setattr(workers, "cores", lambda: 8)

    class Crew:
        def __init__(self, cases, settings, jobs, save):
            seen.append((settings.threads, jobs))

        def records(self):
            return iter(())

    monkeypatch.setattr(workers, "_Crew", Crew)
    assert list(workers.run_all([], Settings(), 2)) == [] and seen == [(4, 2)]
