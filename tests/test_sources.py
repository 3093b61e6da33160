"""Every public function of the rooms that count and time says where its rule stands, and in what unit it answers.

`Source:` and `Unit:` stand in the function's docstring, or in its file's for all of it. What a source is, a reader
judges; that one is named, and is no empty word, is checked here. (`tests/formulas/test_docstrings.py` asks more of
formulas.)
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvcalc

ROOT = Path(kvcalc.__file__).parent
ROOMS = ("counting", "timing", "engines")
QUANTITIES = {"int", "float", "Fraction", "Quantity", "Times", "ByteRange", "Estimate"}
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))


def said(name: str, *docstrings: str | None) -> str:
    """What follows `name:` in the first docstring that has such a line."""
    found = (re.search(rf"^ *{name}: *(.+)$", text or "", flags=re.M) for text in docstrings)
    return next((match[1].strip() for match in found if match), "")


def is_quantity(annotation: ast.expr | None) -> bool:
    """Whether there are numbers among what a function returns."""
    if annotation is None:
        return False
    return bool(QUANTITIES.intersection(re.findall(r"\w+", ast.unparse(annotation))))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_name_their_source_and_unit(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    whole = ast.get_docstring(tree)
    for function in public_functions(tree):
        own = ast.get_docstring(function)
        assert own, f"{function.name} says nothing"
        assert len(said("Source", own, whole)) > 8, f"{function.name}: Source:"
        if is_quantity(function.returns):
            assert said("Unit", own, whole), f"{function.name}: Unit:"


def test_a_bare_function_is_found() -> None:
    tree = ast.parse('def f() -> tuple[int, str]:\n    """Six."""\n\ndef _g() -> int: ...\n')
    assert [function.name for function in public_functions(tree)] == ["f"]
    assert is_quantity(next(public_functions(tree)).returns)
    assert said("Source", "Six.", None) == ""
