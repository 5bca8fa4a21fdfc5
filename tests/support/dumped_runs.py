"""Dumps of PyTorch runs in the documented form, made here."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F


class Recorder:
    """Writes a dump in the tool's form: entries in order, tensors as .pt files beside them."""

    def __init__(self, directory: Path, tensors: bool = True):
        self.directory, self.tensors, self.data = directory / "step0" / "proc7", tensors, {}
        self.construct, self.stack, self.counts = {}, {}, {}
        (self.directory / "dump_tensor_data").mkdir(parents=True)

    def tensor(self, value, name):
        if value is None:
            return None
        plain = value.detach().clone()
        record = {"type": "torch.Tensor", "dtype": str(plain.dtype), "shape": list(plain.shape),
                  "Max": plain.float().max().item(), "Min": plain.float().min().item(),
                  "Mean": plain.float().mean().item(), "Norm": plain.float().norm().item(),
                  "requires_grad": value.requires_grad}  # fmt: skip
        if self.tensors:
            record["data_name"] = f"{name}.pt"
            torch.save(plain, self.directory / "dump_tensor_data" / f"{name}.pt")
        return record

    def plain(self, value):
        return [self.plain(v) for v in value] if isinstance(value, (tuple, list)) else \
            {"type": type(value).__name__, "value": value}  # fmt: skip

    def argument(self, value, name):
        return self.tensor(value, name) if value is None or isinstance(value, torch.Tensor) else self.plain(value)

    def call(self, api, *args, prefix="Functional", layer=None, spoil=None, **keywords):
        """Runs a function forward and backward and records both; `spoil` changes the recorded gradients."""
        n = self.counts.setdefault((prefix, api), 0)
        self.counts[prefix, api] += 1
        entry = f"{prefix}.{api}.{n}"
        leaves = [a for a in (*args, *keywords.values()) if isinstance(a, torch.Tensor)]
        out = getattr(torch if prefix == "Torch" else F, api)(*args, **keywords)
        gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(n), dtype=out.dtype)
        wanted = [t for t in leaves if t.requires_grad]
        found = dict(zip(map(id, wanted), torch.autograd.grad(out, wanted, gradient), strict=True))
        grads = [found.get(id(t)) for t in leaves] + [None] * (3 - len(leaves))
        grads = grads if spoil is None else spoil(gradient, grads)
        self.data[f"{entry}.forward"] = {
            "input_args": [self.argument(a, f"{entry}.forward.input.{i}") for i, a in enumerate(args)],
            "input_kwargs": {k: self.argument(v, f"{entry}.forward.input.{k}") for k, v in keywords.items()},
            "output": [self.tensor(out, f"{entry}.forward.output.0")],
        }  # fmt: skip
        self.data[f"{entry}.backward"] = {
            "input": [self.tensor(gradient, f"{entry}.backward.input.0")],
            "output": [self.tensor(g, f"{entry}.backward.output.{i}") for i, g in enumerate(grads)],
        }
        if layer:
            self.construct[f"{entry}.forward"] = f"Module.{layer}.Conv2d.forward.{n}"
            self.data[f"Module.{layer}.Conv2d.forward.{n}"] = {"input_args": [], "input_kwargs": {}, "output": []}
        return out

    def write(self, **changes):
        document = {"task": "tensor" if self.tensors else "statistics", "level": "L1", "framework": "pytorch",
                    "dump_data_dir": "/elsewhere", "data": self.data, **changes}  # fmt: skip
        (self.directory / "dump.json").write_text(json.dumps(document), "utf-8")
        (self.directory / "construct.json").write_text(json.dumps(self.construct), "utf-8")
        (self.directory / "stack.json").write_text(json.dumps(self.stack), "utf-8")
        return self.directory.parents[1]


def drawn(*shape, grad=True, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype).requires_grad_(grad)


def network(directory, tensors=True):
    """Five kinds of convolution between calls that are none, modules around two of them."""
    r = Recorder(directory, tensors)
    r.call("conv1d", drawn(2, 3, 16, grad=False), drawn(4, 3, 3), drawn(4), (1,), (1,), (1,), 1)
    r.call("conv2d", drawn(2, 4, 4, 4), drawn(6, 4, 3, 3), None, (2, 2), (1, 1), (1, 1), 1, layer="layer1.0.conv2")
    r.data["Functional.relu.0.forward"] = {"input_args": [], "input_kwargs": {}, "output": []}
    r.call("conv2d", drawn(2, 6, 2, 2), drawn(6, 2, 3, 3), drawn(6), (1, 1), (1, 1), (1, 1), 3, layer="forward.g2")
    r.call("conv_transpose2d", drawn(2, 6, 3, 3), drawn(6, 2, 2, 2), drawn(4), (2, 2), (0, 0), (1, 1), 2, (2, 2))
    r.call("conv3d", drawn(2, 4, 1, 4, 4), drawn(2, 4, 1, 3, 3), drawn(2), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1)
    return r
