"""No dead code: every public function and method is named somewhere in the package besides its own definition.

What only tests call works out a figure that no command gives. Two kinds stand apart, each checked to be what it says:
the formulas of the literature, which are a library of their own, and what benchmarks alone call.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import kvcalc

PACKAGE = Path(kvcalc.__file__).parent
BENCHMARKS = PACKAGE.parent / "benchmarks"
FOR_BENCHMARKS = {
    "forget_rows", "forget_files",  # constants are fitted anew within a process
    "static_batch_time", "saturated_tokens_per_s",  # what MLPerf and offline runs measured
    "with_acceptance",
}  # fmt: skip
FOR_TESTS = {"attend_reference"}  # what the executor's kernels are compared with
# Called by the libraries whose classes they override.
OVERRIDES = {"format_options", "format_commands"}


def trees(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def names(tree: ast.AST) -> Counter[str]:
    """Every word of a program that may mean a function: names, attributes, imports, and texts that getattr takes."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found[node.value] += 1
    return found


def public(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Functions and classes of a module, and the methods of its classes."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        for one in (node, *inside):
            if isinstance(one, ast.FunctionDef | ast.ClassDef) and not one.name.startswith("_"):
                yield one


def unnamed(found: dict[Path, ast.Module]) -> set[str]:
    used: Counter[str] = sum((names(tree) for tree in found.values()), Counter())
    return {
        one.name
        for path, tree in found.items()
        if path.parent.name != "formulas"
        for one in public(tree)
        if not used[one.name] - names(one)[one.name]
    }


def test_every_public_function_is_reached() -> None:
    assert unnamed(trees(PACKAGE)) == FOR_BENCHMARKS | FOR_TESTS | OVERRIDES


def test_what_is_for_benchmarks_is_called_there() -> None:
    if not BENCHMARKS.is_dir():  # an installed package has none
        return
    called: Counter[str] = sum((names(tree) for tree in trees(BENCHMARKS).values()), Counter())
    assert {name for name in FOR_BENCHMARKS if not called[name]} == set()


def test_the_test_can_fail() -> None:
    dead = ast.parse("def used():\n    return other()\n\n\ndef dead():\n    return dead() + used()\n")
    assert unnamed({Path("a.py"): dead}) == {"dead"}
    method = ast.parse("class A:\n    def read(self): ...\n    def dead(self): ...\n\n\nA().read()\n")
    assert unnamed({Path("b.py"): method}) == {"dead"}
