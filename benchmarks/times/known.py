"""Constants that the benchmarks know beside the shipped ones: engines that no command has, ranges of single kernels."""

import tomllib
from pathlib import Path
from typing import Any

from times.points import Point

from kvcalc.timing.engine_profiles import FILE, Profile, resolved
from kvcalc.timing.ranges import Spread, Timed, kinds, spreads

ENGINES = Path(__file__).with_name("engines.toml")
RANGES = Path(__file__).with_name("ranges.toml")
# What a task's time is the time of.
TIMED: dict[str, Timed] = {
    "tpot": "decode", "decode": "decode", "static": "decode", "saturated": "decode", "tuned": "decode",
    "ttft": "first-token", "alone": "prompt", "prompts": "prompt",
}  # fmt: skip

Tables = list[dict[str, Any]]


def tables(path: Path, name: str) -> Tables:
    """The tables of a data file."""
    return list(tomllib.loads(path.read_text(encoding="utf-8"))[name])


def shipped_tables() -> Tables:
    """Profiles of the commands and of the benchmarks."""
    return tables(FILE, "profile") + tables(ENGINES, "profile")


def known_profiles() -> tuple[Profile, ...]:
    return resolved(shipped_tables())


def known_ranges() -> dict[str, Spread]:
    return {table["kind"]: Spread(**table) for table in tables(RANGES, "range")} | spreads()


def kinds_of(point: Point, known: tuple[Profile, ...]) -> tuple[str, ...]:
    """Names of a point's range, the most special first, as the commands look for them."""
    if point.prepared.task not in TIMED:
        return (point.prepared.task,)
    machine = point.setting.machine(next(one for one in known if one.name == point.profile))
    return kinds(machine, point.setting.routed, TIMED[point.prepared.task])


def range_of(point: Point, known: tuple[Profile, ...], ranges: dict[str, Spread]) -> Spread:
    """The range of a point."""
    return next(ranges[kind] for kind in kinds_of(point, known) if kind in ranges)
