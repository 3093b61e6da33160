"""The decode step: its intensity is a mean, its time grows with everything, and known limits hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import cache, step
from kvcalc.formulas.matmul import ridge_point

batches = st.integers(1, 4096)
contexts = st.integers(1, 10**6)
shapes = st.tuples(st.integers(1, 128), st.integers(1, 16), st.integers(1, 16), st.sampled_from([64, 128, 256]))
sizes = st.sampled_from([0.5, 1, 2, 4])


@given(batches, contexts, shapes, st.integers(10**6, 10**12), sizes, sizes)
def test_intensity_is_the_byte_weighted_mean(
    batch: int, context: int, shape: tuple[int, ...], parameters: int, weight_size: float, cache_size: float
) -> None:
    layers, kv_heads, group, head_dim = shape
    weights = cache.weight_bytes(parameters, weight_size)
    of_sequence = cache.kv_cache_bytes(cache.kv_bytes_per_token(layers, kv_heads, head_dim, cache_size), context)
    moved = step.decode_step_bytes(weights, batch, of_sequence)
    attention = step.attention_flops_per_sequence(layers, kv_heads * group, head_dim, context)
    intensity = step.intensity(step.decode_step_flops(parameters, batch, attention), moved)
    of_weights = step.weight_intensity(batch, weight_size)
    of_cache = step.cache_intensity(kv_heads * group, kv_heads, cache_size)
    assert intensity == pytest.approx(
        step.decode_step_intensity(step.share(weights, moved), of_weights, of_cache), rel=1e-9
    )
    assert min(of_weights, of_cache) * (1 - 1e-9) <= intensity <= max(of_weights, of_cache) * (1 + 1e-9)


@given(batches, contexts)
def test_times_grow_with_batch_and_context(batch: int, context: int) -> None:
    def bound(batch: int, context: int) -> float:
        moved = step.decode_step_bytes(16_060_000_000, batch, cache.kv_cache_bytes(131072, context))
        flops = step.decode_step_flops(8_030_000_000, batch, step.attention_flops_per_sequence(32, 32, 128, context))
        return step.roofline_time(step.memory_time(moved, 3.35e12), step.compute_time(flops, 989e12))

    assert bound(batch + 1, context) > bound(batch, context)
    assert bound(batch, context + 1) > bound(batch, context)
    more, now = (step.throughput(b, bound(b, context)) for b in (batch + 1, batch))
    assert more >= now * (1 - 1e-12), "a larger batch never lowers throughput"


@given(st.floats(1, 1e6), st.floats(1e9, 1e16), st.floats(1e9, 1e14))
def test_memory_bound_exactly_below_the_ridge(moved: float, peak: float, bandwidth: float) -> None:
    for factor, memory_is_longer in ((0.99, True), (1.01, False)):
        flops = moved * ridge_point(peak, bandwidth) * factor
        assert (step.memory_time(moved, bandwidth) > step.compute_time(flops, peak)) is memory_is_longer


def test_efficiency_stretches_compute() -> None:
    assert step.compute_time(1e12, 1e15, 0.25) == 4 * step.compute_time(1e12, 1e15)


def test_absorbed_latent_attention_does_about_two_flops_per_head_and_byte() -> None:
    """DeepSeek-V3: 128 heads share one latent, so attention is near the ridge whatever the batch."""
    flops = step.mla_attention_flops_per_sequence(61, 128, 512, 64, context=4096)
    moved = 2 * cache.mla_elements_per_token(61, 512, 64) * 4096
    assert step.intensity(flops, moved) == pytest.approx(2 * 128, rel=0.06)


@given(st.integers(1, 512), st.integers(1, 16), st.integers(1, 10_000))
def test_experts_touched_stays_between_one_row_and_all(experts: int, chosen: int, rows: int) -> None:
    top_k = min(chosen, experts)
    touched = step.experts_touched(experts, top_k, rows)
    assert top_k * (1 - 1e-9) <= touched <= min(experts, top_k * rows) * (1 + 1e-9)
    assert step.experts_touched(experts, top_k, rows + 1) >= touched * (1 - 1e-12)


def test_experts_touched_counts_what_drawing_counts() -> None:
    rng = np.random.default_rng(0)
    drawn = [len({expert for _ in range(20) for expert in rng.permutation(64)[:6]}) for _ in range(2000)]
    assert step.experts_touched(64, 6, 20) == pytest.approx(np.mean(drawn), rel=0.01)


def test_a_million_points_of_the_same_definition() -> None:
    batch, context = (grid.ravel() for grid in np.meshgrid(np.arange(1.0, 101), np.arange(1.0, 101)))
    moved = step.decode_step_bytes(16_060_000_000, batch, cache.kv_cache_bytes(131072, context))
    assert moved[-1] == step.decode_step_bytes(16_060_000_000, 100, cache.kv_cache_bytes(131072, 100))
    assert moved.shape == batch.shape
