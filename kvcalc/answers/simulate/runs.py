"""One run of a workload through one replica or several, and what it gives."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kvcalc.answers.simulate.machine import Simulated, Times
from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.prefixes import segments_of
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.requests import Times as Seen
from kvcalc.simulator.schedulers.base import Running
from kvcalc.simulator.schedulers.reserving import ReservingScheduler
from kvcalc.simulator.schedulers.sglang import SglangScheduler
from kvcalc.simulator.schedulers.static import StaticScheduler
from kvcalc.simulator.schedulers.vllm import VllmScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import Counts, pool_of
from kvcalc.simulator.step_times import ConstantTimes

QUEUES = 3  # in slots: requests that wait behind those that run when capacity is measured
MOST_FOR_CAPACITY = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run: latencies by request, and what the engine used and counted."""

    seen: Seen
    use: Use
    counts: Counts
    gaps: dict[int, int]
    queried: int
    hit: int
    end_s: float
    settings: Settings


def run(replica: Simulated, requests: Requests, factor: float = 1.0) -> Outcome:
    """A workload through one replica whose step times are multiplied by a factor."""
    settings, times = replica.settings, replica.times.scaled(factor)
    seen = Seen.of(len(requests))
    counted = isinstance(times, ConstantTimes)  # who counts steps wants each of them
    last_s = float("inf") if requests.clients is not None else max(requests.arrival_s, default=0.0)
    use = Use(last_arrival_s=last_s, counts_newest=counted)
    scheduler = _scheduler(replica, requests, times, seen)
    clock = Clock(scheduler, Arrivals(requests, seen, replica.front_s), use, jumps=not counted)
    with _without_collection():
        clock.run()
    return Outcome(
        seen=seen,
        use=use,
        counts=scheduler.counts,
        gaps=use.with_gaps(scheduler.gaps),
        queried=scheduler.pool.queried,
        hit=scheduler.pool.hit,
        end_s=clock.end_s,
        settings=settings,
    )


def _scheduler(replica: Simulated, requests: Requests, times: Times, seen: Seen) -> Running:
    """The scheduler of a replica's policy."""
    settings = replica.settings
    if replica.scheduler == "static":
        return StaticScheduler(settings, requests, times, pool_of(settings), seen)
    if replica.reservation != "none":
        longest = replica.longest or max(map(sum, zip(requests.prompt, requests.output, strict=True)))
        return ReservingScheduler(settings, requests, times, seen, replica.reservation, longest)
    paths, sizes = segments_of(requests, settings.block_size) if settings.prefix_caching else ([], [])
    if replica.prompts_first:
        return SglangScheduler(settings, requests, times, pool_of(settings, paths, sizes), seen)
    return VllmScheduler(settings, requests, times, pool_of(settings, paths, sizes), seen)


def capacity(replica: Simulated, requests: Requests, factor: float = 1.0) -> float:
    """Requests per second that the replica finishes while a queue lasts: the same requests, all there from the start.

    Few requests are repeated, so that there is a queue; of many the first are enough.
    """
    wanted = min(max(len(requests), QUEUES * replica.settings.max_num_seqs), MOST_FOR_CAPACITY)
    own = len(requests) if requests.chains is None or requests.sizes else wanted
    count = wanted if own < wanted else min(wanted, len(requests))
    order = [i % len(requests) for i in range(count)]
    queued = Requests(
        arrival_s=[0.0] * count,
        prompt=[requests.prompt[i] for i in order],
        output=[requests.output[i] for i in order],
        chains=None if requests.chains is None else [requests.chains[i] for i in order],
        id_tokens=requests.id_tokens,
        sizes=requests.sizes,
    )
    seen = run(replica, queued, factor).seen
    emptied = max(seen.first_s)  # when the last of the queue has begun
    done = sum(1 for end in seen.last_s if end <= emptied)
    return done / emptied if done else count / max(seen.last_s)


@contextmanager
def _without_collection() -> Iterator[None]:
    """The loop makes no cycles: looking for them takes a third of its time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
