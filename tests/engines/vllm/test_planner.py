"""vLLM's own planner (0.33.0), run on CPU: bytes of a block, blocks of one request, and the groups' blocks.

The figures are the planner's, for the public configs whose dimensions tests/engines/models.py repeats.
"""

import pytest
from engines import models

from kvcalc.engines import capacity
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

# model, tp, max_model_len, tokens in flight, prefix caching, bytes of a block, blocks of a request, groups' blocks
PLANNED = [
    ("LLAMA_3_8B", 1, 32768, 16384, True, 2097152, 2048, {"full": [2048]}),
    ("LLAMA_3_8B", 16, 32768, 16384, True, 262144, 2048, {"full": [2048]}),
    ("QWEN3_8B", 1, 32768, 16384, True, 2359296, 2048, {"full": [2048]}),
    ("GPT_OSS_20B", 1, 32768, 16384, True, 393216, 3081, {"sliding": [1033], "full": [2048]}),
    ("GPT_OSS_120B", 1, 32768, 16384, True, 589824, 3081, {"sliding": [1033], "full": [2048]}),
    ("GEMMA_3_27B", 1, 32768, 16384, True, 1310720, 8582, {"sliding": [1089] * 6, "full": [2048]}),
    ("GEMMA_3_1B", 1, 32768, 16384, True, 65536, 8390, {"sliding": [1057] * 6, "full": [2048]}),
    ("GEMMA_4_31B", 1, 262144, 16384, True, 2621440, 13637, {"sliding": [1089] * 5, "full": [8192]}),
    ("GEMMA_4_31B", 1, 262144, 4096, True, 2621440, 9797, {"sliding": [321] * 5, "full": [8192]}),
    ("LLAMA_4_SCOUT", 1, 32768, 16384, True, 786432, 6656, {"chunked": [1536] * 3, "full": [2048]}),
    ("DEEPSEEK_V3", 1, 32768, 16384, True, 4497408, 512, {"latent": [512]}),
    ("DEEPSEEK_V3", 8, 32768, 16384, True, 4497408, 512, {"latent": [512]}),
    ("DEEPSEEK_V3_2", 1, 32768, 16384, True, 5012736, 512, {"latent": [512]}),
    ("GLM_5_2", 1, 32768, 16384, True, 5928192, 512, {"latent": [512]}),
    ("QWEN3_5_27B", 1, 262144, 16384, True, 51380224, 341, {"state": [2, 2, 2], "full": [335]}),
    ("QWEN3_5_27B", 1, 262144, 16384, False, 51380224, 338, {"state": [1, 1, 1], "full": [335]}),
    ("QWEN3_NEXT", 1, 32768, 16384, True, 13369344, 67, {"state": [2, 2, 2], "full": [61]}),
    ("QWEN3_NEXT", 4, 32768, 16384, True, 3342336, 127, {"state": [2, 2, 2], "full": [121]}),
    ("NEMOTRON_3_NANO", 1, 262144, 16384, True, 12877824, 134, {"state": [2, 2, 2, 2], "full": [126]}),
]


@pytest.mark.parametrize("name, tp, length, in_flight, caching, block_bytes, request_blocks, groups", PLANNED)
def test_blocks_are_the_planners(
    name: str,
    tp: int,
    length: int,
    in_flight: int,
    caching: bool,
    block_bytes: int,
    request_blocks: int,
    groups: dict[str, list[int]],
) -> None:
    spec: ModelSpec = getattr(models, name)
    deployment = Deployment(
        tensor_parallel_size=tp,
        max_model_len=length,
        max_num_batched_tokens=in_flight // 2,  # two batches are under way
        enable_prefix_caching=caching,
        kv_cache_dtype="bf16",
    )
    (pool,) = capacity(spec, deployment, 40 * GIB).pools
    assert pool.block_bytes == block_bytes
    assert pool.blocks(length) == request_blocks
    found: dict[str, list[int]] = {}
    for group in pool.groups:
        found.setdefault(group.kind, []).append(group.blocks(length))
    assert found == groups


def test_block_sizes_that_cover_a_state() -> None:
    # what vLLM logged as "Setting attention block size to N tokens"
    sizes = {"QWEN3_5_27B": 784, "QWEN3_NEXT": 544, "NEMOTRON_3_NANO": 2096, "QWEN3_5_9B": 528}
    for name, size in sizes.items():
        held = capacity(getattr(models, name), Deployment(), GIB)
        assert held.block_size == size, name


def test_an_fp8_cache_or_drafts_change_the_block() -> None:
    fp8 = Deployment(kv_cache_dtype="fp8")
    assert capacity(models.QWEN3_5_27B, fp8, GIB).block_size == 1568
    drafted = replace(fp8, num_speculative_tokens=3)
    held = capacity(models.QWEN3_5_27B_MTP, drafted, GIB)
    assert held.block_size == 1600
    assert [group.layers for group in held.pools[0].groups] == [16, 16, 16, 17]


def test_packed_latents() -> None:
    # 61 layers of 656 + 132 bytes; in 16 bits 1,152 + 132
    assert capacity(models.DEEPSEEK_V3_2, Deployment(kv_cache_dtype="fp8"), GIB).bytes_per_token(0) == 48068
    assert capacity(models.DEEPSEEK_V3_2, Deployment(), GIB).bytes_per_token(0) == 78324
    dense = capacity(models.DEEPSEEK_V3, Deployment(kv_cache_dtype="fp8"), GIB)
    assert dense.bytes_per_token(0) == 61 * 576


def test_scales_of_packed_heads() -> None:
    # a float32 scale for each head and side; nvfp4: half a byte and one fp8 scale for 16 elements
    spec = models.LLAMA_3_8B
    per_head = capacity(spec, Deployment(kv_cache_dtype="int8_per_token_head"), GIB)
    assert per_head.bytes_per_token(0) == 32 * 8 * (256 + 8)
    nvfp4 = capacity(spec, Deployment(kv_cache_dtype="nvfp4"), GIB)
    assert nvfp4.bytes_per_token(0) == 32 * 8 * 2 * (64 + 8)
