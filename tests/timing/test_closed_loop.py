"""The closed loop in steps, worked out by hand at round numbers, and its limits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.timing.closed_loop import (
    Load,
    Times,
    Turn,
    carried,
    crowding,
    prompt_wait,
    prompts_first,
    shared_steps,
    together,
    under_way,
)

# A front end that takes no time, steps of 10 ms, prompts of 100 ms that never share one.
TIMES = Times(front_s=0.0, step_s=0.01, token_s=0.01, prompt_s=0.1, alone_s=0.1, packed_s=0.1)
WHOLE = {"load": 1.0}  # a prompt fills a step


def test_others_prompts_are_counted_in_steps() -> None:
    """11 clients, 100 tokens: 99 steps of 102 it decodes, for 3 it is away; so do the ten others."""
    turn = Turn(11, 100, load=1e-6)
    assert (turn.away, turn.decoding) == (pytest.approx(3), pytest.approx(1 + 10 * 99 / 102))
    found = carried(turn, TIMES)
    assert found.prompts == pytest.approx(10 * 99 / 102)
    assert found.tpot_s == pytest.approx(0.01 + 10 / 102 * 0.1)
    # Planned a step later, and computed in two pieces: 1 + 2 + 2 steps.
    assert Turn(11, 100, ahead=2, pieces=2).away == 5


def test_prompts_that_fill_steps_queue() -> None:
    """Ten others' prompts fill 10 of 102 steps: u² / (2 (1 - u)) of a step's wait, the one under way apart."""
    busy = 10 / 102
    assert Turn(11, 100, **WHOLE).queued == pytest.approx(busy**2 / (2 * (1 - busy)))
    # Of two steps each twice as many, for twice as long: but no more than half of the others'.
    assert Turn(11, 101, load=2.0, pieces=2).queued == pytest.approx(2 * (20 / 104) ** 2 / (2 * (1 - 20 / 104)))
    assert Turn(3, 2, load=0.9).queued == pytest.approx(0.9 * (1.8 / 4) ** 2 / (2 * (1 - 1.8 / 4)))


def test_a_front_end_lets_further_steps_pass() -> None:
    """40 ms at 20 ms a token are two steps more: P = 9 · 98 / 105 leaves TPOT at 20 ms where prompts take 0.119 s."""
    prompts = 9 * 98 / 103
    times = TIMES._replace(front_s=0.04, prompt_s=0.01 * 98 / prompts, packed_s=1.0, alone_s=1.0)
    found = carried(Turn(10, 99, **WHOLE), times)
    assert found.absent == pytest.approx(5, rel=1e-3)
    assert found.tpot_s == pytest.approx(0.02, rel=1e-3)


def test_half_of_the_first_waves_prompts_find_nobody_who_decodes() -> None:
    """Of ten waves one; a twentieth fewer prompts pass."""
    every, some = (carried(Turn(11, 100, first_wave=wave, **WHOLE), TIMES) for wave in (0, 0.1))
    assert some.prompts == pytest.approx(0.95 * every.prompts)
    # The first of the wave waits for its own prompt, the last for all eleven: six on average.
    assert some.first_s == pytest.approx(6 * 0.1)
    assert some.ttft_s == pytest.approx(0.1 * 0.6 + 0.9 * (some.wait_s + some.own_s))


def test_who_arrives_waits_for_the_step_under_way_and_the_one_planned() -> None:
    """No others: half a step, and one. With prompts in every fourth step: steps of 10 and of 110 ms."""
    turn = Turn(11, 100, **WHOLE)
    quiet = carried(turn, TIMES)
    assert under_way(replace(turn, clients=1), TIMES, quiet.load) == pytest.approx(0.015)
    often = Turn(1 + 0.25 * 102, 100, **WHOLE)
    assert often.arriving == pytest.approx(0.25, rel=1e-3)
    mean_s = 0.75 * 0.01 + 0.25 * 0.11
    rest_s = (0.75 * 0.01**2 + 0.25 * 0.11**2) / (2 * mean_s)
    full_s = often.queued * 0.11
    assert under_way(often, TIMES, quiet.load) == pytest.approx(rest_s + mean_s + full_s, rel=1e-3)


def test_prompts_that_come_together_share_a_step() -> None:
    """Arrivals at random, one a step on average: 1 / (1 - 1/e) in a step that has any; where a step holds one, one."""
    assert together(1.0) == pytest.approx(1.58198, rel=1e-5)
    turn = Turn(103, 100, load=0.001)
    assert turn.arriving == pytest.approx(1)
    assert turn.sharing == pytest.approx(1.58198, rel=1e-5)
    assert replace(turn, load=1.0).sharing == 1


def test_clients_that_began_together_come_in_a_crowd() -> None:
    """Answers of 100 tokens, a tenth longer or shorter: a wave later within 20 of 102 steps, two later within 28."""
    turn = Turn(10, 100)
    assert crowding(turn, 0.1, 2) == pytest.approx(102 / 20)
    assert crowding(turn, 0.1, 3) == pytest.approx((102 / 20 + 102 / (20 * 2**0.5)) / 2)
    assert crowding(turn, 0.1, 1) == 1
    # Prompts that fill 50 steps draw them apart from the start.
    long = replace(turn, load=5.0)
    assert crowding(long, 0.0, 9) == pytest.approx((99 + long.away) / 50)
    assert crowding(turn, 0.5, 1000) == pytest.approx(1, abs=1e-3)
    # All of one length and prompts of no length: they all come in the three steps that a client is away.
    assert crowding(turn, 0.0, 5) == pytest.approx(102 / 3)


def test_more_prompts_than_steps_hold() -> None:
    """Prompts that fill ten steps each, of 21 clients with 50 tokens: the others' 200 take 200 steps of each turn."""
    turn = Turn(21, 50, load=10.0, pieces=10)
    assert turn.further + turn.away == 200
    assert turn.queued == turn.away - 12


