"""The closed loop in steps, worked out by hand at round numbers, and its limits."""

from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.timing.carried_prompts import carried
from kvcalc.timing.closed_loop import Times, Turn, crowding, shared, together, width_after
from kvcalc.timing.prompts_first import prompts_first

# A front end that takes no time, steps of 10 ms, prompts of 100 ms that never share one.
TIMES = Times(front_s=0.0, step_s=0.01, prompt_s=0.1, alone_s=0.1, packed_s=0.1)
WHOLE = {"load": 1.0}  # a prompt fills a step


def test_who_decodes_is_counted_in_steps() -> None:
    """11 clients, 100 tokens: 99 steps of 102 it decodes, for 3 it is away; so do the ten others."""
    turn = Turn(11, 100, load=1e-6)
    assert (turn.away, turn.decoding) == (pytest.approx(3), pytest.approx(1 + 10 * 99 / 102))
    assert turn.arriving_beside(3) == pytest.approx(10 / 102)
    # Planned a step later, and computed in two pieces: 1 + 2 + 2 steps.
    assert Turn(11, 100, ahead=2, pieces=2).away == 5


def test_the_last_wave_has_none_behind_it() -> None:
    """Of its requests one ends at once and one after a whole turn: who is left after y of it has met 1 - y, for what it
    has left, x: the mean of x² / 2 over x from 0 to 1 is a sixth. Half as far apart, half as much."""
    every = Turn(11, 100).decoding_beside(3)
    assert Turn(11, 100, first_wave=0.1).decoding_beside(3) == pytest.approx(1 + (every - 1) * (1 - 0.1 / 6))
    assert Turn(11, 100, first_wave=0.1, apart=0.5).decoding_beside(3) == pytest.approx(
        1 + (every - 1) * (1 - 0.1 / 12)
    )
    assert Turn(11, 100, first_wave=0.1, apart=0).decoding_beside(3) == every


def test_prompts_that_fill_steps_queue() -> None:
    """Ten others' prompts fill 10 of 102 steps: u² / (2 (1 - u)) of a step's wait, the one under way apart."""
    busy = 10 / 102
    assert Turn(11, 100, **WHOLE).queued == pytest.approx(busy**2 / (2 * (1 - busy)))
    # Of two steps each twice as many, for twice as long: but no more than half of the others'.
    assert Turn(11, 101, load=2.0, pieces=2).queued == pytest.approx(2 * (20 / 104) ** 2 / (2 * (1 - 20 / 104)))
    assert Turn(3, 2, load=0.9).queued == pytest.approx(0.9 * (1.8 / 4) ** 2 / (2 * (1 - 1.8 / 4)))


def test_others_prompts_pass_while_a_request_decodes() -> None:
    """No front end, a step for each: of a = 10 / 102 a step those of the step under way and the planned one are missed.

    Its own step has room for no other.
    """
    turn = Turn(11, 100, load=1.0, crowd=1.0)
    found = carried(replace(turn, load=0.999), TIMES)
    absent = replace(turn, load=0.999).away
    missed = 10 / (99 + absent) * (absent - 1) + found.load.beside
    assert found.absent == pytest.approx(absent)
    assert found.load.beside == pytest.approx(0.001, rel=0.01)
    assert found.missed == pytest.approx(missed)
    assert found.prompts == pytest.approx(10 - missed)
    assert found.tpot_s == pytest.approx(0.01 + (10 - missed) / 99 * 0.1)
    # Twice as many where they come twice as dense, never more than there are.
    assert carried(replace(turn, crowd=2.0), TIMES).missed > 1.9 * missed
    assert carried(replace(turn, crowd=1000.0), TIMES).prompts == 0


