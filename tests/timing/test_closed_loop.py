"""The closed loop in steps, worked out by hand at round numbers, and its limits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.timing.closed_loop import Times, Turn, carried, crowding, prompt_wait, prompts_first, together, under_way

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
