"""Latency and service terms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import batching

times = st.floats(1e-3, 100)


@given(times, times, st.integers(2, 10_000))
def test_tpot_and_latency_undo_each_other(ttft: float, tpot: float, tokens: int) -> None:
    end = batching.end_to_end_latency(ttft, tpot, tokens)
    assert batching.time_per_output_token(ttft, end, tokens) == pytest.approx(tpot, rel=1e-6)


@given(times, times, st.integers(1, 512), st.integers(1, 4096))
def test_prefills_slow_everybody_but_a_lone_sequence(step: float, prefill: float, batch: int, tokens: int) -> None:
    tpot = batching.tpot_with_prefills(step, prefill, batch, tokens)
    assert tpot >= step
    assert (tpot == step) == (batch == 1)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=64))
def test_slot_use_is_whole_only_for_equal_answers(tokens: list[int]) -> None:
    use = batching.static_batch_slot_use(tokens)
    assert 1 / len(tokens) <= use <= 1
    assert (use == 1) == (len(set(tokens)) == 1)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=50), times, times, times)
def test_goodput_counts_requests_one_by_one(
    requests: list[tuple[float, float]], ttft_target: float, tpot_target: float, duration: float
) -> None:
    good = sum(ttft <= ttft_target and tpot <= tpot_target for ttft, tpot in requests)
    ttft, tpot = (np.array(column) for column in zip(*requests, strict=True))
    assert batching.goodput(ttft, tpot, ttft_target, tpot_target, duration) == pytest.approx(good / duration)


def test_an_answer_of_one_token_has_no_tpot_to_miss() -> None:
    assert batching.within_targets([0.5], [math.nan], 1, 0.05).all()


def test_littles_law_holds_for_a_clockwork_server() -> None:
    """One request every 0.5 s that stays 3 s: six inside at any time."""
    inside = [sum(bool(start <= t < start + 3) for start in np.arange(0, 100, 0.5)) for t in np.arange(20, 60, 0.1)]
    assert batching.concurrency(2, 3) == pytest.approx(np.mean(inside), rel=0.02)


def test_time_to_first_token() -> None:
    assert batching.time_to_first_token(0.2, 0.3) == 0.5
