"""TensorRT-LLM's blocks against its start-up logs."""

import pytest
from engines.models import DEEPSEEK_V3, GPT_OSS_20B, LLAMA_3_8B, QWEN3_NEXT, gqa, model

from kvcalc.engines import capacity
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

LLAMA_2_7B = model((32, gqa(32, 128)), max_context=4096)


@pytest.mark.parametrize(
    "spec, flags, pool, tokens, blocks",
    [
        # "Allocate 69524783104 bytes for k/v cache. Using 132608 tokens in paged KV cache."
        (LLAMA_2_7B, {"block_size": 64}, 69524783104, 132608, 2072),
        # two GPUs: "Number of blocks in KV cache primary pool: 4060", 64 tokens each, 63.44 GiB
        (LLAMA_2_7B, {"block_size": 64, "tensor_parallel_size": 2}, int(63.44 * GIB), 259840, 4060),
        # fp8: 8,219 blocks of 32, "Allocated 16.05 GiB for max tokens in paged KV cache (263008)"
        (LLAMA_3_8B, {"kv_cache_dtype": "fp8"}, int(16.052 * GIB), 263008, 8219),
        # DeepSeek-R1 on eight GPUs, fp8: "Allocated 0.54 GiB for max tokens in paged KV cache (16576)"
        (DEEPSEEK_V3, {"kv_cache_dtype": "fp8", "block_size": 64, "tensor_parallel_size": 8}, int(0.5425 * GIB), 16576,
         259),
    ],
)  # fmt: skip
def test_blocks_of_logs(spec: ModelSpec, flags: dict[str, object], pool: int, tokens: int, blocks: int) -> None:
    held = capacity(spec, checked(Deployment, {"engine": "trtllm", **flags}), pool)
    assert held.kv_cache_size_tokens == pytest.approx(tokens, rel=2e-4)
    assert held.num_blocks == pytest.approx(blocks, rel=2e-4)


def test_layers_with_a_window_keep_every_token() -> None:
    # resource_manager.py: "Use max_seq_len as default max_attention_window". 24 layers of 2,048 bytes a token each.
    held = capacity(GPT_OSS_20B, Deployment(engine="trtllm", max_model_len=8192), 10 * GIB)
    (pool,) = held.pools
    assert pool.block_bytes == 32 * 24 * 2048
    assert pool.num_blocks == 10 * GIB // (32 * 24 * 2048)
    assert held.max_batch(8192) == pool.num_blocks // 256


def test_states_are_reserved_first() -> None:
    one, two = (capacity(QWEN3_NEXT, Deployment(engine="trtllm", max_num_seqs=number), 20 * GIB) for number in (16, 32))
    assert one.pools[-1].num_blocks == 16
    assert one.kv_cache_size_tokens > two.kv_cache_size_tokens
    assert two.max_batch(1) == 32
