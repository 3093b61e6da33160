"""Dates of evidence: a day, or a month or a year where a source says no more."""

from datetime import date
from typing import Annotated

from kvcalc.specs.constraints import Checked


def first_day(text: str) -> date:
    """The first day that a date can mean.

    Raises:
        ValueError: no ISO date, or no day of the calendar.

    >>> first_day("2026-06"), first_day("2024-02-29")
    (datetime.date(2026, 6, 1), datetime.date(2024, 2, 29))
    """
    parts = text.split("-")
    if [len(part) for part in parts] != [4, 2, 2][: len(parts)]:
        raise ValueError("write the date as 2026, 2026-06 or 2026-06-18")
    return date.fromisoformat("-".join((*parts, "01", "01")[:3]))


def _checked(text: str) -> str:
    first_day(text)
    return text


PartialDate = Annotated[str, Checked(_checked)]
