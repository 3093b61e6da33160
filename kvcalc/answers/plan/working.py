"""The working behind a plan: each deployment that is shown, from its latencies to the month's bill."""

from collections.abc import Iterator

from kvcalc.answers.explain import explain, figure_of
from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.money import HOURS_A_MONTH, utilization
from kvcalc.answers.plan.search import Found
from kvcalc.answers.serving_working import serving_working
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Figure
from kvcalc.results.plan import ApiComparison, Candidate

SOURCE = "docs/how-to/plan.md"


def label(place: int, one: Candidate) -> str:
    """How a deployment is called among all that are shown."""
    return f"{place}. {one.replicas} × {one.layout} {one.deployment['gpu']}, {one.weights}/{one.cache}"


def candidate_working(found: Found, one: Candidate, asked: Asked) -> Iterator[Figure]:
    """Latencies of a replica, throughput of all, room, and money."""
    speed = Performance(found.fleet.deployed, concurrency=one.concurrency)
    yield from serving_working(speed)
    yield from _latencies(one, asked)
    yield from _throughput(found, one, asked)
    yield from _money(one, asked)


def _latencies(one: Candidate, asked: Asked) -> Iterator[Figure]:
    """The whole answer at each end of both ranges, and by how much a target is missed."""
    length = asked.workload.output_len or 1
    for end in ("value", "low", "high"):
        tpot = 0.0 if one.tpot_s is None else getattr(one.tpot_s, end)
        inputs = {"ttft_s": getattr(one.ttft_s, end), "output_len": length, "tpot_s": tpot}
        name = "whole answer" if end == "value" else f"whole answer, {end}"
        yield figure_of(name, "ttft_s + (output_len - 1) * tpot_s", inputs, "s", SOURCE)
    fewer = () if one.next_cheaper is None else one.next_cheaper.misses
    for place, miss in enumerate((*one.misses, *fewer)):
        inputs = {"have_s": miss.have_s, "target_s": miss.have_s / (1 + miss.by)}
        name = f"{miss.target} missed by" + (" with fewer replicas" if place >= len(one.misses) else "")
        yield figure_of(name, "have_s / target_s - 1", inputs, "1", SOURCE)


def _throughput(found: Found, one: Candidate, asked: Asked) -> Iterator[Figure]:
    rate = one.requests_per_s / one.replicas
    yield figure_of("requests per second", "replicas * requests_per_s_of_one",
                    {"replicas": one.replicas, "requests_per_s_of_one": rate}, "1/s", SOURCE)  # fmt: skip
    for end in ("value", "low", "high"):
        name = "throughput of all" if end == "value" else f"throughput of all, {end}"
        inputs = {"replicas": one.replicas, "tokens_per_s_of_one": getattr(one.output_tokens_per_s, end) / one.replicas}
        yield figure_of(name, "replicas * tokens_per_s_of_one", inputs, "tokens/s", SOURCE)
    if found.kept:
        most = found.fleet.at(found.fleet.largest()).carried
        inputs = {"carried_by_one": most, "replicas": one.replicas, "load": asked.demand.total}
        yield figure_of("room", "carried_by_one * replicas / load - 1", inputs, "1", SOURCE)


def _money(one: Candidate, asked: Asked) -> Iterator[Figure]:
    """The hour, the month, each user's part, and what a million tokens cost."""
    money, price, cost = one.money, one.price, one.usd_per_million_output_tokens
    if money is None or price is None or one.usd_per_hour is None:
        return
    bill = {"usd_per_gpu_hour": price.median_usd_per_hour, "gpus": one.gpus_billed}
    yield figure_of("USD an hour", "usd_per_gpu_hour * gpus", bill, "USD", SOURCE)
    hour = {"hours": HOURS_A_MONTH, "usd_per_hour": one.usd_per_hour}
    yield figure_of("USD a month", "hours * usd_per_hour", hour, "USD", SOURCE)
    if asked.settings.users is not None:
        inputs = {"usd_per_month": money.usd_per_month, "users": asked.settings.users}
        yield figure_of("USD a month for each user", "usd_per_month / users", inputs, "USD", SOURCE)
    rates = {"value": "value", "low": "high", "high": "low"}  # the dearer, the slower
    for end, rate in rates.items() if cost is not None else ():
        name = "USD per million output tokens, all replicas" + ("" if end == "value" else f", {end}")
        yield explain(usd_per_million_tokens, name, tokens_per_s=getattr(one.output_tokens_per_s, rate), **bill)
    if (kinds := money.usd_per_million_tokens) is not None:
        busy = utilization(asked.settings)
        for kind in ("input", "cached_input", "output"):
            if (usd := getattr(kinds, kind)) is not None:
                inputs = {"usd_at_the_planned_load": usd * busy, "utilization": busy}
                name = f"USD per million {kind.replace('_', ' ')} tokens at this use"
                yield figure_of(name, "usd_at_the_planned_load / utilization", inputs, "USD", SOURCE)
    requests = {"requests_per_s": money.requests_per_month / (3600 * HOURS_A_MONTH * money.utilization),
                "hours": HOURS_A_MONTH, "utilization": money.utilization}  # fmt: skip
    yield figure_of("requests a month", "requests_per_s * 3600 * hours * utilization", requests, "1", SOURCE)
    if money.api is not None:
        yield from _api(money.api, one, money.requests_per_month)


def _api(api: ApiComparison, one: Candidate, requests: float) -> Iterator[Figure]:
    """The same requests from an API, and from which load own GPUs are cheaper."""
    inputs = {"usd_per_request": api.usd_per_request, "requests_per_month": requests}
    yield figure_of("the API's month", "usd_per_request * requests_per_month", inputs, "USD", SOURCE)
    inputs = {"api_usd": api.usd_per_month, "own_usd": one.usd_per_month or 0.0}
    yield figure_of("saved against the API", "api_usd - own_usd", inputs, "USD", SOURCE)
    if api.break_even_requests_per_s is not None:
        inputs = {
            "usd_per_hour_of_one": (one.usd_per_hour or 0.0) / one.replicas,
            "usd_per_request": api.usd_per_request,
        }
        formula = "usd_per_hour_of_one / (3600 * usd_per_request)"
        yield figure_of("break-even", formula, inputs, "requests/s", SOURCE)
