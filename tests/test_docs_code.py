"""The Python that the documentation shows runs, and prints what it says."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_shown_python_runs(path: Path) -> None:
    found = doctest.testfile(str(path), module_relative=False)
    assert found.attempted
    assert not found.failed
