"""The import table: who may import whom. A room that reaches up is a design that fights back; change the design."""

import ast
from pathlib import Path

import pytest

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
BELOW["__init__"] = BELOW["answers"] | {"answers"}
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
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            if node.module == "kvcalc":
                names |= {
                    f"kvcalc.{alias.name}"
                    for alias in node.names
                    if (PACKAGE / alias.name).exists() or (PACKAGE / f"{alias.name}.py").exists()
                }
    return names


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
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
