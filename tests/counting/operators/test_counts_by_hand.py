"""Bytes and FLOPs of single operators, worked out from configs and papers."""

import pytest
from engines.models import DEEPSEEK_V3, DEEPSEEK_V4_FLASH

from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.attention import mixer_operators
from kvcalc.counting.operators.experts import ExpertKernels, kept_bytes, padded_shape
from kvcalc.counting.operators.matmul import Matrix, activation_element_bytes, bits_per_weight, gemm, layer_gemms
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Operator, Step
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import BF16, FP8_BLOCK, FP8_CHANNEL, FP8_TENSOR, MXFP4, NVFP4, integer
from kvcalc.specs.model import LayerGroup, ModelSpec, Tensor

TP8 = Layout(tensor_parallel_size=8)


def operators(name: str, step: Step, layout: Layout | None = None) -> list[Operator]:
    return list(step_operators(load_model(name), layout or Layout(), step, "bf16"))


def of_group(model: ModelSpec, index: int, step: Step, layout: Layout | None = None) -> dict[str, Operator]:
    group = model.groups[index]
    found = mixer_operators(group, model, layout or Layout(), step, "bf16")
    return {one.name: one for one in found}


@pytest.mark.parametrize("tp", [1, 8])
def test_norms_and_activations(tp: int) -> None:
    def elements(name: str) -> list[float]:
        found = operators(name, Step(decode=2, context=10), Layout(tensor_parallel_size=tp))
        return [one.activation_bytes / (2 * 2) for one in found if one.kind == "elementwise"]

    # Two norms read and write the residual stream; rotary 32 heads of 128, an MLP of 14,336 three times.
    assert elements("llama-3-8b") == [4 * 4096 + (2 * 32 * 128 + 3 * 14336) / tp]
    # DeepSeek-V3: outputs of 128 heads of 128; three dense layers, then one shared expert of 2,048.
    dense, routed = elements("deepseek-v3")
    assert dense == 4 * 7168 + (128 * 128 + 3 * 18432) / tp
    assert routed == 4 * 7168 + (128 * 128 + 3 * 2048) / tp


def test_the_embedding_reads_and_writes_a_row_a_token() -> None:
    found = operators("llama-3-8b", Step(decode=3, context=10, prompts=2, tokens=5))[0]
    assert (found.kind, found.activation_bytes) == ("embedding", 2 * 13 * 4096 * 2)


def test_compressed_attention_reads_a_window_and_one_vector_for_four_tokens() -> None:
    # DeepSeek-V4-Flash: 64 heads, vectors of 512, a window of 128; index keys of 128 for 64 heads, the best 512 read.
    found = of_group(DEEPSEEK_V4_FLASH, 1, Step(decode=2, context=10_000))
    sliding, history, index = (found[name] for name in ("attention (sliding)", "attention (compressed)", "indexer"))
    assert (sliding.cache_bytes, sliding.flops) == (2 * 128 * 512 * 2, 2 * 128 * 4 * 64 * 512)
    assert (history.cache_bytes, history.flops) == (2 * 512 * 512 * 2, 2 * 512 * 4 * 64 * 512)
    assert (index.cache_bytes, index.flops) == (2 * 2500 * 128 * 2, 2 * 2500 * 2 * 64 * 128)
    # Of 128 tokens one vector, and no index.
    last = of_group(DEEPSEEK_V4_FLASH, 2, Step(decode=2, context=12_800))
    assert last["attention (compressed)"].cache_bytes == 2 * 100 * 512 * 2
    assert "indexer" not in last


def test_compressed_attention_of_a_chunk() -> None:
    found = of_group(DEEPSEEK_V4_FLASH, 1, Step(prompts=3, tokens=100, start=4000))
    sliding, history, index = (
        found[f"prefill {name}"] for name in ("attention (sliding)", "attention (compressed)", "indexer")
    )
    assert (sliding.flops, sliding.cache_bytes) == (3 * 4 * 64 * 512 * 100 * 128, 3 * 128 * 1024)
    assert (history.flops, history.cache_bytes) == (3 * 4 * 64 * 512 * 100 * 512, 3 * 512 * 1024)
    pairs = 100 * 4050 / 4  # the chunk's tokens see 4,000 and half of their own
    assert (index.flops, index.cache_bytes) == (3 * 2 * 64 * 128 * pairs, 3 * 1000 * 256)


