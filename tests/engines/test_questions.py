"""Questions that people asked of calculators and engines, with the answers that were worked out or measured."""

import pytest
from engines.models import (
    DEEPSEEK_V3,
    DEEPSEEK_V3_2,
    GEMMA_3_27B,
    GPT_OSS_120B,
    LLAMA_3_8B,
    LLAMA_4_SCOUT,
    QWEN3_5_27B,
    gqa,
    model,
)

from kvcalc.engines import Capacity, capacity
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB, MIB


def held(spec: ModelSpec, gib: float = 10, **flags: object) -> Capacity:
    return capacity(spec, checked(Deployment, flags), int(gib * GIB))


@pytest.mark.parametrize(
    "spec, flags, want",
    [
        (LLAMA_3_8B, {}, 131072),  # a script that used hidden_size said four times as much
        (model((32, gqa(32, 128))), {}, 524288),  # Llama-2-7B, Qwen1.5-7B: a KV head for each query head
        (model((28, gqa(4, 128))), {}, 57344),  # an int8 checkpoint of Qwen2.5-7B: weight bits are not cache bits
        (model((126, gqa(8, 128, query_heads=128))), {}, 516096),  # Llama-3.1-405B: a table said twice as much
        (model((48, gqa(4, 128))), {"tensor_parallel_size": 4}, 24576),  # Qwen3-VL-30B-A3B
        (model((48, gqa(4, 128))), {"tensor_parallel_size": 8}, 24576),  # more ranks than heads: copies
        (model((48, gqa(8, 128, query_heads=40))), {"tensor_parallel_size": 2}, 98304),  # R1-Distill-Qwen-14B
        (LLAMA_4_SCOUT, {"engine": "sglang", "tensor_parallel_size": 8}, 24576),
        (DEEPSEEK_V3, {"engine": "ideal", "tensor_parallel_size": 8}, 70272),  # whole on each rank
        (DEEPSEEK_V3_2, {"engine": "sglang", "kv_cache_dtype": "fp8"}, 48068),  # with its index
        (DEEPSEEK_V3_2, {"engine": "trtllm", "kv_cache_dtype": "fp8"}, 48068),
    ],
)
def test_bytes_of_one_token_on_one_gpu(spec: ModelSpec, flags: dict[str, object], want: int) -> None:
    assert held(spec, **flags).bytes_per_token(0) == want


def test_two_numbers_of_a_windowed_model() -> None:
    # gpt-oss-120b: 5.38 GiB printed as 78,384 tokens, 73,728 bytes of each; past the window only half the layers grow
    printed = held(GPT_OSS_120B, 5.38, engine_version="0.11")
    assert printed.kv_cache_size_tokens == pytest.approx(78384, rel=0.001)
    assert printed.bytes_per_token(0) == 73728
    assert printed.bytes_per_token(4096) == 36864


def test_whole_contexts_in_llama_cpp() -> None:
    # f16: Gemma-3-27B 10.41 GiB of elements, Qwen3.5-27B 16.00 of cache, DeepSeek-V3.1 10.72
    assert held(GEMMA_3_27B, engine="ideal").needed_bytes(131072) / GIB == pytest.approx(10.41, abs=0.005)
    hybrid = held(QWEN3_5_27B, engine="llamacpp")
    assert hybrid.needed_bytes(262144) / GIB == pytest.approx(16.00 + 149.62 / 1024, abs=0.005)
    assert held(DEEPSEEK_V3, engine="llamacpp").needed_bytes(163840) / GIB == pytest.approx(10.72, abs=0.005)


def test_gemma_4_12b_at_its_context() -> None:
    # q8_0: eight layers of one KV head × 512 grow to 1.06 GiB; forty windows stay at 0.25
    spec = model((40, gqa(8, 256, query_heads=16, window=1024)), (8, gqa(1, 512, query_heads=16)), max_context=131072)
    found = held(spec, engine="llamacpp", kv_cache_dtype="q8_0")
    assert found.needed_bytes(131072) / GIB == pytest.approx(1.06 + 0.25, abs=0.01)
    assert held(spec, engine="ideal").bytes_per_token(8192) == 16 * 1024


def test_a_longer_context_fitted_after_all() -> None:
    # Qwen3.8-27B in fp8 on two GPUs: 4.99 GiB are 208 blocks; 262,144 tokens need 168 + 6; 302,921 at 131,072
    flags = {"tensor_parallel_size": 2, "kv_cache_dtype": "fp8", "enable_prefix_caching": True}
    found = held(QWEN3_5_27B, 4.99, max_model_len=131072, **flags)
    assert found.num_blocks == 208
    assert found.pools[0].blocks(262144) == 174
    assert found.kv_cache_size_tokens == 302921


def test_blocks_that_are_fewer_than_a_sequence() -> None:
    # a Llama-2-7B: 229 blocks are 3,664 tokens, 1.79 GiB; 4,096 need 2.0
    found = held(model((32, gqa(32, 128)), max_context=4096), 229 * 16 * 524288 / GIB, engine_version="0.6")
    assert (found.num_blocks, found.kv_cache_size_tokens, found.max_batch(4096)) == (229, 3664, 0)
    assert found.needed_bytes() == 2 * GIB


def test_one_user_of_three_thousand_tokens() -> None:
    assert held(model((28, gqa(4, 128))), max_model_len=3072).needed_bytes() == 168 * MIB


def test_every_layer_as_if_it_were_full() -> None:
    # an engine without groups charges Gemma-4-31B 983,040 bytes a token: 7,584 tokens take 6.94 GiB
    spec = model((60, gqa(16, 256, query_heads=32)), max_context=262144)
    assert held(spec, 6.9436).kv_cache_size_tokens == pytest.approx(7584, abs=16)
