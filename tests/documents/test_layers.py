"""Rooms import downwards only, and there is no ring."""

import ast
from pathlib import Path

import convgrad

ROOT = Path(convgrad.__file__).parent
TREE = Path(__file__).resolve().parents[2]
ORDER = ("text", "core", "rules", "engines", "calls", "doors", "lab", "faces", "generate", "cli")
"""From the bottom: a room imports from itself and from those before it."""
DOORS = {"functional", "aclnn", "torch", "jax", "dask", "ascendc"}
FACES = {"compare", "golden_functions", "pytest_plugin", "report"}
"""Public names for what the lab does."""


def room_of(module: str) -> int:
    """The place in the order of a module below `convgrad`."""
    first = module.split(".")[0]
    room = "doors" if first in DOORS else "faces" if first in FACES else first
    return ORDER.index(room)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def modules():
    """Every module but the package itself, which gathers the public names."""
    found = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}
    return {name: path for name, path in found.items() if name not in ("__init__", "__main__")}


def imports(path: Path, late: bool = True):
    """Modules of this package that a file imports; without `late`, at its top only."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree) if late else tree.body:
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("convgrad.") for a in node.names if a.name.startswith("convgrad."))
        elif isinstance(node, ast.ImportFrom) and node.level:
            here = path.relative_to(ROOT).parts[: -node.level]
            yield from (".".join((*here, *filter(None, [node.module]), a.name)) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "convgrad":
            inner = node.module.removeprefix("convgrad").lstrip(".")
            yield from (f"{inner}.{a.name}".lstrip(".") for a in node.names)


def known(name: str, all_modules) -> str | None:
    """The module a dotted name is or lies in."""
    while name and name not in all_modules:
        name = name.rpartition(".")[0]
    return name or None


def test_every_module_imports_only_from_its_own_room_and_below():
    """A rule does not know who asks, an engine does not know what a product is, a door does not know the lab."""
    all_modules = modules()
    wrong = []
    for module, path in all_modules.items():
        for name in imports(path):
            other = known(name, all_modules)
            if other is not None and room_of(other) > room_of(module):
                wrong.append(f"{module} -> {other}")
    assert not wrong, wrong


TILE_ROOMS = {"device": (), "shared": ("device",), "input": ("device", "shared"), "filter": ("device", "shared")}
"""The rooms of `ascendc` and those each may import from; what stands beside them may import from all."""


def test_the_rooms_of_the_tile_kernels_import_downwards_only():
    """Hardware knows no kernel, what both kernels need knows neither, and no kernel knows the other."""
    wrong = []
    for module, path in modules().items():
        outer, _, inner = module.partition(".")
        room = inner.split(".")[0]
        if outer == "ascendc" and room in TILE_ROOMS:
            for name in imports(path):
                other = name.split(".")
                if other[0] == "ascendc" and other[1:2] not in [[room], *([one] for one in TILE_ROOMS[room])]:
                    wrong.append(f"{module} -> {name}")
    assert not wrong, wrong


def test_the_two_tile_kernels_have_the_same_files():
    """Whoever knows one kernel's folder finds the way in the other."""
    names = {room: sorted(path.stem for path in (ROOT / "ascendc" / room).glob("*.py")) for room in ("input", "filter")}
    assert names["input"] == names["filter"] and len(names["input"]) == 16  # fifteen and __init__


def test_no_ring_of_imports():
    """Modules imported at the top of a file can be put in an order."""
    all_modules = modules()
    edges = {
        module: {known(name, all_modules) for name in imports(path, late=False)} - {None, module}
        for module, path in all_modules.items()
    }
    while edges:
        free = [module for module, others in edges.items() if not others & edges.keys()]
        assert free, f"a ring among {sorted(edges)}"
        for module in free:
            del edges[module]


def test_the_words_need_the_standard_library_only():
    """Statuses, dtypes, products and standards can be read without NumPy."""
    for name in ("status", "dtypes", "products", "standards"):
        tree = ast.parse((ROOT / "core" / f"{name}.py").read_text("utf-8"))
        names = {n.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
        assert not names & {"numpy", "ml_dtypes"}, name


def test_the_engine_knows_no_product():
    """The engine is given finished integers: none of its sources reads the tables of rules, products or precisions."""
    engine = Path(__file__).resolve().parents[2] / "native" / "engine"
    sources = [path for path in engine.rglob("*") if path.suffix in (".cpp", ".h")]
    assert len(sources) > 20
    for path in sources:
        included = "".join(line for line in path.read_text("utf-8").splitlines() if line.startswith("#include"))
        assert not any(table in included for table in ("rules.inc", "products.inc", "precision.inc")), path


def test_building_writes_nothing_into_the_tree():
    """`pip install` builds in a temporary directory, so a read-only tree will do; make keeps objects in build/."""
    assert "build-dir" not in (TREE / "pyproject.toml").read_text("utf-8")
    assert "--config-settings build-dir=" in (TREE / "Makefile").read_text("utf-8")
