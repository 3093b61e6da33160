"""Buffers that grow with the longest context, ranks that share experts, and what cards without NVLink hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.engines import budget_of_start, loaded_weight_bytes, memory_before_cache
from kvcalc.engines.memory.shape import Compressed, Latents, ProfileShape
from kvcalc.engines.memory.start import Start
from kvcalc.engines.vllm.settings import vllm_settings
from kvcalc.engines.vllm.weights import absorbed_bytes
from kvcalc.engines.vllm.workspace import index_logits_bytes, reserved_bytes
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB

H200, RTX4090 = load_gpu("h200-sxm"), load_gpu("rtx4090")
SPARSE = ProfileShape(
    hidden=6144,
    vocab=154880,
    layers=78,
    latents=Latents(query_heads=64, rank=512, rope=64, indexed=True),
    packed_cache=True,
)


def reserved(shape: ProfileShape, version: str, length: int, tp: int = 8, gpu: str = "h200-sxm") -> int:
    deployment = Deployment(engine_version=version, tensor_parallel_size=tp, max_num_batched_tokens=8192)
    start = Start(shape, load_gpu(gpu), deployment, 0, max_model_len=length)
    return reserved_bytes(start, vllm_settings(start))


def test_flashmla_gathers_five_of_the_longest_context() -> None:
    """GLM-5.3-FP8 on eight H200 (0.28): 94.46 GiB were loaded, for tensors and tables of 88.31 and turned
    projections of 0.27; get_prefill_workspace_size says 5 * 1,048,576 * 576 * 2 bytes of the rest.
    """
    assert reserved(SPARSE, "0.28", 2**20) == 5 * 2**20 * 576 * 2 + 8192 * 8 * 576 * 2
    assert pytest.approx(reserved(SPARSE, "0.28", 2**20), abs=0.2 * GIB) == (94.46 - 88.31 - 0.27) * GIB


@pytest.mark.parametrize(
    "version, length, factor", [("0.28", 2**20, 5), ("0.33", 2**20, 2), ("0.33", 262_144, 5), ("0.33", 262_145, 2)]
)
def test_the_factor_by_version_and_length(version: str, length: int, factor: int) -> None:
    """sparse_mla_prefill_workspace_factor: 5 up to 256K tokens, else 2 (vLLM 0.33.0)."""
    assert reserved(SPARSE, version, length) == factor * length * 1152 + 8192 * 8 * 1152


def test_elsewhere_only_the_index_is_gathered() -> None:
    """get_max_prefill_buffer_size: 40 entries of 132 bytes for each token of the longest context."""
    assert reserved(SPARSE, "0.28", 2**20, gpu="b200-sxm") == 40 * 2**20 * 132
    assert reserved(ProfileShape(hidden=4096, vocab=128256, layers=32), "0.28", 2**20) == 0


def test_compressed_attention_gathers_four_prompts() -> None:
    shape = ProfileShape(hidden=4096, vocab=129280, layers=43, compressed=Compressed(head_dim=512, window=128, ratio=4))
    assert reserved(shape, "0.22.1", 2**20, tp=2) == 4 * (2**18 + 128 + 8192) * 512 * 2


def test_scores_of_the_index_are_in_the_peak() -> None:
    start = Start(SPARSE, H200, Deployment(engine_version="0.28"), 0, max_model_len=8192)
    assert index_logits_bytes(start, vllm_settings(start)) == 512 * 2**20


@given(length=st.integers(1, 2**20), longer=st.integers(0, 2**20), version=st.sampled_from(("0.12", "0.28", "0.33")))
def test_the_workspace_shrinks_only_where_the_factor_does(length: int, longer: int, version: str) -> None:
    same = version != "0.33" or (length > 262_144) == (length + longer > 262_144)
    if same:
        assert reserved(SPARSE, version, length) <= reserved(SPARSE, version, length + longer)


def test_latents_keep_turned_projections() -> None:
    """DeepSeek-V3: 61 layers of 128 heads, 512 by 128 + 128, in 16 bits."""
    model = load_model("deepseek-v3")
    before, after = (
        loaded_weight_bytes(model, Deployment(engine_version=version, tensor_parallel_size=8), H200)
        for version in ("0.6.4", "0.19")
    )
    assert after - before == 61 * 16 * 512 * 256 * 2
    halved = Deployment(tensor_parallel_size=8, pipeline_parallel_size=2)
    assert absorbed_bytes(model, halved) == -(-61 * 16 * 512 * 256 * 2 // 2)


def test_a_card_without_nvlink() -> None:
    """Llama-3.1-8B on one RTX 4090 (0.19, 0.9, 2,048 tokens, 256 sequences): 2,588 blocks of 2 MiB.

    Source: https://github.com/casys-kaist/LLMServingSim, meta.json of the run
    """
    deployment = Deployment(
        engine_version="0.19",
        gpu_memory_utilization=0.9,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        max_model_len=32768,
    )
    shape = ProfileShape(hidden=4096, vocab=128256, layers=32, dense_width=14336)
    found = budget_of_start(Start(shape, RTX4090, deployment, int(14.99 * GIB), max_model_len=32768))
    assert found.pool is not None
    assert found.pool.value / 2**21 == pytest.approx(2588, rel=0.03)


def test_two_cards_without_nvlink_start_at_0_95() -> None:
    """2 x RTX 3090 serve Gemma-4-31B in 4 bits at 0.95 (0.22): 1.6 GiB outside the share would not fit."""
    deployment = Deployment(
        engine_version="0.22",
        gpu_memory_utilization=0.95,
        tensor_parallel_size=2,
        max_num_seqs=4,
        max_num_batched_tokens=4096,
    )
    shape = ProfileShape(hidden=5376, vocab=262144, layers=60, dense_width=21504)
    assert budget_of_start(Start(shape, load_gpu("rtx3090"), deployment, 9 * GIB)).starts


def test_replicas_that_share_experts_pay_for_each_other() -> None:
    """Qwen3-Coder-480B-FP8, eight replicas (0.10): 32,768 * 8 * 2 * (3 * 2,560 + 6,144) bytes in the experts' pass."""
    shape = ProfileShape(hidden=6144, vocab=151936, layers=62, expert_width=2560, top_k=8, quantized=True)
    asked = {"engine_version": "0.10", "enable_expert_parallel": True, "max_num_batched_tokens": 8192}
    alone, shared = (
        budget_of_start(Start(shape, H200, checked(Deployment, asked | {"data_parallel_size": dp}), 60 * GIB))
        for dp in (1, 8)
    )
    assert shared.activation is not None
    assert shared.activation.forward > 32768 * 8 * 2 * (3 * 2560 + 6144)
    assert shared.non_torch.value > alone.non_torch.value
    assert shared.initial_use.value > alone.initial_use.value
    dense = load_model("llama-3-8b")
    replicas = [memory_before_cache(dense, H200, Deployment(data_parallel_size=dp), 16 * GIB).pool for dp in (1, 8)]
    assert replicas[0] == replicas[1]
