"""Models of architectures of their own, against published parameters and the cache that their sizes make."""

import pytest

from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import active_parameters, total_parameters
from kvcalc.counting.weights import counted_weight_bytes
from tests.catalog.real_models import spec


# Published: 2.8T parameters; its index has a total_size of 1,560,860,324,864 bytes, with a vision tower. Of 93 layers
# 69 recur, and 24 keep 512 + 64 elements of bf16 a token.
def test_kimi_k3s_experts_work_in_a_narrower_space() -> None:
    full = [*range(4, 93, 4), 93]
    linear = {"full_attn_layers": full, "kda_layers": [i for i in range(1, 94) if i not in full], "head_dim": 128,
              "num_heads": 96, "short_conv_kernel_size": 4, "use_full_rank_gate": True}  # fmt: skip
    weights = {"group_size": 32, "num_bits": 4, "type": "float", "strategy": "group", "symmetric": True}
    ignore = ["re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|down)_proj.*", "re:.*routed_expert_.*",
              "lm_head", "re:.*res_proj.*"]  # fmt: skip
    text = {
        "model_type": "kimi_linear", "hidden_size": 7168, "num_hidden_layers": 93, "num_attention_heads": 96,
        "num_key_value_heads": 96, "vocab_size": 163840, "intermediate_size": 33792, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "mla_use_output_gate": True, "linear_attn_config": linear, "attn_res_block_size": 12,
        "first_k_dense_replace": 1, "moe_intermediate_size": 3072, "routed_expert_hidden_size": 3584,
        "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2, "latent_moe_use_norm": True,
        "dtype": "bfloat16", "tie_word_embeddings": False,
        "quantization_config": {
            "config_groups": {"group_0": {"format": "mxfp4-pack-quantized", "targets": ["Linear"], "weights": weights}},
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "ignore": ignore,
        },
    }  # fmt: skip
    model = spec({"model_type": "kimi_k3", "text_config": text})
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(2.78e12, rel=0.002)
    assert counted_weight_bytes(model) == pytest.approx(1_560_860_324_864, rel=0.001)
    assert cache_profile(model).bytes_per_token == 24 * (512 + 64) * 2


