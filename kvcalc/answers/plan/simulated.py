"""A candidate through the scheduler: what so many per cent of its requests get, and how many replicas that takes.

The same requests and the same seed for each number of replicas, so that a difference is theirs. With a trace every
R-th request goes to a replica of R.
"""

from collections.abc import Callable
from functools import cached_property
from math import ceil

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.candidate import Held, fewer_replicas
from kvcalc.answers.plan.fleet import Fleet
from kvcalc.answers.plan.search import Found
from kvcalc.answers.simulate.figures import Latencies, meets, percentile
from kvcalc.answers.simulate.lengths import around
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.rate import Targets
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.simulate.workload import accepted, every, made
from kvcalc.catalog.prices import bill
from kvcalc.results.plan import PlanMiss, SimulatedPlan
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.traces.read import read_trace
from kvcalc.simulator.traffic import Length, requests_of

MOST_TIMES = 3  # as many replicas as the means ask for: beyond that it is another deployment that is needed
STEP = 0.1  # of the replicas that are added at a time


class Replica:
    """One replica of a candidate in the simulator."""

    def __init__(self, fleet: Fleet, asked: Asked) -> None:
        self.fleet, self.asked = fleet, asked
        assert asked.settings.percentile is not None
        self.percent = asked.settings.percentile
        self.targets = Targets(asked.targets.ttft_s, asked.targets.tpot_s, asked.targets.e2e_s, self.percent)

    @property
    def deployed(self) -> Deployed:
        return self.fleet.deployed

    @cached_property
    def machine(self) -> Simulated:
        workload = self.asked.workload
        mean = (workload.input_len or 0) + (workload.output_len or 0)
        return simulated(self.deployed, SimulateSettings(), mean)

    def run(self, replicas: int) -> Latencies:
        """Its share of the load, with the end of the step times that targets are judged on."""
        requests = self._requests(replicas)
        factor = self.machine.high if self.asked.settings.judge == "high" else 1.0
        return Latencies(run(self.machine, requests, factor), requests)

    def _requests(self, replicas: int) -> Requests:
        settings, workload, demand = self.asked.settings, self.asked.workload, self.asked.demand
        longest = self.deployed.max_model_len
        if settings.trace is not None:
            return accepted(every(read_trace(settings.trace).requests, replicas), longest).requests
        ranks = self.deployed.deployment.data_parallel_size
        clients = None if demand.users is None else ceil(demand.users / replicas / ranks)
        rate = None if demand.request_rate is None else demand.request_rate / replicas
        hit = self.deployed.usable_hit(workload.input_len or 1)
        asked = SimulateSettings(request_rate=rate, think_s=demand.think_s, shared_prefix=hit, seed=settings.seed)
        prompt, output = self._lengths(hit)
        return accepted(requests_of(made(asked, prompt, output, clients)), longest).requests

    def _lengths(self, hit: int) -> tuple[Length, Length]:
        """Of what is computed of a prompt, and of answers: mixed as `size` and `simulate` have them."""
        workload = self.asked.workload
        prompt, output = max(1, (workload.input_len or 1) - hit), workload.output_len or 1
        if workload.equal_lengths:
            return Length(prompt), Length(output)
        return around(prompt, output, self.deployed.max_model_len)


def held(found: Found, asked: Asked) -> Held:
    """The candidate with as many replicas as the percentile takes, and what is simulated with them."""
    replica = Replica(found.fleet, asked)
    replicas, most = found.replicas, MOST_TIMES * found.replicas
    one, broken = replica.run(replicas), None
    while not replica.targets.kept(one) and replicas < most:
        broken = replicas, one
        replicas = min(most, replicas + max(1, ceil(STEP * replicas)))
        one = replica.run(replicas)
    while broken is not None and replica.targets.kept(one) and replicas - broken[0] > 1:
        middle = (replicas + broken[0]) // 2
        between = replica.run(middle)
        if replica.targets.kept(between):
            replicas, one = middle, between
        else:
            broken = middle, between
    fleet = found.fleet
    paid = bill(fleet.deployed.gpu, fleet.deployed.deployment, replicas)
    more = found._replace(replicas=replicas, point=fleet.at(fleet.share(replicas)), usd_per_hour=paid.usd_per_hour)
    fewer = None
    if broken is not None:
        fewer = fewer_replicas(fleet, broken[0], _misses(replica.targets, broken[1]), replica.percent)
    return Held(more, _figures(replica, one, replicas), fewer)


def _misses(targets: Targets, one: Latencies) -> tuple[PlanMiss, ...]:
    found = targets.found(one).items()
    return tuple(
        PlanMiss(target=name, by=have / limit - 1, have_s=have) for name, (have, limit) in found if have > limit
    )


def _figures(replica: Replica, one: Latencies, replicas: int) -> SimulatedPlan:
    targets = replica.targets
    good = meets(one, targets.ttft_s, targets.tpot_s, targets.e2e_s)
    return SimulatedPlan(
        percentile=replica.percent,
        seed=replica.asked.settings.seed,
        requests=len(one.requests),
        ttft_s=percentile(one.ttft, replica.percent),
        tpot_s=percentile(one.tpot, replica.percent),
        e2e_s=percentile(one.e2e, replica.percent),
        met_share=float(good.mean()),
        goodput_requests_per_s=replicas * float(good.sum()) / one.span_s,
        meets=targets.kept(one),
    )


def all_held(found: list[Found], asked: Asked, progress: Callable[[str, float], None]) -> list[Held]:
    """Each of the candidates, simulated."""
    done = []
    for i, one in enumerate(found):
        progress(f"simulating {one.fleet.deployed.gpu.name}", i / len(found))
        done.append(held(one, asked))
    return done
