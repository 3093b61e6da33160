"""What changed between versions."""

import pytest
from engines.models import (
    DEEPSEEK_V3,
    DEEPSEEK_V3_2,
    GEMMA_3_27B,
    GEMMA_4_31B,
    GPT_OSS_120B,
    QWEN3_5_27B,
    QWEN3_5_27B_MTP,
    gqa,
    mamba2,
    model,
)

from kvcalc.catalog.models import load_model
from kvcalc.engines import capacity
from kvcalc.engines.capacity import Group, Pool
from kvcalc.engines.vllm.planning import planning_of
from kvcalc.engines.vllm.report import printed_tokens
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

PURE = model((48, mamba2(80, 64, 128, groups=1)))


@pytest.mark.parametrize(
    "version, prints_concurrency, reserves_batches",
    [("0.10.2", False, False), ("0.20.2", False, False), ("0.21.0", True, False), ("0.25.1", True, False),
     ("0.26.0rc1", True, True), (None, True, True)],
)  # fmt: skip
def test_rules_by_version(version: str | None, prints_concurrency: bool, reserves_batches: bool) -> None:
    rules = planning_of(version)
    assert (rules.reports_concurrency, rules.reserves_batches) == (prints_concurrency, reserves_batches)


def test_not_a_version() -> None:
    with pytest.raises(KvcalcError):
        planning_of("newest")


def test_one_request_with_one_batch_in_flight() -> None:
    # worked from the public configs: blocks of 16, 8,192 tokens in flight, one request of 131,072
    before = Deployment(engine_version="0.25", max_model_len=131072, max_num_batched_tokens=8192)
    assert capacity(GEMMA_3_27B, before, GIB).needed_bytes() / GIB == pytest.approx(14.23, abs=0.005)
    assert capacity(GPT_OSS_120B, before, GIB).needed_bytes() / GIB == pytest.approx(4.79, abs=0.005)
    now = Deployment(max_model_len=131072, max_num_batched_tokens=4096)  # two batches of half the size
    assert capacity(GEMMA_3_27B, now, GIB).needed_bytes() / GIB == pytest.approx(14.23, abs=0.005)


def test_a_window_reserves_for_two_batches_since_0_26() -> None:
    # vLLM 0.28 refused Gemma-4-31B at 16,384 with max_num_batched_tokens 8,192: "13.76 GiB KV cache is needed"
    deployment = Deployment(engine_version="0.28", max_model_len=16384, max_num_batched_tokens=8192)
    assert capacity(GEMMA_4_31B, deployment, 7 * GIB).needed_bytes() / GIB == pytest.approx(13.76, abs=0.005)


def test_groups_of_ten_in_0_10() -> None:
    # vLLM 0.10.2, gemma-3-27b on an H200: 109.86 GiB, "Add 8 padding layers", "GPU KV cache size: 205,696 tokens"
    held = capacity(GEMMA_3_27B, Deployment(engine_version="0.10.2"), int(109.86 * GIB))
    assert held.kv_cache_size_tokens == pytest.approx(205696, rel=5e-5)
    assert sum(10 - group.layers for group in held.pools[0].groups) == 8


def test_the_two_ways_to_print_tokens() -> None:
    # 0.30.0: 26.84 GiB (561 blocks), fp8, 817,015 tokens at 131,072
    # 0.19-0.20: 6.67 GiB, fp8, 53,312 tokens and 5.15x at 32,768
    new = Deployment(engine_version="0.30.0", kv_cache_dtype="fp8", max_model_len=131072)
    assert capacity(QWEN3_5_27B, new, int(26.8449 * GIB)).kv_cache_size_tokens == 817015
    old = Deployment(engine_version="0.20", kv_cache_dtype="fp8", max_model_len=32768, enable_prefix_caching=True)
    held = capacity(QWEN3_5_27B, old, int(6.67 * GIB))
    assert held.kv_cache_size_tokens == 53312
    assert held.max_concurrency() == pytest.approx(5.15, abs=0.005)


def test_draft_layers_widen_the_groups() -> None:
    # 0.2x, Qwen3.6-27B with three drafted tokens on two H200: 110.59 GiB, 3,233,564 tokens, 17.54x at 184,320
    deployment = Deployment(
        engine_version="0.25",
        tensor_parallel_size=2,
        max_model_len=184320,
        num_speculative_tokens=3,
        enable_prefix_caching=False,
    )
    held = capacity(QWEN3_5_27B_MTP, deployment, int(110.59 * GIB))
    assert held.kv_cache_size_tokens == pytest.approx(3233564, rel=1e-4)
    assert held.max_concurrency() == pytest.approx(17.54, abs=0.005)


@pytest.mark.parametrize(
    "length, batched, drafts, dtype, tp, needed, available, longest",
    [
        # lines of refused starts: "… GiB KV cache is needed", "estimated maximum model length"
        (262144, 2048, 1, "bf16", 2, 8.66, 6.51, 196000),
        (196608, 2048, 3, "fp8", 1, 7.00, 6.42, 177600),
    ],
)
def test_refused_starts_of_hybrids(
    length: int, batched: int, drafts: int, dtype: str, tp: int, needed: float, available: float, longest: int
) -> None:
    deployment = Deployment(
        engine_version="0.20",
        tensor_parallel_size=tp,
        max_model_len=length,
        max_num_batched_tokens=batched,
        num_speculative_tokens=drafts,
        kv_cache_dtype=dtype,
        enable_prefix_caching=False,
    )
    held = capacity(QWEN3_5_27B_MTP, deployment, int(available * GIB))
    assert held.needed_bytes() / GIB == pytest.approx(needed, rel=0.006)
    assert held.block_size is not None
    assert abs(held.estimated_max_model_len(length) - longest) <= held.block_size


