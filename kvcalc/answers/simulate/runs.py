"""One run of a workload through one replica or several, and what it gives."""

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.replicas import run_all
from kvcalc.simulator.metrics import Use, joined
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.requests import Times as Seen
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import Counts, added

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
    settings: Settings
    full_s: float | None = None  # when blocks first ran out
    together: int = 1  # replicas that step together, so that a step is one of each


def run(replica: Simulated, requests: Requests, factor: float = 1.0) -> Outcome:
    """A workload through a deployment whose step times are multiplied by a factor."""
    seen = Seen.of(len(requests))
    with _without_collection():
        clocks = run_all(replica, requests, replica.times.scaled(factor), seen)
    schedulers = [clock.scheduler for clock in clocks]
    for clock in clocks:
        clock.observer.finish()
    use = joined([clock.observer for clock in clocks if isinstance(clock.observer, Use)])
    return Outcome(
        seen=seen,
        use=use,
        counts=added(one.counts for one in schedulers),
        gaps=use.with_gaps([gap for one in schedulers for gap in one.gaps]),
        queried=sum(one.pool.queried for one in schedulers),
        hit=sum(one.pool.hit for one in schedulers),
        settings=replica.settings,
        full_s=min((one.full_s for one in schedulers if one.full_s is not None), default=None),
        together=replica.replicas if replica.lockstep else 1,
    )


def capacities(replica: Simulated, requests: Requests, factors: Sequence[float]) -> list[float]:
    """`capacity` for each factor of the step times, from one run: nothing but steps takes time where all wait.

    Links to the host and to another pool keep their own time: there each factor is run.
    """
    if replica.prefill_replicas or replica.settings.preemption == "swap":
        return [capacity(replica, requests, factor) for factor in factors]
    front = replica.front_s
    done, busy_s = _emptied(dataclasses.replace(replica, front_s=0.0), requests, 1.0)
    return [done / (front + factor * busy_s) for factor in factors]


def capacity(replica: Simulated, requests: Requests, factor: float = 1.0) -> float:
    """Requests per second that the replica finishes while a queue lasts: the same requests, all there from the start.

    Few requests are repeated, so that there is a queue; of many the first are enough.
    """
    done, emptied_s = _emptied(replica, requests, factor)
    return done / emptied_s


def _emptied(replica: Simulated, requests: Requests, factor: float) -> tuple[int, float]:
    """Requests that are done when the last of the queue has begun, and when that is."""
    slots = replica.settings.max_num_seqs * replica.replicas
    wanted = min(max(len(requests), QUEUES * slots), MOST_FOR_CAPACITY)
    own = len(requests) if requests.chains is None or requests.sizes else wanted
    count = wanted if own < wanted else min(wanted, len(requests))
    order = [i % len(requests) for i in range(count)]
    queued = Requests(
        arrival_s=[0.0] * count,
        prompt=[requests.prompt[i] for i in order],
        output=[requests.output[i] for i in order],
        chains=None if requests.chains is None else [requests.chains[i] for i in order],
        priority=None if requests.priority is None else [requests.priority[i] for i in order],
        id_tokens=requests.id_tokens,
        sizes=requests.sizes,
    )
    seen = run(replica, queued, factor).seen
    emptied = max(seen.first_s)  # when the last of the queue has begun
    done = sum(1 for end in seen.last_s if end <= emptied)
    return (done, emptied) if done else (count, max(seen.last_s))


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
