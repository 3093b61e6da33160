"""The constants of memory.toml, chosen by version."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.engines.memory.budget import ByteRange
from kvcalc.engines.versions import Version, parse_version
from kvcalc.specs.base import Assumption
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


def newer_than_read(engine: str, version: Version) -> tuple[Assumption, ...]:
    """Said of a version whose rules nobody has read yet."""
    newest = str(constants(engine)["newest"])
    if version <= (*parse_version(newest)[:2], 10**4):
        return ()
    why = f"version {'.'.join(map(str, version))} is newer than the last whose rules were read"
    return (Assumption(name="rules", value=newest, why=why),)


def gib_range(row: dict[str, float]) -> ByteRange:
    """A row's low, value and high, from GiB."""
    return ByteRange(low=int(row["low"] * GIB), value=int(row["value"] * GIB), high=int(row["high"] * GIB))
