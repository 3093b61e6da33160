"""What every report shares: figures that explain themselves, ranges, and the JSON envelope."""

from typing import Any

from kvcalc.specs.base import Assumption, Frozen, Source


class Figure(Frozen):
    """A number that can show its working: `formula` evaluated at `inputs` gives `value`."""

    name: str
    value: float | int | None
    unit: str
    formula: str  # a Python expression in the names of `inputs`, with max, min, floor and ceil
    inputs: dict[str, float | int]
    source: str  # the paper, lesson or engine file that the formula is from


class Range(Frozen):
    """An estimate: the value, and where about 80 % of measurements fall."""

    value: float
    low: float
    high: float


class Report(Frozen):
    """A command's answer. `inputs` echoes what the figures were computed from, resolved."""

    inputs: dict[str, Any]
    result: Any
    figures: tuple[Figure, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    sources: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()
