"""Compressed attention: 584 bytes a vector, pages in multiples of 576."""

import pytest
from engines.models import DEEPSEEK_V4_FLASH, compressed

from kvcalc.engines import capacity
from kvcalc.engines.vllm.compressed import compressed_pages
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB


def test_pages_of_a_layer() -> None:
    # window 64 × 584, compressed 64 × 584 and 2 × 584, index 64 × 132, states in float32: all rounded up to 576
    sizes = [(page.kind, page.block_size, page.page_bytes) for page in compressed_pages(compressed(4), "fp8_ds_mla")]
    assert sizes == [
        ("sliding_latent", 64, 37440), ("latent", 256, 37440), ("sliding_latent", 4, 32832),
        ("index", 256, 8640), ("sliding_latent", 4, 8640),
    ]  # fmt: skip
    assert [page.page_bytes for page in compressed_pages(compressed(128), "fp8_ds_mla")] == [37440, 1728, 32832]
    assert [page.page_bytes for page in compressed_pages(compressed(0), "fp8_ds_mla")] == [37440]


def test_the_block_is_as_wide_as_the_layers_that_grow() -> None:
    held = capacity(DEEPSEEK_V4_FLASH, Deployment(max_model_len=500_000, max_num_batched_tokens=8192), 26 * GIB)
    assert held.block_bytes == 21 * 37440 + 21 * 8640 + 20 * 1728
    # what a request takes does not grow in proportion to its length: states and windows are there at once
    assert held.needed_bytes(1000) > 20 * held.needed_bytes(500_000) / 500


def test_a_block_held_a_slot_for_every_size_until_0_23() -> None:
    """An LLM() of 0.22.1 on two GH200: one sequence of 30,000 tokens needs 6.66 GiB, and 5.44 GiB hold 13,528."""
    asked = Deployment(engine_version="0.22.1", max_model_len=30_000, max_num_batched_tokens=16_384, block_size=256)
    held = capacity(DEEPSEEK_V4_FLASH, asked, int(5.44 * GIB))
    assert held.block_bytes == 22 * (37440 + 8640 + 1728)
    assert held.needed_bytes() / GIB == pytest.approx(6.66, abs=0.005)
    assert held.estimated_max_model_len(30_000) == pytest.approx(13_528, rel=0.001)


@pytest.mark.parametrize(
    "version, block_bytes",
    [
        ("0.22.1", 22 * (37440 + 8640 + 1728)),  # _get_kv_cache_config_deepseek_v4
        ("0.25.1", 22 * 37440 + 21 * 8640 + 20 * 1728),  # _get_kv_cache_config_packed, by size of page
        ("0.28.0", 21 * 37440 + 21 * 8640 + 20 * 1728),  # _get_packed_kv_cache_layout
    ],
)
def test_what_a_block_is_by_version(version: str, block_bytes: int) -> None:
    asked = Deployment(engine_version=version, max_model_len=500_000, max_num_batched_tokens=8192)
    assert capacity(DEEPSEEK_V4_FLASH, asked, 26 * GIB).block_bytes == block_bytes
