"""Serving in a closed loop: conservation, limits, and growth."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.counting.params import active_parameters
from kvcalc.counting.work import Step
from kvcalc.specs.deployment import Layout
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine
from kvcalc.timing.passes import Pass
from kvcalc.timing.peaks import arithmetic
from kvcalc.timing.prompts import Requests, alone_time, busy_prompt, carried_time
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import (
    Steady,
    beyond_capacity,
    closed_loop_tpot,
    largest_batch,
    polling,
    prefills_seen,
    saturated_tokens_per_s,
    steady_state,
)

Make = Callable[..., Machine]
LLAMA = load_model("llama-3-8b")
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def replica(machine: Machine, name: str = "llama-3-8b", **settings: int) -> Replica:
    return Replica(load_model(name), Layout(), machine, **settings)


def tpot(found: Steady) -> float:
    assert found.tpot is not None
    return float(found.tpot.value)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_one_client_alone_is_one_client_alone(machine: Make, engine: str) -> None:
    on = replica(machine(engine=engine))
    asked = Requests(1000, 200)
    found = steady_state(on, asked, 1)
    assert found.ttft == pytest.approx(alone_time(on, asked), rel=1e-12) or found.ttft.value == found.ttft_alone.value
    assert found.ttft.value == found.ttft_alone.value
    # its own prompt is over before its second token
    step = Pass(on, Step(decode=1, context=asked.context)).time_s
    assert tpot(found) == pytest.approx(step, rel=1e-9)


def test_more_clients_wait_longer_and_serve_more(machine: Make) -> None:
    asked = Requests(1000, 1000)
    found = [steady_state(replica(machine()), asked, clients) for clients in (1, 4, 16, 64, 256)]
    speeds = [clients * 1000 / one.whole_s(1000) for clients, one in zip((1, 4, 16, 64, 256), found, strict=True)]
    for (fewer, slow), (more, fast) in pairwise(zip(found, speeds, strict=True)):
        assert tpot(more) > tpot(fewer)
        assert more.ttft.value > fewer.ttft.value
        assert fast > slow


@relaxed
@given(
    st.sampled_from(("llama-3-8b", "qwen3-30b-a3b", "deepseek-v3")), st.sampled_from(("vllm", "sglang", "trtllm")),
    st.integers(1, 4096), st.integers(1, 20_000), st.integers(1, 2000),
)  # fmt: skip
def test_no_card_computes_more_than_its_peak(
    machine: Make, name: str, engine: str, clients: int, input_len: int, output_len: int
) -> None:
    """Every token, in and out, costs 2 FLOPs for each parameter that works for it: 0.1 said 4.2 PFLOP/s of an H100."""
    on = replica(machine("h200-sxm", engine), name)
    found = steady_state(on, Requests(input_len, output_len), clients)
    tokens_per_s = clients * (input_len + output_len) / found.whole_s(output_len)
    format_name = max(t.format.compute for group in on.model.groups for t in group.tensors if t.matmul)
    peak = max(arithmetic(on.machine.gpu, dtype)[1] for dtype in (format_name, "bf16"))
    assert tokens_per_s * 2 * (active_parameters(on.model) - on.model.vocab * on.model.hidden) <= peak * 1.001


def test_with_one_token_out_there_is_no_second_to_wait_for(machine: Make) -> None:
    on, asked = replica(machine()), Requests(1000, 1)
    found = steady_state(on, asked, 32)
    assert found.tpot is None
    # All prompts pass one after the other, and each client waits for all.
    assert found.ttft.value >= 32 * busy_prompt(on, asked) * (1 - 1e-12)
    assert found.whole_s(1) == found.ttft.value


@given(st.floats(1, 5000), st.floats(1, 500), st.integers(1, 2000), st.floats(1e-3, 10), st.floats(1e-3, 1))
def test_who_does_not_run_waits_for_a_place(
    clients: float, running: float, output_len: int, ttft_s: float, tpot_s: float
) -> None:
    """Little's law: with a place always taken, throughput is that of those who run, and N clients share it."""
    from kvcalc.timing.estimate import Estimate

    time = lambda s: Estimate(s, s, s)  # noqa: E731
    full = Steady(time(ttft_s), time(ttft_s), time(tpot_s), ttft_s)
    asked = Requests(100, output_len)
    found = beyond_capacity(full, asked, clients, running)
    if clients <= running:
        assert found == full
    else:
        assert clients / found.whole_s(output_len) == pytest.approx(running / full.whole_s(output_len))
        assert found.tpot is not None
        assert found.tpot.value == tpot_s


