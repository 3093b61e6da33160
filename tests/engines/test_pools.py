"""What several pools hold together: the one with the least room decides."""

import pytest

from kvcalc.engines.capacity import Capacity, Group, Pool
from kvcalc.specs.base import replace


def pool(blocks: int, size: int, bytes_each: int = 10) -> Pool:
    group = Group(kind="full", layers=1, page_bytes=bytes_each, block_size=size, token_bytes=bytes_each / size)
    return Pool(num_blocks=blocks, block_bytes=bytes_each, groups=(group,))


TWO = Capacity(pools=(pool(60, 16), pool(100, 8)), pool_bytes=1600, kv_cache_size_tokens=800)


def test_the_scarcest_pool_decides() -> None:
    assert TWO.block_size == 8
    assert TWO.max_concurrency(32) == 25  # 60 / 2 and 100 / 4
    assert TWO.max_batch(32) == 25
    assert TWO.max_batch(40) == 20  # 60 / 3 and 100 / 5
    assert TWO.needed_bytes(32) == (2 + 4) * 10
    assert TWO.bytes_per_token(32) == 10 / 16 + 10 / 8


@pytest.mark.parametrize("limit, longest", [(0, 0), (1, 1), (799, 799), (800, 800), (801, 800), (10**7, 800)])
def test_the_longest_sequence(limit: int, longest: int) -> None:
    """960 tokens in the first pool, 800 in the second."""
    assert TWO.estimated_max_model_len(limit) == longest


def test_no_sequence_fits_into_no_blocks() -> None:
    assert Capacity(pools=(pool(0, 16),), pool_bytes=0, kv_cache_size_tokens=0).estimated_max_model_len(100) == 0


def test_blocks_that_are_never_given() -> None:
    one = replace(pool(10, 16), unusable_blocks=1)
    assert [one.max_batch(tokens) for tokens in (16, 48, 160)] == [9, 3, 0]
    assert replace(one, num_blocks=0).max_batch(16) == 0
