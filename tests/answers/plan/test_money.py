"""Money: by hand."""

import pytest

from kvcalc.answers.plan.money import ApiPrice, break_even
from kvcalc.formulas.cost import usd_per_request
from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401

LINE = "plan llama-3.1-8b --gpu l40s -tp 1 -q fp8 --kv-cache-dtype auto --price 2 --isl 1000 --osl 200 --tpot 50ms"


def test_a_month_is_730_hours_and_shared_by_the_users(cli: Cli) -> None:  # noqa: F811
    (one,) = cli(f"{LINE} --users 80 --json").result["candidates"]
    assert one["usd_per_hour"] == 2 * one["gpus"]
    assert one["usd_per_month"] == one["money"]["usd_per_month"] == 730 * one["usd_per_hour"]
    assert one["money"]["usd_per_user_month"] == pytest.approx(one["usd_per_month"] / 80)
    assert one["money"]["utilization"] == 1


def test_kinds_of_token_add_up_to_the_bill(cli: Cli) -> None:  # noqa: F811
    """1,000 tokens in, of which 400 cached, and 200 out: cached ones are a part of the input, not on top."""
    (one,) = cli(f"{LINE} --users 80 --prefix-hit 400 --json").result["candidates"]
    kinds, month = one["money"]["usd_per_million_tokens"], one["money"]
    hit = 400 // 16 * 16  # whole blocks
    each = (1000 - hit) * kinds["input"] + hit * kinds["cached_input"] + 200 * kinds["output"]
    assert each / 1e6 == pytest.approx(month["usd_per_request"])
    assert month["usd_per_request"] * month["requests_per_month"] == pytest.approx(month["usd_per_month"])


def test_a_third_of_the_load_makes_tokens_three_times_as_dear(cli: Cli) -> None:  # noqa: F811
    (full,) = cli(f"{LINE} --requests-per-day 864000 --json").result["candidates"]
    (peaky,) = cli(f"{LINE} --requests-per-day 288000 --peak-factor 3 --json").result["candidates"]
    assert peaky["usd_per_hour"] == full["usd_per_hour"]
    ratio = peaky["money"]["usd_per_million_tokens"]["output"] / full["money"]["usd_per_million_tokens"]["output"]
    assert ratio == pytest.approx(3)
    assert peaky["money"]["requests_per_month"] == pytest.approx(288_000 * 730 / 24)


@pytest.mark.parametrize(
    "usd_per_hour, usd_per_request, most, expected",
    [
        (36, 0.01, 4, (1, 1)),  # 36 $/h over 1 ¢: 3,600 requests an hour; the second, at 4/s, is paid off by 2/s
        (36, 0.01, 1.5, (1, 2)),  # the second is added at 1.5/s and paid off at 2/s; the third at 3/s, at once
        (36, 0.01, 1.25, (1, 4)),  # R are paid off at R/s and added at 1.25 (R - 1): at once from the fifth on
        (36, 0.01, 0.9, (None, None)),  # 0.9/s never pay for a replica
        (36, 0, 4, (None, None)),
    ],
)
def test_break_even(
    usd_per_hour: float, usd_per_request: float, most: float, expected: tuple[float | None, float | None]
) -> None:
    assert break_even(usd_per_hour, usd_per_request, most) == pytest.approx(expected)


def test_the_api_in_the_answer(cli: Cli) -> None:  # noqa: F811
    """0.50 $ and 1.50 $ a million: 1,000 in and 200 out are 0.0008 $."""
    (one,) = cli(f"{LINE} --users 80 --api-price input=0.5,output=1.5 --json").result["candidates"]
    api, month = one["money"]["api"], one["money"]
    assert api["usd_per_request"] == pytest.approx(0.0008)
    assert api["usd_per_month"] == pytest.approx(0.0008 * month["requests_per_month"])
    assert api["saved_usd_per_month"] == pytest.approx(api["usd_per_month"] - month["usd_per_month"])
    assert api["cheaper"] == ("own" if api["saved_usd_per_month"] > 0 else "api")
    replica = one["usd_per_hour"] / one["replicas"]
    assert api["break_even_requests_per_s"] == pytest.approx(replica / 3600 / 0.0008)


def test_cached_tokens_cost_what_the_api_says() -> None:
    prices = ApiPrice(input=1, cached=0.1, output=4)
    assert usd_per_request(1, 4, 600, 200) + 400 * 0.1e-6 == pytest.approx(0.00144)
    assert prices.cached == 0.1


@pytest.mark.parametrize("prices", ["0.5", "input=1", "input=1,output=2,output=3", "input=a,output=1", "in=1,output=2"])
def test_prices_that_are_not_understood_are_refused(cli: Cli, prices: str) -> None:  # noqa: F811
    assert_refused(cli(f"{LINE} --users 80 --api-price {prices}"))
