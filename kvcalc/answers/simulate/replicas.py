"""The replicas of a deployment, set up and run: one, several behind a router, or several that step together."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.answers.simulate.machine import Simulated, Times
from kvcalc.answers.simulate.pools import Pools
from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.lockstep import Group
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.prefixes import Path, segments_of
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.requests import Times as Seen
from kvcalc.simulator.routing import Router
from kvcalc.simulator.schedulers.receiving import ReceivingScheduler, ReceivingSingly
from kvcalc.simulator.schedulers.reserving import ReservingScheduler
from kvcalc.simulator.schedulers.sglang import SglangScheduler
from kvcalc.simulator.schedulers.sglang_singly import SglangSingly
from kvcalc.simulator.schedulers.static import StaticScheduler
from kvcalc.simulator.schedulers.stepwise import StepwiseScheduler
from kvcalc.simulator.schedulers.swapping import SwappingScheduler
from kvcalc.simulator.schedulers.unstopped import UnstoppedScheduler
from kvcalc.simulator.schedulers.vllm import VllmScheduler
from kvcalc.simulator.state import Scheduler, pool_of
from kvcalc.simulator.step_times import ConstantTimes


class Shared(NamedTuple):
    """What requests share, worked out once for all replicas."""

    paths: list[Path]
    sizes: list[int]

    @property
    def homes(self) -> list[int | None]:
        return [path[0] if path else None for path in self.paths]


def run_all(replica: Simulated, requests: Requests, times: Times, seen: Seen) -> list[Clock]:
    """The clocks of a workload that has run, one an engine."""
    shared = shared_of(replica, requests)
    if replica.prefill_replicas:
        return _split(replica, requests, times, seen, shared)
    if replica.replicas == 1:
        clock = _clock(replica, requests, scheduler_of(replica, requests, times, seen, shared), seen)
        clock.run()
        return [clock]
    if replica.lockstep:
        return [_together(replica, requests, times, seen, shared)]
    return _apart(replica, requests, times, seen, shared)


def _clock(
    replica: Simulated, requests: Requests, scheduler: Scheduler, seen: Seen, order: list[int] | None = None
) -> Clock:
    return _looked_at(replica, requests, scheduler, Arrivals(requests, seen, replica.front_s, order))


def _looked_at(replica: Simulated, requests: Requests, scheduler: Scheduler, arrivals: Arrivals) -> Clock:
    counted = isinstance(replica.times, ConstantTimes)  # who counts steps wants each of them
    last_s = float("inf") if requests.clients is not None else max(requests.arrival_s, default=0.0)
    return Clock(scheduler, arrivals, Use(last_arrival_s=last_s, counts_newest=counted), jumps=not counted)


def _together(replica: Simulated, requests: Requests, times: Times, seen: Seen, shared: Shared) -> Clock:
    """Replicas that share experts."""
    members = [scheduler_of(replica, requests, times, seen, shared) for _ in range(replica.replicas)]
    group = Group(members, Router(replica.routing, members, shared.homes))
    everybody = requests.clients
    if everybody is not None:
        requests = dataclasses.replace(requests, clients=everybody * replica.replicas)
    clock = _clock(replica, requests, group, seen)
    clock.run()
    return clock


def _apart(replica: Simulated, requests: Requests, times: Times, seen: Seen, shared: Shared) -> list[Clock]:
    """Replicas behind a router; clients keep to theirs, and a session to the replica of its first turn."""
    count, members = replica.replicas, []
    firsts = [i for i in range(len(requests)) if requests.after is None or requests.after[i] < 0]
    fixed = requests.clients is not None or replica.routing == "round-robin"
    for number in range(count):
        order = firsts[number::count] if fixed else []
        scheduler = scheduler_of(replica, requests, times, seen, shared)
        members.append(_clock(replica, requests, scheduler, seen, order))
    if not fixed:
        _route(replica, requests, members, shared, firsts)
    for clock in members:
        clock.run()
    return members


def _route(replica: Simulated, requests: Requests, members: list[Clock], shared: Shared, order: Sequence[int]) -> None:
    """Each request to a replica as it arrives, then all to their ends."""
    schedulers = [clock.scheduler for clock in members]
    at = 0.0
    router = Router(replica.routing, schedulers, shared.homes, lambda number: members[number].arrivals.offered(at))
    for request in order:
        at = requests.arrival_s[request] + replica.front_s
        for clock in members:
            clock.run(at)
        members[router.choose(request)].arrivals.offer(request, requests.arrival_s[request])
    for clock in members:
        clock.run()


def _split(replica: Simulated, requests: Requests, times: Times, seen: Seen, shared: Shared) -> list[Clock]:
    """A pool that computes prompts, a link, and a pool that decodes."""
    pools = Pools(replica, requests, seen, shared.homes)
    alone, sent = pools.alone, pools.sent
    settings = dataclasses.replace(replica.settings, prefix_caching=False)
    prompts = [
        _looked_at(replica, requests, scheduler_of(replica, alone, times, pools.first, shared), pools.prompts_arrive())
        for _ in range(replica.prefill_replicas)
    ]
    receiving = ReceivingSingly if settings.singly or settings.answers_fit else ReceivingScheduler
    answers = [
        _looked_at(replica, requests, receiving(settings, sent, times, pools.own), pools.answers_arrive())
        for _ in range(replica.replicas - replica.prefill_replicas)
    ]
    pools.run(prompts, answers)
    return [*prompts, *answers]


def shared_of(replica: Simulated, requests: Requests) -> Shared:
    """What the requests share, where blocks can be found again."""
    if not replica.settings.prefix_caching:
        return Shared([()] * len(requests), [])
    return Shared(*segments_of(requests, replica.settings.block_size))


def scheduler_of(replica: Simulated, requests: Requests, times: Times, seen: Seen, shared: Shared) -> Scheduler:
    """The scheduler of a replica's policy."""
    settings = replica.settings
    if replica.scheduler == "static":
        return StaticScheduler(settings, requests, times, pool_of(settings), seen)
    if replica.reservation != "none":
        longest = replica.longest or max(map(sum, zip(requests.prompt, requests.output, strict=True)))
        return ReservingScheduler(settings, requests, times, seen, replica.reservation, longest)
    pool = pool_of(settings, *shared)
    if settings.preemption == "swap":
        return SwappingScheduler(settings, requests, times, seen)
    if replica.prompts_first:
        return (SglangSingly if settings.singly else SglangScheduler)(settings, requests, times, pool, seen)
    if settings.singly:
        return StepwiseScheduler(settings, requests, times, pool, seen)
    if settings.answers_fit:
        return UnstoppedScheduler(settings, requests, times, pool, seen)
    return VllmScheduler(settings, requests, times, pool, seen)
