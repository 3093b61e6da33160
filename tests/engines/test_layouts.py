"""What tensor, pipeline, context, data and expert parallelism do to a pool and to weights, whatever the model."""

import pytest
from engines.models import DEEPSEEK_V3, DEEPSEEK_V3_2, GEMMA_3_27B, GPT_OSS_120B, LLAMA_3_8B, QWEN3_5_27B, gqa, model
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.engines import Capacity, capacity, loaded_weight_bytes
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

LATENT = (DEEPSEEK_V3, DEEPSEEK_V3_2)
MIXED = (LLAMA_3_8B, GEMMA_3_27B, GPT_OSS_120B, QWEN3_5_27B)
ENGINES = ("ideal", "vllm", "sglang", "trtllm", "llamacpp")
MOE = ("qwen3-30b-a3b", "deepseek-v3", "gpt-oss-120b", "llama-4-scout")
POOLS = st.integers(2, 60).map(lambda n: n * GIB)


def held(spec: ModelSpec, pool: int, engine: str = "vllm", **flags: object) -> Capacity:
    fields = {"engine": engine, "max_num_seqs": 64, "max_num_batched_tokens": 2048, **flags}
    return capacity(spec, checked(Deployment, fields), pool)


@given(st.sampled_from(ENGINES), st.sampled_from(MIXED), POOLS, st.sampled_from(((1, 2), (2, 4), (4, 8))))
def test_more_ranks_hold_no_less(engine: str, spec: ModelSpec, pool: int, sizes: tuple[int, int]) -> None:
    fewer, more = (held(spec, pool, engine, tensor_parallel_size=tp).max_batch(4096) or 0 for tp in sizes)
    assert more >= fewer


@given(st.sampled_from(("ideal", "vllm", "sglang", "trtllm")), st.sampled_from(LATENT), POOLS)
def test_a_latent_is_whole_on_every_rank(engine: str, spec: ModelSpec, pool: int) -> None:
    alone, many = (held(spec, pool, engine, tensor_parallel_size=tp) for tp in (1, 8))
    assert alone.kv_cache_size_tokens == many.kv_cache_size_tokens


@pytest.mark.parametrize("engine", ["ideal", "vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("tp", [8, 16, 32])
def test_ranks_beyond_the_heads_hold_copies(engine: str, tp: int) -> None:
    spec = model((32, gqa(8, 128, query_heads=32)))
    assert held(spec, GIB, engine, tensor_parallel_size=tp).bytes_per_token(0) == 131072 / 8


@given(st.sampled_from(("ideal", "vllm")), POOLS, st.sampled_from((2, 4, 8)))
def test_decode_context_parallelism_multiplies_the_tokens(engine: str, pool: int, ranks: int) -> None:
    alone, many = (
        held(DEEPSEEK_V3, pool, engine, tensor_parallel_size=8, decode_context_parallel_size=n) for n in (1, ranks)
    )
    assert alone.kv_cache_size_tokens is not None
    assert many.kv_cache_size_tokens == pytest.approx(ranks * alone.kv_cache_size_tokens, rel=0.002)
    assert many.bytes_per_token(0) == alone.bytes_per_token(0) / ranks


@given(st.sampled_from(("ideal", "vllm", "trtllm")), st.sampled_from((*LATENT, LLAMA_3_8B)), POOLS, st.integers(2, 8))
def test_the_stage_with_the_most_layers_decides(engine: str, spec: ModelSpec, pool: int, stages: int) -> None:
    whole, staged = (held(spec, pool, engine, pipeline_parallel_size=pp) for pp in (1, stages))
    share = -(-spec.layers // stages) / spec.layers
    assert staged.bytes_per_token(0) == pytest.approx(share * whole.bytes_per_token(0))
    assert (staged.max_batch(4096) or 0) >= (whole.max_batch(4096) or 0)


@given(st.sampled_from(ENGINES), st.sampled_from(MIXED), POOLS, st.integers(2, 8))
def test_replicas_do_not_share_a_cache(engine: str, spec: ModelSpec, pool: int, replicas: int) -> None:
    alone, one_of_many = (held(spec, pool, engine, data_parallel_size=n) for n in (1, replicas))
    assert alone == one_of_many


@given(st.sampled_from(MOE), st.sampled_from((1, 2, 4, 8)), st.sampled_from((1, 2, 4)), st.booleans())
def test_all_ranks_together_load_the_model(name: str, tp: int, dp: int, experts: bool) -> None:
    assume(tp * dp <= 16)  # the experts of Llama-4-Scout
    spec = load_model(name)
    fields = {"tensor_parallel_size": tp, "data_parallel_size": dp, "enable_expert_parallel": experts}
    loaded = loaded_weight_bytes(spec, checked(Deployment, fields))
    whole = loaded_weight_bytes(spec, Deployment())
    ranks = tp * dp if experts else tp
    assert loaded <= whole
    assert loaded >= whole / ranks * 0.98  # 2 %: a rotary table and paddings that one rank alone has


@given(st.sampled_from(MOE), st.sampled_from((2, 4, 8)), st.sampled_from((0, 8, 16)))
@settings(max_examples=20)
def test_redundant_experts_add_to_each_rank(name: str, tp: int, more: int) -> None:
    spec = load_model(name)
    fields = {"tensor_parallel_size": tp, "enable_expert_parallel": True}
    plain, spare = (
        loaded_weight_bytes(spec, checked(Deployment, {**fields, "num_redundant_experts": n})) for n in (0, more)
    )
    assert (spare > plain) if more else spare == plain


@pytest.mark.parametrize("name", MOE)
def test_attention_is_whole_in_every_replica(name: str) -> None:
    """DP attention with EP: eight replicas share the experts, each with all of the attention."""
    spec = load_model(name)
    alone = loaded_weight_bytes(spec, Deployment(data_parallel_size=8, enable_expert_parallel=True))
    divided = loaded_weight_bytes(spec, Deployment(tensor_parallel_size=8, enable_expert_parallel=True))
    assert alone > divided
