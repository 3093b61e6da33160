"""List prices: ranges in order, dated, and old ones said to be old."""

from datetime import date, timedelta

import pytest

from kvcalc.catalog.gpus import all_gpus, gpu_names, load_gpu
from kvcalc.catalog.prices import _table, price_age_days, price_of, price_sources, price_warning
from kvcalc.specs.base import replace
from kvcalc.specs.from_file import Mistake, from_file
from kvcalc.specs.gpu import Price

MINE = Price(low_usd_per_hour=1, median_usd_per_hour=2, high_usd_per_hour=3, date="2026-01-01", source="my contract")


def test_ranges_are_in_order_and_sourced() -> None:
    priced = 0
    for gpu in all_gpus():
        price = price_of(gpu)
        if price is None:
            continue
        priced += 1
        assert 0 < price.low_usd_per_hour <= price.median_usd_per_hour <= price.high_usd_per_hour < 50, gpu.name
        sources = price_sources(gpu)
        assert len(sources) == price.sellers
        assert price.date == max(source.date or "" for source in sources.values())
        assert price_age_days(price, date(2026, 12, 1)) > 0
    assert priced >= 30


def test_every_row_is_of_a_known_gpu_and_seller() -> None:
    table = _table()
    assert set(table["usd_per_hour"]) <= set(gpu_names())
    assert {name for row in table["usd_per_hour"].values() for name in row} == set(table["sellers"])


# AWS on-demand, us-east-1, in July 2026: p5.48xlarge 55.04, p6-b200.48xlarge 113.9328, p4d.24xlarge 21.957642 USD
# for eight; g6.xlarge 0.8048 for one.
@pytest.mark.parametrize(
    "name, usd", [("h100-sxm", 55.04 / 8), ("b200-sxm", 113.9328 / 8), ("a100-40g-sxm", 21.957642 / 8), ("l4", 0.8048)]
)
def test_a_machine_divided_by_its_gpus(name: str, usd: float) -> None:
    assert _table()["usd_per_hour"][name]["AWS"] == pytest.approx(usd, abs=1e-4)


def test_the_median_is_over_sellers() -> None:
    # H100 SXM: Verda 2.29, RunPod 2.69, Nebius 2.95, Lambda 3.99, AWS 6.88, Azure 12.29, Vertex 12.63
    price = price_of(load_gpu("h100-sxm"))
    assert price is not None
    assert (price.low_usd_per_hour, price.median_usd_per_hour, price.sellers) == (2.29, 3.99, 7)


def test_the_specs_own_price_wins() -> None:
    assert price_of(replace(load_gpu("h100-sxm"), price=MINE)) == MINE


def test_no_seller_no_price() -> None:
    assert price_of(load_gpu("gb10")) is None


@pytest.mark.parametrize("day, warned", [(date(2026, 4, 1), False), (date(2026, 4, 2), True)])
def test_older_than_90_days_is_said(day: date, warned: bool) -> None:
    assert (price_warning(MINE, day) is not None) == warned


@pytest.mark.parametrize("text, days", [("2026", 364), ("2026-12", 30), ("2026-12-31", 0)])
def test_a_vague_date_counts_from_its_first_day(text: str, days: int) -> None:
    assert price_age_days(replace(MINE, date=text), date(2026, 12, 31)) == days


def test_a_price_can_be_given_on_every_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four years of days: 0.1 refused the 30th and the 31st."""
    from kvcalc.answers.deployed import Deployed
    from kvcalc.answers.question import ask

    question = ask("llama-3-8b", {"gpu": "h100-sxm", "price_usd_per_hour": "2.50"})
    days = [date(2024, 1, 1) + timedelta(days=n) for n in range(4 * 365 + 1)]
    assert date(2024, 2, 29) in days
    for day in days:
        monkeypatch.setattr("kvcalc.clock.today", lambda day=day: day)
        price = Deployed(question).price
        assert price is not None
        assert (price.date, price_age_days(price)) == (day.isoformat(), 0)


@pytest.mark.parametrize("text", ["2026-13", "2026-02-30", "26-01-01", "2026-1-1", "yesterday", "2026-01-01-01", ""])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(Mistake, match=r"^date: "):
        from_file(Price, {**vars(MINE), "date": text})
