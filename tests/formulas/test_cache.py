"""Cache formulas: published sizes, and the laws that any cache obeys."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import cache

shapes = st.tuples(st.integers(1, 200), st.integers(1, 128), st.sampled_from([64, 80, 96, 128, 256]))
amounts = st.integers(1, 10**12)


@pytest.mark.parametrize(
    ("layers", "kv_heads", "head_dim", "bytes_per_element", "want"),
    [
        (40, 40, 128, 2, 819_200),  # OPT-13B: "800 KB", Kwon et al. 2023, section 3
        (80, 8, 128, 1, 163_840),  # Llama-3-70B with an fp8 cache: half of 320 KiB
        (96, 96, 128, 2, 4_718_592),  # GPT-3: 4.5 MiB, from the shape in Brown et al. 2020, table 2.1
    ],
)
def test_published_sizes(layers: int, kv_heads: int, head_dim: int, bytes_per_element: int, want: int) -> None:
    assert cache.kv_bytes_per_token(layers, kv_heads, head_dim, bytes_per_element) == want


def test_latent_cache_of_deepseek_v2() -> None:
    """The paper gives it as 4.5 · d_h · l elements: 576 a layer, as GQA with 2.25 groups (table 1)."""
    assert cache.mla_elements_per_token(60, 512, 64) == 4.5 * 128 * 60


@given(shapes, st.sampled_from([1, 2, 4]), st.integers(2, 16))
def test_grouping_divides_and_dtype_multiplies(shape: tuple[int, int, int], size: int, group: int) -> None:
    layers, kv_heads, head_dim = shape
    full = cache.kv_bytes_per_token(layers, kv_heads * group, head_dim, size)
    assert full == group * cache.kv_bytes_per_token(layers, kv_heads, head_dim, size)
    assert full * 2 == cache.kv_bytes_per_token(layers, kv_heads * group, head_dim, 2 * size)


@given(amounts, st.integers(1, 10**7), st.integers(1, 10**6))
def test_what_fits_fits_and_one_more_does_not(memory: int, per_token: int, context: int) -> None:
    one = cache.kv_cache_bytes(per_token, context)
    batch = cache.max_batch(memory, one)
    assert cache.kv_cache_bytes(per_token, context, batch) <= memory
    assert cache.kv_cache_bytes(per_token, context, batch + 1) > memory
    assert batch * context <= cache.kv_tokens_that_fit(memory, per_token)


@given(amounts, st.integers(1, 10**6), st.integers(1, 512))
def test_blocks_hold_no_more_than_tokens(memory: int, per_token: int, block_size: int) -> None:
    blocks = cache.kv_blocks_that_fit(memory, per_token, block_size)
    assert blocks == cache.kv_tokens_that_fit(memory, per_token) // block_size


@given(st.integers(1, 10**13), st.integers(1, 10**13), st.integers(0, 10**12))
def test_memory_adds_up(memory: int, weights: int, other: int) -> None:
    assert cache.kv_memory_left(memory, weights, other) + weights + other == memory


def test_fractions_stay_exact() -> None:
    assert cache.weight_bytes(10**12 + 1, Fraction(9, 16)) == Fraction(9 * (10**12 + 1), 16)
