"""List prices: what an hour of one accelerator costs on demand, from several sellers, dated.

Prices move by tens of percent in months and differ by 2 to 5 times between sellers of the same part, so the range is
always shown with its date, and an old one with a warning.
"""

from datetime import date
from functools import cache
from typing import Any

from kvcalc import clock
from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.specs.base import Source
from kvcalc.specs.dates import first_day
from kvcalc.specs.gpu import GpuSpec, Price

STALE_DAYS = 90


def price_of(gpu: GpuSpec) -> Price | None:
    """The spec's own price, else the list price of its name: lowest, median and highest over sellers. None: unknown.

    >>> from kvcalc.catalog.gpus import load_gpu
    >>> price_of(load_gpu("a10g")).source
    'on-demand list price of AWS'
    """
    if gpu.price is not None:
        return gpu.price
    offers: dict[str, float] = _table()["usd_per_hour"].get(gpu.name, {})
    if not offers:
        return None
    names = ", ".join(offers)
    return Price(
        low_usd_per_hour=min(offers.values()),
        median_usd_per_hour=_median(sorted(offers.values())),
        high_usd_per_hour=max(offers.values()),
        date=max(source.date or "" for source in price_sources(gpu).values()),
        source=f"on-demand list price of {names}" if len(offers) == 1 else f"median on-demand list price of {names}",
        sellers=len(offers),
    )


def _median(ordered: list[float]) -> float:
    """The middle one, or the mean of the middle two. (`statistics` would cost a hundredth of the whole start.)"""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def price_sources(gpu: GpuSpec) -> dict[str, Source]:
    """Where each seller's price was read, by seller."""
    sellers = _table()["sellers"]
    return {name: Source(**sellers[name]) for name in _table()["usd_per_hour"].get(gpu.name, {})}


def price_age_days(price: Price, today: date | None = None) -> int:
    """Days since the price was read; a date without a day counts from its first.

    >>> price_age_days(Price(low_usd_per_hour=1, median_usd_per_hour=1, high_usd_per_hour=1, date="2026-06", source=""),
    ...     date(2026, 7, 1))
    30
    """
    return ((today or clock.today()) - first_day(price.date)).days


def price_warning(price: Price, today: date | None = None) -> str | None:
    """What to say of a price older than 90 days; None while it is fresh."""
    age = price_age_days(price, today)
    if age <= STALE_DAYS:
        return None
    return f"the newest list price is from {price.date}, {age} days ago: give today's with --price"


@cache
def _table() -> dict[str, Any]:
    return read_toml(data_dir("gpu_specs") / "prices.toml", "GPU prices")
