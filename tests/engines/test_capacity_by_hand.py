"""Pools worked out by hand from each engine's rule; logs and the planner itself are in the files beside this one."""

import pytest
from engines.models import (
    DEEPSEEK_V3_2,
    DEEPSEEK_V4_FLASH,
    GEMMA_3_27B,
    GPT_OSS_20B,
    LLAMA_3_8B,
    QWEN3_5_27B,
    gqa,
    latent,
    mamba2,
    model,
)

from kvcalc.engines import Capacity, capacity
from kvcalc.engines.capacity import Group, Pool
from kvcalc.engines.llamacpp.rows import row_bytes, sliding_cells
from kvcalc.engines.llamacpp.rows import state_bytes as cpp_state_bytes
from kvcalc.engines.memory.lora import adapter_bytes
from kvcalc.engines.sglang.capacity import max_running_requests
from kvcalc.engines.sglang.settled import with_attention_replicas, without_attention_replicas
from kvcalc.engines.vllm.compressed import compressed_pages
from kvcalc.engines.vllm.hybrid import aligned_block, local_state_bytes
from kvcalc.engines.vllm.pages import head_bytes, latent_bytes
from kvcalc.engines.vllm.planning import in_flight_tokens, planning_of, state_pages
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import CompressedAttention, LayerGroup, ModelSpec, Recurrent, Tensor

POOL = 10**10


def held(engine: str, spec: ModelSpec, pool: int = POOL, **flags: object) -> Capacity:
    return capacity(spec, checked(Deployment, {"engine": engine, **flags}), pool)


def pools(found: Capacity) -> dict[str, int]:
    return {pool.name: pool.num_blocks for pool in found.pools}


def test_blocks_of_a_group() -> None:
    window = Group(
        kind="sliding", layers=4, page_bytes=1, block_size=16, most_tokens=100, extra_blocks=1, weight=3, window=64,
        token_bytes=8,
    )  # fmt: skip
    assert [window.blocks(context) for context in (16, 17, 100, 9999)] == [3 * 2, 3 * 3, 3 * 8, 3 * 8]
    assert [window.growth(context) for context in (63, 64)] == [8, 0]
    state = Group(kind="state", layers=1, page_bytes=1, fixed_blocks=2, block_bytes=7)
    pool = Pool(num_blocks=50, block_bytes=10, groups=(window, state), unusable_blocks=1, held_back_blocks=1)
    assert pool.blocks(17) == 11
    assert pool.max_batch(17) == 4  # of 49
    assert pool.concurrency(17) == pytest.approx(50 / 11)
    assert pool.needed_bytes(17) == 110
    assert replace(pool, charged_block_bytes=12).needed_bytes(17) == 132
    assert replace(pool, needs_padding=False).needed_bytes(17) == 2 * 7
    assert [replace(pool, num_blocks=number).fits(17) for number in (11, 12)] == [False, True]


def test_sglangs_windows_have_eight_tenths_of_the_slots() -> None:
    # Gemma-3-27B: 8,192 bytes a token and layer, 52 layers of a window of 1,024 and ten without.
    found = held("sglang", GEMMA_3_27B)
    tokens = int(POOL / (8192 * (10 + 0.8 * 52)))
    assert pools(found) == {"full": tokens, "sliding": int(0.8 * tokens)}
    assert found.pools[1].blocks(1025) == found.pools[1].blocks(100_000) == 1025
    assert found.pools[1].blocks(1000) == 1000


@pytest.mark.parametrize("flags, kept, drafted", [({}, 5, 0), ({"enable_prefix_caching": False}, 1, 0),
                                                  ({"engine_version": "0.5.10"}, 3, 0),
                                                  ({"num_speculative_tokens": 3}, 5, 4)])  # fmt: skip