def test_a_measured_queue(machine: Make) -> None:
    # Qwen3-32B on two H100, 4,096 in and 512 out, 128 clients of whom about 35 run: 33.5 s to the first token.
    on = Replica(load_model("qwen3-32b"), Layout(tensor_parallel_size=2), machine("h100-sxm"))
    asked = Requests(4096, 512)
    found = beyond_capacity(steady_state(on, asked, 74), asked, 128, 74)
    assert found.ttft.value > 10 * steady_state(on, asked, 74).ttft.value


@given(st.floats(1, 4096), st.booleans())
def test_no_request_sees_more_prompts_than_there_are(clients: float, first: bool) -> None:
    profile = Profile("x", "x", prefill_first=first, seen_base_equal=2.5, seen_slope_equal=0.065)
    assert 0 < prefills_seen(profile, clients) <= max(1, clients)


def test_prompts_are_cheaper_together(machine: Make) -> None:
    # Short prompts share a step, and so its reading of the weights.
    on = machine()
    together = busy_prompt(replica(on), Requests(128, 1))
    alone = busy_prompt(replica(on, budget=128), Requests(128, 1))
    assert together < 0.6 * alone


def test_chunks_ride_on_the_reading_of_weights(machine: Make) -> None:
    # A chunk adds less to a step than a whole prompt's share, but it takes a step for each chunk.
    asked = Requests(8192, 100)
    whole, chunked = (carried_time(replica(machine(), budget=budget), asked, 8) for budget in (8192, 512))
    step = Pass(replica(machine()), Step(decode=8, context=1000)).time_s
    assert chunked + 16 * step > whole + step


def test_a_scheduler_that_looks_seldom_lets_requests_wait() -> None:
    """Ten steps of 20 ms between two looks: 90 ms of waiting on average, and half the prompts that came meanwhile."""
    asked = Requests(1000, 100, waves=1e12)
    assert polling(1, asked, 64, (0.1, 0.02)) == 0
    alone = polling(10, asked, 64, (0.0, 0.02))
    assert alone == pytest.approx(4.5 * 0.02)
    assert polling(10, asked, 64, (0.1, 0.02)) == pytest.approx(alone + 0.05 * 6.4)
    assert polling(10, asked, 1, (0.1, 0.02)) == 0


@given(st.floats(1e-4, 1), st.floats(1e-3, 10), st.floats(0, 500), st.integers(1, 5000))
def test_others_prompts_slow_the_answer(step: float, carried: float, others: float, output_len: int) -> None:
    found = closed_loop_tpot(step, carried, others, Requests(100, output_len))
    assert found >= step
    assert found - step == pytest.approx(others * carried / output_len)


def test_saturation_is_bound_by_steps_and_prompts() -> None:
    # 100 slots, a step of 20 ms, prompts of 100 ms for 200 tokens: 0.2 ms + 0.5 ms a token.
    assert saturated_tokens_per_s(0.02, 0.1, 100, 200) == pytest.approx(1 / 0.0007)


@given(st.floats(1e-4, 1e-2), st.floats(1e-6, 1e-3), st.floats(1e-4, 1))
def test_the_largest_batch_meets_the_target_and_the_next_does_not(fixed: float, each: float, target: float) -> None:
    def time(batch: int) -> float:
        return fixed + each * batch

    found = largest_batch(time, target, most=1000)
    if found is None:
        assert time(1) > target
    else:
        assert time(found) <= target
        assert found == 1000 or time(found + 1) > target
