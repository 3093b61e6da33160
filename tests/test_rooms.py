"""The import table: who may import whom. A room that reaches up is a design that fights back; change the design."""

import ast
from pathlib import Path

import pytest

import kvcalc

PACKAGE = Path(__file__).parents[1] / "kvcalc"
BELOW = {
    "errors": set(),
    "clock": set(),
    "formulas": {"formulas"},
    "units": {"errors"},
    "specs": {"errors", "units"},
    "catalog": {"errors", "clock", "units", "specs"},
    "counting": {"errors", "specs", "formulas"},
    "engines": {"errors", "units", "specs", "formulas", "counting"},
    "timing": {"errors", "specs", "formulas", "counting"},
    "simulator": {"errors", "units", "specs", "formulas", "counting", "engines", "timing", "catalog"},
    "results": {"errors", "units", "specs"},
    "render": {"errors", "units", "results"},
    "__main__": {"cli"},
}
BELOW["answers"] = set(BELOW) - {"render", "__main__"}
BELOW["executor"] = BELOW["answers"] | {"answers"}
BELOW["cli"] = BELOW["executor"] | {"executor", "render", "__init__"}
BELOW["api"] = BELOW["__init__"] = BELOW["answers"] | {"answers", "api"}
# Outside packages, and the only rooms (or files) that may use them.
OUTSIDE = {
    "typer": {"cli"},
    "rich": {"render", "cli"},
    "huggingface_hub": {"catalog/hub/fetch.py"},
    "torch": {"executor"},
    "triton": {"executor"},
    "safetensors": {"executor"},
}
# Single files that may import one module more than their room.
ALSO = {"timing/machine.py": {"kvcalc.catalog.kernels"}}
# What is larger than it should be. The lists may only become shorter.
KERNELS = {"executor/kernels.py", "executor/kernels_glue.py"}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    """Every module that a file imports: a name that `kvcalc` itself offers is of the module that it comes from."""
    names: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            for alias in node.names:
                if alias.name == "kvcalc":
                    names |= {_home(name) for name in _attributes(tree, alias.asname or "kvcalc")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            if node.module == "kvcalc":
                names |= {_home(alias.name) for alias in node.names}
    return names


def _home(name: str) -> str:
    """The module behind `from kvcalc import name`, or `kvcalc.name`."""
    if (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists():
        return f"kvcalc.{name}"
    return kvcalc._HOME.get(name, "kvcalc")


def _attributes(tree: ast.AST, name: str) -> set[str]:
    """What a file takes of a module by its name: `kvcalc.size` is size."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


@pytest.mark.parametrize("text, found", [
    ("import kvcalc\nkvcalc.size(1)", "kvcalc.api.commands"),
    ("import kvcalc as k\nk.load_gpu('l4')", "kvcalc.api.files"),
    ("from kvcalc import KvcalcError", "kvcalc.errors"),
    ("from kvcalc import answers", "kvcalc.answers"),
    ("def f():\n    from kvcalc import clock", "kvcalc.clock"),
    ("from kvcalc import __version__", "kvcalc"),
    ("import kvcalc.catalog.gpus", "kvcalc.catalog.gpus"),
])  # fmt: skip
def test_no_import_hides(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(text)
    assert found in imported_modules(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_keep_the_table(path: Path) -> None:
    room = room_of(path)
    assert room in BELOW, f"{room} is not a room of the house"
    for name in imported_modules(path):
        if name == "kvcalc" or name.startswith("kvcalc."):
            other = name.split(".")[1] if "." in name else "__init__"
            if name in ALSO.get(path.relative_to(PACKAGE).as_posix(), ()):
                continue
            # every room may read the version from the package itself
            assert other in BELOW[room] | {room} or other == "__init__", f"{path.name} imports {name}"
        for package, rooms in OUTSIDE.items():
            if name == package or name.startswith(package + "."):
                file = path.relative_to(PACKAGE).as_posix()
                assert room in rooms or file in rooms, f"{file} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_are_small(path: Path) -> None:
    """No file above 300 lines, no function above 40 lines of code or six parameters; kernels aside."""
    name, text = path.relative_to(PACKAGE).as_posix(), path.read_text()
    lines = text.splitlines()
    assert len(lines) <= 300
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or name in KERNELS:
            continue
        place = f"{name}:{node.name}"
        assert _code(node, lines) <= 40, f"{place} has {_code(node, lines)} lines of code"
        given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        count = len([one for one in given if one.arg not in ("self", "cls")])
        assert count <= 6, f"{place} has {count} parameters"


def test_no_file_of_tests_or_benchmarks_is_long() -> None:
    for folder in ("tests", "benchmarks"):
        for path in (PACKAGE.parent / folder).rglob("*.py"):
            assert len(path.read_text().splitlines()) <= 300, path


def _code(node: ast.FunctionDef, lines: list[str]) -> int:
    """Lines of the body without its docstring, blank lines and comments."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    numbers = {number for part in body for number in range(part.lineno, (part.end_lineno or part.lineno) + 1)}
    return sum(1 for number in numbers if lines[number - 1].strip() and not lines[number - 1].strip().startswith("#"))
