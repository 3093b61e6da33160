"""The table of logs.toml, compiled.

Source: `logs.toml`: each row names the engine's file and the versions in which it was read
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvcalc.units import BINARY, GIB, MIB

FACTORS = {"gib": GIB, "mib": MIB, "bytes": 1}


class Pattern(NamedTuple):
    engine: str
    key: str
    match: re.Pattern[str]
    source: str
    refusal: str | None
    cache: str | None
    buffer: str | None  # llama.cpp: a buffer of one device, to be summed over devices
    start: bool
    phase: int  # how far the start has come: 1 weights are loaded, 3 the pool is known, 4 what it holds; 0: any time
    opens: bool  # what a start does once: after a later phase it is another start
    example: str
    gives: dict[str, Any]


@cache
def table() -> dict[str, Any]:
    """Everything that logs.toml says."""
    with open(Path(__file__).with_name("logs.toml"), "rb") as file:
        found: dict[str, Any] = tomllib.load(file)
    return found


@cache
def patterns() -> tuple[Pattern, ...]:
    """Its [[pattern]] rows, in their order."""
    return tuple(
        Pattern(
            engine=row["engine"],
            key=row["key"],
            match=re.compile(row["match"], re.IGNORECASE | re.ASCII),  # digits of other scripts are no figures
            source=f"{row['file']} ({row['versions']})",
            refusal=row.get("refusal"),
            cache=row.get("cache"),
            buffer=row.get("buffer"),
            start=row.get("start", False),
            phase=row.get("phase", 0),
            opens=row.get("opens", False),
            example=row["example"],
            gives=row["gives"],
        )
        for row in table()["pattern"]
    )


def values_of(match: re.Match[str]) -> dict[str, str | int | float]:
    """The groups that matched, in base units: `weights__gib` becomes bytes under `weights`.

    Unit: bytes for groups named `__gib`, `__mib`, `__bytes` or `__size`; the others as they are printed

    >>> values_of(re.match(r"(?P<weights__gib>[0-9.]+) GiB", "14.99 GiB"))
    {'weights': 16095389941}
    """
    found: dict[str, str | int | float] = {}
    for group, text in match.groupdict().items():
        if text is None:
            continue
        name, _, unit = group.partition("__")
        value = _value(text.strip(), unit)
        if value is not None and (name == "version" or not _is_garbled(value)):
            found[name] = value
    return found


def _value(text: str, unit: str) -> str | int | float | None:
    if unit == "size":  # "80.04 GiB"
        number, _, prefix = text.partition(" ")
        size = _number(number)
        return None if size is None else int(size * BINARY[prefix[0].upper() + "i"])
    number_found = _number(text)
    if unit:
        return None if number_found is None else int(number_found * FACTORS[unit])
    return text if number_found is None else number_found


def _is_garbled(value: str | int | float) -> bool:
    """Digits that are no number: "1.2.3", of a line that two ranks wrote at once."""
    return isinstance(value, str) and re.fullmatch(r"[\d.,]+", value) is not None


def _number(text: str) -> int | float | None:
    cleaned = text.replace(",", "")
    if re.fullmatch(r"\d{1,18}", cleaned, re.ASCII):
        return int(cleaned)
    if re.fullmatch(r"-?\d{1,12}(\.\d{1,24})?", cleaned, re.ASCII):
        return float(cleaned)
    return None
