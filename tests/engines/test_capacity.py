"""What every engine's answer has in common, and start-up logs of vLLM for uniform models."""

import pytest
from engines import models
from engines.models import DEEPSEEK_V3, LLAMA_3_8B, filled, gqa, latent, model
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.engines import Capacity, capacity
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import CrossAttention, ModelSpec, Recurrent
from kvcalc.specs.versions import parse_version
from kvcalc.units import GB, GIB

ENGINES = ("ideal", "vllm", "sglang", "trtllm", "llamacpp")
UNIFORM = [models.LLAMA_3_8B, models.QWEN3_8B, models.DEEPSEEK_V3]
MIXED = [models.GEMMA_3_1B, models.GPT_OSS_20B, models.QWEN3_5_27B, models.QWEN3_NEXT]


def held_by(engine: str, spec: ModelSpec, pool: int, **flags: object) -> Capacity:
    fields = {"engine": engine, "max_num_seqs": 64, "max_num_batched_tokens": 2048, **flags}
    return capacity(spec, checked(Deployment, fields), pool)


def test_tokens_and_sequences_of_fifty_gigabytes() -> None:
    # Llama-3-8B, bf16: 131,072 bytes a token, 381,469 tokens, 186 sequences of 2,048
    held = capacity(LLAMA_3_8B, Deployment(engine="ideal"), 50 * GB)
    assert held.kv_cache_size_tokens == 381469
    assert held.max_batch(2048) == 186
    assert held.bytes_per_token(2048) == 131072


@pytest.mark.parametrize(
    "spec, flags, gib, tokens, blocks, concurrency",
    [
        # vLLM 0.6.4 on an RTX 3090: "# GPU blocks: 1478", "Maximum concurrency for 29000 tokens per request: 0.82x"
        (LLAMA_3_8B, {"engine_version": "0.6.4", "max_model_len": 29000}, 2.89, 23648, 1478, 0.82),
        # 0.9.0, Qwen3-8B: 18.69 GiB, 136,080 tokens, 3.32x at 40,960
        (models.QWEN3_8B, {"engine_version": "0.9.0", "max_model_len": 40960}, 18.69, 136080, 8505, 3.32),
        # 0.12, DeepSeek-R1 on eight GPUs: 41.60 GiB, 635,648 tokens, 77.59x at 8,192: the latent is whole on each
        (DEEPSEEK_V3, {"engine_version": "0.12", "max_model_len": 8192, "tensor_parallel_size": 8}, 41.6, 635648, None,
         77.59),
        # 0.20.0, Qwen3-8B on a T4: 4.79 GiB, 34,848 tokens, 8.51x at 4,096
        (models.QWEN3_8B, {"engine_version": "0.20.0", "max_model_len": 4096}, 4.79, 34848, None, 8.51),
    ],
)  # fmt: skip
def test_start_up_logs(
    spec: ModelSpec, flags: dict[str, object], gib: float, tokens: int, blocks: int | None, concurrency: float
) -> None:
    rounding = 0.005 / gib
    held = held_by("vllm", spec, int(gib * GIB), **flags)
    assert held.kv_cache_size_tokens == pytest.approx(tokens, rel=rounding)
    assert held.max_concurrency() == pytest.approx(concurrency, rel=rounding, abs=0.005)
    if blocks is not None:
        assert held.num_blocks == pytest.approx(blocks, rel=rounding)


def test_a_refused_start() -> None:
    # vLLM 0.9.1, Qwen3-8B: "4.5 GiB KV cache is needed", 4.47 available, "estimated maximum model length is 32560"
    held = held_by("vllm", models.QWEN3_8B, int(4.47 * GIB), max_model_len=32768, engine_version="0.9.1")
    assert held.needed_bytes() == 4.5 * GIB
    assert held.estimated_max_model_len(32768) == pytest.approx(32560, abs=0.005 / 4.47 * 32560)


def test_each_pipeline_stage_has_its_layers() -> None:
    # Qwen3-30B-A3B at 262,144: 24.0 GiB on one GPU, 12.0 on each of two stages
    spec = model((48, gqa(4, 128)), max_context=262144)
    one, two = (held_by("vllm", spec, 20 * GIB, pipeline_parallel_size=stages) for stages in (1, 2))
    assert (one.needed_bytes(), two.needed_bytes()) == (24 * GIB, 12 * GIB)


def test_decode_context_parallelism_spreads_the_tokens() -> None:
    # vLLM 0.11, Qwen3-235B-A22B on eight GPUs: one KV head on each, copies become tokens
    spec = model((94, gqa(4, 128, query_heads=64)), max_context=262144)
    flags = {"tensor_parallel_size": 8, "engine_version": "0.11"}
    one = held_by("vllm", spec, 80 * GIB, **flags)
    two = held_by("vllm", spec, 80 * GIB, decode_context_parallel_size=2, **flags)
    assert two.kv_cache_size_tokens == 2 * one.kv_cache_size_tokens
    ideal = held_by("ideal", spec, 80 * GIB, tensor_parallel_size=8, decode_context_parallel_size=2)
    assert ideal.bytes_per_token(0) == 94 * 256 * 2 / 2