def test_sparse_attention_of_a_chunk_reads_what_the_index_chooses() -> None:
    found = {one.name: one for one in operators("deepseek-v3.2", Step(prompts=1, tokens=1000, start=4000))}
    latent, index = found["prefill latent attention (sparse)"], found["prefill indexer"]
    assert latent.flops == 1000 * 2048 * 2 * 128 * (2 * 512 + 64)
    assert latent.cache_bytes == 2048 * 576 * 2
    assert index.flops == 1000 * 4500 * 2 * 64 * 128
    assert index.cache_bytes == 4000 * 128 * 2


def test_prompts_of_latents_are_expanded_or_absorbed() -> None:
    step = Step(prompts=1, tokens=1000, start=500)
    expanded, absorbed = (
        next(one for one in operators("deepseek-v3", each) if one.kind == "prefill_attention")
        for each in (step, step._replace(absorbed=True))
    )
    assert expanded.flops == 1000 * 1000 * 2 * 128 * (128 + 64 + 128)
    assert absorbed.flops == 1000 * 1000 * 2 * 128 * (512 + 512 + 64)
    assert expanded.cache_bytes == absorbed.cache_bytes == 500 * 576 * 2
    assert expanded.activation_bytes == 1000 * 128 * (128 + 64 + 128) * 2
    assert absorbed.activation_bytes == 1000 * 128 * (512 + 64 + 512) * 2


def test_a_prompts_queries_and_outputs_pass_once() -> None:
    """As its kernels were measured: 4 · rows · heads · head_dim bytes in 16 bits (time of FlashAttention's kernels)."""
    found = {one.name: one for one in operators("llama-3-8b", Step(prompts=2, tokens=1000, start=50))}
    assert found["prefill attention (full)"].activation_bytes == 4 * 2 * 1000 * 32 * 128
    sparse = {one.name: one for one in operators("deepseek-v3.2", Step(prompts=1, tokens=1000))}
    assert sparse["prefill indexer"].activation_bytes == 0  # the queries are counted where they attend
    assert sparse["prefill latent attention (sparse)"].activation_bytes == 1000 * 128 * (512 + 64 + 512) * 2


def test_ranks_of_context_parallelism_share_the_tokens() -> None:
    layout = Layout(tensor_parallel_size=8, decode_context_parallel_size=4)
    found = of_group(DEEPSEEK_V3, 0, Step(decode=2, context=1000), layout)["latent attention"]
    assert found.cache_bytes == 2 * 250 * 576 * 2
    assert found.flops == 2 * 250 * 2 * 16 * (2 * 512 + 64)


def test_a_token_that_sees_both_ways_sees_all() -> None:
    both = operators("llama-3-8b", Step(prompts=2, tokens=100, start=50, causal=False))
    found = next(one for one in both if one.kind == "prefill_attention")
    assert found.flops == 2 * 100 * 150 * 4 * 32 * 128
    assert found.cache_bytes == 2 * 50 * 4096


@pytest.mark.parametrize("tp", [1, 8])
def test_cross_attention_sees_the_image_whatever_the_context(tp: int) -> None:
    # Llama-3.2-90B-Vision: 64 heads and 8 KV heads of 128; 4 tiles of 1,601 patches.
    layout = Layout(tensor_parallel_size=tp)
    found = {
        one.name: one
        for one in operators("llama-3.2-90b-vision", Step(decode=3, context=9, prompts=2, tokens=10), layout)
    }
    decode, prompt = found["cross-attention"], found["prefill cross-attention"]
    assert decode.cache_bytes == 3 * 6404 * 2 * 8 * 128 * 2 / tp
    assert decode.flops == 3 * 6404 * 4 * 64 * 128 / tp
    assert prompt.cache_bytes == 2 * 6404 * 2 * 8 * 128 * 2 / tp
    assert prompt.flops == 2 * 10 * 6404 * 4 * 64 * 128 / tp
    assert prompt.activation_bytes == 2 * 10 * 2 * 64 * 128 * 2 / tp  # queries and outputs


