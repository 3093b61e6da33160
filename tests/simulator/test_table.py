"""The table of step times gives what the timer gives, for any step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.answers.simulate.machine import windows_of
from kvcalc.counting.work import Step
from kvcalc.simulator.step_times import ConstantTimes, RooflineTimes, pairs
from kvcalc.simulator.table import tabled
from kvcalc.timing.passes import Pass

MODELS = {  # and how far the table may be off: latents are expanded for a chunk's whole past, which bends
    "llama-3-8b": ({}, 1e-9),
    "qwen3-8b": ({"gpu": "rtx-pro-6000-se"}, 1e-9),  # decode beside prompts in FlashAttention 2
    "gemma-3-27b": ({}, 1e-9),
    "gpt-oss-120b": ({}, 1e-9),
    "qwen3-30b-a3b": ({"tensor_parallel_size": "2"}, 1e-9),
    "deepseek-v3": ({"tensor_parallel_size": "8"}, 2e-3),
}
SEQUENCES, BUDGET = 128, 2048


@pytest.fixture(scope="module", params=list(MODELS))
def machine(request):
    flags, error = MODELS[request.param]
    deployed = Deployed(ask(request.param, {"gpu": "h200-sxm", **flags}))
    windows = windows_of(deployed.model)
    table = tabled(lambda step: Pass(deployed.replica, step).time_s, SEQUENCES, BUDGET, windows)
    return deployed, table, error


@settings(max_examples=25)
@given(
    st.integers(1, SEQUENCES - 4),
    st.integers(1, 60_000),
    st.integers(1, 4),
    st.integers(1, 480),
    st.integers(0, 50_000),
)
def test_table_equals_timer(machine, sequences, context, prompts, tokens, start):
    deployed, table, error = machine
    inside = [sequences * min(context, window) for window in table.windows]
    cached, chunks = sequences * context, [(start, tokens)] * prompts
    have = (
        table.decode(sequences, cached, inside, [0] * len(inside))[0],
        table.mixed(sequences, cached, inside, chunks),
        table.mixed(0, 0, [0] * len(inside), chunks),
    )
    steps = (
        Step(decode=sequences, context=context),
        Step(decode=sequences, context=context, prompts=prompts, tokens=tokens, start=start),
        Step(prompts=prompts, tokens=tokens, start=start),
    )
    assert have == pytest.approx([float(Pass(deployed.replica, step).time_s) for step in steps], rel=error)


@given(st.integers(0, 500), st.integers(1, 500), st.integers(1, 300))
def test_pairs_add_up(start, tokens, window):
    parts = pairs(start, tokens, window), pairs(start + tokens, 40, window)
    assert sum(parts) == pytest.approx(pairs(start, tokens + 40, window))


@given(st.integers(1, 64), st.integers(0, 10**6), st.integers(1, 500))
def test_roofline_is_the_longer_line_in_every_step(sequences, cached, steps):
    times = RooflineTimes(5e-3, 4e-8, 2e-5, 1e-8, 1e-9)
    cost, growth, until = times.decode(sequences, cached, (), ())
    for step in range(min(steps, until)):
        now = times.decode(sequences, cached + step * sequences, (), ())
        assert cost + step * growth == pytest.approx(now[0])


def test_constant_times():
    times = ConstantTimes(0.5).scaled(2)
    assert times.decode(3, 100, (), ())[0] == times.mixed(3, 100, (), [(0, 10)]) == 1.0
