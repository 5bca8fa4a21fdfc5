"""The files a test kit loads: `convgrad_ttk.py` with the golden functions, `convgrad_atk.py` with the executors.

Both are files of their own, outside the package: the first assigns `__spec__`, which in an importable module is
Python's own. Kits parse `__golden__` and `__spec__` without running the file, so both are literal dicts, and they tell
a NumPy or torch function by how its module's name begins: the file's stem begins with neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from convgrad.text.files import write_text

LEVELS: Mapping[str, Mapping[str, str]] = {
    "kernel": {
        "conv3d_backprop_input_v2": "conv3d_backprop_input_v2",
        "conv3d_backprop_filter_v2": "conv3d_backprop_filter_v2",
    },
    "aclnn": {
        "aclnnConvolutionBackward": "aclnnConvolutionBackward", "aclnnConvTbcBackward": "aclnnConvTbcBackward",
    },
    "e2e": {"torch.ops.aten.convolution_backward": "convolution_backward"},
}
"""The names a kit's cases call, by level, and our function for each."""


def ttk_plugin() -> str:
    """The plug-in of the kit whose case files are CSV."""
    functions = {name: function for level in LEVELS.values() for name, function in level.items()}
    classes = {name: _class_name(function) for name, function in functions.items()}
    lines = [
        '"""Golden functions of convgrad for a test kit: give this file, or its directory, with --plugin.',
        "",
        "The product is the SoC name the kit passes; without one it is CONVGRAD_PRODUCT, else A2.",
        '"""',
        "",
        "from convgrad.golden_functions import (",
        *(f"    {function}," for function in sorted(functions.values())),
        ")",
        "",
        "__golden__ = {",
        *(f'    "{level}": {_literal(names)},' for level, names in LEVELS.items()),
        "}",
    ]
    for name, function in functions.items():
        lines += ["", "", f"class {classes[name]}:", f'    """{name}"""', "", f"    golden = staticmethod({function})"]
    lines += ["", "", f"__spec__ = {_literal(classes)}", ""]
    return "\n".join(lines)


def _class_name(function: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in function.split("_")) + "TestSpec"


def _literal(names: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{key}": "{value}"' for key, value in names.items()) + "}"


ATK_EXECUTOR = '''"""Golden executors of convgrad for a test kit: give this file with -p.

No SoC name is passed: the product is CONVGRAD_PRODUCT, else A2.
"""

# Five names of the kit. Where it keeps them is inferred from operators' published executors, the kit itself is not
# public: if an import fails, take the lines from an executor that your kit runs.
from atk.configs.dataset_config import InputDataset
from atk.configs.results_config import TaskResult
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi
from atk.tasks.backends.lib_interface.acl_wrapper import AclFormat

from convgrad.lab.kits import executor


class ConvgradGolden(BaseApi):
    """What both goldens share: the formats of their tensors."""

    compute = None

    def __init__(self, task_result: TaskResult):
        super().__init__(task_result)

    def __call__(self, input_data: InputDataset, with_output: bool = False):
        return type(self).compute(input_data.kwargs)

    def get_format(self, input_data: InputDataset, index=None, name=None):
        return getattr(AclFormat, "ACL_FORMAT_" + executor.format_of(input_data.kwargs, index, name))


@register("golden_conv_backward")
class GoldenConvBackward(ConvgradGolden):
    """aclnnConvolutionBackward"""

    compute = staticmethod(executor.convolution_backward)


@register("golden_convtbc_backward")
class GoldenConvTbcBackward(ConvgradGolden):
    """aclnnConvTbcBackward"""

    compute = staticmethod(executor.conv_tbc_backward)
'''

KITS = {"ttk": ("convgrad_ttk.py", ttk_plugin), "atk": ("convgrad_atk.py", lambda: ATK_EXECUTOR)}
"""By kit: the file's name and its text."""


def write(kit: str, directory: Path) -> Path:
    """Writes a kit's file; its path."""
    name, made = KITS[kit]
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / name, made())
    return directory / name
