"""vLLM's scheduler step by step: priorities, a threshold for long prompts, drafts; equal to the jump without them."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.drafts import Drafts
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.prefixes import segments_of
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.stepwise import StepwiseScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import pool_of
from kvcalc.simulator.step_times import ConstantTimes
from tests.simulator.outcome import same
from tests.simulator.reference.run import simulate
from tests.simulator.test_jump import jump
from tests.simulator.workloads import case, single

ROOM = Settings(8, 100, 10_000, 16, lag=0)


def run(options, requests, times):
    seen, use = Times.of(len(requests)), Use()
    shared = segments_of(requests, options.block_size) if options.prefix_caching else ((), ())
    scheduler = StepwiseScheduler(options, requests, times, pool_of(options, *shared), seen)
    Clock(scheduler, Arrivals(requests, seen), use).run()
    use.finish()
    assert scheduler.pool.free == options.num_blocks, "every block came back"
    assert not scheduler.running
    return {
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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40))
def test_equals_the_jump(seed):
    options, requests, times = case(seed)
    want, have = jump(options, requests, times)[0], run(options, requests, times)
    assert [name for name in want if not same(want[name], have[name])] == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
@example(1001451)  # prompts leave no budget to somebody, whose newest token is older than the step
def test_equals_the_reference(seed):
    options, requests, times = single(seed)
    want, have = simulate(options, requests, times), run(options, requests, times)
    if not options.prefix_caching:
        want["hit"] = want["queried"] = 0
    assert [name for name in want if not same(want[name], have[name])] == []


def test_the_urgent_go_first_and_push_others_out():
    """Five blocks of four: the urgent one that comes last has the cache, who is less urgent starts anew behind it."""
    options = replace(ROOM, num_blocks=5, block_size=4, policy="priority")
    requests = Requests([0.0, 0.5, 2.5], [4, 4, 4], [9, 9, 9], priority=[1, 2, 0])
    found = run(options, requests, ConstantTimes(1.0))
    order = sorted(range(3), key=found["last"].__getitem__)
    assert order == [2, 0, 1]
    assert found["last"][2] == 12  # nine steps from 3 on: nobody is in its way
    assert found["preemptions"] > 0


def test_a_threshold_lets_several_prompts_share_a_step():
    """100 tokens a step: without one the first prompt takes them all, with 40 both are in every step."""
    requests = Requests([0.0, 0.0], [200, 80], [1, 1])
    assert run(replace(ROOM, long_prefill_token_threshold=100), requests, ConstantTimes(1.0))["first"] == [2, 3]
    assert run(replace(ROOM, long_prefill_token_threshold=40), requests, ConstantTimes(1.0))["first"] == [5, 2]


@pytest.mark.parametrize("way, error", [("sampled", 0.02), ("expected", 0.003)])
def test_steps_give_the_expected_tokens(way, error):
    """(1 - 0.8^5) / (1 - 0.8) = 3.3616 tokens a step (Leviathan et al. 2023, equation 1)."""
    requests = Requests([0.0] * 8, [10] * 8, [2000] * 8)
    found = run(replace(ROOM, drafts=Drafts((0.8,) * 4, way)), requests, ConstantTimes(1.0))
    steps = [last - first for first, last in zip(found["first"], found["last"], strict=True)]
    assert sum(steps) / 8 == pytest.approx(1999 / 3.3616, rel=error)


def test_drafts_take_slots_ahead():
    """A sequence of 8 cached tokens needs rows for 1 + 3 and 3 ahead: four blocks of 4 where 12 tokens fit in three."""
    drafts = Drafts((0.0,) * 3, lookahead=3)
    requests = Requests([0.0, 0.0], [8, 8], [3, 3])
    assert (
        run(replace(ROOM, num_blocks=8, block_size=4, drafts=drafts), requests, ConstantTimes(1.0))["preemptions"] == 0
    )
    assert (
        run(replace(ROOM, num_blocks=7, block_size=4, drafts=drafts), requests, ConstantTimes(1.0))["preemptions"] > 0
    )
