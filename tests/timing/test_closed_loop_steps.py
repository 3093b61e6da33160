"""The closed loop's inner terms at round numbers: steps that prompts share, queues of prompts that go first."""

from dataclasses import replace as replace_turn
from math import exp
from types import SimpleNamespace
from typing import Any

import pytest
from timing.operators.test_ggml_by_hand import GPU, KERNELS

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.kernels import load_kernels
from kvcalc.counting.work import Operator
from kvcalc.specs.base import replace
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.carried_prompts import lengths, outside, shared_steps, under_way
from kvcalc.timing.closed_loop import Load, Times, Turn
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine, with_profile
from kvcalc.timing.operators.times import operator_time
from kvcalc.timing.prompts_first import batch, gathered, prompts_first

TIMES = Times(front_s=0.05, step_s=0.02, prompt_s=0.1, alone_s=0.1, packed_s=0.06)
LOAD = Load(prompt_s=0.1, sharing=1.5, beside=1.0)


def turn(**more: float) -> Any:
    """In two pieces each; four pieces fill a step."""
    given = {"pieces": 2, "room": 4.0, "sharing": 1.25, "ahead": 1, "queued": 0.5, "others": 100}
    return SimpleNamespace(**given | more)


def share(arriving: float) -> float:
    """1 / k of so many a step."""
    return (1 - exp(-arriving)) / arriving


def test_prompts_lengthen_the_steps_that_have_any() -> None:
    """1.5 half prompts of 0.1 s are 75 ms more, in two of five steps: 50 ms on average. Half prompts meet one other:
    0.05² · 1.5 · 2 more in the square of a long step."""
    found = lengths(turn(), 0.02, 0.3, LOAD)
    square = 0.6 * 0.02**2 + 0.4 * (0.02**2 + 2 * 0.02 * 0.075 + 0.05**2 * 1.5 * 2)
    assert found == (pytest.approx(0.075), pytest.approx(0.4), pytest.approx(0.05), pytest.approx(square))
    assert lengths(turn(), 0.02, 3, LOAD)[1] == 1
    # All of one length, as where nothing is known of them: the square of the mean.
    even = lengths(turn(), 0.02, 0.3, LOAD._replace(beside=0.0))[3]
    assert even == pytest.approx(0.6 * 0.02**2 + 0.4 * 0.095**2)


def test_a_prompt_waits_for_long_steps_more_often() -> None:
    longer, _, mean_s, square = lengths(turn(), 0.02, 0.3, LOAD)
    assert under_way(turn(), 0.02, 0.3, LOAD) == pytest.approx(square / (2 * mean_s) + mean_s + 0.5 * (0.02 + longer))


@pytest.mark.parametrize(
    "front_s, steps",
    [
        (0.5, 10.92),  # 500 / 50 and 0.92
        (0.005, 1.02),
        (0.001, 1.0),  # the one under way
        (0.0, 1.0),
    ],
)
def test_steps_that_end_while_the_front_end_works(front_s: float, steps: float) -> None:
    """Of 50 ms on average, the mean of their squares 4,600 ms²: 0.92 of a step more than F / 50, for the one in which F
    ends; no more than of short ones alone, and at least one."""
    assert lengths(turn(), 0.02, 0.3, LOAD)[2:] == (pytest.approx(0.05), pytest.approx(0.0046))
    assert outside(turn(), TIMES._replace(front_s=front_s), 0.02, 0.3, LOAD) == pytest.approx(steps)


