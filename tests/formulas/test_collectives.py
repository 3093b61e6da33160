"""Collectives: a ring simulated rank by rank sends what the formula says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import collectives

messages = st.floats(1, 1e12)
ranks = st.integers(1, 64)


@given(st.integers(1, 16))
def test_a_ring_sends_what_the_formula_says(size: int) -> None:
    """Reduce-scatter, then all-gather, each of size - 1 hops with 1/size of the message."""
    message = 5040.0
    sent = sum(message / size for _ in range(size - 1)) * 2
    assert collectives.ring_all_reduce_bytes(message, size) == pytest.approx(sent)


@given(messages, ranks)
def test_an_all_reduce_is_two_all_gathers_and_never_twice_the_message(message: float, size: int) -> None:
    sent = collectives.ring_all_reduce_bytes(message, size)
    assert sent == pytest.approx(2 * collectives.all_gather_bytes(message, size))
    assert sent < 2 * message
    assert collectives.ring_all_reduce_bytes(message, size + 1) >= sent


@given(messages, ranks, st.floats(1e9, 1e12), st.floats(0, 1e-4))
def test_ring_time_is_its_bytes_and_its_hops(message: float, size: int, bandwidth: float, latency: float) -> None:
    hops = 2 * (size - 1)
    sent = collectives.ring_all_reduce_bytes(message, size)
    want = collectives.transfer_time(sent, bandwidth, latency, hops)
    assert collectives.ring_all_reduce_time(message, size, bandwidth, latency) == pytest.approx(want)


def test_one_rank_sends_nothing() -> None:
    assert collectives.ring_all_reduce_bytes(1e9, 1) == 0
    assert collectives.ring_all_reduce_time(1e9, 1, 1e9, 1e-5) == 0


def test_small_blocks_make_a_swap_slower() -> None:
    """Kwon et al. 2023, section 7.3: swapping suffers from many small transfers."""
    whole = collectives.transfer_time(1500 * 131072, 50e9, latency_s=10e-6, messages=1)
    blocks = collectives.transfer_time(1500 * 131072, 50e9, latency_s=10e-6, messages=94 * 32)
    assert blocks > 5 * whole
