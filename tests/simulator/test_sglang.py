"""SGLang's scheduler: prompts before decode, the guess that admits, retraction; jumps change nothing."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.prefixes import segments_of
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.sglang import SglangScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import pool_of
from kvcalc.simulator.step_times import ConstantTimes
from tests.simulator.workloads import case


def run(options, requests, times, jumps=True):
    seen, use = Times.of(len(requests)), Use()
    paths, sizes = segments_of(requests, options.block_size) if options.prefix_caching else ((), ())
    scheduler = SglangScheduler(options, requests, times, pool_of(options, paths, sizes), seen)
    Clock(scheduler, Arrivals(requests, seen), use, jumps).run()
    use.finish()
    assert scheduler.pool.free == options.num_blocks
    assert not scheduler.running
    return scheduler, seen, use


@given(st.integers(0, 2**40), st.sampled_from([1, 1, 3]))
@example(644484, 3)  # an arrival that is seen while all slots are taken
def test_jumps_change_nothing(seed, interval):
    import dataclasses

    options, requests, times = case(seed)
    options = dataclasses.replace(options, recv_interval=interval, extra_blocks=0)
    fast, slow = (run(options, requests, times, jumps) for jumps in (True, False))
    assert fast[0].counts == slow[0].counts
    for one, other in ((fast[1].first_s, slow[1].first_s), (fast[1].last_s, slow[1].last_s)):
        assert all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one, other, strict=True))
    assert all(first <= last for first, last in zip(fast[1].first_s, fast[1].last_s, strict=True))


def test_decode_waits_while_a_prompt_is_computed():
    options = Settings(8, 100, 10_000, 1, lag=0)
    requests = Requests([0.0, 4.5], [10, 250], [10, 2])
    _, seen, _ = run(options, requests, ConstantTimes(1.0))
    # first token at 1, then decode; the second prompt arrives in step 5 and takes three steps of 100 tokens
    assert list(seen.first_s) == [1, 8]
    assert list(seen.last_s) == [13, 9]


def test_a_prompt_as_long_as_what_a_batch_has_left_does_not_begin_in_it():
    """Batches of 8,000 tokens, prompts of 16,384 in one at most: beside 5,000 there is room for 11,383 and no more."""
    options = Settings(8, 8000, 100_000, 1, lag=0)
    sizes = []
    for second in (11_383, 11_384):
        one = SglangScheduler(options, Requests([0.0, 0.0], [5000, second], [1, 1]), ConstantTimes(1.0),
                              pool_of(options, (), ()), Times.of(2))  # fmt: skip
        one.waiting.extend([0, 1])
        one.plan(0)
        sizes.append([tokens for _, tokens in one.chunks])
    assert sizes == [[5000, 3000], [5000]]


def test_admission_looks_ahead_at_seven_tenths_of_the_answers():
    # 100 slots: the first takes 10 and may take 60 more; 0.7 of those are expected, so 37 are left for the second
    options = Settings(8, 1000, 100, 1, lag=0)
    for second, waits in ((20, False), (60, True)):
        requests = Requests([0.0, 0.5], [10, 10], [60, second])
        _, seen, _ = run(options, requests, ConstantTimes(1.0))
        assert (seen.first_s[1] > 2) is waits


def test_retraction_takes_the_fewest_tokens_out():
    # after 300 steps 0.4 of the answers are expected: 780 free - 239 leave room for 530, but not to the end
    options = Settings(8, 2000, 1400, 1, lag=0)
    requests = Requests([0.0, 0.0, 300.5], [10, 10, 10], [600, 600, 520])
    scheduler, seen, _ = run(options, requests, ConstantTimes(1.0))
    assert scheduler.counts.preemptions == 1
    assert scheduler.gaps, "the third was stopped"
    assert list(seen.last_s[:2]) == [601, 601]  # 600 tokens, and a step of the third's prompt


def test_arrivals_are_read_every_so_many_steps():
    options = Settings(8, 1000, 1000, 1, lag=0, recv_interval=10)
    requests = Requests([0.0, 2.5], [10, 10], [40, 5])
    _, seen, _ = run(options, requests, ConstantTimes(1.0))
    assert seen.first_s[1] == 11