def test_a_state_costs_six_flops_an_element_and_two_a_column() -> None:
    # Qwen3-Next: 32 states of 128 x 128, 8,192 channels of a convolution over four.
    for tp in (1, 2):
        step = Step(decode=3, context=9, rows_each=2)
        found = operators("qwen3-next-80b-a3b", step, Layout(tensor_parallel_size=tp))
        state = next(one for one in found if one.kind == "state")
        assert state.flops == 6 * (6 * 32 * 128 * 128 + 2 * 8192 * 4) / tp
        assert state.cache_bytes == 2 * 3 * (32 * 128 * 128 * 4 + 8192 * 3 * 2) / tp  # once for both rows


def test_bits_of_formats_with_their_scales() -> None:
    assert bits_per_weight(FP8_BLOCK, 7168) == 8 + 32 / 128**2
    assert bits_per_weight(FP8_CHANNEL, 4096) == 8 + 32 / 4096
    assert bits_per_weight(FP8_TENSOR, 4096) == 8
    assert bits_per_weight(integer(4, 128, zero_bits=4), 4096) == 4 + 20 / 128
    assert bits_per_weight(BF16, 4096) == 16
    model = load_model("llama-3-8b")
    sizes = [activation_element_bytes(form, model) for form in (BF16, FP8_BLOCK, NVFP4, integer(4, 128))]
    assert sizes == [2, 1, 0.5 + 1 / 16, 2]


def test_a_multiplication_reads_its_matrix_once_and_moves_its_rows() -> None:
    found = gemm(Matrix("x", (1000, 4096), FP8_TENSOR), 1, 3, load_model("llama-3-8b"))
    assert found.weight_bytes == 1000 * 4096
    assert found.activation_bytes == 3 * (4096 * 1 + 1000 * 2)  # fp8 in, bf16 out
    assert found.flops == 2 * 3 * 1000 * 4096
    assert gemm(Matrix("x", (1000, 4096), BF16), 1, 0, load_model("llama-3-8b")).weight_bytes == 0


def test_experts_move_inputs_outputs_and_three_widths() -> None:
    # Mixtral: two experts of 14,336 a token, hidden 4,096.
    for tp in (1, 4):
        found = operators("mixtral-8x7b", Step(decode=5, context=9), Layout(tensor_parallel_size=tp))
        experts = next(one for one in found if one.kind == "experts")
        assert experts.rows == 10
        assert experts.activation_bytes == 10 * (2 * 4096 + 3 * 14336 / tp) * 2
        assert experts.flops == 10 * 2 * 3 * 4096 * 14336 / tp


def test_replicas_that_share_experts_sum_attention_alone() -> None:
    layout = Layout(tensor_parallel_size=2, data_parallel_size=4, enable_expert_parallel=True)
    found = operators("deepseek-v3", Step(decode=32, context=9), layout)
    # Three dense layers sum twice, 58 with experts once: their outputs come back by the all-to-all.
    assert sum(one.count for one in found if one.kind == "all_reduce") == 3 * 2 + 58
    dispatch = next(one for one in found if one.name == "dispatch")
    assert (dispatch.count, dispatch.ranks) == (58, 8)
    assert dispatch.link_bytes == pytest.approx(32 / 2 * 8 * (1 - (7 / 8) ** 8) * 7168)
    # Rows of a prompt cross to each node once, those that decode go to each rank: a step of both sends both.
    mixed = operators("deepseek-v3", Step(decode=32, context=9, prompts=1, tokens=100), layout)
    sent = [(one.rows, one.top_k) for one in mixed if one.name == "dispatch"]
    assert sent == [(32 / 2, 0), (100 / 2, 8)]


