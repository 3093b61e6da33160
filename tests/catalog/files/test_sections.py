"""A table found by its header is the table that parsing the whole file gives, for every table of the package."""

import tomllib
from pathlib import Path

import pytest

import kvcalc.catalog
from kvcalc.catalog.files.sections import find_table

FILES = [
    path for path in sorted(Path(kvcalc.catalog.__file__).parent.glob("config/*/*.toml")) if "\n[" in path.read_text()
]


def test_the_package_has_such_files() -> None:
    assert len(FILES) > 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_table_is_found_whole(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tables = {name: table for name, table in tomllib.loads(text).items() if isinstance(table, dict)}
    for name, table in tables.items():
        assert find_table([text], name) == table
    assert find_table([text], "no such table") is None
