"""The constants of memory.toml, chosen by version."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.engines.memory_budget import ByteRange
from kvcalc.engines.versions import Version, parse_version
from kvcalc.units import GIB


@cache
def constants(engine: str) -> dict[str, Any]:
    """Everything memory.toml says of one engine."""
    with open(Path(__file__).with_name("memory.toml"), "rb") as file:
        found: dict[str, Any] = tomllib.load(file)[engine]
    return found


def row_for(rows: list[dict[str, Any]], version: Version, **match: object) -> dict[str, Any]:
    """The last row whose `from` is not above the version, among those that match."""
    fitting = [
        row
        for row in rows
        if parse_version(row["from"]) <= version and all(row.get(key) == value for key, value in match.items())
    ]
    return fitting[-1]


def since(version: Version, first: str) -> bool:
    return version >= parse_version(first)


def gib_range(row: dict[str, float]) -> ByteRange:
    """A row's low, value and high, from GiB."""
    return ByteRange(low=int(row["low"] * GIB), value=int(row["value"] * GIB), high=int(row["high"] * GIB))
