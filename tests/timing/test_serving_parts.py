"""Serving put together from passes: which pass, prompt and range each figure takes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
from kvcalc.specs.deployment import Layout
from kvcalc.timing.carried_prompts import carried
from kvcalc.timing.chunks import chunks
from kvcalc.timing.closed_loop import Times, Turn, crowding
from kvcalc.timing.estimate import Estimate, front_end_time
from kvcalc.timing.lesson import lesson_terms
from kvcalc.timing.machine import Machine
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, alone_time, busy_prompt, carried_time
from kvcalc.timing.ranges import range_around
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import (
    Steady,
    beyond_capacity,
    closed_loop_tpot,
    first_token,
    hastened,
    polling,
    prefills_seen,
    steady_state,
)

LLAMA = load_model("llama-3-8b")
Make = Callable[..., Machine]


@pytest.mark.parametrize("length, budget", [(20_000, 8192), (1000, 10), (100, 8192)])
def test_alone_a_prompt_takes_its_chunks_one_after_the_other(machine: Make, length: int, budget: int) -> None:
    on = Replica(LLAMA, Layout(), machine(), budget=budget)
    found = alone_time(on, Requests(length, 100))
    for end in ("value", "low", "high"):
        parts = [
            one.number * getattr(Pass(on, Step(prompts=1, tokens=one.tokens, start=one.start)).estimate, end)
            for one in chunks(length, budget)
        ]
        assert getattr(found, end) == pytest.approx(on.machine.profile.front_end_alone_s + sum(parts))


def test_a_prompt_adds_what_a_mixed_step_takes_longer(machine: Make) -> None:
    on = Replica(LLAMA, Layout(), machine())
    asked = Requests(1000, 100, equal=True)
    decode = Step(decode=8, context=1050)
    alone, mixed = (Pass(on, step).time_s for step in (decode, decode._replace(prompts=1, tokens=1000)))
    assert carried_time(on, asked, 8) == pytest.approx(mixed - alone)
    # Of two that share a step each pays half; of unequal ones attention is the mean square's: 1,000² (1 + 0.6² / 3).
    both = Pass(on, decode._replace(prompts=2, tokens=1000)).time_s
    assert carried_time(on, asked, 8, 2) == pytest.approx((both - alone) / 2)
    unequal = Requests(1000, 100, spread=0.6)
    alone, mixed = (
        Pass(on, step).time_s
        for step in (
            Step(decode=8, context=unequal.context),
            Step(decode=8, context=unequal.context, prompts=1, tokens=1000, start=60),
        )
    )
    assert carried_time(on, unequal, 8) == pytest.approx(mixed - alone)
    apart = on.machine.profile._replace(prefill_first=True)
    own = Replica(LLAMA, Layout(), on.machine._replace(profile=apart))
    prompt = Pass(own, Step(decode=0, context=1050, prompts=1, tokens=1000)).time_s
    assert carried_time(own, asked, 8) == pytest.approx(prompt)


@pytest.mark.parametrize("clients, asked", [(16, Requests(1000, 200)), (64, Requests(4000, 8)), (64, Requests(4000, 2)),
                                            (8, Requests(20_000, 50, waves=3, spread=0.1))])  # fmt: skip
@pytest.mark.parametrize("gain", [1.0, 2.0])
@pytest.mark.parametrize("interval", [1, 10])
def test_a_closed_loop_is_put_together_from_its_terms(
    machine: Make, clients: int, asked: Requests, gain: float, interval: int
) -> None:
    """TTFT is the loop's, and what a scheduler that looks seldom adds; no less than all clients' prompts beyond one
    request's life."""
    on = Replica(LLAMA, Layout(), machine(), recv_interval=interval)
    profile, pieces = on.machine.profile, -(-asked.input_len // on.budget)
    plain = Turn(
        clients, asked.output_len, 1 / asked.waves, pieces=pieces, load=asked.input_len / on.budget, looks=interval
    )
    # The last wave comes within the steps that the first took, and what each wave between has drawn it apart.
    width = ((clients * plain.load) ** 2 + (asked.waves - 1) * (2 * asked.spread * asked.output_len) ** 2) ** 0.5
    crowded = replace(plain, crowd=crowding(plain, asked.spread, asked.waves))
    turn = replace(crowded, apart=min(1, width / (crowded.further + crowded.away)))
    step_s, fewer_s = (Pass(on, Step(decode=share * turn.decoding, context=asked.context)).time_s for share in (1, 0.9))
    prompt_s = alone_time(on, asked).value - profile.front_end_alone_s
    full = max(1, on.budget / asked.input_len)
    times = Times(
        front_s=front_end_time(profile, clients),
        step_s=step_s,
        prompt_s=carried_time(on, asked, turn.decoding, turn.sharing),
        alone_s=prompt_s,
        packed_s=Pass(on, Step(prompts=full, tokens=asked.input_len)).time_s / full,
        each_s=(step_s - fewer_s) / (0.1 * turn.decoding),
        gain=gain,
    )
    loop = carried(turn, times)
    queue_s = loop.ttft_s + polling(interval, asked, clients, (prompt_s, step_s))
    life_s = clients * busy_prompt(on, asked) - (asked.output_len - 1) * loop.tpot_s
    found = steady_state(on, asked, clients, Estimate(gain, gain, gain))
    assert found.tpot is not None
    assert found.tpot.value == pytest.approx(loop.tpot_s)
    assert found.ttft.value == pytest.approx(max(queue_s, life_s))
    around = range_around(on.machine, False, "first-token")
    assert found.ttft.high == pytest.approx(around.high * found.ttft.value)


def test_equal_requests_take_the_law_of_lock_step(machine: Make) -> None:
    on, asked = Replica(LLAMA, Layout(), machine()), Requests(1000, 200, equal=True)
    profile, found = on.machine.profile, steady_state(on, asked, 16)
    step_s = Pass(on, Step(decode=16, context=1100)).time_s
    assert found.tpot is not None
    tpot_s = closed_loop_tpot(step_s, carried_time(on, asked, 16), 16 - prefills_seen(profile, 16), asked)
    assert found.tpot.value == pytest.approx(tpot_s)
    prompt_s = alone_time(on, asked).value - profile.front_end_alone_s
    assert found.ttft.value == pytest.approx(first_token(profile, 16, prompt_s))


def test_more_clients_than_places_widen_the_range() -> None:
    held = Steady(
        ttft=Estimate(1.0, 0.5, 2.0), tpot=Estimate(0.02, 0.01, 0.04), prompt_s=0.1, ttft_alone=Estimate(0.1, 0.1, 0.1)
    )
    found = beyond_capacity(held, Requests(10, 101), 16, 8)
    assert found.tpot == Estimate(0.02, pytest.approx(0.0085), pytest.approx(0.046))
    assert found.ttft.value == pytest.approx(1.0 + 1.0 + 100 * 0.02)
    assert found.ttft.low == pytest.approx(0.5 + 0.5 + 100 * 0.0085)
    assert found.ttft.high == pytest.approx(2.0 + 2.0 + 100 * 0.046)


def test_a_gain_that_is_known_divides_all_ends() -> None:
    found = hastened(Estimate(0.030, 0.027, 0.036), Estimate(2.0, 2.0, 2.0))
    assert found == Estimate(0.015, 0.0135, 0.018)


def test_stages_of_the_lessons_share_the_sequences(machine: Make) -> None:
    one, two = (
        lesson_terms(Replica(LLAMA, Layout(pipeline_parallel_size=pp), machine(), ideal=True), Step(4, 1000))
        for pp in (1, 2)
    )
    assert (one.cache_bytes, two.cache_bytes) == (4 * 1000 * 131_072, 2 * 1000 * 131_072)
    assert two.flops == one.flops / 2


@pytest.mark.parametrize("tp", [1, 2])
def test_the_lessons_prompt_is_divided_by_the_ranks(machine: Make, tp: int) -> None:
    ideal = Replica(LLAMA, Layout(tensor_parallel_size=tp), machine(), ideal=True)
    found = Pass(ideal, Step(prompts=1, tokens=500))
    assert found.flops == pytest.approx((2 * 8_030_261_248 * 500 + 32 * 4 * 32 * 128 * 500**2 / 2) / tp)
    emulated = Pass(ideal, Step(prompts=2, tokens=500, start=50, causal=False))
    assert emulated.cache_bytes == 2 * 50 * 131_072 / tp


def test_attention_of_a_step_is_of_all_layers(machine: Make) -> None:
    on = Replica(LLAMA, Layout(), machine())
    assert Pass(on, Step(decode=4, context=1000)).attention_flops == 4 * 1000 * 32 * 4 * 32 * 128


def test_the_share_of_the_peak_stays_with_the_sequences_alone(machine: Make) -> None:
    ideal = Replica(LLAMA, Layout(), machine(), ideal=True)
    mixed = Step(decode=4, context=1000, prompts=1, tokens=500)
    assert Pass(ideal, mixed, 0.5).without_prompts.compute_efficiency == 0.5
    assert Pass(ideal, mixed).without_prompts.compute_efficiency == 1