@pytest.mark.parametrize(
    "front_s, arriving, carrying, mean_s",
    [(0.05, 0.3, 0.4, 0.05), (0.01, 0.3, 0.4, 0.05), (0.05, 0.6, 0.8, 0.08)],
)
def test_long_steps_take_in_the_prompts_of_more(
    front_s: float, arriving: float, carrying: float, mean_s: float
) -> None:
    """A long step of 95 ms has those of as many steps as end in it; a prompt's own is 120 ms, and steps are short where
    most answers end; no more than end in a front end's time, and one."""
    coming, most = 2 * arriving, 1 + front_s / mean_s
    in_long = min(1, carrying * min(most, 0.095 / mean_s))
    longest = coming * min(most, 0.120 / ((mean_s + 0.02) / 2))
    short = coming * 0.02 / mean_s
    apart = in_long * share(longest) + (1 - in_long) * share(short)
    part = (apart - 0.25) / (1 / 1.25 - 0.25)
    times = TIMES._replace(front_s=front_s)
    found = shared_steps(turn(), times, 0.02, arriving, LOAD)
    assert found.sharing == pytest.approx(1 / apart)
    assert found.prompt_s == pytest.approx(0.06 + 0.04 * min(part, 1))
    assert found.beside == pytest.approx(in_long * longest + (1 - in_long) * short)
    # A step holds no more than it has room for, and no others than there are.
    narrow = shared_steps(turn(room=1.1), times, 0.02, arriving, LOAD)
    assert narrow.sharing <= 1.1
    assert narrow.beside == pytest.approx(min(0.1, found.beside))
    assert shared_steps(turn(others=0), times, 0.02, arriving, LOAD).beside == 0


def test_prompts_that_go_first_and_take_less_than_decode() -> None:
    """Ten others, 100 further tokens of 10 ms, prompts of 20 ms that never share: 0.19 of the decode time between them.

    12 steps of decode would pass outside, prompts take their part of that time: 12.5 / 1.19 or so.
    """
    one = Turn(11, 101, load=1.0)
    found = prompts_first(one, Times(0.12, 0.01, 0.02, 0.03, 0.02))
    arriving = 10 / (100 + found.absent)
    rho = arriving * 0.02 / 0.01
    assert found.absent == pytest.approx((12 + 1.5) / (1 + rho), rel=1e-5)
    assert found.missed == pytest.approx(arriving * found.absent)
    assert found.tpot_s == pytest.approx(0.01 + (10 - found.missed) / 100 * 0.02)
    # The planned steps, and half of its time where prompts are under way.
    assert found.wait_s == pytest.approx(0.015 + rho / (1 + rho) * 0.01)
    assert found.own_s == pytest.approx(0.02)
    assert found.ttft_s == pytest.approx(0.12 + found.wait_s + 0.02)
    # Who is looked for every fifth step is away for two more: half of all that came in four go before its prompt, and
    # the others with it where a step has room.
    seldom = prompts_first(replace_turn(one, looks=5), Times(0.12, 0.01, 0.02, 0.03, 0.02))
    arriving = 10 / (100 + seldom.absent)
    assert seldom.absent == pytest.approx(2 + 13.5 / (1 + arriving * 2), rel=1e-5)
    assert seldom.missed == pytest.approx(arriving * (seldom.absent))
    roomy = prompts_first(replace_turn(one, looks=5, load=0.1), Times(0.12, 0.01, 0.02, 0.03, 0.02))
    arriving = 10 / (100 + roomy.absent)
    assert roomy.missed == pytest.approx(arriving * (roomy.absent + 2) + roomy.load.beside)
    company = roomy.load.beside + 4 * arriving
    assert roomy.load.sharing == pytest.approx(company / (1 - exp(-company)))
    # Clients that are still bunched come as much denser.
    crowded = prompts_first(replace_turn(one, crowd=2.0), Times(0.12, 0.01, 0.02, 0.03, 0.02))
    assert crowded.missed == pytest.approx(2 * 10 / (100 + crowded.absent) * crowded.absent)


def test_prompts_that_take_longer_than_decode_come_in_bursts() -> None:
    """61 clients, 100 further tokens of 10 ms, prompts of 40 ms, one a step: decode runs for 13.5 steps before those
    that ended in them come, about eight, whose prompts take more than twice as long; half are before one's own."""
    found = prompts_first(Turn(61, 101, load=1.0), Times(0.12, 0.01, 0.04, 0.04, 0.04))
    arriving = 60 / (100 + found.absent)
    assert arriving * 4 > 1
    ends, rho = arriving * 13.5, arriving * 4
    assert found.absent == pytest.approx(13.5 / 2)
    assert found.missed == pytest.approx(ends / 2)
    assert found.wait_s == pytest.approx(0.015 + (ends * 0.04 - 0.135) / 2 + rho / (1 + rho) * 0.02)
    # With room for three a step two share its own, and are among the half before it but for 1 / rho of them.
    found = prompts_first(Turn(61, 101, load=1 / 3), Times(0.12, 0.01, 0.04, 0.04, 0.04))
    assert found.load.beside == pytest.approx(2)
    assert found.missed == pytest.approx(ends / 2 + (1 + 1 / rho) / 2 * 2)
    before_s = (ends * 0.04 - 0.135) / 2 - (1 - 1 / rho) / 2 * 2 * 0.04
    assert found.wait_s == pytest.approx(0.015 + before_s + rho / (1 + rho) * 0.06)


