"""Prefill: chunks add up to the whole, windows bound the pairs, and the free chunk is free."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import prefill, step

tokens = st.integers(1, 200_000)
SHAPE = {"layers": 32, "query_heads": 32, "head_dim": 128}


@given(tokens, st.integers(1, 8192))
def test_chunks_cover_the_prompt_once(prompt: int, chunk: int) -> None:
    parts = prefill.chunks(prompt, max(chunk, prompt // 200 + 1))
    assert [start for start, _ in parts] == [sum(n for _, n in parts[:i]) for i in range(len(parts))]
    assert sum(n for _, n in parts) == prompt
    assert min(n for _, n in parts) >= 1


@given(tokens, st.integers(1, 8192))
def test_chunk_flops_add_up_to_the_whole_prefill(prompt: int, chunk: int) -> None:
    def flops(count: int, start: int = 0) -> int:
        attention = prefill.causal_attention_flops(**SHAPE, tokens=count, start=start)
        return prefill.prefill_flops(8_030_000_000, count, attention)

    parts = prefill.chunks(prompt, max(chunk, prompt // 200 + 1))
    assert sum(flops(count, start) for start, count in parts) == flops(prompt)  # exactly: integers


@given(st.integers(1, 2000), st.integers(1, 2000), st.integers(0, 2000))
def test_windowed_pairs_are_those_counted_one_by_one(count: int, window: int, start: int) -> None:
    """Each query counts itself as half, as the causal formula does; past the window it sees `window` keys."""
    counted = sum(min(i + 0.5, window) if i < window else window for i in range(start, start + count))
    assert prefill.windowed_pairs(count, window, start) == counted


@given(tokens, tokens)
def test_a_window_longer_than_all_changes_nothing(count: int, start: int) -> None:
    assert prefill.windowed_pairs(count, start + count, start) == prefill.causal_pairs(count, start)


def test_flops_are_four_per_pair_head_and_element() -> None:
    pairs = prefill.causal_pairs(512, start=1024)
    assert prefill.causal_attention_flops(**SHAPE, tokens=512, start=1024) == 4 * 32 * 32 * 128 * pairs


def test_a_chunk_of_one_token_is_a_decode_step() -> None:
    """Up to the half key of its own diagonal."""
    decode = step.attention_flops_per_sequence(**SHAPE, context=1000)
    assert prefill.causal_attention_flops(**SHAPE, tokens=1, start=1000) == pytest.approx(decode, rel=1e-3)


@given(st.floats(1e-3, 1), st.integers(1, 500), st.floats(0.1, 1))
def test_the_free_chunk_is_free_and_one_token_more_is_not(memory_time: float, batch: int, efficiency: float) -> None:
    peak, parameters = 989e12, 8.03e9
    free = prefill.free_chunk_tokens(memory_time, peak, parameters, batch, compute_efficiency=efficiency)

    def compute(chunk: float) -> float:
        return step.compute_time(2 * parameters * (batch + chunk), peak, efficiency)

    assert compute(free) <= memory_time * (1 + 1e-9)
    assert compute(free + 1) > memory_time * (1 - 1e-9)


def test_a_short_prompt_is_memory_bound() -> None:
    flops = prefill.prefill_flops(8.03e9, 8, 0)
    assert prefill.prefill_time(16.06e9, flops, 3.35e12, 989e12) == 16.06e9 / 3.35e12


def test_the_long_prompt_of_the_lesson_step_by_step() -> None:
    """Lesson 12, section 8, question 6: 64 steps of 9.5 to 18 ms at peak, 19 to 36 ms at half of it."""
    memory_time = (16.06e9 + 64 * 1024 * 131072) / 3.35e12
    decode = step.decode_step_flops(8.03e9, 64, step.attention_flops_per_sequence(**SHAPE, context=1024))
    for efficiency, first, last in ((1.0, 9.5, 18), (0.5, 19, 36)):
        flops = prefill.chunked_prefill_flops(32768, 512, 8.03e9, **SHAPE)
        times = prefill.chunked_prefill_step_times(flops, memory_time, decode, 989e12, efficiency)
        assert len(times) == 64
        assert times == sorted(times)
        assert round(times[0] * 1e3, 1 if first == 9.5 else 0) == first
        assert round(times[-1] * 1e3) == last
