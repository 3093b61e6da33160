"""The constants of an engine's memory.toml, chosen by version.

Source: the `evidence` of each row
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.engines.memory.budget import ByteRange
from kvcalc.specs.base import Assumption
from kvcalc.specs.versions import Version, parse_version
from kvcalc.units import GIB


@cache
def memory_constants(engine: str) -> dict[str, Any]:
    """Everything that an engine's memory.toml says."""
    with open(Path(__file__).parents[1] / engine / "memory.toml", "rb") as file:
        return tomllib.load(file)


def version_of(engine: str, text: str | None) -> Version:
    """The version that was asked for; where none was, the newest whose rules were read.

    >>> version_of("vllm", "0.19.1")
    (0, 19, 1)
    """
    return parse_version(memory_constants(engine)["newest"] if text is None else text)


def newer_than_read(engine: str, version: Version) -> tuple[Assumption, ...]:
    """Said of a version whose rules nobody has read yet."""
    newest = str(memory_constants(engine)["newest"])
    if version <= (*parse_version(newest)[:2], 10**4):
        return ()
    why = f"version {'.'.join(map(str, version))} is newer than the last whose rules were read"
    return (Assumption(name="rules", value=newest, why=why),)


def gib_range(row: dict[str, float]) -> ByteRange:
    """A row's low, value and high, from GiB.

    Unit: bytes
    """
    return ByteRange(low=int(row["low"] * GIB), value=int(row["value"] * GIB), high=int(row["high"] * GIB))
