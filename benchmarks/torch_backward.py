"""Backward passes of whole networks, PyTorch's own against emulated, alternating; and a scan of 100 layers.

    python benchmarks/torch_backward.py
    python benchmarks/torch_backward.py float32      the networks in float32 alone, half a minute
    python benchmarks/torch_backward.py fast         the convolutions of ResNet-18 and 50, algorithm="fast" on the cpu

Medians of one run, as JSON lines. `torch.set_num_threads(2)`: the engine follows it.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import convgrad
from convgrad.torch import emulate, scan

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import networks  # noqa: E402


def backward_seconds(network, images, emulation):
    """One backward pass, the forward pass not counted."""
    network.zero_grad()
    with emulation:
        loss = network(images).float().square().sum()
        start = time.perf_counter()
        loss.backward()
        return time.perf_counter() - start


class Plain:
    def __enter__(self):
        return None

    def __exit__(self, *exception):
        return None


NETWORKS = (
    ("resnet18", 8, 64), ("densenet121", 8, 64), ("densenet121", 4, 128), ("densenet121", 1, 64),
    ("mobilenet_v2", 8, 128), ("mobilenet_v2", 1, 64),
)  # fmt: skip


def backward(name, size, pixels, dtype, repetitions):
    torch.manual_seed(0)
    network = getattr(networks, name)().to(dtype)
    images = torch.randn(size, 3, pixels, pixels).to(dtype)
    seconds = {"pytorch": [], "emulate": []}
    for repetition in range(repetitions + 1):
        for whose, emulation in (("pytorch", Plain()), ("emulate", emulate("A2", "keep"))):
            spent = backward_seconds(network, images, emulation)
            if repetition:  # the first pass warms up
                seconds[whose].append(spent)
    theirs, ours = (statistics.median(seconds[whose]) for whose in ("pytorch", "emulate"))
    return {
        "what": f"{name} backward n{size} {pixels}x{pixels}", "dtype": str(dtype).removeprefix("torch."),
        "repetitions": repetitions,
        "pytorch_ms": round(theirs * 1e3, 1), "emulate_ms": round(ours * 1e3, 1), "ratio": round(theirs / ours, 2),
        "pytorch_min_ms": round(min(seconds["pytorch"]) * 1e3, 1),
        "emulate_min_ms": round(min(seconds["emulate"]) * 1e3, 1),
    }  # fmt: skip


CONVOLUTION = "ConvolutionBackward0"


def convolution_seconds(network, images, emulation):
    """The time of the convolutions alone in one backward pass of a training step."""
    network.zero_grad()
    with emulation:
        loss = network(images).square().sum()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            loss.backward()
    return sum(event.cpu_time_total for event in seen.key_averages() if event.key == CONVOLUTION) * 1e-6


def fast_convolutions(name, size, pixels, repetitions):
    """PyTorch's convolution gradients in a backward pass against the engine's with fewer multiplications."""
    torch.manual_seed(0)
    network, images = getattr(networks, name)(), torch.randn(size, 3, pixels, pixels)
    seconds = {"pytorch": [], "direct": [], "fast": []}
    for repetition in range(repetitions + 1):
        for algorithm, taken in seconds.items():
            emulation = Plain() if algorithm == "pytorch" else emulate("cpu", "keep", algorithm=algorithm)
            spent = convolution_seconds(network, images, emulation)
            if repetition:
                taken.append(spent)
    found = {algorithm: statistics.median(taken) for algorithm, taken in seconds.items()}
    return {
        "what": f"{name} convolutions backward n{size} {pixels}x{pixels}", "repetitions": repetitions,
        **{f"{algorithm}_ms": round(spent * 1e3, 1) for algorithm, spent in found.items()},
        "pytorch_by_fast": round(found["pytorch"] / found["fast"], 2),
        "direct_by_fast": round(found["direct"] / found["fast"], 2),
    }  # fmt: skip


def hundred_layers():
    with torch.device("meta"):
        model = networks.deep()
    wall, cpu = time.perf_counter(), time.process_time()
    found = scan(model, (2500, 64, 256, 256))
    return {
        "what": "scan of 100 layers", "rows": len(found), "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }  # fmt: skip


def main():
    torch.set_num_threads(2)
    if sys.argv[1:] == ["scan"]:
        print(json.dumps(hundred_layers()), flush=True)
        return
    if sys.argv[1:2] == ["fast"]:
        for name, size, pixels in (("resnet18", 8, 224), ("resnet50", 8, 224), ("resnet18", 32, 224)):
            print(json.dumps(fast_convolutions(name, size, pixels, 3)), flush=True)
        return
    info = convgrad.engine_info()
    print(json.dumps({"engine": info.engine, "isa": info.isa, "torch": torch.__version__}), flush=True)
    for name, size, pixels in NETWORKS:
        print(json.dumps(backward(name, size, pixels, torch.float32, 15)), flush=True)
    if sys.argv[1:2] == ["float32"]:
        return
    print(json.dumps(backward("resnet18", 8, 64, torch.bfloat16, 5)), flush=True)
    subprocess.run([sys.executable, __file__, "scan"], check=True)  # a process of its own: its memory is its own


if __name__ == "__main__":
    main()
