"""The highest rate of requests that keeps every target, and the way there: goodput by rate."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvcalc.answers.simulate.figures import Latencies, meets, percentile
from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.parallel import mapped
from kvcalc.answers.simulate.runs import capacity, run
from kvcalc.errors import KvcalcError
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.traffic import rate_of

CLOSE = 0.005  # of the rate
SHOWN = (0.5, 1.25, 2.0)  # of what can be served: rates that are tried to be seen, below it and above
ROUNDS = 24


class Targets(NamedTuple):
    """Limits in seconds that `percent` of the requests keep."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    percent: float

    def kept(self, one: Latencies) -> bool:
        """Whether a run keeps every target."""
        return all(have <= limit for have, limit in self.found(one).values())

    def found(self, one: Latencies) -> dict[str, tuple[float, float]]:
        """By target, the seconds that the percentile of a run has, and those it may have."""
        limits = {"ttft": (one.ttft, self.ttft_s), "tpot": (one.tpot, self.tpot_s), "e2e": (one.e2e, self.e2e_s)}
        have = {name: (percentile(values, self.percent), limit) for name, (values, limit) in limits.items()}
        return {name: (own, limit) for name, (own, limit) in have.items() if own is not None and limit is not None}


class Tried(NamedTuple):
    """One rate."""

    rate: float
    kept: bool
    goodput: float


@dataclass(frozen=True, slots=True)
class Search:
    """What one process needs to look for the rate at one end of the range."""

    replica: Simulated
    requests: Requests
    targets: Targets
    factor: float


def at_rate(requests: Requests, rate: float) -> Requests:
    """The same requests in the same order, closer together or further apart."""
    own = rate_of(requests)
    if own is None:
        raise KvcalcError("--find-rate changes times between arrivals, and these requests have none",
                          hint="leave --concurrency and --arrivals at-once out")  # fmt: skip
    return dataclasses.replace(requests, arrival_s=[time * own / rate for time in requests.arrival_s])


def highest_rate(search: Search) -> tuple[float, list[Tried]]:
    """The highest rate at which the targets are kept, within half a per cent, and every rate that was tried.

    At most what can be served: above it the queue grows, and only as few requests as these would still keep them. 0:
    they are not kept even by single requests.
    """
    high = capacity(search.replica, search.requests, search.factor)
    most = _tried(search, high)
    low = high if most.kept else 0.0
    tried = [most, *(_tried(search, share * high) for share in SHOWN)]
    while len(tried) < ROUNDS and high - low > CLOSE * high:
        rate = (low + high) / 2 if low else high / 4
        found = _tried(search, rate)
        tried.append(found)
        if found.kept:
            low = rate
        else:
            high = rate
    return low, sorted(tried)


def _tried(search: Search, rate: float) -> Tried:
    requests, targets = at_rate(search.requests, rate), search.targets
    one = Latencies(run(search.replica, requests, search.factor), requests)
    good = float(meets(one, targets.ttft_s, targets.tpot_s, targets.e2e_s).sum())
    return Tried(rate, targets.kept(one), good / one.span_s)


def rates(
    replica: Simulated, requests: Requests, targets: Targets, factors: Sequence[float], ray: str | None = None
) -> list[tuple[float, list[Tried]]]:
    """The highest rate for each factor of the step times."""
    return mapped(highest_rate, [Search(replica, requests, targets, factor) for factor in factors], ray=ray)
