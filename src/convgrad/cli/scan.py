"""`convgrad scan`: what each product says to a model's convolutions."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convgrad.cli import outputs
from convgrad.core import products
from convgrad.core.request import CONFORMANCES, DEFAULT_CONFORMANCE, MATH_NAMES, Request
from convgrad.lab.cases.case import product_key
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, UsageError, folded, print_json

if TYPE_CHECKING:
    from torch import nn

_HELP = """\
Lists every convolution of a model and what each product says to its backward call: accepted, computed in fewer bits,
or refused, with the rule and a way out. The model runs on the meta device: nothing is computed or allocated. One that
asks for values on the way (`Tensor.item()`) runs on real tensors with --device cpu.

  convgrad scan networks:resnet50 --input 1,3,224,224
  convgrad scan networks:Video --input 2,3,16,112,112 --product A2 --dtype bf16
  convgrad scan model.onnx --input 1,3,224,224 --page scan.html
  convgrad scan path/to/networks.py:resnet50 --input 1,3,224,224

MODEL is `module:name` or `path/to/file.py:name` (a module of torch.nn, a class or a function that makes one; the
current directory is searched first), or an ONNX file. Exit code 3 when a product refuses a call.
"""

MODEL_DEVICE: dict[str, Any] = {
    "choices": ("meta", "cpu"), "default": "meta",
    "help": "run on shapes alone, or on real tensors for a model that asks for values",
}  # fmt: skip
"""The option --device of verbs that run a model."""


def add_command(subparsers: Any) -> None:
    """Adds the verb `scan`."""
    parser = subparsers.add_parser(
        "scan", help="find a PyTorch model's convolutions and what each product says", description=_HELP
    )
    parser.add_argument("model", metavar="MODEL", help="module:name, path/to/file.py:name, or an ONNX file")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="N,C,H,W", type=shape_of,
                        help="shape of an input; once per positional input")  # fmt: skip
    parser.add_argument("--product", "-p", action="append", metavar="NAME",
                        help=f"products to ask, separated by commas (default {','.join(products.ONE_OF_EACH)}; known: "
                        f"{', '.join(products.KEYS)})")  # fmt: skip
    parser.add_argument("--math", choices=MATH_NAMES, help="cubeMathType (default: what allow_hf32 stands for)")
    parser.add_argument("--no-hf32", action="store_true", help="the device's allow_hf32 switch turned off")
    parser.add_argument("--dtype", help="as if the model were converted first: bfloat16, float16 ...")
    parser.add_argument("--device", **MODEL_DEVICE)
    parser.add_argument("--conformance", choices=CONFORMANCES, default=DEFAULT_CONFORMANCE,
                        help="which reading of the contract (default: %(default)s)")  # fmt: skip
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write the JSON to a file too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write an HTML page too")
    parser.set_defaults(run=_run)


def shape_of(text: str) -> tuple[int, ...]:
    """`1,3,224,224` as numbers."""
    try:
        shape = tuple(int(n) for n in text.replace("x", ",").split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"a shape is positive numbers such as 1,3,224,224, got {text!r}")
    return shape


def _run(arguments: argparse.Namespace) -> int:
    from convgrad.torch.scanning import Answer, scan

    outputs.look_at((arguments.output, arguments.page), (arguments.model, arguments.model.rpartition(":")[0]))
    asked = [product_key(name) for text in arguments.product or [] for name in text.split(",") if name]
    names = asked or list(products.ONE_OF_EACH)
    is_file = arguments.model.endswith(".onnx")
    model = arguments.model if is_file else _model(arguments.model, arguments.device)
    inputs = None if is_file and not arguments.input else arguments.input[0] if is_file else tuple(arguments.input)
    if not is_file and not inputs:
        raise UsageError("give the shape of the model's input: --input 1,3,224,224")
    found = scan(
        model, inputs, names, math=arguments.math, allow_hf32=not arguments.no_hf32, dtype=arguments.dtype,
        conformance=arguments.conformance, device=arguments.device,
    )
    if arguments.output is not None:
        found.write_json(arguments.output)
    if arguments.page is not None:
        found.write_page(arguments.page)
    if arguments.json:
        print_json(found.as_dict())
    else:
        print(folded(say(str(found)), "    "))
    return ExitCode.REFUSED if found.count(Answer.REFUSED) else ExitCode.PASS


def convolutions_of(model: str, inputs: list[tuple[int, ...]], device: str) -> list[Request]:
    """The backward requests of a model's convolutions, on the CPU's own rules."""
    from convgrad.torch.scanning import scan

    if not inputs:
        raise UsageError("give the shape of the model's input: --input 1,3,224,224")
    found = scan(_model(model, device), tuple(inputs), ["cpu"], device=device)
    return [one.request for one in found if one.request is not None]


def _model(text: str, device: str) -> nn.Module:
    """The module `module:name` or `file.py:name` stands for, made on the device."""
    import torch
    from torch import nn

    module_name, _, path = text.rpartition(":")
    if not module_name or not path:
        raise UsageError(f"a model is written module:name or path/to/file.py:name, got {text!r}")
    found = _imported(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(f"{module_name} has no {path}")
        found = getattr(found, name)
    if isinstance(found, nn.Module):
        return found
    if not callable(found):
        raise UsageError(f"{text} is neither a torch.nn.Module nor something that makes one")
    try:
        with torch.device(device):
            made = found()
    except Exception as error:
        raise UsageError(f"{text} cannot be made without arguments on the device {device}: {error}") from error
    if not isinstance(made, nn.Module):
        raise UsageError(f"{text} made a {type(made).__name__}, not a torch.nn.Module")
    return made


def _imported(name: str) -> Any:
    """A module by its name or by its file; its own directory is searched for what it imports."""
    file = Path(name) if name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise UsageError(f"{file}: no such file")
    directory = "" if file is None else str(file.parent)
    sys.path.insert(0, directory)
    try:
        return importlib.import_module(name if file is None else file.stem)
    except ImportError as error:
        raise UsageError(f"cannot import {name}: {error}") from error
    except Exception as error:
        raise UsageError(f"cannot import {name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(directory)
