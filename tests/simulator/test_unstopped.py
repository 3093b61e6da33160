"""In-flight batching that stops nobody, and steps in pieces: TensorRT-LLM's and llama.cpp's rules."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.prefixes import segments_of
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.unstopped import UnstoppedScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import pool_of
from kvcalc.simulator.step_times import ConstantTimes, PiecedTimes, PromptTable, Reach, TabledTimes
from tests.simulator.outcome import same
from tests.simulator.workloads import case

ROOM = Settings(8, 100, 10_000, 4, lag=0, answers_fit=True)


def test_who_starts_has_room_for_the_whole_answer():
    """Ten blocks of four: two requests of 4 + 13 tokens take four each at most, and the third waits for one to end."""
    requests = Requests([0.0, 0.0, 0.0], [4, 4, 4], [13, 13, 13])
    found = run(Simulated(replace(ROOM, num_blocks=10), ConstantTimes(1.0)), requests)
    assert list(found.seen.last_s) == [13, 13, 26]
    assert found.counts.preemptions == 0
    stopped = run(Simulated(replace(ROOM, num_blocks=10, answers_fit=False), ConstantTimes(1.0)), requests)
    assert list(stopped.seen.first_s) == [1, 1, 1]  # vLLM lets all start


def test_a_prompt_is_computed_in_one_step_where_it_is_not_split():
    requests = Requests([0.0, 0.0], [60, 60], [1, 1])
    assert list(run(Simulated(replace(ROOM, whole_prompts=True), ConstantTimes(1.0)), requests).seen.first_s) == [1, 2]
    assert list(run(Simulated(ROOM, ConstantTimes(1.0)), requests).seen.first_s) == [1, 2]
    three = Requests([0.0] * 3, [60] * 3, [1] * 3)  # split, the second's rest and the third share the second step
    assert list(run(Simulated(ROOM, ConstantTimes(1.0)), three).seen.first_s) == [1, 2, 2]
    assert list(run(Simulated(replace(ROOM, whole_prompts=True), ConstantTimes(1.0)), three).seen.first_s) == [1, 2, 3]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), st.booleans())
def test_nobody_is_stopped_and_jumps_change_nothing(seed, whole):
    options, requests, times = case(seed)
    options = replace(options, answers_fit=True, whole_prompts=whole, watermark_blocks=0)
    found = []
    for jumps in (True, False):
        seen = Times.of(len(requests))
        shared = segments_of(requests, options.block_size) if options.prefix_caching else ((), ())
        scheduler = UnstoppedScheduler(options, requests, times, pool_of(options, *shared), seen)
        Clock(scheduler, Arrivals(requests, seen), Use(), jumps).run()
        assert scheduler.counts.preemptions == scheduler.final == 0
        assert scheduler.pool.free == options.num_blocks
        found.append(list(seen.last_s))
    assert same(*found)


def test_pieces_of_a_step_read_the_weights_again():
    """Two that decode and 30 prompt tokens in pieces of 16 rows: 14 beside decode, 16 in a piece of their own."""
    prompts = PromptTable((0.0, *(1 + 0.1 * i for i in range(1, 100))), (0.0,) * 100, (Reach(float("inf"), 0.0, 0.0),))
    beside = replace(prompts, rows=tuple(0.1 * i for i in range(100)))
    table = TabledTimes((0.0, 1.0, 1.0), (0.0,) * 3, (), (), beside, prompts)
    pieced = PiecedTimes(table, 16)
    assert abs(pieced.mixed(2, 10, [], [(0, 30)]) - (1.0 + 1.4 + 1 + 1.6)) < 1e-9
    assert pieced.mixed(2, 10, [], [(0, 14)]) == table.mixed(2, 10, [], [(0, 14)])
    assert pieced.scaled(2.0).mixed(2, 10, [], [(0, 30)]) == 2 * pieced.mixed(2, 10, [], [(0, 30)])