MARLIN = ExpertKernels(format="mxfp4", width=128, hidden=256)


def test_experts_are_padded_to_their_kernels_multiples() -> None:
    # gpt-oss-120b over eight GPUs: experts of 2,880 and 2,880 in, 360 on each.
    assert padded_shape((720, 2880), "columns", 2, MARLIN) == (2 * 384, 3072)
    assert padded_shape((2880, 360), "rows", 1, MARLIN) == (3072, 384)
    assert padded_shape((128, 720, 2880), "columns", 2, MARLIN) == (128, 768, 3072)
    assert padded_shape((720,), "columns", 2, MARLIN) == (768,)
    assert padded_shape((2880,), "rows", 1, MARLIN) == (3072,)


def test_values_and_scales_are_kept_apart_where_kernels_rearrange_them() -> None:
    assert kept_bytes((768, 3072), MXFP4, MARLIN) == 768 * 3072 // 2 + 768 * 96
    assert kept_bytes((769,), BF16, MARLIN) == 769 * 2
    assert kept_bytes((769,), BF16, ExpertKernels(format="mxfp4", bias_bits=32)) == 769 * 4
    apart = ExpertKernels(format="mxfp4", value_inputs=128, value_outputs=64, scale_outputs=256)
    values = 832 * 3072 // 2
    assert kept_bytes((770, 3008), MXFP4, apart) == values + 1024 * 94  # 3,008 inputs have 94 scales
    both = ExpertKernels(format="mxfp4", value_inputs=128, value_outputs=64, scale_outputs=256, keeps_scales=True)
    assert kept_bytes((770, 3008), MXFP4, both) == values + 1024 * 94 + 770 * 94


def test_experts_of_one_replica_are_summed_and_not_sent() -> None:
    """Expert parallelism inside one tensor-parallel group: all ranks have all rows: two sums a layer, no more."""
    layout = Layout(tensor_parallel_size=4, enable_expert_parallel=True)
    found = operators("gpt-oss-120b", Step(decode=8, context=100), layout)
    assert sum(one.count for one in found if one.kind == "all_reduce") == 2 * 36
    assert not [one for one in found if one.kind == "all_to_all"]


def test_a_prompt_alone_brings_no_decoding_sequence() -> None:
    assert Step(prompts=1, tokens=100).split(4).decode == 0
    assert Step(decode=2, context=1).split(4).decode == 1
    assert Step(decode=64, context=1).split(4).decode == 16


def test_copies_of_a_matrix_multiply_each() -> None:
    """Three adapters of 64 × 128 in one tensor: as many outputs as one matrix of 192 × 128."""
    matrix = Tensor(name="w", shape=(64, 128), copies=3, category="other", matmul=True, format=BF16)
    group = LayerGroup(layers=(0,), tensors=(matrix,))
    found = next(iter(layer_gemms(group, load_model("llama-3-8b"), Layout(), Step(decode=2, context=1))))
    assert (found.flops, found.weight_bytes) == (2 * 2 * 192 * 128, 192 * 128 * 2)


def test_keys_and_values_of_an_image_are_projected_once() -> None:
    """Llama-3.2-90B-Vision: in 20 layers 6,404 patches of an image to 8 heads of 128, twice; text to queries."""
    found = operators("llama-3.2-90b-vision", Step(prompts=2, tokens=100))
    images = next(one for one in found if one.name == "qkv projection" and one.count == 20)
    assert (images.rows, images.flops) == (2 * 6404, 2 * 2 * 6404 * 8192 * 2 * 8 * 128)
    assert next(one for one in found if one.name == "cross_attn.q_proj").rows == 200
    decoding = operators("llama-3.2-90b-vision", Step(decode=3, context=10))
    assert [one.count for one in decoding if one.name == "qkv projection"] == [80]
