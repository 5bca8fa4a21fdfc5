"""`convgrad run` on a cluster: the records of one machine, after losses too."""

import json
import os
import signal
from dataclasses import replace

import dask
import pytest
from distributed import LocalCluster

from convgrad import Request
from convgrad.cli.command_line import main
from convgrad.lab.cases.case import Case
from convgrad.lab.run import cluster as module
from convgrad.lab.run.case_run import ERROR, PASS, Settings, guarded
from convgrad.lab.run.cluster import Cluster, run_batch
from convgrad.text.terminal import ExitCode, UsageError

LINES = [
    "conv n2 c4>6 i9x9 k3x3 p1 fp16 on=A2", "conv n1 c4>4 i8x8 k3x3 s2 fp32 math=hf32 on=A2",
    "tbc n2 c4>6 i12 k3 p1 fp16 on=A2", "conv n1 c4>4 i8x8 k3x3 fp16 math=hf32 on=310",
    "tconv n1 c4>2 i5x5 k3x3 s2 bf16 on=A2",
]  # fmt: skip
CASES = [(i, Case(f"case {i}", Request.parse(LINES[i % len(LINES)]), seed=i)) for i in range(40)]


def plain(record):
    """A record without its times."""
    return {name: value for name, value in record.items() if "seconds" not in name}


@pytest.fixture(scope="module")
def address():
    """Two worker processes; one death is enough for Dask to give a task up."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
    ):
        yield cluster.scheduler_address


def expected(cases):
    settings = Settings(anatomy=False)
    return {index: plain(guarded(index, case, settings)[0]) for index, case in cases}


def test_records_are_those_of_one_machine(address):
    """Forty cases, accepted and refused: the same records, times apart."""
    with Cluster(address, 0) as cluster:
        found = {r["index"]: plain(r) for r in cluster.run(CASES, Settings(anatomy=False))}
        assert cluster.losses() == ""
    assert found == expected(CASES)


def test_a_lost_worker_is_reported_and_its_cases_are_run_again(address):
    """SIGKILL to one of two workers after the first record: nothing is missing, and the loss is told."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 3}), Cluster(address, 0) as cluster:
        cluster._client.run_on_scheduler(_allow, 3)
        records = cluster.run(CASES, Settings(anatomy=False))
        found = [next(records)]
        victim = next(iter(cluster._client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        found += records
        told = cluster.losses()
        cluster._client.run_on_scheduler(_allow, 0)
    assert {r["index"]: plain(r) for r in found} == expected(CASES)
    assert told.startswith("1 workers lost (tcp://") and "again" in told


def _allow(failures, dask_scheduler):
    dask_scheduler.allowed_failures = failures


def deadly(batch, settings, keep):
    """Stands for a case that takes its process down."""
    if any(index == 3 for index, _ in batch):
        os._exit(1)
    return run_batch(batch, settings, keep)


def test_a_case_that_kills_its_worker_fails_alone(address, monkeypatch):
    """The other cases of its batch are run; it becomes a failed record with a reproducer."""
    monkeypatch.setattr(module, "run_batch", deadly)
    with Cluster(address, 0) as cluster:
        cluster._client.wait_for_workers(2)
        found = {r["index"]: r for r in cluster.run(CASES[:8], Settings(anatomy=False))}
    assert sorted(found) == list(range(8))
    assert found[3]["outcome"] == ERROR and "every worker that ran it died" in found[3]["message"]
    assert found[3]["reproduce"].startswith("convgrad run ")
    assert all(found[i]["outcome"] != ERROR for i in found if i != 3)


def test_the_command_saves_what_one_process_saves(address, tmp_path, capsys):
    """`--scheduler`: the same table, exit code, journal and tensors as without."""
    cases = tmp_path / "cases.txt"
    cases.write_text("\n".join(LINES))
    codes = []
    for name, options in (("here", []), ("there", ["--scheduler", address])):
        words = ["run", str(cases), "--save", str(tmp_path / name), "--json", "--quiet", *options]
        codes.append((main(words), [plain(r) for r in json.loads(capsys.readouterr().out)["cases"]]))
    assert codes[0] == codes[1] and codes[0][0] == ExitCode.REFUSED
    saved = [
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.npy")}
        for name in ("here", "there")
    ]
    assert saved[0] == saved[1] and len(saved[0]) == 12
    assert sum(r["outcome"] == PASS for r in codes[1][1]) == 4


def test_wrong_ways_to_run(monkeypatch):
    """No cluster at the address, two ways at once, workers of another version: one line each, exit code 2."""
    monkeypatch.setattr(module, "_TIMEOUT", "1s")
    with pytest.raises(UsageError, match=r"no Dask cluster with workers at tcp://127.0.0.1:1"):
        Cluster("tcp://127.0.0.1:1", 0)
    assert main(["run", LINES[0], "--workers", "2", "--jobs", "2"]) == ExitCode.USAGE


def test_workers_of_another_version_are_refused(address, monkeypatch):
    """Other numbers could come from another version: nothing is run."""
    monkeypatch.setattr("convgrad.__version__", "9.9")
    with Cluster(address, 0) as cluster, pytest.raises(UsageError, match=r"has convgrad .* here it is 9\.9"):
        next(cluster.run(CASES, replace(Settings(), anatomy=False)))