def test_answers_that_end_within_a_front_ends_time_go_on_together() -> None:
    """61 clients, all of whose answers end within 20 steps, in whose time decode runs for 18.5: all come in one burst.

    Thirty others' prompts are before one's own; by chance, or drawn apart by half as much again, far fewer.
    """
    times = Times(0.17, 0.01, 0.04, 0.04, 0.04)
    one = Turn(61, 101, load=1.0, drawn=20.0)
    assert gathered(one, 18.5, 2.0) == pytest.approx(118.5 / 18.5)
    found = prompts_first(one, times)
    assert found.missed == pytest.approx(30)
    rho = 118.5 / 18.5 * 60 / (100 + 18.5 / 2) * 4
    assert found.wait_s == pytest.approx(0.015 + (60 * 0.04 - 0.185) / 2 + rho / (1 + rho) * 0.02)
    free = prompts_first(replace_turn(one, drawn=30.0), times)
    assert free.missed == pytest.approx(60 / (100 + 18.5 / 2) * 18.5 / 2)
    assert gathered(one, 18.5, 1.0) == 1.0  # prompts take no longer than the decode between them
    assert gathered(replace_turn(one, crowd=10.0), 18.5, 2.0) == 10.0  # denser already
    assert gathered(replace_turn(one, drawn=1.35 * 18.5), 18.5, 2.0) == pytest.approx((1 + 118.5 / 18.5) / 2)


def test_prompts_of_a_burst_share_steps() -> None:
    """One in 2.5 of a burst's ten, by the square of the time that prompts take, beside those of one's own step."""
    one = Turn(61, 101, load=0.05)
    times = Times(0.12, 0.01, 0.04, 0.04, 0.03)
    found = batch(one, times, arriving=0.5, ends=10.0, rho=1.0)
    assert found.beside == pytest.approx(0.5 + 0.25 * 4)
    assert found.sharing == pytest.approx(1.5 / (1 - exp(-1.5)))
    assert batch(one, times, arriving=0.5, ends=1.0, rho=1.0).beside == pytest.approx(0.75)
    # Where prompts take half of the time that decode does there are no bursts to speak of: an eighth of ten, 1.25.
    assert batch(one, times, arriving=0.5, ends=10.0, rho=0.5).beside == pytest.approx(0.5 + 1 / 9)
    assert batch(replace_turn(one, load=0.5), times, arriving=0.5, ends=10.0, rho=1.0).beside == 1  # two fill a step


def test_an_engine_is_no_quicker_with_prompts_than_its_card() -> None:
    """A factor below what multiplications leave of the peak is raised to it."""
    for name in ("h100-sxm", "rtx-pro-6000-se"):
        kernels = load_kernels(load_gpu(name))
        reached = max(row.flops_share for row in kernels.gemm)
        for factor in (0.5, 1.0):
            found = with_profile(load_gpu(name), Profile("x", "x", prompt_factor=0.01, kernel_factor=factor)).profile
            assert found.prompt_factor == pytest.approx(min(1, reached) / factor)
        kept = Profile("x", "x", prompt_factor=2.0)
        assert with_profile(load_gpu(name), kept).profile == kept


@pytest.mark.parametrize("name, share_of_flops", [("q4_k", 1.0), ("q6_k", 0.5), ("q2_k", 0.5)])
def test_a_scale_for_each_sixteen_weights_costs_arithmetic(name: str, share_of_flops: float) -> None:
    kernels = replace(KERNELS, sixteens_share=0.5)
    machine = Machine(GPU, Kernels(evidence=""), Profile("x", "x"), ggml=kernels)
    one = Operator("x", "gemm", 1, flops=2e12, format=name, bits=4.5, rows=16)
    assert operator_time(one, machine)[1] == pytest.approx(20e-3 / share_of_flops * 32 / 16)