def test_sglangs_states_come_first(flags: dict[str, object], kept: int, drafted: int) -> None:
    # Qwen3.5-27B: 48 states of 48 x 128 x 128 in float32 and three columns of 10,240; 16 layers of 4 heads of 256.
    state = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)
    found = held("sglang", QWEN3_5_27B, **flags)
    slots = int((POOL * 9 / 19 - state * (1 + drafted)) // (state * (1 + drafted / kept)))
    used = (slots + 1) * state + (slots // kept + 1) * state * drafted
    assert pools(found) == {"full": int((POOL - used) / (16 * 4 * 256 * 2 * 2)), "state": slots}
    assert found.pools[1].max_batch(100) == slots // kept


def test_sparse_pages_of_sglang_hold_64_tokens_and_an_index() -> None:
    found = held("sglang", DEEPSEEK_V3_2, kv_cache_dtype="bf16")
    assert found.kv_cache_size_tokens == POOL // (61 * (576 * 2 + 132)) // 64 * 64


@pytest.mark.parametrize("tokens, requests", [(100_000, 4096), (40_000, 2500), (20_000, 2048), (1000, 500)])
def test_requests_that_sglang_admits(tokens: int, requests: int) -> None:
    # 512 for each of 8,192 tokens, between 2,048 and 4,096; two tokens each at least.
    assert max_running_requests(held("sglang", LLAMA_3_8B, tokens * 131_072), Deployment(engine="sglang")) == requests


def test_replicas_of_attention_divide_what_is_given_for_all() -> None:
    flags = {"tensor_parallel_size": 8, "data_parallel_size": 4, "enable_dp_attention": True, "max_num_seqs": 100,
             "max_num_batched_tokens": 8192, "max_mamba_cache_size": 3}  # fmt: skip
    found = with_attention_replicas(checked(Deployment, {"engine": "sglang", **flags}))
    assert (found.tensor_parallel_size, found.max_num_seqs, found.max_num_batched_tokens) == (2, 25, 2048)
    assert found.max_mamba_cache_size == 1  # never none
    typed = without_attention_replicas(found)
    assert (typed.tensor_parallel_size, typed.max_num_seqs, typed.max_num_batched_tokens) == (8, 100, 8192)


def test_tensorrt_llm_reserves_states() -> None:
    state = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)
    found = held("trtllm", QWEN3_5_27B, max_num_seqs=20)
    cell = 16 * 4 * 256 * 2 * 2
    assert pools(found) == {"full": (POOL - 20 * state) // (cell * 32), "state": 20}


def test_llama_cpps_stream_is_a_window_and_a_micro_batch() -> None:
    found = held("llamacpp", GPT_OSS_20B, max_model_len=8192)
    assert found.pools[0].blocks(8192) == 12 * 2048 * (8192 + 768)  # 128 + 512 in multiples of 256
    assert found.pools[0].blocks(8000) == found.pools[0].blocks(8192)
    assert found.kv_cache_size_tokens == int(POOL * 8192 / (12 * 2048 * (8192 + 768)))
    assert sliding_cells(4096, 1024, 2, 512) == 2560
    assert row_bytes(gqa(8, 128), ("q8_0", "f16")) == 8 * (128 * 34 // 32 + 128 * 2)
    assert row_bytes(latent(), ("f16", "f16")) == 576 * 2
    mixer = QWEN3_5_27B.groups[0].mixers[0]
    assert isinstance(mixer, Recurrent)
    assert cpp_state_bytes(mixer, drafted=2) == 3 * 4 * (48 * 128 * 128 + 3 * 10_240)


def test_slots_of_llama_cpp_share_a_stream_or_have_their_own() -> None:
    shared = held("llamacpp", LLAMA_3_8B, ctx_size=8000)
    assert shared.pools[0].num_blocks == 8192
    assert [shared.max_batch(context) for context in (100, 2048, 4096, 8192, 8193)] == [4, 4, 2, 1, 0]
    own = held("llamacpp", LLAMA_3_8B, ctx_size=8192, parallel=2)
    assert [own.max_batch(context) for context in (100, 4096, 4097)] == [2, 2, 0]
    assert (own.kv_cache_size_tokens, own.max_model_len) == (8192, 4096)


def test_packed_rows_of_vllm() -> None:
    assert latent_bytes(latent(index=True), "fp8") == 512 + 4 * 4 + 64 * 2
    assert latent_bytes(latent(), "fp8") == 576
    assert latent_bytes(latent(), "nvfp4") == 512 / 2 + 512 / 16 + 64
    assert head_bytes(128, 128, "fp8_per_token_head") == 256 + 8
    assert head_bytes(128, 64, "int4_per_token_head") == 96 + 8
    assert head_bytes(128, 64, "bf16") == 384


def test_pages_of_compressed_attention_are_whole_rows_of_576() -> None:
    def pages(group: int, dtype: str) -> list[tuple[str, int, int | None]]:
        mixer = DEEPSEEK_V4_FLASH.groups[group].mixers[0]
        assert isinstance(mixer, CompressedAttention)
        return [(one.kind, one.page_bytes, one.window) for one in compressed_pages(mixer, dtype)]

    # fp8 vectors of 448 + 2 · 64 + 8 bytes, 64 a page; states of keys and scores, of both windows where they overlap.
    assert pages(1, "fp8") == [
        ("sliding_latent", 65 * 576, 128), ("latent", 65 * 576, None), ("sliding_latent", 57 * 576, 8),
        ("index", 15 * 576, None), ("sliding_latent", 15 * 576, 8),
    ]  # fmt: skip
    assert pages(2, "fp8") == [
        ("sliding_latent", 65 * 576, 128), ("latent", 3 * 576, None), ("sliding_latent", 57 * 576, 128),
    ]  # fmt: skip
    assert pages(0, "bf16") == [("sliding_latent", 64 * 1024, 128)]


def test_a_block_grows_until_it_covers_a_state() -> None:
    assert aligned_block(16, state=100_000, attention=1000, has_latent=False) == 112  # 7 · 16,000
    assert aligned_block(16, state=96_000, attention=1000, has_latent=False) == 96
    assert aligned_block(64, state=100_000, attention=1000, has_latent=True) == 128
    assert aligned_block(256, state=100, attention=1000, has_latent=False) == 256


def test_groups_that_do_not_divide_are_repeated() -> None:
    # 64 heads of 64, states of 128, two groups of B and C: over eight ranks there are eight.
    spec = model((1, mamba2(64, 64, 128, groups=2)), state_dtype="fp32")
    mixer = spec.groups[0].mixers[0]
    assert isinstance(mixer, Recurrent)
    for tp, channels in ((1, 4096 + 512), (2, 4096 + 512), (8, 4096 + 2048)):
        flags = Deployment(tensor_parallel_size=tp, num_speculative_tokens=2)
        expected = channels // tp * (3 + 2) * 2 + 64 * 64 * 128 // tp * 4
        assert local_state_bytes(mixer, spec, flags, "bf16") == expected


def test_what_windows_and_states_keep_beside_by_version() -> None:
    two = Deployment(pipeline_parallel_size=2, max_num_batched_tokens=1000, num_speculative_tokens=3)
    old, new = planning_of("0.25"), planning_of("0.26")
    assert [in_flight_tokens(two, rules) for rules in (old, new)] == [1000, 3000]
    cached = replace(two, enable_prefix_caching=True)
    assert [state_pages(one, new, hybrid) for one, hybrid in ((two, True), (two, False), (cached, False))] == [5, 4, 5]
    assert state_pages(two, old, True) == 4
    assert state_pages(cached, planning_of("0.15"), True) == 4


def test_adapters_of_a_stage() -> None:
    # Three layers of one matrix over two stages: half of three, rounded up; one of the tables is on each stage.
    matrix = Tensor(name="w", shape=(1000, 600), category="mlp", split="columns", matmul=True)
    tables = tuple(Tensor(name=name, shape=(5000, 600), category=name, split="vocab") for name in ("embedding", "head"))
    spec = replace(LLAMA_3_8B, groups=(LayerGroup(layers=(0, 1, 2), tensors=(matrix,)),), tensors=tables, dtype="bf16")
    one, two = (
        adapter_bytes(spec, Deployment(max_loras=2, max_lora_rank=8, pipeline_parallel_size=stages))
        for stages in (1, 2)
    )
    row = 2 * 8 * 2
    assert (one.low, one.value) == (3 * 1600 * row, (3 * 1600 + 2 * 5600) * row)
    assert (two.low, two.value) == (2400 * row, (2400 + 5600) * row)
    experts = replace(matrix, category="experts", copies=10)
    spread = replace(spec, groups=(LayerGroup(layers=(0,), tensors=(experts,)),))
    flags = Deployment(max_loras=2, max_lora_rank=8, tensor_parallel_size=2, data_parallel_size=2)
    assert adapter_bytes(spread, flags).low == 10 * (500 + 600) * row
    assert adapter_bytes(spread, replace(flags, enable_expert_parallel=True)).low == 3 * 1600 * row