# Published: 389 B parameters, 52 B active (Hunyuan-Large, arXiv 2411.02265); two layers share one cache.
def test_hunyuans_layers_share_their_caches() -> None:
    model = spec(
        {"model_type": "hunyuan", "hidden_size": 6400, "intermediate_size": 18304, "num_hidden_layers": 64,
         "num_attention_heads": 80, "num_key_value_heads": 8, "vocab_size": 128512, "num_experts": 16, "moe_topk": 1,
         "num_shared_expert": 1, "use_cla": True, "cla_share_factor": 2, "use_mixed_mlp_moe": True, "use_qk_norm": True,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(389e9, rel=0.002)
    assert active_parameters(model) == pytest.approx(52e9, rel=0.02)
    assert cache_profile(model).bytes_per_token == 64 // 2 * 2 * 8 * 80 * 2


# Published: 1.29 B and 9.1 B parameters (pfnet/plamo-2-1b, -8b); every other layer recurs.
@pytest.mark.parametrize(
    ("hidden", "layers", "heads", "kv", "want"), [(2048, 16, 16, 1, 1.29e9), (4096, 32, 32, 4, 9.1e9)]
)
def test_plamo_2(hidden: int, layers: int, heads: int, kv: int, want: float) -> None:
    model = spec(
        {"model_type": "plamo2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
         "num_key_value_heads": kv, "hidden_size_per_head": 128, "intermediate_size": 4 * hidden, "vocab_size": 100000,
         "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_num_heads": 2 * heads, "mamba_step": 2, "mamba_enabled": True,
         "tie_word_embeddings": True, "dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(want, rel=0.005)
    assert cache_profile(model).bytes_per_token == layers // 2 * 2 * kv * 128 * 2


# Published: 80 B parameters, 13 B active (tencent/Hunyuan-A13B-Instruct); its counts of experts are lists.
def test_counts_that_are_lists_of_one_entry_a_layer() -> None:
    model = spec(
        {"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072, "num_hidden_layers": 32,
         "moe_intermediate_size": [3072] * 32, "moe_topk": [8] * 32, "num_shared_expert": [1] * 32, "num_experts": 64,
         "num_attention_heads": 32, "num_key_value_heads": 8, "attention_head_dim": 128, "vocab_size": 128167,
         "use_cla": False, "cla_share_factor": 2, "use_mixed_mlp_moe": True, "use_qk_norm": True,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(80.4e9, rel=0.002)
    assert active_parameters(model) == pytest.approx(13e9, rel=0.03)
    assert cache_profile(model).bytes_per_token == 32 * 2 * 8 * 128 * 2


# Published: 2.95 B parameters (RWKV7-Goose-World3-2.9B-HF); its state is a 64 × 64 matrix a head in fp32.
def test_rwkv_7_keeps_a_state_and_no_tokens() -> None:
    model = spec(
        {"model_type": "rwkv7", "hidden_size": 2560, "hidden_ratio": 4.0, "intermediate_size": 10240, "head_dim": 64,
         "num_hidden_layers": 32, "num_heads": 32, "a_low_rank_dim": 96, "decay_low_rank_dim": 96,
         "gate_low_rank_dim": 320, "v_low_rank_dim": 64, "vocab_size": 65536, "norm_first": True, "norm_bias": True,
         "attn": None, "attn_mode": "chunk", "value_dim": [2560] * 32, "fuse_norm": True, "torch_dtype": "bfloat16",
         "tie_word_embeddings": False}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(2.95e9, rel=0.002)
    assert cache_profile(model).bytes_per_token == 0
    assert cache_profile(model).fixed_bytes == 32 * (40 * 64 * 64 * 4 + 2 * 2560 * 2)


# Published: 14.5 B parameters (baichuan-inc/Baichuan-M1-14B-Instruct); windowed layers have heads of their own.
def test_windowed_layers_with_heads_of_their_own() -> None:
    model = spec(
        {"model_type": "baichuan_m1", "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 40,
         "num_attention_heads": 20, "num_key_value_heads": 2, "num_swa_attention_heads": 40,
         "num_swa_key_value_heads": 8, "sliding_window": 8192, "sliding_window_layers": list(range(1, 40, 2)),
         "conv_window": 2, "vocab_size": 133120, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(14.5e9, rel=0.005)
    assert cache_profile(model).bytes_per_token_at_start == 20 * 2 * 2 * 256 * 2 + 20 * 2 * 8 * 128 * 2
    assert cache_profile(model).fixed_bytes == 20 * 2 * 2 * 256 * 2 + 20 * 2 * 8 * 128 * 2  # a column of each


# Published: 316 B parameters beside the vision tower, 38 B active (stepfun-ai/step3, arXiv 2507.19427); queries go
# through a width of 2,048, and one head of 256 keeps keys and values.
def test_step_3s_queries_share_a_width() -> None:
    model = spec(
        {"model_type": "step3_text", "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 64,
         "num_attention_groups": 1, "num_hidden_layers": 61, "head_dim": 256, "share_q_dim": 2048,
         "moe_intermediate_size": 5120, "moe_num_experts": 48, "moe_top_k": 3, "share_expert_dim": 5120,
         "moe_layers_enum": ",".join(map(str, range(4, 60))), "vocab_size": 128815, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(316e9, rel=0.003)
    assert active_parameters(model) == pytest.approx(38.5e9, rel=0.02)
    assert cache_profile(model).bytes_per_token == 61 * 2 * 256 * 2


# Published: 7.36 B parameters (Zyphra/Zamba2-7B); 13 of its 81 layers have attention, over twice the hidden width.
def test_zamba_2s_hybrid_layers_are_those_that_it_lists() -> None:
    hybrid = [6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77]
    model = spec(
        {"model_type": "zamba2", "hidden_size": 3584, "intermediate_size": 14336, "ffn_hidden_size": 14336,
         "num_hidden_layers": 81, "hybrid_layer_ids": hybrid, "num_attention_heads": 32, "num_key_value_heads": 32,
         "num_query_groups": 32, "attention_head_dim": 224, "attention_hidden_size": 7168, "kv_channels": 112,
         "adapter_rank": 128, "lora_rank": 128, "use_shared_block_lora": True, "use_shared_attention_adapter": False,
         "num_mem_blocks": 2, "n_mamba_heads": 112, "mamba_headdim": 64, "mamba_ngroups": 2, "mamba_d_state": 64,
         "mamba_d_conv": 4, "mamba_expand": 2, "state_size": 64, "vocab_size": 32000, "use_mem_rope": True,
         "tie_word_embeddings": True, "gated_linear_unit": True, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(7.36e9, rel=0.002)
    assert cache_profile(model).bytes_per_token == 13 * 2 * 32 * 224 * 2


# Published: 21.5 B parameters (PowerInfer/SmallThinker-21BA3B-Instruct); one layer in four reads everything.
def test_smallthinker() -> None:
    model = spec(
        {"model_type": "smallthinker", "hidden_size": 2560, "num_hidden_layers": 52, "num_attention_heads": 28,
         "num_key_value_heads": 4, "head_dim": 128, "moe_ffn_hidden_size": 768, "moe_num_primary_experts": 64,
         "moe_num_active_primary_experts": 6, "moe_layer_layout": [1] * 52, "rope_layout": [0, 1, 1, 1] * 13,
         "sliding_window_layout": [0, 1, 1, 1] * 13, "sliding_window_size": 4096, "vocab_size": 151936,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(21.5e9, rel=0.002)
    assert cache_profile(model).bytes_per_token == 13 * 2 * 4 * 128 * 2
