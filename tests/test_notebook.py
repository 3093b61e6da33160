"""The notebook runs from top to bottom, and each of its checks holds."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs").rglob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells, 1):
        assert not cell["outputs"], "outputs are not kept: they would go stale"
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