def test_a_queue_of_prompts() -> None:
    """0.1 s of each second for each of the others: five of them keep the engine half busy, 49 more than it can."""
    assert prompt_wait(6, 0.1, 0.9) == pytest.approx(0.1 * 0.5 / (2 * 0.5))
    assert prompt_wait(10, 0.1, 0.9) == pytest.approx(0.1 * 4.5)  # no more than half of the others
    assert prompt_wait(50, 0.1, 0.9) == pytest.approx(0.1 * 24.5)
    assert prompt_wait(1, 0.1, 0.9) == 0
    assert prompt_wait(6, 0.1, 1.9) == pytest.approx(0.1 * 0.25 / (2 * 0.75))


def test_prompts_that_go_first_halt_decode() -> None:
    """11 clients, 100 further tokens at 10 ms, prompts of 20 ms, a fifth of the requests in the first wave.

    A turn takes 50 ms outside, 1.9 ms in the queue, 1.5 steps to join, 22.0 ms for 1.099 prompts and 100 tokens at
    11.65 ms: 1.2538 s. The ten others' prompts keep the engine 0.1595 of it: 0.02 · 0.1595 / (2 · 0.8405) = 1.9 ms. Of
    their prompts 0.399 pass outside, 0.095 in the queue, 10 / 101.5 in each of 2.5 steps and in the request's own:
    0.8385. A tenth of the first wave's are left out of what remains: 8.245, and 10 ms + 8.245 / 100 · 20 ms = 11.65 ms.
    """
    turn = Turn(11, 101, first_wave=0.2, looks=3, load=0.25)
    found = prompts_first(turn, Times(0.05, 0.01, 0.01, 0.02, 0.03, 0.015))
    assert found.tpot_s == pytest.approx(0.011649, rel=1e-4)
    assert found.missed == pytest.approx(0.8385, rel=1e-3)
    assert found.prompts == pytest.approx(8.2453, rel=1e-4)
    assert found.own_s == pytest.approx((1 + 10 / 101.5) * 0.02)
    assert found.wait_s == pytest.approx(0.0018979 + 1.5 * 0.01, rel=1e-4)
    # The first wave: its prompts packed, (11 + 1) / 2 of 15 ms.
    assert found.first_s == pytest.approx(0.09)
    assert found.ttft_s == pytest.approx(0.05 + 0.2 * 0.09 + 0.8 * (found.wait_s + found.own_s))


def test_a_long_step_takes_in_the_prompts_of_more_steps() -> None:
    """One prompt in two steps, up to five in one: 10 ms, 24 ms longer with 1.2 of 20 ms, 20 ms on average.

    A long one takes in those of 1.7 steps: 0.708 of the prompts go into such, with 0.85 on average, the others into
    short ones with 0.25. 0.708 / 1.4845 + 0.292 / 1.1302 = 0.7352 steps a prompt; alone it would be 1 / 1.2707, with
    five in each 0.2: a prompt adds 12 ms and 0.9119 of the 8 ms between.
    """
    times = Times(0.03, 0.01, 0.01, 0.02, 0.03, 0.012)
    turn = Turn(1 + 0.5 * 102, 100, load=0.2)
    found = shared_steps(turn, times, Load(0.02, 1.2))
    assert found.sharing == pytest.approx(1 / 0.73522, rel=1e-3)
    assert found.prompt_s == pytest.approx(0.012 + 0.9119 * 0.008, rel=1e-3)
    # In two pieces a step, 12 ms longer each: 1.467 steps of 15 ms, and no more than 4 / 3 pieces in one.
    pieces = shared_steps(Turn(1 + 0.25 * 103, 100, load=1.5, pieces=2), times, Load(0.02, 1.2))
    assert pieces.sharing == pytest.approx(1 / 0.789, rel=3e-3)
    assert pieces.prompt_s == pytest.approx(0.02, rel=1e-3)


@given(
    st.integers(1, 4096), st.integers(2, 5000), st.floats(0, 1), st.floats(1e-3, 20), st.floats(0, 1),
    st.floats(1e-4, 1), st.floats(1e-4, 10), st.booleans(),
)  # fmt: skip
def test_a_loop_keeps_its_bounds(
    clients: int, output_len: int, wave: float, load: float, front: float, step: float, prompt: float, first: bool
) -> None:
    """No more others' prompts than others, no token faster than a step, no answer before its own prompt."""
    turn = Turn(clients, output_len, first_wave=wave, load=load, pieces=max(1, round(load)))
    times = Times(front, step, step, prompt, prompt + step, prompt)
    found = (prompts_first if first else carried)(turn, times)
    assert 0 <= found.prompts <= clients - 1
    assert step <= found.tpot_s <= step + found.prompts / turn.further * prompt * (1 + 1e-9)
    assert found.ttft_s >= front
    assert found.wait_s >= 0
    if clients == 1:
        assert (found.tpot_s, found.wait_s) == (step, 0)
        assert found.ttft_s == pytest.approx(front + prompt + step)
