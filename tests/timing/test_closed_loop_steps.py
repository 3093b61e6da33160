"""The closed loop's inner terms at round numbers: steps that prompts share, queues of prompts that go first."""

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
from kvcalc.timing.closed_loop import (
    Load,
    Times,
    lengths,
    prompts_first,
    shared_steps,
    under_way,
)
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine, with_profile
from kvcalc.timing.operators.times import operator_time

TIMES = Times(front_s=0.05, step_s=0.02, token_s=0.02, prompt_s=0.1, alone_s=0.1, packed_s=0.06)
LOAD = Load(prompt_s=0.1, sharing=1.5)


def turn(**more: float) -> Any:
    """0.3 of others' prompts a step, in two pieces each; four pieces fill a step."""
    given = {"arriving": 0.3, "pieces": 2, "room": 4.0, "sharing": 1.25, "ahead": 1, "queued": 0.5}
    return SimpleNamespace(**given | more)


def share(arriving: float) -> float:
    """1 / k of so many a step."""
    return (1 - exp(-arriving)) / arriving


def test_prompts_lengthen_the_steps_that_have_any() -> None:
    """1.5 half prompts of 0.1 s are 75 ms more, in two of five steps: 50 ms on average."""
    assert lengths(turn(), TIMES, LOAD) == (pytest.approx(0.075), pytest.approx(0.4), pytest.approx(0.05))
    assert lengths(turn(arriving=3), TIMES, LOAD)[1] == 1


def test_a_prompt_waits_for_long_steps_more_often() -> None:
    square = 0.6 * 0.02**2 + 0.4 * 0.095**2
    assert under_way(turn(), TIMES, LOAD) == pytest.approx(square / 0.1 + 0.05 + 0.5 * 0.095)


@pytest.mark.parametrize(
    "front_s, arriving, carrying, mean_s, steps",
    [
        (0.05, 0.3, 0.4, 0.05, 1.9),  # as many as a long step is longer than the mean: 95 ms for 50
        (0.01, 0.3, 0.4, 0.05, 1.2),  # as ended in a front end's time, and one
        (0.05, 0.6, 0.8, 0.08, 0.095 / 0.08),  # four of five steps are long ones already
    ],
)
def test_long_steps_take_in_the_prompts_of_more(
    front_s: float, arriving: float, carrying: float, mean_s: float, steps: float
) -> None:
    coming, in_long = 2 * arriving, carrying * steps
    apart = in_long * share(coming * steps) + (1 - in_long) * share(coming * 0.02 / mean_s)
    part = (apart - 0.25) / (1 / 1.25 - 0.25)
    found = shared_steps(turn(arriving=arriving), TIMES._replace(front_s=front_s), LOAD)
    assert found.sharing == pytest.approx(1 / apart)
    assert found.prompt_s == pytest.approx(0.06 + 0.04 * min(part, 1))
    # No more is paid than what was asked for, and a step holds no more than it has room for.
    most = shared_steps(turn(arriving=arriving, sharing=3.5), TIMES._replace(front_s=front_s), LOAD)
    assert most.prompt_s == pytest.approx(0.1)
    narrow = shared_steps(turn(arriving=arriving, room=1.1), TIMES._replace(front_s=front_s), LOAD)
    assert narrow.sharing <= 1.1


@pytest.mark.parametrize("looks, room", [(1, 4.0), (5, 4.0), (5, 1.05)])
def test_prompts_that_go_first_queue_for_each_other(looks: int, room: float) -> None:
    """Nine clients, 101 tokens; what was found holds in each of its equations."""
    one: Any = turn(others=8, further=100, clients=9, several=1, looks=looks, first_wave=0.1, away=4, room=room)
    found = prompts_first(one, TIMES)
    arriving = 8 / 101.5
    own_s = min(1 + arriving, room) * 0.1
    decoding_s = 0.05 + found.wait_s + own_s + 100 * found.tpot_s - 0.1
    busy = 0.8 / (0.1 + decoding_s)
    queue_s = 0.1 * busy / (2 * (1 - busy))
    assert found.own_s == pytest.approx(own_s)
    assert found.wait_s == pytest.approx(queue_s + 1.5 * 0.02, rel=1e-4)
    missed = 8 * 0.05 / (0.1 + decoding_s) + queue_s / 0.1 + arriving * (1.5 + (looks - 1) / 2)
    assert found.missed == pytest.approx(missed + min(arriving, room - 1), rel=1e-4)
    assert found.prompts == pytest.approx((8 - found.missed) * 0.95)
    assert found.tpot_s == pytest.approx(0.02 + found.prompts / 100 * 0.1)
    assert found.first_s == pytest.approx(10 / 2 * 0.06)
    assert found.ttft_s == pytest.approx(0.05 + 0.1 * found.first_s + 0.9 * (found.wait_s + own_s))


def test_an_engine_is_no_quicker_with_prompts_than_its_card() -> None:
    """A factor below what multiplications leave of the peak is raised to it."""
    for name in ("h100-sxm", "rtx-pro-6000-se"):
        kernels = load_kernels(load_gpu(name))
        reached = max(row.flops_share for row in kernels.gemm) * (kernels.sustained_share or 1)
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
