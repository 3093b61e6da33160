"""The month's money: the bill, for each user, for each kind of token, and against an API's prices.

GPUs are paid by the hour whether or not somebody asks. At a utilization of 40 % they serve 40 % of what they could at
the planned load, and each token costs 2.5 times as much.

An API costs p for each request, a replica b an hour and carries at most X requests a second within the targets. R of
them are cheaper from R · b / (3600 p) requests a second on. As the load grows a replica is added at each multiple of X,
and the bill steps up with it: own GPUs stay cheaper once the step no longer reaches above the API's line.
"""

from math import ceil
from typing import NamedTuple

from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.errors import KvcalcError
from kvcalc.formulas.cost import usd_per_request
from kvcalc.results.performance import Serving, TokenPrices
from kvcalc.results.plan import ApiComparison, Money
from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import usd

HOURS_A_MONTH = 730  # 365 days of 24 hours, over 12
KINDS = ("input", "cached", "output")


class ApiPrice(Frozen):
    """USD per million tokens; cached ones cost as much as others where nothing is said of them."""

    input: float
    cached: float
    output: float

    def of_request(self, serving: Serving) -> float:
        """USD of one request: cached tokens are a part of its prompt."""
        fresh = serving.input_len - serving.prefix_hit
        return usd_per_request(self.input, self.output, fresh, serving.output_len) + usd_per_request(
            self.cached, 0, serving.prefix_hit, 0
        )


def api_price(text: str | None) -> ApiPrice | None:
    """What `--api-price` says.

    Raises:
        KvcalcError: a kind of token that is not priced so, or no price for input or output.

    >>> api_price("input=0.5,output=1.5").cached
    0.5
    """
    if text is None:
        return None
    found: dict[str, float] = {}
    hint = "write input=0.50,cached=0.05,output=1.50, in USD per million tokens"
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if name not in KINDS or not equals or name in found:
            raise KvcalcError(f"--api-price: {part.strip()[:40]!r} is not understood", hint=hint)
        found[name] = usd(value, "--api-price")
    if "input" not in found or "output" not in found:
        raise KvcalcError("--api-price needs the prices of input and output", hint=hint)
    return ApiPrice(input=found["input"], cached=found.get("cached", found["input"]), output=found["output"])


def utilization(settings: PlanSettings) -> float:
    """The mean load over the planned one: as given, else by the peak factor of a day, else all of it."""
    if settings.utilization is not None:
        return settings.utilization
    return 1 / (settings.peak_factor or 1)


class Rates(NamedTuple):
    """Requests a second: of all replicas at the planned load, and of one replica at the most that it carries."""

    planned: float
    most: float
    replicas: int


def money(
    settings: PlanSettings, api: ApiPrice | None, serving: Serving, usd_per_hour: float | None, rates: Rates
) -> Money | None:
    """What a deployment's month costs; None without a price.

    Args:
        settings: how busy it is, and for how many users.
        api: prices to compare with.
        serving: of one replica at its share of the planned load.
        usd_per_hour: of all replicas.
        rates: what they carry.
    """
    if usd_per_hour is None:
        return None
    busy, month = utilization(settings), HOURS_A_MONTH * usd_per_hour
    requests = rates.planned * 3600 * HOURS_A_MONTH * busy
    kinds = serving.usd_per_million_tokens
    return Money(
        usd_per_month=month,
        utilization=busy,
        requests_per_month=requests,
        usd_per_request=month / requests,
        usd_per_user_month=None if settings.users is None else month / settings.users,
        usd_per_million_tokens=None if kinds is None else _dearer(kinds, 1 / busy),
        api=None if api is None else _against(api.of_request(serving), month, requests, rates),
    )


def _dearer(kinds: TokenPrices, factor: float) -> TokenPrices:
    cached = kinds.cached_input
    return TokenPrices(
        input=factor * kinds.input,
        cached_input=None if cached is None else factor * cached,
        output=factor * kinds.output,
    )


def _against(usd_per_request: float, month: float, requests: float, rates: Rates) -> ApiComparison:
    bought = usd_per_request * requests
    first, always = break_even(month / HOURS_A_MONTH / rates.replicas, usd_per_request, rates.most)
    return ApiComparison(
        usd_per_request=usd_per_request,
        usd_per_month=bought,
        saved_usd_per_month=bought - month,
        cheaper="own" if month < bought else "api",
        break_even_requests_per_s=first,
        always_from_requests_per_s=always,
    )


def break_even(usd_per_hour: float, usd_per_request: float, most_per_s: float) -> tuple[float | None, float | None]:
    """Loads from which own GPUs are cheaper: with one replica, and for good.

    Args:
        usd_per_hour: of one replica.
        usd_per_request: of the API.
        most_per_s: requests a second that one replica carries.

    At 3,600 USD an hour and 1 USD a request a replica is paid off by 1 request a second. Carrying 1.5, the second
    replica is paid off by 2 only, and the third by the 3 at which it is added.

    >>> break_even(3600, 1, 1.5), break_even(3600, 1, 0.9), break_even(3600, 1, 4)
    ((1.0, 2.0), (None, None), (1.0, 1.0))
    """
    if usd_per_request <= 0:
        return None, None
    pays = usd_per_hour / (3600 * usd_per_request)
    if pays > most_per_s:
        return None, None
    if pays == most_per_s:
        return pays, None
    # The replica that is added at (R - 1) X pays off at R · pays: at once from this R on.
    at_once = max(1, ceil(most_per_s / (most_per_s - pays) - 1e-9))
    return pays, max(1, at_once - 1) * pays
