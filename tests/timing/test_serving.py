"""Serving in a steady state: conservation, limits, and growth."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.passes import decode_step, prefill_step
from kvcalc.specs.deployment import Layout
from kvcalc.timing.estimate import first_token_time, kernel_sums, prefill_time, step_time
from kvcalc.timing.price import Machine
from kvcalc.timing.profile import Profile
from kvcalc.timing.steady import (
    carried_prefill,
    carried_time,
    closed_loop_tpot,
    largest_batch,
    prefills_seen,
    saturated_tokens_per_s,
    steady_state,
)

Make = Callable[..., Machine]
LLAMA = load_model("llama-3-8b")


def test_one_client_waits_for_nobody(machine: Make) -> None:
    on = machine()
    found = steady_state(LLAMA, Layout(), on, concurrency=1, input_len=1000, output_len=200)
    alone = kernel_sums(decode_step(LLAMA, batch=1, context=1100), on)
    assert found.tpot_s.value == pytest.approx(step_time(alone, on.profile, 1))


def test_throughput_is_what_latencies_leave(machine: Make) -> None:
    layout = Layout(tensor_parallel_size=2, data_parallel_size=2)
    found = steady_state(LLAMA, layout, machine(), concurrency=32, input_len=1000, output_len=200)
    request = found.ttft_s.value + 199 * found.tpot_s.value
    assert found.output_tokens_per_s == pytest.approx(2 * 32 * 200 / request)
    assert found.output_tokens_per_s_per_gpu == pytest.approx(found.output_tokens_per_s / 4)
    assert found.total_tokens_per_s == pytest.approx(found.output_tokens_per_s * 6)


def test_more_clients_wait_longer_and_serve_more(machine: Make) -> None:
    found = [
        steady_state(LLAMA, Layout(), machine(), concurrency=clients, input_len=1000, output_len=1000)
        for clients in (1, 4, 16, 64, 256)
    ]
    for fewer, more in pairwise(found):
        assert more.tpot_s.value > fewer.tpot_s.value
        assert more.ttft_s.value > fewer.ttft_s.value
        assert more.output_tokens_per_s > fewer.output_tokens_per_s


@given(st.floats(1, 4096), st.booleans(), st.booleans())
def test_no_request_sees_more_prompts_than_there_are(clients: float, ragged: bool, first: bool) -> None:
    profile = Profile("x", "x", prefill_first=first, seen_base_equal=2.5, seen_slope_equal=0.065,
                      seen_base_ragged=0.92, seen_slope_ragged=0.08)  # fmt: skip
    assert 0 < prefills_seen(profile, clients, ragged) <= max(1, clients)


def test_prompts_are_cheaper_together(machine: Make) -> None:
    on = machine()
    one = prefill_time(kernel_sums(prefill_step(LLAMA, tokens=128), on), on.profile)
    many = prefill_time(kernel_sums(prefill_step(LLAMA, tokens=128, prompts=64), on), on.profile)
    assert many < 64 * one


def test_chunks_ride_on_the_reading_of_weights(machine: Make) -> None:
    # A chunk adds less to a step than a whole prompt's share, but it takes a step for each chunk.
    on = machine()
    carried = [
        carried_prefill(LLAMA, Layout(), on, batch=8, context=1000, input_len=8192, budget=budget)
        for budget in (8192, 512)
    ]
    whole, chunked = (carried_time(one, on.profile) for one in carried)
    step = step_time(kernel_sums(decode_step(LLAMA, batch=8, context=1000), on), on.profile, 8)
    assert chunked < whole
    assert chunked + 16 * step > whole + step


def test_the_first_token_takes_the_prompts_kernels_and_launches(machine: Make) -> None:
    on = machine()
    short, long = (kernel_sums(prefill_step(LLAMA, tokens=tokens), on) for tokens in (128, 4096))
    assert first_token_time(long, on.profile) > first_token_time(short, on.profile)
    assert first_token_time(short, on.profile) > 32 * on.profile.first_token_layer_s


@given(st.floats(1e-4, 1), st.floats(1e-3, 10), st.floats(0, 500), st.integers(1, 5000))
def test_others_prompts_slow_the_answer(step: float, carried: float, others: float, output_len: int) -> None:
    found = closed_loop_tpot(step, carried, others, output_len)
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
