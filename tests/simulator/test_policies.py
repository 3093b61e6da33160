"""Swap, separate pools, static batches and queues: closed forms, and that nothing is lost."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.swapping import SwappingScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import ConstantTimes, RooflineTimes
from kvcalc.simulator.traffic import Length, Traffic, requests_of
from tests.simulator.workloads import case

ROOM = Settings(64, 8192, 100_000, 16, lag=0)


def swap(seed, jumps):
    options, requests, times = case(seed)
    options = dataclasses.replace(
        options, preemption="swap", swap_blocks=seed % 60, swap_block_s=0.03, prefix_caching=False
    )
    seen, use = Times.of(len(requests)), Use()
    scheduler = SwappingScheduler(options, requests, times, seen)
    Clock(scheduler, Arrivals(requests, seen), use, jumps).run()
    use.finish()
    assert scheduler.pool.free == options.num_blocks
    assert scheduler.host_free == options.swap_blocks
    assert not scheduler.swapped
    return scheduler, seen


@given(st.integers(0, 2**40))
def test_swap_loses_nobody_and_jumps_change_nothing(seed):
    (fast, seen), (slow, other) = swap(seed, True), swap(seed, False)
    assert fast.counts == slow.counts
    assert all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(seen.last_s, other.last_s, strict=True))


def test_swap_keeps_what_was_computed_and_takes_the_link_s_time():
    # two sequences in five blocks: the newer one is moved out when the older one needs the fifth
    options = Settings(8, 100, 5, 4, lag=0, preemption="swap", swap_blocks=10, swap_block_s=0.25)
    requests = Requests([0.0, 0.0], [4, 4], [9, 9])
    seen = Times.of(2)
    scheduler = SwappingScheduler(options, requests, ConstantTimes(1.0), seen)
    Clock(scheduler, Arrivals(requests, seen), Use()).run()
    assert scheduler.counts.recomputed == 0
    assert scheduler.counts.preemptions == 1
    assert scheduler.counts.swapped_blocks == 4  # two out, two in
    assert seen.last_s[0] == 9 + 2 * 0.25
    assert seen.last_s[1] == seen.last_s[0] + 4 + 2 * 0.25


def test_without_room_on_the_host_it_is_computed_anew():
    options = Settings(8, 100, 5, 4, lag=0, preemption="swap", swap_blocks=1, swap_block_s=0.25)
    requests = Requests([0.0, 0.0], [4, 4], [9, 9])
    seen = Times.of(2)
    scheduler = SwappingScheduler(options, requests, ConstantTimes(1.0), seen)
    Clock(scheduler, Arrivals(requests, seen), Use()).run()
    assert (scheduler.counts.preemptions, scheduler.counts.swapped_blocks) == (1, 0)
    assert scheduler.counts.recomputed == 8


def test_separate_pools():
    # one step for a prompt, 10 tokens at 0.01 s over the link, then a step for each further token
    replica = Simulated(ROOM, ConstantTimes(1.0), replicas=2, prefill_replicas=1, transfer_s=0.01)
    requests = Requests([0.0, 100.0, 100.0], [10, 10, 10], [5, 5, 1])
    seen = run(replica, requests).seen
    assert list(seen.first_s) == [1, 101, 101]
    assert list(seen.last_s) == pytest.approx([1 + 0.1 + 4, 101 + 0.1 + 4, 101])


def test_decode_is_not_disturbed_by_prompts_of_another_pool():
    times = RooflineTimes(1e-2, 0.0, 1e-3, 0.0, 0.0)
    requests = Requests([0.1 * i for i in range(50)], [2000] * 50, [30] * 50)
    together = Simulated(ROOM, times, replicas=2)
    apart = dataclasses.replace(together, prefill_replicas=1)
    one, two = run(together, requests).seen, run(apart, requests).seen
    tpot = [max((b - a) / 29 for a, b in zip(seen.first_s, seen.last_s, strict=True)) for seen in (one, two)]
    assert tpot[1] < tpot[0] / 2


def test_who_is_stopped_in_the_decode_pool_keeps_its_first_token():
    small = dataclasses.replace(ROOM, num_blocks=12, block_size=4)
    replica = Simulated(small, ConstantTimes(1.0), replicas=2, prefill_replicas=1)
    requests = Requests([float(i) for i in range(12)], [8] * 12, [20] * 12)
    found = run(replica, requests)
    prompts = dataclasses.replace(requests, output=[1] * 12)
    alone = run(dataclasses.replace(replica, replicas=1, prefill_replicas=0), prompts)
    assert found.counts.preemptions > 0
    assert list(found.seen.first_s) == list(alone.seen.first_s)
    assert all(last >= first + 19 for first, last in zip(found.seen.first_s, found.seen.last_s, strict=True))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_single_prompts_are_the_queue_m_d_1(load):
    """Mean wait of Poisson arrivals at one server with a fixed service time: ρ s / 2(1 - ρ) (Pollaczek, Khinchine)."""
    service = 2.0
    requests = requests_of(Traffic(100_000, Length(1), Length(1), rate=load / service))
    replica = Simulated(dataclasses.replace(ROOM, max_num_seqs=1), RooflineTimes(service, 0.0, 0.0, 0.0, 0.0))
    seen = run(replica, requests).seen
    waits = [first - sent - service for first, sent in zip(seen.first_s, seen.sent_s, strict=True)]
    assert sum(waits) / len(waits) == pytest.approx(load * service / (2 * (1 - load)), rel=0.03)


@given(st.integers(1, 20), st.integers(1, 30), st.integers(1, 8))
def test_static_batches_of_equal_requests(count, output, slots):
    """A batch takes its prompts' step and one for each further token; the next begins when it has ended."""
    options = dataclasses.replace(ROOM, max_num_seqs=slots)
    replica = Simulated(options, ConstantTimes(1.0), scheduler="static")
    seen = run(replica, Requests([0.0] * count, [5] * count, [output] * count)).seen
    assert list(seen.last_s) == [output * (i // slots + 1) for i in range(count)]
