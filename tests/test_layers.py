"""Layers import downwards only."""

import ast
from pathlib import Path

import convgrad

ROOT = Path(convgrad.__file__).parent
LAYERS = (
    {"status", "dtypes", "products", "standards"},
    {"geometry", "rounding", "layouts", "arrays", "result_memory", "tensor", "metrics"},
    {"request", "problem_line", "problem", "rules"},
    {"precision", "planning"},
    {"engines"},
)
DOORS = len(LAYERS)


def layer_of(module: str) -> int:
    """The layer of a module below `convgrad`; whatever is in no lower layer is a door."""
    return next((i for i, names in enumerate(LAYERS) if module.split(".")[0] in names), DOORS)


def imports(path: Path):
    """Modules of this package that a file imports anywhere, late imports included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("convgrad.") for a in node.names if a.name.startswith("convgrad."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "convgrad":
            inner = node.module.removeprefix("convgrad").lstrip(".")
            yield from ([inner] if inner else [a.name for a in node.names])


def test_every_module_imports_only_from_its_own_layer_and_below():
    """A rule does not know who asks, an engine does not know what a product is."""
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if module == "__init__":
            continue
        wrong += [f"{module} -> {other}" for other in imports(path) if layer_of(other) > layer_of(module)]
    assert not wrong, wrong


def test_the_lowest_layer_needs_the_standard_library_only():
    """Words can be read without NumPy."""
    for name in LAYERS[0]:
        path = ROOT / f"{name}.py"
        if path.exists():
            names = {n.name.split(".")[0] for node in ast.walk(ast.parse(path.read_text("utf-8")))
                     if isinstance(node, ast.Import) for n in node.names}
            assert not names & {"numpy", "ml_dtypes"}, path.name