def test_a_front_end_lets_further_steps_pass() -> None:
    """Prompts of no time: steps of 10 ms end 4 times in 40 ms, and one is under way, half over on average."""
    times = Times(front_s=0.04, step_s=0.01, prompt_s=0.0, alone_s=1.0, packed_s=0.0)
    found = carried(Turn(10, 99, **WHOLE), times)
    queued = Turn(10, 99, **WHOLE).queued
    assert found.absent == pytest.approx(4.5 + 1 + 1 + queued)
    # Each sequence less is 1 ms less: of nine others 8.398 decode, where without the front end 8.724 would.
    slow = carried(Turn(10, 99, **WHOLE), times._replace(each_s=0.001))
    all_there, there = (1 + 9 * 98 / (98 + away) for away in (3 + queued, slow.absent))
    assert slow.decoding == pytest.approx(there)
    assert slow.step_s == pytest.approx(0.01 - (all_there - there) * 0.001, rel=1e-4)
    # Where tokens come twice as fast as steps, TPOT is half of it.
    assert carried(Turn(10, 99, **WHOLE), times._replace(gain=2.0)).tpot_s == pytest.approx(0.005)


def test_half_of_the_first_waves_prompts_find_nobody_who_decodes() -> None:
    """Of ten waves one; a twentieth fewer prompts pass."""
    every, some = (carried(Turn(11, 100, first_wave=wave, **WHOLE), TIMES) for wave in (0, 0.1))
    assert some.prompts == pytest.approx(0.95 * every.prompts)
    # The first of the wave waits for its own prompt, the last for all eleven: six on average.
    assert some.first_s == pytest.approx(6 * 0.1)
    assert some.ttft_s == pytest.approx(0.1 * 0.6 + 0.9 * (some.wait_s + some.own_s))


def test_prompts_that_come_together_share_a_step() -> None:
    """Arrivals at random, one a step on average: 1 / (1 - 1/e) in a step that has any; where a step holds one, one."""
    assert together(1.0) == pytest.approx(1.58198, rel=1e-5)
    turn = Turn(103, 100, load=0.001)
    assert turn.sharing == pytest.approx(1.58198, rel=1e-5)
    assert replace(turn, load=1.0).sharing == 1


def test_what_a_step_pays_once_is_shared() -> None:
    """20 ms where 1.27 share a step as they come by chance, 12 ms where five do: linear in a prompt's part of it."""
    times = Times(0.03, 0.01, 0.02, 0.03, 0.012)
    turn = Turn(1 + 0.5 * 102, 100, load=0.2)
    chance = 1 / turn.sharing
    assert chance == pytest.approx((1 - exp(-0.5)) / 0.5, rel=1e-3)
    assert shared(turn, times, chance) == pytest.approx(0.02)
    assert shared(turn, times, 1.0) == pytest.approx(0.02)  # it is not asked for less company than by chance
    assert shared(turn, times, 0.2) == pytest.approx(0.012)
    assert shared(turn, times, (chance + 0.2) / 2) == pytest.approx(0.016)


def test_clients_that_began_together_come_in_a_crowd() -> None:
    """Answers of 100 tokens, a tenth longer or shorter: a wave later within 20 of 102 steps, two later within 28."""
    turn = Turn(10, 100)
    assert width_after(turn, 0.1, 2) == pytest.approx(20 * 2**0.5)
    assert width_after(replace(turn, load=2.0), 0.1, 1) == pytest.approx((20**2 + 20**2) ** 0.5)
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


@given(
    st.integers(1, 4096), st.integers(2, 5000), st.floats(0, 1), st.floats(1e-3, 20), st.floats(0, 1),
    st.floats(1e-4, 1), st.floats(1e-4, 10), st.booleans(),
)  # fmt: skip
def test_a_loop_keeps_its_bounds(
    clients: int, output_len: int, wave: float, load: float, front: float, step: float, prompt: float, first: bool
) -> None:
    """No more others' prompts than others, no token faster than a step, no answer before its own prompt."""
    turn = Turn(clients, output_len, first_wave=wave, load=load, pieces=max(1, round(load)))
    times = Times(front, step, prompt, prompt + step, prompt)
    found = (prompts_first if first else carried)(turn, times)
    assert 0 <= found.prompts <= clients - 1
    assert step <= found.tpot_s <= step + found.prompts / turn.further * prompt * (1 + 1e-9)
    assert found.ttft_s >= front
    assert found.wait_s >= 0
    if clients == 1:
        assert (found.tpot_s, found.wait_s) == (step, 0)
        assert found.ttft_s == pytest.approx(front + prompt + step)