@pytest.mark.parametrize(
    "version, asked, spec, pages",
    [
        ("0.25", None, QWEN3_5_27B, 1),  # is_prefix_caching_supported: not for hybrids before 0.26
        ("0.26", None, QWEN3_5_27B, 2),
        ("0.14", True, QWEN3_5_27B, 1),  # no aligned state yet
        ("0.20", True, QWEN3_5_27B, 2),
        (None, False, QWEN3_5_27B, 1),
        (None, None, PURE, 1),  # nor for models without attention
        (None, True, PURE, 2),
    ],
)
def test_state_pages(version: str | None, asked: bool | None, spec: ModelSpec, pages: int) -> None:
    held = capacity(spec, Deployment(engine_version=version, enable_prefix_caching=asked), 10 * GIB)
    assert {group.fixed_blocks for group in held.pools[0].groups if group.kind == "state"} == {pages}


@pytest.mark.parametrize(
    "version, each",
    [("0.5.1", 2 * 128 * 256), ("0.6.6.post1", 2 * 128 * 256), ("0.7.0", 2 * 128 * 192), ("0.7.1", 576)],
)
def test_latents_were_cached_as_full_heads(version: str, each: int) -> None:
    # ModelConfig.get_head_size: 256 for DeepSeek, whose heads of 192 FlashAttention did not take
    held = capacity(DEEPSEEK_V3, Deployment(engine_version=version), GIB)
    assert held.bytes_per_token(0) == 61 * each * 2


def test_full_heads_of_a_latent_are_shared_between_ranks() -> None:
    # DeepSeek-V2-Lite on two GPUs: 27 layers, 8 of 16 heads on each, 221,184 B a token; 31,104 as latents
    lite = model((27, replace(DEEPSEEK_V3.groups[0].mixers[0], query_heads=16)))
    then, now = (
        capacity(lite, Deployment(engine_version=version, tensor_parallel_size=2), GIB) for version in ("0.5.1", None)
    )
    assert (then.bytes_per_token(0), now.bytes_per_token(0)) == (221184, 31104)


@pytest.mark.parametrize("version", ["0.10.2", "0.13", "0.14", "0.20", None])
def test_one_request_of_sparse_latents_whatever_the_version(version: str | None) -> None:
    # pages of latents and of indexes differ in size and are taken together: 61 × (1,152 + 132) B
    held = capacity(DEEPSEEK_V3_2, Deployment(engine_version=version, kv_cache_dtype="bf16"), GIB)
    assert held.needed_bytes(64 * 100) == 61 * (1152 + 132) * 64 * 100


@pytest.mark.parametrize("version, checked_gib", [("0.13", None), ("0.14.1", 24), ("0.16.0", 24), ("0.17.1", None)])
def test_one_stage_was_asked_to_hold_the_layers_of_all(version: str, checked_gib: int | None) -> None:
    # Qwen3-30B-A3B on two stages: 0.14 to 0.16 refused it below 24.0 GiB, although a stage needs 12.0
    spec = model((48, gqa(4, 128)), max_context=262144)
    held = capacity(spec, Deployment(engine_version=version, pipeline_parallel_size=2), 13 * GIB)
    assert held.needed_bytes() == 12 * GIB
    assert (held.checked.needed_bytes(262144) if held.checked else None) == (checked_gib and checked_gib * GIB)
    assert held.checked is None or not held.checked.fits(262144)


def test_of_stages_with_equal_blocks_the_one_that_grows_most_is_told() -> None:
    # Gemma-3-27B on four stages of 15, 16, 16 and 15 layers, of which 2, 3, 2 and 3 are full: 8,192 B a token each
    held = capacity(load_model("gemma-3-27b"), Deployment(pipeline_parallel_size=4), 0)
    assert held.bytes_per_token(100_000) == 3 * 8192


def test_the_largest_state_decides_the_block_of_all() -> None:
    """States of 64 and of 128 heads of 64 × 128 beside attention of 2,048 bytes a token: the block covers the larger.

    In bf16: 128 · 64 · 128 · 2 bytes, and three convolution columns of 128 · 64 + 2 · 128 channels.
    """
    both = model((2, mamba2(64, 64, 128, groups=1)), (2, mamba2(128, 64, 128, groups=1)), (4, gqa(4, 128)))
    state = 128 * 64 * 128 * 2 + 3 * (128 * 64 + 2 * 128) * 2
    held = capacity(both, Deployment(mamba_ssm_cache_dtype="bf16"), GIB)
    assert held.block_size == 16 * -(-state // (16 * 2048))


def test_printed_tokens_of_unlike_blocks() -> None:
    """Up to 0.20: blocks // groups × the smallest block size."""
    groups = tuple(Group(kind="full", layers=1, page_bytes=16, block_size=size) for size in (64, 16))
    assert printed_tokens(Pool(num_blocks=101, block_bytes=16, groups=groups), 100, planning_of("0.19")) == 50 * 16
