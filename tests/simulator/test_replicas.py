"""Replicas: where requests go, and what stepping together costs."""

import dataclasses

import pytest

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import ConstantTimes, RooflineTimes

SETTINGS = Settings(4, 1000, 10_000, 16, lag=0)
ONE = Simulated(SETTINGS, ConstantTimes(1.0))
SOME = Requests([0.1 * i for i in range(40)], [10] * 40, [5 + i % 7 for i in range(40)])


@pytest.mark.parametrize("routing", ["round-robin", "least-loaded", "prefix-aware"])
@pytest.mark.parametrize("lockstep", [False, True])
def test_two_replicas_serve_everybody_sooner(routing, lockstep):
    two = dataclasses.replace(ONE, replicas=2, routing=routing, lockstep=lockstep)
    one, both = run(ONE, SOME), run(two, SOME)
    assert all(last == last for last in both.seen.last_s), "everybody was answered"
    assert max(both.seen.last_s) < 0.65 * max(one.seen.last_s)


def test_least_loaded_avoids_a_busy_replica():
    # the first request holds a replica's only slot; round robin sends the third there, the balancer does not
    slot = Simulated(dataclasses.replace(SETTINGS, max_num_seqs=1), ConstantTimes(1.0), replicas=2)
    requests = Requests([0.0, 0.0, 20.0], [1, 1, 1], [100, 2, 2])
    ends = {
        way: run(dataclasses.replace(slot, routing=way), requests).seen.last_s[2]
        for way in ("round-robin", "least-loaded")
    }
    assert ends == {"round-robin": 102, "least-loaded": 22}


def test_prefix_aware_hits_more():
    caching = dataclasses.replace(SETTINGS, prefix_caching=True, max_num_seqs=64)
    chains = [(i % 4,) for i in range(200)]
    requests = Requests([10.0 * i for i in range(200)], [170] * 200, [3] * 200, chains, 0, dict.fromkeys(range(4), 160))
    replica = Simulated(caching, ConstantTimes(1.0), replicas=3)
    found = {way: run(dataclasses.replace(replica, routing=way), requests) for way in ("round-robin", "prefix-aware")}
    assert found["prefix-aware"].hit == (200 - 4) * 160  # each prefix is computed once
    assert found["round-robin"].hit == (200 - 12) * 160  # and on each replica


def test_who_steps_together_waits_for_the_slowest():
    # one replica decodes a long sequence, the other a short one: both steps take the long one's time
    times = RooflineTimes(1.0, 0.01, 0.0, 0.0, 0.0)
    requests = Requests([0.0, 0.0], [1000, 10], [50, 50])
    apart = Simulated(
        dataclasses.replace(SETTINGS, max_num_batched_tokens=5000), times, replicas=2, routing="round-robin"
    )
    together = dataclasses.replace(apart, lockstep=True)
    alone, joint = run(apart, requests).seen.last_s, run(together, requests).seen.last_s
    assert alone[1] < 70
    assert joint[0] == pytest.approx(alone[0])
    assert joint[1] == pytest.approx(joint[0])


def test_clients_keep_to_their_replica():
    requests = Requests([], [10] * 80, [5] * 80, clients=2)
    two = run(dataclasses.replace(ONE, replicas=2), requests)
    assert max(two.seen.last_s) == 20 * 5  # 40 requests each, two at a time, five steps
