"""Gradients on a `distributed` cluster: the same bits for any number of workers, within their memory, after a loss."""

import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import convgrad.dask
from convgrad import Request, plan
from convgrad.core.partition import Limits, partition
from convgrad.lab.scaleout import memory_per_worker
from dask_problems import limits, random_problem, stored

pytestmark = pytest.mark.filterwarnings("ignore::convgrad.dask.Rechunked")


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread and 500 MB each."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="500MB", dashboard_address=None) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def peak_bytes() -> int:
    """The most memory this process ever had. (`ru_maxrss` would count its parent's: it outlives fork and exec.)"""
    (peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_same_bits_on_any_number_of_workers(workers):
    """One, two and four workers give the bytes of the synchronous scheduler."""
    expected = [stored(g) for g in dask.compute(*random_problem(2), scheduler="sync")]
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        assert [stored(g) for g in dask.compute(*random_problem(5))] == expected


def test_same_bits_in_worker_processes(client):
    """Plans and blocks travel between processes without changing a bit."""
    expected = [stored(g) for g in dask.compute(*random_problem(2), scheduler="sync")]
    assert [stored(g) for g in dask.compute(*random_problem(3))] == expected


def test_same_bits_with_the_process_scheduler():
    """dask's own process pool needs no cluster."""
    expected = [stored(g) for g in dask.compute(*random_problem(2), scheduler="sync")]
    assert [stored(g) for g in dask.compute(*random_problem(2), scheduler="processes", num_workers=2)] == expected


def test_a_killed_worker_changes_nothing(client, tmp_path):
    """SIGKILL to a worker in the middle: what it held is computed again, and the result has the same bytes."""
    rng = np.random.default_rng(9)
    values = rng.standard_normal((40, 4, 8, 8), "f4")
    weight = rng.standard_normal((4, 4, 3, 3), "f4")

    def load(chunk, block_info=None):
        Path(tmp_path, f"{os.getpid()}-{block_info[0]['chunk-location'][0]}").touch()
        time.sleep(0.04)
        return chunk

    with limits(Limits(2100, 4000, 1 << 30)):
        chunks = convgrad.dask.chunks("conv n40 c4>4 i8x8 k3x3 p1")["input"]
        assert len(chunks[0]) == 40
        expected = dask.compute(*convgrad.dask.conv_backward(values, values, weight, padding=1), scheduler="sync")
        slow = da.from_array(values, chunks=chunks).map_blocks(load, dtype="f4")
        gradients = convgrad.dask.conv_backward(slow, values, weight, padding=1)
    futures = client.compute(list(gradients))
    victim = next(iter(client.run(os.getpid).values()))
    while len(list(tmp_path.iterdir())) < 12:
        time.sleep(0.01)
    os.kill(victim, signal.SIGKILL)
    assert [stored(g) for g in client.gather(futures)] == [stored(g) for g in expected]
    loads = list(tmp_path.iterdir())
    assert any(p.name.startswith(f"{victim}-") for p in loads), "the victim had not worked yet"
    client.wait_for_workers(2)
    assert victim not in client.run(os.getpid).values()


class Files:
    """A place to store blocks in: one file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __setitem__(self, index, block) -> None:
        np.save(self.directory / "-".join(str(axis.start) for axis in index), block)


def within_memory(client: Client, line: str) -> int:
    """Runs a problem of ones, whose gradients are counts of ties, and gives the most memory a worker had."""
    request = Request.parse(line)
    chunks = convgrad.dask.chunks(line)
    go, x = (da.ones(getattr(request, n).shape, chunks=chunks[n], dtype="f4") for n in ("grad_output", "input"))
    weight = np.ones(request.weight.shape, "f4")
    gradients = convgrad.dask.conv_backward(go, x, weight, padding=1)
    with TemporaryDirectory() as directory:
        stores = da.store(gradients.input, Files(Path(directory)), compute=False, lock=False)
        _, grad_weight, grad_bias = dask.compute(stores, gradients.weight, gradients.bias)
        assert len(os.listdir(directory)) == gradients.input.npartitions
    samples, _, height, width = x.shape
    assert (grad_bias == samples * height * width).all()
    assert (grad_weight[:, :, 1, 1] == samples * height * width).all()
    assert (grad_weight[:, :, 0, 0] == samples * (height - 1) * (width - 1)).all()
    return max(client.run(peak_bytes).values())


def test_data_larger_than_a_workers_memory(client, tmp_path):
    """0.8 GB through two workers of 500 MB each: done, and never more than the formula says."""
    line = "conv n16 c8>8 i1024x1024 k3x3 p1"
    client.restart()  # memory a process once had never leaves its peak
    peak = within_memory(client, line)
    stated = memory_per_worker(partition(plan(Request.parse(line))), threads=1).total
    assert peak < stated < 500e6


@pytest.mark.slow
@pytest.mark.skipif("CONVGRAD_SCALEOUT" not in os.environ, reason="half a minute: `make scaleout`")
def test_four_gigabytes_through_workers_of_one_and_a_half():
    """4.3 GB through two workers of 1.5 GB each: done, and never more than the formula says."""
    line = "conv n64 c32>32 i512x512 k3x3 p1"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="1.5GB", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        peak = within_memory(client, line)
    print(f"4.3 GB through 1.5 GB per worker: peak {peak / 1e6:.0f} MB per worker")
    stated = memory_per_worker(partition(plan(Request.parse(line))), threads=1).total
    assert peak < stated < 1.5e9
