"""The event jump equals the plain reference, step by step and block by block: whole numbers exactly, times to 1e-9."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.prefixes import segments_of
from kvcalc.simulator.requests import Times
from kvcalc.simulator.schedulers.vllm import VllmScheduler
from kvcalc.simulator.state import pool_of
from tests.simulator.outcome import same
from tests.simulator.reference.run import simulate
from tests.simulator.workloads import case


def jump(options, requests, times, jumps=True):
    seen = Times.of(len(requests))
    paths, sizes = segments_of(requests, options.block_size) if options.prefix_caching else ((), ())
    scheduler = VllmScheduler(options, requests, times, pool_of(options, paths, sizes), seen)
    use = Use()
    Clock(scheduler, Arrivals(requests, seen), use, jumps).run()
    use.finish()
    assert scheduler.pool.free == options.num_blocks, "every block came back"
    assert not scheduler.running
    assert not scheduler.decoding.count
    found = {
        "first": list(seen.first_s),
        "last": list(seen.last_s),
        "steps": use.steps,
        "preemptions": scheduler.counts.preemptions,
        "recomputed": scheduler.counts.recomputed,
        "gaps": scheduler.gaps,
        "hit": scheduler.pool.hit,
        "queried": scheduler.pool.queried,
        "full": scheduler.full_s,
    }
    return found, use


def differences(seed):
    options, requests, times = case(seed)
    want = simulate(options, requests, times)
    if not options.prefix_caching:
        want["hit"] = want["queried"] = 0
    have = jump(options, requests, times)[0]
    return [name for name in want if not same(want[name], have[name])]


@given(st.integers(0, 2**40))
def test_jump_equals_reference(seed):
    assert differences(seed) == []


@pytest.mark.parametrize("seed", [116, 236, 472, 531, 598, 14, 77])  # preempting, with copies of one block
def test_cases_with_copies_of_a_block(seed):
    assert differences(seed) == []


@given(st.integers(0, 2**40))
def test_jumps_change_nothing(seed):
    options, requests, times = case(seed)
    fast, slow = (jump(options, requests, times, jumps)[0] for jumps in (True, False))
    assert all(same(fast[name], slow[name]) for name in fast)
