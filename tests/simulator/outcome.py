"""What a run of the package gave, by the names that the plain reference uses, and when two are the same."""

import math

from kvcalc.answers.simulate.replicas import run_all
from kvcalc.simulator.requests import Times


def outcome(replica, requests):
    """Of a deployment as `answers.simulate.runs.run` has it."""
    seen = Times.of(len(requests))
    clocks = run_all(replica, requests, replica.times, seen)
    for clock in clocks:
        clock.observer.finish()
    members = [clock.scheduler for clock in clocks]
    assert all(one.pool.free == one.pool.blocks and not one.running for one in members), "every block came back"
    return {
        "first": list(seen.first_s),
        "last": list(seen.last_s),
        "steps": sum(clock.observer.steps for clock in clocks),
        "gaps": [gap for one in members for gap in one.gaps],
        "preemptions": sum(one.counts.preemptions for one in members),
        "recomputed": sum(one.counts.recomputed for one in members),
        "hit": sum(one.pool.hit for one in members),
        "queried": sum(one.pool.queried for one in members),
        "full": min((one.full_s for one in members if one.full_s is not None), default=None),
    }


def same(one, other):
    """Whole numbers exactly, times to 1e-9."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None or other is None or isinstance(one, int):
        return one == other
    return math.isclose(one, other, rel_tol=1e-9)
