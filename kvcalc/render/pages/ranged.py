"""Figures that may have a range, in few words: the value, or the value and its ends."""

from kvcalc.results.base import Range
from kvcalc.results.simulate import Value
from kvcalc.units import format_count, format_seconds


def best(value: Value) -> float | None:
    """The value alone."""
    return value.value if isinstance(value, Range) else value


def seconds(value: Value, short: bool = False) -> str:
    """A time; `short`: without its range."""
    found = best(value)
    if found is None:
        return "-"
    if short or not isinstance(value, Range):
        return format_seconds(found)
    return f"{format_seconds(found)} ({format_seconds(value.low)} to {format_seconds(value.high)})"


def count(value: Value) -> str:
    """A number of things, without its range."""
    found = best(value)
    return "-" if found is None else format_count(found)


def number(value: Value) -> str:
    """Three digits."""
    found = best(value)
    if found is None:
        return "-"
    return f"{found:.3g}" if not isinstance(value, Range) else f"{found:.3g} ({value.low:.3g} to {value.high:.3g})"


def share(value: Value) -> str:
    """Per cent, without a range."""
    found = best(value)
    return "-" if found is None else f"{found:.1%}"