@given(
    engine=st.sampled_from(ENGINES),
    spec=st.sampled_from(UNIFORM + MIXED),
    pool=st.integers(0, 200 * GIB),
    more=st.integers(0, 10 * GIB),
    context=st.integers(1, 8192),
    longer=st.integers(0, 4096),
)
def test_more_memory_holds_more_and_longer_sequences_are_fewer(
    engine: str, spec: ModelSpec, pool: int, more: int, context: int, longer: int
) -> None:
    small, large = (held_by(engine, spec, size, max_model_len=8192) for size in (pool, pool + more))
    assert small.max_batch(context) <= large.max_batch(context)
    assert small.max_batch(context + longer) <= small.max_batch(context)
    assert small.needed_bytes(context) <= small.needed_bytes(context + longer)
    if engine != "trtllm":  # it reserves states whatever the pool
        assert filled(small) <= pool
    assert small.estimated_max_model_len(8192) <= large.estimated_max_model_len(8192)


@given(
    engine=st.sampled_from(ENGINES[1:]),
    spec=st.sampled_from(UNIFORM),
    pool=st.integers(0, 200 * GIB),
    context=st.integers(1, 8192),
)
def test_no_engine_holds_more_than_the_mathematics(engine: str, spec: ModelSpec, pool: int, context: int) -> None:
    ideal, real = (held_by(name, spec, pool, max_model_len=8192) for name in ("ideal", engine))
    assert real.max_batch(context) <= ideal.max_batch(context)
    assert real.kv_cache_size_tokens <= ideal.kv_cache_size_tokens + 16


def test_nothing_to_keep() -> None:
    held = held_by("vllm", model((3, gqa(8, 128, owns_cache=False))), GIB)
    assert (held.max_batch(100), held.kv_cache_size_tokens, held.max_concurrency()) == (None, None, None)


def test_a_purely_recurrent_model_has_no_tokens_to_count() -> None:
    state = Recurrent(family="mamba1", conv_channels=8192, conv_kernel=4, state_elements=8192 * 16)
    held = held_by("ideal", model((64, state), max_context=None), 10 * GIB)
    assert held.kv_cache_size_tokens is None
    assert held.max_batch(1) == held.max_batch(10**6) == 10 * GIB // (64 * (8192 * 16 * 4 + 8192 * 3 * 2))


@pytest.mark.parametrize(
    "engine, spec, flags",
    [
        ("vllm", LLAMA_3_8B, {"tensor_parallel_size": 3}),
        ("ideal", LLAMA_3_8B, {"tensor_parallel_size": 5}),
        ("vllm", model((2, Recurrent(family="rg_lru", state_elements=64))), {}),
        ("vllm", LLAMA_3_8B, {"kv_cache_dtype": "fp12"}),
        ("vllm", LLAMA_3_8B, {"kv_cache_dtype": "q8_0"}),
        ("llamacpp", LLAMA_3_8B, {"kv_cache_dtype": "fp8"}),
        ("llamacpp", LLAMA_3_8B, {"kv_cache_dtype": "q8_0,f16,f16"}),
        ("vllm", LLAMA_3_8B, {"engine_version": "latest"}),
        ("trtllm", models.QWEN3_NEXT, {"max_num_seqs": None}),
        ("trtllm", models.DEEPSEEK_V4_FLASH, {}),
        ("llamacpp", models.DEEPSEEK_V4_FLASH, {}),
    ],
)
def test_what_is_not_known_is_refused(engine: str, spec: ModelSpec, flags: dict[str, object]) -> None:
    with pytest.raises(KvcalcError):
        held_by(engine, spec, GIB, **flags)


def test_a_pool_below_zero() -> None:
    with pytest.raises(KvcalcError):
        capacity(LLAMA_3_8B, Deployment(), -1)


def test_an_encoders_keys_are_fixed() -> None:
    # Whisper: 1,500 encoder positions whatever the transcript
    cross = CrossAttention(query_heads=20, kv_heads=20, head_dim=64, source_tokens=1500)
    held = held_by("vllm", model((4, gqa(20, 64, query_heads=20)), (4, cross), max_context=448), GIB)
    groups = {group.kind: group.blocks(448) for group in held.pools[0].groups}
    assert groups == {"full": 28, "cross": 94}


def test_latents_with_a_window_reserve_like_other_windows() -> None:
    windowed = replace(latent(), window=512)
    held = held_by("vllm", model((6, windowed), (2, latent()), max_context=32768), GIB)
    assert {group.kind for group in held.pools[0].groups} == {"sliding_latent", "latent"}


def test_versions_are_read() -> None:
    assert parse_version("0.21") < parse_version("0.21.1") < parse_version("v0.26.0rc2")


@pytest.mark.parametrize(
    "text", ["0.2x", "0.x", "0.10.x", "V1", "0.14-0.15", "0.9 - 0.10", "2026-08", "latest", "", "1"]
)
def test_what_is_no_version_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        held_by("vllm", LLAMA_3_8B, GIB, engine_version=text)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text, want",
    [
        ("0.10.1.1", (0, 10, 1)),
        ("0.5.6.post2", (0, 5, 6)),
        ("1.2.0-rc.3", (1, 2, 0)),
        ("0.5.9-cu129", (0, 5, 9)),
        ("0.19.2rc1.dev8+g4b7f5ea1a", (0, 19, 2)),
        ("0.20.0+cu126", (0, 20, 0)),
    ],
)
def test_what_follows_a_version(text: str, want: tuple[int, int, int]) -> None:
    assert parse_version(text) == want


def test_llama_cpp_counts_builds() -> None:
    assert held_by("llamacpp", LLAMA_3_8B, GIB, engine_version="b5500").kv_cache_size_tokens
    with pytest.raises(KvcalcError):
        held_by("llamacpp", LLAMA_3_8B, GIB, engine_version="newest")
